"""What the benchmarks share: one job timed on both sides, in one run, on the same cores.

The reference is pyserq 0.1.5.dev90 (extra `bench`); without it the ratios are left out. Times are
wall-clock seconds of the whole job, best of the repetitions; event counts are compared, so both did
the same work.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import sqc

try:
    import pyserq
except ImportError:
    pyserq = None

REFERENCE: str | None = getattr(pyserq, "__version__", None)
"""The version of the reference, None without it."""

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT / "tests" / "corpus"
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Job:
    """One program at one setting, run for seeds 1..n."""

    name: str
    path: Path
    sets: Mapping[str, float]
    horizon: float
    warmup: float
    seeds: int
    target: float


def best(repeat: int, work: Callable[[], Any]) -> float:
    """Seconds of the fastest of `repeat` calls."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


# --------------------------------------------------------------------------- the two sides


def reference_seconds(job: Job, repeat: int) -> tuple[float, float]:
    """Seconds and events of all runs on as many threads as cores; its programs are compiled beforehand."""
    sets = {name: repr(value) for name, value in job.sets.items()}
    programs = [
        pyserq.compile(str(job.path), horizon=job.horizon, warmup=job.warmup, seed=seed, sets=sets)
        for seed in range(1, job.seeds + 1)
    ]
    with ThreadPoolExecutor(CORES) as pool:
        events = float(sum(report.events for report in pool.map(pyserq.run, programs)))
        return best(repeat, lambda: list(pool.map(pyserq.run, programs))), events


def ours_seconds(job: Job, repeat: int) -> tuple[float, float]:
    """Seconds and events of the same runs, every metric of a sweep included; the kernel is warm and grown."""
    kernel = sqc.compile(job.path).kernel()
    inputs = {**kernel.inputs, **job.sets}
    seeds = np.arange(1, job.seeds + 1, dtype=np.uint64)

    def work() -> Any:
        return kernel.lanes(seeds, horizon=job.horizon, warmup=job.warmup, inputs=inputs, threads=CORES)

    batch = work()
    if batch.failures:
        raise SystemExit(f"{job.name}: {batch.failures}")
    return best(repeat, work), float(np.sum(batch.metrics["events"]))


def compare(jobs: Sequence[Job], repeat: int) -> list[dict[str, Any]]:
    """Events and runs per second of both sides, and their ratio, for each job."""
    rows = []
    for job in jobs:
        seconds, events = ours_seconds(job, repeat)
        row: dict[str, Any] = {
            "work": job.name,
            "runs": job.seeds,
            "events": events,
            "sqc_events_per_s": events / seconds,
            "sqc_runs_per_s": job.seeds / seconds,
            "target_ratio": job.target,
        }
        if pyserq is not None:
            seconds_there, events_there = reference_seconds(job, repeat)
            if events_there != events:
                raise SystemExit(f"{job.name}: the reference counts {events_there:.0f} events, sqc {events:.0f}")
            row["pyserq_events_per_s"] = events / seconds_there
            row["pyserq_runs_per_s"] = job.seeds / seconds_there
            row["ratio"] = seconds_there / seconds
        rows.append(row)
    return rows


def cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)


def show(console: Console, title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    table = Table(title=title, title_justify="left")
    names = list(dict.fromkeys(name for row in rows for name in row))
    for name in names:
        table.add_column(name.replace("_", " "), justify="left" if name in ("work", "what") else "right")
    for row in rows:
        table.add_row(*(cell(row.get(name)) for name in names))
    console.print(table)

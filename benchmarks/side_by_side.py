"""What the benchmarks share: one job timed on both sides, in one run, on the same cores.

The reference is pyserq 0.1.5.dev90 (extra `bench`); without it the ratios are left out. Times are
wall-clock seconds of the whole job, best of the repetitions; what is counted (events, iterations) is compared,
so both did the same work.
"""

from __future__ import annotations

import argparse
import os
import sys
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


def command_line(description: str | None, parts: Sequence[str] = ()) -> tuple[argparse.Namespace, Console]:
    """The options `--quick`, `--json` and, of what has parts, `--only`; and where the tables go."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller runs")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON on standard output")
    if parts:
        parser.add_argument("--only", choices=parts, action="append")
    options = parser.parse_args()
    return options, Console(stderr=options.json, width=None if sys.stdout.isatty() else 140)


@dataclass(frozen=True)
class Job:
    """One program at one setting, run for seeds 1..n.

    `theirs`: the program's text for the reference, where it does not read this one. `skip`: whether ours takes
    equal iterations at once.
    """

    name: str
    path: Path
    sets: Mapping[str, float]
    horizon: float
    warmup: float
    seeds: int
    target: float
    theirs: Path | None = None
    skip: bool = True


def best(repeat: int, work: Callable[[], Any]) -> float:
    """Seconds of the fastest of `repeat` calls."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


# --------------------------------------------------------------------------- the two sides


def reference_seconds(job: Job, repeat: int, unit: str) -> tuple[float, float]:
    """Seconds and the count of all runs on as many threads as cores; its programs are compiled beforehand."""

    def done(report: Any) -> float:
        return float(report.events if unit == "events" else sum(stage.iterations for stage in report.stages))

    sets = {name: repr(value) for name, value in job.sets.items()}
    programs = [
        pyserq.compile(str(job.theirs or job.path), horizon=job.horizon, warmup=job.warmup, seed=seed, sets=sets)
        for seed in range(1, job.seeds + 1)
    ]
    with ThreadPoolExecutor(CORES) as pool:
        count = sum(map(done, pool.map(pyserq.run, programs)))
        return best(repeat, lambda: list(pool.map(pyserq.run, programs))), count


def ours_seconds(job: Job, repeat: int, unit: str) -> tuple[float, float]:
    """Seconds and the count of the same runs, every metric of a sweep included; the kernel is warm and grown."""
    kernel = sqc.compile(job.path).kernel(skip=job.skip)
    inputs = {**kernel.inputs, **job.sets}
    seeds = np.arange(1, job.seeds + 1, dtype=np.uint64)

    def work() -> Any:
        return kernel.lanes(seeds, horizon=job.horizon, warmup=job.warmup, inputs=inputs, threads=CORES)

    batch = work()
    if batch.failures:
        raise SystemExit(f"{job.name}: {batch.failures}")
    counted = [value for name, value in batch.metrics.items() if name.rpartition(".")[2] == unit]
    return best(repeat, work), float(np.sum(counted))


def compare(jobs: Sequence[Job], repeat: int, unit: str = "events") -> list[dict[str, Any]]:
    """Events (or iterations) and runs per second of both sides, and their ratio, for each job."""
    rows = []
    for job in jobs:
        seconds, count = ours_seconds(job, repeat, unit)
        row: dict[str, Any] = {
            "work": job.name,
            "runs": job.seeds,
            unit: count,
            f"sqc_{unit}_per_s": count / seconds,
            "sqc_runs_per_s": job.seeds / seconds,
            "target_ratio": job.target,
        }
        if pyserq is not None:
            seconds_there, count_there = reference_seconds(job, repeat, unit)
            if count_there != count:
                raise SystemExit(f"{job.name}: the reference counts {count_there:.0f} {unit}, sqc {count:.0f}")
            row[f"pyserq_{unit}_per_s"] = count / seconds_there
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

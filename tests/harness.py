"""Running our own side in the tests: compiled programs are kept, so one text compiles once.

`run` has the shape of `reference.run`: a report as a JSON object, the samples by name, the change
points of the gauges.
"""

from __future__ import annotations

import functools
import json
import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sqc
from reference import ReferenceRun, written

TESTS = Path(__file__).parent
ROOT = TESTS.parent
CORPUS = TESTS / "corpus"
FOUNDING = CORPUS / "04-cache.sq"


Files = tuple[tuple[str, str], ...]
"""The names and texts of what lies beside a program."""


@functools.lru_cache(maxsize=32)
def compiled(source: str, files: Files = ()) -> sqc.Program:
    """The program of a text; its kernel is built at its first run and kept with it."""
    if not files:
        return sqc.compile(source=source)
    with tempfile.TemporaryDirectory() as folder:
        return sqc.compile(written(Path(folder), source, dict(files)))


@functools.lru_cache(maxsize=32)
def corpus_program(name: str) -> sqc.Program:
    """A corpus program, compiled from its file: a trace is looked for beside it."""
    return sqc.compile(CORPUS / f"{name}.sq")


def run(source: str, **setting: Any) -> ReferenceRun:
    """One run of ours of a program's text; takes what `run_of` takes, and `files` (what lies beside the program)."""
    return run_of(compiled(source, setting.pop("files", ())), **setting)


def run_of(
    program: sqc.Program,
    *,
    horizon: float,
    warmup: float = 0.0,
    seed: int = 1,
    arrivals: int | None = None,
    sets: Mapping[str, float] | None = None,
) -> ReferenceRun:
    """One run of ours; fails like the run itself (`sqc.RunError`)."""
    report = program.run(seed=seed, horizon=horizon, warmup=warmup, arrivals=arrivals, sets=dict(sets or {}))
    document: dict[str, Any] = report.json()
    rows = [*((name, report.observe(name)) for name in document["observes"])]
    rows.append(("client.response", report.client("response")))
    return ReferenceRun(
        document,
        {name: _rows(row.samples, ("time", "session", "turn", "value")) for name, row in rows},
        {row.name: _rows(row.changes, ("time", "value")) for row in report.gauges},
    )


def _rows(kept: Any, columns: tuple[str, ...]) -> list[Any]:
    return list(zip(*(getattr(kept, column).tolist() for column in columns), strict=True))


def corpus_text(name: str) -> str:
    """The text of a corpus program."""
    return (CORPUS / f"{name}.sq").read_text(encoding="utf-8")


@functools.cache
def corpus_runs(name: str) -> tuple[dict[str, Any], ...]:
    """The measured runs of a corpus program."""
    document = json.loads((CORPUS / f"{name}.json").read_text(encoding="utf-8"))
    return tuple(document["runs"])


def lanes(
    source: str,
    count: int,
    *,
    horizon: float,
    warmup: float = 0.0,
    arrivals: float = math.inf,
    sets: Mapping[str, float] | None = None,
) -> dict[str, NDArray[Any]]:
    """The metrics of seeds 1..count, one array entry per seed; none of the runs may fail."""
    kernel = compiled(source).kernel()
    seeds = np.arange(1, count + 1, dtype=np.uint64)
    inputs = {**kernel.inputs, **(sets or {})}
    batch = kernel.lanes(seeds, horizon=horizon, warmup=warmup, arrivals=arrivals, inputs=inputs)
    assert not batch.failures, batch.failures
    return dict(batch.metrics)

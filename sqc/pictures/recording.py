"""One run as time series: what every pool and stage holds, and when entries are evicted, requests refused or preempted.

A recording is an ordinary run of the program with more gauges: one for each number of each pool and
stage, counters included. So its values are those of the settled instants, as gauges have them, and
the run is the one that the seed gives without them.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sqc import ir
from sqc.inputs import InputError, Number, number, point
from sqc.inputs import seed as checked_seed
from sqc.program import Program, RunError
from sqc.report.rows import label
from sqc.textform import shortest

if TYPE_CHECKING:
    from sqc.kernel import Changes

Floats = NDArray[np.float64]

POOL_SIGNALS = {
    "used": "used",
    "cached": "cached",
    "queue": "queued",
    "holders": "holders",
    "evicted_units": "evicted_units",
    "evicted_entries": "evicted_entries",
    "rejected": "rejected",
    "preemptions": "preemptions",
    "spills": "spills",
    "cap": "cap",
}
"""The series of a pool, and what each reads. Counters count from time 0."""
STAGE_SIGNALS = {"number": "queue", "busy": "busy"}
"""The series of a stage: jobs present, and of those in service."""

_ROOM = 1 << 14
"""Changes of one series that there is room for at first; more make the run start again with more room."""


@dataclass(frozen=True, eq=False)
class Series:
    """A step function: `value[k]` holds from `time[k]` on, the last one to the end of the run."""

    time: Floats
    value: Floats

    def at(self, times: Floats) -> Floats:
        """The values that hold at times not before the first."""
        values: Floats = self.value[np.searchsorted(self.time, times, side="right") - 1]
        return values

    def jumps(self, start: float = 0.0, end: float = np.inf) -> tuple[Floats, Floats]:
        """Of a counter: the times from `start` to `end` at which it rises, and by how much."""
        rises = np.diff(self.value, prepend=0.0)
        there = (rises > 0) & (self.time >= start) & (self.time <= end)
        return self.time[there], rises[there]

    def plus(self, other: Series) -> Series:
        """The sum at every instant."""
        instants = np.unique(np.concatenate([self.time, other.time]))
        return Series(instants, self.at(instants) + other.at(instants))

    def minus(self, other: Series) -> Series:
        """The difference at every instant."""
        instants = np.unique(np.concatenate([self.time, other.time]))
        return Series(instants, self.at(instants) - other.at(instants))

    @property
    def largest(self) -> float:
        return float(self.value.max())


@dataclass(frozen=True, eq=False)
class Recording:
    """`series` by names as in the report: `pool.kv.used`, `stage.engine[0].busy`, `gauge.NAME`.

    `pools` and `stages` are the names of all members, in order of declaration (`kv`, `engine[0]`).
    """

    program: str
    seed: int
    end: float
    inputs: Mapping[str, float]
    pools: tuple[str, ...]
    stages: tuple[str, ...]
    gauges: tuple[str, ...]
    series: Mapping[str, Series]

    def to_csv(self, path: str | Path | None = None) -> str:
        """CSV with a row for each instant at which anything changed, and one for the end: the time, and the
        values that hold from it on. Written to `path` if given."""
        instants = np.unique(np.concatenate([*(s.time for s in self.series.values()), [self.end]]))
        columns = [_texts(instants), *(_texts(s.at(instants)) for s in self.series.values())]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["time", *self.series])
        writer.writerows(zip(*columns, strict=True))
        if path is not None:
            Path(path).write_text(text.getvalue(), encoding="utf-8")
        return text.getvalue()


def record(program: Program, seed: int = 1, *, until: Number, sets: Mapping[str, Number] | None = None) -> Recording:
    """Run a program once to the time `until` and keep every change. Raises RunError if the run breaks a rule,
    InputError for a wrong argument."""
    end = number(until, "until")
    if not 0 < end < math.inf:
        raise InputError(f"until {until}: must be above 0 and finite")
    inputs = point(sets or {}, program.inputs)
    whole = checked_seed(seed)
    from sqc.kernel import Kernel  # here: wrong arguments need no kernel

    watched = dict(_watched(program.ir))
    gauges = (*program.ir.gauges, *(ir.Gauge(name, value) for name, value in watched.items()))
    # For one run machine code is the best everywhere.
    watched_too = replace(program.ir, gauges=gauges)
    room = {"samples": _ROOM}
    kernel = Kernel(watched_too, samples=True, capacities=room, mode="native", cache_dir=program.cache_dir)
    result = kernel.run(whole, horizon=end, inputs=inputs)
    if result.failure is not None:
        raise RunError(result.failure, program.ir, whole)
    own = tuple(gauge.name for gauge in program.ir.gauges)
    series = {name: _series(result.gauges[name]) for name in watched}
    series |= {f"gauge.{name}": _series(result.gauges[name]) for name in own}
    pools, stages = (tuple(_members(declared)) for declared in (program.ir.pools, program.ir.stages))
    return Recording(
        program=program.ir.file,
        seed=whole,
        end=end,
        inputs=inputs,
        pools=tuple(label(*member) for member in pools),
        stages=tuple(label(*member) for member in stages),
        gauges=own,
        series=series,
    )


def _texts(column: Floats) -> list[str]:
    """Numbers as text; few of a column differ."""
    different, which = np.unique(column, return_inverse=True)
    texts = [shortest(value) for value in different.tolist()]
    return [texts[k] for k in which.tolist()]


def _series(changes: Changes) -> Series:
    return Series(changes.time, changes.value)


def _watched(program: ir.Program) -> Iterator[tuple[str, ir.Expr]]:
    """Everything that is recorded of the pools and stages, by the names of the series."""
    kinds = (("pool", program.pools, POOL_SIGNALS), ("stage", program.stages, STAGE_SIGNALS))
    for kind, declared, signals in kinds:
        for name, index in _members(declared):
            ref = ir.Ref(name, None if index is None else ir.Const(float(index)))
            for signal, reads in signals.items():
                yield f"{kind}.{label(name, index)}.{signal}", ir.Read(reads, ref)


def _members(declared: tuple[ir.Pool, ...] | tuple[ir.Stage, ...]) -> Iterator[tuple[str, int | None]]:
    for resource in declared:
        for index in (None,) if resource.size is None else range(resource.size):
            yield resource.name, index

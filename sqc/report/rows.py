"""The rows of a report: what one run says of an observation, a gauge, a claim, a stage, a pool."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sqc.report.interval import Array, batch_means, half_width, window_means

CLIENT_ROWS = ("ttft", "tpot", "response")


def label(name: str, index: int | None) -> str:
    """How a stage or pool is called in tables and metric names: `engine`, or `engine[2]`."""
    return name if index is None else f"{name}[{index}]"


def _csv(header: str, *columns: Array) -> str:
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return "\n".join([header, *(",".join(map(repr, row)) for row in rows), ""])


# --------------------------------------------------------------------------- observations


@dataclass(frozen=True, eq=False)
class Samples:
    """The samples of one row after the warm-up, in order of execution; arrays of one length."""

    time: Array = field(default_factory=lambda: np.empty(0))
    session: Array = field(default_factory=lambda: np.empty(0, np.int64))
    turn: Array = field(default_factory=lambda: np.empty(0, np.int64))
    value: Array = field(default_factory=lambda: np.empty(0))

    def __len__(self) -> int:
        return len(self.value)

    def to_csv(self) -> str:
        """CSV text with the header `time,session,turn,value`; numbers read back exactly."""
        return _csv("time,session,turn,value", self.time, self.session, self.turn, self.value)


@dataclass(frozen=True)
class SampleRow:
    """One `observe` or `client` row.

    `ci` is the half width of the 95 % interval by batch means (NaN below 40 samples), `cv2` the
    squared coefficient of variation, `p99` the 99th percentile without interpolation.
    """

    name: str
    count: int
    mean: float
    ci: float
    cv2: float
    p99: float
    samples: Samples = field(default_factory=Samples, repr=False, compare=False)

    @classmethod
    def of(cls, name: str, samples: Samples) -> SampleRow:
        """The statistics of these samples."""
        values = np.asarray(samples.value, dtype=np.float64)
        count = len(values)
        if count == 0:
            return cls(name, 0, math.nan, math.nan, math.nan, math.nan, samples)
        with np.errstate(all="ignore"):  # a program may observe inf or NaN
            mean = float(values.mean())
            cv2 = float(values.var(ddof=1)) / mean**2 if count > 1 and mean != 0 else math.nan
            rank = max(math.ceil(0.99 * count), 1)
            p99 = float(np.sort(values)[rank - 1])
            return cls(name, count, mean, batch_means(values), cv2, p99, samples)


# --------------------------------------------------------------------------- gauges


@dataclass(frozen=True, eq=False)
class Changes:
    """The change points of a gauge over the whole run: its value from each time on, the first at time 0."""

    time: Array = field(default_factory=lambda: np.empty(0))
    value: Array = field(default_factory=lambda: np.empty(0))

    def __len__(self) -> int:
        return len(self.value)

    def to_csv(self) -> str:
        """CSV text with the header `time,value`; numbers read back exactly."""
        return _csv("time,value", self.time, self.value)


@dataclass(frozen=True)
class GaugeRow:
    """One gauge from the warm-up to the end: time average, half width of its 95 % interval from 20
    equal windows of time, least and largest value held for a positive time."""

    name: str
    mean: float
    ci: float
    min: float
    max: float
    changes: Changes = field(default_factory=Changes, repr=False, compare=False)

    @classmethod
    def of(
        cls, name: str, changes: Changes, *, mean: float, least: float, most: float, start: float, end: float
    ) -> GaugeRow:
        """The row of a gauge whose mean and extremes over `[start, end]` are known."""
        ci = half_width(window_means(changes.time, changes.value, start, end))
        if least > most:  # it never was a number
            least = most = math.nan
        return cls(name, mean, ci, least, most, changes)


# --------------------------------------------------------------------------- claims


@dataclass(frozen=True)
class ClaimRow:
    """How one claim came out; the names are those of the JSON.

    `result` is `holds`, `fails`, `witnessed`, `not_witnessed`, `not_evaluated` or `out_of_scope`; `checked` how
    often it was read, `failures` how often it read 0, `first` the time of the first failure (of a claim about
    some iteration: of the first witness), `note` why it was not read.
    """

    name: str
    kind: str
    result: str
    checked: int
    failures: int
    first: float
    note: str | None = None

    @classmethod
    def at_end(cls, name: str, value: float, out_of_scope: bool, why: float, end: float) -> ClaimRow:
        """A claim at the end of a run: `value` is 1 or 0, NaN where it was not read; then `why` is the session that
        is out of scope, or how many are live."""
        if out_of_scope:
            return cls(name, "at_end", "out_of_scope", 0, 0, math.nan, _fails_given(why))
        if math.isnan(value):
            live = f"{why:.0f} session{'s' if why > 1 else ''} live at the end"
            return cls(name, "at_end", "not_evaluated", 0, 0, math.nan, live)
        if value:
            return cls(name, "at_end", "holds", 1, 0, math.nan)
        return cls(name, "at_end", "fails", 1, 1, end)

    @classmethod
    def of_iterations(
        cls, name: str, kind: str, out_of_scope: bool, why: float, checked: int, failures: int, first: float
    ) -> ClaimRow:
        """A claim about the iterations of a step stage: `checked` of them, of which `failures` read 0; those up to
        the session, `why`, that is out of scope."""
        if out_of_scope:
            return cls(name, kind, "out_of_scope", checked, failures, first, _fails_given(why))
        if kind == "every_iteration":
            result = "fails" if failures else "holds"
        else:
            result = "witnessed" if failures < checked else "not_witnessed"
        return cls(name, kind, result, checked, failures, first)


def _fails_given(session: float) -> str:
    return f"session {session:.0f} fails `given`"


# --------------------------------------------------------------------------- stages and pools


@dataclass(frozen=True)
class StageRow:
    """One stage, or one member of a stage array (`index`); the names are those of the JSON."""

    name: str
    index: int | None
    mean_number: float
    utilization: float
    completed: int
    throughput: float
    mean_wait: float
    mean_service: float
    iterations: int
    prefill_only: float = 0.0
    decode_only: float = 0.0
    mixed: float = 0.0
    mean_decodes: float = 0.0
    mean_decode_batch: float = math.nan
    mean_decode_step: float = math.nan
    mean_itl: float = math.nan
    itl_p50: float = math.nan
    itl_p99: float = math.nan
    idle_with_work: bool = False

    @property
    def label(self) -> str:
        """`engine`, or `engine[2]`."""
        return label(self.name, self.index)


@dataclass(frozen=True)
class OverCap:
    """At the end, the head of the queue of pool `queue` asks for `need` units, more than the cap."""

    queue: str
    need: float


@dataclass(frozen=True)
class PoolRow:
    """One pool, or one member of a pool array (`index`); the names are those of the JSON."""

    name: str
    index: int | None
    mean_used: float
    mean_cached: float
    mean_queue: float
    mean_holders: float
    mean_wait: float
    admissions: int
    evicted_entries: int
    evicted_units: float
    preemptions: int
    spills: int
    rejected: int
    stuck: int
    over_cap: OverCap | None = None
    growing_at_end: int = 0
    growing_stalled: bool = False

    @property
    def label(self) -> str:
        """`kv`, or `kv[2]`."""
        return label(self.name, self.index)


def statistics(row: SampleRow | GaugeRow) -> dict[str, Any]:
    """The numbers of a row by their names in the JSON."""
    names = ("count", "mean", "ci", "cv2", "p99") if isinstance(row, SampleRow) else ("mean", "ci", "min", "max")
    return {name: getattr(row, name) for name in names}

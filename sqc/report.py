"""The report of one run: exact statistics of its samples, as text, as JSON, and as objects.

Goal: the rows and the layout that serQ prints, computed from every sample of the run (a sweep,
which keeps no samples, has its own table in `sweep.py`). Times are in the program's clock unit,
amounts in the unit of their stage or pool; a statistic that is not defined is NaN.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from sqc.inputs import did_you_mean
from sqc.textform import aligned, fixed, plain, shortest
from sqc.version import SERQ_VERSION, VERSION

if TYPE_CHECKING:
    from sqc import ir

BATCHES = 20
STUDENT_19 = 2.093  # the 97.5 % quantile of Student's t with 19 degrees of freedom, as the reference rounds it
CLIENT_ROWS = ("ttft", "tpot", "response")

Array: TypeAlias = NDArray[Any]


class SampleColumns(Protocol):
    """What a run hands over for one row: equally long arrays, in order of execution."""

    @property
    def time(self) -> Array: ...
    @property
    def session(self) -> Array: ...
    @property
    def turn(self) -> Array: ...
    @property
    def value(self) -> Array: ...


class Outcome(Protocol):
    """A finished run as the kernel returns it."""

    @property
    def metrics(self) -> Mapping[str, float]: ...
    @property
    def samples(self) -> Mapping[str, SampleColumns]: ...
    @property
    def mode(self) -> str: ...


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
        columns = (self.time, self.session, self.turn, self.value)
        lines = [
            f"{time!r},{session},{turn},{value!r}"
            for time, session, turn, value in zip(*map(_listed, columns), strict=True)
        ]
        return "\n".join(["time,session,turn,value", *lines, ""])


def _listed(column: Array) -> list[Any]:
    values: list[Any] = column.tolist()
    return values


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


def batch_means(values: Array) -> float:
    """Half width of the 95 % interval of the mean from 20 consecutive batches; NaN below 40 values."""
    size = len(values) // BATCHES
    if size < 2:
        return math.nan
    means = values[: BATCHES * size].reshape(BATCHES, size).mean(axis=1)
    return STUDENT_19 * math.sqrt(float(means.var(ddof=1)) / BATCHES)


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
    over_cap: None = None
    growing_at_end: int = 0
    growing_stalled: bool = False


_Row = TypeVar("_Row", StageRow, PoolRow)
_STAGE_FLOATS = ("mean_number", "utilization", "throughput", "mean_wait", "mean_service")
_STAGE_COUNTS = ("completed", "iterations")
_POOL_FLOATS = ("mean_used", "mean_cached", "mean_queue", "mean_holders", "mean_wait", "evicted_units")
_POOL_COUNTS = ("admissions", "evicted_entries", "preemptions", "spills", "rejected", "stuck")


def label(name: str, index: int | None) -> str:
    """How a stage or pool is called in tables and metric names: `engine`, or `engine[2]`."""
    return name if index is None else f"{name}[{index}]"


@dataclass(frozen=True, eq=False)
class Report:
    """What one run says. `str(report)` is the text, `report.json()` the JSON object.

    `horizon`, `end` and `warmup` are times; `end` is below the horizon only if an arrival limit
    ended the run. `events` and `arrivals` count over the whole run, `ended` and `turns` after the
    warm-up; `mean_live` is a time average. `mode` is `native` or `portable`; `inputs` are the
    values the run had.
    """

    horizon: float
    end: float
    warmup: float
    seed: int
    events: int
    arrivals: int
    ended: int
    turns: int
    mean_live: float
    observes: tuple[SampleRow, ...]
    clients: tuple[SampleRow, ...]
    stages: tuple[StageRow, ...]
    pools: tuple[PoolRow, ...]
    mode: str
    inputs: Mapping[str, float]
    tests: frozenset[str] = frozenset()
    """The observes whose every value is a test (0 or 1)."""

    @classmethod
    def of(
        cls,
        program: ir.Program,
        run: Outcome,
        *,
        seed: int,
        horizon: float,
        warmup: float,
        inputs: Mapping[str, float],
    ) -> Report:
        """The report of a finished run of `program`."""
        metrics = run.metrics
        return cls(
            horizon=horizon,
            end=metrics["end"],
            warmup=warmup,
            seed=seed,
            events=int(metrics["events"]),
            arrivals=int(metrics["arrivals"]),
            ended=int(metrics["ended"]),
            turns=int(metrics["turns"]),
            mean_live=metrics["mean_live"],
            observes=tuple(_sample_row(run, "observe", declared.name) for declared in program.observes),
            clients=tuple(_sample_row(run, "client", name) for name in CLIENT_ROWS),
            stages=tuple(
                StageRow(stage.name, stage.index, **_resource(metrics, "stage", stage, _STAGE_FLOATS, _STAGE_COUNTS))
                for stage in program.stages
            ),
            pools=tuple(
                PoolRow(pool.name, pool.index, **_resource(metrics, "pool", pool, _POOL_FLOATS, _POOL_COUNTS))
                for pool in program.pools
            ),
            mode=run.mode,
            inputs=dict(inputs),
            tests=frozenset(declared.name for declared in program.observes if declared.test),
        )

    def observe(self, name: str) -> SampleRow:
        """The row of `observe NAME`; KeyError if the program has none."""
        return _named(self.observes, name, "observe")

    def client(self, name: str) -> SampleRow:
        """The row `response`, `ttft` or `tpot`."""
        return _named(self.clients, name, "client row")

    def stage(self, name: str, index: int | None = None) -> StageRow:
        """A stage by name, or a member of an array by name and index (or as `name[i]`)."""
        return _member(self.stages, name, index, "stage")

    def pool(self, name: str, index: int | None = None) -> PoolRow:
        """A pool by name, or a member of an array by name and index (or as `name[i]`)."""
        return _member(self.pools, name, index, "pool")

    @property
    def samples(self) -> dict[str, Samples]:
        """The samples of every row by metric name: `observe.hit`, `client.response`, ..."""
        return {f"{kind}.{row.name}": row.samples for kind, row in self._sample_rows()}

    def _sample_rows(self) -> Iterable[tuple[str, SampleRow]]:
        yield from (("observe", row) for row in self.observes)
        yield from (("client", row) for row in self.clients)

    def json(self) -> dict[str, Any]:
        """The report as JSON-ready objects; non-finite numbers are None, whole ones are ints."""
        header = ("horizon", "end", "warmup", "seed", "events", "arrivals", "ended", "turns", "mean_live")
        document: dict[str, Any] = plain(
            {
                "serq_version": SERQ_VERSION,
                **{name: getattr(self, name) for name in header},
                "observes": {row.name: _statistics(row) for row in self.observes},
                "client": {row.name: _statistics(row) for row in self.clients},
                "gauges": {},
                "stages": [asdict(row) for row in self.stages],
                "pools": [asdict(row) for row in self.pools],
                "sqc_version": VERSION,
                "mode": self.mode,
                "inputs": dict(self.inputs),
            }
        )
        return document

    def to_json(self) -> str:
        """The report as JSON text."""
        return json.dumps(self.json(), indent=1, allow_nan=False)

    def dump(self, directory: str | Path) -> None:
        """Write `report.json` and, for every row with samples, `observe.NAME.csv` or `client.NAME.csv`.

        The directory is made if it is missing. Raises OSError where the system does.
        """
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "report.json").write_text(self.to_json() + "\n", encoding="utf-8")
        for kind, row in self._sample_rows():
            if row.count:
                (folder / f"{kind}.{row.name}.csv").write_text(row.samples.to_csv(), encoding="utf-8")

    def __str__(self) -> str:
        sections = [
            [self._run_line()],
            self._observe_table(),
            _sample_table("client", [row for row in self.clients if row.count], 5),
            self._stage_table(),
            self._pool_table(),
        ]
        return "\n\n".join("\n".join(lines) for lines in sections if lines)

    def _run_line(self) -> str:
        return (
            f"run: horizon {shortest(self.horizon)} end {shortest(self.end)} warmup {shortest(self.warmup)}"
            f" seed {self.seed} events {self.events} arrivals {self.arrivals} ended {self.ended}"
            f" turns {self.turns} mean live {fixed(self.mean_live, 3)}"
        )

    def _observe_table(self) -> list[str]:
        lines = _sample_table("observe", self.observes, 4)
        for position, row in reversed(list(enumerate(self.observes))):
            if row.name in self.tests and row.count >= 2 * BATCHES and not np.any(row.samples.value):
                lines.insert(position + 3, f"note: {row.name} is constant 0 in all {row.count} samples")
        return lines

    def _stage_table(self) -> list[str]:
        header = ("stage", "number", "util", "done", "thru", "wait", "service", "iters")
        rows = [
            (
                label(row.name, row.index),
                fixed(row.mean_number, 3),
                fixed(row.utilization, 3),
                str(row.completed),
                fixed(row.throughput, 4),
                fixed(row.mean_wait, 4),
                fixed(row.mean_service, 4),
                str(row.iterations),
            )
            for row in self.stages
        ]
        return aligned(header, rows) if rows else []

    def _pool_table(self) -> list[str]:
        header = (
            *("pool", "used", "cached", "queue", "holders", "wait", "admits"),
            *("evict(n)", "evict(u)", "preempt", "spill", "rej", "stuck"),
        )
        rows = [
            (
                label(row.name, row.index),
                fixed(row.mean_used, 1),
                fixed(row.mean_cached, 1),
                fixed(row.mean_queue, 3),
                fixed(row.mean_holders, 3),
                fixed(row.mean_wait, 4),
                str(row.admissions),
                str(row.evicted_entries),
                fixed(row.evicted_units, 0),
                str(row.preemptions),
                str(row.spills),
                str(row.rejected),
                str(row.stuck),
            )
            for row in self.pools
        ]
        return aligned(header, rows) if rows else []


def _sample_row(run: Outcome, kind: str, name: str) -> SampleRow:
    kept = run.samples.get(f"{kind}.{name}")
    if kept is None:
        return SampleRow.of(name, Samples())
    session, turn = kept.session.astype(np.int64), kept.turn.astype(np.int64)
    return SampleRow.of(name, Samples(kept.time, session, turn, kept.value))


def _resource(
    metrics: Mapping[str, float], kind: str, resource: ir.Stage | ir.Pool, floats: Sequence[str], counts: Sequence[str]
) -> dict[str, Any]:
    prefix = f"{kind}.{label(resource.name, resource.index)}"
    values: dict[str, Any] = {name: float(metrics[f"{prefix}.{name}"]) for name in floats}
    return values | {name: int(metrics[f"{prefix}.{name}"]) for name in counts}


def _statistics(row: SampleRow) -> dict[str, float]:
    return {"count": row.count, "mean": row.mean, "ci": row.ci, "cv2": row.cv2, "p99": row.p99}


def _sample_table(kind: str, rows: Sequence[SampleRow], decimals: int) -> list[str]:
    header = (kind, "count", "mean", "95% CI", "cv2", "p99")
    cells = [
        (
            row.name,
            str(row.count),
            fixed(row.mean, decimals),
            "±inf" if row.count < 2 * BATCHES else f"±{fixed(row.ci, decimals)}",
            fixed(row.cv2, 3),
            fixed(row.p99, decimals),
        )
        for row in rows
    ]
    return aligned(header, cells) if cells else []


def _named(rows: Sequence[SampleRow], name: str, what: str) -> SampleRow:
    for row in rows:
        if row.name == name:
            return row
    raise KeyError(f"no {what} {name}{did_you_mean(name, (row.name for row in rows))}")


def _member(rows: Sequence[_Row], name: str, index: int | None, what: str) -> _Row:
    wanted = label(name, index)
    for row in rows:
        if label(row.name, row.index) == wanted:
            return row
    raise KeyError(f"no {what} {wanted}{did_you_mean(wanted, (label(row.name, row.index) for row in rows))}")

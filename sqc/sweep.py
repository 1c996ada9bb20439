"""The table of a sweep: every metric over the seeds of each point, with an interval and a spread.

A *point* is one combination of inputs, a *lane* is one run (one point, one seed). Failed lanes are
left out of every statistic and listed. A metric that a lane leaves undefined (the wait at a stage
that finished no job is NaN) is left out for that lane, so each statistic has its own `n`.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sqc.inputs import did_you_mean, seeds_text
from sqc.spread import Floats, Ints, Spread
from sqc.textform import plain, settings, shortest
from sqc.version import VERSION

if TYPE_CHECKING:
    from sqc import ir


class LaneFailed(Protocol):
    """What the kernel says about a lane that broke a run-time rule."""

    @property
    def code(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def time(self) -> float: ...
    @property
    def session(self) -> int: ...
    @property
    def span(self) -> ir.Span | None: ...


@dataclass(frozen=True)
class SweepFailure:
    """A lane that failed: which one, why, at what simulated time, in which session, at what statement."""

    seed: int
    point: int
    inputs: Mapping[str, float]
    code: str
    message: str
    time: float
    session: int
    span: ir.Span | None

    def __str__(self) -> str:
        at = f" at {settings(self.inputs)}" if self.inputs else ""
        place = f"{self.span.line}:{self.span.col}, session {self.session}, " if self.span else ""
        return f"seed {self.seed}{at}: {self.code}: {self.message} ({place}time {shortest(self.time)})"

    def json(self) -> dict[str, Any]:
        """JSON-ready; `line` and `col` are None where the failure has no statement."""
        document: dict[str, Any] = plain(
            {
                "seed": self.seed,
                "point": self.point,
                "inputs": dict(self.inputs),
                "code": self.code,
                "message": self.message,
                "time": self.time,
                "session": self.session,
                "line": self.span.line if self.span else None,
                "col": self.span.col if self.span else None,
            }
        )
        return document


@dataclass(frozen=True, eq=False)
class Sweep:
    """The result of `Program.sweep`. `str(sweep)` is the table, `sweep.json()` everything.

    `points` are the inputs given to the sweep, one mapping per point; `inputs` is the value of every
    input that was not varied; `lanes` holds each metric as an array [points, seeds], NaN where the
    lane failed, did not finish or leaves the metric undefined; `done` [points, seeds] tells which
    lanes came to their end, `failures` which of those failed.
    """

    program: str
    inputs: Mapping[str, float]
    points: tuple[Mapping[str, float], ...]
    seeds: tuple[int, ...]
    horizon: float
    warmup: float
    arrivals: float
    lanes: Mapping[str, Floats]
    done: NDArray[np.bool_]
    failures: tuple[SweepFailure, ...]
    mode: str

    @classmethod
    def of(
        cls,
        lane_metrics: Mapping[str, NDArray[Any]],
        lane_failures: Mapping[int, LaneFailed],
        *,
        program: str,
        inputs: Mapping[str, float],
        points: Sequence[Mapping[str, float]],
        seeds: Sequence[int],
        horizon: float,
        warmup: float,
        arrivals: float,
        mode: str,
        done: NDArray[np.bool_] | None = None,
    ) -> Sweep:
        """The table of flat lanes: lane `p * len(seeds) + s` is point `p` with seed number `s`."""
        shape = (len(points), len(seeds))
        finished = np.ones(shape, bool) if done is None else np.asarray(done, bool).reshape(shape)
        failures = tuple(
            SweepFailure(
                seed=seeds[lane % shape[1]],
                point=lane // shape[1],
                inputs=points[lane // shape[1]],
                code=failed.code,
                message=failed.message,
                time=float(failed.time),
                session=int(failed.session),
                span=failed.span,
            )
            for lane, failed in sorted(lane_failures.items())
        )
        kept = finished.copy()
        kept.reshape(-1)[list(lane_failures)] = False
        lanes = {
            name: np.where(kept, np.asarray(values, np.float64).reshape(shape), np.nan)
            for name, values in lane_metrics.items()
        }
        fixed = {name: value for name, value in inputs.items() if not points or name not in points[0]}
        return cls(
            program=program,
            inputs=fixed,
            points=tuple(points),
            seeds=tuple(seeds),
            horizon=horizon,
            warmup=warmup,
            arrivals=arrivals,
            lanes=lanes,
            done=finished,
            failures=failures,
            mode=mode,
        )

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics, in the order of a report."""
        return tuple(self.lanes)

    @property
    def interrupted(self) -> bool:
        """Whether some lanes never came to their end (the sweep was interrupted)."""
        return not bool(self.done.all())

    @property
    def failed(self) -> Ints:
        """How many lanes of each point failed."""
        return np.bincount([failure.point for failure in self.failures], minlength=len(self.points))

    @property
    def finished(self) -> Ints:
        """How many lanes of each point finished without failing."""
        counts: Ints = self.done.sum(axis=1) - self.failed
        return counts

    def metric(self, name: str) -> Spread:
        """One metric over the seeds, arrays with one entry per point; KeyError if there is none."""
        if name not in self.lanes:
            raise KeyError(f"no metric {name}{did_you_mean(name, self.lanes)}")
        return Spread.of(self.lanes[name])

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One entry per point: `inputs`, `finished`, `failed`, and `metrics` by name with
        `mean`, `half`, `sd`, `min`, `max`, `n`."""
        spreads = {name: self.metric(name) for name in self.lanes}
        finished, failed = self.finished, self.failed
        return [
            {
                "inputs": dict(point),
                "finished": int(finished[index]),
                "failed": int(failed[index]),
                "metrics": {name: spread.at(index) for name, spread in spreads.items()},
            }
            for index, point in enumerate(self.points)
        ]

    def json(self) -> dict[str, Any]:
        """Everything as JSON-ready objects; non-finite numbers are None."""
        document: dict[str, Any] = plain(
            {
                "program": self.program,
                "horizon": self.horizon,
                "warmup": self.warmup,
                "arrivals": self.arrivals,
                "seeds": seeds_text(self.seeds),
                "inputs": dict(self.inputs),
                "points": self.rows,
                "failures": [failure.json() for failure in self.failures],
                "interrupted": self.interrupted,
                "sqc_version": VERSION,
                "mode": self.mode,
            }
        )
        return document

    def to_json(self) -> str:
        """`json()` as text."""
        return json.dumps(self.json(), indent=1, allow_nan=False)

    def to_csv(self, path: str | Path | None = None) -> str:
        """CSV with one row per point: inputs, `finished`, `failed`, and for each metric `NAME`
        (the mean), `NAME.half` and `NAME.sd`; undefined cells are empty. Written to `path` if given."""
        names = list(self.points[0]) if self.points else []
        spreads = {name: self.metric(name) for name in self.lanes}
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        suffixes = (("", "mean"), (".half", "half"), (".sd", "sd"))
        finished, failed = self.finished, self.failed
        writer.writerow(
            [*names, "finished", "failed", *(f"{name}{suffix}" for name in spreads for suffix, _ in suffixes)]
        )
        for index, point in enumerate(self.points):
            cells = [getattr(spread, part)[index] for spread in spreads.values() for _, part in suffixes]
            counts = (int(finished[index]), int(failed[index]))
            writer.writerow([*map(shortest, point.values()), *counts, *map(_csv_cell, cells)])
        if path is not None:
            Path(path).write_text(text.getvalue(), encoding="utf-8")
        return text.getvalue()

    def text(self, metrics: Sequence[str] = (), width: int | None = None) -> str:
        """The table as plain text. `metrics` are names or patterns with `*` and `?`; without them, the
        most important ones that fit the width in characters (default: that of a wide page)."""
        from sqc import sweep_text

        return sweep_text.text(self, metrics, width or sweep_text.PAGE_WIDTH)

    def __str__(self) -> str:
        return self.text()


class SweepInterrupted(KeyboardInterrupt):
    """A sweep was interrupted (Ctrl-C); `partial` holds the lanes that were finished."""

    def __init__(self, partial: Sweep) -> None:
        super().__init__("the sweep was interrupted")
        self.partial = partial


def _csv_cell(value: float) -> str:
    return "" if math.isnan(value) else shortest(float(value))

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sqc.inputs import Number, did_you_mean, seeds_text
from sqc.sweeps.experiment import LaneFailed
from sqc.sweeps.looks import CONFIDENCE, Until
from sqc.sweeps.spread import Floats, Ints, Spread
from sqc.textform import plain, settings, shortest
from sqc.version import VERSION
from sqc_runtime.histogram import Histogram, Pooled

if TYPE_CHECKING:
    from sqc import ir
    from sqc.sweeps.baseline import Baseline

QUANTILES = (0.5, 0.9, 0.99, 0.999)
"""Those of pooled samples that JSON has."""


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
    lanes came to their end, `failures` which of those failed, `asked` [points, seeds] which lanes the
    sweep is to have (points differ where seeds are added `until` a metric is known well). `pooled` has the
    histograms of all samples by point and row, where they were kept. Intervals have a nominal
    `confidence` of 0.95, or more to make up for repeated looks.
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
    asked: NDArray[np.bool_]
    pooled: Pooled = field(default_factory=dict)
    until: Until | None = None
    confidence: float = CONFIDENCE

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
        asked: NDArray[np.bool_] | None = None,
        pooled: Pooled | None = None,
        until: Until | None = None,
        confidence: float = CONFIDENCE,
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
            asked=np.ones(shape, bool) if asked is None else np.asarray(asked, bool).reshape(shape),
            pooled=pooled or {},
            until=until,
            confidence=confidence,
        )

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics, in the order of a report."""
        return tuple(self.lanes)

    @property
    def interrupted(self) -> bool:
        """Whether some lanes never came to their end (the sweep was interrupted)."""
        return bool((self.asked & ~self.done).any())

    @property
    def failed(self) -> Ints:
        """How many lanes of each point failed."""
        return np.bincount([failure.point for failure in self.failures], minlength=len(self.points))

    @property
    def finished(self) -> Ints:
        """How many lanes of each point finished without failing."""
        counts: Ints = self.done.sum(axis=1) - self.failed
        return counts

    def values(self, name: str) -> Floats:
        """One metric as an array [points, seeds]; KeyError if there is none."""
        if name not in self.lanes:
            raise KeyError(f"no metric {name}{did_you_mean(name, self.lanes)}")
        return self.lanes[name]

    def metric(self, name: str) -> Spread:
        """One metric over the seeds, arrays with one entry per point; KeyError if there is none."""
        return Spread.of(self.values(name), self.confidence)

    @property
    def reached(self) -> NDArray[np.bool_]:
        """Which points have reached all targets of `until` (all have where there are none)."""
        if self.until is None:
            return np.ones(len(self.points), bool)
        return self.until.reached(self.lanes, self.confidence)

    @property
    def rows_pooled(self) -> tuple[str, ...]:
        """The rows whose samples are pooled in histograms: `client.response`, `observe.NAME`."""
        return tuple(dict.fromkeys(row for rows in self.pooled.values() for row in rows))

    def quantiles(self, row: str, q: Sequence[float]) -> Floats:
        """Quantiles of all samples of a row at each point, [points, len(q)], to 1 %; NaN where there are none."""
        if row not in self.rows_pooled:
            raise KeyError(f"no pooled samples {row}{did_you_mean(row, self.rows_pooled)}")
        found = (self.pooled.get(place, {}).get(row) for place in range(len(self.points)))
        return np.array([[h.quantile(each) if h else math.nan for each in q] for h in found])

    def baseline(self, inputs: Mapping[str, Number]) -> Baseline:
        """Every point against the one with these inputs and otherwise its own: paired differences."""
        from sqc.sweeps.baseline import Baseline

        return Baseline(self, inputs)

    @classmethod
    def open(cls, path: str | Path) -> Sweep:
        """The sweep that a folder holds, as far as it is finished. Raises StoreError if there is none."""
        from sqc.sweeps.store import Store

        return Store.open(Path(path)).sweep()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One entry per point: `inputs`, `finished`, `failed`, `metrics` by name with `mean`, `half`, `sd`,
        `min`, `max`, `n`, and `pooled`, all samples of a row, with `count`, `min`, `max` and quantiles."""
        return self._rows(QUANTILES)

    def _rows(self, quantiles: Sequence[float]) -> list[dict[str, Any]]:
        spreads = {name: self.metric(name) for name in self.lanes}
        finished, failed = self.finished, self.failed
        return [
            {
                "inputs": dict(point),
                "finished": int(finished[index]),
                "failed": int(failed[index]),
                "metrics": {name: spread.at(index) for name, spread in spreads.items()},
                "pooled": {row: _pooled(h, quantiles) for row, h in self.pooled.get(index, {}).items()},
            }
            for index, point in enumerate(self.points)
        ]

    def json(self, baseline: Baseline | None = None, quantiles: Sequence[float] = ()) -> dict[str, Any]:
        """Everything as JSON-ready objects; non-finite numbers are None.

        `baseline` adds the differences to it, `quantiles` further ones of pooled samples.
        """
        parts = sorted({*QUANTILES, *quantiles})
        compared = {} if baseline is None else {"baseline": baseline.json()}
        document: dict[str, Any] = plain(
            {
                "program": self.program,
                "horizon": self.horizon,
                "warmup": self.warmup,
                "arrivals": self.arrivals,
                "seeds": seeds_text(self.seeds),
                "inputs": dict(self.inputs),
                "points": self._rows(parts),
                "failures": [failure.json() for failure in self.failures],
                "interrupted": self.interrupted,
                "confidence": self.confidence,
                "until": self.until and self._until(),
                **compared,
                "sqc_version": VERSION,
                "mode": self.mode,
            }
        )
        return document

    def _until(self) -> dict[str, Any]:
        assert self.until is not None
        targets = {name: {"half": target, "relative": of} for name, (target, of) in self.until.targets.items()}
        return {"targets": targets, "max_seeds": self.until.most, "reached": self.reached.tolist()}

    def to_pandas(self) -> Any:
        """A pandas DataFrame with one row per finished lane: inputs, `seed`, every metric, `status`."""
        from sqc.sweeps import frames

        return frames.to_pandas(self)

    def to_xarray(self) -> Any:
        """An xarray Dataset of every metric with a dimension per varied input, and `seed`."""
        from sqc.sweeps import frames

        return frames.to_xarray(self)

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

    def text(
        self,
        metrics: Sequence[str] = (),
        width: int | None = None,
        *,
        baseline: Mapping[str, Number] | None = None,
        quantiles: Sequence[float] = (),
    ) -> str:
        """The table as plain text. `metrics` are names or patterns with `*` and `?`; without them, the
        most important ones that fit the width in characters (default: that of a wide page). Below it, where asked
        for: differences to a baseline, quantiles of pooled samples."""
        from sqc.sweeps import text as sweep_text

        extras = sweep_text.Extras(self.baseline(baseline) if baseline else None, quantiles)
        return sweep_text.text(self, metrics, width or sweep_text.PAGE_WIDTH, extras)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from sqc.sweeps.html import html

        return html(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What IPython shows where it has no HTML."""
        printer.text("..." if cycle else str(self))


class SweepInterrupted(KeyboardInterrupt):
    """A sweep was interrupted (Ctrl-C); `partial` holds the lanes that were finished."""

    def __init__(self, partial: Sweep) -> None:
        super().__init__("the sweep was interrupted")
        self.partial = partial


def _pooled(histogram: Histogram, quantiles: Sequence[float]) -> dict[str, float]:
    """All samples of a row at a point."""
    parts = {f"p{100 * q:g}": histogram.quantile(q) for q in quantiles}
    return {"count": histogram.count, "min": histogram.least, "max": histogram.largest, **parts}


def _csv_cell(value: float) -> str:
    return "" if math.isnan(value) else shortest(float(value))

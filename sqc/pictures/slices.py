"""What of a sweep a picture shows: one metric along inputs, every other input pinned or told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sqc.inputs import InputError, did_you_mean
from sqc.textform import shortest

if TYPE_CHECKING:
    from sqc.sweeps import Sweep

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Curve:
    """The mean of a metric over the seeds against an input, and half the width of its interval (inf: one seed).

    `value` is that of the input that tells the curves apart, None if there is one curve.
    """

    value: float | None
    x: Floats
    mean: Floats
    half: Floats


@dataclass(frozen=True, eq=False)
class Sample:
    """The metric of each run of a point that has it, ascending; `value` as in `Curve`."""

    value: float | None
    runs: Floats


@dataclass(frozen=True, eq=False)
class Table:
    """Means over a grid: `means[row, column]` at `rows[row]` of one input and `columns[column]` of another,
    NaN where there is no point."""

    columns: Floats
    rows: Floats
    means: Floats


@dataclass(frozen=True, eq=False)
class Cloud:
    """A point each: an input, the mean, half its interval, and the input that colours it (None: none does)."""

    x: Floats
    mean: Floats
    half: Floats
    colour: Floats | None


def varied(sweep: Sweep) -> list[str]:
    """The inputs that are not the same at all points."""
    names = list(sweep.points[0]) if sweep.points else []
    return [name for name in names if len({point[name] for point in sweep.points}) > 1]


def check_metric(sweep: Sweep, metric: str) -> None:
    """Refuse a name that is no metric of the sweep."""
    if metric not in sweep.lanes:
        raise InputError(f"no metric {metric}{did_you_mean(metric, sweep.lanes)}")


def curves(
    sweep: Sweep, metric: str, x: str, by: str | None = None, pinned: Mapping[str, float] | None = None
) -> list[Curve]:
    """One curve per value of `by`."""
    chosen = _chosen(sweep, metric, [x, *([by] if by else [])], pinned or {})
    mean, half = _means(sweep, metric)
    made = []
    for value, points in _groups(sweep, by, chosen):
        points = sorted(points, key=lambda p: sweep.points[p][x])
        at = np.array([sweep.points[p][x] for p in points])
        made.append(Curve(value, at, mean[points], half[points]))
    return made


def samples(
    sweep: Sweep, metric: str, by: str | None = None, pinned: Mapping[str, float] | None = None
) -> list[Sample]:
    """The runs of one point per value of `by`."""
    chosen = _chosen(sweep, metric, [by] if by else [], pinned or {})
    runs = {value: sweep.lanes[metric][points].reshape(-1) for value, points in _groups(sweep, by, chosen)}
    return [Sample(value, np.sort(found[np.isfinite(found)])) for value, found in runs.items()]


def table(sweep: Sweep, metric: str, x: str, by: str, pinned: Mapping[str, float] | None = None) -> Table:
    """Columns are the values of `x`, rows those of `by`."""
    chosen = _chosen(sweep, metric, [x, by], pinned or {})
    columns, rows = (np.unique([sweep.points[p][name] for p in chosen]) for name in (x, by))
    means = np.full((len(rows), len(columns)), np.nan)
    at_columns, at_rows = ([sweep.points[p][name] for p in chosen] for name in (x, by))
    if 2 * len(chosen) < means.size:
        raise InputError(f"the points are no grid over {x} and {by}: scatter shows them")
    means[np.searchsorted(rows, at_rows), np.searchsorted(columns, at_columns)] = _means(sweep, metric)[0][chosen]
    return Table(columns, rows, means)


def cloud(sweep: Sweep, metric: str, x: str, by: str | None = None, pinned: Mapping[str, float] | None = None) -> Cloud:
    """Every point, whatever else varies."""
    chosen = _chosen(sweep, metric, [x, *([by] if by else [])], pinned or {}, others=True)
    mean, half = _means(sweep, metric)
    at, colour = (None if name is None else np.array([sweep.points[p][name] for p in chosen]) for name in (x, by))
    assert at is not None
    return Cloud(at, mean[chosen], half[chosen], colour)


def is_logarithmic(values: Sequence[float] | Floats) -> bool:
    """Whether values are spaced more evenly on a logarithmic axis, and far enough for it to matter."""
    at = np.unique(np.asarray(values, np.float64))
    if len(at) < 3 or at[0] <= 0 or at[-1] < 5 * at[0]:
        return False
    plain, log = np.diff(at), np.diff(np.log(at))
    return bool(log.std() / log.mean() < plain.std() / plain.mean())


def _means(sweep: Sweep, metric: str) -> tuple[Floats, Floats]:
    """By point, the mean (NaN if it is infinite) and half its interval."""
    spread = sweep.metric(metric)
    return np.where(np.isfinite(spread.mean), spread.mean, np.nan), spread.half


def _chosen(
    sweep: Sweep, metric: str, axes: Sequence[str], pinned: Mapping[str, float], others: bool = False
) -> list[int]:
    """The points that have the pinned values. Refuses what is no picture: wrong names, inputs that vary besides
    (unless `others` may), a metric without a value."""
    check_metric(sweep, metric)
    for name in (*axes, *pinned):
        _check_input(sweep, name)
    if len(set(axes)) < len(axes):
        raise InputError(f"input {axes[0]} is asked for twice")
    chosen = list(range(len(sweep.points)))
    for name, value in pinned.items():
        if name in axes:
            raise InputError(f"input {name} is drawn and cannot be set too")
        there = sorted({point[name] for point in sweep.points})
        if value not in there:
            raise InputError(f"input {name}: no point has {shortest(value)}; there are {_several(there)}")
        chosen = [p for p in chosen if sweep.points[p][name] == value]
    free = [name for name in varied(sweep) if name not in (*axes, *pinned)]
    for name in () if others else free:
        there = sorted({sweep.points[p][name] for p in chosen})
        if len(there) > 1:
            raise InputError(f"input {name} varies too: draw it, or set it to one of {_several(there)}")
    if not np.isfinite(sweep.lanes[metric][chosen]).any():
        raise InputError(f"metric {metric} has no finite value in any of these runs")
    return chosen


def _check_input(sweep: Sweep, name: str) -> None:
    inputs = {**sweep.inputs, **(sweep.points[0] if sweep.points else {})}
    if name not in inputs:
        raise InputError(f"unknown input {name}{did_you_mean(name, inputs)}")
    if name not in varied(sweep):
        raise InputError(f"input {name} does not vary: it is {shortest(inputs[name])} at all points")


def _groups(sweep: Sweep, by: str | None, chosen: Sequence[int]) -> list[tuple[float | None, list[int]]]:
    """The points by the value of an input, in ascending order of that."""
    if by is None:
        return [(None, list(chosen))]
    values = sorted({sweep.points[p][by] for p in chosen})
    return [(value, [p for p in chosen if sweep.points[p][by] == value]) for value in values]


def _several(values: Sequence[float]) -> str:
    """Up to six values."""
    shown = [shortest(value) for value in values[:6]]
    return ", ".join(shown) + (", ..." if len(values) > 6 else "")

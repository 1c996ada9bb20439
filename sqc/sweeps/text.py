"""The text of a sweep: which metrics to show, the tables and their cells, and the lines around them."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from sqc.inputs import InputError, did_you_mean, seeds_text
from sqc.textform import aligned, fixed, settings, shortest

if TYPE_CHECKING:
    from sqc.sweeps import Sweep
    from sqc.sweeps.baseline import Baseline

PAGE_WIDTH = 140
"""Columns of text that the table may take where there is no terminal to ask."""

FAILED = "failed"
"""The header of the column that counts failed runs."""

LISTED_FAILURES = 20
LISTED_POINTS = 5

DULL_AT_ZERO = ("pool.*", "claim.*.out_of_scope")
"""Metrics that are not shown by themselves where they are 0 everywhere."""

DEFAULT_METRICS = (
    *("observe.*.mean", "client.response.mean", "client.ttft.mean", "client.tpot.mean"),
    *("claim.*.value", "claim.*.out_of_scope", "gauge.*.mean"),
    *("pool.*.evicted_entries", "pool.*.rejected", "pool.*.preemptions"),
    *("client.response.p99", "stage.*.utilization", "mean_live"),
)
"""What the text shows unless told otherwise, most important first, as far as the width allows."""


Fit: TypeAlias = Literal["all", "cut", "fold"]
"""What becomes of columns that a table has no room for: they make it wider, are left out, or begin another table."""


class Extras(NamedTuple):
    """Tables besides the main one: paired differences, quantiles of pooled samples."""

    baseline: Baseline | None = None
    quantiles: Sequence[float] = ()


class Table(NamedTuple):
    """A table of the text; the title may be empty; the first `left` columns are left-aligned."""

    title: str
    header: list[str]
    rows: list[list[str]]
    left: int = 0


def select(names: Iterable[str], patterns: Iterable[str]) -> dict[str, bool]:
    """The metrics that match names or patterns with `*` and `?`, in the order of the patterns: whether one is named."""
    known = list(names)
    chosen: dict[str, bool] = {}
    for pattern in patterns:
        if pattern in known:
            chosen[pattern] = True
            continue
        found = fnmatch.filter(known, pattern.replace("[", "[[]"))
        if not found:
            raise InputError(f"no metric {pattern}{did_you_mean(pattern, known)}")
        for name in found:
            chosen.setdefault(name, False)
    return chosen


def heading(sweep: Sweep) -> str:
    """One line that says what was run."""
    limit = f" arrivals {shortest(sweep.arrivals)}" if math.isfinite(sweep.arrivals) else ""
    fixed = f" {settings(sweep.inputs)}" if sweep.inputs else ""
    return (
        f"sweep: horizon {shortest(sweep.horizon)} warmup {shortest(sweep.warmup)}{limit}"
        f" seeds {seeds_text(sweep.seeds)} points {len(sweep.points)} runs {int(sweep.asked.sum())}"
        f" mode {sweep.mode}{fixed}"
    )


def tables(
    sweep: Sweep,
    metrics: Sequence[str] = (),
    width: int = PAGE_WIDTH,
    extras: Extras | None = None,
    fold: bool = False,
) -> list[Table]:
    """The main table: inputs, seeds finished, failed (if any did), metrics; and those that `extras` asks for.

    A metric that only a pattern chooses must be defined somewhere. Without `metrics`, those of
    `DEFAULT_METRICS` that are defined somewhere and fit the width. With `fold` a table of chosen metrics
    that is wider becomes several.
    """
    baseline, quantiles = extras or Extras()
    fit: Fit = "cut" if not metrics else "fold" if fold else "all"
    made = _main(sweep, metrics, width, fit)
    if baseline is not None:
        made += _differences(baseline, metrics, width, fit)
    if quantiles:
        made.append(_quantiles(sweep, metrics, quantiles))
    return made


def cells(sweep: Sweep, metrics: Sequence[str] = (), width: int = PAGE_WIDTH) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the main table."""
    _, header, rows, _ = _main(sweep, metrics, width, "all" if metrics else "cut")[0]
    return header, rows


def _main(sweep: Sweep, metrics: Sequence[str], width: int, fit: Fit) -> list[Table]:
    shown = [index for index in range(len(sweep.points)) if sweep.done[index].any()]
    finished, failed = sweep.finished, sweep.failed
    leading = [*_inputs(sweep, shown), ["seeds", *(str(finished[index]) for index in shown)]]
    if sweep.failures:
        leading.append([FAILED, *(str(failed[index]) for index in shown)])
    columns = ([_metric_column(sweep, name, shown)] for name in _chosen(sweep, metrics))
    return _tables("", leading, columns, width, fit)


def _differences(baseline: Baseline, metrics: Sequence[str], width: int, fit: Fit) -> list[Table]:
    """Paired differences: every metric with what pairing saved."""
    sweep, shown = baseline.sweep, [int(place) for place in baseline.compared]

    def columns() -> Iterator[list[list[str]]]:
        for name in _chosen(sweep, metrics):
            spread, saved = (difference := baseline.metric(name)).spread, difference.saved
            pairs = (plus_minus(float(spread.mean[k]), float(spread.half[k])) for k in shown)
            yield [[name, *pairs], ["saved", *(_percent(float(saved[k])) for k in shown)]]

    title = f"difference to {settings(baseline.given)}, same seeds; saved: share of its variance removed by pairing"
    return _tables(title, list(_inputs(sweep, shown)), columns(), width, fit)


def _percent(share: float) -> str:
    return "" if math.isnan(share) else f"{fixed(100 * share, 0)}%"


def _quantiles(sweep: Sweep, metrics: Sequence[str], q: Sequence[float]) -> Table:
    """Pooled samples of the rows that chosen metrics belong to, or of all rows."""
    chosen = {name.rpartition(".")[0] for name in select(sweep.lanes, metrics)}
    names = [row for row in sweep.rows_pooled if row in chosen] or sweep.rows_pooled
    shown = [index for index in range(len(sweep.points)) if sweep.done[index].any()]
    rows = [(row, index) for row in names for index in shown if row in sweep.pooled.get(index, {})]
    histograms = [sweep.pooled[index][row] for row, index in rows]
    columns = [
        ["samples of", *(row for row, _ in rows)],
        *_inputs(sweep, [index for _, index in rows]),
        ["count", *(str(histogram.count) for histogram in histograms)],
        *([f"p{100 * each:g}", *(f"{histogram.quantile(each):.5g}" for histogram in histograms)] for each in q),
    ]
    return _tables("quantiles of the samples of all seeds together, to 1 %", columns, (), 0, "all")[0]._replace(left=1)


def _inputs(sweep: Sweep, shown: Sequence[int]) -> Iterator[list[str]]:
    for name in sweep.points[0] if sweep.points else ():
        yield [name, *(shortest(sweep.points[index][name]) for index in shown)]


def _tables(
    title: str, leading: list[list[str]], groups: Iterable[list[list[str]]], width: int, fit: Fit
) -> list[Table]:
    """Leading columns, then groups of columns; where they do not fit the width, the rest is cut or begins a table."""
    parts = [list(leading)]
    taken = start = sum(_width(column) + 2 for column in leading)
    for group in groups:
        wide = sum(_width(column) + 2 for column in group)
        if fit != "all" and taken > start and taken + wide - 2 > width:
            if fit == "cut":
                break
            parts.append(list(leading))
            taken = start
        parts[-1] += group
        taken += wide
    return [
        Table(
            "" if place else title,
            [column[0] for column in columns],
            [list(row) for row in zip(*(column[1:] for column in columns), strict=True)],
        )
        for place, columns in enumerate(parts)
    ]


def _metric_column(sweep: Sweep, name: str, shown: Sequence[int]) -> list[str]:
    spread, finished = sweep.metric(name), sweep.finished
    cells = [name]
    for index in shown:
        cell = plus_minus(float(spread.mean[index]), float(spread.half[index]))
        partial = 0 < spread.n[index] < finished[index]
        cells.append(f"{cell} n={spread.n[index]}" if partial else cell)
    return cells


def _chosen(sweep: Sweep, metrics: Sequence[str]) -> Iterator[str]:
    if metrics:
        chosen = select(sweep.lanes, metrics)
        defined = [name for name, named in chosen.items() if named or not np.isnan(sweep.lanes[name]).all()]
        yield from defined or chosen
        return
    targets = tuple(sweep.until.targets) if sweep.until else ()
    yield from dict.fromkeys([*targets, *_defaults(sweep)])


def _defaults(sweep: Sweep) -> Iterator[str]:
    for pattern in DEFAULT_METRICS:
        for name in fnmatch.filter(sweep.lanes, pattern):
            values = sweep.lanes[name]
            at_zero = any(fnmatch.fnmatch(name, counted) for counted in DULL_AT_ZERO)
            dull = np.isnan(values) | ((values == 0) & at_zero)
            if not dull.all():
                yield name


def notes(sweep: Sweep, above: Sequence[Table]) -> Iterator[tuple[str, bool]]:
    """Lines below tables, and whether they tell of something amiss."""
    shown = len({name for table in above for name in table.header if name in sweep.lanes})
    looks = "" if sweep.until is None else ", corrected for repeated looks"
    some = f"; {shown} of {len(sweep.lanes)} metrics (--metric, --json)" if shown < len(sweep.lanes) else ""
    yield f"mean ± half width of the 95 % interval over seeds{looks}{some}", False
    yield from _about_until(sweep)
    if sweep.failures:
        yield f"{len(sweep.failures)} of {int(sweep.done.sum())} runs failed and are left out:", True
        yield from ((f"  {failure}", True) for failure in sweep.failures[:LISTED_FAILURES])
        if len(sweep.failures) > LISTED_FAILURES:
            yield f"  ... and {len(sweep.failures) - LISTED_FAILURES} more (--json lists all)", True
    if sweep.interrupted:
        yield f"unfinished: {int(sweep.done.sum())} of {int(sweep.asked.sum())} runs are done", True


def _about_until(sweep: Sweep) -> Iterator[tuple[str, bool]]:
    if sweep.until is None:
        return
    missed = [settings(point) for point, there in zip(sweep.points, sweep.reached, strict=True) if not there]
    if not missed:
        yield f"reached at every point: {sweep.until}", False
    elif not sweep.interrupted:
        shown = [point or "the only point" for point in missed[:LISTED_POINTS]]
        more = f" and {len(missed) - LISTED_POINTS} more" if len(missed) > LISTED_POINTS else ""
        yield f"not reached with {sweep.until.most} seeds: {sweep.until} at {', '.join(shown)}{more}", True


def text(sweep: Sweep, metrics: Sequence[str] = (), width: int = PAGE_WIDTH, extras: Extras | None = None) -> str:
    """The sweep as plain text; `metrics` are names or patterns, `width` limits the default ones."""
    made = tables(sweep, metrics, width, extras)
    lines = [heading(sweep), ""]
    for title, header, rows, left in made:
        lines += [*([title, ""] if title else []), *aligned(header, rows, left), ""]
    return "\n".join([*lines, *(line for line, _ in notes(sweep, made))])


def plus_minus(mean: float, half: float) -> str:
    """`mean ±half`, both rounded to the second significant digit of the half width."""
    if math.isnan(mean):
        return "NaN"
    if not math.isfinite(half) or half <= 1e-12 * abs(mean):
        return f"{mean:.6g} ±{'0' if half <= 1e-12 * abs(mean) else shortest(half)}"
    decimals = max(1 - math.floor(math.log10(half)), 0)
    if decimals > 9 or abs(mean) >= 1e15:
        return f"{mean:.6g} ±{half:.2g}"
    return f"{mean:.{decimals}f} ±{half:.{decimals}f}"


def _width(column: Sequence[str]) -> int:
    return max(map(len, column))

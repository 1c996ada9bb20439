"""The text of a sweep: which metrics to show, the cells, and the lines around the table."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sqc.inputs import InputError, did_you_mean, seeds_text
from sqc.textform import aligned, settings, shortest

if TYPE_CHECKING:
    from sqc.sweep import Sweep

PAGE_WIDTH = 140
"""Columns of text that the table may take where there is no terminal to ask."""

LISTED_FAILURES = 20

DULL_AT_ZERO = ("pool.*", "claim.*.out_of_scope")
"""Metrics that are not shown by themselves where they are 0 everywhere."""

DEFAULT_METRICS = (
    *("observe.*.mean", "client.response.mean", "client.ttft.mean", "client.tpot.mean"),
    *("claim.*.value", "claim.*.out_of_scope", "gauge.*.mean"),
    *("pool.*.evicted_entries", "pool.*.rejected", "pool.*.preemptions"),
    *("client.response.p99", "stage.*.utilization", "mean_live"),
)
"""What the text shows unless told otherwise, most important first, as far as the width allows."""


def select(names: Iterable[str], patterns: Iterable[str]) -> list[str]:
    """The metrics that match names or patterns with `*` and `?`, in the order of the patterns."""
    known = list(names)
    chosen: dict[str, None] = {}
    for pattern in patterns:
        found = [name for name in known if name == pattern] or fnmatch.filter(known, pattern.replace("[", "[[]"))
        if not found:
            raise InputError(f"no metric {pattern}{did_you_mean(pattern, known)}")
        chosen.update(dict.fromkeys(found))
    return list(chosen)


def heading(sweep: Sweep) -> str:
    """One line that says what was run."""
    limit = f" arrivals {shortest(sweep.arrivals)}" if math.isfinite(sweep.arrivals) else ""
    fixed = f" {settings(sweep.inputs)}" if sweep.inputs else ""
    return (
        f"sweep: horizon {shortest(sweep.horizon)} warmup {shortest(sweep.warmup)}{limit}"
        f" seeds {seeds_text(sweep.seeds)} points {len(sweep.points)} runs {sweep.done.size} mode {sweep.mode}{fixed}"
    )


def cells(sweep: Sweep, metrics: Sequence[str] = (), width: int = PAGE_WIDTH) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the text table: inputs, seeds finished, failed (if any did), metrics.

    Without `metrics`, those of `DEFAULT_METRICS` that are defined somewhere and fit the width.
    """
    shown = [index for index in range(len(sweep.points)) if sweep.done[index].any()]
    columns = list(_leading_columns(sweep, shown))
    taken = sum(_width(column) + 2 for column in columns)
    chosen = select(sweep.lanes, metrics) if metrics else list(_defaults(sweep))
    for position, name in enumerate(chosen):
        column = _metric_column(sweep, name, shown)
        taken += _width(column) + 2
        if not metrics and position and taken - 2 > width:
            break
        columns.append(column)
    return [column[0] for column in columns], [
        list(row) for row in zip(*(column[1:] for column in columns), strict=True)
    ]


def _leading_columns(sweep: Sweep, shown: Sequence[int]) -> Iterator[list[str]]:
    for name in sweep.points[0] if sweep.points else ():
        yield [name, *(shortest(sweep.points[index][name]) for index in shown)]
    finished, failed = sweep.finished, sweep.failed
    yield ["seeds", *(str(finished[index]) for index in shown)]
    if sweep.failures:
        yield ["failed", *(str(failed[index]) for index in shown)]


def _metric_column(sweep: Sweep, name: str, shown: Sequence[int]) -> list[str]:
    spread, finished = sweep.metric(name), sweep.finished
    cells = [name]
    for index in shown:
        cell = plus_minus(float(spread.mean[index]), float(spread.half[index]))
        partial = 0 < spread.n[index] < finished[index]
        cells.append(f"{cell} n={spread.n[index]}" if partial else cell)
    return cells


def _defaults(sweep: Sweep) -> Iterator[str]:
    for pattern in DEFAULT_METRICS:
        for name in fnmatch.filter(sweep.lanes, pattern):
            values = sweep.lanes[name]
            at_zero = any(fnmatch.fnmatch(name, counted) for counted in DULL_AT_ZERO)
            dull = np.isnan(values) | ((values == 0) & at_zero)
            if not dull.all():
                yield name


def notes(sweep: Sweep, shown: int) -> list[str]:
    """Lines below a table that shows so many metrics: what the cells mean, failures, interruption."""
    lines = ["mean ± half width of the 95 % interval over seeds"]
    if shown < len(sweep.lanes):
        lines[0] += f"; {shown} of {len(sweep.lanes)} metrics (--metric NAME picks, --json and --csv have all)"
    if sweep.failures:
        lines.append(f"{len(sweep.failures)} of {sweep.done.size} runs failed and are left out:")
        lines += [f"  {failure}" for failure in sweep.failures[:LISTED_FAILURES]]
        if len(sweep.failures) > LISTED_FAILURES:
            lines.append(f"  ... and {len(sweep.failures) - LISTED_FAILURES} more (--json lists all)")
    if sweep.interrupted:
        lines.append(f"interrupted: {int(sweep.done.sum())} of {sweep.done.size} runs are done")
    return lines


def text(sweep: Sweep, metrics: Sequence[str] = (), width: int = PAGE_WIDTH) -> str:
    """The table as plain text; `metrics` are names or patterns, `width` limits the default ones."""
    header, rows = cells(sweep, metrics, width)
    shown = sum(name in sweep.lanes for name in header)
    table = aligned(header, rows, left=0)
    return "\n".join([heading(sweep), "", *table, "", *notes(sweep, shown)])


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

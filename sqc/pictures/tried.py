"""What a search tried: the objective and the bounds against each input, the best point marked.

A column for each input, a row for the objective and one for each bound. Points with more runs are larger. Few
points far off would flatten all others, so an axis ends where nine in ten points are in it, and says what is beyond.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sqc.pictures.chart import ticks
from sqc.pictures.style import FAINT, GREY, INK, SCREEN, check_width, inches, look
from sqc.search.objective import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sqc.search.outcome import Outcome, Tried

_BEST = "#c8443c"
_HEIGHT, _PANEL = 6.0, 4.0
"""Of the row of the objective and of one of a bound, in cm."""
_SHOWN = 90.0
"""Per cent of the points that an axis has at least."""


def tried(outcome: Outcome, width: float = SCREEN) -> Figure:
    """The figure of a search, `width` cm wide."""
    with look():
        from matplotlib.figure import Figure

        names, bounds = list(outcome.over), outcome.bounds
        height = _HEIGHT + _PANEL * len(bounds) + 1.0
        figure = Figure(figsize=(inches(check_width(width)), inches(height)), layout="constrained")
        grid: Any = figure.subplots(
            1 + len(bounds),
            len(names),
            squeeze=False,
            sharex="col",
            sharey="row",
            height_ratios=[_HEIGHT, *[_PANEL] * len(bounds)],
        )
        every, best = outcome.tried, outcome.verdict
        for row, axes in enumerate(grid):
            estimates = [_shown(point, row) for point in every]
            for name, panel in zip(names, axes, strict=True):
                _points(panel, name, every, estimates)
                _best(panel, best.inputs[name], _shown(best, row))
                if row:
                    panel.axhline(0, color=INK, linewidth=0.8, linestyle=(0, (5, 1.5)))
                low, high, logarithmic = outcome.over[name]
                if logarithmic:
                    panel.set_xscale("log")
                ticks(panel.xaxis, logarithmic, width / 2 / len(names), min(low, high), max(low, high))
            _limits(axes[0], estimates, _shown(best, row), bool(row))
            axes[0].set_ylabel("minimized" if not row else "excess")
            axes[0].set_title(outcome.minimize if not row else bounds[row - 1], loc="left", parse_math=False)
        for name, panel in zip(names, grid[-1], strict=True):
            panel.set_xlabel(name, parse_math=False)
        _legend(figure, bool(bounds))
        return figure


def _shown(point: Tried, row: int) -> Estimate:
    return point.excess[row - 1] if row else point.value


def _points(panel: Axes, name: str, every: Sequence[Tried], estimates: Sequence[Estimate]) -> None:
    for keeps in (False, True):
        places = [k for k, point in enumerate(every) if (point.violation(0.0) <= 0) == keeps]
        x = [every[k].inputs[name] for k in places]
        y = [estimates[k].mean for k in places]
        size = [4 + 2 * math.sqrt(every[k].seeds) for k in places]
        look: dict[str, Any] = {"facecolor": INK, "edgecolor": "none", "alpha": 0.55}
        panel.scatter(
            x,
            y,
            s=size,
            linewidth=0.6,
            zorder=3 if keeps else 2,
            **(look if keeps else {"facecolor": "none", "edgecolor": GREY}),
        )
    panel.grid(visible=True, color=FAINT, linewidth=0.4)
    panel.set_axisbelow(True)


def _best(panel: Axes, x: float, estimate: Estimate) -> None:
    if math.isfinite(estimate.mean):
        half = estimate.half() if math.isfinite(estimate.half()) else 0.0
        panel.errorbar([x], [estimate.mean], yerr=[half], fmt="D", color=_BEST, markersize=5, capsize=3, zorder=5)


def _limits(panel: Axes, estimates: Sequence[Estimate], best: Estimate, zero: bool) -> None:
    """End the axis of a row where nine in ten points are in it; say how many are beyond."""
    means = np.array([estimate.mean for estimate in estimates])
    means = means[np.isfinite(means)]
    if not len(means):
        return
    kept = [*np.percentile(means, [0, _SHOWN]), *([0.0] if zero else [])]
    if math.isfinite(best.mean) and math.isfinite(best.half()):
        kept += [best.mean - best.half(), best.mean + best.half()]
    low, high = min(kept), max(kept)
    room = 0.06 * (high - low) or 1.0
    beyond = int((means > high + room).sum())
    panel.set_ylim(low - room, high + room)
    if beyond:
        panel.text(0.99, 0.97, f"{beyond} beyond", transform=panel.transAxes, ha="right", va="top", color=GREY, size=7)


def _legend(figure: Figure, bounds: bool) -> None:
    from matplotlib.lines import Line2D

    def sign(label: str, marker: str, colour: str, inside: str) -> Line2D:
        return Line2D([], [], linestyle="", marker=marker, color=colour, markerfacecolor=inside, label=label)

    signs = [sign("tried (larger: more runs)", "o", INK, INK)]
    if bounds:
        signs.append(sign("tried, above a bound", "o", GREY, "none"))
    signs.append(sign("best, runs of its own, 95 %", "D", _BEST, _BEST))
    for each in signs:
        each.set_markersize(4)
    figure.legend(handles=signs, loc="outside lower center", ncols=3 if figure.get_figwidth() > inches(12) else 1)

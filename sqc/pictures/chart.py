"""Pictures of a sweep: a metric against an input, its distribution, a heat map over two inputs, all points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sqc.inputs import InputError, did_you_mean
from sqc.pictures import slices
from sqc.pictures.slices import Floats
from sqc.pictures.style import GREY, INK, SCREEN, TICKS, check_width, inches, look
from sqc.pictures.words import caption, compact
from sqc.textform import shortest

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from sqc.sweeps import Sweep

KINDS = ("line", "dist", "heat", "scatter")
LOGS = ("none", "x", "y", "xy")
MOST_LINES = 12
_WIDE = 12.0
"""From this width (cm) up the legend stands beside the axes."""
_MARKERS = "os^DvPX"
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)), (0, (3, 1)), (0, (8, 2, 2, 2)))
_UNITS = {
    "mean_wait": "time",
    "mean_service": "time",
    "mean_decode_step": "time",
    "mean_itl": "time",
    "itl_p50": "time",
    "itl_p99": "time",
    "end": "time",
    "utilization": "share of time",
    "throughput": "per unit of time",
    "mean_used": "units",
    "mean_cached": "units",
    "evicted_units": "units",
    "evicted_entries": "entries",
    "mean_queue": "requests",
    "mean_holders": "sessions",
    "mean_live": "sessions",
    "mean_number": "jobs",
}
"""Of metrics, by the last part of their names."""


def plot(
    sweep: Sweep,
    metric: str,
    *,
    kind: str = "line",
    x: str | None = None,
    by: str | None = None,
    pinned: Mapping[str, float] | None = None,
    log: str | None = None,
    width: float = SCREEN,
) -> Figure:
    """The figure of a metric of a sweep, `width` cm wide.

    `kind`: "line", the mean over seeds against the input `x` with its interval, a line per value of `by`;
    "dist", the empirical distribution over the seeds of one point, a line per value of `by`; "heat", the
    mean by colour over `x` and `by`; "scatter", every point at its `x`, coloured by `by`, whatever else varies.
    `pinned` takes the points at which inputs have these values. `log` names the logarithmic axes ("none",
    "x", "y", "xy"; y is the metric's, also where it is a colour); by default `x` is one if its values are spaced so.

    Raises InputError, one line, for what cannot be drawn.
    """
    _check(kind, KINDS, "kind")
    _check(log, LOGS, "log")
    slices.check_metric(sweep, metric)
    x, by = _axes(sweep, kind, x, by, pinned or {})
    with look():
        from matplotlib.figure import Figure

        across = inches(check_width(width))
        figure = Figure(figsize=(across, across * (0.5 if width >= _WIDE else 0.8) + 0.3), layout="constrained")
        axes = figure.add_subplot()
        label = _label(metric, width)
        if kind == "dist":
            drawn = _distributions(axes, slices.samples(sweep, metric, by, pinned), by)
            axes.set_xlabel(label)
        elif kind == "heat":
            assert x is not None
            assert by is not None
            drawn = _heat(axes, slices.table(sweep, metric, x, by, pinned), (x, by, label), log, width)
        else:
            assert x is not None
            axes.set_xlabel(x)
            axes.set_ylabel(label)
            if kind == "line":
                drawn = _lines(axes, slices.curves(sweep, metric, x, by, pinned), by)
            else:
                drawn = _scatter(axes, slices.cloud(sweep, metric, x, by, pinned), by)
        if kind != "heat":
            _scales(axes, drawn, kind, log, width)
        if kind in ("line", "dist"):
            _legend(figure, axes, by, width)
        figure.supxlabel(_caption(sweep, drawn.said, pinned or {}, width), color=GREY, fontsize=7, x=0.99, ha="right")
        return figure


@dataclass(frozen=True)
class Drawn:
    """What a picture shows: what its marks mean, the values along x (empty: shares) and those of the metric."""

    said: str
    x: Floats
    metric: Floats


def _check(value: str | None, allowed: Sequence[str], what: str) -> None:
    if value is not None and value not in allowed:
        hint = did_you_mean(value, allowed) or f" (one of {', '.join(allowed)})"
        raise InputError(f"{what} {value}: no such choice{hint}")


def _axes(
    sweep: Sweep, kind: str, x: str | None, by: str | None, pinned: Mapping[str, float]
) -> tuple[str | None, str | None]:
    """The inputs of a picture; one that is not named is the only one that is left."""
    free = [name for name in slices.varied(sweep) if name not in (x, by, *pinned)]
    if kind == "dist":
        if x is not None:
            raise InputError("x goes with line, heat and scatter: a distribution is over seeds")
        return None, by if by is not None or len(free) != 1 else free[0]
    if x is None:
        if len(free) != 1:
            left = f" (one of {', '.join(free)})" if free else ": no other input varies"
            raise InputError(f"which input is x{left}")
        x = free.pop()
    if kind == "heat" and by is None:
        if len(free) != 1:
            left = f" (one of {', '.join(free)})" if free else ": no other input varies"
            raise InputError(f"which input is the other of the heat map{left}")
        by = free.pop()
    return x, by


# --------------------------------------------------------------------------- kinds


def _lines(axes: Axes, curves: Sequence[slices.Curve], by: str | None) -> Drawn:
    _few(curves, by)
    for k, (curve, colour) in enumerate(zip(curves, _colours(len(curves)), strict=True)):
        axes.plot(
            *(curve.x, curve.mean),
            color=colour,
            linestyle=_DASHES[k % len(_DASHES)],
            marker=_MARKERS[k % len(_MARKERS)],
            markersize=3.5,
            linewidth=1.2,
            label=_name(by, curve.value),
        )
        half = np.where(np.isfinite(curve.half), curve.half, np.nan)
        axes.fill_between(curve.x, curve.mean - half, curve.mean + half, color=colour, alpha=0.22, linewidth=0)
    known = any(np.isfinite(curve.half).any() for curve in curves)
    said = "band: {interval}" if known else "one run each: no interval"
    return Drawn(said, *(np.concatenate([getattr(curve, part) for curve in curves]) for part in ("x", "mean")))


def _distributions(axes: Axes, samples: Sequence[slices.Sample], by: str | None) -> Drawn:
    _few(samples, by)
    for k, (sample, colour) in enumerate(zip(samples, _colours(len(samples)), strict=True)):
        if not len(sample.runs):
            continue
        shares = np.arange(len(sample.runs) + 1) / len(sample.runs)
        at = np.concatenate([sample.runs[:1], sample.runs])
        style = _DASHES[k % len(_DASHES)]
        axes.step(at, shares, where="post", color=colour, linestyle=style, linewidth=1.2, label=_name(by, sample.value))
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("share of runs at or below")
    return Drawn("empirical distribution over seeds", np.empty(0), np.concatenate([s.runs for s in samples]))


def _heat(axes: Axes, table: slices.Table, labels: tuple[str, str, str], log: str | None, width: float) -> Drawn:
    from matplotlib.colors import LogNorm, Normalize

    means = table.means
    least, most = float(np.nanmin(means)), float(np.nanmax(means))
    wide = least > 0 and most > 100 * least
    if log is not None and "y" in log:
        _check_positive(means)
    norm: Any = (LogNorm if (wide if log is None else "y" in log) else Normalize)(least, most)
    mesh = axes.pcolormesh(means, norm=norm, cmap="viridis", edgecolors="white", linewidth=0.5)
    axes.set_facecolor("#dddddd")
    rows, columns = means.shape
    if columns * 1.3 <= width and rows <= 16:
        for row in range(rows):
            for column in range(columns):
                value = means[row, column]
                if not np.isnan(value):
                    dark = norm(value) < 0.6
                    text = f"{value:.3g}" if abs(value) < 1e4 else compact(float(f"{value:.3g}"))
                    axes.text(
                        column + 0.5,
                        row + 0.5,
                        text,
                        ha="center",
                        va="center",
                        fontsize=6.5,
                        color="white" if dark else INK,
                    )
    for axis, values, room in ((axes.xaxis, table.columns, width), (axes.yaxis, table.rows, 16.0)):
        step = max(1, math.ceil(len(values) * 1.5 / room))
        shown = range(0, len(values), step)
        axis.set_ticks([k + 0.5 for k in shown], [compact(values[k]) for k in shown])
        axis.set_tick_params(length=0)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    bar = axes.figure.colorbar(mesh, ax=axes, label=labels[2], pad=0.02)
    bar.outline.set_visible(False)
    ticks(bar.ax.yaxis, isinstance(norm, LogNorm), 5, least, most)
    return Drawn("mean over seeds", table.columns, means)


def _scatter(axes: Axes, cloud: slices.Cloud, by: str | None) -> Drawn:
    half = np.where(np.isfinite(cloud.half), cloud.half, 0.0)
    axes.errorbar(cloud.x, cloud.mean, half, fmt="none", ecolor=GREY, elinewidth=0.7, zorder=1)
    if cloud.colour is None:
        axes.plot(cloud.x, cloud.mean, linestyle="none", marker="o", markersize=4, color="#2f5d9b")
    else:
        dots = axes.scatter(
            cloud.x, cloud.mean, c=cloud.colour, cmap="viridis", s=18, zorder=2, edgecolors=INK, linewidths=0.4
        )
        bar = axes.figure.colorbar(dots, ax=axes, label=by, pad=0.02)
        bar.outline.set_visible(False)
        ticks(bar.ax.yaxis, False, 5)
    said = "bars: {interval}" if (half > 0).any() else "one run each: no interval"
    return Drawn(said, cloud.x, cloud.mean)


# --------------------------------------------------------------------------- around them


def _few(lines: Sequence[object], by: str | None) -> None:
    if len(lines) > MOST_LINES:
        raise InputError(f"{by} has {len(lines)} values, more lines than the {MOST_LINES} that can be told apart")


def _colours(count: int) -> list[Any]:
    """From dark to light, so that their order can be seen in grey too."""
    from matplotlib import colormaps

    return [colormaps["viridis"](0.78 * k / max(count - 1, 2)) for k in range(count)]


def _name(by: str | None, value: float | None) -> str:
    return "" if by is None or value is None else f"{by} = {shortest(value)}"


def _label(metric: str, width: float) -> str:
    """The metric with its unit, over two lines where one is too long."""
    last = metric.rpartition(".")[2]
    unit = "time" if metric.startswith("client.") and last in ("mean", "p99") else _UNITS.get(last)
    text = f"{metric} ({unit})" if unit else metric
    return text if len(text) < 3.2 * width else text.replace(" (", "\n(")


def _scales(axes: Axes, drawn: Drawn, kind: str, log: str | None, width: float) -> None:
    """Logarithmic axes, and ticks that have room."""
    if log is None:
        log = "x" if slices.is_logarithmic(drawn.x) else "none"
    elif kind == "dist" and "x" in log:
        raise InputError("log x goes with an input on the x axis (y is the metric's axis)")
    across = min(10.0, width / 1.5)
    if kind == "dist":
        _scale(axes.xaxis, "y" in log, across, drawn.metric)
    else:
        _scale(axes.xaxis, "x" in log, across, drawn.x)
        _scale(axes.yaxis, "y" in log, 6, drawn.metric)


def _scale(axis: Axis, logarithmic: bool, room: float, values: Floats) -> None:
    """One axis: its scale, its ticks. An interval that reaches below 0 leaves a logarithmic one."""
    if logarithmic:
        _check_positive(values)
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        if axis is axis.axes.xaxis:
            axis.axes.set_xscale("log")
        else:
            axis.axes.set_yscale("log")
            axis.axes.set_ylim(bottom=low / 1.3)
        ticks(axis, True, room, low, high)
    else:
        ticks(axis, False, room)


def _check_positive(values: Floats) -> None:
    if float(np.nanmin(values)) <= 0:
        raise InputError("a logarithmic axis needs values above 0")


def ticks(axis: Axis, logarithmic: bool, room: float, low: float = 1.0, high: float = 1.0) -> None:
    """Ticks of an axis with room for so many, at round numbers written in full."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

    if logarithmic:
        decades = math.log10(high / low) if high > low else 0.0
        subs = next((s for s in ((1, 2, 3, 5), (1, 2, 5), (1, 3)) if len(s) * (decades + 0.5) <= room), (1,))
        axis.set_major_locator(LogLocator(subs=subs, numticks=20))
        axis.set_minor_locator(NullLocator())
        axis.set_minor_formatter(NullFormatter())
    else:
        axis.set_major_locator(MaxNLocator(max(3, int(room)), steps=TICKS))
    axis.set_major_formatter(lambda value, _: compact(value))


def _legend(figure: Figure, axes: Axes, by: str | None, width: float) -> None:
    """The legend of the lines, outside the axes; a narrow figure becomes taller by it."""
    handles, names = axes.get_legend_handles_labels()
    if by is None or not handles:
        return
    if width >= _WIDE:
        figure.legend(handles, names, loc="outside right upper", handlelength=3)
        return
    columns = 3 if max(map(len, names)) < 9 else 2
    figure.set_figheight(figure.get_figheight() + 0.16 * math.ceil(len(names) / columns))
    figure.legend(handles, names, loc="outside upper center", ncols=columns, handlelength=3)


def _caption(sweep: Sweep, said: str, pinned: Mapping[str, float], width: float) -> str:
    """What was run, and what the marks mean."""
    interval = f"{100 * sweep.confidence:.4g}\u00a0% interval of the mean"
    parts = [Path(sweep.program).name, *(f"{name} = {shortest(value)}" for name, value in pinned.items())]
    seeds = sorted({int(n) for n in sweep.asked.sum(axis=1)})
    parts.append(f"{seeds[0]} seeds" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds")
    parts += [f"horizon {shortest(sweep.horizon)}", said.format(interval=interval)]
    if sweep.failures:
        parts.append(f"{len(sweep.failures)} failed runs left out")
    if sweep.interrupted:
        parts.append("not finished")
    return caption(parts, int(5.5 * width))

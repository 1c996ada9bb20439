"""The picture of one run: what pools hold and who waits for them, how full stages are, what is evicted and refused."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sqc.inputs import InputError, did_you_mean
from sqc.pictures.recording import Floats, Recording, Series
from sqc.pictures.style import FAINT, GREY, INK, SCREEN, TICKS, check_width, inches, look
from sqc.pictures.words import caption, compact, number
from sqc.textform import shortest

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PANELS = 30
COLOURS = {
    "used": "#2f5d9b",
    "cached": "#b7cdea",
    "in service": "#b06a12",
    "waiting": "#e8bd72",
}
"""Dark and light of each pair can be told apart in grey."""
_OUTLINES = {"pool": "#1d3d68", "jobs": "#5a3506"}
"""A line on top, so that what lasts a moment only can be seen."""
MARKS = {"evicted_units": ("|", "evicted"), "rejected": ("x", "rejected"), "preemptions": ("v", "preempted")}
"""Counters whose rises are marked: how, and as what."""
_ROW = 0.12
"""The height of a row of marks, of a panel's."""
_DENSE = 60
"""Changes in a cm beyond which averages are drawn."""
_STEPS = 24
"""Steps in a cm, where averages are drawn."""
_LETTERS = 5.0
"""Letters of a title in a cm."""
_TALL = {"pool": 1.15, "queue": 0.55, "stage": 0.75, "gauge": 0.75}
"""Heights of panels in inches."""
_LEFT, _RIGHT, _GAP, _LINE = 0.7, 0.18, 0.16, 0.14
"""Inches: beside panels, between them, a line of text."""


@dataclass(frozen=True, eq=False)
class Panel:
    """One set of axes. `areas` stand on each other from 0, lowest first; `marks` are by counter."""

    kind: str
    title: str
    unit: str
    areas: Mapping[str, Series]
    cap: float = np.inf
    marks: Mapping[str, Series] | None = None
    entries: Series | None = None
    """Of a pool: how many entries vanished by eviction."""
    note: str = ""


def panels(recording: Recording, only: Sequence[str] = ()) -> list[Panel]:
    """All panels, or those of the pools, stages and gauges in `only` (`kv[0]`; `kv` is all of an array)."""
    known = [*recording.pools, *recording.stages, *recording.gauges]
    known += [name.partition("[")[0] for name in known if "[" in name]
    for name in only:
        if name not in known:
            raise InputError(f"no pool, stage or gauge {name}{did_you_mean(name, known)}")

    def wanted(name: str) -> bool:
        return not only or name in only or name.partition("[")[0] in only

    made = [panel for name in recording.pools if wanted(name) for panel in _pool(recording, name)]
    made += [_stage(recording, name) for name in recording.stages if wanted(name)]
    gauges = {name: recording.series[f"gauge.{name}"] for name in recording.gauges if wanted(name)}
    return made + [Panel("gauge", f"gauge {name}", "", {name: series}) for name, series in gauges.items()]


def _pool(recording: Recording, name: str) -> Iterator[Panel]:
    series = {
        key.rpartition(".")[2]: value for key, value in recording.series.items() if key.startswith(f"pool.{name}.")
    }
    areas = {"used": series["used"]} | ({"cached": series["cached"]} if series["cached"].largest > 0 else {})
    marks = {counter: series[counter] for counter in MARKS if series[counter].largest > 0}
    waits = series["queue"].largest > 0
    note = "" if waits else "nobody waits"
    yield Panel("pool", f"pool {name}", "units", areas, series["cap"].largest, marks, series["evicted_entries"], note)
    if waits:
        yield Panel("queue", f"waiting for {name}", "requests", {"waiting": series["queue"]})


def _stage(recording: Recording, name: str) -> Panel:
    present, busy = (recording.series[f"stage.{name}.{signal}"] for signal in ("number", "busy"))
    areas = {"in service": busy}
    waiting = present.minus(busy)
    if waiting.largest > 0:
        areas["waiting"] = waiting
    return Panel("stage", f"stage {name}", "jobs", areas)


def timeline(recording: Recording, *, start: float = 0.0, only: Sequence[str] = (), width: float = SCREEN) -> Figure:
    """The figure of a recording from `start` to its end, `width` cm wide; of more than `MOST_PANELS` panels the first.

    What changes too often to be seen is averaged over equal steps, with the largest value as a line; the
    caption says so.
    """
    if not 0 <= start < recording.end:
        raise InputError(f"from {number(start)}: must be at least 0 and below {number(recording.end)}")
    view = View(start, recording.end, check_width(width))
    shown = panels(recording, only)[:MOST_PANELS]
    if not shown:
        raise InputError("the program has no pool, stage or gauge to draw")
    with look():
        return _stacked(shown, view, _caption(recording, shown, view))


def _stacked(shown: Sequence[Panel], view: View, below: str) -> Figure:
    """Panels below each other on one time axis, the legend above them, the caption below.

    Places are set here, in inches: a layout engine would take seconds for many panels.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    across = inches(view.width)
    titles = [textwrap.fill(f"{panel.title}{_said(panel, view)}", view.letters) for panel in shown]
    gaps = [_GAP + _LINE * (1 + title.count("\n")) for title in titles]
    heights = [_TALL[panel.kind] for panel in shown]
    columns, rows = (8, 1) if view.width > 12 else (3, 3)
    under = 0.45 + _LINE * (1 + below.count("\n"))
    tall = _LINE * 1.2 * rows + sum(gaps) + sum(heights) + under
    figure = Figure(figsize=(across, tall))
    handles: dict[str, Any] = {}
    top = tall - _LINE * 1.2 * rows
    for panel, title, gap, height in zip(shown, titles, gaps, heights, strict=True):
        top -= gap + height
        place = (_LEFT / across, top / tall, (across - _LEFT - _RIGHT) / across, height / tall)
        axes = figure.add_axes(place)
        handles |= _gauge(axes, panel, view) if panel.kind == "gauge" else _areas(axes, panel, view)
        axes.set_title(title, loc="left", pad=3)
        axes.set_ylabel(panel.unit)
        axes.yaxis.set_label_coords((0.2 - _LEFT) / (across - _LEFT - _RIGHT), 0.5)
        axes.yaxis.set_major_locator(MaxNLocator(3, steps=TICKS, integer=panel.kind in ("queue", "stage")))
        axes.yaxis.set_major_formatter(lambda y, _: compact(y))
        axes.set_xlim(view.start, view.end)
        axes.xaxis.set_major_locator(MaxNLocator(8 if view.width > 12 else 4, steps=TICKS))
        axes.xaxis.set_major_formatter(lambda x, _: compact(x))
        axes.tick_params(labelbottom=panel is shown[-1])
    figure.axes[-1].set_xlabel("time", labelpad=2)
    figure.text(1 - _RIGHT / across, 0.05 / tall, below, color=GREY, fontsize=7, ha="right", va="bottom")
    names = [name for name in (*COLOURS, *handles) if name in handles]
    explained = {name: handles[name] for name in names}
    figure.legend(explained.values(), explained, loc="upper center", ncols=columns, borderaxespad=0.2)
    return figure


@dataclass(frozen=True)
class View:
    """The times that are drawn, on so many cm."""

    start: float
    end: float
    width: float

    @property
    def steps(self) -> int:
        """Over how many steps averages are taken, where they are."""
        return int(_STEPS * self.width)

    @property
    def letters(self) -> int:
        """How many letters have room in a line."""
        return int(_LETTERS * self.width)

    def averages(self, panel: Panel) -> bool:
        """Whether the changes of a panel are too close to each other."""
        return len(self.instants(panel)) > _DENSE * self.width

    def instants(self, panel: Panel) -> Floats:
        """When anything changes, with the start and the end."""
        times = np.unique(np.concatenate([[self.start, self.end], *(s.time for s in panel.areas.values())]))
        return times[(times >= self.start) & (times <= self.end)]

    def steps_of(self, series: Series) -> tuple[Floats, Floats, Floats, Floats]:
        """The edges of equal steps; average, least and largest value over each, the last one twice."""
        edges = np.linspace(self.start, self.end, self.steps + 1)
        inside = series.time[(series.time > self.start) & (series.time < self.end)]
        times = np.unique(np.concatenate([edges, inside]))
        values, spans = series.at(times[:-1]), np.diff(times)
        first = np.searchsorted(times, edges[:-1])
        averages = np.add.reduceat(values * spans, first) / np.add.reduceat(spans, first)
        ranges = (ufunc.reduceat(values, first) for ufunc in (np.minimum, np.maximum))
        return edges, *(np.append(column, column[-1]) for column in (averages, *ranges))  # type: ignore[return-value]


def _gauge(axes: Axes, panel: Panel, view: View) -> dict[str, Any]:
    (series,) = panel.areas.values()
    if view.averages(panel):
        times, values, least, largest = view.steps_of(series)
        axes.fill_between(times, least, largest, step="post", color=FAINT, linewidth=0)
    else:
        times = view.instants(panel)
        values = series.at(times)
    axes.step(times, values, where="post", color=INK, linewidth=0.8)
    return {}


def _areas(axes: Axes, panel: Panel, view: View) -> dict[str, Any]:
    from matplotlib.lines import Line2D

    handles: dict[str, Any] = {}
    averages = view.averages(panel)
    times = np.linspace(view.start, view.end, view.steps + 1) if averages else view.instants(panel)
    below = np.zeros(len(times))
    for name, series in panel.areas.items():
        above = below + (view.steps_of(series)[1] if averages else series.at(times))
        handles[name] = axes.fill_between(times, below, above, step="post", color=COLOURS[name], linewidth=0)
        below = above
    total = _total(panel)
    tops = view.steps_of(total)[3] if averages else below
    outline = _OUTLINES["pool" if panel.kind == "pool" else "jobs"]
    (line,) = axes.step(times, tops, where="post", color=outline, linewidth=0.5)
    handles |= {"largest": line} if averages else {}
    top = max(float(tops.max()), 1.0)
    if _shows_cap(panel, top):
        handles["cap"] = axes.axhline(panel.cap, color=INK, linewidth=0.9, linestyle=(0, (5, 2)))
        top = max(top, panel.cap)
    rows = panel.marks or {}
    axes.set_ylim(0, top * 1.06 / (1 - _ROW * len(rows)))
    for row, (counter, series) in enumerate(rows.items()):
        times, _ = series.jumps(view.start, view.end)
        marker, name = MARKS[counter]
        height = 1 - _ROW * (row + 0.6)
        sign: dict[str, Any] = {"linestyle": "none", "marker": marker, "markersize": 4, "markeredgewidth": 0.8}
        shade = min(1.0, max(0.05, 20 * view.width / max(len(times), 1)))  # many marks are shades of their density
        heights = np.full(len(times), height)
        axes.plot(times, heights, color=INK, alpha=shade, transform=axes.get_xaxis_transform(), **sign)
        handles[name] = Line2D([], [], color=INK, **sign)
    return handles


def _total(panel: Panel) -> Series:
    """The sum of a panel's areas."""
    first, *others = panel.areas.values()
    for other in others:
        first = first.plus(other)
    return first


def _shows_cap(panel: Panel, peak: float) -> bool:
    """Whether the cap is near enough to what is held that both can be seen."""
    return panel.cap <= max(4 * peak, 1.0)


def _said(panel: Panel, view: View) -> str:
    """What stands behind the title of a panel: a cap that is not drawn, how much was marked, that nothing was there."""
    peak = float(_total(panel).at(view.instants(panel)).max())
    parts = []
    if panel.kind == "pool" and not _shows_cap(panel, max(peak, 1.0)):
        parts.append("no cap" if np.isinf(panel.cap) else f"cap {compact(panel.cap)}, above what is shown")
    for counter, series in (panel.marks or {}).items():
        total = float(series.jumps(view.start, view.end)[1].sum())
        if counter == "evicted_units":
            assert panel.entries is not None
            entries = float(panel.entries.jumps(view.start, view.end)[1].sum())
            parts.append(f"{compact(total)} units evicted ({number(entries)} entries)")
        else:
            parts.append(f"{number(total)} {MARKS[counter][1]}")
    parts += [panel.note] if panel.note else []
    if peak == 0 and panel.kind in ("queue", "stage"):
        parts.append("nobody" if panel.kind == "queue" else "no job")
    return f": {', '.join(parts)}" if parts else ""


def _caption(recording: Recording, shown: Sequence[Panel], view: View) -> str:
    """What was run, and what was averaged."""
    parts = [Path(recording.program).name, f"seed {recording.seed}"]
    parts += [f"{name} = {shortest(value)}" for name, value in recording.inputs.items()]
    often = {panel.kind == "gauge" for panel in shown if view.averages(panel)}
    marked = " and ".join(
        ("the range of gauges in grey" if gauge else "the largest values as a line") for gauge in sorted(often)
    )
    if often:
        parts.append(f"frequent changes: averages over {(view.end - view.start) / view.steps:.3g}, {marked}")
    return caption(parts, view.letters)

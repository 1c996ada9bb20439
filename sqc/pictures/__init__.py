"""Pictures: of a program, of one run, of a sweep. They need matplotlib (`pip install 'sqc[plot]'`).

    words, scene, flow, deployment, paint   a program: expressions as text, shapes, statements, the whole, matplotlib
    recording, timelines                    a run: its time series, and how they are drawn
    slices, chart                           a sweep: what of it is shown, and how
    style                                   the look, sizes, files

Each function here returns a matplotlib `Figure`, `save` writes one as PNG, SVG or PDF. `width` is in cm:
25 suits a screen, 8 a column of print; letters keep their size. Wrong arguments raise InputError, one line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sqc.pictures.chart import KINDS, LOGS, plot
from sqc.pictures.recording import Recording, record
from sqc.pictures.style import SCREEN, NoMatplotlib, check_file, check_width, inches, need_matplotlib, save
from sqc.pictures.timelines import panels, timeline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sqc.inputs import Number
    from sqc.program import Program

__all__ = [
    "KINDS",
    "LOGS",
    "NoMatplotlib",
    "Recording",
    "check_file",
    "draw",
    "need_matplotlib",
    "panels",
    "plot",
    "record",
    "save",
    "timeline",
    "trace",
]


def draw(program: Program, *, width: float = SCREEN) -> Figure:
    """The deployment: arrivals, what a session does, the path of a turn through holds, runs and branches, and the
    pools and stages. At most `width` cm wide; narrow ones have these parts one below the other."""
    from sqc.pictures.deployment import deployment
    from sqc.pictures.paint import paint
    from sqc.pictures.style import look

    with look():
        return paint(deployment(program.ir, 72 * inches(check_width(width))))


def trace(
    program: Program,
    seed: int = 1,
    *,
    until: Number,
    start: float = 0.0,
    sets: Mapping[str, Number] | None = None,
    only: Sequence[str] = (),
    width: float = SCREEN,
) -> Figure:
    """One run from `start` to `until`: what pools use and cache against their caps, queues, stages, evictions,
    rejections, preemptions. `only` picks pools, stages and gauges. Raises RunError if the run breaks a rule."""
    return timeline(record(program, seed, until=until, sets=sets), start=start, only=only, width=width)

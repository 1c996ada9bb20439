"""A scene as a matplotlib figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqc.pictures.deployment import Scene
from sqc.pictures.scene import ICON_HEIGHT, ICON_WIDTH, Box, Icon, Line, Point, Shape, Text
from sqc.pictures.style import GREY, INK, look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

_MARGIN = 6.0
_COLOURS = {
    "frame": ("#fafafa", "#bdbdbd"),
    "pool": ("#eef3fb", "#6482b4"),
    "band": ("#c9d8f0", "#6482b4"),
    "stage": ("#ffe9c7", "#a8741a"),
    "choice": ("#ffffff", "#5f5f5f"),
    "turn": ("#dff0df", "#4f8a4f"),
    "terminal": ("#ffffff", "#1a1a1a"),
    "plain": ("#ffffff", "#8a8a8a"),
    "bar": ("#1a1a1a", "#1a1a1a"),
}
"""Of each look: inside, and edge."""


def paint(scene: Scene) -> Figure:
    """The figure of a scene, as large as the scene at its scale."""
    with look():
        from matplotlib.figure import Figure

        width, height = scene.width + 2 * _MARGIN, scene.height + 2 * _MARGIN
        figure = Figure(figsize=(width * scene.scale / 72, height * scene.scale / 72))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(-_MARGIN, scene.width + _MARGIN)
        axes.set_ylim(scene.height + _MARGIN, -_MARGIN)
        for order, shape in enumerate(scene.shapes, 1):
            _paint(axes, shape, scene.scale, order)
        return figure


def _paint(axes: Axes, shape: Shape, scale: float, order: int) -> None:
    match shape:
        case Box():
            axes.add_patch(_box(shape, scale, order))
        case Text(x, y, text, size, bold, grey, centred):
            axes.text(
                *(x, y, text),
                fontsize=size * scale,
                weight="bold" if bold else "normal",
                color=GREY if grey else INK,
                ha="center" if centred else "left",
                va="center_baseline",
                zorder=order,
                parse_math=False,
            )
        case Line(points, arrow, dashed):
            _line(axes, points, arrow, dashed, scale, order)
        case Icon(x, y, kind):
            _icon(axes, x, y, kind, scale, order)


def _box(box: Box, scale: float, order: int) -> Patch:
    from matplotlib.patches import FancyBboxPatch, Rectangle

    inside, edge = _COLOURS[box.look]
    at, size = (box.x, box.y), (box.width, box.height)
    colours: dict[str, Any] = {"facecolor": inside, "edgecolor": edge}
    if not box.round:
        return Rectangle(at, *size, linewidth=0.8 * scale, zorder=order, **colours)
    radius = min(box.round, box.height / 2)
    corners = f"round,pad=0,rounding_size={radius}"
    return FancyBboxPatch(at, *size, boxstyle=corners, linewidth=0.8 * scale, zorder=order, **colours)


def _line(axes: Axes, points: tuple[Point, ...], arrow: bool, dashed: bool, scale: float, order: float) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Polygon

    xs, ys = zip(*points, strict=True)
    style: Any = (0, (3, 2)) if dashed else "-"
    axes.add_line(Line2D(xs, ys, color=INK, linewidth=0.8 * scale, linestyle=style, zorder=order))
    if arrow:
        (x0, y0), (x, y) = points[-2:]
        length = max(abs(x - x0), abs(y - y0), 1e-9)
        dx, dy = (x - x0) / length, (y - y0) / length
        head = [(x, y), (x - 5 * dx - 2.2 * dy, y - 5 * dy + 2.2 * dx), (x - 5 * dx + 2.2 * dy, y - 5 * dy - 2.2 * dx)]
        axes.add_patch(Polygon(head, closed=True, facecolor=INK, edgecolor="none", zorder=order))


def _icon(axes: Axes, x: float, y: float, kind: str, scale: float, order: float) -> None:
    """Waiting places and a server; sharing; everybody at once; a batch; memory; people who come."""
    from matplotlib.patches import Circle, Rectangle

    height, half = ICON_HEIGHT, ICON_HEIGHT / 2
    thin: dict[str, Any] = {"edgecolor": INK, "linewidth": 0.7 * scale, "zorder": order}

    def line(*points: Point, arrow: bool = False) -> None:
        _line(axes, points, arrow, False, scale, order)

    def circle(at: float, radius: float = half - 1) -> None:
        axes.add_patch(Circle((at, y), radius, facecolor="white", **thin))

    def block(left: float, top: float, width: float, tall: float, colour: str = "white") -> None:
        axes.add_patch(Rectangle((left, top), width, tall, facecolor=colour, **thin))

    right = x + ICON_WIDTH
    if kind == "fifo":
        line((x, y - half + 1), (right - height, y - half + 1))
        line((x, y + half - 1), (right - height, y + half - 1))
        for place in (3.5, 7.0, 10.5):
            line((x + place, y - half + 1), (x + place, y + half - 1))
        circle(right - half)
    elif kind == "ps":
        circle(x + ICON_WIDTH / 2, half)
        for dx, dy in ((half, 0), (-half / 2, -half * 0.87), (-half / 2, half * 0.87)):
            line((x + ICON_WIDTH / 2, y), (x + ICON_WIDTH / 2 + dx, y + dy))
    elif kind == "delay":
        for k in range(3):
            circle(x + 4 + 6.5 * k, 3.0)
    elif kind == "step":
        for k in range(4):
            block(x + 2 + 4.5 * k, y - half + 1, 4.5, height - 2, "white" if k else "#8a8a8a")
    elif kind == "pool":
        for row in range(2):
            for k in range(3):
                colour = "#6482b4" if (row, k) in ((1, 0), (1, 1)) else "white"
                block(x + 2 + 6 * k, y - half + row * half, 6, half, colour)
    elif kind == "arrivals":
        line((x, y), (right - 2, y), arrow=True)
        for k in range(3):
            axes.add_patch(Circle((x + 2 + 5 * k, y), 1.6, facecolor=INK, edgecolor="none", zorder=order))
    elif kind == "input":
        line((x + 2, y), (right - 3, y))
        circle(x + 14, 2.6)

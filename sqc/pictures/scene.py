"""A drawing before it is painted: shapes in points, y downwards; groups of them that can be put anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeAlias

Point: TypeAlias = tuple[float, float]

TEXT, SMALL = 8.5, 7.0
"""Sizes of letters in points."""
LEADING = 1.3
"""From line to line, in sizes of letters."""


@dataclass(frozen=True)
class Box:
    """A rectangle; `look` names its colours (see `paint`), `round` is the radius of its corners."""

    x: float
    y: float
    width: float
    height: float
    look: str
    round: float = 0.0


@dataclass(frozen=True)
class Text:
    """A line of text, its middle at height `y`; `x` is its left end, or its centre."""

    x: float
    y: float
    text: str
    size: float = TEXT
    bold: bool = False
    grey: bool = False
    centred: bool = False


@dataclass(frozen=True)
class Line:
    """A line through points; `arrow`: with a head at its end."""

    points: tuple[Point, ...]
    arrow: bool = False
    dashed: bool = False


@dataclass(frozen=True)
class Icon:
    """The sign of a kind of stage or pool, left end at `x`, middle at `y`."""

    x: float
    y: float
    kind: str


ICON_WIDTH, ICON_HEIGHT = 22.0, 10.0

Shape: TypeAlias = Box | Text | Line | Icon


@dataclass(frozen=True)
class Group:
    """Shapes in `width` by `height`, from (0, 0). Flow comes in at the top at `spine` and leaves at the
    bottom there, unless it `ends` within."""

    width: float
    height: float
    spine: float
    shapes: tuple[Shape, ...] = ()
    ends: bool = False
    framed: bool = True
    """Whether what flows in meets a frame (and so deserves an arrow's head)."""

    def at(self, x: float, y: float) -> tuple[Shape, ...]:
        """The shapes, moved."""
        return tuple(moved(shape, x, y) for shape in self.shapes)


def moved(shape: Shape, x: float, y: float) -> Shape:
    if isinstance(shape, Line):
        return replace(shape, points=tuple((px + x, py + y) for px, py in shape.points))
    return replace(shape, x=shape.x + x, y=shape.y + y)


@cache
def text_width(text: str, size: float = TEXT, bold: bool = False) -> float:
    """How wide a text is, in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family="DejaVu Sans", size=size, weight="bold" if bold else "normal")
    width: float = text_to_path.get_text_width_height_descent(text, font, ismath=False)[0]
    return width


def paragraph(lines: Sequence[Text]) -> Group:
    """Lines of text below each other; those that are `centred` about the middle, others from the left."""
    width = max(text_width(line.text, line.size, line.bold) for line in lines)
    shapes: list[Shape] = []
    y = 0.0
    for line in lines:
        step = line.size * LEADING
        shapes.append(replace(line, x=width / 2 if line.centred else line.x, y=y + step / 2))
        y += step
    return Group(width, y, width / 2, tuple(shapes), framed=False)


def framed(inner: Group, look: str, round_: float = 0.0, across: float = 6.0, down: float = 3.5) -> Group:
    """A group in a box."""
    width, height = inner.width + 2 * across, inner.height + 2 * down
    box = Box(0, 0, width, height, look, round_)
    return Group(width, height, inner.spine + across, (box, *inner.at(across, down)), inner.ends)


def bounds(shapes: Iterable[Shape]) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of shapes."""
    boxes = [_extent(shape) for shape in shapes]
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def _extent(shape: Shape) -> tuple[float, float, float, float]:
    match shape:
        case Box(x, y, width, height):
            return x, y, x + width, y + height
        case Icon(x, y):
            return x, y - ICON_HEIGHT / 2, x + ICON_WIDTH, y + ICON_HEIGHT / 2
        case Text(x, y, text, size, bold):
            width = text_width(text, size, bold)
            left = x - width / 2 if shape.centred else x
            return left, y - size * LEADING / 2, left + width, y + size * LEADING / 2
        case Line(points):
            xs, ys = zip(*points, strict=True)
            return min(xs), min(ys), max(xs), max(ys)

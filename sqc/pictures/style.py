"""What all pictures share: matplotlib if it is there, one look that can be told apart in grey, files by suffix."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqc.inputs import InputError, did_you_mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
SCREEN, PRINT = 25.0, 8.0
"""Widths in cm: of a picture on a laptop, and of a column of print."""
_NARROW = 15.0
"""From this width (cm) down a picture is for print: more dots per inch."""

TICKS = (1.0, 2.0, 2.5, 5.0, 10.0)
"""Of axes: numbers, up to a power of ten, of which ticks are multiples."""
INK, GREY, FAINT = "#1a1a1a", "#5f5f5f", "#c9c9c9"
_LOOK: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.title_fontsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.edgecolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "text.color": INK,
    "axes.labelcolor": INK,
    "legend.frameon": False,
    "svg.hashsalt": "sqc",
    "pdf.fonttype": 42,
    "text.hinting": "none",
    "path.simplify_threshold": 0.2,
}
_NO_DATE: dict[str, dict[str, Any]] = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""Metadata, so that the same picture is the same file."""


class NoMatplotlib(Exception):
    """Pictures need matplotlib and it is not installed; one line says what to do."""

    def __init__(self) -> None:
        super().__init__("pictures need matplotlib: python -m pip install 'sqc[plot]'")


def need_matplotlib() -> None:
    """Raises NoMatplotlib if it is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise NoMatplotlib from None


@contextlib.contextmanager
def look() -> Iterator[None]:
    """Figures made within have the look of all pictures, whatever the user's own settings are."""
    need_matplotlib()
    from matplotlib import style

    with style.context(["default", _LOOK]):
        yield


def check_file(path: str | Path) -> Path:
    """The path of a picture, refused if its suffix is none of a picture's or its folder is not there."""
    file = Path(path)
    if file.suffix.lower() not in SUFFIXES:
        found = f"{file.suffix} is no picture's suffix{did_you_mean(file.suffix, SUFFIXES)}" if file.suffix else ""
        raise InputError(f"{path}: {found or 'no suffix'}; there are {', '.join(SUFFIXES)}")
    if not file.parent.is_dir():
        raise InputError(f"{path}: there is no folder {file.parent}")
    return file


def check_width(width: float) -> float:
    """A width in cm that a picture can have."""
    if not 4 <= width <= 200:
        raise InputError(f"width {width:g}: must be from 4 to 200 cm")
    return width


def inches(cm: float) -> float:
    return cm / 2.54


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure as PNG, SVG or PDF, by the suffix."""
    file = check_file(path)
    suffix = file.suffix.lower()
    dots = 150 if figure.get_figwidth() > inches(_NARROW) else 300
    with look():
        figure.savefig(file, format=suffix[1:], dpi=dots, metadata=_NO_DATE[suffix], facecolor="white")
    return file

"""How tables look in a notebook: HTML that needs nothing from elsewhere; shared by reports and sweeps.

Every text is escaped. Colours are those of the page, light or dark, except for what is amiss.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

AMISS = "color:#e03131"
"""Readable on white and on black."""
_LINE = "1px solid rgba(128,128,128,0.5)"
_CELL = "padding:2px 10px;white-space:nowrap;font-variant-numeric:tabular-nums"


def frame(parts: Iterable[str]) -> str:
    """Tables and lines, one below the other, as wide as the page; what is wider is scrolled."""
    return f'<div style="overflow-x:auto;font-size:90%">{"".join(parts)}</div>'


def line(text: str, amiss: bool = False) -> str:
    """A line of text above or below a table."""
    look = AMISS if amiss else "opacity:0.8"
    return f'<div style="margin:3px 0;white-space:pre-wrap;{look}">{escape(text)}</div>'


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1, amiss: Iterable[tuple[int, int]] = ()
) -> str:
    """A table whose first `left` columns are left-aligned, the others right-aligned; `amiss` has the row and column
    of each cell that tells of a failure. Names in the header may break after a point."""
    marked = set(amiss)

    def side(column: int) -> str:
        return f"text-align:{'left' if column < left else 'right'}"

    def head(column: int, text: str) -> str:
        shown = escape(text).replace(".", ".<wbr>")
        look = f"padding:2px 10px;vertical-align:bottom;border-bottom:{_LINE};{side(column)}"
        return f'<th scope="col" style="{look}">{shown}</th>'

    def cell(row: int, column: int, text: str) -> str:
        look = f"{_CELL};{side(column)}" + (f";font-weight:bold;{AMISS}" if (row, column) in marked else "")
        value, sign, half = escape(text).partition(" ±")
        shown = f'{value} <span style="opacity:0.7">±{half}</span>' if sign else value
        return f'<td style="{look}">{shown}</td>'

    heads = "".join(head(column, text) for column, text in enumerate(header))
    body = "".join(
        f"<tr>{''.join(cell(number, column, text) for column, text in enumerate(row))}</tr>"
        for number, row in enumerate(rows)
    )
    style = "border-collapse:collapse;border:none;margin:6px 0;color:inherit;background:transparent"
    return f'<table style="{style}"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>'

"""A sweep in a notebook: the tables and lines of its text, as HTML."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqc import htmlform
from sqc.sweeps.text import FAILED, Table, heading, notes, tables

if TYPE_CHECKING:
    from sqc.sweeps import Sweep


def html(sweep: Sweep) -> str:
    """What `str(sweep)` shows; points with failed runs are marked."""
    return htmlform.frame(_parts(sweep))


def _parts(sweep: Sweep) -> Iterator[str]:
    made = tables(sweep)
    yield htmlform.line(heading(sweep))
    for table in made:
        yield htmlform.table(table.header, table.rows, table.left, _amiss(table))
    for text, amiss in notes(sweep, made):
        yield htmlform.line(text, amiss)


def _amiss(table: Table) -> Iterator[tuple[int, int]]:
    """The cells that count failed runs, where there are some."""
    if FAILED in table.header:
        column = table.header.index(FAILED)
        yield from ((row, column) for row, cells in enumerate(table.rows) if cells[column] != "0")

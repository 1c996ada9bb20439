"""A report in a notebook: the tables and notes of its text, as HTML."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqc import htmlform
from sqc.report.text import run_line, sections

if TYPE_CHECKING:
    from sqc.report.report import Report


def html(report: Report) -> str:
    """What `str(report)` shows; notes stand below their table."""
    return htmlform.frame(_parts(report))


def _parts(report: Report) -> Iterator[str]:
    yield htmlform.line(run_line(report))
    for header, rows, notes in sections(report):
        if rows:
            yield htmlform.table(header, rows)
        yield from (htmlform.line(note) for _, note in notes)

"""A text to the formatted text: the whole way, and the proof that nothing but its looks changed."""

from __future__ import annotations

from collections.abc import Sequence

from sqc.diagnostics import Source
from sqc.format.document import Row, rows
from sqc.format.layout import layout
from sqc.format.pieces import Piece, pieces_of, words_of_comments
from sqc.format.spelling import spelled
from sqc.syntax.files import check_text

WIDTH = 100  # columns of code
REMARKS = 42  # where comments at the ends of lines begin, if the code leaves room
FURTHEST = 60  # where they begin at most to stand under each other


def format_text(text: str, file: str = "<program>", spelling: str | None = None) -> str:
    """`format_source` of a text in memory."""
    check_text(text, file)
    return format_source(Source(file, text), spelling)


def format_source(source: Source, spelling: str | None = None) -> str:
    """A text in the founding style; with a spelling (`seed` or `if`) its branches are rewritten.

    Lines end as the first line of the text does. Raises CompileError if the text does not parse.
    """
    pieces = pieces_of(source)
    if spelling is not None:
        pieces = spelled(pieces, spelling)
    made = _text(rows(layout(pieces), WIDTH))
    _same(pieces, pieces_of(Source(source.file, made)))
    first = source.text.find("\n")
    crlf = first > 0 and source.text[first - 1] == "\r"
    return made.replace("\n", "\r\n") if crlf else made


def _text(lines: Sequence[Row]) -> str:
    made: list[str] = []
    at = 0
    while at < len(lines):
        end = at
        while end < len(lines) and lines[end].comment:
            end += 1
        made += _aligned(lines[at:end]) if end > at else [lines[at].code]
        at = max(end, at + 1)
    return "".join(f"{line}\n" for line in made)


def _aligned(lines: Sequence[Row]) -> list[str]:
    """Lines with comments, one after the other: the comments begin in one column if that is near."""
    ends = [len(line.code) - (line.code.rfind("\n") + 1) for line in lines]
    shared = max(REMARKS, max(ends) + 2)
    if shared > FURTHEST:
        shared = REMARKS
    return [f"{line.code}{' ' * max(shared - end, 2)}{line.comment}" for line, end in zip(lines, ends, strict=True)]


def _same(before: Sequence[Piece], after: Sequence[Piece]) -> None:
    """Whatever happens to the looks of a program, its words and comments are those that were there."""
    if [p.text for p in before] != [p.text for p in after] or words_of_comments(before) != words_of_comments(after):
        raise AssertionError("formatting would have changed the program; it is left as it was")

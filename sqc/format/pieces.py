"""A text as pieces: its tokens, each with the comments around it.

A comment belongs to a piece in one of three ways: it ends the piece's line (`after`), it stands on
lines of its own above the piece (`above`), or it is written on the piece's line before it (`lead`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqc.diagnostics import Reporter, Source
from sqc.syntax import tokens as lex
from sqc.syntax.parse import classified

OPENING, CLOSING = ("(", "[", "{"), (")", "]", "}")

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\n", re.DOTALL)


@dataclass
class Remark:
    """The comments of one line; `column` is where they stood, `blank` if a blank line was above."""

    text: str
    column: int = 0
    blank: bool = False


@dataclass
class Piece:
    """One token; the last piece of a text is its end and has no text.

    `blank`: a blank line stood between the piece (or the comments above it) and what came before.
    `oneline`: of an opening bracket, whether its closing one stood on the same line.
    """

    text: str
    kind: str
    keyword: bool = False
    above: list[Remark] = field(default_factory=list)
    blank: bool = False
    lead: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    oneline: bool = True


def pieces_of(source: Source) -> list[Piece]:
    """The pieces of a text. Raises CompileError if it does not parse."""
    text = source.text
    tokens = classified(source, Reporter())
    tokens.append((lex.END, lex.Token(lex.END, "", len(text), len(text))))
    made: list[Piece] = []
    last = 0
    for terminal, token in tokens:
        piece = Piece(token.text, token.kind, token.kind == lex.WORD and terminal != "NAME")
        _comments(text, last, token.start, made[-1] if made else None, piece)
        made.append(piece)
        last = token.end
    for opening, closing in partners(made).items():
        made[opening].oneline = "\n" not in text[tokens[opening][1].end : tokens[closing][1].start]
    return made


def partners(pieces: Sequence[Piece]) -> dict[int, int]:
    """The closing brackets of the opening ones."""
    made: dict[int, int] = {}
    opened: list[int] = []
    for at, piece in enumerate(pieces):
        if piece.text in OPENING:
            opened.append(at)
        elif piece.text in CLOSING:
            made[opened.pop()] = at
    return made


def words_of_comments(pieces: Sequence[Piece]) -> list[str]:
    """The words of all comments, in the order of the text."""
    found: list[str] = []
    for piece in pieces:
        found += [*(remark.text for remark in piece.above), *piece.lead, *piece.after]
    return " ".join(found).split()


def _comments(text: str, start: int, end: int, previous: Piece | None, piece: Piece) -> None:
    """Give the comments between two tokens to them."""
    lines: list[list[str]] = [[]]
    columns = [0]
    for match in _COMMENT.finditer(text, start, end):
        found = match.group()
        if found == "\n":
            lines.append([])
            columns.append(0)
            continue
        if not lines[-1]:
            columns[-1] = _column(text, match.start())
        lines[-1].append("\n".join(line.rstrip() for line in found.split("\n")))
    last = not piece.text
    if previous is not None and (last or len(lines) > 1):
        previous.after = lines.pop(0)
        del columns[0]
    if not last:
        piece.lead = lines.pop()
    blank = False
    for line, column in zip(lines, columns, strict=False):
        if line:
            piece.above.append(Remark(" ".join(line), column, blank))
        blank = not line
    piece.blank = blank


def _column(text: str, at: int) -> int:
    return len(text[text.rfind("\n", 0, at) + 1 : at].expandtabs())

"""The two spellings of branches: `branch (e)`, `branch with (p)` and `if (e)`, `if (~bernoulli(p))`."""

from __future__ import annotations

from collections.abc import Sequence

from sqc.format.pieces import Piece, partners
from sqc.syntax import tokens as lex

SPELLINGS = ("seed", "if")


def spelled(pieces: Sequence[Piece], spelling: str) -> list[Piece]:
    """The pieces with every branch in one spelling; they themselves may change."""
    return _to_seed(pieces) if spelling == "seed" else _to_if(pieces)


def _to_seed(pieces: Sequence[Piece]) -> list[Piece]:
    ends = partners(pieces)
    plain = _inside(pieces, "schedule")  # without `branch with`: nothing is drawn there
    out: set[int] = set()
    for at, piece in enumerate(pieces):
        if piece.keyword and piece.text == "if":
            piece.text = "branch"
            if at not in plain:
                out |= _draw(pieces, at, ends)
    made: list[Piece] = []
    for at, piece in enumerate(pieces):
        if at in out:
            _give_comments(piece, made[-1], pieces[at + 1])
            continue
        if at + 1 in out and piece.text == "(" and made[-1].text == "branch":
            made.append(Piece("with", lex.WORD, keyword=True))
        made.append(piece)
    return made


def _draw(pieces: Sequence[Piece], at: int, ends: dict[int, int]) -> set[int]:
    """In `if (~bernoulli(p))` at `at`, where `~`, `bernoulli`, `(` and a `)` are; else nothing."""
    if [piece.text for piece in pieces[at + 2 : at + 5]] != ["~", "bernoulli", "("]:
        return set()
    end = ends[at + 4]
    return {at + 2, at + 3, at + 4, end} if ends[at + 1] == end + 1 else set()


def _to_if(pieces: Sequence[Piece]) -> list[Piece]:
    ends = partners(pieces)
    fixed = _inside(pieces, "iteration")  # has one spelling
    made: list[Piece] = []
    closed: set[int] = set()
    for at, piece in enumerate(pieces):
        if piece.keyword and piece.text == "branch" and at not in fixed:
            piece.text = "if"
        if piece.keyword and piece.text == "with":
            _give_comments(piece, made[-1], pieces[at + 1])
            closed.add(ends[at + 1])
            continue
        if at in closed:
            made.append(Piece(")", ")", above=piece.above, lead=piece.lead))
            piece.above, piece.lead = [], []
        made.append(piece)
        if ends.get(at) in closed and pieces[at - 1].text == "with":
            made += [Piece("~", "~"), Piece("bernoulli", lex.WORD), Piece("(", "(")]
    return made


def _give_comments(piece: Piece, before: Piece, after: Piece) -> None:
    """The comments of a piece that is left out go to those beside it."""
    before.after += piece.after
    after.above = piece.above + after.above
    after.lead = piece.lead + after.lead


def _inside(pieces: Sequence[Piece], word: str) -> set[int]:
    """The pieces inside blocks `WORD {...}`."""
    found: set[int] = set()
    for opening, closing in partners(pieces).items():
        before = pieces[opening - 1]
        if pieces[opening].text == "{" and before.keyword and before.text == word:
            found.update(range(opening, closing))
    return found

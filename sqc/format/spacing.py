"""Blanks between pieces."""

from __future__ import annotations

from collections.abc import Sequence

from sqc.format.pieces import Piece
from sqc.syntax import tokens as lex

# Words after which a bracket holds arguments, as after the name of a function.
_CALLED = {"main", "max", "min", "sum", "fifo", "ps", "poisson", "renewal", "closed", "batch"}
_FOLDS = {"max", "min", "sum"}

# Words followed by a resource (or several) and what is asked of it: `hold kv (...)`, `to kv (...)`.
_ASKING = {"run", "hold", "on", "to", "grow", "load", "checkpoint", "lease", "via", "of"}


def unary(piece: Piece, previous: Piece | None) -> bool:
    """Is this the sign of one operand: `-x`, `!x`, `~exp(1)`?"""
    if piece.text in ("!", "~"):
        return True
    return piece.text == "-" and not (previous is not None and _ends_operand(previous))


def ends_word(piece: Piece) -> bool:
    """A name or keyword, or the index of one."""
    return piece.kind == lex.WORD or piece.text == "]"


def _ends_operand(piece: Piece) -> bool:
    named = piece.kind in (lex.WORD, lex.NUMBER, lex.STRING) and not piece.keyword
    return named or piece.text in (")", "]")


def gap(left: Piece, right: Piece, tight: bool) -> str:
    """What stands between two pieces of a line; `tight`: they are known to touch."""
    if left.text in ("(", "["):
        return ""
    if right.lead:
        return " "
    return "" if tight or left.text in (".", "^") or closes(right) or right.text in (".", "^") else " "


def closes(piece: Piece) -> bool:
    """Does the piece touch what is before it, a comment too?"""
    return piece.text in (")", "]", ",", ";")


def bracket_touches(pieces: Sequence[Piece], at: int, begin: int, depth: int, end: int) -> bool:
    """Does the opening bracket at `at` touch the word before it, as in a call?

    `begin` is the first piece of the statement, `depth` how many of its brackets are open, `end` the
    closing bracket.
    """
    if at == begin:
        return False
    word = pieces[at - 1]
    if pieces[at].text == "[":
        return True
    if word.keyword:
        return word.text in _CALLED
    if not _ends_operand(word) or word.text == ")" or word.kind == lex.NUMBER:
        return False
    if _bounds_fold(pieces, at, begin):
        return False
    return depth > 0 or _calls(pieces, at, begin, end)


def _bounds_fold(pieces: Sequence[Piece], at: int, begin: int) -> bool:
    """`max k in n (...)`: the bracket after the bound."""
    if at - begin < 4:
        return False
    fold, _, word, _ = pieces[at - 4 : at]
    return word.keyword and word.text == "in" and fold.keyword and fold.text in _FOLDS


def _calls(pieces: Sequence[Piece], at: int, begin: int, end: int) -> bool:
    """Is what stands before a bracket of the statement itself the name of a function?"""
    first = _place(pieces, at, begin)
    if pieces[first].keyword:  # tool[j] (x)
        return False
    if first == begin:  # a statement of its own, an entry of a station, a function of a device
        member = any(piece.text == "." for piece in pieces[begin:at])
        return end == at + 1 if member else pieces[end + 1].text == ";"
    before = pieces[first - 1]
    if before.text == ",":  # hold a (1), b (2); run a, b (w): no statement lists calls
        return False
    return not (before.keyword and before.text in _ASKING)


def _place(pieces: Sequence[Piece], at: int, begin: int) -> int:
    """Where the place that ends before `at` begins: NAME, NAME[...], NAME.NAME or NAME[...].NAME."""
    at -= 1
    while at > begin:
        if pieces[at].text == "]":
            depth = 0
            while True:
                depth += (pieces[at].text == "]") - (pieces[at].text == "[")
                at -= 1
                if depth == 0:
                    break
        elif pieces[at - 1].text == ".":
            at -= 2
        else:
            break
    return at

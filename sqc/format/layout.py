"""Pieces to a document: statements on lines of their own, blocks, brackets, operators.

A block that was written on one line stays on one if its statement fits. A statement that does not
fit first ends lines in its blocks, then before its clauses, then in its brackets and before its
operators, those that bind least first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqc.format.document import BLANK, CUT, END, LINE, Doc, Group, Nest, Trail, Verbatim
from sqc.format.pieces import OPENING, Piece, Remark, partners
from sqc.format.spacing import bracket_touches, closes, ends_word, gap, unary
from sqc.syntax import tokens as lex

STEP = 2  # columns of one level
HEADER = 4  # columns of the further lines of a header, which must stand apart from the block

_CLAUSES = {"at", "every", "some", "given", "prefix", "reuse", "cache", "lease", "growing", "from", "to"}
_BINDS = {
    "||": 1, "&&": 2, "<": 3, "<=": 3, ">": 3, ">=": 3, "==": 3, "!=": 3, "+": 4, "-": 4, "*": 5, "/": 5,
}  # fmt: skip


def layout(pieces: Sequence[Piece]) -> Doc:
    """The document of a text."""
    return _Layout(pieces).file()


@dataclass
class _Part:
    """A token, or a bracket with its contents. `sign`: the text of a token that is no name or number."""

    doc: Doc
    first: Piece
    last: Piece
    sign: str = ""
    tight: bool = False  # touches what is before it
    unary: bool = False


@dataclass
class _Block:
    parts: list[Doc]
    oneline: bool
    first: Piece
    last: Piece


@dataclass
class _Entry:
    """A statement or a line of comments."""

    doc: Doc
    blank: bool


class _Layout:
    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        self.at = 0
        self.ends = partners(pieces)

    @property
    def piece(self) -> Piece:
        return self.pieces[self.at]

    def file(self) -> Doc:
        return Nest(_joined(self.entries(), END), 0)

    # ----------------------------------------------------------------- statements and blocks

    def entries(self) -> list[_Entry]:
        """The statements up to the end of a block (or of the text), and the comments above them."""
        made: list[_Entry] = []
        while True:
            piece = self.piece
            made += [_Entry(_remark(remark), remark.blank) for remark in piece.above]
            if piece.text in ("}", ""):
                made += [_Entry(_comment(text), False) for text in piece.lead]
                return made
            made.append(_Entry(self.statement(), piece.blank))

    def statement(self) -> Doc:
        begin = self.at
        segments: list[list[_Part] | _Block] = [self.header(begin)]
        while self.piece.text == "{":
            segments.append(self.block())
            tail = self.tail(begin)
            if tail:
                segments.append(tail)
        together = all(segment.oneline for segment in segments if isinstance(segment, _Block))
        made: list[Doc] = []
        last: Piece | None = None
        for number, segment in enumerate(segments):
            if last is not None:
                first = segment.first if isinstance(segment, _Block) else segment[0].first
                made.append(gap(last, first, tight=False))
            if isinstance(segment, _Block):
                made += segment.parts if together else [Group(segment.parts, not segment.oneline)]
                last = segment.last
            else:
                made.append(_clauses(segment, HEADER if number + 1 < len(segments) else STEP))
                last = segment[-1].last
        return Group(made)

    def header(self, begin: int) -> list[_Part]:
        """A statement up to its first block, or a statement without any."""
        nest = HEADER if self.has_block() else STEP
        parts: list[_Part] = []
        while self.piece.text not in ("}", ""):
            if self.piece.text == "{" and not (parts and parts[-1].sign == "="):
                break
            parts.append(self.part(begin, 0, nest, commented=self.at > begin))
            if parts[-1].sign == ";":
                break
        return parts

    def tail(self, begin: int) -> list[_Part]:
        """What belongs to a statement after a block: `else`, the clauses of a hold, a semicolon."""
        parts: list[_Part] = []
        while self.piece.keyword and self.piece.text in ("cache", "lease"):
            amount = False
            while not amount:
                amount = self.piece.text == "("
                parts.append(self.part(begin, 0, STEP))
        if self.piece.text == ";" or (self.piece.keyword and self.piece.text == "else"):
            parts.append(self.part(begin, 0, STEP))
        return parts

    def has_block(self) -> bool:
        at = self.at
        while self.pieces[at].text not in (";", "}", ""):
            if self.pieces[at].text == "{" and self.pieces[at - 1].text != "=":
                return True
            at = self.ends.get(at, at) + 1
        return False

    def block(self) -> _Block:
        opening = self.piece
        self.at += 1
        entries = self.entries()
        closing = self.piece
        self.at += 1
        parts: list[Doc] = [_token(opening)]
        if entries:
            parts += [Nest([LINE, *_joined(entries, LINE)], STEP), LINE]
        parts.append(_closing(closing))
        empty = not entries and not opening.after
        return _Block(parts, opening.oneline or empty, opening, closing)

    # ----------------------------------------------------------------- tokens and brackets

    def part(self, begin: int, depth: int, nest: int, commented: bool = True) -> _Part:
        """The next token or bracket; `commented`: the comments above it are part of it."""
        at, piece = self.at, self.piece
        previous = self.pieces[at - 1] if at > begin else None
        before = self.pieces[at - 2] if at > begin + 1 else None
        tight = previous is not None and unary(previous, before)
        if piece.text in OPENING:
            tight = tight or (piece.text != "{" and bracket_touches(self.pieces, at, begin, depth, self.ends[at]))
            doc = self.bracket(begin, depth, nest, commented)
            return _Part(doc, piece, self.pieces[self.at - 1], "", tight)
        self.at += 1
        sign = piece.text if piece.keyword or piece.kind not in (lex.WORD, lex.NUMBER, lex.STRING) else ""
        tight = tight or (sign == ":" and self.names(at, depth))
        return _Part(_token(piece, commented), piece, piece, sign, tight, unary(piece, previous))

    def names(self, at: int, depth: int) -> bool:
        """`{ s: e1, kv: e2 }`, `prefix (client: S)`: the colon after a field or a key, which no `?` opened."""
        if not depth:
            return False
        start, inner = at - 1, 0
        while inner or not (self.pieces[start].text in OPENING or self.pieces[start].text == ","):
            inner += (self.pieces[start].text in (")", "]", "}")) - (self.pieces[start].text in OPENING)
            start -= 1
        opened = 0
        for piece in self.pieces[start + 1 : at]:
            inner += (piece.text in OPENING) - (piece.text in (")", "]", "}"))
            if not inner:
                opened = opened + 1 if piece.text == "?" else opened - (piece.text == ":" and opened > 0)
        return opened == 0

    def bracket(self, begin: int, depth: int, nest: int, commented: bool) -> Doc:
        start, opening = self.at, self.piece
        end = self.ends[start]
        self.at += 1
        items: list[list[_Part]] = [[]]
        while self.at < end:
            items[-1].append(self.part(begin, depth + 1, STEP))
            if items[-1][-1].sign == ",":
                items.append([])
        closing = self.piece
        self.at += 1
        # Brackets that only group have no line of their own: their operators end lines.
        groups = opening.text == "(" and (start == begin or not ends_word(self.pieces[start - 1]))
        edge: Doc = LINE if opening.text == "{" else "" if groups else CUT
        inside: list[Doc] = []
        for number, item in enumerate(filter(None, items)):
            inside += [LINE if number else edge, _expression(item)]
        tail: Doc = LINE if opening.text == "{" else " " if closing.lead and inside else ""
        return Group([_token(opening, commented), Nest(inside, 0 if groups else nest), tail, _token(closing)])


def _joined(entries: Sequence[_Entry], between: Doc) -> list[Doc]:
    made: list[Doc] = []
    for number, entry in enumerate(entries):
        if number:
            made.append(BLANK if entry.blank else between)
        made.append(entry.doc)
    return made


# --------------------------------------------------------------------------- comments


def _remark(remark: Remark) -> Doc:
    return Verbatim(remark.text, remark.column) if "\n" in remark.text else remark.text


def _comment(text: str) -> Doc:
    return Verbatim(text) if "\n" in text else text


def _token(piece: Piece, commented: bool = True) -> Doc:
    """A token with its comments; without `commented` those above it are printed elsewhere."""
    made: list[Doc] = []
    if commented and piece.above:
        made.append(END)
        for remark in piece.above:
            made += [_remark(remark), END]
    for number, text in enumerate(piece.lead):
        made += [" " if number else "", _comment(text)]
    if piece.lead:
        made.append("" if closes(piece) else " ")
    return Nest([*made, piece.text, *_after(piece)], 0)


def _closing(piece: Piece) -> Doc:
    """The end of a block: the comments before it are entries of the block."""
    return Nest([piece.text, *_after(piece)], 0)


def _after(piece: Piece) -> list[Doc]:
    return [Trail(" ".join(piece.after)), END] if piece.after else []


# --------------------------------------------------------------------------- what may end a line


def _clauses(parts: Sequence[_Part], nest: int) -> Doc:
    """A header or a statement: its clauses, in each what commas separate."""

    def begins(number: int) -> bool:
        part, before = parts[number], parts[number - 1]
        return part.sign in _CLAUSES and part.first.keyword and before.sign != "each"

    return _lines(_split(parts, begins), nest, lambda clause: _listed(clause, nest))


def _listed(parts: Sequence[_Part], nest: int) -> Doc:
    return _lines(_split(parts, lambda number: parts[number - 1].sign == ","), nest, _expression)


def _expression(parts: Sequence[_Part]) -> Doc:
    """An expression, perhaps with the words before it: lines end before its loosest operators."""
    for number, part in enumerate(parts):
        named = part.sign == ":" and part.tight
        if (part.sign == "=" or named) and number + 1 < len(parts):
            rest = parts[number + 1 :]
            return Nest([_run(parts[: number + 1]), _between(part, rest[0]), _expression(rest)], 0)
    if any(part.sign == "?" for part in parts):
        opened = next(number for number, part in enumerate(parts) if part.sign == "?")
        chunks = _split(parts, lambda number: number >= opened and parts[number].sign in ("?", ":"))
    else:
        binds = [0 if part.unary else _BINDS.get(part.sign, 0) for part in parts]
        loosest = min(filter(None, binds), default=0)
        if not loosest:
            return _run(parts)
        chunks = _split(parts, lambda number: binds[number] == loosest)
    return _lines(chunks, STEP, _operand)


def _operand(parts: Sequence[_Part]) -> Doc:
    """An operand, perhaps with the operator before it."""
    operator = parts[0]
    if len(parts) > 1 and not operator.unary and (operator.sign in ("?", ":") or operator.sign in _BINDS):
        return Nest([operator.doc, _between(operator, parts[1]), _expression(parts[1:])], 0)
    return _expression(parts)


def _lines(chunks: Sequence[Sequence[_Part]], nest: int, doc: Callable[[Sequence[_Part]], Doc]) -> Doc:
    first, *others = chunks
    if not others:
        return doc(first)
    further: list[Doc] = []
    for chunk in others:
        further += [LINE, doc(chunk)]
    return Group([doc(first), Nest(further, nest)])


def _split(parts: Sequence[_Part], begins: Callable[[int], bool]) -> list[Sequence[_Part]]:
    """The parts cut before those that begin something."""
    cuts = [0, *(number for number in range(1, len(parts)) if begins(number)), len(parts)]
    return [parts[a:b] for a, b in pairwise(cuts)]


def _run(parts: Sequence[_Part]) -> Doc:
    """Parts one after the other."""
    made: list[Doc] = []
    for number, part in enumerate(parts):
        if number:
            made.append(_between(parts[number - 1], part))
        made.append(part.doc)
    return Nest(made, 0)


def _between(left: _Part, right: _Part) -> Doc:
    return gap(left.last, right.first, right.tight)

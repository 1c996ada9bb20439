"""Documents and how they become lines.

A document is a text with places where a line may end. A `Group` is printed on one line if it fits
there; if not, all of its own places end a line, and the groups inside it are tried one by one.
Printing depends on the document alone, never on how the text was laid out before.

Documents are strings and the classes below. The string " " is a separator: at the begin and the end
of a line it vanishes. Line ends next to each other are one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Union

Doc = Union[str, "Line", "Cut", "End", "Trail", "Verbatim", "Group", "Nest"]


@dataclass(frozen=True)
class Line:
    """A blank, or the end of a line."""


@dataclass(frozen=True)
class Cut:
    """Nothing, or the end of a line."""


@dataclass(frozen=True)
class End:
    """The end of a line; with `blank` an empty line follows."""

    blank: bool = False


@dataclass(frozen=True)
class Trail:
    """A comment at the end of a line; an `End` follows."""

    text: str


@dataclass(frozen=True)
class Verbatim:
    """A comment of several lines. `column`: where it stood if its lines move with it, else None."""

    text: str
    column: int | None = None


class _Parts:
    """Documents one after the other.

    `broken`: a line ends inside. `ending`: a line ends behind the last of them, which breaks what
    goes on after it, but not the parts themselves: a comment at the end of a statement.
    """

    __slots__ = ("broken", "ending", "parts")

    def __init__(self, parts: Iterable[Doc], broken: bool = False) -> None:
        self.parts = tuple(parts)
        self.broken = broken
        self.ending = False
        for part in self.parts:
            self.broken = self.broken or self.ending
            if isinstance(part, _Parts):
                self.broken = self.broken or part.broken
                self.ending = part.ending
            else:
                self.broken = self.broken or isinstance(part, Verbatim)
                self.ending = isinstance(part, End)


class Group(_Parts):
    """Parts on one line if they fit and `broken` is not asked for."""

    __slots__ = ()


class Nest(_Parts):
    """Parts whose lines begin `by` columns further to the right."""

    __slots__ = ("by",)

    def __init__(self, parts: Iterable[Doc], by: int = 0) -> None:
        super().__init__(parts)
        self.by = by


LINE, CUT, END, BLANK = Line(), Cut(), End(), End(blank=True)


@dataclass
class Row:
    """A line: its code and the comment at its end."""

    code: str
    comment: str = ""


def rows(doc: Doc, width: int) -> list[Row]:
    """The lines of a document; code stays within `width` where the document lets it."""
    printer = _Printer(width)
    printer.run(doc)
    return printer.rows


# A document to be printed, the indentation of its lines, and whether its places are blanks.
_Task = tuple[Doc, int, bool]


class _Printer:
    def __init__(self, width: int) -> None:
        self.width = width
        self.rows: list[Row] = []
        self.line = ""  # empty until there is code: the indentation comes with it
        self.comment = ""

    def run(self, doc: Doc) -> None:
        tasks: list[_Task] = [(doc, 0, False)]
        while tasks:
            part, indent, flat = tasks.pop()
            if isinstance(part, str):
                self.write(part, indent)
            elif isinstance(part, Line):
                self.write(" ", indent) if flat else self.end()
            elif isinstance(part, Cut):
                if not flat:
                    self.end()
            elif isinstance(part, End):
                self.end()
                if part.blank:
                    self.rows.append(Row(""))
            elif isinstance(part, Trail):
                self.comment = part.text
            elif isinstance(part, Verbatim):
                self.write(_moved(part, indent), indent)
            elif isinstance(part, Nest):
                tasks += [(p, indent + part.by, flat) for p in reversed(part.parts)]
            else:
                flat = flat or (not part.broken and self.fits(part, indent, tasks))
                tasks += [(p, indent, flat) for p in reversed(part.parts)]
        self.end()

    def write(self, text: str, indent: int) -> None:
        if self.line:
            self.line += text
        elif text != " ":
            self.line = " " * indent + text

    def end(self) -> None:
        if self.line:
            self.rows.append(Row(self.line.rstrip(" "), self.comment))
        self.line = self.comment = ""

    def fits(self, group: Group, indent: int, later: list[_Task]) -> bool:
        """Does a group fit on what is left of the line, with what follows up to the next line end?"""
        begun = len(self.line) - (self.line.rfind("\n") + 1)
        left = self.width - (begun or indent)
        tasks: list[tuple[Doc, bool]] = [(group, True)]
        after = len(later)
        while left >= 0:
            if not tasks:
                if not after:
                    return True
                after -= 1
                tasks.append((later[after][0], later[after][2]))
            part, flat = tasks.pop()
            if isinstance(part, str):
                left -= len(part)
            elif isinstance(part, Line | Cut):
                if not flat:
                    return True
                left -= isinstance(part, Line)
            elif isinstance(part, End):
                return True
            elif isinstance(part, Verbatim):
                return len(part.text.split("\n", 1)[0]) <= left
            elif not isinstance(part, Trail):
                tasks += [(p, flat and not part.broken) for p in reversed(part.parts)]
        return False


def _moved(comment: Verbatim, indent: int) -> str:
    """A comment's text, its lines moved as far as its first line moves."""
    if comment.column is None:
        return comment.text
    first, *others = comment.text.split("\n")
    made = [first]
    for line in others:
        bare = line.lstrip()
        begin = len(line[: len(line) - len(bare)].expandtabs())
        made.append(" " * max(begin + indent - comment.column, 0) + bare if bare else "")
    return "\n".join(made)

"""Diagnostics: where something is wrong in a program, what, and what to do about it.

A `Source` is one text, a `Place` a stretch of it, a `Diagnostic` one finding with a stable code.
The front end collects the findings of a phase in a `Reporter` and raises them together as one
`CompileError`. `CODES` is the table of all codes; the first digit names the phase:

    E1xx  the text: characters, syntax, limits, files
    E2xx  names, constants, definitions
    E3xx  numbers, sizes and costs
    E4xx  moments: what may be read, drawn or assigned where
    E5xx  structure: what a program, a session or a loop must have
    E6xx  stations
    E7xx  step stages, devices and engines
    E8xx  shared prefixes and checkpoints
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple, NoReturn

from sqc.advice import HELPS
from sqc.ir import Span

CODES: dict[str, str] = {
    # the text
    "E101": "unexpected character",
    "E102": "comment or string without an end",
    "E103": "malformed number",
    "E104": "syntax error",
    "E105": "nested too deeply",
    "E106": "program too large",
    "E107": "not a text file",
    "E108": "file cannot be read",
    "E109": "not the IR of a program",
    "E110": "bad row of a trace",
    # names, constants, definitions
    "E201": "unknown name",
    "E202": "unknown function",
    "E203": "wrong number of arguments",
    "E204": "name means two things",
    "E205": "not a constant",
    "E206": "constant is not a number",
    "E207": "misplaced args.number",
    "E208": "bad array size",
    "E209": "index out of range",
    "E210": "array without index",
    "E211": "wrong kind of thing",
    "E212": "unknown definition",
    "E213": "recursive definition",
    "E214": "argument refused by a definition",
    "E215": "expansion too large",
    "E216": "bad file of definitions",
    "E217": "unknown distribution",
    # numbers, sizes and costs
    "E301": "missing cost type",
    "E302": "cost of another resource",
    "E303": "costs do not mix",
    "E304": "assignment changes the type",
    "E305": "bad constant",
    "E306": "demand above capacity",
    "E307": "guard is not a test",
    "E308": "run mode and stage do not fit",
    "E309": "server cost in the workload",
    "E310": "stage cannot be shared",
    # moments
    "E401": "context variable at another moment",
    "E402": "draw refused here",
    "E403": "not readable here",
    "E404": "cached without a cache clause",
    "E405": "stale value in a hold header",
    "E406": "hidden attribute steers a decision",
    "E407": "attribute owned by the workload",
    "E408": "resource outside its hold",
    "E409": "lease of a pool that is not held",
    "E410": "binding that the body cannot read",
    "E411": "cached of another hold",
    # structure
    "E501": "no fn main",
    "E502": "no workload",
    "E503": "no server",
    "E504": "declared twice",
    "E505": "session without turn",
    "E506": "turn in the server",
    "E507": "end in the server",
    "E508": "loop that cannot let time pass",
    "E509": "statement refused here",
    "E510": "option given twice",
    "E511": "missing option",
    "E512": "join without fork",
    "E513": "fork without join",
    "E514": "share and runs over several stages do not fit",
    "E515": "named twice in one statement",
    "E516": "fork in a hold that may run again",
    # stations
    "E601": "unknown station, entry or part of one",
    "E602": "station without its index, or with one",
    "E603": "malformed station",
    "E604": "argument of an entry draws",
    "E605": "entry reads what is not its own",
    "E606": "hold header of an entry reads the request",
    "E607": "pool of another station",
    "E608": "nothing to take from a station",
    "E609": "bad relation of stations",
    "E610": "transfer without a way",
    "E611": "statement of entries only",
    "E612": "entries call each other",
    "E613": "misplaced entry of requests",
    # step stages, devices and engines
    "E701": "incomplete engine",
    "E702": "unknown device, engine or capacity",
    "E703": "engine and device do not fit",
    "E704": "given by the device or engine",
    "E705": "capacity that is no pool",
    "E706": "misused time of a device",
    "E707": "iteration that may do nothing",
    "E708": "serving rule with other statements",
    "E709": "bad cap on what a run gets",
    "E710": "misused register",
    "E711": "misplaced let of a schedule",
    # shared prefixes and checkpoints
    "E801": "prefix without a cache clause",
    "E802": "prefix of what its admission sets",
    "E803": "clause that a shared prefix does not go with",
    "E804": "cachedin of a pool with several prefixes",
    "E805": "options of pools with one history",
    "E806": "checkpoint of a pool with many entries",
    "E807": "hold within a hold of one history",
}


class Source:
    """One text and the name it is reported under."""

    __slots__ = ("_starts", "file", "text", "used")

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text
        self.used: Place | None = None  # the `use` that reads the file
        self._starts: list[int] | None = None

    def line_col(self, offset: int) -> tuple[int, int]:
        """1-based line and column of an offset."""
        if self._starts is None:
            self._starts = [0] + [i + 1 for i, c in enumerate(self.text) if c == "\n"]
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of one line, without its end."""
        self.line_col(0)
        assert self._starts is not None
        start = self._starts[number - 1]
        end = self._starts[number] - 1 if number < len(self._starts) else len(self.text)
        return self.text[start:end].rstrip("\r")


class Place(NamedTuple):
    """A stretch of a source; `via` is the use of a definition (or the call of an entry) that brought it here."""

    source: Source
    start: int
    end: int
    via: Place | None = None

    @property
    def span(self) -> Span:
        return Span(*self.source.line_col(self.start), *self.source.line_col(self.end))

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def __str__(self) -> str:
        line, col = self.source.line_col(self.start)
        return f"{self.source.file}:{line}:{col}"


class Called(Place):
    """The call of a station's entry, as a `via`."""

    __slots__ = ()


class ReadAs(Place):
    """The parameter as which a body reads an argument, as the `via` of the argument."""

    __slots__ = ()


_VIA = {Called: "in this call of the entry", ReadAs: "the body reads it here"}


class Note(NamedTuple):
    """Another place involved in a finding, or (without one) a remark."""

    message: str
    place: Place | None = None


class Diagnostic(NamedTuple):
    """One finding. `span` is 1-based; `source_line` is the line on which the span starts."""

    code: str
    message: str
    file: str
    span: Span | None = None
    source_line: str = ""
    help: str | None = None
    notes: tuple[Note, ...] = ()
    severity: str = "error"

    def __str__(self) -> str:
        return render(self)


class CompileError(Exception):
    """A program is wrong: `diagnostics` says how, in the order of the text."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        return "\n\n".join(render(d) for d in self.diagnostics)


def diagnose(code: str, message: str, place: Place, help: str | None = None, notes: Iterable[Note] = ()) -> Diagnostic:
    """A finding at a place; the uses of definitions that lead to it become notes."""
    assert code in CODES, code
    uses = []
    via = place.via
    while via is not None:
        uses.append(Note(_VIA.get(type(via), "in this use of the definition"), via))
        via = via.via
    if place.via is None and place.source.used is not None:
        uses.append(Note("the file is used here", place.source.used))
    span = place.span
    line = place.source.line(span.line)
    return Diagnostic(code, message, place.source.file, span, line, help or HELPS.get(code), (*notes, *uses))


class Reporter:
    """Collects the findings of a phase; the same finding at the same place counts once."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str, Span | None], Diagnostic] = {}

    def error(self, code: str, message: str, place: Place, help: str | None = None, notes: Iterable[Note] = ()) -> None:
        found = diagnose(code, message, place, help, notes)
        self._found.setdefault((found.code, found.message, found.file, found.span), found)

    def fatal(
        self, code: str, message: str, place: Place, help: str | None = None, notes: Iterable[Note] = ()
    ) -> NoReturn:
        """Report, and give up at once together with what was found before."""
        self.error(code, message, place, help, notes)
        raise self.failure()

    def take(self, error: CompileError) -> None:
        """Add the findings of another phase or file."""
        for d in error.diagnostics:
            self._found.setdefault((d.code, d.message, d.file, d.span), d)

    def __len__(self) -> int:
        return len(self._found)

    def failure(self) -> CompileError:
        """The findings, sorted by file (in order of discovery) and position."""
        files = list(dict.fromkeys(d.file for d in self._found.values()))

        def position(d: Diagnostic) -> tuple[int, int, int]:
            return files.index(d.file), d.span.line if d.span else 0, d.span.col if d.span else 0

        return CompileError(sorted(self._found.values(), key=position))

    def stop_if_any(self) -> None:
        """End of a phase: raise what was found."""
        if self._found:
            raise self.failure()


_WIDEST = 160


def render(diagnostic: Diagnostic) -> str:
    """The finding as text: a headline, the line with carets, help and notes."""
    d = diagnostic
    where = f"{d.file}:{d.span.line}:{d.span.col}" if d.span else d.file
    lines = [f"{where}: {d.severity}[{d.code}]: {d.message}"]
    if d.span:
        lines += _caret(d.span, d.source_line)
    if d.help:
        lines.append(f"  help: {d.help}")
    for note in d.notes:
        at = f" ({note.place})" if note.place else ""
        lines.append(f"  note: {note.message}{at}")
        if note.place:
            span = note.place.span
            lines += _caret(span, note.place.source.line(span.line))
    return "\n".join(lines)


def _caret(span: Span, line: str) -> list[str]:
    """The source line under its number, and carets under the part of the span that is on it."""
    start = span.col - 1
    end = span.end_col - 1 if span.end_line == span.line else len(line.rstrip())
    end = max(end, start + 1)
    if len(line) > _WIDEST:  # keep a window around the start of a very long line
        cut = max(0, start - _WIDEST // 2)
        line, start, end = line[cut : cut + _WIDEST], start - cut, min(end - cut, _WIDEST)
    shown = "".join(c if c.isprintable() else " " if c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in line)
    number = str(span.line)
    return [f"  {number} | {shown}", f"  {' ' * len(number)} | {' ' * start}{'^' * (end - start)}"]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """A `help` text naming the known name most like this one, if one is near."""
    import difflib  # only ever needed once something is wrong

    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    if not close:
        lowered = {k.lower(): k for k in known}
        close = [lowered[name.lower()]] if name.lower() in lowered else []
    return f"did you mean `{close[0]}`?" if close else None

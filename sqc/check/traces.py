"""Traces: the CSV of a corpus of sessions, read when the program is compiled.

Rows are `session,turn,new,out,think[,forced]`. Consecutive rows with one session number are one
session; the turn column is not read; a missing `forced` is 0. A line that starts with the word
`session` is a header, one that starts with `#` a comment.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

from sqc import ir
from sqc.diagnostics import Place, Reporter, Source
from sqc.syntax import tree

MAX_BYTES = 200_000_000
MAX_FINDINGS = 20

COLUMNS = ("session", "turn", "new", "out", "think", "forced")
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_ROW = re.compile(rf"({_NUMBER}),[^,]*,({_NUMBER}),({_NUMBER}),({_NUMBER})(?:,({_NUMBER}))?")

Row = tuple[float, float, float, float]


def read_trace(item: tree.Trace, directory: Path, reporter: Reporter) -> ir.Trace | None:
    """The trace that a program names; None after reporting what is wrong with it."""
    path = directory / item.path.value
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        reporter.error("E108", f"cannot read the trace: {reason}", item.path.place, f"it is looked for at {path}")
        return None
    if len(data) > MAX_BYTES:
        reporter.error("E106", f"the trace is larger than {MAX_BYTES // 1_000_000} MB", item.path.place)
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"the trace is no text in UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}"
        reporter.error("E107", message, item.path.place)
        return None
    return _parse(Source(str(path), text), item, reporter)


def _parse(source: Source, item: tree.Trace, reporter: Reporter) -> ir.Trace | None:
    starts: list[int] = []
    rows: list[Row] = []
    last: float | None = None
    before = len(reporter)
    at = 0
    for line in source.text.split("\n"):
        begin, at = at, at + len(line) + 1
        line = line.removesuffix("\r")
        if line.startswith("session") or not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _ROW.fullmatch(line)
        numbers = [float(n or 0.0) for n in found.groups()] if found else []
        if not numbers or not all(map(math.isfinite, numbers)):
            _wrong(line, Place(source, begin, begin + len(line)), reporter)
            if len(reporter) - before >= MAX_FINDINGS:
                return None
            continue
        session, new, out, think, forced = numbers
        if session != last:
            starts.append(len(rows))
            last = session
        rows.append((new, out, think, forced))
    if len(reporter) > before:
        return None
    if not rows:
        reporter.error("E110", "the trace has no rows", item.path.place, f"a row is {_SHAPE}")
        return None
    return ir.Trace(item.ordered, (*starts, len(rows)), tuple(rows))


_SHAPE = "session,turn,new,out,think[,forced]"


def _wrong(line: str, place: Place, reporter: Reporter) -> None:
    """Report a line that is no row: the number of its fields, or the first that is no number."""
    fields = line.split(",")
    if len(fields) not in (5, 6):
        message = f"a row of a trace has 5 or 6 fields, found {len(fields)}"
        reporter.error("E110", message, place, f"write {_SHAPE}")
        return
    start = place.start
    for name, field in zip(COLUMNS, fields, strict=False):
        here = place._replace(start=start, end=start + max(len(field), 1))
        start += len(field) + 1
        if name == "turn":
            continue
        if not re.fullmatch(_NUMBER, field):
            blank = re.fullmatch(_NUMBER, field.strip()) is not None
            advice = "leave out the blanks" if blank else f"write {_SHAPE}"
            message = f"`{field}` in the column {name} is no number" if field else f"the column {name} is empty"
            reporter.error("E110", message, here, advice)
            return
        if not math.isfinite(float(field)):
            reporter.error(
                "E110", f"`{field}` in the column {name} is out of range", here, "a trace has finite numbers"
            )
            return

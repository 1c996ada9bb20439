"""The command `fmt`: files in, formatted text, a list or rewritten files out."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from sqc.cli.commands import app, no_inputs, one_of
from sqc.cli.exits import FAILED, failing
from sqc.cli.streams import read_program

if TYPE_CHECKING:
    from sqc.diagnostics import Source


class Formatted(NamedTuple):
    """A file (or `-`), the name it is reported under, its text and the formatted one."""

    path: str
    shown: str
    before: str
    after: str


@app.command("fmt")
def fmt(
    ctx: typer.Context,
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Programs (.sq), or - for stdin.")],
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="SPELLING", help="seed: `branch`, `branch with`; if: `if`, `if (~bernoulli(p))`."),
    ] = None,
    write: Annotated[bool, typer.Option("--write", "-w", help="Rewrite the files; name those that changed.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Name the files that would change; the exit code is 1 if any would.")
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Print what would change.")] = False,
) -> int:
    """Format programs: print one, or rewrite files.

    Spaces, lines and comments get the founding programs' style; words, numbers and comments stay what and where they
    are, and blocks on one line stay there if they fit into 100 columns. --to also rewrites branches. A text keeps the
    line ends (LF or CRLF) of its first line. If one file has errors, none is written.

    \b
    Example:
      sqc fmt prog.sq
      sqc fmt --write --to seed programs/*.sq
    """
    with failing(ctx.command_path, as_json=False):
        no_inputs(ctx)
        _check_usage(files, to, write, check, diff)
        formatted = _format(files, to)
        changed = [file for file in formatted if file.after != file.before]
        if write:
            _rewrite(changed)
        elif diff:
            for file in changed:
                _put(_difference(file))
        elif check:
            for file in changed:
                print(f"{file.shown}: would change")
        else:
            _put(formatted[0].after)
        return FAILED if check and changed else 0


def _check_usage(files: Sequence[str], to: str | None, write: bool, check: bool, diff: bool) -> None:
    from sqc.format.spelling import SPELLINGS
    from sqc.inputs import InputError

    one_of("--to", to, SPELLINGS)
    if write and (check or diff):
        raise InputError("--write goes with neither --check nor --diff")
    if write and "-" in files:
        raise InputError("--write: there is no file to rewrite for -")
    if files.count("-") > 1:
        raise InputError("- is given twice")
    if len(files) > 1 and not (write or check or diff):
        raise InputError("several files: use --write, --check or --diff")


def _format(files: Sequence[str], spelling: str | None) -> list[Formatted]:
    """All files, or the diagnostics of all."""
    from sqc.diagnostics import CompileError, Diagnostic
    from sqc.format import format_source

    made: list[Formatted] = []
    found: list[Diagnostic] = []
    for path in dict.fromkeys(files):
        try:
            source = _read(path)
            made.append(Formatted(path, source.file, source.text, format_source(source, spelling)))
        except CompileError as error:
            found += error.diagnostics
    if found:
        raise CompileError(found)
    return made


def _read(path: str) -> Source:
    from sqc.diagnostics import Source
    from sqc.syntax.files import read_source

    if path == "-":
        return Source("<stdin>", read_program())
    return read_source(Path(path), path)


def _put(text: str) -> None:
    """Print a text as it is: in UTF-8, with its own line ends."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()


def _difference(file: Formatted) -> str:
    import difflib

    before, after = (_lines(text) for text in (file.before, file.after))
    made = difflib.unified_diff(before, after, file.shown, f"{file.shown} (formatted)", lineterm="")
    return "".join(f"{line}\n" for line in made)


def _lines(text: str) -> list[str]:
    *lines, last = text.split("\n")
    return [*lines, f"{last}\n\\ No newline at end of file"] if last else lines


def _rewrite(changed: Sequence[Formatted]) -> None:
    for file in changed:
        if not os.access(file.path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), file.path)
    for file in changed:
        try:
            _replace(Path(file.path).resolve(), file.after)
        except OSError as error:
            raise OSError(error.errno, error.strerror, file.path) from None
        print(f"{file.shown}: rewritten")


def _replace(path: Path, text: str) -> None:
    """A file's new text, at once or not at all; its mode stays."""
    mode = stat.S_IMODE(path.stat().st_mode)
    handle, partial = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(text.encode())
        os.chmod(partial, mode)
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise

"""Exit codes, and the one place where a failing command says why."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import typer

from sqc.cli.printing import print_json

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


@contextlib.contextmanager
def failing(command: str, as_json: bool) -> Iterator[None]:
    """Turn the errors of a command into text on stderr (with `--json`: JSON on stdout) and an exit code."""
    from sqc.diagnostics import CompileError
    from sqc.inputs import InputError
    from sqc.program import RunError

    try:
        yield
        sys.stdout.flush()  # what cannot be printed is this command's failure
    except InputError as error:
        print(f"{command}: {error}", file=sys.stderr)
        raise typer.Exit(USAGE) from None
    except CompileError as error:
        _say(error, {"diagnostics": [_diagnostic(found) for found in error.diagnostics]}, as_json)
        raise typer.Exit(FAILED) from None
    except _loaded_errors() as error:
        print(f"{command}: {error}", file=sys.stderr)
        raise typer.Exit(FAILED) from None
    except RunError as error:
        _say(error, {"failure": error.json()}, as_json)
        raise typer.Exit(FAILED) from None
    except KeyboardInterrupt:
        print(f"{command}: interrupted", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        at = f"{error.filename}: " if error.filename else ""
        print(f"{command}: {at}{error.strerror or error}", file=sys.stderr)
        raise typer.Exit(FAILED) from None


def _loaded_errors() -> tuple[type[Exception], ...]:
    """The errors of kernels, compiled programs, stored sweeps, pictures and searches; nothing to catch where those were
    never loaded (they are slow to)."""
    homes = {
        "sqc.kernel": "KernelError",
        "sqc.artefact": "ArtefactError",
        "sqc.sweeps.errors": "StoreError",
        "sqc.sweeps.cluster": "ClusterError",
        "sqc.pictures.style": "NoMatplotlib",
        "sqc.search.sampler": "NoOptuna",
    }
    return tuple(getattr(sys.modules[module], name) for module, name in homes.items() if module in sys.modules)


def _say(error: Exception, document: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json({"ok": False, **document})
    else:
        print(error, file=sys.stderr)


def _diagnostic(found: Any) -> dict[str, Any]:
    span = found.span
    place = (span.line, span.col, span.end_line, span.end_col) if span else (None,) * 4
    return {
        "code": found.code,
        "severity": found.severity,
        "message": found.message,
        "file": found.file,
        **dict(zip(("line", "col", "end_line", "end_col"), place, strict=True)),
        "help": found.help,
        "notes": [note.message for note in found.notes],
    }

"""Reading a program back from the IR that `sqc ir` wrote: a wrong file is a diagnostic, never a crash."""

from __future__ import annotations

import dataclasses
import types
import typing
from pathlib import Path
from typing import Any

from sqc import ir
from sqc.diagnostics import CompileError, Diagnostic


def read(path: Path) -> ir.Program:
    """The program in an IR file. Raises CompileError with one diagnostic if there is none."""
    try:
        program = ir.from_json(path.read_text(encoding="utf-8"))
        problem = _problem(program, ir.Program, "program")
    except OSError as error:
        raise _wrong(path, "E108", f"the file cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise _wrong(path, "E107", "the file is not a text in UTF-8") from None
    except ir.IRError as error:
        problem = str(error)
    except RecursionError:
        problem = "nested too deeply"
    if problem:
        raise _wrong(path, "E109", f"the file is not the IR of a program: {problem}")
    return program


def _wrong(path: Path, code: str, message: str) -> CompileError:
    return CompileError([Diagnostic(code, message, str(path))])


def _problem(value: Any, hint: Any, where: str) -> str | None:
    """The first place where a value is not what the dataclasses of the IR declare, or None."""
    if typing.get_origin(hint) is tuple:
        if not isinstance(value, tuple):
            return f"{where} is no list"
        items, elements = typing.get_args(hint)[0], enumerate(value)
        return next(filter(None, (_problem(item, items, f"{where}[{index}]") for index, item in elements)), None)
    # A union of the IR names different classes, so the class of the value tells which one is meant.
    allowed = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
    if ir.Const in allowed:
        allowed += (ir.Present,)  # an expression, but of ps capacities only, so not in the union `Expr`
    if type(value) not in allowed:
        return f"{where} is {type(value).__name__}, not {' or '.join(kind.__name__ for kind in allowed)}"
    if not dataclasses.is_dataclass(value):
        return None
    fields = typing.get_type_hints(type(value)).items()
    return next(
        filter(None, (_problem(getattr(value, name), below, f"{where}.{name}") for name, below in fields)), None
    )

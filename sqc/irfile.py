"""Reading a program back from the IR that `sqc ir` wrote: a wrong file is a diagnostic, never a crash."""

from __future__ import annotations

import dataclasses
import itertools
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
        problem = _problem(program, ir.Program, "program") or _meaning(program)
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
    if type(value) not in allowed:
        return f"{where} is {type(value).__name__}, not {' or '.join(kind.__name__ for kind in allowed)}"
    if not dataclasses.is_dataclass(value):
        return None
    fields = typing.get_type_hints(type(value)).items()
    return next(
        filter(None, (_problem(getattr(value, name), below, f"{where}.{name}") for name, below in fields)), None
    )


_OPERATORS: dict[type, tuple[str, ...]] = {
    ir.Unary: ir.UNARY_OPS, ir.Binary: ir.BINARY_OPS, ir.Lazy: ir.LAZY_OPS,
}  # fmt: skip
_KINDS: dict[type, tuple[str, ...]] = {ir.Read: ir.OBSERVABLES, ir.Total: ir.TOTALS}
_BUILT_IN = ("serial", "turn_no", "cached", "computed")


def _meaning(program: ir.Program) -> str | None:
    """The first name in a program that stands for nothing in it, or None."""
    sizes = {pool.name: pool.size for pool in program.pools} | {stage.name: stage.size for stage in program.stages}
    names: dict[type, set[str]] = {
        ir.Attr: {*program.attributes, *_BUILT_IN},
        ir.Input: {declared.name for declared in program.inputs},
        ir.Context: set(ir.CONTEXT),
        ir.Observe: {declared.name for declared in program.observes},
        ir.Ref: set(sizes),
    }
    for node in ir.walk(program):
        what = type(node).__name__
        if type(node) in _OPERATORS and node.op not in _OPERATORS[type(node)]:
            return f"{what} has no operator {node.op!r}"
        if type(node) in _KINDS and node.kind not in _KINDS[type(node)]:
            return f"{what} has no kind {node.kind!r}"
        if isinstance(node, ir.Draw) and ir.DISTRIBUTIONS.get(node.dist) != len(node.args):
            return f"Draw of {node.dist!r} with {len(node.args)} arguments"
        if type(node) in names and node.name not in names[type(node)]:
            return f"{what} of {node.name!r}, which is not declared"
        if isinstance(node, ir.Total) and node.observe not in names[ir.Observe]:
            return f"Total of {node.observe!r}, which is not observed"
        if isinstance(node, ir.Ref) and (node.index is None) is not (sizes[node.name] is None):
            return f"Ref of {node.name!r} {'without' if node.index is None else 'with'} an index"
    return _trace(program.trace)


def _trace(trace: ir.Trace | None) -> str | None:
    if trace is None:
        return None
    starts = trace.starts
    rising = all(a < b for a, b in itertools.pairwise(starts))
    if len(starts) < 2 or not rising or starts[0] != 0 or starts[-1] != len(trace.rows):
        return "the sessions of the trace are not its rows in order"
    if any(len(row) != 4 for row in trace.rows):
        return "a row of the trace has not four numbers"
    return None

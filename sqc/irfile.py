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
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise _wrong(path, "E108", f"the file cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise _wrong(path, "E107", "the file is not a text in UTF-8") from None
    return parsed(text, path)


def parsed(text: str, path: Path) -> ir.Program:
    """The program in the text of an IR, which is in that file. Raises CompileError with one diagnostic."""
    try:
        program = ir.from_json(text)
        problem = _problem(program, ir.Program, "program") or _meaning(program)
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
        items = typing.get_args(hint)
        if items[-1] is Ellipsis:
            items = items[:1] * len(value)
        if len(items) != len(value):
            return f"{where} has {len(value)} elements, not {len(items)}"
        elements = enumerate(zip(value, items, strict=True))
        return next(filter(None, (_problem(item, of, f"{where}[{index}]") for index, (item, of) in elements)), None)
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
        ir.Context: {*ir.CONTEXT, *_own_names(program)},
        ir.Observe: {declared.name for declared in program.observes},
        ir.Ref: set(sizes),
    }
    owned = _owned(program, sizes)
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
        whole = isinstance(node, ir.Ref) and node.index is None
        if isinstance(node, ir.Ref) and whole is not (sizes[node.name] is None) and id(node) not in owned:
            return f"Ref of {node.name!r} {'without' if node.index is None else 'with'} an index"
    return _steps(program) or _trace(program.trace)


def _own_names(program: ir.Program) -> set[str]:
    """The registers and lets of step stages."""
    kinds = [stage.kind for stage in program.stages if isinstance(stage.kind, ir.Step)]
    lets = {node.name for kind in kinds for node in ir.walk(kind) if isinstance(node, ir.StepLet)}
    return {name for kind in kinds for name, _ in kind.registers} | lets


def _owned(program: ir.Program, sizes: dict[str, int | None]) -> set[int]:
    """The references, by identity, that mean an array member for member: each of an array has its own."""
    refs = [(pool.size, pool.admit_via) for pool in program.pools]
    refs += [(stage.size, stage.kind.memory) for stage in program.stages if isinstance(stage.kind, ir.Step)]
    return {id(ref) for size, ref in refs if ref is not None and ref.index is None and sizes.get(ref.name) == size}


_MODES = ("prefill", "decode")
_CLAIMS = ("every_iteration", "some_iteration")


def _steps(program: ir.Program) -> str | None:
    """What needs a step stage and names another, or the other way round."""
    steps = {stage.name: stage.kind for stage in program.stages if isinstance(stage.kind, ir.Step)}
    pools = {pool.name for pool in program.pools}
    for node in ir.walk(program):
        needs: list[ir.Ref | None] = []
        match node:
            case ir.Run(stage=stage, mode=mode, growing=growing):
                if mode not in (_MODES if stage.name in steps else ("",)):
                    return f"Run on {stage.name!r} with the mode {mode!r}"
                if growing is not None and (mode == "" or growing.name not in pools):
                    return f"Run on {stage.name!r} growing {growing.name!r}"
            case ir.Claim(kind=kind, stage=claimed):
                if kind not in ("at_end", *_CLAIMS) or (claimed is None) is not (kind == "at_end"):
                    return f"Claim {node.name!r} of the kind {kind!r}"
                needs = [claimed]
            case ir.Pool(admit_via=via):
                needs = [via]
            case ir.Read(kind="budget_left", ref=ref):
                needs = [ref]
            case ir.Step(memory=ir.Ref() as memory) if memory.name not in pools:
                return f"Step with the memory {memory.name!r}, which is no pool"
        for named in needs:
            if named is not None and named.name not in steps:
                return f"{type(node).__name__} names {named.name!r}, which is no step stage"
    for name, step in steps.items():
        registers = {register for register, _ in step.registers}
        for node in ir.walk(step.body):
            if isinstance(node, ir.StepSet) and node.name not in registers:
                return f"StepSet of {node.name!r}, which is no register of {name!r}"
    return None


def _trace(trace: ir.Trace | None) -> str | None:
    if trace is None:
        return None
    starts = trace.starts
    rising = all(a < b for a, b in itertools.pairwise(starts))
    if len(starts) < 2 or not rising or starts[0] != 0 or starts[-1] != len(trace.rows):
        return "the sessions of the trace are not its rows in order"
    return None

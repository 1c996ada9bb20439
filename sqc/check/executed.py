"""What parses and checks, but is not executed by this version: refused by name.

One diagnostic for a program: at the first construct that is not executed, with the others named.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqc.check.costs import family
from sqc.check.scope import Scope
from sqc.check.structure import word
from sqc.diagnostics import Note, Place, Reporter
from sqc.syntax import tree

_EXECUTED_OPTIONS = ("cap", "evict lru", "queue fifo", "preempt none")
_UNREADABLE = ("work", "budget_left", "est_lambda", "est_rho", "est_wait", "price", "blocksize")


def refuse_foreign(items: list[tree.Item], reporter: Reporter) -> None:
    """Devices, engines and stations: read, but not understood any further."""
    found = [
        (node.construct, word(node)) for item in items for node in tree.walk(item) if isinstance(node, tree.Foreign)
    ]
    _refuse(found, reporter)


def refuse(scope: Scope, reporter: Reporter) -> None:
    """Everything else of the language that is not executed."""
    found: list[tuple[str, Place]] = []
    for item in scope.items:
        found.extend(_declaration(item))
    for name, block in scope.blocks():
        found.extend(_nested(block, (), name == "session"))
    _refuse(found, reporter)


def _refuse(found: list[tuple[str, Place]], reporter: Reporter) -> None:
    first: dict[str, Place] = {}
    for construct, place in sorted(found, key=lambda f: f[1].start):
        first.setdefault(construct, place)
    if not first:
        return
    (construct, place), *others = first.items()
    listed = ", ".join(f"{other} (line {at.span.line})" for other, at in others)
    notes = [Note(f"not executed either: {listed}")] if listed else []
    reporter.error("E901", f"{construct} is not executed yet", place, notes=notes)


def _declaration(item: tree.Item) -> Iterator[tuple[str, Place]]:
    match item:
        case tree.Pool(size=size, options=options):
            if size is not None:
                yield "an array of pools", size.place
            for option in options:
                if option.word not in _EXECUTED_OPTIONS:
                    yield f"`{option.word}`", option.place
        case tree.Stage(size=size, kind=kind):
            if size is not None:
                yield "an array of stages", size.place
            if kind.word == "step":
                yield "`step`", word(kind)
        case tree.Gauge():
            yield "`gauge`", word(item)
        case tree.Claim():
            yield "`claim`", word(item)
        case tree.Share():
            yield "`share`", word(item)
        case tree.Workload(items=parts):
            for part in parts:
                if isinstance(part, tree.Trace):
                    yield "`trace`", word(part)
    for node in tree.walk(item):
        if isinstance(node, tree.Call) and isinstance(node.callee, tree.Name) and node.callee.id in _UNREADABLE:
            yield f"`{node.callee.id}`", node.callee.place


def _nested(node: tree.Node, held: tuple[str, ...], session: bool) -> Iterator[tuple[str, Place]]:
    """Statements, with the pools held around them."""
    yield from _statement(node, held, session)
    if isinstance(node, tree.Hold):
        held = (*held, *(family(part.pool) for part in node.parts))
    for child in tree.children(node):
        yield from _nested(child, held, session)


def _statement(node: tree.Node, held: tuple[str, ...], session: bool) -> Iterator[tuple[str, Place]]:
    match node:
        case tree.Choose() | tree.Grow() | tree.Load() | tree.Release() | tree.Fork() | tree.Join() | tree.Transfer():
            yield f"`{type(node).__name__.lower()}`", word(node)
        case tree.Run(stages=stages, growing=growing):
            if len(stages) > 1:
                yield "a run on several stages", stages[1].place
            if growing is not None:
                yield "`growing`", growing.place
        case tree.Serve(index=index, growing=growing):
            if index is not None:
                yield "an array of stages", index.place
            if growing is not None:
                yield "`growing`", growing.place
        case tree.Part(reserve=reserve) if reserve is not None:
            yield "`reserve`", reserve.place
        case tree.Hold(parts=parts):
            if session:
                yield "a hold in the session", word(node)
            if len(parts) > 1:
                yield "a hold of several pools", parts[1].place
            if any(family(part.pool) in held for part in parts):
                yield "a hold inside a hold of the same pool", word(node)
            if node.reuse is not None:
                yield "`reuse`", node.reuse.place
            if node.bindings:
                yield "`at admission`", node.bindings[0].place
            if node.lease is not None:
                yield "`lease`", node.lease.place

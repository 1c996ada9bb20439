"""Hidden attributes steer nothing: not the scheduler's decisions, nor the server before a run reveals them.

A hold's units, reserve, prefix and reuse never read a hidden attribute. An attribute that is set from a
hidden one carries it along. A run whose work reads a hidden attribute, directly or through such a
copy, and whichever arms are taken, reveals it: when the run has ended, the rest of the server may
steer by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sqc.check.flow import Flow
from sqc.check.reads import always, reads
from sqc.check.scope import Scope
from sqc.check.sites import amounts, named
from sqc.diagnostics import Note, Reporter
from sqc.syntax import tree


class _State(NamedTuple):
    """`carries`: attribute -> the hidden ones it may be set from; `surely`: those it depends on whatever path was
    taken; `known`: those a run has revealed."""

    carries: dict[str, frozenset[str]]
    surely: dict[str, frozenset[str]]
    known: frozenset[str]


def check_hidden(scope: Scope, reporter: Reporter) -> None:
    """Report every decision that a hidden attribute would steer."""
    if not scope.hidden:
        return
    flow = _Hidden(scope, reporter)
    for block in (scope.session, scope.server):
        for node in tree.walk(block) if block is not None else ():
            if isinstance(node, tree.Hold):
                flow.header(node)
    marks: _State | None = _State({}, {}, frozenset())
    for block in (scope.init, scope.turn):
        marks = flow.block(block, marks)
    flow.block(scope.server, marks)


class _Hidden(Flow[_State]):
    def __init__(self, scope: Scope, reporter: Reporter) -> None:
        self.scope = scope
        self.reporter = reporter

    def join(self, x: _State, y: _State) -> _State:
        names = {*x.carries, *y.carries}
        some = {n: x.carries.get(n, frozenset()) | y.carries.get(n, frozenset()) for n in names}
        both = {n: x.surely.get(n, frozenset()) & y.surely.get(n, frozenset()) for n in names}
        return _State(some, both, x.known & y.known)

    def sources(self, node: tree.Node, carries: dict[str, frozenset[str]]) -> frozenset[str]:
        """The hidden attributes that a value depends on."""
        found: set[str] = set()
        for name, _ in reads(node):
            found |= {name} if name in self.scope.hidden else carries.get(name, frozenset())
        return frozenset(found)

    def revealed(self, node: tree.Node, state: _State) -> frozenset[str]:
        """The hidden attributes that a value depends on whichever arms are taken."""
        hidden = self.scope.hidden
        return always(node, lambda n: frozenset({n}) if n in hidden else state.surely.get(n, frozenset()))

    def bound(self, node: tree.Hold) -> dict[str, frozenset[str]]:
        """The hidden attributes that the names bound by a hold stand for."""
        bound: dict[str, frozenset[str]] = {}
        for binding in node.bindings:
            bound[binding.name.id] = self.sources(binding.value, bound)
        return bound

    def direct(self, node: tree.Hold) -> frozenset[str]:
        """The hidden attributes that a hold's header reads itself."""
        bound = self.bound(node)
        return frozenset().union(*(self.sources(expr, bound) for expr in amounts(node)))

    def header(self, node: tree.Hold) -> None:
        """What admission decides by reads nothing hidden, whatever has been revealed."""
        bound = self.bound(node)
        for expr in amounts(node):
            for name, at in reads(expr):
                for source in sorted(self.sources(at, bound)):
                    self.refuse(source, name, at, "a hold's header may not read it")

    def refuse(self, source: str, read: str, at: tree.Node, why: str) -> None:
        notes = [Note("hidden here", self.scope.hidden[source])]
        what = f"`{source}` is hidden" if source == read else f"`{read}` is set from the hidden `{source}`"
        self.reporter.error("E406", f"{what}: {why}", at.place, _HELP, notes)

    def steer(self, expr: tree.Node, state: _State, what: str) -> None:
        """An expression that decides what happens next: everything hidden in it must have been revealed."""
        for name, at in reads(expr):
            for source in sorted(self.sources(at, state.carries) - state.known):
                self.refuse(source, name, at, f"{what} may not depend on it before a run whose work reads it")

    # ----------------------------------------------------------------- statements

    def plain(self, node: tree.Stmt, state: _State) -> _State:
        for what, expr in _deciding(node):
            self.steer(expr, state, what)
        match node:
            case tree.Set(name=name, value=value):
                return self.assign(name.id, value, state)
            case tree.CostRecord(name=name, record=record):
                for field in record:
                    state = self.assign(f"{name.id}.{field.name.id}", field.value, state)
            case tree.Choose(name=name):
                return self.assign(name.id, None, state)
            case tree.Run(work=work) | tree.Serve(work=work) | tree.Transfer(work=work):
                return state._replace(known=state.known | self.revealed(work, state))
        return state

    def assign(self, name: str, value: tree.Node | None, state: _State) -> _State:
        """The state after an attribute got a value, or one that carries nothing."""
        some = frozenset[str]() if value is None else self.sources(value, state.carries)
        both = frozenset[str]() if value is None else self.revealed(value, state)
        return state._replace(carries={**state.carries, name: some}, surely={**state.surely, name: both})

    def enter(self, node: tree.Hold, state: _State) -> _State:
        inside = state
        for binding in node.bindings:
            inside = self.assign(binding.name.id, binding.value, inside)
        known = inside._replace(known=state.known | self.direct(node))  # reported by `header`
        for expr in amounts(node):
            self.steer(expr, known, "a hold")
        for index in _indices(node):
            self.steer(index, state, "an index")
        return inside

    def leave(self, node: tree.Hold, state: _State) -> _State:
        if node.lease is not None:
            self.steer(node.lease.time, state, "the time of a lease")
        return state


_HELP = "the server may run work by it, keep a prefix by it and observe it"


def _indices(node: tree.Stmt) -> Iterator[tree.Expr]:
    """The indices of the pools and stages that a statement names (a hold: in its header)."""
    below = (*node.parts, *((node.lease,) if node.lease else ())) if isinstance(node, tree.Hold) else (node,)
    for part in below:
        for ref, _ in named(part):
            if isinstance(ref, tree.Index):
                yield ref.index


def _deciding(node: tree.Stmt) -> Iterator[tuple[str, tree.Expr]]:
    """What a statement decides by, in words, and the expressions."""
    match node:
        case tree.Branch(guard=guard):
            yield "a branch", guard
        case tree.While(guard=guard):
            yield "a `while`", guard
        case tree.Choose(count=count, keys=keys):
            yield from (("a choice", expr) for expr in (count, *keys))
        case tree.Grow(amount=amount):
            yield "a growth", amount
        case tree.Load(amount=amount) | tree.Transfer(units=amount):
            yield "a load", amount
        case tree.Checkpoint(position=position):
            yield "a checkpoint", position
    if isinstance(node, tree.Serve | tree.Transfer) and node.index is not None:
        yield "an index", node.index
    yield from (("an index", index) for index in _indices(node))

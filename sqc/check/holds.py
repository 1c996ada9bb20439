"""Holds: what may stand only inside one, whose admission `cached` is of, and stale values in headers.

The session and the server are gone through as one session lives them: the server at each `turn`,
within the holds around that turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sqc.check.flow import Flow
from sqc.check.reads import live_reads, member, reads
from sqc.check.scope import Scope, family
from sqc.check.sites import amounts
from sqc.check.structure import word
from sqc.check.values import Values
from sqc.diagnostics import Note, Reporter
from sqc.syntax import tree


class _State(NamedTuple):
    """`live`: attribute -> where it may last have been set from live state; `admitted`: the holds
    that may have been admitted within the innermost one, since it was."""

    live: dict[str, frozenset[tree.Node]]
    admitted: frozenset[tree.Hold]


def check_holds(scope: Scope, reporter: Reporter) -> None:
    """Report what holds, and statements that act on them, do wrong."""
    holds = _Holds(scope, reporter)
    for _, block in scope.blocks():
        for node in tree.walk(block):
            if isinstance(node, tree.Hold):
                holds.parts(node)
    start = holds.block(scope.init, _State({}, frozenset()))
    assert start is not None
    if scope.session is None:
        holds.block(scope.server, holds.turn(start))
    holds.block(scope.session, start)


class _Holds(Flow[_State]):
    def __init__(self, scope: Scope, reporter: Reporter) -> None:
        self.scope = scope
        self.reporter = reporter
        self.server = scope.server
        self.values = Values(scope)
        self.around: tuple[tree.Hold, ...] = ()  # the holds around the statement
        self.before = _State({}, frozenset())  # the state at the header of the innermost
        self.leased = {
            family(node.pool)
            for _, block in scope.blocks()
            for node in tree.walk(block)
            if isinstance(node, tree.Lease)
        }

    def join(self, x: _State, y: _State) -> _State:
        names = {*x.live, *y.live}
        both = {n: x.live.get(n, frozenset()) | y.live.get(n, frozenset()) for n in names}
        return _State(both, x.admitted | y.admitted)

    # ----------------------------------------------------------------- a hold by itself

    def parts(self, node: tree.Hold) -> None:
        seen: dict[tuple[str, object], tree.Part] = {}
        for part in node.parts:
            first = seen.setdefault(member(part.pool, self.values), part)
            if first is not part:
                notes = [Note("first named here", first.pool.place)]
                message = f"this hold names `{tree.dotted(part.pool)}` twice"
                self.reporter.error("E515", message, part.pool.place, "add the units up", notes)
        if node.lease is not None and member(node.lease.pool, self.values) not in seen:
            name = tree.dotted(node.lease.pool)
            message = f"this leases `{name}`, which the hold does not take"
            self.reporter.error("E409", message, node.lease.pool.place, "lease a pool of the hold, written as there")
        if node.reuse is not None and node.cache is None:
            notes = [Note("this hold has no `cache` clause", node.header)]
            message = "`reuse` without a `cache` clause: such a hold consumes no prefix"
            advice = "`cache (0)` consumes the prefix and keeps nothing"
            self.reporter.error("E511", message, node.reuse.place, advice, notes)

    # ----------------------------------------------------------------- the walk

    def plain(self, node: tree.Stmt, state: _State) -> _State:
        self.cached(node, state)
        live = dict(state.live)
        match node:
            case tree.Grow(pool=pool) | tree.Load(pool=pool) | tree.Checkpoint(pool=pool):
                self.inside(node, pool, type(node).__name__.lower())
            case tree.Run(growing=growing) | tree.Serve(growing=growing) if growing is not None:
                self.inside(growing, growing, "growing")
            case tree.Release(pool=pool):
                self.released(node, pool)
            case tree.Transfer(source=source, target=target):
                self.inside(target, target, "load")
                self.released(source, source)
            case tree.Set(name=name, value=value):
                live[name.id] = frozenset([node] if any(live_reads(value)) else [])
            case tree.CostRecord(name=name, record=record):
                for field in record:
                    live[f"{name.id}.{field.name.id}"] = frozenset([field] if any(live_reads(field.value)) else [])
            case tree.Choose(name=name):
                live[name.id] = frozenset()
        return state._replace(live=live)

    def turn(self, state: _State) -> _State:
        after = self.block(self.scope.turn, state)
        assert after is not None
        return after

    def leg(self, state: _State) -> _State:
        return state._replace(admitted=frozenset())

    def statement(self, node: tree.Stmt, state: _State) -> _State | None:
        around, before = self.around, self.before
        if isinstance(node, tree.Hold):
            self.around, self.before = (*around, node), state
        elif isinstance(node, tree.Fork):
            self.forked(node)
            self.around = ()  # a leg has no part in its session's holds
        after = super().statement(node, state)
        self.around, self.before = around, before
        return after

    def enter(self, node: tree.Hold, state: _State) -> _State:
        outer = self.around[:-1]
        for expr in _header(node):
            self.cached(expr, state, outer)
            for name, at in reads(expr):
                for setter in state.live.get(name, ()):
                    self.stale(name, at, setter)
        return state._replace(admitted=frozenset())

    def leave(self, node: tree.Hold, state: _State) -> _State:
        before = self.before
        for name, at in reads(node.cache) if node.cache is not None else ():
            for setter in before.live.get(name, frozenset()) & state.live.get(name, frozenset()):
                self.stale(name, at, setter)
        return state._replace(admitted=before.admitted | {node})

    # ----------------------------------------------------------------- findings

    def held(self, pool: tree.Ref) -> bool:
        wanted = member(pool, self.values)
        return any(member(part.pool, self.values) == wanted for hold in self.around for part in hold.parts)

    def inside(self, node: tree.Node, pool: tree.Ref, what: str) -> None:
        if not self.held(pool):
            name = tree.dotted(pool)
            message = f"`{what}` of `{name}` outside a hold of `{name}`"
            place = (
                word(node) if isinstance(node, tree.Grow | tree.Load | tree.Checkpoint | tree.Release) else node.place
            )
            advice = f"put it into the body of: hold {pool.place.text} (...)"
            self.reporter.error("E408", message, place, advice)

    def released(self, node: tree.Node, pool: tree.Ref) -> None:
        """A release needs a hold around it, or a lease somewhere."""
        if family(pool) not in self.leased:
            self.inside(node, pool, "release")

    def forked(self, node: tree.Fork) -> None:
        """A hold that is preempted runs again from its start, and would fork again."""
        for part in (part for hold in reversed(self.around) for part in hold.parts):
            name = family(part.pool)
            preemption = self.scope.pools[name].preemption
            if preemption is not None:
                notes = [Note("held here", part.pool.place), Note("the pool preempts", preemption.place)]
                message = f"`fork` inside a hold of `{name}`, which may be preempted: then it runs and forks again"
                self.reporter.error("E516", message, word(node), "fork before the hold", notes)
                return

    def cached(self, node: tree.Node, state: _State, around: tuple[tree.Hold, ...] | None = None) -> None:
        around = self.around if around is None else around
        if not around:
            return
        hold = around[-1]
        for name, at in reads(node):
            if name != "cached":
                continue
            if hold.cache is None:
                notes = [Note("this hold has no `cache` clause", hold.header)]
                message = "`cached` is always 0 here: a hold without a `cache` clause consumes no prefix"
                advice = "`cache (0)` consumes the prefix and keeps nothing"
                self.reporter.error("E404", message, at.place, advice, notes)
            elif state.admitted:
                inner = min(state.admitted, key=lambda h: h.place.start)
                notes = [Note("this hold is admitted in between", inner.header)]
                message = "`cached` may be of another hold here: every admission sets it"
                self.reporter.error("E411", message, at.place, "`set` an attribute to it before that hold", notes)

    def stale(self, name: str, at: tree.Node, setter: tree.Node) -> None:
        """A value that was live when it was set is out of date when the header is read."""
        assert isinstance(setter, tree.Set | tree.Field)
        message = f"`{name}` was read from live state before: at the admission it may be out of date"
        bound = name.rpartition(".")[2]
        advice = f"write at admission ({bound} = {setter.value.place.text})"
        self.reporter.error("E405", message, at.place, advice, [Note("set here", setter.place)])


def _header(node: tree.Hold) -> Iterator[tree.Expr]:
    """What is evaluated at the admission."""
    yield from amounts(node)
    for binding in node.bindings:
        yield binding.value

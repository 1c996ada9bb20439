"""Holds: what may stand only inside one, what `cached` means there, and stale values in headers."""

from __future__ import annotations

from sqc.check.costs import family
from sqc.check.language import OBSERVABLES
from sqc.check.scope import Scope
from sqc.check.structure import word
from sqc.diagnostics import Note, Reporter
from sqc.syntax import tree


def check_holds(scope: Scope, reporter: Reporter) -> None:
    """Walk the session and the server with the holds that enclose each statement."""
    holds = _Holds(scope, reporter)
    for block in (scope.session, scope.server):
        if block is not None:
            holds.block(block, ())


class _Holds:
    def __init__(self, scope: Scope, reporter: Reporter) -> None:
        self.scope = scope
        self.reporter = reporter
        self.leased = {
            family(node.pool)
            for _, block in scope.blocks()
            for node in tree.walk(block)
            if isinstance(node, tree.Lease)
        }
        self.live = dict(_live_sets(scope))

    def block(self, block: tree.Block, around: tuple[tree.Hold, ...]) -> None:
        for statement in block.body:
            self.statement(statement, around)

    def statement(self, node: tree.Stmt, around: tuple[tree.Hold, ...]) -> None:
        match node:
            case tree.Grow(pool=pool) | tree.Load(pool=pool):
                self.inside(node, pool, around, type(node).__name__.lower())
            case tree.Run(growing=growing) | tree.Serve(growing=growing) if growing is not None:
                self.inside(growing, growing, around, "growing")
            case tree.Release(pool=pool) if family(pool) not in self.leased:
                self.inside(node, pool, around, "release")
            case tree.Hold():
                self.header(node)
                inner = (*around, node)
                self.block(node.body, inner)
                if node.cache is not None:
                    self.cached(node.cache, inner)
                return
        for child in tree.children(node):
            if isinstance(child, tree.Block):
                self.block(child, around)
            else:
                self.cached(child, around)

    def inside(self, node: tree.Node, pool: tree.Ref, around: tuple[tree.Hold, ...], what: str) -> None:
        held = {family(part.pool) for hold in around for part in hold.parts}
        if family(pool) not in held:
            message = f"`{what}` of `{family(pool)}` outside a hold of `{family(pool)}`"
            place = word(node) if isinstance(node, tree.Grow | tree.Load | tree.Release) else node.place
            self.reporter.error("E408", message, place, f"put it into the body of: hold {family(pool)} (...)")

    def cached(self, expr: tree.Node, around: tuple[tree.Hold, ...]) -> None:
        if not around or around[-1].cache is not None:
            return
        for node in tree.walk(expr):
            if isinstance(node, tree.Name) and node.id == "cached":
                notes = [Note("this hold has no `cache` clause", around[-1].header)]
                message = "`cached` is always 0 here: a hold without a `cache` clause consumes no prefix"
                advice = "`cache (0)` consumes the prefix and keeps nothing"
                self.reporter.error("E404", message, node.place, advice, notes)

    def header(self, node: tree.Hold) -> None:
        """A value that was live when it was set is stale when the header is read."""
        bound = {binding.name.id for binding in node.bindings}
        header = [n for part in node.parts for n in (part.units, part.reserve)] + [node.reuse]
        for expr in header:
            for name in tree.walk(expr) if expr is not None else ():
                if isinstance(name, tree.Name) and name.id in self.live and name.id not in bound:
                    setter = self.live[name.id]
                    message = f"`{name.id}` was read from live state before: at the admission it may be out of date"
                    advice = f"write at admission ({name.id} = {setter.value.place.text})"
                    notes = [Note("set here", setter.place)]
                    self.reporter.error("E405", message, name.place, advice, notes)


def _live_sets(scope: Scope) -> list[tuple[str, tree.Set]]:
    found = []
    for _, block in scope.blocks():
        for node in tree.walk(block):
            if isinstance(node, tree.Set) and any(
                isinstance(n, tree.Call) and isinstance(n.callee, tree.Name) and n.callee.id in OBSERVABLES
                for n in tree.walk(node.value)
            ):
                found.append((node.name.id, node))
    return found

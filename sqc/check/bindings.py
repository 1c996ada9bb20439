"""`at admission (x = e)`: where x exists, and what it may read when the body reads it.

A binding is substituted into the header of its hold, which is read at the admission. The body reads
the value as of the start of the body, so there it must not depend on what may have changed.
"""

from __future__ import annotations

from sqc.check.reads import live_reads, reads
from sqc.check.scope import Scope
from sqc.check.sites import sites
from sqc.diagnostics import Note, Reporter, nearest
from sqc.syntax import tree


def check_bindings(scope: Scope, reporter: Reporter) -> None:
    """Report bindings that are read where they do not exist, or not any more."""
    bindings = _Bindings(scope, reporter)
    for _, block in scope.blocks():
        bindings.block(block, {})
    for site in sites(scope):
        if site.owner == "program":
            bindings.names(site.expr, {})


class _Bindings:
    def __init__(self, scope: Scope, reporter: Reporter) -> None:
        self.scope = scope
        self.reporter = reporter

    def names(self, node: tree.Node, bound: dict[str, str]) -> None:
        """`bound`: the names of the holds around, with what their value depends on ("" if nothing moves)."""
        for name, at in reads(node):
            attribute = self.scope.attributes.get(name)
            if attribute is None or attribute.owner != "hold":
                continue
            if name not in bound:
                notes = [Note("bound here", attribute.place)]
                message = f"unknown name `{name}`: it exists only in the hold that binds it"
                self.reporter.error("E201", message, at.place, nearest(name, bound), notes)
            elif bound[name]:
                message = f"the body reads `{name}`, which depends on `{bound[name]}`"
                advice = "the body may read a binding of attributes and constants: `set` another attribute in the body"
                self.reporter.error("E410", message, at.place, advice)

    def block(self, block: tree.Block, bound: dict[str, str]) -> None:
        for node in block.body:
            if isinstance(node, tree.Hold):
                self.hold(node, bound)
                continue
            self.names(node, bound)
            for child in tree.children(node):
                if isinstance(child, tree.Block):
                    self.block(child, bound)

    def hold(self, node: tree.Hold, around: dict[str, str]) -> None:
        mine: dict[str, str] = {}
        for binding in node.bindings:
            name = binding.name.id
            visible = {**around, **dict.fromkeys(mine, "")}
            self.names(binding.value, visible)
            if name in mine or name in around:
                where = "in this hold" if name in mine else "by a hold around this one"
                self.reporter.error(
                    "E204", f"`{name}` is already bound {where}", binding.name.place, "use another name"
                )
            mine[name] = self.moving(binding.value, mine)
        header = {**around, **dict.fromkeys(mine, "")}
        for part in node.parts:
            self.names(part.pool, around)
            for expr in (part.units, part.reserve):
                if expr is not None:
                    self.names(expr, header)
        segments = (expr for segment in node.prefix for expr in (segment.key, segment.length))
        for expr in (*segments, node.reuse, node.cache, node.lease.time if node.lease else None):
            if expr is not None:
                self.names(expr, header)
        self.block(node.body, {**around, **mine})

    @staticmethod
    def moving(value: tree.Expr, earlier: dict[str, str]) -> str:
        """What a value depends on that changes while the request waits and runs, or ""."""
        for call in live_reads(value):
            return call.place.text
        for name, _ in reads(value):
            if name in ("now", "cached"):
                return name
            if earlier.get(name):
                return earlier[name]
        return ""

"""Sizes and costs: what uses a resource needs a cost of that resource, and costs do not mix.

A type is the set of resources (families) whose cost a value is; None is a plain number.
"""

from __future__ import annotations

from typing import TypeAlias

from sqc.check.language import CONTEXT
from sqc.check.scope import Scope, family
from sqc.check.sites import MARK, Site, sites
from sqc.diagnostics import Note, Place, Reporter, nearest
from sqc.syntax import tree

Type: TypeAlias = frozenset[str] | None

_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


def check_costs(scope: Scope, reporter: Reporter) -> None:
    """Report every missing, wrong or mixed cost of a program."""
    costs = _Costs(scope, reporter)
    costs.assignments()
    for site in sites(scope):
        costs.site(site)


def _shown(kind: Type) -> str:
    return "a plain number" if kind is None else "a cost of " + ", ".join(f"`{r}`" for r in sorted(kind))


class _Costs:
    def __init__(self, scope: Scope, reporter: Reporter) -> None:
        self.scope = scope
        self.reporter = reporter
        self.types: dict[str, Type] = {}
        self.first: dict[str, Place] = {}
        self.quiet = True
        self.used_by_server = used_by_server(scope)

    def assignments(self) -> None:
        """The type of each attribute; attributes may be read above their assignment."""
        written = list(self.written())
        for _ in range(3):  # an attribute may take its type from one that is assigned further down
            for name, value in written:
                self.types.setdefault(name.id, self.type(value))
                if self.types[name.id] is None:
                    self.types[name.id] = self.type(value)
        self.quiet = False
        self.declared()
        for name, value in written:
            self.quiet = True
            kind = self.type(value)
            self.quiet = False
            first = self.first.setdefault(name.id, name.place)
            if kind != self.types[name.id]:
                notes = [Note("assigned here as well", first)] if first != name.place else []
                message = f"`{name.id}` is {_shown(self.types[name.id])}: it cannot become {_shown(kind)}"
                self.reporter.error("E304", message, value.place, notes=notes)

    def declared(self) -> None:
        """What is declared as a cost is one, and records name resources, each once and always the same."""
        for _, block in self.scope.blocks():
            for node in tree.walk(block):
                if isinstance(node, tree.CostRecord):
                    self.record(node)
                elif isinstance(node, tree.Set) and node.word == "Cost":
                    self.quiet = True
                    kind = self.type(node.value)
                    self.quiet = False
                    if kind is None:
                        message = f"`{node.name.id}` is declared as a cost: this is a plain number"
                        self.error("E301", message, node.value.place, "write cost(resource, amount)")

    def record(self, node: tree.CostRecord) -> None:
        first = self.scope.records[node.name.id]
        if [f.name.id for f in node.record] != [f.name.id for f in first.record]:
            notes = [Note("first declared here", first.place)]
            message = f"the record `{node.name.id}` is declared again with other fields"
            self.reporter.error("E204", message, node.name.place, notes=notes)
        seen: set[str] = set()
        for field in node.record:
            name = field.name.id
            shown = f"{node.name.id}.{name}"
            if shown in CONTEXT:
                self.error("E204", f"`{shown}` is a name the language supplies: no record can have it", field.place)
            if name in seen:
                self.error("E204", f"the record `{node.name.id}` has the field `{name}` twice", field.name.place)
            elif name not in self.scope.resources:
                advice = nearest(name, self.scope.resources)
                message = f"a field of a record is named after its resource: unknown `{name}`"
                self.error("E201", message, field.name.place, advice)
            seen.add(name)

    def written(self) -> list[tuple[tree.Name, tree.Expr]]:
        found: list[tuple[tree.Name, tree.Expr]] = []
        for _, block in self.scope.blocks():
            for node in tree.walk(block):
                match node:
                    case tree.Set(name=name, value=value):
                        found.append((name, value))
                    case tree.CostRecord(name=name, record=record):
                        for field in record:
                            full = tree.Name(field.name.place, f"{name.id}.{field.name.id}")
                            self.types[full.id] = frozenset([field.name.id])
                    case tree.Hold(bindings=bindings):
                        found.extend((b.name, b.value) for b in bindings)
        return found

    def error(self, code: str, message: str, place: Place, advice: str | None = None) -> None:
        if not self.quiet:
            self.reporter.error(code, message, place, advice)

    # ----------------------------------------------------------------- sites

    def site(self, site: Site) -> None:
        before = len(self.reporter)
        kind = self.type(site.expr)
        if len(self.reporter) > before:
            return
        if site.plain and kind is not None:
            message = f"a plain number belongs here, not {_shown(kind)}"
            self.error("E303", message, site.expr.place, "leave out `cost(...)`")
        if site.wants:
            self.wanted(site.expr, frozenset(map(family, site.wants)), kind)
        if site.owner == "workload":
            self.workload(site)
            if kind is not None and site.moment is MARK and len(self.reporter) == before:
                message = "`init` and `turn` make sizes, not costs"
                self.error("E309", message, site.expr.place, "send the size, and make the cost where it is used")

    def wanted(self, expr: tree.Expr, wants: frozenset[str], kind: Type) -> None:
        names = ", ".join(sorted(wants))
        if kind is None:
            message = f"this needs {_shown(wants)}: it is a plain number"
            self.error("E301", message, expr.place, f"write cost({names}, {expr.place.text})")
        elif kind != wants:
            message = f"this needs {_shown(wants)}: it is {_shown(kind)}"
            self.error("E302", message, expr.place, f"write cost({names}, ...)")

    def workload(self, site: Site) -> None:
        for node in tree.walk(site.expr):
            if isinstance(node, tree.Call) and isinstance(node.callee, tree.Name) and node.callee.id == "cost":
                for ref in node.args[:-1]:
                    if family(ref) in self.used_by_server:
                        message = f"the workload cannot make a cost of `{family(ref)}`: the server uses it"
                        advice = "send the size, and make the cost in the server"
                        self.error("E309", message, node.place, advice)

    # ----------------------------------------------------------------- types

    def type(self, node: tree.Node) -> Type:
        match node:
            case tree.Name(id=name):
                return self.types.get(name)
            case tree.Member():
                return self.types.get(tree.dotted(node))
            case tree.Unary(op=op, x=x):
                kind = self.type(x)
                return kind if op == "-" else self.number(x, kind, "`!`")
            case tree.Binary():
                return self.binary(node)
            case tree.Cond(test=test, then=then, other=other):
                self.number(test, self.type(test), "a test")
                return self.same(node, self.type(then), self.type(other))
            case tree.Call(callee=tree.Name(id="cost"), args=args):
                inner = self.type(args[-1])
                if inner is not None:
                    self.error(
                        "E303",
                        f"a cost of {_shown(inner)[10:]} is no size: a cost wraps a plain number",
                        args[-1].place,
                    )
                return frozenset(family(ref) for ref in args[:-1])
            case tree.Call(callee=tree.Name(id="min" | "max"), args=(x, y)):
                return self.same(node, self.type(x), self.type(y))
            case tree.Call(callee=tree.Name(id="abs" | "floor" | "ceil"), args=(x,)):
                return self.type(x)
            case tree.Call(callee=tree.Name(id=name), args=args):
                for arg in args:
                    if not isinstance(arg, tree.Index) and family(arg) not in self.scope.resources:
                        self.number(arg, self.type(arg), f"`{name}`")
                return None
            case tree.Draw(args=args):
                for arg in args:
                    self.number(arg, self.type(arg), "a draw")
                return None
        return None

    def binary(self, node: tree.Binary) -> Type:
        x, y = self.type(node.x), self.type(node.y)
        if node.op in ("+", "-"):
            return self.same(node, x, y)
        if node.op in _COMPARISONS:
            self.same(node, x, y)
            return None
        if node.op == "*" and (x is None or y is None):
            return x if y is None else y
        if node.op == "/" and y is None:
            return x
        for side, kind in ((node.x, x), (node.y, y)):
            self.number(side, kind, f"`{node.op}`")
        return None

    def same(self, node: tree.Node, x: Type, y: Type) -> Type:
        if x != y:
            message = f"{_shown(x)} and {_shown(y)} do not mix"
            self.error("E303", message, node.place, "put the whole amount into one cost(resource, amount)")
            return x if y is None else y
        return x

    def number(self, node: tree.Node, kind: Type, what: str) -> Type:
        if kind is not None:
            self.error("E303", f"{what} takes plain numbers, not {_shown(kind)}", node.place)
        return None


def used_by_server(scope: Scope) -> frozenset[str]:
    """The resources that the server holds or runs on; the session may not run on them."""
    found: set[str] = set()
    for node in tree.walk(scope.server) if scope.server is not None else ():
        match node:
            case tree.Part(pool=pool) | tree.Grow(pool=pool) | tree.Load(pool=pool) | tree.Transfer(target=pool):
                found.add(family(pool))
            case tree.Run(stages=stages):
                found.update(map(family, stages))
            case tree.Serve():
                found.add(family(scope.played(node)))
    return frozenset(found)

"""Expressions and references: what a name, an index or an observable stands for in the IR."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from sqc import ir
from sqc.check.arithmetic import arithmetic
from sqc.check.language import CONTEXT, ENGINE_NAMES, TOTALS
from sqc.check.scope import Scope, family
from sqc.passes.fold import fold
from sqc.syntax import tree


class Expressions:
    """The expressions of one program."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.bound: Mapping[str, ir.Expr] = {}

    @contextmanager
    def binding(self, values: Mapping[str, ir.Expr]) -> Iterator[None]:
        """Names that stand for an expression: `at admission`, in the header of a hold."""
        before, self.bound = self.bound, {**self.bound, **values}
        yield
        self.bound = before

    def expr(self, expr: tree.Expr) -> ir.Expr:
        made: ir.Expr = fold(arithmetic(expr, self.meaning, self.read))
        return made

    def maybe(self, expr: tree.Expr | None) -> ir.Expr | None:
        return None if expr is None else self.expr(expr)

    def ref(self, ref: tree.Ref) -> ir.Ref:
        """A pool or stage; the index of what is no array can only be 0, and is left out."""
        name = family(ref)
        resource = self.scope.resources.get(name)  # none: the implicit stage `tool`
        if isinstance(ref, tree.Index) and resource is not None and resource.size is not None:
            return ir.Ref(name, self.expr(ref.index))
        return ir.Ref(name)

    def meaning(self, node: tree.Name | tree.Member) -> ir.Expr:
        name = tree.dotted(node)
        if name in self.bound:
            return self.bound[name]
        if name == "now":
            return ir.Now()
        if name in CONTEXT or name in self.scope.registers or name in self.scope.lets:
            return ir.Context(ENGINE_NAMES.get(name, name))
        if name in self.scope.constants:
            value = self.scope.constants[name].value
            assert value is not None
            return value
        return ir.Attr(name)

    def read(self, node: tree.Call) -> ir.Expr:
        """A call that is no function: an observable, a total, the block of a pool."""
        kind = tree.dotted(node.callee)
        of = node.args[0]
        assert isinstance(of, tree.Name | tree.Index)
        if kind in TOTALS:
            return ir.Total(kind, family(of))
        if kind == "blocksize":
            return self.block_of(family(of))
        if kind == "price":
            return ir.Price(self.ref(of), self.expr(node.args[1]), self.expr(node.args[2]))
        return ir.Read(kind, self.ref(of))

    def block_of(self, pool: str) -> ir.Expr:
        for option in self.scope.pools[pool].options("block"):
            return self.expr(option.values[0])  # type: ignore[arg-type]  # an expression, by the grammar
        return ir.Const(0.0)


def is_live(expr: ir.Expr | None) -> bool:
    """Does it read what changes while a request waits: pools, stages, the clock?"""
    return any(isinstance(node, ir.Read | ir.Price | ir.Now) for node in ir.walk(expr))


_TESTS = {"<", "<=", ">", ">=", "==", "!=", "&&", "||"}


def is_test(expr: tree.Expr) -> bool:
    """Is the outermost operator a comparison, `&&`, `||` or `!`?"""
    match expr:
        case tree.Binary(op=op) if op in _TESTS:
            return True
        case tree.Unary(op="!"):
            return True
    return False

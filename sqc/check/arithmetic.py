"""Expression trees to IR expressions; what a name or an observable means is the caller's."""

from __future__ import annotations

from collections.abc import Callable

from sqc import ir
from sqc.check.language import FUNCTIONS
from sqc.syntax import tree

_UNARY = {"-": "neg", "!": "not"}

Meaning = Callable[[tree.Name | tree.Member], ir.Expr]
Reading = Callable[[tree.Call], ir.Expr]


def arithmetic(expr: tree.Expr, name: Meaning, read: Reading) -> ir.Expr:
    """The IR of an expression without definitions and aggregates. `cost(R, e)` is `e`."""

    def go(node: tree.Expr) -> ir.Expr:
        match node:
            case tree.Num(value=value):
                return ir.Const(value)
            case tree.Name(id="inf"):
                return ir.Const(float("inf"))
            case tree.Name() | tree.Member():
                return name(node)
            case tree.Unary(op=op, x=x):
                return ir.Unary(_UNARY[op], go(x))
            case tree.Binary(op="&&" | "||" as op, x=x, y=y):
                return ir.Lazy(op, go(x), go(y))
            case tree.Binary(op=op, x=x, y=y):
                return ir.Binary("pow" if op == "^" else op, go(x), go(y))
            case tree.Cond(test=test, then=then, other=other):
                return ir.Cond(go(test), go(then), go(other))
            case tree.Draw(dist=dist, args=args):
                return ir.Draw(dist.id, tuple(map(go, args)))
            case tree.Call(callee=tree.Name(id="cost"), args=args):
                return go(args[-1])
            case tree.Call(callee=tree.Name(id=function), args=args) if function in FUNCTIONS:
                values = tuple(map(go, args))
                return ir.Unary(function, *values) if len(values) == 1 else ir.Binary(function, *values)
            case tree.Call():
                return read(node)
        raise AssertionError(f"no arithmetic for {type(node).__name__}")

    return go(expr)

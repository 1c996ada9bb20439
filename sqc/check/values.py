"""What an expression of the program is worth, if that is known before the run."""

from __future__ import annotations

from sqc import ir
from sqc.check.arithmetic import arithmetic
from sqc.check.scope import Scope
from sqc.passes.fold import fold
from sqc.syntax import tree


class _Unknown(Exception):
    pass


def _unknown(_: tree.Call) -> ir.Expr:
    raise _Unknown


class Values:
    """Constant expressions inside statements, by the scope's constants."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def constant(self, expr: tree.Expr) -> float | None:
        """The value of an expression that reads only numbers and constants, else None."""
        made = self.fixed(expr)
        return made.value if isinstance(made, ir.Const) else None

    def fixed(self, expr: tree.Expr) -> ir.Expr | None:
        """An expression that reads only numbers, constants and external inputs, folded; else None."""
        try:
            made: ir.Expr = fold(arithmetic(expr, self._name, _unknown))
        except (_Unknown, AssertionError, TypeError):
            return None
        return None if any(isinstance(n, ir.Draw) for n in ir.walk(made)) else made

    def _name(self, node: tree.Name | tree.Member) -> ir.Expr:
        known = self.scope.constants.get(tree.dotted(node))
        if known is None or known.value is None:
            raise _Unknown
        return known.value

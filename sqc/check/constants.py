"""Constants: `let` in order, external inputs, and constant expressions anywhere.

A constant is an IR expression over external inputs; without inputs it is a number. After an
error a constant is None (poison), and what depends on it is not reported again.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from sqc import ir
from sqc.check.arithmetic import arithmetic
from sqc.check.language import CONTEXT, DISTRIBUTIONS, FUNCTIONS
from sqc.diagnostics import Note, Place, Reporter, nearest
from sqc.passes.fold import fold
from sqc.syntax import tree


class Constant(NamedTuple):
    place: Place
    value: ir.Expr | None


class _Poisoned(Exception):
    """The expression has been reported, or reads something that has."""


class Constants:
    """The constants known so far, by name."""

    def __init__(self, reporter: Reporter) -> None:
        self.reporter = reporter
        self.table: dict[str, Constant] = {}
        self.inputs: dict[str, ir.InputDecl] = {}
        self.later: frozenset[str] = frozenset()  # names that a later `let` declares, for messages

    def declare(self, item: tree.Let, *, args_allowed: str | None) -> None:
        """One `let`. `args_allowed` says why `args.number` may not be its value, or None."""
        name = item.name.id
        if name in CONTEXT or name == "inf":
            message = f"`{name}` is a name the language supplies: no constant can have it"
            self.reporter.error("E204", message, item.name.place)
            return
        if is_args_number(item.value):
            assert isinstance(item.value, tree.Call)
            value = self.external(item, item.value, args_allowed)
        else:
            value = self.evaluate(item.value)
            if isinstance(value, ir.Const) and math.isnan(value.value):
                self.reporter.error("E206", f"the constant `{name}` is not a number (NaN)", item.value.place)
                value = None
        self.table[name] = Constant(item.name.place, value)

    def external(self, item: tree.Let, call: tree.Call, refused: str | None) -> ir.Expr | None:
        """`let x = args.number("name", default);`"""
        if refused is not None:
            self.reporter.error("E207", "`args.number` is not available here", call.place, refused)
            return None
        if len(call.args) != 2 or not isinstance(call.args[0], tree.Text):
            message = '`args.number` takes a name in quotes and a default: args.number("C", 100)'
            self.reporter.error("E203", message, call.place)
            return None
        name = call.args[0].value
        if name in self.inputs:
            message = f'the input "{name}" is declared twice'
            advice = f"read it once and use `{self.inputs[name].let}`"
            self.reporter.error("E204", message, call.args[0].place, advice)
            return None
        default = self.number(call.args[1], "the default of an input")
        if default is None:
            return None
        if math.isnan(default):
            self.reporter.error("E206", f'the default of the input "{name}" is not a number (NaN)', call.args[1].place)
            return None
        self.inputs[name] = ir.InputDecl(name, default, item.name.id, item.place.span)
        return ir.Input(name)

    def evaluate(self, expr: tree.Expr) -> ir.Expr | None:
        """A constant expression, folded; None after reporting what is not constant in it."""
        errors = 0

        def name(node: tree.Name | tree.Member) -> ir.Expr:
            nonlocal errors
            known = self.table.get(node.id) if isinstance(node, tree.Name) else None
            if known is None:
                errors += 1
                self.complain(node)
                return ir.Const(0.0)
            if known.value is None:
                raise _Poisoned
            return known.value

        def read(node: tree.Call) -> ir.Expr:
            nonlocal errors
            errors += 1
            self.complain_call(node)
            return ir.Const(0.0)

        for node in tree.walk(expr):
            if isinstance(node, tree.Draw):
                errors += 1
                message = "a constant cannot draw" if node.dist.id in DISTRIBUTIONS else "unknown distribution"
                self.reporter.error("E205", message, node.place, "draw into an attribute of the workload")
            elif isinstance(node, tree.Index | tree.Text):
                errors += 1
                what = "an array member" if isinstance(node, tree.Index) else "a text"
                self.reporter.error("E205", f"{what} is not a constant", node.place)
            elif isinstance(node, tree.Call) and isinstance(node.callee, tree.Name) and node.callee.id in FUNCTIONS:
                takes = FUNCTIONS[node.callee.id]
                if len(node.args) != takes:
                    errors += 1
                    message = f"`{node.callee.id}` takes {takes} argument{'s' * (takes > 1)}, got {len(node.args)}"
                    self.reporter.error("E203", message, node.place)
        if errors:
            return None
        try:
            made: ir.Expr = fold(arithmetic(expr, name, read))
        except _Poisoned:
            return None
        return None if errors else made

    def complain(self, node: tree.Name | tree.Member) -> None:
        shown = tree.dotted(node)
        if shown in self.later:
            self.reporter.error("E205", f"`{shown}` is declared later: a constant reads earlier ones", node.place)
        elif shown in CONTEXT or isinstance(node, tree.Member):
            self.reporter.error("E205", f"`{shown}` is not a constant", node.place)
        else:
            advice = nearest(shown, self.table)
            self.reporter.error("E205", f"`{shown}` is not a constant", node.place, advice)

    def complain_call(self, node: tree.Call) -> None:
        shown = tree.dotted(node.callee)
        if shown == "args.number":
            message = "`args.number` must be the whole value of a `let` inside `fn main`"
            self.reporter.error("E207", message, node.place, 'let x = args.number("x", 1); and use `x`')
        else:
            self.reporter.error("E205", f"`{shown}(...)` is not a constant", node.place)

    def number(self, expr: tree.Expr, what: str) -> float | None:
        """A constant that no input may change, as a number."""
        value = self.evaluate(expr)
        if value is None:
            return None
        if isinstance(value, ir.Const):
            return value.value
        inputs = [n.name for n in ir.walk(value) if isinstance(n, ir.Input)]
        notes = [Note("the input is declared here", self.table[self.inputs[inputs[0]].let].place)]
        self.reporter.error("E205", f"{what} may not depend on an input", expr.place, notes=notes)
        return None

    def whole(self, expr: tree.Expr, what: str, least: int = 1) -> int | None:
        """A whole constant."""
        value = self.number(expr, what)
        if value is None:
            return None
        if not (math.isfinite(value) and value == math.floor(value) and value >= least):
            message = f"{what} is a whole number of at least {least}, found {value:g}"
            self.reporter.error("E208", message, expr.place)
            return None
        return int(value)


def is_args_number(expr: tree.Expr) -> bool:
    match expr:
        case tree.Call(callee=tree.Member(base=tree.Name(id="args"), name=tree.Name(id="number"))):
            return True
    return False

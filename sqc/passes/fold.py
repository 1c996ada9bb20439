"""Constant folding: operators over numbers become numbers, decided choices take their arm.

Folding computes what a run would compute, in double precision with the rules of IEEE 754: a
division by zero is inf or nan, never an error. Draws are never removed unless the program could
not reach them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from sqc import ir


def unary(op: str, x: float) -> float:
    """The value of a one-argument operator or function."""
    return _UNARY[op](x)


def binary(op: str, x: float, y: float) -> float:
    """The value of a two-argument operator or function (`&&` and `||` included)."""
    return _BINARY[op](x, y)


def _total(function: Callable[..., float], otherwise: Callable[..., float]) -> Callable[..., float]:
    """A function of `math` with its errors replaced by the value that IEEE 754 gives."""

    def total(*args: float) -> float:
        try:
            return function(*args)
        except (ValueError, OverflowError, ZeroDivisionError):
            return otherwise(*args)

    return total


def _divide(x: float, y: float) -> float:
    if y != 0.0:
        return x / y
    return math.nan if x == 0.0 or math.isnan(x) else math.copysign(math.inf, x) * math.copysign(1.0, y)


def _power_limit(x: float, y: float) -> float:
    """`x ** y` where `math.pow` refuses: a pole at zero, overflow, a root of a negative number."""
    odd = y == math.floor(y) and abs(y) < 2.0**53 and int(y) % 2 == 1
    sign = math.copysign(1.0, x) if odd else 1.0
    if x == 0.0:
        return sign * math.inf
    return sign * math.inf if y == math.floor(y) or x > 0 else math.nan


def _minimum(x: float, y: float) -> float:
    """The lesser; a NaN loses against a number."""
    return y if math.isnan(x) else x if math.isnan(y) else min(x, y)


def _maximum(x: float, y: float) -> float:
    return y if math.isnan(x) else x if math.isnan(y) else max(x, y)


def _whole(function: Callable[[float], int]) -> Callable[[float], float]:
    return lambda x: math.copysign(float(function(x)), x) if math.isfinite(x) else x


_UNARY: dict[str, Callable[[float], float]] = {
    "neg": lambda x: -x,
    "not": lambda x: float(x == 0.0),
    "abs": abs,
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "sqrt": _total(math.sqrt, lambda x: math.nan),
    "exp": _total(math.exp, lambda x: math.inf),
    "ln": _total(math.log, lambda x: -math.inf if x == 0.0 else math.nan),
}
_BINARY: dict[str, Callable[[float, float], float]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": _divide,
    "pow": _total(math.pow, _power_limit),
    "min": _minimum,
    "max": _maximum,
    "<": lambda x, y: float(x < y),
    "<=": lambda x, y: float(x <= y),
    ">": lambda x, y: float(x > y),
    ">=": lambda x, y: float(x >= y),
    "==": lambda x, y: float(x == y),
    "!=": lambda x, y: float(x != y),
    "&&": lambda x, y: float(x != 0.0 and y != 0.0),
    "||": lambda x, y: float(x != 0.0 or y != 0.0),
}


def fold(node: Any) -> Any:
    """An expression, statement or program with all that is constant worked out."""
    if isinstance(node, tuple):
        made = tuple(fold(n) for n in node)
        return node if all(a is b for a, b in zip(made, node, strict=True)) else made
    if not dataclasses.is_dataclass(node) or isinstance(node, type | ir.Span | ir.Trace):
        return node
    changed: dict[str, Any] = {}
    for name in node.__match_args__:  # type: ignore[attr-defined]
        value = getattr(node, name)
        new = fold(value)
        if new is not value:
            changed[name] = new
    if changed:
        node = dataclasses.replace(node, **changed)
    return _simplify(node)


def _simplify(node: Any) -> Any:
    match node:
        case ir.Unary(op=op, x=ir.Const(value=x)):
            return ir.Const(unary(op, x))
        case ir.Binary(op=op, x=ir.Const(value=x), y=ir.Const(value=y)):
            return ir.Const(binary(op, x, y))
        case ir.Lazy(op=op, x=ir.Const(value=x)) if (op == "&&") is (x == 0.0):
            return ir.Const(float(op == "||"))
        case ir.Lazy(op=op, x=ir.Const(value=x), y=ir.Const(value=y)):
            return ir.Const(binary(op, x, y))
        case ir.Cond(test=ir.Const(value=test)):
            return node.then if test != 0.0 else node.other
    return node

"""Expressions of the IR as short text, in the language's spelling; constants that were folded stay numbers."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from sqc import ir

_LEVELS = (("||",), ("&&",), ("<", "<=", ">", ">=", "==", "!="), ("+", "-"), ("*", "/"), ("neg", "not"), ("pow",))
_BINDING = {op: level for level, ops in enumerate(_LEVELS, 1) for op in ops}
_ATOM = len(_LEVELS) + 1


def number(value: float) -> str:
    """Six digits at most: `200000`, `2e-05` as `2e-5`."""
    mantissa, e, exponent = f"{value:.6g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if e else mantissa


def compact(value: float) -> str:
    """`20k`, `1.5M`; numbers below 10000 as they are."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if math.isfinite(value) else ():
        if abs(value) >= (unit if unit > 1e3 else 1e4):
            return f"{value / unit:.4g}{letter}"
    return number(value)


def expression(e: ir.Expr) -> str:
    """An expression as text."""
    return _text(e)[0]


def reference(ref: ir.Ref) -> str:
    """`kv`, `kv[j]`."""
    return ref.name if ref.index is None else f"{ref.name}[{expression(ref.index)}]"


def call(name: str, args: Sequence[ir.Expr | ir.Ref]) -> str:
    """`name(a, b)`."""
    return f"{name}({', '.join(reference(a) if isinstance(a, ir.Ref) else expression(a) for a in args)})"


def folded(text: str, width: int, lines: int = 3) -> list[str]:
    """A text in so many lines of so many characters at most; what does not fit is an ellipsis."""
    return textwrap.wrap(text, width, max_lines=lines, placeholder=" …", break_on_hyphens=False) or [""]


def caption(parts: Sequence[str], letters: int) -> str:
    """Parts with commas between them, in lines of so many letters; short parts stay whole."""
    whole = (part.replace(" ", "\u00a0") if 2 * len(part) <= letters else part for part in parts)
    return textwrap.fill(", ".join(whole), letters, break_long_words=False, break_on_hyphens=False)


def _text(e: ir.Expr) -> tuple[str, int]:
    """The text, and how tightly its outermost operator binds."""
    match e:
        case ir.Const(value):
            return number(value), _ATOM if value >= 0 else _BINDING["neg"]
        case ir.Input(name) | ir.Attr(name) | ir.Context(name):
            return name, _ATOM
        case ir.Now():
            return "now", _ATOM
        case ir.Unary("neg" | "not" as op, x):
            level = _BINDING[op]
            return ("-" if op == "neg" else "!") + _inside(x, level), level
        case ir.Unary(op, x):
            return call(op, (x,)), _ATOM
        case ir.Binary("min" | "max" as op, x, y):
            return call(op, (x, y)), _ATOM
        case ir.Binary("pow", x, y):
            level = _BINDING["pow"]
            return f"{_inside(x, level + 1)}^{_inside(y, level)}", level
        case ir.Binary(op, x, y) | ir.Lazy(op, x, y):
            level = _BINDING[op]
            left = level + (op in _LEVELS[2])  # a comparison is no operand of another
            return f"{_inside(x, left)} {op} {_inside(y, level + 1)}", level
        case ir.Cond(test, then, other):
            return f"{_inside(test, 1)} ? {expression(then)} : {expression(other)}", 0
        case ir.Draw(dist, args):
            return call(f"~{dist}", args), _ATOM
        case ir.Read(kind, ref):
            return call(kind, (ref,)), _ATOM
        case ir.Price(ref, held, extra):
            return call("price", (ref, held, extra)), _ATOM
        case ir.Total(kind, observe):
            return f"{kind}({observe})", _ATOM
    raise AssertionError(e)


def _inside(e: ir.Expr, level: int) -> str:
    """An operand, in parentheses if it binds less tightly."""
    text, own = _text(e)
    return text if own >= level else f"({text})"

"""Expressions: one IR node after the other into JAX scalars.

Order of evaluation and of draws is the specification's: left to right, the untaken arm of `?:` and
the skipped side of `&&` and `||` draw nothing. An untaken arm may still be computed when that is
cheaper than a branch: uniforms are prefetched, so a draw is a load at a position, and only the
taken arm moves the position.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from sqc_runtime.memory import Memory
from sqc_runtime.ops import where

from .. import ir

Value = Any
U32 = np.uint32


def as_u32(position: Any) -> Value:
    return jnp.uint32(position) if isinstance(position, int) else position


class Draws:
    """A random stream at a position: hands out uniforms."""

    def take(self, m: Memory) -> Value:
        raise NotImplementedError

    def mark(self) -> Any:
        """The present position; `set` puts it back."""
        raise NotImplementedError

    def set(self, position: Any) -> None:
        raise NotImplementedError

    def merge(self, test: Value, first: Any, second: Any) -> None:
        """Go on at `first` if `test`, else at `second`."""
        if first is second or (isinstance(first, int) and isinstance(second, int) and first == second):
            self.set(first)
        else:
            self.set(where(test, as_u32(first), as_u32(second)))


@dataclass
class Scope:
    """What an expression can see. `attribute(name)` loads; `known` are attributes already loaded."""

    m: Memory
    mul: Callable[[Value, Value], Value]
    opaque: Callable[[Value], Value]
    """A value as it is, but hidden from the compiler's algebra (x + -0.0 at run time). XLA rewrites
    divisions by constants, quotients of quotients and sums with constants, which changes last bits."""
    now: Callable[[], Value]
    input: Callable[[str], Value]
    attribute: Callable[[str], Value] | None = None
    read: Callable[[str, str], Value] | None = None
    draws: Draws | None = None
    present: Value | None = None
    known: dict[str, Value] = field(default_factory=dict)

    def inner(self) -> Scope:
        """The same scope inside a conditional region, which loads for itself."""
        return replace(self, known={})


def number(x: Value) -> Value:
    """A value as a double (tests are kept as booleans until a number is needed)."""
    return x.astype(np.float64) if x.dtype == np.bool_ else x


def truth(x: Value) -> Value:
    return x if x.dtype == np.bool_ else x != 0


def is_test(x: Value) -> bool:
    return bool(x.dtype == np.bool_)


_COMPARE: dict[str, Callable[[Value, Value], Value]] = {
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
}
_UNARY: dict[str, Callable[[Value], Value]] = {
    "neg": lambda x: -x,
    "abs": jnp.abs,
    "floor": jnp.floor,
    "ceil": jnp.ceil,
    "sqrt": jnp.sqrt,
    "exp": jnp.exp,
    "ln": jnp.log,
}


def evaluate(e: ir.Expr, s: Scope) -> Value:
    match e:
        case ir.Const(value):
            return s.m.full(value, np.float64)
        case ir.Input(name):
            return s.input(name)
        case ir.Attr(name):
            if name not in s.known:
                assert s.attribute is not None
                s.known[name] = s.attribute(name)
            return s.known[name]
        case ir.Now():
            return s.now()
        case ir.Present():
            return s.present
        case ir.Unary("not", x):
            return ~truth(evaluate(x, s))
        case ir.Unary(op, x):
            result = _UNARY[op](number(evaluate(x, s)))
            return s.opaque(result) if op in ("sqrt", "exp", "ln") else result
        case ir.Binary(op, x, y):
            a = _operand(op, x, s)
            return _binary(op, a, _operand(op, y, s), s)
        case ir.Lazy(op, x, y):
            return _lazy(op, x, y, s)
        case ir.Cond(test, then, other):
            return _conditional(test, then, other, s)
        case ir.Draw(dist, args):
            return _draw(dist, args, s)
        case ir.Read(kind, resource):
            assert s.read is not None
            return s.read(kind, resource)
    raise AssertionError(e)


def compute(e: ir.Expr, s: Scope) -> Value:
    """Evaluate as one piece of code that only loads."""
    inner = s.inner()
    draws = inner.draws

    def body() -> tuple[Value, ...]:
        value = evaluate(e, inner)
        moved = draws is not None and not isinstance(draws.mark(), int)
        return (value, draws.mark()) if moved and draws is not None else (value,)

    out = s.m.reading(body)
    if len(out) == 2 and draws is not None:
        draws.set(out[1])
    return out[0]


def _operand(op: str, e: ir.Expr, s: Scope) -> Value:
    value = number(evaluate(e, s))
    return s.opaque(value) if isinstance(e, ir.Const) and op in ("+", "-", "*", "/", "pow") else value


def _binary(op: str, a: Value, b: Value, s: Scope) -> Value:
    if op in _COMPARE:
        return _COMPARE[op](a, b)
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return s.mul(a, b)
        case "/":
            return s.opaque(a / b)
        case "pow":
            return s.opaque(a**b)
        case "min":
            return jnp.fmin(a, b)
        case "max":
            return jnp.fmax(a, b)
    raise AssertionError(op)


def _weight(e: ir.Expr) -> int:
    """How many costly operations (logarithms, mostly) an expression holds."""
    cost = 0
    for node in ir.walk(e):
        if isinstance(node, ir.Draw):
            cost += {"exp": 1, "erlang": 4, "h2": 2}.get(node.dist, 0)
        elif isinstance(node, ir.Unary) and node.op in ("exp", "ln"):
            cost += 1
        elif isinstance(node, ir.Binary) and node.op == "pow":
            cost += 2
    return cost


def _arm(e: ir.Expr, s: Scope) -> tuple[Value, Any]:
    value = number(evaluate(e, s))
    return value, s.draws.mark() if s.draws else None


def _conditional(test: ir.Expr, then: ir.Expr, other: ir.Expr, s: Scope) -> Value:
    t = truth(evaluate(test, s))
    start = s.draws.mark() if s.draws else None
    if min(_weight(then), _weight(other)) > 0:
        return _branching(t, then, other, s, start)
    a, after_a = _arm(then, s)
    if s.draws:
        s.draws.set(start)
    b, after_b = _arm(other, s)
    if s.draws:
        s.draws.merge(t, after_a, after_b)
    return where(t, a, b)


def _branching(t: Value, then: ir.Expr, other: ir.Expr, s: Scope, start: Any) -> Value:
    """`?:` as a real branch: both arms are costly."""

    def arm(e: ir.Expr) -> Callable[[], tuple[Value, ...]]:
        def run() -> tuple[Value, ...]:
            if s.draws:
                s.draws.set(start)
            value, after = _arm(e, s.inner())
            return (value,) if after is None else (value, as_u32(after))

        return run

    like = (s.m.full(0.0, np.float64), s.m.full(0, U32))
    out = s.m.either(t, arm(then), arm(other), like if s.draws else like[:1])
    if s.draws:
        s.draws.set(out[1])
    return out[0]


def _lazy(op: str, x: ir.Expr, y: ir.Expr, s: Scope) -> Value:
    a = truth(evaluate(x, s))
    start = s.draws.mark() if s.draws else None
    b = truth(evaluate(y, s))
    if s.draws:
        runs = a if op == "&&" else ~a
        s.draws.merge(runs, s.draws.mark(), start)
    return a & b if op == "&&" else a | b


def exponential(mean: Value, u: Value, s: Scope) -> Value:
    return s.mul(-mean, jnp.log(1.0 - u))


def erlang_phases(k: ir.Expr) -> int | None:
    """The number of phases when it is a constant."""
    return int(max(k.value, 1.0) // 1) if isinstance(k, ir.Const) else None


def _draw(dist: str, args: tuple[ir.Expr, ...], s: Scope) -> Value:
    values = [number(evaluate(a, s)) for a in args]
    if dist == "det":
        return values[0]
    assert s.draws is not None
    if dist == "erlang":
        phases = erlang_phases(args[0])
        assert phases is not None
        total = s.m.full(0.0, np.float64)
        for _ in range(phases):
            mean = values[1] / s.opaque(s.m.full(float(phases), np.float64))
            total = total + exponential(mean, s.draws.take(s.m), s)
        return total
    u = s.draws.take(s.m)
    match dist:
        case "exp":
            return exponential(values[0], u, s)
        case "uniform":
            low, high = values
            return low + s.mul(high - low, u)
        case "bernoulli":
            return u < values[0]
        case "h2":
            mean, cv2 = values
            c = jnp.maximum(cv2, 1.0)
            p = s.mul(s.m.full(0.5, np.float64), 1.0 + jnp.sqrt((c - 1.0) / (c + 1.0)))
            share = where(u < p, p, 1.0 - p)
            return exponential(mean / s.mul(s.m.full(2.0, np.float64), share), s.draws.take(s.m), s)
    raise AssertionError(dist)


def draws_bound(e: Any) -> int:
    """The largest number of uniforms that evaluating IR below `e` can consume."""
    match e:
        case ir.Draw(dist, args):
            own = {"det": 0, "h2": 2}.get(dist, 1)
            if dist == "erlang":
                phases = erlang_phases(args[0])
                if phases is None:
                    raise NotImplementedError("`~erlang` with a number of phases that is not constant")
                own = phases
            return own + sum(map(draws_bound, args))
        case ir.Cond(test, then, other):
            return draws_bound(test) + max(draws_bound(then), draws_bound(other))
        case ir.Branch(guard, then, other):
            return draws_bound(guard) + max(draws_bound(then), draws_bound(other))
        case ir.Set(_, value) | ir.Observe(_, value):
            return draws_bound(value)
        case ir.Unary(_, x):
            return draws_bound(x)
        case ir.Binary(_, x, y) | ir.Lazy(_, x, y):
            return draws_bound(x) + draws_bound(y)
        case tuple():
            return sum(map(draws_bound, e))
    return 0

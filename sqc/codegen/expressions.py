"""Expressions: one IR node after the other into values.

Order of evaluation and of draws is the specification's: left to right, the untaken arm of `?:` and
the skipped side of `&&` and `||` draw nothing. An untaken arm may still be computed when that is
cheaper than a branch and cannot be noticed: a prefetched uniform is a load at a position, and only
the taken arm moves the position. What is costly, can fail, or moves a stream at once, is branched
around.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sqc_runtime import ops
from sqc_runtime.memory import Memory
from sqc_runtime.ops import as_u32, where

from .. import ir
from . import errors

Value = Any
U32 = np.uint32


class Draws:
    """A random stream at a position: hands out uniforms."""

    at_once = False
    """Whether `take` moves the stream in memory, so that nothing may be taken that is not used."""

    def take(self, m: Memory) -> Value:
        raise NotImplementedError

    def mark(self) -> Any:
        """The present position; `set` puts it back."""
        raise NotImplementedError

    def set(self, position: Any) -> None:
        raise NotImplementedError


@dataclass
class Scope:
    """What an expression can see."""

    m: Memory
    now: Callable[[], Value]
    input: Callable[[str], Value]
    attribute: Callable[[str], Value] | None = None
    read: Callable[[str, ir.Ref], Value] | None = None
    price: Callable[[ir.Ref, Value, Value], Value] | None = None
    total: Callable[[str, str], Value] | None = None
    draws: Draws | None = None
    context: dict[str, Value] = field(default_factory=dict)
    registers: Mapping[str, int] = field(default_factory=dict)
    """The cells of step stages' registers, which every expression can read."""
    fail: Callable[[Value, int], None] | None = None
    """`fail(test, error)`: end the lane, if `test`."""


@dataclass(frozen=True)
class Given:
    """In the place of an expression: its value, which is known already."""

    value: Value


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
    "abs": ops.absolute,
    "floor": ops.floor,
    "ceil": ops.ceil,
    "sqrt": ops.sqrt,
    "exp": ops.exp,
    "ln": ops.log,
}


def evaluate(e: ir.Expr | Given, s: Scope) -> Value:
    match e:
        case Given(value):
            return value
        case ir.Const(value):
            return s.m.full(value, np.float64)
        case ir.Input(name):
            return s.input(name)
        case ir.Attr(name):
            assert s.attribute is not None
            return s.attribute(name)
        case ir.Now():
            return s.now()
        case ir.Context(name):
            return s.m.f(s.registers[name]) if name in s.registers else s.context[name]
        case ir.Unary("not", x):
            return ~truth(evaluate(x, s))
        case ir.Unary(op, x):
            result = _UNARY[op](number(evaluate(x, s)))
            return s.m.opaque(result) if op in ("sqrt", "exp", "ln") else result
        case ir.Binary(op, x, y):
            a = _operand(op, x, s)
            return _binary(op, a, _operand(op, y, s), s)
        case ir.Lazy(op, x, y):
            return _lazy(op, x, y, s)
        case ir.Cond(test, then, other):
            return _conditional(test, then, other, s)
        case ir.Draw(dist, args):
            return _draw(dist, args, s)
        case ir.Read(kind, ref):
            assert s.read is not None
            return s.read(kind, _addressed(ref, s))
        case ir.Price(ref, held, extra):
            assert s.price is not None
            ref = _addressed(ref, s)
            return s.price(ref, number(evaluate(held, s)), number(evaluate(extra, s)))
        case ir.Total(kind, observe):
            assert s.total is not None
            return s.total(kind, observe)
    raise AssertionError(e)


def _addressed(ref: ir.Ref, s: Scope) -> ir.Ref:
    """A reference whose computed index has been evaluated in this scope."""
    if not _is_computed(ref):
        return ref
    assert ref.index is not None
    index: Any = Given(number(evaluate(ref.index, s)))
    return ir.Ref(ref.name, index)


def _is_computed(ref: ir.Ref) -> bool:
    return ref.index is not None and not isinstance(ref.index, ir.Const)


def _operand(op: str, e: ir.Expr, s: Scope) -> Value:
    value = number(evaluate(e, s))
    return s.m.opaque(value) if isinstance(e, ir.Const) and op in ("+", "-", "*", "/", "pow") else value


def _binary(op: str, a: Value, b: Value, s: Scope) -> Value:
    if op in _COMPARE:
        return _COMPARE[op](a, b)
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return s.m.opaque(a * b)
        case "/":
            return s.m.opaque(a / b)
        case "pow":
            return s.m.opaque(ops.power(a, b))
        case "min":
            return ops.fmin(a, b)
        case "max":
            return ops.fmax(a, b)
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


def _goes_around(e: ir.Expr, s: Scope) -> bool:
    """Whether an expression that is not wanted must be, or had better be, branched around."""
    if _weight(e) > 0:
        return True
    if s.draws is not None and s.draws.at_once and draws_bound(e) > 0:
        return True
    return any(isinstance(node, ir.Ref) and _is_computed(node) for node in ir.walk(e))


def _conditional(test: ir.Expr, then: ir.Expr, other: ir.Expr, s: Scope) -> Value:
    t = truth(evaluate(test, s))
    draws = s.draws if draws_bound((then, other)) > 0 else None
    start = draws.mark() if draws else 0
    ends: list[Any] = []

    def arm(e: ir.Expr) -> Callable[[], tuple[Value, ...]]:
        def run() -> tuple[Value, ...]:
            if draws:
                draws.set(start)
            value = number(evaluate(e, s))
            ends.append(draws.mark() if draws else 0)
            return value, as_u32(ends[-1])

        return run

    if _goes_around(then, s) or _goes_around(other, s):
        value, end = s.m.either(t, arm(then), arm(other))
        if draws:
            draws.set(ends[0] if _same(*ends) else end)
        return value
    (a, _), (b, _) = arm(then)(), arm(other)()
    if draws:
        draws.set(_either_position(t, *ends))
    return where(t, a, b)


def _same(first: Any, second: Any) -> bool:
    """Whether two positions are known to be the same."""
    return isinstance(first, int) and isinstance(second, int) and first == second


def _either_position(test: Value, first: Any, second: Any) -> Any:
    return first if _same(first, second) else where(test, as_u32(first), as_u32(second))


def _lazy(op: str, x: ir.Expr, y: ir.Expr, s: Scope) -> Value:
    a = truth(evaluate(x, s))
    draws = s.draws if draws_bound(y) > 0 else None
    start = draws.mark() if draws else 0
    runs = a if op == "&&" else ~a

    def right() -> tuple[Value, Value]:
        return truth(evaluate(y, s)), as_u32(draws.mark() if draws else 0)

    if _goes_around(y, s):
        decided = s.m.full(op == "||", np.bool_)
        value, end = s.m.when(runs, right, (decided, as_u32(start)))
        if draws:
            draws.set(end)
        return value
    b, _ = right()
    if draws:
        draws.set(_either_position(runs, draws.mark(), start))
    return a & b if op == "&&" else a | b


def exponential(mean: Value, u: Value, s: Scope) -> Value:
    return s.m.opaque(-mean * ops.log(1.0 - u))


_MOST_PHASES = 1e6
_UNROLLED = 8
"""Phases of an `~erlang` that are written out; more are a loop."""


def erlang_phases(k: ir.Expr) -> int | None:
    """The number of phases when it is a constant."""
    return math.floor(min(max(k.value, 1.0), _MOST_PHASES)) if isinstance(k, ir.Const) else None


def _erlang(k: ir.Expr, value: Value, mean: Value, s: Scope) -> Value:
    """The sum of `k` exponentials, of `mean` together."""
    draws, known = s.draws, erlang_phases(k)
    assert draws is not None
    count = ops.floor(ops.greater(value, 1.0))
    if s.fail is not None:
        s.fail(count > _MOST_PHASES, errors.PHASES)
    part = mean / s.m.opaque(count)
    total = s.m.full(0.0, np.float64)
    if known is not None and known <= _UNROLLED:
        for _ in range(known):
            total = total + exponential(part, draws.take(s.m), s)
        return total
    start = draws.mark()

    def phase(done: Value, total: Value, position: Value) -> tuple[Value, Value, Value]:
        draws.set(position)
        total = total + exponential(part, draws.take(s.m), s)
        return done + 1.0, total, as_u32(draws.mark())

    begin = s.m.full(start, np.uint32) if isinstance(start, int) else start
    count = ops.lesser(count, s.m.full(_MOST_PHASES, np.float64))
    _, total, end = s.m.loop(lambda done, *_: done < count, phase, (total, total, begin))
    draws.set(end)
    return total


def _draw(dist: str, args: tuple[ir.Expr, ...], s: Scope) -> Value:
    values = [number(evaluate(a, s)) for a in args]
    if dist == "det":
        return values[0]
    assert s.draws is not None
    if dist == "erlang":
        return _erlang(args[0], values[0], values[1], s)
    u = s.draws.take(s.m)
    match dist:
        case "exp":
            return exponential(values[0], u, s)
        case "uniform":
            low, high = values
            return low + s.m.opaque((high - low) * u)
        case "bernoulli":
            return u < values[0]
        case "h2":
            mean, cv2 = values
            c = ops.greater(cv2, 1.0)
            p = s.m.opaque(0.5 * (1.0 + ops.sqrt((c - 1.0) / (c + 1.0))))
            share = where(u < p, p, 1.0 - p)
            return exponential(mean / s.m.opaque(2.0 * share), s.draws.take(s.m), s)
    raise AssertionError(dist)


def draws_bound(e: Any) -> float:
    """The largest number of uniforms that evaluating IR below `e` can consume (inf: there is no bound)."""
    match e:
        case ir.Draw(dist, args):
            own: float = {"det": 0, "h2": 2}.get(dist, 1)
            if dist == "erlang":
                phases = erlang_phases(args[0])
                own = math.inf if phases is None else phases
            return own + draws_bound(args)
        case ir.Cond(test, then, other) | ir.Branch(test, then, other):
            return draws_bound(test) + max(draws_bound(then), draws_bound(other))
        case ir.Choose(_, count, keys):
            each = draws_bound(keys)
            return draws_bound(count) + (math.inf if each else 0)
        case ir.Fork():
            return 0  # the leg has a stream of its own
        case tuple():
            return sum(map(draws_bound, e))
    if dataclasses.is_dataclass(e):
        return sum(draws_bound(getattr(e, f.name)) for f in dataclasses.fields(e))
    return 0

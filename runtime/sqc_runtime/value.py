"""Values of a program under construction: each operator appends one LLVM instruction.

A `Value` looks like a NumPy scalar (or, with `width`, a short vector) of a dtype: `+ - * /`,
comparisons, shifts and bit operators on it build code at the present place of its builder. Signed,
unsigned and floating operations are told apart by the dtype. Code that is written with these
operators and the functions of `ops` runs on JAX arrays as well.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import llvmlite.ir as ll
import numpy as np

F64 = np.dtype(np.float64)
BOOL = np.dtype(np.bool_)

_TYPES: dict[Any, ll.Type] = {
    F64: ll.DoubleType(),
    BOOL: ll.IntType(1),
    **{np.dtype(f"{sign}int{bits}"): ll.IntType(bits) for sign in ("", "u") for bits in (32, 64)},
}


def type_of(dtype: Any, width: int = 0) -> ll.Type:
    scalar = _TYPES[np.dtype(dtype)]
    return ll.VectorType(scalar, width) if width else scalar


def constant(dtype: Any, value: Any, width: int = 0) -> ll.Constant:
    scalar = _TYPES[np.dtype(dtype)]
    plain = float(value) if np.dtype(dtype) == F64 else int(value)
    if width:
        return ll.Constant(ll.VectorType(scalar, width), [ll.Constant(scalar, plain)] * width)
    return ll.Constant(scalar, plain)


class Value:
    """An SSA value with its dtype; `width` 0 is a scalar, else a vector of that many."""

    __slots__ = ("builder", "dtype", "ssa", "width")
    __array_ufunc__ = None  # NumPy scalars leave mixed operators to this class

    def __init__(self, builder: ll.IRBuilder, ssa: Any, dtype: Any, width: int = 0):
        self.builder, self.ssa, self.dtype, self.width = builder, ssa, np.dtype(dtype), width

    __hash__ = None  # type: ignore[assignment]

    def like(self, ssa: Any, dtype: Any = None) -> Value:
        return Value(self.builder, ssa, self.dtype if dtype is None else dtype, self.width)

    def coerce(self, other: Any) -> Any:
        """The SSA value of an operand: a number becomes a constant of this type."""
        if isinstance(other, Value):
            if other.dtype != self.dtype or other.width != self.width:
                raise TypeError(f"{self.dtype}[{self.width}] with {other.dtype}[{other.width}]")
            return other.ssa
        return constant(self.dtype, other, self.width)

    @property
    def kind(self) -> str:
        return str(self.dtype.kind)

    # -- arithmetic
    def _pair(self, other: Any, swap: bool) -> tuple[Any, Any]:
        y = self.coerce(other)
        return (y, self.ssa) if swap else (self.ssa, y)

    def _arith(self, name: str, other: Any, swap: bool = False) -> Value:
        x, y = self._pair(other, swap)
        build = getattr(self.builder, ("f" if self.kind == "f" else "") + name)
        return self.like(build(x, y))

    def __add__(self, other: Any) -> Value:
        return self._arith("add", other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Value:
        return self._arith("sub", other)

    def __rsub__(self, other: Any) -> Value:
        return self._arith("sub", other, swap=True)

    def __mul__(self, other: Any) -> Value:
        return self._arith("mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Value:
        return self._arith("div", other)

    def __rtruediv__(self, other: Any) -> Value:
        return self._arith("div", other, swap=True)

    def __floordiv__(self, other: Any) -> Value:
        assert self.kind == "u"
        return self.like(self.builder.udiv(*self._pair(other, False)))

    def __mod__(self, other: Any) -> Value:
        assert self.kind == "u"
        return self.like(self.builder.urem(*self._pair(other, False)))

    def __neg__(self) -> Value:
        return self.like(self.builder.fneg(self.ssa) if self.kind == "f" else self.builder.neg(self.ssa))

    def scaled(self, factor: int, offset: int) -> Value:
        """`self * factor + offset` of an address: never past 2^32, so that it can be part of an instruction."""
        b, flags = self.builder, ("nuw",)
        product = b.mul(self.ssa, self.coerce(factor), flags=flags)
        return self.like(b.add(product, self.coerce(offset), flags=flags))

    # -- bits
    def _bits(self, name: str, other: Any) -> Value:
        return self.like(getattr(self.builder, name)(self.ssa, self.coerce(other)))

    def __and__(self, other: Any) -> Value:
        return self._bits("and_", other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Value:
        return self._bits("or_", other)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Value:
        return self._bits("xor", other)

    __rxor__ = __xor__

    def __lshift__(self, other: Any) -> Value:
        return self._bits("shl", other)

    def __rshift__(self, other: Any) -> Value:
        return self._bits("lshr" if self.kind == "u" else "ashr", other)

    def __invert__(self) -> Value:
        return self.like(self.builder.not_(self.ssa))

    # -- comparison
    def _compare(self, op: str, other: Any) -> Value:
        y = self.coerce(other)
        if self.kind == "f":
            build: Callable[..., Any] = self.builder.fcmp_unordered if op == "!=" else self.builder.fcmp_ordered
        else:
            build = self.builder.icmp_unsigned if self.kind in "ub" else self.builder.icmp_signed
        return self.like(build(op, self.ssa, y), BOOL)

    def __lt__(self, other: Any) -> Value:
        return self._compare("<", other)

    def __le__(self, other: Any) -> Value:
        return self._compare("<=", other)

    def __gt__(self, other: Any) -> Value:
        return self._compare(">", other)

    def __ge__(self, other: Any) -> Value:
        return self._compare(">=", other)

    def __eq__(self, other: object) -> Value:  # type: ignore[override]
        return self._compare("==", other)

    def __ne__(self, other: object) -> Value:  # type: ignore[override]
        return self._compare("!=", other)

    def __bool__(self) -> bool:
        raise TypeError("a value of the program is not known while its code is built")

    # -- types
    def astype(self, dtype: Any) -> Value:
        """The nearest value of another type (towards zero from a float; its low bits from a wider integer)."""
        to = np.dtype(dtype)
        if to == self.dtype:
            return self
        target, b = type_of(to, self.width), self.builder
        if self.kind == "f":
            return self.like((b.fptoui if to.kind == "u" else b.fptosi)(self.ssa, target), to)
        if to.kind == "f":
            return self.like((b.sitofp if self.kind == "i" else b.uitofp)(self.ssa, target), to)
        if to == BOOL:
            return self != 0
        here, there = _bits(self.dtype), _bits(to)
        if there < here:
            return self.like(b.trunc(self.ssa, target), to)
        if there > here:
            return self.like((b.sext if self.kind == "i" else b.zext)(self.ssa, target), to)
        return self.like(self.ssa, to)

    def bitcast(self, dtype: Any) -> Value:
        return self.like(self.builder.bitcast(self.ssa, type_of(dtype, self.width)), dtype)

    def spread(self, width: int) -> Value:
        """A vector of copies."""
        undefined = ll.Constant(type_of(self.dtype, width), ll.Undefined)
        index = ll.Constant(ll.IntType(32), 0)
        first = self.builder.insert_element(undefined, self.ssa, index)
        mask = ll.Constant(ll.VectorType(ll.IntType(32), width), [0] * width)
        return Value(self.builder, self.builder.shuffle_vector(first, undefined, mask), self.dtype, width)

    def halves(self) -> tuple[Value, Value]:
        """The low and the high words of a vector of 64-bit integers, in the order of `_PACKED`."""
        words = self.builder.bitcast(self.ssa, type_of(np.uint32, 2 * self.width))
        order = _PACKED.get(self.width, range(self.width))
        return self._picked(words, [2 * k for k in order]), self._picked(words, [2 * k + 1 for k in order])

    def _picked(self, words: Any, indices: list[int]) -> Value:
        undefined = ll.Constant(words.type, ll.Undefined)
        mask = ll.Constant(ll.VectorType(ll.IntType(32), len(indices)), indices)
        return Value(self.builder, self.builder.shuffle_vector(words, undefined, mask), np.uint32, len(indices))

    def with_high(self, high: Value) -> Value:
        """The 64-bit integers whose low words these are; undoes `halves`."""
        width, order = self.width, _PACKED.get(self.width, range(self.width))
        places = [list(order).index(k) for k in range(width)]
        mask = ll.Constant(ll.VectorType(ll.IntType(32), 2 * width), [i for p in places for i in (p, width + p)])
        words = self.builder.shuffle_vector(self.ssa, high.ssa, mask)
        return Value(self.builder, self.builder.bitcast(words, type_of(np.uint64, width)), np.uint64, width)

    def part(self, start: int, width: int) -> Value:
        """`width` neighbouring elements of a vector."""
        undefined = ll.Constant(type_of(self.dtype, self.width), ll.Undefined)
        mask = ll.Constant(ll.VectorType(ll.IntType(32), width), list(range(start, start + width)))
        return Value(self.builder, self.builder.shuffle_vector(self.ssa, undefined, mask), self.dtype, width)


_PACKED = {8: (0, 1, 4, 5, 2, 3, 6, 7)}
"""Orders in which two vector registers are packed into one, and back, without crossing their halves."""


def _bits(dtype: np.dtype[Any]) -> int:
    return 1 if dtype == BOOL else dtype.itemsize * 8


def select(test: Value, a: Any, b: Any) -> Value:
    """`a` where `test`, else `b`."""
    model = a if isinstance(a, Value) else b
    if not isinstance(model, Value):
        dtype = np.result_type(a, b) if not isinstance(a, bool) else BOOL
        model = Value(test.builder, None, dtype, test.width)
    return model.like(test.builder.select(test.ssa, model.coerce(a), model.coerce(b)))


def intrinsic(name: str, *values: Value) -> Value:
    """`llvm.NAME` of values of one type."""
    first = values[0]
    kind = type_of(first.dtype, first.width)
    module = first.builder.module
    suffix = f"v{first.width}f64" if first.width else "f64"
    full = f"llvm.{name}.{suffix}"
    function = module.globals.get(full) or ll.Function(module, ll.FunctionType(kind, [kind] * len(values)), full)
    return first.like(first.builder.call(function, [v.ssa for v in values]))


def external(name: str, *values: Value) -> Value:
    """A function of the C library on doubles, under a name of its own so that nothing is rewritten."""
    first = values[0]
    module, double = first.builder.module, type_of(F64)
    function = module.globals.get(name)
    if function is None:
        function = ll.Function(module, ll.FunctionType(double, [double] * len(values)), name)
        for attribute in ("nounwind", "readnone"):
            function.attributes.add(attribute)
    return first.like(first.builder.call(function, [v.ssa for v in values]))


def join(parts: list[Value]) -> Value:
    """Vectors of one width, one after the other as one (their number is a power of two)."""
    while len(parts) > 1:
        parts = [_join_two(*parts[i : i + 2]) for i in range(0, len(parts), 2)]
    return parts[0]


def _join_two(a: Value, b: Value) -> Value:
    width = a.width + b.width
    mask = ll.Constant(ll.VectorType(ll.IntType(32), width), list(range(width)))
    return Value(a.builder, a.builder.shuffle_vector(a.ssa, b.ssa, mask), a.dtype, width)


def function_of(name: str, body: Callable[..., list[Value]], *arguments: Value) -> list[Value]:
    """`body(*arguments)` as a call of a function of the module, which is built at its first use.

    Its results, all of one type, pass through memory: code that is long and used at several places
    appears once and does not crowd the registers of its callers.
    """
    caller = arguments[0].builder
    module = caller.module
    function, made = module.globals.get(name), _results.get(module, {})
    if function is None:
        kinds = [type_of(a.dtype, a.width) for a in arguments]
        function = ll.Function(module, ll.FunctionType(ll.VoidType(), [ll.IntType(8).as_pointer(), *kinds]), name)
        function.linkage = "internal"
        for attribute in ("noinline", "nounwind"):
            function.attributes.add(attribute)
        inside = ll.IRBuilder(function.append_basic_block("entry"))
        results = body(*(Value(inside, p, a.dtype, a.width) for p, a in zip(function.args[1:], arguments, strict=True)))
        first = results[0]
        out = inside.bitcast(function.args[0], type_of(first.dtype, first.width).as_pointer())
        for i, result in enumerate(results):
            inside.store(result.ssa, inside.gep(out, [ll.Constant(ll.IntType(32), i)]), align=8)
        inside.ret_void()
        made = {**made, name: (len(results), first.dtype, first.width)}
        _results[module] = made
    count, dtype, width = made[name]
    kind = type_of(dtype, width)
    with caller.goto_entry_block():
        space = caller.alloca(kind, count)
        space.align = 64
    caller.call(function, [caller.bitcast(space, ll.IntType(8).as_pointer()), *(a.ssa for a in arguments)])
    values = []
    for i in range(count):
        value = caller.load(caller.gep(space, [ll.Constant(ll.IntType(32), i)]), align=8)
        values.append(Value(caller, value, dtype, width))
    return values


_results: weakref.WeakKeyDictionary[ll.Module, dict[str, tuple[int, Any, int]]] = weakref.WeakKeyDictionary()
"""Of each module's functions: the number, dtype and width of their results."""

"""Operations that both memories' values know: JAX arrays and values of native code."""

from __future__ import annotations

from typing import Any

import numpy as np

from .value import Value, external, intrinsic, select

Scalar = Any


def _native(*values: Scalar) -> bool:
    return any(isinstance(value, Value) for value in values)


def _jnp() -> Any:
    import jax.numpy as jnp  # here: native code is made without JAX

    return jnp


def where(test: Scalar, a: Scalar, b: Scalar) -> Scalar:
    """`a` where `test`, else `b`."""
    if isinstance(test, Value):
        return select(test, a, b)
    return _jnp().where(test, a, b)


def lesser(a: Scalar, b: Scalar) -> Scalar:
    """The lesser of two numbers (NaN in the first counts as larger)."""
    return where(a < b, a, b)


def greater(a: Scalar, b: Scalar) -> Scalar:
    """The greater of two numbers (NaN in the first counts as smaller)."""
    return where(a > b, a, b)


def fmin(a: Scalar, b: Scalar) -> Scalar:
    """The lesser of two doubles; of a NaN and a number the number."""
    return intrinsic("minnum", a, b) if _native(a, b) else _jnp().fmin(a, b)


def fmax(a: Scalar, b: Scalar) -> Scalar:
    return intrinsic("maxnum", a, b) if _native(a, b) else _jnp().fmax(a, b)


def absolute(x: Scalar) -> Scalar:
    return intrinsic("fabs", x) if _native(x) else _jnp().abs(x)


def floor(x: Scalar) -> Scalar:
    return intrinsic("floor", x) if _native(x) else _jnp().floor(x)


def ceil(x: Scalar) -> Scalar:
    return intrinsic("ceil", x) if _native(x) else _jnp().ceil(x)


def sqrt(x: Scalar) -> Scalar:
    return intrinsic("sqrt", x) if _native(x) else _jnp().sqrt(x)


def exp(x: Scalar) -> Scalar:
    return external("sqc_exp", x) if _native(x) else _jnp().exp(x)


def log(x: Scalar) -> Scalar:
    return external("sqc_log", x) if _native(x) else _jnp().log(x)


def power(x: Scalar, y: Scalar) -> Scalar:
    return external("sqc_pow", x, y) if _native(x, y) else x**y


def bits_of(x: Scalar) -> Scalar:
    """The 64 bits of a double as a signed integer."""
    if isinstance(x, Value):
        return x.bitcast(np.int64)
    from jax import lax

    return lax.bitcast_convert_type(x, np.int64)


def double_of(bits: Scalar) -> Scalar:
    """The double with these 64 bits."""
    if isinstance(bits, Value):
        return bits.bitcast(np.float64)
    from jax import lax

    return lax.bitcast_convert_type(bits, np.float64)


def halves(x: Scalar) -> tuple[Scalar, Scalar]:
    """The low and the high 32 bits of 64-bit integers (of a vector, in an order of its own: see `whole`)."""
    if isinstance(x, Value) and x.width:
        return x.halves()
    return x.astype(np.uint32), (x >> np.uint64(32)).astype(np.uint32)


def whole(low: Scalar, high: Scalar) -> Scalar:
    """64-bit integers of their halves. Vectors must come from `halves`, whose order it undoes."""
    if isinstance(low, Value) and low.width:
        return low.with_high(high)
    return (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)


def part(x: Scalar, start: int, width: int) -> Scalar:
    """Neighbouring elements of a vector ([..., width] on arrays)."""
    return x.part(start, width) if isinstance(x, Value) else x[..., start : start + width]


def scaled(x: Scalar, factor: int, offset: int) -> Scalar:
    """`x * factor + offset` of an address (uint32)."""
    if isinstance(x, Value):
        return x.scaled(factor, offset)
    return x * np.uint32(factor) + np.uint32(offset)


def as_u32(x: Scalar) -> Scalar:
    """A position or a member of an array as uint32: a plain number, or a value that is one already."""
    return np.uint32(x) if isinstance(x, int) else x

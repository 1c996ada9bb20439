"""Scalar operations that trace to one primitive each.

`jnp` functions are jitted calls with type promotion; a lane program has thousands of operations,
so the short way shows in the time to compile. Shapes that differ ([L] beside scalars, in lockstep)
take the long way.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

Value = Any


def _array(x: Value, dtype: Any) -> Array:
    return x if isinstance(x, Array) and x.dtype == dtype else jnp.asarray(x, dtype=dtype)


def _dtype(*values: Value) -> Any:
    for value in values:
        if isinstance(value, Array):
            return value.dtype
    return np.asarray(values[0]).dtype


def where(test: Value, a: Value, b: Value) -> Value:
    """`a` where `test`, else `b`."""
    dtype = _dtype(a, b)
    a, b = _array(a, dtype), _array(b, dtype)
    if a.shape == b.shape == jnp.shape(test):
        return lax.select(test, a, b)
    return jnp.where(test, a, b)


def lesser(a: Value, b: Value) -> Value:
    """The lesser of two numbers (NaN in the first counts as larger)."""
    return where(a < b, a, b)


def greater(a: Value, b: Value) -> Value:
    return where(a > b, a, b)


def to_f64(x: Value) -> Value:
    return x.astype(np.float64)

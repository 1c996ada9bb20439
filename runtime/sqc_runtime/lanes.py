"""Kernels over lanes: one lane after the other in a native call, or all side by side in lockstep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .memory import DTYPES, Layout, LockstepMemory, Memory, NativeMemory
from .native import native

Simulate = Callable[..., dict[str, Any]]
"""`simulate(memory, *arguments) -> results`, every argument a scalar (native) or [lanes] (lockstep)."""

Arguments = tuple[Array, ...]


def _banks(layout: Layout, shape: tuple[int, ...], seed: Array) -> dict[str, Array]:
    """Banks of zeros. They are made from an argument: a constant array would become an argument itself."""
    sizes: Mapping[str, int] = layout.size
    zero = seed.reshape(-1)[0] & np.uint64(0)
    return {bank: jnp.full((*shape, size), zero.astype(DTYPES[bank])) for bank, size in sizes.items() if size}


def _finish(memory: Memory, results: dict[str, Any], keep: bool) -> dict[str, Any]:
    """The samples' bank goes out with the results of a run that keeps them."""
    return results | ({"x": memory.banks["x"]} if keep else {})


def native_lanes(layout: Layout, simulate: Simulate) -> Callable[[Arguments], dict[str, Any]]:
    """All lanes of a call, one after the other, as one native CPU function. Arguments are [lanes, ...]."""
    keep = layout.size["x"] > 0

    def lane(arguments: Arguments) -> dict[str, Any]:
        memory = NativeMemory(_banks(layout, (), arguments[0]), layout.registers)
        return _finish(memory, simulate(memory, *arguments), keep)

    return native(lambda arguments: lax.map(lane, arguments))


def lockstep_lanes(layout: Layout, simulate: Simulate) -> Callable[[Arguments], dict[str, Any]]:
    """All lanes of a call side by side: the portable path, correct on every backend."""
    keep = layout.size["x"] > 0

    def lanes(arguments: Arguments) -> dict[str, Any]:
        count = arguments[0].shape[0]
        memory = LockstepMemory(_banks(layout, (count,), arguments[0]), layout.registers, count)
        return _finish(memory, simulate(memory, *arguments), keep)

    return lanes

"""L lanes side by side in JAX: the portable memory, correct on every backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .memory import DTYPES, Addr, Memory, Value


class LockstepMemory(Memory):
    """Banks are [L, cells], values [L], vectors [L, n], stores masked. `nz` is a run-time -0.0."""

    def __init__(self, banks: dict[str, Array], lanes: int, nz: Array):
        self.banks = banks
        self.lanes = lanes
        self.mask = jnp.ones(lanes, dtype=bool)
        self._rows = jnp.arange(lanes, dtype=jnp.uint32)
        self._nz = nz

    def _at(self, at: Addr) -> Array:
        return jnp.broadcast_to(jnp.asarray(at, dtype=jnp.uint32), (self.lanes,))

    def _cell(self, bank: str, value: Value) -> Array:
        return jnp.broadcast_to(jnp.asarray(value).astype(DTYPES[bank]), (self.lanes,))

    def load(self, bank: str, at: Addr) -> Value:
        if bank == "d":
            return self.banks["d"].at[self._at(at)].get(mode="clip")
        if isinstance(at, int):
            return self.banks[bank][:, at]
        return self.banks[bank].at[self._rows, self._at(at)].get(mode="clip")

    def store(self, bank: str, at: Addr, value: Value) -> None:
        cell = self._cell(bank, value)
        if isinstance(at, int):
            self._store_column(bank, at, cell[:, None])
            return
        where = jnp.where(self.mask, self._at(at), np.uint32(0xFFFFFFFF))
        self.banks[bank] = self.banks[bank].at[self._rows, where].set(cell, mode="drop", unique_indices=True)

    def load_n(self, bank: str, at: Addr, n: int) -> Value:
        if isinstance(at, int):
            return self.banks[bank][:, at : at + n]
        cells = self._at(at)[:, None] + jnp.arange(n, dtype=jnp.uint32)
        return self.banks[bank].at[self._rows[:, None], cells].get(mode="clip")

    def _store_column(self, bank: str, at: int, value: Value) -> None:
        """Store at one address in all lanes: no scatter is needed."""
        old = self.banks[bank][:, at : at + value.shape[-1]]
        new = jnp.where(self.mask[:, None], value, old)
        self.banks[bank] = lax.dynamic_update_slice(self.banks[bank], new, (0, at))

    def store_n(self, bank: str, at: Addr, value: Value) -> None:
        n = value.shape[-1]
        value = jnp.broadcast_to(value.astype(DTYPES[bank]), (self.lanes, n))
        if isinstance(at, int):
            self._store_column(bank, at, value)
            return
        cells = self._at(at)[:, None] + jnp.arange(n, dtype=jnp.uint32)
        cells = jnp.where(self.mask[:, None], cells, np.uint32(0xFFFFFFFF))
        self.banks[bank] = self.banks[bank].at[self._rows[:, None], cells].set(value, mode="drop", unique_indices=True)

    def _masked(self, test: Value, body: Callable[[], Sequence[Value] | None]) -> tuple[Value, ...]:
        outer = self.mask
        self.mask = outer & test
        out = tuple(jnp.broadcast_to(v, (self.lanes,)) for v in (body() or ()))
        self.mask = outer
        return out

    def when(self, test: Value, body: Callable[[], Sequence[Value] | None], default: Sequence[Value] = ()) -> Any:
        test = jnp.broadcast_to(test, (self.lanes,))
        out = self._masked(test, body)
        return tuple(jnp.where(test, a, b) for a, b in zip(out, default, strict=True))

    def either(
        self,
        test: Value,
        then: Callable[[], Sequence[Value] | None],
        other: Callable[[], Sequence[Value] | None],
    ) -> Any:
        test = jnp.broadcast_to(test, (self.lanes,))
        first, second = self._masked(test, then), self._masked(~test, other)
        return tuple(jnp.where(test, a, b) for a, b in zip(first, second, strict=True))

    def switch(self, index: Value, bodies: Mapping[int, Callable[[], None]]) -> None:
        for number, body in bodies.items():
            self._masked(index == np.uint32(number), body)

    def loop(
        self, test: Callable[..., Value], body: Callable[..., Sequence[Value]], carry: Sequence[Value] = ()
    ) -> Any:
        outer = self.mask
        start = tuple(jnp.broadcast_to(v, (self.lanes,)) for v in carry)

        def going(banks: dict[str, Array], values: tuple[Value, ...]) -> Value:
            saved, self.banks = self.banks, dict(banks)
            go = outer & test(*values)
            self.banks = saved
            return go

        def step(state: Any) -> Any:
            banks, values, go = state
            saved, self.banks = self.banks, dict(banks)
            out = self._masked(go, lambda: body(*values))
            self.mask = outer
            inner, self.banks = self.banks, saved
            out = tuple(jnp.where(go, a, b) for a, b in zip(out, values, strict=True))
            return inner, out, going(inner, out)

        self.banks, values, _ = lax.while_loop(
            lambda state: jnp.any(state[2]), step, (self.banks, start, going(self.banks, start))
        )
        return values

    def full(self, value: Any, dtype: Any) -> Value:
        return jnp.full((self.lanes,), value, dtype=dtype)

    def row(self, values: Sequence[int], dtype: Any) -> Value:
        return jnp.asarray(np.asarray(values, dtype))

    def spread(self, value: Value, width: int) -> Value:
        return jnp.broadcast_to(value[..., None], (*value.shape, width))

    def opaque(self, value: Value) -> Value:
        # XLA contracts products with sums and rewrites quotients: a run-time -0.0 takes that freedom away.
        return value + self._nz

"""The memory of a lane: a few flat arrays, addressed like RAM.

Everything a lane owns (registers, session slots, queues, heaps, statistics) lives at a fixed
address of one of a few *banks*: `f` (float64), `u` (uint32), for runs that keep their samples `x`
(float64), and on the portable path `h` (uint32, the histograms). Control structures then carry two
or three arrays, whatever the program holds, and code reads like sequential code: load, compute, store.

Two classes share one interface:

* `NativeMemory`: one lane, scalars, compiled through the native call. XLA copies an array whose old
  version is still read after an update, and fusion moves loads behind updates; so a load is a
  sealed call, and a store comes after a call that takes all values loaded before it. What only
  loads goes into one sealed piece (`reading`), inside of which values stay in registers.
* `LockstepMemory`: L lanes side by side, every scalar a vector of L. A conditional region runs for
  all lanes with its stores masked, so no lane's loop waits on, or is disturbed by, another's.

`Layout` hands out the addresses before either exists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .native import sealed

Addr = Any  # a Python int, or a uint32 scalar ([L] in lockstep)
Value = Any

DTYPES = {"f": np.float64, "u": np.uint32, "h": np.uint32, "x": np.float64}


class Layout:
    """Addresses: named regions of each bank, and the fields of a session slot.

    Slots are numbered from 1; slot 0 is a dummy that absorbs stores meant for nobody, so 0 can mean
    "no slot" everywhere. `freeze` places the slot records behind the registers.
    """

    def __init__(self, histograms: str = "u") -> None:
        self.histograms = histograms
        """The bank of the histograms: one of their own ("h") where an update may copy its bank."""
        self.size = {"f": 0, "u": 0, "h": 0, "x": 0}
        self.regions: dict[str, tuple[str, int, int]] = {}
        self.registers: set[tuple[str, int]] = set()
        """Cells that are only ever addressed by their number: memory may remember their values."""
        self._fields: dict[str, dict[str, int]] = {"f": {}, "u": {}}
        self._stride = {"f": 0, "u": 0}
        self._slots: dict[str, int] = {}

    def region(self, bank: str, name: str, length: int = 1) -> int:
        """Reserve `length` cells of a bank; returns the address of the first."""
        if name in self.regions:
            raise ValueError(f"region {name} exists")
        base = self.size[bank]
        self.size[bank] += length
        self.regions[name] = (bank, base, length)
        if length == 1:
            self.registers.add((bank, base))
        return base

    def f(self, name: str, length: int = 1) -> int:
        return self.region("f", name, length)

    def u(self, name: str, length: int = 1) -> int:
        return self.region("u", name, length)

    def field(self, bank: str, name: str, length: int = 1) -> int:
        """Reserve a field of every slot record; returns its offset in the record."""
        offset = self._stride[bank]
        self._fields[bank][name] = offset
        self._stride[bank] += length
        return offset

    def shared_field(self, bank: str, name: str) -> int:
        """A one-cell field that several users name: reserved once."""
        fields = self._fields[bank]
        return fields[name] if name in fields else self.field(bank, name)

    def freeze(self, slots: int) -> None:
        """Place `slots` records (and the dummy record 0)."""
        for bank, stride in self._stride.items():
            self._slots[bank] = self.region(bank, f"slots.{bank}", max(stride, 1) * (slots + 1))

    def slot(self, bank: str, slot: Addr) -> Addr:
        """The address of a slot's record."""
        return self._slots[bank] + slot * np.uint32(self._stride[bank])


def _load(bank: Array, at: Array) -> Array:
    cell = lax.dynamic_slice(bank, (at,), (1,), allow_negative_indices=False)
    return lax.squeeze(cell, (0,))


_sealed_load = sealed(_load)
_sealed_after = sealed(lambda bank, *values: bank)
_sealed_loads: dict[int, Callable[..., Any]] = {}


def _sealed_load_n(n: int) -> Callable[..., Any]:
    if n not in _sealed_loads:

        def load(bank: Array, at: Array) -> Array:
            return lax.dynamic_slice(bank, (at,), (n,), allow_negative_indices=False)

        _sealed_loads[n] = sealed(load)
    return _sealed_loads[n]


class Memory:
    """What both memories share: the banks, by name, and the interface.

    Values of registers that a region has loaded or stored are remembered, so that reading `now`
    twice is one load. What a region inside stores is forgotten afterwards.
    """

    def __init__(self, banks: dict[str, Array], registers: set[tuple[str, int]]):
        self.banks = banks
        self._registers = registers
        self._known: dict[tuple[str, Addr], Value] = {}
        self._written: set[tuple[str, Addr]] = set()

    # -- cells
    def load(self, bank: str, at: Addr) -> Value:
        register = isinstance(at, int) and (bank, at) in self._registers
        if register and (bank, at) in self._known:
            return self._known[bank, at]
        value = self._load(bank, at)
        if register:
            self._known[bank, at] = value
        return value

    def store(self, bank: str, at: Addr, value: Value) -> None:
        value = self._cell(bank, value)
        self._store(bank, at, value)
        if isinstance(at, int) and (bank, at) in self._registers:
            self._known[bank, at] = value
            self._written.add((bank, at))

    def _enter(self) -> Any:
        """A region begins: what it learns and writes is its own.

        It starts knowing nothing: a value it took from outside would be passed in at every
        encounter, taken or not, where a load costs only when the region runs.
        """
        saved = self._known, self._written
        self._known, self._written = {}, set()
        return saved

    def _leave(self, saved: Any) -> None:
        written = self._written
        self._known, self._written = saved
        self._written |= written
        for register in written:
            self._known.pop(register, None)

    def _cell(self, bank: str, value: Value) -> Value:
        """A value in the type of the bank."""
        if isinstance(value, Array):
            return value if value.dtype == DTYPES[bank] else value.astype(DTYPES[bank])
        return jnp.asarray(value, dtype=DTYPES[bank])

    def _load(self, bank: str, at: Addr) -> Value:
        raise NotImplementedError

    def _store(self, bank: str, at: Addr, value: Value) -> None:
        raise NotImplementedError

    def load_n(self, bank: str, at: Addr, n: int) -> Value:
        raise NotImplementedError

    def store_n(self, bank: str, at: Addr, value: Value) -> None:
        raise NotImplementedError

    # -- control
    def when(self, test: Value, body: Callable[[], Sequence[Value] | None], default: Sequence[Value] = ()) -> Any:
        """Run `body` if `test`; returns its values, or `default`."""
        raise NotImplementedError

    def either(
        self,
        test: Value,
        then: Callable[[], Sequence[Value] | None],
        other: Callable[[], Sequence[Value] | None],
        like: Sequence[Value] = (),
    ) -> Any:
        """Run one of two bodies; returns its values (`like` are values of their types).

        Two one-sided regions, because XLA copies every bank at the end of both arms of a
        two-sided conditional.
        """
        return self.when(~test, other, self.when(test, then, like))

    def loop(
        self, test: Callable[..., Value], body: Callable[..., Sequence[Value]], carry: Sequence[Value] = ()
    ) -> Any:
        """`while test(*carry): carry = body(*carry)`; both may use the memory (`test` only loads)."""
        raise NotImplementedError

    def reading(self, body: Callable[[], Sequence[Value]]) -> tuple[Value, ...]:
        """Values of a body that only loads: computed as one piece, in registers."""
        return tuple(body())

    def full(self, value: Any, dtype: Any) -> Value:
        """A constant as a value of this memory."""
        raise NotImplementedError

    def freeze(self) -> None:
        """Nothing will be stored any more."""

    # -- short names
    def f(self, at: Addr) -> Value:
        return self.load("f", at)

    def u(self, at: Addr) -> Value:
        return self.load("u", at)

    def setf(self, at: Addr, value: Value) -> None:
        self.store("f", at, value)

    def setu(self, at: Addr, value: Value) -> None:
        self.store("u", at, value)

    def addf(self, at: Addr, value: Value) -> Value:
        return self.update("f", at, lambda old: old + value)

    def addu(self, at: Addr, value: Value) -> Value:
        return self.update("u", at, lambda old: old + (np.uint32(value) if isinstance(value, int) else value))

    def update(self, bank: str, at: Addr, new: Callable[[Value], Value]) -> Value:
        """Store a function of a cell's old value; returns the new one."""
        value = self._cell(bank, new(self.load(bank, at)))
        self.store(bank, at, value)
        return value

    def preload(self, bank: str, first: int, count: int) -> None:
        """Load neighbouring registers at once."""
        cells = self.load_n(bank, first, count)
        for i in range(count):
            assert (bank, first + i) in self._registers
            self._known[bank, first + i] = cells[..., i]


def _u32(at: Addr) -> Array:
    return jnp.asarray(at, dtype=jnp.uint32)


class NativeMemory(Memory):
    """One lane: scalars and machine instructions."""

    def __init__(self, banks: dict[str, Array], registers: set[tuple[str, int]]):
        super().__init__(banks, registers)
        self._pending: dict[str, list[Value]] = {bank: [] for bank in banks}
        self._frozen = False
        self._read: dict[str, Value] = {}
        self._stored: set[str] = set()

    def freeze(self) -> None:
        """Nothing will be stored any more: loads need no seal and no order."""
        self._frozen = True

    def _loaded(self, bank: str, value: Value) -> Value:
        self._pending[bank].append(value)
        self._read[bank] = value
        return value

    def update(self, bank: str, at: Addr, new: Callable[[Value], Value]) -> Value:
        # The stored value depends on this load, so the store needs no order with it besides.
        before = len(self._pending[bank])
        old = self.load(bank, at)
        del self._pending[bank][before:]
        value = self._cell(bank, new(old))
        self.store(bank, at, value)
        return value

    def _order(self, bank: str) -> None:
        """Make what follows depend on the loads so far: a call that passes the bank through."""
        pending = self._pending[bank]
        if pending:
            self.banks[bank] = _sealed_after(self.banks[bank], *pending)
            pending.clear()

    def _order_all(self) -> None:
        for bank in self.banks:
            self._order(bank)

    def _load(self, bank: str, at: Addr) -> Value:
        if self._frozen:
            self._touched.add(bank)
            return _load(self.banks[bank], _u32(at))
        return self._loaded(bank, _sealed_load(self.banks[bank], _u32(at)))

    def _store(self, bank: str, at: Addr, value: Value) -> None:
        self._order(bank)
        self._stored.add(bank)
        cell = lax.reshape(value, (1,))
        self.banks[bank] = lax.dynamic_update_slice(self.banks[bank], cell, (_u32(at),), allow_negative_indices=False)

    def load_n(self, bank: str, at: Addr, n: int) -> Value:
        if self._frozen:
            self._touched.add(bank)
            return lax.dynamic_slice(self.banks[bank], (_u32(at),), (n,), allow_negative_indices=False)
        return self._loaded(bank, _sealed_load_n(n)(self.banks[bank], _u32(at)))

    def store_n(self, bank: str, at: Addr, value: Value) -> None:
        self._order(bank)
        self._stored.add(bank)
        self.banks[bank] = lax.dynamic_update_slice(
            self.banks[bank], value.astype(DTYPES[bank]), (_u32(at),), allow_negative_indices=False
        )

    def _region(
        self, body: Callable[[], Sequence[Value] | None], banks: dict[str, Array]
    ) -> tuple[dict[str, Array], tuple[Value, ...], dict[str, Value]]:
        """Trace a region: its banks, its values, and a loaded value of each bank that it only reads."""
        outer, self.banks = self.banks, dict(banks)
        pending, self._pending = self._pending, {bank: [] for bank in banks}
        read, self._read = self._read, {}
        stored, self._stored = self._stored, set()
        saved = self._enter()
        out = tuple(body() or ())
        self._leave(saved)
        only_read = {bank: value for bank, value in self._read.items() if bank not in self._stored}
        inner, self.banks, self._pending, self._read = self.banks, outer, pending, read
        self._stored = stored | self._stored
        return inner, out, only_read

    def when(self, test: Value, body: Callable[[], Sequence[Value] | None], default: Sequence[Value] = ()) -> Any:
        # XLA takes a bank that a region only reads out of the region's results, and what follows no
        # longer depends on the reads; so a value read from it is made a result.
        keep = tuple(default)
        if self._frozen:

            def only_values() -> tuple[Value, ...]:
                known, self._known = self._known, {}
                values = tuple(body() or ())
                self._known = known
                return values

            out: tuple[Value, ...] = lax.cond(test, only_values, lambda: keep)
            return out
        self._order_all()
        banks_read: list[str] = []
        zeros: list[Value] = []

        def run(banks: dict[str, Array]) -> Any:
            inner, out, only_read = self._region(body, banks)
            witnesses = [value.reshape(-1)[0] for value in only_read.values()]
            banks_read[:] = only_read
            zeros[:] = [np.zeros((), value.dtype) for value in witnesses]
            return inner, out, tuple(witnesses)

        def skip(banks: dict[str, Array]) -> Any:
            return banks, keep, tuple(jnp.asarray(zero) for zero in zeros)

        self.banks, out, witnesses = lax.cond(test, run, skip, self.banks)
        for bank, value in zip(banks_read, witnesses, strict=True):
            self._loaded(bank, value)
        return out

    def loop(
        self, test: Callable[..., Value], body: Callable[..., Sequence[Value]], carry: Sequence[Value] = ()
    ) -> Any:
        def cond(state: Any) -> Value:
            outer, self.banks = self.banks, dict(state[0])
            go = self._only_load(lambda: (test(*state[1]),))[0]
            self.banks = outer
            return go

        def step(state: Any) -> Any:
            inner, out, _ = self._region(lambda: body(*state[1]), state[0])
            return inner, out

        start = tuple(carry)
        self._order_all()
        self.banks, out = lax.while_loop(cond, step, (self.banks, start))
        for bank in self.banks:
            for value in out:
                self._loaded(bank, value)
        return out

    def _only_load(self, body: Callable[[], Sequence[Value]]) -> tuple[Value, ...]:
        """Trace a body without stores, where loads need no seal."""
        known, self._known = self._known, {}
        frozen, self._frozen = self._frozen, True
        self._touched: set[str] = set()
        out = tuple(body())
        self._known, self._frozen = known, frozen
        return out

    def reading(self, body: Callable[[], Sequence[Value]]) -> tuple[Value, ...]:
        if self._frozen:
            return tuple(body())

        # The piece closes over the banks: those that it does not read do not go into its call.
        out: tuple[Value, ...] = sealed(lambda: self._only_load(body))()
        for bank in self._touched:
            for value in out:
                self._loaded(bank, value)
        return out

    def full(self, value: Any, dtype: Any) -> Value:
        return jnp.asarray(value, dtype=dtype)


class LockstepMemory(Memory):
    """L lanes side by side: banks are [L, cells], values [L], stores masked."""

    def __init__(self, banks: dict[str, Array], registers: set[tuple[str, int]], lanes: int):
        super().__init__(banks, registers)
        self.lanes = lanes
        self.mask = jnp.ones(lanes, dtype=bool)
        self._rows = jnp.arange(lanes, dtype=jnp.uint32)

    def _at(self, at: Addr) -> Array:
        return jnp.broadcast_to(_u32(at), (self.lanes,))

    def _load(self, bank: str, at: Addr) -> Value:
        if isinstance(at, int):
            return self.banks[bank][:, at]
        return self.banks[bank].at[self._rows, self._at(at)].get(mode="clip")

    def _store(self, bank: str, at: Addr, value: Value) -> None:
        if isinstance(at, int):
            self._store_column(bank, at, jnp.broadcast_to(value, (self.lanes,))[:, None])
            return
        where = jnp.where(self.mask, self._at(at), np.uint32(0xFFFFFFFF))
        cell = jnp.broadcast_to(value, (self.lanes,))
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
        if isinstance(at, int):
            self._store_column(bank, at, jnp.broadcast_to(value.astype(DTYPES[bank]), (self.lanes, n)))
            return
        cells = self._at(at)[:, None] + jnp.arange(n, dtype=jnp.uint32)
        cells = jnp.where(self.mask[:, None], cells, np.uint32(0xFFFFFFFF))
        value = jnp.broadcast_to(value.astype(DTYPES[bank]), (self.lanes, n))
        self.banks[bank] = self.banks[bank].at[self._rows[:, None], cells].set(value, mode="drop", unique_indices=True)

    def _masked(self, test: Value, body: Callable[[], Sequence[Value] | None]) -> tuple[Value, ...]:
        outer, saved = self.mask, self._enter()
        self.mask = outer & test
        out = tuple(jnp.broadcast_to(v, (self.lanes,)) for v in (body() or ()))
        self.mask = outer
        self._leave(saved)
        return out

    def when(self, test: Value, body: Callable[[], Sequence[Value] | None], default: Sequence[Value] = ()) -> Any:
        test = jnp.broadcast_to(test, (self.lanes,))
        out = self._masked(test, body)
        return tuple(jnp.where(test, a, b) for a, b in zip(out, default, strict=True))

    def loop(
        self, test: Callable[..., Value], body: Callable[..., Sequence[Value]], carry: Sequence[Value] = ()
    ) -> Any:
        outer = self.mask
        start = tuple(jnp.broadcast_to(v, (self.lanes,)) for v in carry)

        def going(banks: dict[str, Array], values: tuple[Value, ...]) -> Value:
            saved, self.banks = self.banks, dict(banks)
            known, self._known = self._known, {}
            go = outer & test(*values)
            self.banks, self._known = saved, known
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

"""The memory of a lane: a few flat arrays, addressed like RAM.

Everything a lane owns (registers, session slots, queues, heaps, statistics) lives at a fixed
address of one of a few *banks*: `f` (float64), `u` (uint32), for runs that keep their samples `x`
(float64), on the portable path `h` (uint32, the histograms), and the read-only `d` (float64, a
trace). On the native path `h` and `e` (float64, least and largest samples) are for the histograms that
lanes of one call add up. Code reads like sequential code: load, compute, store.

Two classes share one interface:

* `NativeMemory` (native.py): one lane, compiled by LLVM: banks are pointers, regions are branches.
* `LockstepMemory` (lockstep.py): L lanes side by side in JAX, every scalar a vector of L. A
  conditional region runs for all lanes with its stores masked, so no lane's loop waits on, or is
  disturbed by, another's.

`Layout` hands out the addresses before either exists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .ops import scaled

Addr = Any  # a Python int, or a uint32 value
Value = Any

DTYPES = {"f": np.float64, "u": np.uint32, "h": np.uint32, "x": np.float64, "d": np.float64, "e": np.float64}


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
        """Cells that are only ever addressed by their number: no other store can change them."""
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

    def slot(self, bank: str, slot: Addr, field: int = 0) -> Addr:
        """The address of a field of a slot's record."""
        return scaled(slot, self._stride[bank], self._slots[bank] + field)


class Memory:
    """The interface of both memories."""

    # -- cells
    def load(self, bank: str, at: Addr) -> Value:
        raise NotImplementedError

    def store(self, bank: str, at: Addr, value: Value) -> None:
        raise NotImplementedError

    def load_n(self, bank: str, at: Addr, n: int) -> Value:
        """`n` neighbouring cells as a vector."""
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
    ) -> Any:
        """Run one of two bodies; returns its values."""
        raise NotImplementedError

    def switch(self, index: Value, bodies: Mapping[int, Callable[[], None]]) -> None:
        """Run the body with this number, if there is one."""
        raise NotImplementedError

    def loop(
        self, test: Callable[..., Value], body: Callable[..., Sequence[Value]], carry: Sequence[Value] = ()
    ) -> Any:
        """`while test(*carry): carry = body(*carry)`; both may use the memory (`test` only loads)."""
        raise NotImplementedError

    # -- values
    def full(self, value: Any, dtype: Any) -> Value:
        """A constant as a value of this memory."""
        raise NotImplementedError

    def row(self, values: Sequence[int], dtype: Any) -> Value:
        """A vector of constants."""
        raise NotImplementedError

    def spread(self, value: Value, width: int) -> Value:
        """A value as a vector of copies."""
        raise NotImplementedError

    def opaque(self, value: Value) -> Value:
        """A double as it is, but hidden from a compiler's algebra, which could change its last bits."""
        raise NotImplementedError

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
        value = new(self.load(bank, at))
        self.store(bank, at, value)
        return value

"""Binary heaps of timed entries: (time, sequence number) order, each with a slot.

Their cost grows with the logarithm of what is in them, not with their capacity. One object is a
family of `members` heaps, `i` the member. Layout of a member: cells 2k, 2k+1 of the `f` bank hold
time and sequence number of entry k (1-based; cell pair 0 is a scratch), cell k of the `u` bank its
slot. An empty heap shows time +inf at its root.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .memory import Layout, Memory
from .ops import greater, lesser, where
from .ring import member

ONE = np.uint32(1)
INF = np.inf


class Heap:
    def __init__(self, layout: Layout, name: str, capacity: int, members: int = 1):
        self.capacity, self.members = capacity, members
        self._stride = capacity + 2
        self._keys = layout.f(f"{name}.keys", 2 * self._stride * members)
        self._slots = layout.u(f"{name}.slots", self._stride * members)
        self._count = layout.u(f"{name}.count", members)

    def _key(self, k: Any, i: Any) -> Any:
        """The address of an entry's time; its sequence number is the next cell."""
        return member(self._keys, i, 2 * self._stride) + (2 * k if isinstance(k, int) else k * np.uint32(2))

    def _slot(self, k: Any, i: Any) -> Any:
        return member(self._slots, i, self._stride) + k

    def clear(self, m: Memory) -> None:
        if self.members == 1:
            m.setf(self._key(1, 0), INF)
            return

        def empty(i: Any) -> tuple[Any]:
            m.setf(self._key(1, i), INF)
            return (i + ONE,)

        m.loop(lambda i: i < np.uint32(self.members), empty, (m.full(0, np.uint32),))

    def count(self, m: Memory, i: Any = 0) -> Any:
        return m.u(member(self._count, i))

    def full(self, m: Memory, i: Any = 0) -> Any:
        return self.count(m, i) >= np.uint32(self.capacity)

    # -- the least entry
    def time(self, m: Memory, i: Any = 0) -> Any:
        """Its time, +inf when there is none."""
        return m.f(self._key(1, i))

    def seq(self, m: Memory, i: Any = 0) -> Any:
        return m.f(self._key(1, i) + 1)

    def first(self, m: Memory, i: Any = 0) -> Any:
        """Its slot."""
        return m.u(self._slot(1, i))

    # -- all entries
    def total(self, m: Memory, value: Callable[[Any], Any], i: Any = 0) -> Any:
        """The sum of `value(time)` over all entries, in the order in which they lie (-0.0: none)."""
        count = self.count(m, i)

        def add(k: Any, total: Any) -> tuple[Any, ...]:
            return k + ONE, total + value(m.f(self._key(k, i)))

        start = (m.full(1, np.uint32), m.full(-0.0, np.float64))
        return m.loop(lambda k, _total: k <= count, add, start)[1]

    # -- changes
    def push(self, m: Memory, time: Any, seq: Any, slot: Any, i: Any = 0) -> None:
        """Insert; the caller has checked `full`."""
        self._lift(m, m.addu(member(self._count, i), 1), (time, seq, slot), i)

    def pop(self, m: Memory, i: Any = 0) -> Any:
        """Remove the least entry; returns its slot. The heap must not be empty."""
        slot = self.first(m, i)
        last = self.count(m, i)
        entry = self._entry(m, last, i)
        m.setu(member(self._count, i), last - ONE)
        self._drop(m, m.full(1, np.uint32), entry, last - ONE, i)
        return slot

    def remove(self, m: Memory, slot: Any, i: Any = 0) -> None:
        """Take out the entry of a slot, wherever it is (it must be there)."""
        (k,) = m.loop(lambda k: m.u(self._slot(k, i)) != slot, lambda k: (k + ONE,), (m.full(1, np.uint32),))
        last = self.count(m, i)
        entry = time, seq, _ = self._entry(m, last, i)
        m.setu(member(self._count, i), last - ONE)
        up = greater(k >> ONE, ONE)
        rises = (k > ONE) & (k != last) & _before(time, seq, m.f(self._key(up, i)), m.f(self._key(up, i) + ONE))
        m.either(rises, lambda: self._lift(m, k, entry, i), lambda: self._drop(m, k, entry, last - ONE, i))

    # -- the order
    def _entry(self, m: Memory, k: Any, i: Any) -> tuple[Any, Any, Any]:
        at = self._key(k, i)
        return m.f(at), m.f(at + ONE), m.u(self._slot(k, i))

    def _place(self, m: Memory, k: Any, entry: tuple[Any, Any, Any], i: Any) -> None:
        at = self._key(k, i)
        m.setf(at, entry[0])
        m.setf(at + ONE, entry[1])
        m.setu(self._slot(k, i), entry[2])

    def _lift(self, m: Memory, k: Any, entry: tuple[Any, Any, Any], i: Any) -> None:
        """Put an entry at place k or above it."""
        time, seq, _ = entry

        def parent(k: Any) -> tuple[Any, ...]:
            up = greater(k >> ONE, ONE)
            return up, m.f(self._key(up, i)), m.f(self._key(up, i) + ONE)

        def above(k: Any, _up: Any, t: Any, q: Any) -> Any:
            return (k > ONE) & _before(time, seq, t, q)

        def lift(k: Any, up: Any, t: Any, q: Any) -> tuple[Any, ...]:
            self._place(m, k, (t, q, m.u(self._slot(up, i))), i)
            return up, *parent(up)

        k, *_ = m.loop(above, lift, (k, *parent(k)))
        self._place(m, k, entry, i)

    def _drop(self, m: Memory, k: Any, entry: tuple[Any, Any, Any], n: Any, i: Any) -> None:
        """Put an entry at place k or below it, of n that there are then."""
        time, seq, slot = entry

        def child(k: Any) -> tuple[Any, ...]:
            """The lesser child of k, with its key; key +inf when there is none."""
            left = k << ONE
            at = self._key(lesser(left, np.uint32(self.capacity)), i)
            tl, ql, tr, qr = m.f(at), m.f(at + ONE), m.f(at + np.uint32(2)), m.f(at + np.uint32(3))
            right = (left + ONE <= n) & _before(tr, qr, tl, ql)
            t = where(left <= n, where(right, tr, tl), INF)
            return where(right, left + ONE, left), t, where(right, qr, ql)

        def below(_k: Any, _down: Any, t: Any, q: Any) -> Any:
            return _before(t, q, time, seq) & (t < INF)

        def drop(k: Any, down: Any, t: Any, q: Any) -> tuple[Any, ...]:
            self._place(m, k, (t, q, m.u(self._slot(down, i))), i)
            return down, *child(down)

        k, *_ = m.loop(below, drop, (k, *child(k)))
        # A heap that is empty now shows +inf at its root.
        self._place(m, k, (where(n == 0, INF, time), seq, slot), i)


def _before(time: Any, seq: Any, other_time: Any, other_seq: Any) -> Any:
    return (time < other_time) | ((time == other_time) & (seq < other_seq))

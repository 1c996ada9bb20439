"""A binary heap of timed entries: (time, sequence number) order, each with a slot.

Its cost grows with the logarithm of what is in it, not with its capacity. Layout: cells 2k, 2k+1
of the `f` bank hold time and sequence number of entry k (1-based; cell pair 0 is a scratch), cell k
of the `u` bank its slot. An empty heap shows time +inf at its root.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .memory import Layout, Memory
from .ops import greater, lesser, where

ONE = np.uint32(1)
INF = np.inf


class Heap:
    def __init__(self, layout: Layout, name: str, capacity: int):
        self.capacity = capacity
        self._keys = layout.f(f"{name}.keys", 2 * (capacity + 2))
        self._slots = layout.u(f"{name}.slots", capacity + 2)
        self._count = layout.u(f"{name}.count")
        self.root = self._key(1)
        self.root_slot = self._slots + 1

    def _key(self, k: Any) -> Any:
        return self._keys + (2 * k if isinstance(k, int) else k * np.uint32(2))

    def clear(self, m: Memory) -> None:
        m.setf(self._key(1), INF)

    def count(self, m: Memory) -> Any:
        return m.u(self._count)

    def full(self, m: Memory) -> Any:
        return m.u(self._count) >= self.capacity

    def push(self, m: Memory, time: Any, seq: Any, slot: Any) -> None:
        """Insert; the caller has checked `full`."""
        k = m.addu(self._count, 1)

        def above(k: Any, _up: Any, t: Any, q: Any) -> Any:
            return (k > 1) & ((time < t) | ((time == t) & (seq < q)))

        def parent(k: Any) -> tuple[Any, ...]:
            up = greater(k >> ONE, ONE)
            return up, *m.reading(lambda: (m.f(self._key(up)), m.f(self._key(up) + ONE)))

        def lift(k: Any, up: Any, t: Any, q: Any) -> tuple[Any, ...]:
            m.setf(self._key(k), t)
            m.setf(self._key(k) + ONE, q)
            m.setu(self._slots + k, m.u(self._slots + up))
            return up, *parent(up)

        k, *_ = m.loop(above, lift, (k, *parent(k)))
        m.setf(self._key(k), time)
        m.setf(self._key(k) + ONE, seq)
        m.setu(self._slots + k, slot)

    def pop(self, m: Memory) -> Any:
        """Remove the least entry; returns its slot. The heap must not be empty."""
        slot = m.u(self.root_slot)
        last = m.u(self._count)
        n = last - ONE
        t0, q0, s0 = m.reading(lambda: (m.f(self._key(last)), m.f(self._key(last) + ONE), m.u(self._slots + last)))

        def child(k: Any) -> tuple[Any, ...]:
            """The lesser child of k, with its key; key +inf when there is none."""
            return m.reading(lambda: lesser_child(k))

        def lesser_child(k: Any) -> tuple[Any, Any, Any]:
            left = k << ONE
            safe = lesser(left, np.uint32(self.capacity))
            tl, ql = m.f(self._key(safe)), m.f(self._key(safe) + ONE)
            tr, qr = m.f(self._key(safe) + np.uint32(2)), m.f(self._key(safe) + np.uint32(3))
            right = (left + ONE <= n) & ((tr < tl) | ((tr == tl) & (qr < ql)))
            t = where(left <= n, where(right, tr, tl), INF)
            return where(right, left + ONE, left), t, where(right, qr, ql)

        def below(_k: Any, _down: Any, t: Any, q: Any) -> Any:
            return (t < t0) | ((t == t0) & (q < q0) & (t < INF))

        def drop(k: Any, down: Any, t: Any, q: Any) -> tuple[Any, ...]:
            m.setf(self._key(k), t)
            m.setf(self._key(k) + ONE, q)
            m.setu(self._slots + k, m.u(self._slots + down))
            return down, *child(down)

        k, *_ = m.loop(below, drop, (m.full(1, np.uint32), *child(m.full(1, np.uint32))))
        m.setf(self._key(k), where(n == 0, INF, t0))
        m.setf(self._key(k) + ONE, q0)
        m.setu(self._slots + k, s0)
        m.setu(self._count, n)
        return slot

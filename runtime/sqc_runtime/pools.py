"""A memory pool: units allocated to holds, a prefix cache in release order, a queue.

Cache entries have numbers of their own (1-based; 0 is both "no entry" and the sentinel of the
list), because a prefix may outlive its session. They form a doubly linked list in the order of
their releases, so the least recently used one is the head and no operation scans.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .core import ONE, OVERFLOW_ENTRIES, Core
from .memory import Memory
from .ops import where

TOLERANCE = 1e-9
ZERO = np.uint32(0)


class Pool:
    """`caches`: whether any hold of the pool has a cache clause (else no entry ever exists)."""

    def __init__(self, core: Core, name: str, entries: int, caches: bool):
        self.core = core
        self.name = name
        self.caches = caches
        self.entries = entries
        layout = core.layout
        f, u = layout.f, layout.u
        self.cap = f(f"{name}.cap")
        self._ring = 1 << (core.slots + 1).bit_length()
        self._queue, self._head, self._tail = u(f"{name}.queue", self._ring), u(f"{name}.head"), u(f"{name}.tail")
        self._wait, self._waits = f(f"{name}.wait"), f(f"{name}.waits")
        self._admissions, self.rejected = f(f"{name}.admissions"), f(f"{name}.rejected")
        self._evicted, self._evicted_units = f(f"{name}.evicted"), f(f"{name}.evicted_units")
        self.joined = layout.shared_field("f", "hold.joined")
        self.units = layout.shared_field("f", "hold.units")
        if caches:
            self.entry = layout.field("u", f"{name}.entry")
            self._size = f(f"{name}.size", entries + 1)
            self._next, self._prev = u(f"{name}.next", entries + 1), u(f"{name}.prev", entries + 1)
            self._owner = u(f"{name}.owner", entries + 1)
            self._free, self._free_top = u(f"{name}.free", entries + 1), u(f"{name}.free_top")
            self._fresh = u(f"{name}.fresh")

    @staticmethod
    def signal_names(name: str) -> list[str]:
        return [f"{name}.used", f"{name}.cached", f"{name}.queue", f"{name}.holders"]

    def signal(self, kind: str) -> int:
        return self.core.signals.at(f"{self.name}.{kind}")

    # -- the queue
    def join(self, m: Memory, slot: Any, units: Any) -> None:
        """The session waits for `units`; it is admitted when the queue is served."""
        tail = m.u(self._tail)
        m.setu(self._queue + (tail & np.uint32(self._ring - 1)), slot)
        m.setu(self._tail, tail + ONE)
        m.setf(self.core.sf(slot, self.joined), m.f(self.core.now))
        m.setf(self.core.sf(slot, self.units), units)
        m.addf(self.signal("queue"), 1.0)

    def waiting(self, m: Memory) -> Any:
        return m.u(self._head) != m.u(self._tail)

    def serve(self, m: Memory, units_of: Callable[[Any], Any], admit: Callable[[Any], None]) -> None:
        """Admit from the head while it fits (head-of-line blocking).

        `units_of(slot)` is the head's demand now; `admit(slot)` does what belongs to the hold.
        """

        def head_fits() -> Any:
            slot = m.u(self._queue + (m.u(self._head) & np.uint32(self._ring - 1)))
            fits = m.f(self.signal("used")) + units_of(slot) <= m.f(self.cap) + TOLERANCE
            return self.waiting(m) & fits

        def admit_head() -> tuple[Any, ...]:
            core = self.core

            def first() -> tuple[Any, ...]:
                head = m.u(self._head)
                slot = m.u(self._queue + (head & np.uint32(self._ring - 1)))
                warm = m.f(core.warm)
                return slot, head + ONE, warm, warm * (m.f(core.now) - m.f(core.sf(slot, self.joined)))

            slot, head, warm, waited = m.reading(first)
            m.setu(self._head, head)
            m.addf(self.signal("queue"), -1.0)
            m.addf(self._admissions, 1.0)
            m.addf(self._waits, warm)
            m.addf(self._wait, waited)
            admit(slot)
            return ()

        m.loop(head_fits, admit_head)

    # -- allocation
    def take(self, m: Memory, units: Any) -> None:
        """Make room by evicting, then allocate. The caller has tested that the units fit."""
        if self.caches:
            limit = m.f(self.cap) + TOLERANCE

            def crowded() -> Any:
                full = m.f(self.signal("used")) + m.f(self.signal("cached")) + units > limit
                return full & (m.u(self._next) != 0)

            def evict() -> tuple[Any, ...]:
                victim = m.u(self._next)
                owner = m.u(self._owner + victim)
                m.setu(self.core.su(owner, self.entry), ZERO)
                size = self._unlink(m, victim)
                m.addf(self._evicted, 1.0)
                m.addf(self._evicted_units, size)
                return ()

            m.loop(crowded, evict)
        m.addf(self.signal("used"), units)

    def give_back(self, m: Memory, units: Any) -> None:
        """Free allocated units; an empty pool is exactly empty."""
        left = m.f(self.signal("used")) - units
        m.setf(self.signal("used"), left)

    # -- the cache
    def own(self, m: Memory, slot: Any) -> Any:
        """Size of the session's own entry (0 without one)."""
        if not self.caches:
            return m.full(0.0, np.float64)
        return m.f(self._size + m.u(self.core.su(slot, self.entry)))

    def consume(self, m: Memory, slot: Any) -> Any:
        """Take the session's own entry out of the cache; returns its size (0 without one)."""
        if not self.caches:
            return m.full(0.0, np.float64)
        at = self.core.su(slot, self.entry)
        entry = m.u(at)

        def take_out() -> tuple[Any]:
            m.setu(at, ZERO)
            return (self._unlink(m, entry),)

        (size,) = m.when(entry != 0, take_out, (m.full(0.0, np.float64),))
        return size

    def keep(self, m: Memory, slot: Any, size: Any) -> None:
        """Store `size` units as the session's own entry, newest in the order (size <= 0: nothing)."""

        def insert() -> None:
            self.consume(m, slot)

            def number() -> tuple[Any, ...]:
                top, fresh = m.u(self._free_top), m.u(self._fresh)
                reuse = top > 0
                entry = where(reuse, m.u(self._free + top), fresh + ONE)
                over = ~reuse & (fresh >= self.entries)
                return entry, m.u(self._prev), over, top - reuse.astype(np.uint32), fresh + (~reuse).astype(np.uint32)

            entry, last, over, top, fresh = m.reading(number)
            self.core.stop(m, over, OVERFLOW_ENTRIES)

            def link() -> None:
                m.setu(self._free_top, top)
                m.setu(self._fresh, fresh)
                m.setu(self._next + last, entry)
                m.setu(self._prev + entry, last)
                m.setu(self._next + entry, ZERO)
                m.setu(self._prev, entry)
                m.setf(self._size + entry, size)
                m.setu(self._owner + entry, slot)
                m.setu(self.core.su(slot, self.entry), entry)
                m.addf(self.signal("cached"), size)

            m.when(~over, link)

        m.when(size > 0, insert)

    def disown(self, m: Memory, slot: Any) -> None:
        """The session ends: its entry stays in the cache, without an owner."""
        if self.caches:
            at = self.core.su(slot, self.entry)
            entry = m.u(at)
            m.setu(at, ZERO)
            m.when(entry != 0, lambda: m.setu(self._owner + entry, ZERO))

    def _unlink(self, m: Memory, entry: Any) -> Any:
        """Remove an entry from the list and free its number; returns its size."""
        size, before, after = m.reading(
            lambda: (m.f(self._size + entry), m.u(self._prev + entry), m.u(self._next + entry))
        )
        m.setu(self._next + before, after)
        m.setu(self._prev + after, before)
        top = m.addu(self._free_top, 1)
        m.setu(self._free + top, entry)
        m.addf(self.signal("cached"), -size)
        return size

    def metrics(self, m: Memory, span: Any) -> dict[str, Any]:
        """The pool's row; `span` is the length of the measured time."""
        signals, zero = self.core.signals, m.full(0.0, np.float64)
        rows = {
            f"mean_{kind}": signals.area(m, f"{self.name}.{kind}") / span
            for kind in ("used", "cached", "queue", "holders")
        }
        return rows | {
            "mean_wait": m.f(self._wait) / m.f(self._waits),
            "admissions": m.f(self._admissions),
            "evicted_entries": m.f(self._evicted),
            "evicted_units": m.f(self._evicted_units),
            "preemptions": zero,
            "spills": zero,
            "rejected": m.f(self.rejected),
            "stuck": zero,
        }

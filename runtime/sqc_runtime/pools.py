"""A memory pool, or an array of them: units allocated to holds, a queue, growers, a prefix cache.

The pool's own file knows amounts and orders; which session asks for what, and the keys of its
policies, are the compiler's. `i` is the member of an array (0 for a single pool).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .cache import Cache
from .chain import Chain
from .core import Core
from .entries import Entries
from .memory import Memory
from .ops import as_u32, ceil, floor, lesser, where
from .order import precedes
from .prefixes import Prefixes
from .ring import ONE, Ring, member

TOLERANCE = 1e-9
SIGNALS = ("used", "cached", "queue", "holders")


@dataclass(frozen=True)
class Traits:
    """What a program uses of a pool; what it does not use costs nothing."""

    members: int = 1
    blocks: bool = False
    keyed: bool = False
    """The queue is served by keys."""
    grows: bool = False
    promises: bool = False
    """What holds have reserved and not allocated counts (`reserve held`)."""
    removes: bool = False
    """Sessions can leave the queue from its middle, or come back to its head."""


class Pool:
    def __init__(self, core: Core, name: str, traits: Traits, cache: Cache | Prefixes | Chain | None):
        self.core, self.name, self.traits, self.cache = core, name, traits, cache
        members, layout = traits.members, core.layout
        self.members = members

        def register(kind: str) -> int:
            return layout.f(f"{name}.{kind}", members)

        self._cap = register("cap")
        self._block = register("block") if traits.blocks else None
        self._promised = register("promised") if traits.promises else None
        self._counters = {
            kind: register(kind)
            for kind in (
                *("wait", "waits", "admissions", "rejected", "evicted_entries", "evicted_units"),
                *("preemptions", "spills", "stuck"),
            )
        }
        self.joined = layout.shared_field("f", "hold.joined")
        if traits.keyed:
            self._size = core.slots + 1
            self._list, self._count = layout.u(f"{name}.list", self._size * members), layout.u(f"{name}.count", members)
            self._orders, self._order = layout.f(f"{name}.orders"), layout.shared_field("f", "queue.order")
        else:
            self._ring = Ring(layout, name, core.slots, members)
        self.growers = Ring(layout, f"{name}.growers", core.slots, members) if traits.grows else None
        self.over_queue, self.over_need = register("over_cap_queue"), register("over_cap_need")

    @staticmethod
    def signal_names(name: str) -> list[str]:
        return [f"{name}.{kind}" for kind in SIGNALS]

    def signal(self, kind: str, i: Any = 0) -> Any:
        return self.core.signals.at(f"{self.name}.{kind}", i)

    def cap(self, i: Any) -> Any:
        """The address of the capacity."""
        return member(self._cap, i)

    def counter(self, kind: str, i: Any) -> Any:
        return member(self._counters[kind], i)

    def clear(self, m: Memory, cap: Any, block: Any) -> None:
        """Set the registers that do not start at zero."""
        for i in range(self.members):
            m.setf(self.cap(i), cap)
            m.setf(member(self.over_queue, i), np.nan)
            m.setf(member(self.over_need, i), np.nan)
            if self._block is not None:
                m.setf(member(self._block, i), block)
        if self.cache is not None:
            self.cache.clear(m)

    # -- amounts
    def up(self, m: Memory, units: Any, i: Any) -> Any:
        """Rounded up to whole blocks."""
        if self._block is None:
            return units
        block = m.f(member(self._block, i))
        return m.opaque(ceil(m.opaque(units / block)) * block)

    def down(self, m: Memory, units: Any, i: Any) -> Any:
        if self._block is None:
            return units
        block = m.f(member(self._block, i))
        return m.opaque(floor(m.opaque(units / block)) * block)

    def promised(self, m: Memory, i: Any) -> Any:
        """Units that holds have reserved and not allocated."""
        return m.full(0.0, np.float64) if self._promised is None else m.f(member(self._promised, i))

    def promise(self, m: Memory, change: Any, i: Any) -> None:
        if self._promised is not None:
            m.addf(member(self._promised, i), change)

    def fits(self, m: Memory, units: Any, i: Any) -> Any:
        """Whether so many more units can be allocated; cached ones are no obstacle."""
        taken = m.f(self.signal("used", i))
        if self._promised is not None:
            taken = taken + self.promised(m, i)
        return taken + units <= m.f(self.cap(i)) + TOLERANCE

    def lacks_room(self, m: Memory, units: Any, i: Any) -> Any:
        """Whether an entry must be evicted before so many more units are allocated."""
        assert isinstance(self.cache, Entries)
        full = m.f(self.signal("used", i)) + m.f(self.signal("cached", i)) + units > m.f(self.cap(i)) + TOLERANCE
        return full & self.cache.is_entry(self.cache.first(m, i))

    def evicted(self, m: Memory, units: Any, vanished: Any, i: Any) -> None:
        m.addf(self.counter("evicted_units", i), units)
        m.addf(self.counter("evicted_entries", i), where(vanished, 1.0, 0.0))

    def tail_block(self, m: Memory, i: Any) -> Any:
        """How much one eviction takes at most (None: the whole entry)."""
        return None if self._block is None else m.f(member(self._block, i))

    # -- the queue
    def join(self, m: Memory, slot: Any, i: Any) -> None:
        """The session waits; it is admitted when the queue is served."""
        self._enter(m, slot, i)
        if self.traits.keyed:
            order = m.addf(self._orders, 1.0)
            self._append(m, slot, order, i)
        else:
            self._ring.push(m, slot, i)

    def join_first(self, m: Memory, slot: Any, i: Any) -> None:
        """The session waits ahead of all others, keys or not."""
        self._enter(m, slot, i)
        if self.traits.keyed:
            order = m.addf(self._orders, 1.0)
            self._append(m, slot, -order, i)
        else:
            self._ring.push_front(m, slot, i)

    def _enter(self, m: Memory, slot: Any, i: Any) -> None:
        m.setf(self.core.sf(slot, self.joined), m.f(self.core.now))
        m.addf(self.signal("queue", i), 1.0)

    def _cell(self, k: Any, i: Any) -> Any:
        first = member(self._list, i, self._size)
        return k + as_u32(first)

    def _append(self, m: Memory, slot: Any, order: Any, i: Any) -> None:
        count = m.u(member(self._count, i))
        m.setu(self._cell(count, i), slot)
        m.setu(member(self._count, i), count + ONE)
        m.setf(self.core.sf(slot, self._order), order)

    def queue_length(self, m: Memory, i: Any) -> Any:
        """How many wait, by the queue itself."""
        if self.traits.keyed:
            return m.u(member(self._count, i)).astype(np.float64)
        return (m.u(self._ring.tail(i)) - m.u(self._ring.head(i))).astype(np.float64)

    def waiting(self, m: Memory, i: Any) -> Any:
        return m.u(member(self._count, i)) != 0 if self.traits.keyed else self._ring.any(m, i)

    def first(self, m: Memory, i: Any, keys: Callable[[Any], Sequence[Any]]) -> Any:
        """The session whose turn it is (of a queue that is not empty): the head, or the one with the
        least keys, the one that joined first among equals; those put back to the head come before."""
        if not self.traits.keyed:
            return self._ring.first(m, i)

        def rank(k: Any) -> tuple[Any, ...]:
            slot = m.u(self._cell(k, i))
            order = m.f(self.core.sf(slot, self._order))
            return slot, lesser(order, 0.0), *keys(slot), order

        def compare(k: Any, best_slot: Any, *best: Any) -> tuple[Any, ...]:
            slot, *found = rank(k)
            before = precedes(m, found, best)
            return (
                k + ONE,
                where(before, slot, best_slot),
                *(where(before, a, b) for a, b in zip(found, best, strict=True)),
            )

        count = m.u(member(self._count, i))
        _, slot, *_ = m.loop(lambda k, *_: k < count, compare, (m.full(1, np.uint32), *rank(m.full(0, np.uint32))))
        return slot

    def leave_queue(self, m: Memory, slot: Any, i: Any) -> None:
        """Take a session out of the queue: the first, or (of pools with `removes`) any."""
        if self.traits.keyed:
            last = m.u(member(self._count, i)) - ONE
            (k,) = m.loop(lambda k: m.u(self._cell(k, i)) != slot, lambda k: (k + ONE,), (m.full(0, np.uint32),))
            m.setu(self._cell(k, i), m.u(self._cell(last, i)))
            m.setu(member(self._count, i), last)
        elif self.traits.removes:
            self._ring.remove(m, slot, i)
        else:
            self._ring.pop(m, i)
        m.addf(self.signal("queue", i), -1.0)

    def waited(self, m: Memory, slot: Any) -> Any:
        """Time since the session joined the queue."""
        return m.f(self.core.now) - m.f(self.core.sf(slot, self.joined))

    def admitted(self, m: Memory, slot: Any, i: Any) -> None:
        """The first pool of a hold: its wait counts here."""
        warm = m.f(self.core.warm)
        m.addf(self.counter("waits", i), warm)
        m.addf(self.counter("wait", i), warm * self.waited(m, slot))

    # -- the report
    def metrics(self, m: Memory, span: Any, i: int) -> dict[str, Any]:
        """A member's row; `span` is the length of the measured time."""
        signals = self.core.signals
        rows = {f"mean_{kind}": signals.area(m, f"{self.name}.{kind}", i) / span for kind in SIGNALS}
        growing = m.full(0.0, np.float64)
        if self.growers is not None:
            growing = (m.u(self.growers.tail(i)) - m.u(self.growers.head(i))).astype(np.float64)
        stalled = (growing > 0) & (growing >= m.f(self.signal("holders", i)))
        return rows | {
            "mean_wait": m.f(self.counter("wait", i)) / m.f(self.counter("waits", i)),
            "admissions": m.f(self.counter("admissions", i)),
            "evicted_entries": m.f(self.counter("evicted_entries", i)),
            "evicted_units": m.f(self.counter("evicted_units", i)),
            "preemptions": m.f(self.counter("preemptions", i)),
            "spills": m.f(self.counter("spills", i)),
            "rejected": m.f(self.counter("rejected", i)),
            "stuck": m.f(self.counter("stuck", i)),
            "over_cap_queue": m.f(member(self.over_queue, i)),
            "over_cap_need": m.f(member(self.over_need, i)),
            "growing_at_end": growing,
            "growing_stalled": where(stalled, 1.0, 0.0),
        }

"""The prefix cache of a pool: entries in the order of their releases.

Entries have numbers of their own, because a prefix may outlive its session. Those of one pool form
a doubly linked list, oldest release first, around a sentinel: nodes 0 .. members-1 are the sentinels
of the members of an array, entries are numbered behind them, so 0 means "no entry" in a slot. Without
eviction keys the victim is the head of the list and no operation scans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .core import OVERFLOW_ENTRIES, Core
from .memory import Memory
from .ops import as_u32, lesser, where

ZERO = np.uint32(0)
Keys = Callable[[Any], Sequence[Any]]


class Cache:
    """`snapshot`: slot fields that each entry keeps a copy of. `stamped`: entries know when they were
    released. `named`: entries know the serial of their session, also when that has ended (what is dead has a
    name of its own, below 0)."""

    def __init__(
        self,
        core: Core,
        name: str,
        members: int,
        entries: int,
        snapshot: Sequence[int] = (),
        stamped: bool = False,
        named: bool = False,
    ):
        self.core, self.name, self.members, self.entries = core, name, members, entries
        layout = core.layout
        nodes = members + entries
        self.entry = layout.field("u", f"{name}.entry", members)
        self.size = layout.f(f"{name}.size", nodes + 1)
        self._next, self._prev = layout.u(f"{name}.next", nodes + 1), layout.u(f"{name}.prev", nodes + 1)
        self.owner = layout.u(f"{name}.owner", nodes + 1)
        self._free, self._free_top = layout.u(f"{name}.free", entries + 2), layout.u(f"{name}.free_top")
        self._fresh = layout.u(f"{name}.fresh")
        self.released = layout.f(f"{name}.released", nodes + 1) if stamped else None
        self.serial = layout.f(f"{name}.serial", nodes + 1) if named else None
        self.snapshot = {field: layout.f(f"{name}.snapshot{field}", nodes + 1) for field in snapshot}

    def clear(self, m: Memory) -> None:
        """Empty lists: each sentinel is its own neighbour."""
        for i in range(1, self.members):
            m.setu(np.uint32(self._next + i), np.uint32(i))
            m.setu(np.uint32(self._prev + i), np.uint32(i))

    def _cached(self, i: Any) -> Any:
        return self.core.signals.at(f"{self.name}.cached", i)

    def at(self, slot: Any, i: Any) -> Any:
        """The address of the number of a session's own entry."""
        return self.core.su(slot, self.entry) + as_u32(i)

    def own(self, m: Memory, slot: Any, i: Any) -> Any:
        """Size of the session's own entry (0 without one)."""
        return m.f(self.size + m.u(self.at(slot, i)))

    def first(self, m: Memory, i: Any) -> Any:
        """The entry released longest ago (the sentinel's number when there is none)."""
        return m.u(self._next + as_u32(i))

    def is_entry(self, node: Any) -> Any:
        return node >= np.uint32(self.members)

    # -- taking out
    def consume(self, m: Memory, slot: Any, i: Any, most: Any = None) -> Any:
        """Take the session's own entry out, or `most` of it; returns the size taken (0 without one).

        What is left behind is dead: without an owner, in its old place, with the attributes of now.
        """
        at = self.at(slot, i)
        entry = m.u(at)

        def take() -> tuple[Any]:
            m.setu(at, ZERO)
            if most is None:
                return (self._unlink(m, entry, i),)
            size = m.f(self.size + entry)
            taken = lesser(size, most)

            def split() -> tuple[Any]:
                m.setf(self.size + entry, size - taken)
                m.addf(self._cached(i), -taken)
                m.setu(self.owner + entry, ZERO)
                for field, copy in self.snapshot.items():
                    m.setf(copy + entry, m.f(self.core.sf(slot, field)))
                if self.serial is not None:
                    m.setf(self.serial + entry, -1.0 - self.core.next_seq(m))
                return (taken,)

            (out,) = m.either(taken < size, split, lambda: (self._unlink(m, entry, i),))
            return (out,)

        (size,) = m.when(entry != 0, take, (m.full(0.0, np.float64),))
        return size

    def disown(self, m: Memory, slot: Any) -> None:
        """The session ends: its entries stay, without an owner."""
        for i in range(self.members):
            at = self.at(slot, i)
            entry = m.u(at)

            def leave(at: Any = at, entry: Any = entry) -> None:
                m.setu(at, ZERO)
                m.setu(self.owner + entry, ZERO)

            m.when(entry != 0, leave)

    def _unlink(self, m: Memory, entry: Any, i: Any) -> Any:
        """Remove an entry from its list and free its number; returns its size."""
        size, before, after = m.f(self.size + entry), m.u(self._prev + entry), m.u(self._next + entry)
        m.setu(self._next + before, after)
        m.setu(self._prev + after, before)
        top = m.addu(self._free_top, 1)
        m.setu(self._free + top, entry)
        m.addf(self._cached(i), -size)
        return size

    # -- putting in
    def keep(self, m: Memory, slot: Any, size: Any, i: Any) -> None:
        """Store `size` units as the session's own entry, released now (size <= 0: nothing).

        An older own entry is replaced.
        """

        def insert() -> None:
            self.consume(m, slot, i)
            attributes = {field: m.f(self.core.sf(slot, field)) for field in self.snapshot}
            self._insert(m, slot, m.f(self.core.sf(slot, self.core.serial)), size, i, attributes)

        m.when(size > 0, insert)

    def attributes_of(self, m: Memory, entry: Any) -> dict[int, Any]:
        """What an entry remembers of its session."""
        return {field: m.f(copy + entry) for field, copy in self.snapshot.items()}

    def keep_for(self, m: Memory, owner: Any, serial: Any, attributes: Mapping[int, Any], size: Any, i: Any) -> None:
        """Add `size` units to what a session has here, also one that has ended, released now.

        An entry that is new remembers these attributes. `owner`: its slot, 0 if it is forgotten. The parts of one
        dead entry come together.
        """
        assert self.serial is not None
        names = self.serial

        def elsewhere(node: Any) -> Any:
            return self.is_entry(node) & (m.f(names + node) != serial)

        (node,) = m.loop(elsewhere, lambda node: (m.u(self._next + node),), (self.first(m, i),))
        found = self.is_entry(node)
        known = {field: where(found, old, attributes[field]) for field, old in self.attributes_of(m, node).items()}
        (there,) = m.when(found, lambda: (self._unlink(m, node, i),), (m.full(0.0, np.float64),))
        self._insert(m, owner, serial, there + size, i, known)

    def _insert(self, m: Memory, owner: Any, serial: Any, size: Any, i: Any, attributes: Mapping[int, Any]) -> None:
        """A new entry at the end of the list."""
        top, fresh = m.u(self._free_top), m.u(self._fresh)
        reuse = top > 0
        entry = where(reuse, m.u(self._free + top), fresh + np.uint32(self.members))
        over = ~reuse & (fresh >= np.uint32(self.entries))
        self.core.stop(m, over, OVERFLOW_ENTRIES)

        def link() -> None:
            m.setu(self._free_top, top - reuse.astype(np.uint32))
            m.setu(self._fresh, fresh + (~reuse).astype(np.uint32))
            sentinel = as_u32(i)
            last = m.u(self._prev + sentinel)
            m.setu(self._next + last, entry)
            m.setu(self._prev + entry, last)
            m.setu(self._next + entry, sentinel)
            m.setu(self._prev + sentinel, entry)
            m.setf(self.size + entry, size)
            m.setu(self.owner + entry, owner)
            m.setu(self.at(owner, i), entry)
            if self.released is not None:
                m.setf(self.released + entry, m.f(self.core.now))
            if self.serial is not None:
                m.setf(self.serial + entry, serial)
            for field, copy in self.snapshot.items():
                m.setf(copy + entry, attributes[field])
            m.addf(self._cached(i), size)

        m.when(~over, link)

    def walk(self, m: Memory, i: Any) -> tuple[Any, Any]:
        """The sum of all sizes, and whether each entry and its owner know each other (of use in checks only)."""

        def step(node: Any, total: Any, linked: Any) -> tuple[Any, ...]:
            owner = m.u(self.owner + node)
            known = (owner == 0) | (m.u(self.at(owner, i)) == node)
            return m.u(self._next + node), total + m.f(self.size + node), linked & known

        start = (self.first(m, i), m.full(0.0, np.float64), m.full(True, np.bool_))
        _, total, linked = m.loop(lambda node, *_: self.is_entry(node), step, start)
        return total, linked

    # -- eviction
    def least(self, m: Memory, i: Any, keys: Keys) -> Any:
        """The entry with the lexicographically least keys, the one released first among equals."""
        first = self.first(m, i)

        def smaller(node: Any, _best: Any, *best: Any) -> tuple[Any, ...]:
            found = keys(node)
            before = precedes(m, found, best)
            return (
                m.u(self._next + node),
                where(before, node, _best),
                *(where(before, a, b) for a, b in zip(found, best, strict=True)),
            )

        _, victim, *_ = m.loop(
            lambda node, *_: self.is_entry(node), smaller, (m.u(self._next + first), first, *keys(first))
        )
        return victim

    def evict(self, m: Memory, entry: Any, i: Any, amount: Any = None) -> tuple[Any, Any]:
        """Remove an entry, or `amount` from its tail; returns the units removed and whether it vanished."""

        def whole() -> tuple[Any]:
            m.setu(self.at(m.u(self.owner + entry), i), ZERO)
            return (self._unlink(m, entry, i),)

        if amount is None:
            return *whole(), m.full(True, np.bool_)
        size = m.f(self.size + entry)
        units = lesser(size, amount)

        def tail() -> tuple[Any]:
            m.setf(self.size + entry, size - units)
            m.addf(self._cached(i), -units)
            return (units,)

        vanishes = units >= size
        (removed,) = m.either(vanishes, whole, tail)
        return removed, vanishes


def precedes(m: Memory, found: Sequence[Any], best: Sequence[Any]) -> Any:
    """Whether keys come strictly before others, lexicographically."""
    before = m.full(False, np.bool_)
    for a, b in reversed(list(zip(found, best, strict=True))):
        before = (a < b) | ((a == b) & before)
    return before

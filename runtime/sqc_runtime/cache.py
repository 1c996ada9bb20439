"""The prefix cache of a pool, an entry for each session: who released it consumes it at the next admission."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .core import OVERFLOW_ENTRIES, Core
from .entries import Entries
from .memory import Memory
from .ops import as_u32, lesser, where

ZERO = np.uint32(0)


class Cache(Entries):
    """What is dead has a name of its own, below 0."""

    def __init__(self, core: Core, name: str, members: int, *rest: Any):
        self.entry = core.layout.field("u", f"{name}.entry", members)
        super().__init__(core, name, members, *rest)

    def at(self, slot: Any, i: Any) -> Any:
        """The address of the number of a session's own entry."""
        return self.core.su(slot, self.entry) + as_u32(i)

    def own(self, m: Memory, slot: Any, i: Any) -> Any:
        """Size of the session's own entry (0 without one)."""
        return m.f(self.size + m.u(self.at(slot, i)))

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

    def drop(self, m: Memory, slot: Any, i: Any) -> None:
        """Remove the session's own entry."""
        self.consume(m, slot, i)

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
        size = m.f(self.size + entry)
        self._take_out(m, entry)
        self._free_number(m, entry)
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
        entry, *number = self._next_number(m)
        reuse, _, fresh = number
        over = ~reuse & (fresh >= np.uint32(self.entries))
        self.core.stop(m, over, OVERFLOW_ENTRIES)

        def link() -> None:
            self._take_number(m, *number)
            self._append(m, entry, i)
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

"""What a pool caches: numbered entries in the order of their releases.

Entries have numbers of their own, because a prefix may outlive its session. Those of one pool form
a doubly linked list, oldest release first, around a sentinel: nodes 0 .. members-1 are the sentinels
of the members of an array, entries are numbered behind them, so 0 means "no entry" in a slot. Without
eviction keys the victim is the head of the list and no operation scans.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .core import Core
from .memory import Memory
from .ops import as_u32, where
from .order import precedes

Keys = Callable[[Any], Sequence[Any]]


class Entries:
    """`snapshot`: slot fields that each entry keeps a copy of. `stamped`: entries know when they were
    released. `named`: entries know the serial of their session, also when that has ended."""

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

    def first(self, m: Memory, i: Any) -> Any:
        """The entry released longest ago (the sentinel's number when there is none)."""
        return m.u(self._next + as_u32(i))

    def is_entry(self, node: Any) -> Any:
        return node >= np.uint32(self.members)

    def attributes_of(self, m: Memory, entry: Any) -> dict[int, Any]:
        """What an entry remembers of its session."""
        return {field: m.f(copy + entry) for field, copy in self.snapshot.items()}

    # -- numbers
    def _next_number(self, m: Memory) -> tuple[Any, Any, Any, Any]:
        """A number that is free; whether it was used before, and both counts, for `_take_number`."""
        top, fresh = m.u(self._free_top), m.u(self._fresh)
        reuse = top > 0
        return where(reuse, m.u(self._free + top), fresh + np.uint32(self.members)), reuse, top, fresh

    def _take_number(self, m: Memory, reuse: Any, top: Any, fresh: Any) -> None:
        m.setu(self._free_top, top - reuse.astype(np.uint32))
        m.setu(self._fresh, fresh + (~reuse).astype(np.uint32))

    def _free_number(self, m: Memory, entry: Any) -> None:
        top = m.addu(self._free_top, 1)
        m.setu(self._free + top, entry)

    # -- the list
    def _take_out(self, m: Memory, entry: Any) -> None:
        before, after = m.u(self._prev + entry), m.u(self._next + entry)
        m.setu(self._next + before, after)
        m.setu(self._prev + after, before)

    def _append(self, m: Memory, entry: Any, i: Any) -> None:
        """Released last."""
        sentinel = as_u32(i)
        self._put_behind(m, entry, m.u(self._prev + sentinel), sentinel)

    def _put_behind(self, m: Memory, entry: Any, before: Any, after: Any) -> None:
        m.setu(self._next + before, entry)
        m.setu(self._prev + entry, before)
        m.setu(self._next + entry, after)
        m.setu(self._prev + after, entry)

    # -- eviction
    def evictable(self, _m: Memory, _entry: Any) -> Any:
        """Whether an entry of the list can be a victim (None: each can)."""
        return None

    def least(self, m: Memory, i: Any, keys: Keys) -> Any:
        """The entry with the lexicographically least keys, the one released first among equals."""
        first = self.first(m, i)

        def smaller(node: Any, _best: Any, *best: Any) -> tuple[Any, ...]:
            found = keys(node)
            before = precedes(m, found, best)
            possible = self.evictable(m, node)
            if possible is not None:
                before = before & possible
            return (
                m.u(self._next + node),
                where(before, node, _best),
                *(where(before, a, b) for a, b in zip(found, best, strict=True)),
            )

        _, victim, *_ = m.loop(
            lambda node, *_: self.is_entry(node), smaller, (m.u(self._next + first), first, *keys(first))
        )
        return victim

"""Queues of slots: first in, first out, with removal from the middle.

A ring of a power of two of cells that can hold every slot. `head` and `tail` count on for ever
(modulo 2^32). A queue may have several members (one for each member of an array of resources).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .memory import Layout, Memory
from .ops import as_u32, where

ONE = np.uint32(1)


def member(base: int, i: Any, stride: int = 1) -> Any:
    """The address of a member's cell: a plain number where the member is."""
    return base + i * stride if isinstance(i, int) else np.uint32(base) + i * np.uint32(stride)


class Ring:
    def __init__(self, layout: Layout, name: str, slots: int, members: int = 1):
        self._size = 1 << (slots + 1).bit_length()
        self._cells = layout.u(f"{name}.ring", self._size * members)
        self._head, self._tail = layout.u(f"{name}.head", members), layout.u(f"{name}.tail", members)

    def _cell(self, count: Any, i: Any) -> Any:
        first = member(self._cells, i, self._size)
        within = count & np.uint32(self._size - 1)
        return within + as_u32(first)

    def head(self, i: Any = 0) -> Any:
        """The address of the count of slots taken out."""
        return member(self._head, i)

    def tail(self, i: Any = 0) -> Any:
        return member(self._tail, i)

    def any(self, m: Memory, i: Any = 0) -> Any:
        return m.u(self.head(i)) != m.u(self.tail(i))

    def first(self, m: Memory, i: Any = 0) -> Any:
        """The first slot (of a queue that is not empty)."""
        return m.u(self._cell(m.u(self.head(i)), i))

    def at(self, m: Memory, count: Any, i: Any = 0) -> Any:
        """The slot at a count between `head` and `tail`."""
        return m.u(self._cell(count, i))

    def push(self, m: Memory, slot: Any, i: Any = 0) -> None:
        tail = m.u(self.tail(i))
        m.setu(self._cell(tail, i), slot)
        m.setu(self.tail(i), tail + ONE)

    def push_front(self, m: Memory, slot: Any, i: Any = 0) -> None:
        head = m.u(self.head(i)) - ONE
        m.setu(self._cell(head, i), slot)
        m.setu(self.head(i), head)

    def pop(self, m: Memory, i: Any = 0) -> Any:
        """Take out the first slot (of a queue that is not empty)."""
        head = m.u(self.head(i))
        slot = m.u(self._cell(head, i))
        m.setu(self.head(i), head + ONE)
        return slot

    def drop_first(self, m: Memory, i: Any = 0) -> None:
        """Take out the first slot, of whichever session."""
        m.addu(self.head(i), 1)

    def remove(self, m: Memory, slot: Any, i: Any = 0) -> None:
        """Take a slot out wherever it is; nothing happens if it is not there."""
        tail = m.u(self.tail(i))

        def elsewhere(at: Any) -> Any:
            return (at != tail) & (m.u(self._cell(at, i)) != slot)

        (place,) = m.loop(elsewhere, lambda at: (at + ONE,), (m.u(self.head(i)),))

        def close(at: Any) -> tuple[Any]:
            m.setu(self._cell(at, i), m.u(self._cell(at + ONE, i)))
            return (at + ONE,)

        m.loop(lambda at: (at != tail) & (at + ONE != tail), close, (place,))
        m.setu(self.tail(i), where(place != tail, tail - ONE, tail))

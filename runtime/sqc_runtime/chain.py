"""The cache of a pool with one history: checkpoints along one branch, of which it keeps so many.

The checkpoints of a member stand in the order of their lengths; each is a prefix of the branch, the content of the
request that was admitted last. Beside them is the live session, what that request left at its end. All of it lies in
the same cells, so what is cached is as long as the longest of them, and nothing while a request holds the pool.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .content import Content, Contents
from .core import ONE, OVERFLOW_ENTRIES, Core
from .memory import Memory
from .ops import greater, lesser, where
from .ring import member

TOLERANCE = 1e-9


class Chain:
    """`entries`: room for checkpoints, of which the pool keeps its slots. `pinned`: the root is the last to leave and
    the others rotate by their last use; else the first to come is the first to leave."""

    def __init__(self, core: Core, name: str, members: int, entries: int, segments: int, pinned: bool):
        self.core, self.name, self.members, self.entries, self.pinned = core, name, members, entries, pinned
        layout, self._stride = core.layout, entries + 1
        self.contents = Contents(layout, f"{name}.content", segments, members + 1)
        self._lengths = layout.f(f"{name}.lengths", self._stride * members + 1)
        self._stamps = layout.f(f"{name}.stamps", self._stride * members + 1)
        self._count, self._live = layout.u(f"{name}.count", members), layout.f(f"{name}.live", members)
        self._stamp, self._slots = layout.f(f"{name}.stamp"), layout.f(f"{name}.slots")

    def clear(self, m: Memory) -> None:
        """It starts empty."""

    def set_slots(self, m: Memory, slots: Any) -> None:
        m.setf(self._slots, slots)

    def disown(self, m: Memory, slot: Any) -> None:
        """The history is nobody's."""

    def _signal(self, kind: str, i: Any) -> Any:
        return self.core.signals.at(f"{self.name}.{kind}", i)

    def _place(self, base: int, k: Any, i: Any) -> Any:
        first = member(base, i, self._stride)
        return k + np.uint32(first) if isinstance(first, int) else k + first

    def length(self, m: Memory, k: Any, i: Any) -> Any:
        """The length of a member's checkpoint number `k`."""
        return m.f(self._place(self._lengths, k, i))

    def count(self, m: Memory, i: Any) -> Any:
        return m.u(member(self._count, i))

    def _until(self, m: Memory, most: Any, i: Any) -> Any:
        """How many checkpoints are at most so long."""
        count = self.count(m, i)

        def shorter(k: Any) -> Any:
            return (k < count) & (self.length(m, lesser(k, count), i) <= most)

        (k,) = m.loop(shorter, lambda k: (k + ONE,), (m.full(0, np.uint32),))
        return k

    def _use(self, m: Memory, k: Any, i: Any) -> None:
        """A checkpoint is made, landed on or resumed from: it gets the next stamp."""
        m.setf(self._place(self._stamps, k, i), m.addf(self._stamp, 1.0))

    # -- reading
    def _resume(self, m: Memory, content: Content, most: Any, i: Any) -> tuple[Any, Any, Any]:
        """Where a content can be resumed, whether that is the live session, how many checkpoints are up to there."""
        most = lesser(content.length(), most)
        most = lesser(self.contents.shared(m, content, member(0, i)), most)
        count, live = self._until(m, most, i), m.f(member(self._live, i))
        last = where(count > 0, count - ONE, count)
        checkpoint = where(count > 0, self.length(m, last, i), 0.0)
        lives = (live > 0) & (live <= most) & (live >= checkpoint)
        return where(lives, live, checkpoint), lives, count

    def match(self, m: Memory, content: Content, most: Any, _block: Any, i: Any) -> Any:
        """As for a tree of prefixes: there is no node, and nothing is locked by others."""
        position, _, _ = self._resume(m, content, most, i)
        return m.full(0, np.uint32), position, m.full(0.0, np.float64)

    def cached_of(self, m: Memory, content: Content, block: Any, i: Any) -> Any:
        """How much of a content need not be computed."""
        return self.match(m, content, m.full(np.inf, np.float64), block, i)[1]

    def is_open(self, m: Memory, i: Any) -> Any:
        """Whether a request can be admitted: one branch of history has room for one."""
        return m.f(self._signal("holders", i)) == 0

    def lock(self, m: Memory, _slot: Any, content: Content, units: Any, reuse: Any, _block: Any, i: Any) -> Any:
        """A request is admitted: what is no prefix of its content, or longer than where it resumes, is overwritten.

        Returns as for a tree of prefixes: no node, and twice where the request resumes.
        """
        most = units if reuse is None else lesser(units, reuse)
        position, lives, count = self._resume(m, content, most, i)
        m.setu(member(self._count, i), count)
        m.when(~lives & (count > 0), lambda: self._use(m, count - ONE, i))
        self.contents.store(m, member(0, i), content)
        m.setf(member(self._live, i), 0.0)
        m.setf(self._signal("cached", i), 0.0)
        m.addf(self._signal("used", i), position)
        return m.full(0, np.uint32), position, position

    # -- keeping
    def unlock(
        self, m: Memory, _slot: Any, content: Content, _node: Any, position: Any, kept: Any, _block: Any, i: Any
    ) -> None:
        """The request is over: it was the live session, which has `kept` units of its content from now on."""
        self.contents.store(m, member(0, i), content)
        m.addf(self._signal("used", i), -position)
        m.setf(member(self._live, i), kept)
        count = self.count(m, i)
        last = where(count > 0, count - ONE, count)
        longest = where(count > 0, self.length(m, last, i), 0.0)
        m.setf(self._signal("cached", i), greater(kept, longest))

    def checkpoint(self, m: Memory, position: Any, resumed: Any, i: Any) -> tuple[Any, Any]:
        """A checkpoint at a position (of a request that resumed at `resumed`); returns how many left for it, and
        whether there can be one: not before that position, unless one is there."""
        k, count = self._until(m, position, i), self.count(m, i)
        last = where(k > 0, k - ONE, k)
        there = (k > 0) & (self.length(m, last, i) == position)
        possible = there | (position >= resumed)
        full = ~there & (count >= np.uint32(self.entries))
        self.core.stop(m, full, OVERFLOW_ENTRIES)
        nothing = m.full(0.0, np.float64)

        def make() -> tuple[Any]:
            self._insert(m, k, count, position, i)
            return (self._shrink(m, i),)

        def stand() -> tuple[Any]:
            m.when(there, lambda: self._use(m, last, i))
            return (nothing,)

        (left,) = m.either(~there & possible & ~full & (position > 0), make, stand)
        return left, possible

    def _insert(self, m: Memory, k: Any, count: Any, length: Any, i: Any) -> None:
        def move(at: Any) -> tuple[Any]:
            self._copy(m, at - ONE, at, i)
            return (at - ONE,)

        m.loop(lambda at: at > k, move, (count,))
        m.setf(self._place(self._lengths, k, i), length)
        m.setu(member(self._count, i), count + ONE)
        self._use(m, k, i)

    def _copy(self, m: Memory, source: Any, target: Any, i: Any) -> None:
        for base in (self._lengths, self._stamps):
            m.setf(self._place(base, target, i), m.f(self._place(base, source, i)))

    def _shrink(self, m: Memory, i: Any) -> Any:
        """Checkpoints leave until there are no more than slots; returns how many."""
        budget = m.f(self._slots)

        def leave(left: Any) -> tuple[Any]:
            count = self.count(m, i)
            first = self.victim(m, i)

            def close(at: Any) -> tuple[Any]:
                self._copy(m, at + ONE, at, i)
                return (at + ONE,)

            m.loop(lambda at: at + ONE < count, close, (first,))
            m.setu(member(self._count, i), count - ONE)
            return (left + 1.0,)

        def over(_: Any) -> Any:
            return self.count(m, i).astype(np.float64) > budget

        (left,) = m.loop(over, leave, (m.full(0.0, np.float64),))
        return left

    def victim(self, m: Memory, i: Any) -> Any:
        """The number of the checkpoint that leaves: a function of the stamps and the slots alone.

        The root is pinned while root and leaf fit apart, in two slots or more: of the others the one whose last use
        is longest ago, the first among equals.
        """
        zero, count = m.full(0, np.uint32), self.count(m, i)
        if not self.pinned:
            return zero

        def stamp(k: Any) -> Any:
            return m.f(self._place(self._stamps, k, i))

        def older(k: Any, best: Any) -> tuple[Any, Any]:
            return k + ONE, where(stamp(k) < stamp(best), k, best)

        apart = (m.f(self._slots) >= 2.0) & (count >= np.uint32(2))
        (_, leaf) = m.loop(lambda k, _: k < count, older, (zero + np.uint32(2), zero + ONE))
        return where(apart, leaf, zero)

    def walk(self, m: Memory, i: Any) -> tuple[Any, Any]:
        """How much is cached, and whether the checkpoints are in order (of use in checks only)."""
        count = self.count(m, i)

        def on(k: Any, ordered: Any) -> tuple[Any, Any]:
            return k + ONE, ordered & (self.length(m, k, i) < self.length(m, k + ONE, i))

        _, ordered = m.loop(lambda k, _: k + ONE < count, on, (m.full(0, np.uint32), m.full(True, np.bool_)))
        last = where(count > 0, count - ONE, count)
        longest = where(count > 0, self.length(m, last, i), 0.0)
        held = m.f(self._signal("holders", i)) > 0
        return where(held, 0.0, greater(longest, m.f(member(self._live, i)))), ordered

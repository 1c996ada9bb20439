"""The prefix cache of a pool whose holds say what their contexts are made of: a radix tree.

A node is a stretch of units between two places where contexts part or end, or once did. Its content is that of
one context that leads through it, its place the tree above it. What holders read through is locked: it is in use,
counted once, and not in the list. The others are in the list of releases, each behind all nodes below it, so the
head of the list is always a leaf.

A node that only one session has ever kept is that session's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .content import Content, Contents
from .core import ONE, OVERFLOW_ENTRIES, Core
from .entries import Entries
from .memory import Memory
from .ops import as_u32, floor, lesser, where

ZERO = np.uint32(0)
MOST_NEW = 3
"""Nodes that one operation makes, at most."""
BUCKETS_FOR_A_NODE = 2


class Prefixes(Entries):
    """`segments`: of a content, at most."""

    def __init__(
        self,
        core: Core,
        name: str,
        members: int,
        entries: int,
        segments: int,
        snapshot: Sequence[int] = (),
        stamped: bool = False,
    ):
        super().__init__(core, name, members, entries, snapshot, stamped, named=True)
        layout, nodes = core.layout, members + entries
        self.entry = layout.field("u", f"{name}.entry", members)
        """The node that a session kept last; it is its own only while it has the session's serial."""
        self.contents = Contents(layout, f"{name}.content", segments, nodes + 1)
        self.start, self.end = layout.f(f"{name}.start", nodes + 1), layout.f(f"{name}.end", nodes + 1)
        self.parent, self._children = layout.u(f"{name}.parent", nodes + 1), layout.u(f"{name}.children", nodes + 1)
        self._readers, self._shared = layout.u(f"{name}.readers", nodes + 1), layout.u(f"{name}.shared", nodes + 1)
        self._buckets = 1 << (BUCKETS_FOR_A_NODE * nodes).bit_length()
        self._heads = layout.u(f"{name}.buckets", self._buckets)
        self._bucket, self._following = layout.u(f"{name}.bucket", nodes + 1), layout.u(f"{name}.following", nodes + 1)

    def _used(self, i: Any) -> Any:
        return self.core.signals.at(f"{self.name}.used", i)

    def _set_end(self, m: Memory, node: Any, end: Any) -> None:
        m.setf(self.end + node, end)
        m.setf(self.size + node, end - m.f(self.start + node))

    def _serial_of(self, m: Memory, slot: Any) -> Any:
        return m.f(self.core.sf(slot, self.core.serial))

    def _is_own(self, m: Memory, node: Any, slot: Any) -> Any:
        """Whether a node is of this session alone."""
        assert self.serial is not None
        return (m.f(self.serial + node) == self._serial_of(m, slot)) & (m.u(self._shared + node) == 0)

    def _is_bare(self, m: Memory, node: Any) -> Any:
        """Whether nobody reads a node and nothing hangs below it."""
        return (m.u(self._readers + node) == 0) & (m.u(self._children + node) == 0)

    def evictable(self, m: Memory, entry: Any) -> Any:
        return m.u(self._children + entry) == 0

    # -- the way down
    def _bucket_of(self, m: Memory, parent: Any, content: Content, position: Any) -> Any:
        number, key = content.segment_at(m, position)
        mixed = key * 0.6180339887498949 + number * 0.5698402909980532 + parent.astype(np.float64) * 0.7548776662466927
        part = mixed - floor(mixed)
        return (where(part < 1.0, part, 0.0) * float(self._buckets)).astype(np.uint32)

    def _child(self, m: Memory, parent: Any, content: Content, position: Any, unit: Any) -> tuple[Any, Any]:
        """The node below `parent` that a content goes on through, and how far it shares it (0: there is none)."""
        bucket = self._bucket_of(m, parent, content, position)
        least = position + unit

        def other(node: Any) -> Any:
            shares = self.contents.shared(m, content, node)
            return (node != 0) & ~((m.u(self.parent + node) == parent) & self._reaches(shares, least, position))

        (node,) = m.loop(other, lambda node: (m.u(self._following + node),), (m.u(as_u32(self._heads) + bucket),))
        return node, self.contents.shared(m, content, node)

    @staticmethod
    def _reaches(shares: Any, least: Any, position: Any) -> Any:
        return (shares >= least) & (shares > position)

    def _walk(self, m: Memory, content: Content, most: Any, block: Any, start: tuple[Any, Any]) -> Any:
        """The last node that a content leads through, how far it is cached, and how much of that is locked.

        `start`: a node and the position at its end. `most`: at most so far; whole blocks, if there are any.
        """
        unit = m.full(0.0, np.float64) if block is None else block

        def further(_node: Any, _position: Any, _locked: Any, on: Any) -> Any:
            return on

        def step(node: Any, position: Any, locked: Any, _on: Any) -> tuple[Any, ...]:
            child, shares = self._child(m, node, content, position, unit)
            reach = lesser(shares, most)
            if block is not None:
                reach = m.opaque(floor(m.opaque(reach / block)) * block)
            end = m.f(self.end + child)
            reach = lesser(reach, end)
            good = (child != 0) & (reach > position)
            read = good & (m.u(self._readers + child) != 0)
            return (
                where(good, child, node),
                where(good, reach, position),
                locked + where(read, reach - position, 0.0),
                good & (reach == end),
            )

        node, position = start
        carry = (node, position, m.full(0.0, np.float64), m.full(True, np.bool_))
        node, position, locked, _ = m.loop(further, step, carry)
        return node, position, locked

    def _root(self, m: Memory, i: Any) -> Any:
        return m.full(i, np.uint32) if isinstance(i, int) else i

    def match(self, m: Memory, content: Content, most: Any, block: Any, i: Any) -> Any:
        """The node where the cached part of a content ends, how long that part is, and how much of it is locked."""
        start = (self._root(m, i), m.full(0.0, np.float64))
        return self._walk(m, content, lesser(content.length(), most), block, start)

    # -- numbers, places
    def _has_numbers(self, m: Memory) -> Any:
        """Whether there is room for what one operation makes; the lane stops otherwise."""
        left = m.u(self._free_top) + (np.uint32(self.entries) - m.u(self._fresh))
        enough = left >= np.uint32(MOST_NEW)
        self.core.stop(m, ~enough, OVERFLOW_ENTRIES)
        return enough

    def _make(self, m: Memory) -> Any:
        node, *number = self._next_number(m)
        self._take_number(m, *number)
        return node

    def _hang(self, m: Memory, node: Any, parent: Any, content: Content) -> None:
        """Put a node below another, where contexts find it."""
        bucket = self._bucket_of(m, parent, content, m.f(self.start + node))
        head = as_u32(self._heads) + bucket
        m.setu(self.parent + node, parent)
        m.setu(self._bucket + node, bucket)
        m.setu(self._following + node, m.u(head))
        m.setu(head, node)

    def _unhang(self, m: Memory, node: Any) -> None:
        """No context finds it any more."""
        head = as_u32(self._heads) + m.u(self._bucket + node)

        def elsewhere(at: Any) -> Any:
            return (m.u(at) != node) & (m.u(at) != 0)

        (at,) = m.loop(elsewhere, lambda at: (as_u32(self._following) + m.u(at),), (head,))
        m.when(m.u(at) == node, lambda: m.setu(at, m.u(self._following + node)))

    def _forget(self, m: Memory, node: Any) -> None:
        """A node is gone, for ever."""
        assert self.serial is not None
        self._unhang(m, node)
        m.addu(self._children + m.u(self.parent + node), -1 & 0xFFFFFFFF)
        m.setf(self.serial + node, np.nan)
        self._free_number(m, node)

    def _split(self, m: Memory, node: Any, position: Any) -> Any:
        """Cut a node in two at a position; returns the upper part. The number stays with the lower part."""
        assert self.serial is not None
        content = self.contents.load(m, node)
        upper, parent, start = self._make(m), m.u(self.parent + node), m.f(self.start + node)
        self._unhang(m, node)
        m.setf(self.start + upper, start)
        self._set_end(m, upper, position)
        m.setf(self.start + node, position)
        self._set_end(m, node, m.f(self.end + node))
        self.contents.store(m, upper, content)
        for field in (self.owner, self._readers, self._shared):
            m.setu(field + upper, m.u(field + node))
        copied = (self.serial, *(() if self.released is None else (self.released,)), *self.snapshot.values())
        for field in copied:
            m.setf(field + upper, m.f(field + node))
        m.setu(self._children + upper, ONE)
        self._hang(m, upper, parent, content)
        self._hang(m, node, upper, content)
        listed = m.u(self._readers + node) == 0
        m.when(listed, lambda: self._put_behind(m, upper, node, m.u(self._next + node)))
        return upper

    def _cut(self, m: Memory, node: Any, position: Any) -> Any:
        """The node that ends at a position of this one: itself, or its upper part."""
        whole = m.f(self.end + node) == position
        (found,) = m.either(whole | ~self.is_entry(node), lambda: (node,), lambda: (self._split(m, node, position),))
        return found

    # -- reading
    def is_open(self, m: Memory, _i: Any) -> Any:
        """Whether a request can be admitted, as far as the cache is concerned."""
        return m.full(True, np.bool_)

    def cached_of(self, m: Memory, content: Content, block: Any, i: Any) -> Any:
        """How much of a content is cached."""
        return self.match(m, content, m.full(np.inf, np.float64), block, i)[1]

    def lock(self, m: Memory, slot: Any, content: Content, units: Any, reuse: Any, block: Any, i: Any) -> Any:
        """A session that holds `units` begins to read what is cached of its content.

        Returns the last node that it reads, how much of its content it reads there and above, and how much was cached
        (`reuse` at most), which can be more than its units. What is its own and behind those is gone, what is behind
        `reuse` is dead from now on.
        """
        most = m.full(np.inf, np.float64) if reuse is None else reuse

        def read() -> tuple[Any, Any, Any]:
            node, cached, _ = self.match(m, content, most, block, i)
            node = self._cut(m, node, cached)
            if reuse is not None:
                self._bury(m, slot, content, node, cached, block, i)
            node, position = m.when(cached > units, lambda: within(node), (node, cached))
            self._up(m, node, lambda n: self._begin_reading(m, n, i))
            return node, position, cached

        def within(last: Any) -> tuple[Any, Any]:
            node, position, _ = self.match(m, content, units, block, i)
            node = self._cut(m, node, position)
            m.loop(lambda n: self._is_removable(m, slot, n) & (n != node), lambda n: (self._remove(m, n, i),), (last,))
            return node, position

        nothing = m.full(0.0, np.float64)
        return m.when(self._has_numbers(m), read, (self._root(m, i), nothing, nothing))

    def _up(self, m: Memory, node: Any, body: Any) -> None:
        """`body` for a node and all above it."""

        def step(n: Any) -> tuple[Any]:
            above = m.u(self.parent + n)
            body(n)
            return (above,)

        m.loop(self.is_entry, step, (node,))

    def _begin_reading(self, m: Memory, node: Any, i: Any) -> None:
        readers = m.u(self._readers + node)
        m.setu(self._readers + node, readers + ONE)

        def lock() -> None:
            size = m.f(self.size + node)
            self._take_out(m, node)
            m.addf(self._cached(i), -size)
            m.addf(self._used(i), size)

        m.when(readers == 0, lock)

    def _stop_reading(self, m: Memory, node: Any, i: Any) -> Any:
        """One reader less; says whether that was the last. Then its units are in nobody's use, and in no list."""
        readers = m.u(self._readers + node) - ONE
        m.setu(self._readers + node, readers)
        m.addf(self._used(i), where(readers == 0, -m.f(self.size + node), 0.0))
        return readers == 0

    def _bury(self, m: Memory, slot: Any, content: Content, node: Any, position: Any, block: Any, i: Any) -> None:
        """What the session alone kept behind a position is dead: it stays in its place until it is evicted."""
        unit = m.full(0.0, np.float64) if block is None else block
        behind, _ = self._child(m, node, content, position, unit)

        def bury() -> None:
            self._unhang(m, behind)
            m.addu(self._children + node, -1 & 0xFFFFFFFF)
            m.addu(self._children + self._root(m, i), 1)
            m.setu(self.parent + behind, self._root(m, i))
            m.setu(self.owner + behind, ZERO)
            self._remember(m, behind, slot)
            assert self.serial is not None
            m.setf(self.serial + behind, -1.0 - self.core.next_seq(m))

        m.when((behind != 0) & self._is_own(m, behind, slot) & self._is_bare(m, behind), bury)

    def _remember(self, m: Memory, node: Any, slot: Any) -> None:
        for field, copy in self.snapshot.items():
            m.setf(copy + node, m.f(self.core.sf(slot, field)))

    # -- keeping
    def unlock(
        self, m: Memory, slot: Any, content: Content, node: Any, position: Any, kept: Any, block: Any, i: Any
    ) -> None:
        """A session stops reading up to `node`, which ends at `position`, and keeps `kept` units of its content.

        It keeps one content: what was its own and is not kept again is gone.
        """

        def release() -> None:
            at = self.at(slot, i)
            before = m.u(at)
            self._disown(m, slot, i)
            left = self._let_go(m, slot, node, kept, i)
            beyond = kept > position
            m.either(
                beyond,
                lambda: self._keep_more(m, slot, content, left, position, kept, block, i),
                lambda: self._keep_up_to(m, slot, left, position, i),
            )
            m.when(kept > 0, lambda: replace(before, m.u(at)))

        def replace(before: Any, last: Any) -> None:
            def gone(n: Any) -> Any:
                return self._is_removable(m, slot, n) & (n != last)

            m.loop(gone, lambda n: (self._remove(m, n, i),), (before,))

        m.when(self._has_numbers(m), release)

    def _let_go(self, m: Memory, slot: Any, node: Any, kept: Any, i: Any) -> Any:
        """Stop reading what lies behind `kept`; what is the session's own there is gone. Returns what is left."""

        def behind(n: Any) -> Any:
            return self.is_entry(n) & (m.f(self.start + n) >= kept)

        def leave(n: Any) -> tuple[Any]:
            above = m.u(self.parent + n)
            m.when(self._stop_reading(m, n, i), lambda: self._gone_or_listed(m, slot, n, i))
            return (above,)

        (left,) = m.loop(behind, leave, (node,))
        partly = self.is_entry(left) & (m.f(self.end + left) > kept)

        def cut() -> tuple[Any]:
            return leave_lower(self._split(m, left, kept))

        def leave_lower(upper: Any) -> tuple[Any]:
            leave(left)
            return (upper,)

        (left,) = m.when(partly, cut, (left,))
        return left

    def _gone_or_listed(self, m: Memory, slot: Any, node: Any, i: Any) -> None:
        gone = self._is_own(m, node, slot) & self._is_bare(m, node)
        m.either(gone, lambda: self._forget(m, node), lambda: self._list(m, node, i))

    def _list(self, m: Memory, node: Any, i: Any) -> None:
        """Units in nobody's use, released now."""
        self._append(m, node, i)
        m.addf(self._cached(i), m.f(self.size + node))
        if self.released is not None:
            m.setf(self.released + node, m.f(self.core.now))

    def _keep_up_to(self, m: Memory, slot: Any, node: Any, position: Any, i: Any) -> None:
        m.when(self.is_entry(node), lambda: m.setu(self.at(slot, i), node))
        self._up(m, node, lambda n: self._keep(m, slot, n, position, i))

    def _keep(self, m: Memory, slot: Any, node: Any, position: Any, i: Any) -> None:
        """A node on the way of what a session keeps; it has read those that begin before `position`."""
        assert self.serial is not None
        its, serial = m.f(self.serial + node), self._serial_of(m, slot)
        m.setu(self._shared + node, m.u(self._shared + node) | (its != serial).astype(np.uint32))
        m.setf(self.serial + node, serial)
        m.setu(self.owner + node, slot)
        self._remember(m, node, slot)
        if self.released is not None:
            m.setf(self.released + node, m.f(self.core.now))

        def stop() -> None:
            m.when(self._stop_reading(m, node, i), lambda: self._list(m, node, i))

        def again() -> None:
            """Another has cached it meanwhile: it is released once more."""

            def move() -> None:
                self._take_out(m, node)
                self._append(m, node, i)

            m.when(m.u(self._readers + node) == 0, move)

        m.either(m.f(self.start + node) < position, stop, again)

    def _keep_more(
        self, m: Memory, slot: Any, content: Content, node: Any, position: Any, kept: Any, block: Any, i: Any
    ) -> None:
        """Keep more than was read: what is new becomes a node, or makes the last one longer."""
        found, reach, _ = self._walk(m, content, kept, block, (node, position))
        found = self._cut(m, found, reach)
        single = (m.u(self._readers + found) == 1) & (m.u(self._children + found) == 0)
        longer = (found == node) & self.is_entry(node) & single & self._is_own(m, node, slot)

        def add() -> tuple[Any]:
            new = self._make(m)
            m.setf(self.start + new, reach)
            self._set_end(m, new, kept)
            self.contents.store(m, new, content)
            for field in (self._children, self._readers, self._shared):
                m.setu(field + new, ZERO)
            m.addu(self._children + found, 1)
            assert self.serial is not None
            m.setf(self.serial + new, self._serial_of(m, slot))
            m.setu(self.owner + new, slot)
            self._remember(m, new, slot)
            self._hang(m, new, found, content)
            self._list(m, new, i)
            return (new,)

        def lengthen() -> tuple[Any, Any]:
            """The session is its only reader."""
            self._stop_reading(m, found, i)
            self._set_end(m, found, kept)
            self._remember(m, found, slot)
            m.setu(self.owner + found, slot)
            self._list(m, found, i)
            return found, m.u(self.parent + found)

        def make() -> tuple[Any, Any]:
            (last,) = m.when(kept > reach, add, (found,))
            return last, found

        last, above = m.either(longer & (kept > reach), lengthen, make)
        m.when(self.is_entry(last), lambda: m.setu(self.at(slot, i), last))
        self._up(m, above, lambda n: self._keep(m, slot, n, position, i))

    # -- what a session has
    def at(self, slot: Any, i: Any) -> Any:
        """The address of the number of the node that a session kept last."""
        return self.core.su(slot, self.entry) + as_u32(i)

    def _mine(self, m: Memory, slot: Any, node: Any) -> Any:
        assert self.serial is not None
        return self.is_entry(node) & (m.f(self.serial + node) == self._serial_of(m, slot))

    def drop(self, m: Memory, slot: Any, i: Any) -> None:
        """Remove what is the session's own."""

        at = self.at(slot, i)
        m.loop(lambda n: self._is_removable(m, slot, n), lambda n: (self._remove(m, n, i),), (m.u(at),))
        m.setu(at, ZERO)

    def _is_removable(self, m: Memory, slot: Any, node: Any) -> Any:
        """Whether a node is the session's own, without anything below it, and in the list."""
        return self.is_entry(node) & self._is_own(m, node, slot) & self._is_bare(m, node)

    def _remove(self, m: Memory, node: Any, i: Any) -> Any:
        """Take a node of the list away; returns the one above."""
        above = m.u(self.parent + node)
        self._take_out(m, node)
        m.addf(self._cached(i), -m.f(self.size + node))
        self._forget(m, node)
        return above

    def disown(self, m: Memory, slot: Any) -> None:
        """The session ends: what it kept stays, without an owner."""
        for i in range(self.members):
            self._disown(m, slot, i)
            m.setu(self.at(slot, i), ZERO)

    def _disown(self, m: Memory, slot: Any, i: Any) -> None:
        def leave(node: Any) -> tuple[Any]:
            m.setu(self.owner + node, ZERO)
            return (m.u(self.parent + node),)

        m.loop(lambda node: self._mine(m, slot, node), leave, (m.u(self.at(slot, i)),))

    # -- eviction
    def evict(self, m: Memory, entry: Any, i: Any, amount: Any = None) -> tuple[Any, Any]:
        """Remove a leaf, or `amount` from its tail; returns the units removed and whether it vanished."""
        size = m.f(self.size + entry)

        def whole() -> tuple[Any]:
            owner = m.u(self.owner + entry)
            at = self.at(owner, i)
            m.when((owner != 0) & (m.u(at) == entry), lambda: m.setu(at, m.u(self.parent + entry)))
            self._remove(m, entry, i)
            return (size,)

        if amount is None:
            return *whole(), m.full(True, np.bool_)
        units = lesser(size, amount)

        def tail() -> tuple[Any]:
            self._set_end(m, entry, m.f(self.end + entry) - units)
            m.addf(self._cached(i), -units)
            return (units,)

        vanishes = units >= size
        (removed,) = m.either(vanishes, whole, tail)
        return removed, vanishes

    def walk(self, m: Memory, i: Any) -> tuple[Any, Any]:
        """The sum of the sizes in the list, and whether nobody reads those and each begins where its parent ends (of
        use in checks only)."""

        def step(node: Any, total: Any, good: Any) -> tuple[Any, ...]:
            parent = m.u(self.parent + node)
            follows = (m.f(self.start + node) == m.f(self.end + parent)) | ~self.is_entry(parent)
            unread = m.u(self._readers + node) == 0
            return m.u(self._next + node), total + m.f(self.size + node), good & unread & follows

        start = (self.first(m, i), m.full(0.0, np.float64), m.full(True, np.bool_))
        _, total, good = m.loop(lambda node, *_: self.is_entry(node), step, start)
        return total, good & ((self.first(m, i) == as_u32(i)) | self.evictable(m, self.first(m, i)))

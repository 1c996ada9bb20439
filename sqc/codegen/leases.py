"""Leases: an allocation that outlives its hold, until it is released, expires, or its session ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from sqc_runtime.core import INF, ONE, OVERFLOW_STALE
from sqc_runtime.heap import Heap
from sqc_runtime.memory import Memory
from sqc_runtime.ops import as_u32, greater, where

from .. import ir
from .context import Context
from .expressions import Scope, evaluate, number
from .holds import Holds, Part

U32 = np.uint32
ZERO = U32(0)


class Leases:
    """Records of leases, those of a session (or of a leg, as long as it lives) in a list, oldest first.
    `capacity`: live leases, and expiries that are pending."""

    def __init__(self, context: Context, holds: Holds, capacity: int):
        self.context, self.holds = context, holds
        layout = context.core.layout
        sites = [site for site in context.plan.sites if site.hold.lease is not None]
        self.parts = [holds.parts[s.index][s.hold.lease.part] for s in sites if s.hold.lease is not None]
        if not self.parts:
            return
        self._capacity, cells = capacity, capacity + 1
        self._units, self._computed = layout.f("lease.units", cells), layout.f("lease.computed", cells)
        self._seq = layout.f("lease.seq", cells)
        self._owner, self._part = layout.u("lease.owner", cells), layout.u("lease.part", cells)
        self._member, self._next = layout.u("lease.member", cells), layout.u("lease.next", cells)
        self._free, self._free_top, self._fresh = (
            layout.u("lease.free", cells + 1),
            layout.u("lease.free_top"),
            layout.u("lease.fresh"),
        )
        self._first = layout.field("u", "lease.first")
        clauses = tuple(site.hold.cache for site in sites if site.leg and site.hold.cache is not None)
        names = sorted({node.name for node in ir.walk(clauses) if isinstance(node, ir.Attr)})
        self._passed = layout.u("lease.passed", cells) if names else None
        self._copies = {name: layout.f(f"lease.copy.{name}", cells) for name in names}
        """Attributes of the leg that a lease was passed on by: its cache clause reads those."""
        self.expiries = Heap(layout, "leases", capacity)
        holds.lease = self.begin

    def clear(self, m: Memory) -> None:
        if self.parts:
            self.expiries.clear(m)

    def born(self, m: Memory, slot: Any) -> None:
        """A new session has no lease."""
        if self.parts:
            m.setu(self.context.core.su(slot, self._first), ZERO)

    def begin(self, part: Part, s: Scope, slot: Any) -> None:
        """The scope ends: its allocation stays the session's."""
        m, core = s.m, self.context.core
        lease = part.site.hold.lease
        assert lease is not None
        time = greater(number(evaluate(lease.time, s)), 0.0)  # NaN is 0
        i = self.holds.i(m, part, slot)
        top, fresh = m.u(self._free_top), m.u(self._fresh)
        reuse = top > 0
        record = where(reuse, m.u(self._free + top), fresh + ONE)
        core.stop(m, ~reuse & (fresh >= U32(self._capacity)), OVERFLOW_STALE)

        def enter() -> None:
            m.setu(self._free_top, top - reuse.astype(U32))
            m.setu(self._fresh, fresh + (~reuse).astype(U32))
            units = m.f(self.holds.units(part, slot))
            m.setf(self._units + record, units)
            m.setf(self._computed + record, self.holds.computed(m, part, slot))
            m.setu(self._owner + record, slot)
            m.setu(self._part + record, U32(self.parts.index(part)))
            m.setu(self._member + record, as_u32(i))
            m.setu(self._next + record, ZERO)
            m.setf(self._seq + record, -1.0)
            if self._passed is not None:
                m.setu(self._passed + record, ZERO)
            self._append(m, slot, record)
            m.when(time < INF, lambda: self._schedule(m, record, m.f(core.now) + time))

        m.when(m.u(core.status) == 0, enter)
        self.holds.becomes_lease(m, part, slot, i)

    def _append(self, m: Memory, owner: Any, record: Any) -> None:
        first = self.context.core.su(owner, self._first)

        def after_last() -> None:
            def go_on(at: Any) -> Any:
                return m.u(self._next + at) != 0

            (last,) = m.loop(go_on, lambda at: (m.u(self._next + at),), (m.u(first),))
            m.setu(self._next + last, record)

        m.either(m.u(first) != 0, after_last, lambda: m.setu(first, record))

    def _schedule(self, m: Memory, record: Any, time: Any) -> None:
        core, full = self.context.core, self.expiries.full(m)
        seq = core.next_seq(m)
        m.setf(self._seq + record, seq)
        core.stop(m, full, OVERFLOW_STALE)
        m.when(~full, lambda: self.expiries.push(m, time, seq, record))

    def _end(self, m: Memory, record: Any, s: Scope) -> None:
        """End a lease: free its units, keep what the cache clause says."""
        core, owner = self.context.core, m.u(self._owner + record)
        first, after = core.su(owner, self._first), m.u(self._next + record)

        def unlink_later() -> None:
            (before,) = m.loop(
                lambda at: m.u(self._next + at) != record, lambda at: (m.u(self._next + at),), (m.u(first),)
            )
            m.setu(self._next + before, after)

        m.either(m.u(first) == record, lambda: m.setu(first, after), unlink_later)
        m.setf(self._seq + record, -1.0)
        m.setu(self._free + m.addu(self._free_top, 1), record)
        units, computed = m.f(self._units + record), m.f(self._computed + record)
        s = self._scope(m, record, s)

        def free(part: Part) -> None:
            i = m.u(self._member + record) if part.pool.members > 1 else 0
            m.addf(part.pool.signal("used", i), -units)
            self.holds.discount_holder(m, part.name, owner, i)
            self.holds.keep(m, part.site.hold, part.pool, s, owner, computed, i)

        self._by_part(m, record, free)

    def _scope(self, m: Memory, record: Any, s: Scope) -> Scope:
        """What the cache clause of a lease sees, `s` being its owner's scope."""
        if self._passed is None:
            return s
        passed = m.u(self._passed + record) != 0

        def attribute(name: str) -> Any:
            assert s.attribute is not None
            value = s.attribute(name)
            return where(passed, m.f(self._copies[name] + record), value) if name in self._copies else value

        return replace(s, attribute=attribute)

    def release(self, m: Memory, ref: ir.Ref, s: Scope, owner: Any, stmt: Any) -> None:
        """`release` without a hold around it: the session's oldest lease of that pool ends."""
        wanted = [k for k, part in enumerate(self.parts) if part.name == ref.name]
        if not wanted:
            return
        members = self.context.pools[ref.name].members
        i = self.context.index(ref, members, s, stmt)

        def another(record: Any) -> Any:
            return (record != 0) & ~self._is(m, record, wanted, i if members > 1 else None)

        first = m.u(self.context.core.su(owner, self._first))
        (record,) = m.loop(another, lambda record: (m.u(self._next + record),), (first,))
        m.when(record != 0, lambda: self._end(m, record, s))

    def _is(self, m: Memory, record: Any, wanted: Sequence[int], i: Any) -> Any:
        part, found = m.u(self._part + record), m.full(False, np.bool_)
        for k in wanted:
            found = found | (part == k)
        return found if i is None else found & (m.u(self._member + record) == as_u32(i))

    def end_all(self, m: Memory, s: Scope, owner: Any) -> None:
        """The session ends."""
        if not self.parts:
            return
        first = self.context.core.su(owner, self._first)

        def end_first() -> tuple[Any, ...]:
            self._end(m, m.u(first), s)
            return ()

        m.loop(lambda: m.u(first) != 0, end_first)

    def pass_on(self, m: Memory, leg: Any, session: Any) -> None:
        """A leg ends: its leases are the session's from now on."""
        if not self.parts:
            return
        first = self.context.core.su(leg, self._first)

        def hand_over() -> tuple[Any, ...]:
            record = m.u(first)
            m.setu(first, m.u(self._next + record))
            m.setu(self._next + record, ZERO)
            m.setu(self._owner + record, session)
            self._append(m, session, record)
            if self._passed is not None:
                m.setu(self._passed + record, U32(1))
            for name, copy in self._copies.items():
                m.setf(copy + record, self.context.get(m, leg, name))

            def count(part: Part) -> None:
                i = m.u(self._member + record) if part.pool.members > 1 else 0
                self.holds.discount_holder(m, part.name, leg, i)
                self.holds.count_holder(m, part.name, session, i)

            self._by_part(m, record, count)
            return ()

        m.loop(lambda: m.u(first) != 0, hand_over)

    def each_that_expires(self, m: Memory, body: Callable[[str, Any], None]) -> None:
        """`body(pool, member)` for every lease that ends by itself."""
        if not self.parts:
            return
        last = m.u(self._fresh)

        def look(record: Any) -> tuple[Any]:
            def found(part: Part) -> None:
                body(part.name, m.u(self._member + record) if part.pool.members > 1 else 0)

            m.when(m.f(self._seq + record) >= 0, lambda: self._by_part(m, record, found))
            return (record + ONE,)

        m.loop(lambda record: record <= last, look, (m.full(1, U32),))

    def _by_part(self, m: Memory, record: Any, body: Callable[[Part], None]) -> None:
        if len(self.parts) == 1:
            body(self.parts[0])
        else:
            m.switch(m.u(self._part + record), {k: partial(body, part) for k, part in enumerate(self.parts)})

    def due(self, m: Memory) -> tuple[Any, Any]:
        return self.expiries.time(m), self.expiries.seq(m)

    def expire(self, m: Memory) -> None:
        """Handle the next expiry; one whose lease has ended before does nothing."""
        context = self.context
        seq = self.expiries.seq(m)
        record = self.expiries.pop(m)

        def over() -> None:
            owner = m.u(self._owner + record)
            s = context.scope(m, owner)
            s.draws = context.prefetch.single(m, owner)
            self._end(m, record, s)
            context.prefetch.session_used(m, owner, s.draws)
            m.setu(context.core.dirty, U32(1))

        m.when(m.f(self._seq + record) == seq, over)

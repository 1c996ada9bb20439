"""Processor sharing: all jobs present run at the same rate, capacity over population.

One virtual time per member, the service attained by a job that has been there always; a job ends
when it has passed the virtual time of its arrival plus its work. A change of the population
schedules a new finish once the instant has settled. The superseded one stays in the event queue:
it is popped and counted when its time comes, like the reference's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .core import OVERFLOW_STALE, Core
from .heap import Heap
from .memory import Memory
from .ops import greater
from .ring import ONE, member
from .stages import Stage, Uses

Capacity = Callable[[Memory, Any], Any]


class PsStage(Stage):
    """`capacity(m, present)` is evaluated whenever the population has changed. `stale`: superseded
    events that are pending."""

    waits = False
    lists = False

    def __init__(self, core: Core, name: str, uses: Uses, stale: int, capacity: Capacity):
        super().__init__(core, name, uses)
        self._capacity = capacity
        members, f, u = uses.members, core.layout.f, core.layout.u
        self._heap = Heap(core.layout, f"{name}.jobs", core.slots, members)
        # An event's slot is its member; it counts while its sequence number is the member's last.
        self._events = Heap(core.layout, f"{name}.events", stale + members)
        self._virtual, self._since, self._rate, self._due = (
            f(f"{name}.{what}", members) for what in ("virtual", "since", "rate", "due")
        )
        self._order = f(f"{name}.order")
        self._changed = u(f"{name}.changed", members)
        self._any_changed = u(f"{name}.any_changed") if members > 1 else self._changed

    def clear(self, m: Memory) -> None:
        self._heap.clear(m)
        self._events.clear(m)

    def due(self, m: Memory) -> tuple[Any, Any]:
        return self._events.time(m), self._events.seq(m)

    def _gained(self, m: Memory, i: Any) -> Any:
        """Virtual time since it was last carried on."""
        return m.opaque((m.f(self.core.now) - m.f(member(self._since, i))) * m.f(member(self._rate, i)))

    def _attain(self, m: Memory, i: Any) -> Any:
        """Carry the virtual time to now; returns it."""
        gained = self._gained(m, i)
        m.setf(member(self._since, i), m.f(self.core.now))
        return m.addf(member(self._virtual, i), gained)

    def _note_change(self, m: Memory, i: Any) -> None:
        m.setu(member(self._changed, i), ONE)
        if self.members > 1:
            m.setu(self._any_changed, ONE)

    def begin(self, m: Memory, slot: Any, work: Any, i: Any) -> None:
        self.enter(m, slot, work, i)
        order = m.f(self._order)
        m.setf(self._order, order + 1.0)
        self._heap.push(m, self._attain(m, i) + work, order, slot, i)
        self._note_change(m, i)

    def finish(self, m: Memory) -> Any:
        seq = self._events.seq(m)
        which = self._events.pop(m)
        i = which if self.members > 1 else 0

        def job_ends() -> tuple[Any]:
            virtual = self._attain(m, i)
            m.setf(member(self._virtual, i), greater(virtual, self._heap.time(m, i)))
            slot = self._heap.pop(m, i)
            self.leave(m, slot, i)
            self._note_change(m, i)
            return (slot,)

        (slot,) = m.when(seq == m.f(member(self._due, i)), job_ends, (m.full(0, np.uint32),))
        return slot

    def remove(self, m: Memory, slot: Any) -> None:
        i = self.member_of(m, slot)
        self._attain(m, i)
        self._heap.remove(m, slot, i)
        self.depart(m, slot, i)
        self._note_change(m, i)

    def work(self, m: Memory, i: Any) -> Any:
        attained = m.f(member(self._virtual, i)) + self._gained(m, i)
        return self._heap.total(m, lambda end: end - attained, i)

    def settle(self, m: Memory) -> None:
        if self.members == 1:
            m.when(m.u(self._changed) != 0, lambda: self._reschedule(m, 0))
            return

        def each(i: Any) -> tuple[Any]:
            m.when(m.u(member(self._changed, i)) != 0, lambda: self._reschedule(m, i))
            return (i + ONE,)

        def all_members() -> None:
            m.setu(self._any_changed, np.uint32(0))
            m.loop(lambda i: i < np.uint32(self.members), each, (m.full(0, np.uint32),))

        m.when(m.u(self._any_changed) != 0, all_members)

    def _reschedule(self, m: Memory, i: Any) -> None:
        """The finish that was scheduled is void; another one takes its place if a job is left."""
        m.setu(member(self._changed, i), np.uint32(0))
        m.setf(member(self._due, i), 0.0)
        m.setf(member(self._rate, i), 0.0)
        present = self.present(m, i)
        m.when(present > 0, lambda: self._serve(m, present, i))

    def _serve(self, m: Memory, present: Any, i: Any) -> None:
        """The rate from now on, and the finish of the job that ends first."""
        capacity = self._capacity(m, present)
        # The quotient is rounded before it divides.
        rate = m.opaque(capacity / present)
        m.setf(member(self._rate, i), rate)
        # Rounding may carry the virtual time past jobs that end together: they end now.
        left = greater(self._heap.time(m, i) - m.f(member(self._virtual, i)), 0.0)
        time = m.f(self.core.now) + left / rate

        def schedule() -> None:
            seq = self.core.next_seq(m)
            m.setf(member(self._due, i), seq)
            full = self._events.full(m)
            self.core.stop(m, full, OVERFLOW_STALE)
            m.when(~full, lambda: self._events.push(m, time, seq, i if self.members > 1 else np.uint32(0)))

        # What comes after the horizon never happens.
        m.when((capacity > 0) & (time <= m.f(self.core.horizon)), schedule)

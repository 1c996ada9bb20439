"""Processor sharing: all jobs present run at the same rate, capacity over population.

One virtual time per stage, the service attained by a job that has been there always; a job ends
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
from .ops import greater, where
from .stages import Stage

Capacity = Callable[[Memory, Any], Any]


class PsStage(Stage):
    """`capacity(m, present)` is evaluated whenever the population has changed."""

    waits = False

    def __init__(self, core: Core, name: str, capacity: Capacity, pending: int):
        super().__init__(core, name)
        self._capacity = capacity
        self._jobs = Heap(core.layout, f"{name}.jobs", core.slots)
        self._events = Heap(core.layout, f"{name}.events", pending)
        f, u = core.layout.f, core.layout.u
        self._virtual, self._since, self._rate = f(f"{name}.virtual"), f(f"{name}.since"), f(f"{name}.rate")
        self._order = f(f"{name}.order")
        self._version, self._changed = u(f"{name}.version"), u(f"{name}.changed")

    def clear(self, m: Memory) -> None:
        self._jobs.clear(m)
        self._events.clear(m)

    def due(self, m: Memory) -> tuple[Any, Any]:
        return m.f(self._events.root), m.f(self._events.root + 1)

    def _attain(self, m: Memory) -> Any:
        """Carry the virtual time to now; returns it."""
        now = m.f(self.core.now)
        gained = self.core.mul(m, now - m.f(self._since), m.f(self._rate))
        m.setf(self._since, now)
        return m.addf(self._virtual, gained)

    def begin(self, m: Memory, slot: Any, work: Any) -> None:
        self.enter(m, slot)
        order = m.f(self._order)
        m.setf(self._order, order + 1.0)
        self._jobs.push(m, self._attain(m) + work, order, slot)
        m.setu(self._changed, np.uint32(1))

    def finish(self, m: Memory) -> Any:
        version = self._events.pop(m)

        def job_ends() -> tuple[Any]:
            virtual = self._attain(m)
            m.setf(self._virtual, greater(virtual, m.f(self._jobs.root)))
            slot = self._jobs.pop(m)
            self.leave(m, slot)
            m.setu(self._changed, np.uint32(1))
            return (slot,)

        (slot,) = m.when(version == m.u(self._version), job_ends, (m.full(0, np.uint32),))
        return slot

    def settle(self, m: Memory) -> None:
        def reschedule() -> None:
            m.setu(self._changed, np.uint32(0))
            version = m.addu(self._version, 1)
            present = self.present(m)
            capacity = self._capacity(m, present)
            # The quotient is rounded before it divides: + nz keeps XLA from merging the divisions.
            rate = capacity / greater(present, 1.0) + m.f(self.core.nz)
            m.setf(self._rate, where(present > 0, rate, 0.0))
            # Rounding may carry the virtual time past jobs that end together: they end now.
            left = greater(m.f(self._jobs.root) - m.f(self._virtual), 0.0)
            time = m.f(self.core.now) + left / rate

            def schedule() -> None:
                self.core.stop(m, self._events.full(m), OVERFLOW_STALE)
                m.when(
                    ~self._events.full(m),
                    lambda: self._events.push(m, time, self.core.next_seq(m), version),
                )

            m.when((present > 0) & (capacity > 0), schedule)

        m.when(m.u(self._changed) != 0, reschedule)

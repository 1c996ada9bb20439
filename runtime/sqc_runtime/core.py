"""The core of a lane: clock, session slots, ready queue, status, time averages.

Registers live at fixed addresses of the two banks. Counters are doubles (exact to 2^53), so that a
lane has no counter that wraps.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import numpy as np

from .memory import Layout, Memory
from .ops import where
from .ring import Ring, member

INF = np.inf
ONE = np.uint32(1)

RUNNING, DONE = 0, 1
OVERFLOW_SESSIONS, OVERFLOW_ENTRIES, OVERFLOW_STALE, OVERFLOW_SAMPLES, OVERFLOW_VALUES = 2, 3, 4, 5, 6
OVERFLOWS = {
    OVERFLOW_SESSIONS: "sessions",
    OVERFLOW_ENTRIES: "entries",
    OVERFLOW_STALE: "stale",
    OVERFLOW_SAMPLES: "samples",
    OVERFLOW_VALUES: "values",
}
FIRST_ERROR = 16
"""Statuses from here on are run-time errors; their meaning is the compiler's."""

READY_LIMIT = 1000
"""How often one session may become ready at one instant."""


class Signals:
    """Piecewise constant signals and their time integrals since the warm-up.

    All signals stand side by side, so a few vector instructions carry every integral to the next
    instant; intermediate states within an instant have no weight. Of the first `counts` signals
    (numbers present), the time with at least one is integrated as well. Each signal has as many
    neighbouring members as the resource it belongs to.
    """

    def __init__(self, counts: Mapping[str, int], others: Mapping[str, int], layout: Layout):
        sizes = {**counts, **others}
        first = accumulate(sizes.values(), initial=0)
        self._index = dict(zip(sizes, first, strict=False))
        self._width = _whole_vectors(sum(sizes.values()))
        self._busy_width = _whole_vectors(sum(counts.values()))
        self._values = layout.f("signal.values", self._width)
        self._areas = layout.f("signal.areas", self._width + self._busy_width)

    def at(self, name: str, i: Any = 0) -> Any:
        """The address of a signal's present value."""
        return member(self._values + self._index[name], i)

    def advance(self, m: Memory, dt: Any) -> None:
        step = m.spread(dt, _VECTOR)
        nothing = m.spread(m.full(0.0, np.float64), _VECTOR)
        for start in range(0, self._width, _VECTOR):
            values = m.load_n("f", self._values + start, _VECTOR)
            at = self._areas + start
            m.store_n("f", at, m.load_n("f", at, _VECTOR) + values * step)
            if start < self._busy_width:
                at += self._width
                m.store_n("f", at, m.load_n("f", at, _VECTOR) + where(values > 0, step, nothing))

    def reset(self, m: Memory) -> None:
        nothing = m.spread(m.full(0.0, np.float64), _VECTOR)
        for start in range(0, self._width + self._busy_width, _VECTOR):
            m.store_n("f", self._areas + start, nothing)

    def area(self, m: Memory, name: str, i: int = 0) -> Any:
        return m.f(self._areas + self._index[name] + i)

    def busy(self, m: Memory, name: str, i: int = 0) -> Any:
        """Time with at least one present."""
        return m.f(self._areas + self._width + self._index[name] + i)


_VECTOR = 4
"""Signals that one vector instruction carries on."""


def _whole_vectors(count: int) -> int:
    return -(-count // _VECTOR) * _VECTOR


class Core:
    """Registers and the operations every program needs."""

    def __init__(self, layout: Layout, slots: int, guard_instants: bool):
        self.layout = layout
        self.slots = slots
        self.guard_instants = guard_instants
        f, u = layout.f, layout.u
        self.now, self.seq, self.horizon, self.warmup = f("now"), f("seq"), f("horizon"), f("warmup")
        self.limit, self.warm = f("arrival.limit"), f("warm")
        self.warmup_due = f("warmup.due")
        self.events, self.arrivals, self.ended, self.turns = f("events"), f("arrivals"), f("ended"), f("turns")
        self.others = f("slots.others")
        """Slots in use that are no live sessions: legs, jobs for which nobody waits."""
        self.status, self.error, self.current, self.actor = u("status"), u("error"), u("current"), u("actor")
        self.births, self.dirty, self.serve_now = u("births"), u("serve.dirty"), u("serve.now")
        self.init_due, self.schedule_due, self.arrival_at = u("init.due"), u("arrival.due"), u("arrival.at")
        self.steps = u("instant.steps")
        self.ready_queue = Ring(layout, "ready", slots)
        self._free, self._free_top = u("slots.free", slots + 1), u("slots.free_top")
        self.fresh = u("slots.fresh")
        """The highest slot that was ever used."""
        self.scratch, self.scratch_f = u("scratch"), f("scratch.f")
        self.pc = layout.field("u", "pc")
        self.turn_count = layout.field("u", "turns")
        self.serial, self.turn_no = layout.field("f", "serial"), layout.field("f", "turn_no")
        self.turn_start = layout.field("f", "turn.start")
        if guard_instants:
            self._ready_count = layout.field("u", "ready.count")
            self._ready_time = layout.field("f", "ready.time")
        self.signals: Signals

    # -- slots
    def sf(self, slot: Any, field: int) -> Any:
        """The address of a float field of a slot."""
        return self.layout.slot("f", slot, field)

    def su(self, slot: Any, field: int) -> Any:
        return self.layout.slot("u", slot, field)

    def allocate(self, m: Memory) -> Any:
        """A free slot (0 and an overflow status when there is none)."""
        top, fresh = m.u(self._free_top), m.u(self.fresh)
        reuse = top > 0
        slot = where(reuse, m.u(self._free + top), fresh + ONE)
        over = ~reuse & (fresh >= self.slots)
        m.setu(self._free_top, top - reuse.astype(np.uint32))
        m.setu(self.fresh, fresh + (~reuse & ~over).astype(np.uint32))
        self.stop(m, over, OVERFLOW_SESSIONS)
        return where(over, np.uint32(0), slot)

    def free_count(self, m: Memory) -> Any:
        """Slots that were used and are free."""
        return m.u(self._free_top)

    def release(self, m: Memory, slot: Any) -> None:
        top = m.addu(self._free_top, 1)
        m.setu(self._free + top, slot)

    # -- status
    def stop(self, m: Memory, test: Any, status: int) -> None:
        """Set the status if `test` and the lane still runs."""

        def set_status() -> None:
            m.update("u", self.status, lambda old: where(old == RUNNING, np.uint32(status), old))

        m.when(test, set_status)

    def fail(self, m: Memory, test: Any, error: int, statement: int) -> None:
        """End the lane with a run-time error of a statement, if `test`. The first error counts.

        The lane stops after the present step: the time of the error is the clock's, the session the
        one that acted last.
        """
        packed = np.uint32(statement << 8 | FIRST_ERROR + error)

        def note() -> None:
            m.update("u", self.error, lambda old: where(old == 0, packed, old))

        m.when(test, note)

    def running(self, m: Memory) -> Any:
        return (m.u(self.status) | m.u(self.error)) == RUNNING

    # -- ready queue
    def push_ready(self, m: Memory, slot: Any) -> None:
        self.ready_queue.push(m, slot)

    def guard(self, m: Memory) -> None:
        """Bound how often a session becomes ready at one instant.

        Only once there were that many steps at an instant are sessions counted one by one.
        """
        if not self.guard_instants:
            return
        steps = m.addu(self.steps, 1)

        def count_current() -> None:
            slot, now = m.u(self.current), m.f(self.now)
            at, counter = self.sf(slot, self._ready_time), self.su(slot, self._ready_count)
            count = where(m.f(at) == now, m.u(counter), np.uint32(0)) + ONE
            m.setf(at, now)
            m.setu(counter, count)
            m.setu(self.actor, slot)
            self.fail(m, count > READY_LIMIT, 0, 0)

        m.when((steps > READY_LIMIT) & (m.u(self.current) != 0), count_current)

    def ready(self, m: Memory) -> Any:
        return self.ready_queue.any(m)

    def pop_ready(self, m: Memory, test: Any) -> None:
        """Make the next ready session current, if `test` and there is one."""
        m.when(test & self.ready(m), lambda: m.setu(self.current, self.ready_queue.pop(m)))

    # -- arithmetic and time
    def next_seq(self, m: Memory) -> Any:
        return m.addf(self.seq, 1.0)

    def advance(self, m: Memory, time: Any) -> None:
        if self.guard_instants:
            moved = time > m.f(self.now)
            m.update("u", self.steps, lambda old: where(moved, np.uint32(0), old))
        self.signals.advance(m, time - m.f(self.now))
        m.setf(self.now, time)

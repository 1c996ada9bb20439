"""The core of a lane: clock, session slots, ready queue, status, time averages.

Registers live at fixed addresses of the two banks. Counters are doubles (exact to 2^53), so that a
lane has no counter that wraps.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from .memory import Layout, Memory
from .ops import where

INF = np.inf
ONE = np.uint32(1)

RUNNING, DONE = 0, 1
OVERFLOW_SESSIONS, OVERFLOW_ENTRIES, OVERFLOW_STALE, OVERFLOW_SAMPLES = 2, 3, 4, 5
OVERFLOWS = {
    OVERFLOW_SESSIONS: "sessions",
    OVERFLOW_ENTRIES: "entries",
    OVERFLOW_STALE: "stale",
    OVERFLOW_SAMPLES: "samples",
}
FIRST_ERROR = 16
"""Statuses from here on are run-time errors; their meaning is the compiler's."""

READY_LIMIT = 1000
"""How often one session may become ready at one instant."""


class Signals:
    """Piecewise constant signals and their time integrals since the warm-up.

    All signals stand side by side, so a few vector instructions carry every integral to the next
    instant; intermediate states within an instant have no weight. Of the first `counts` signals
    (numbers present), the time with at least one is integrated as well.
    """

    def __init__(self, counts: list[str], others: list[str], layout: Layout):
        names = [*counts, *others]
        self._index = {name: i for i, name in enumerate(names)}
        self._busy = {name: i for i, name in enumerate(counts)}
        self._width = -(-len(names) // 4) * 4
        self._busy_width = -(-len(counts) // 4) * 4
        self._values = layout.size["f"]
        for i in range(self._width):
            layout.f(f"signal.{names[i] if i < len(names) else i}")
        self._areas = layout.f("signal.areas", self._width + self._busy_width)

    def at(self, name: str) -> int:
        """The address of a signal's present value."""
        return self._values + self._index[name]

    def advance(self, m: Memory, dt: Any) -> None:
        def areas() -> tuple[Any]:
            values = m.load_n("f", self._values, self._width)
            step = jnp.expand_dims(jnp.asarray(dt), -1)
            gained = values * step
            if self._busy_width:
                busy = jnp.where(values[..., : self._busy_width] > 0, step, 0.0)
                gained = jnp.concatenate([gained, busy], axis=-1)
            return (m.load_n("f", self._areas, self._width + self._busy_width) + gained,)

        (after,) = m.reading(areas)
        m.store_n("f", self._areas, after)

    def reset(self, m: Memory) -> None:
        m.store_n("f", self._areas, jnp.zeros(self._width + self._busy_width))

    def area(self, m: Memory, name: str) -> Any:
        return m.f(self._areas + self._index[name])

    def busy(self, m: Memory, name: str) -> Any:
        """Time with at least one present."""
        return m.f(self._areas + self._width + self._busy[name])


class Core:
    """Registers and the operations every program needs."""

    def __init__(self, layout: Layout, slots: int, guard_instants: bool):
        self.layout = layout
        self.slots = slots
        self.guard_instants = guard_instants
        f, u = layout.f, layout.u
        self.now, self.seq, self.horizon, self.warmup = f("now"), f("seq"), f("horizon"), f("warmup")
        self.limit, self.warm, self.nz = f("arrival.limit"), f("warm"), f("nz")
        self.warmup_due = f("warmup.due")
        self.events, self.arrivals, self.ended, self.turns = f("events"), f("arrivals"), f("ended"), f("turns")
        self.live = f("live")
        # Registers that every step reads stand side by side.
        self._step_first = layout.size["u"]
        self.status, self.error, self.current, self.actor = u("status"), u("error"), u("current"), u("actor")
        self.ready_head, self.ready_tail = u("ready.head"), u("ready.tail")
        self.births, self.dirty, self.serve_now = u("births"), u("serve.dirty"), u("serve.now")
        self.init_due, self.schedule_due, self.arrival_at = u("init.due"), u("arrival.due"), u("arrival.at")
        self.steps = u("instant.steps")
        self._step_count = layout.size["u"] - self._step_first
        self._ring = 1 << (slots + 1).bit_length()
        self._ready = u("ready.ring", self._ring)
        self._free, self._free_top, self._fresh = u("slots.free", slots + 1), u("slots.free_top"), u("slots.fresh")
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
        return self.layout.slot("f", slot) + np.uint32(field)

    def su(self, slot: Any, field: int) -> Any:
        return self.layout.slot("u", slot) + np.uint32(field)

    def allocate(self, m: Memory) -> Any:
        """A free slot (0 and an overflow status when there is none)."""
        top, fresh = m.u(self._free_top), m.u(self._fresh)
        reuse = top > 0
        slot = where(reuse, m.u(self._free + top), fresh + ONE)
        over = ~reuse & (fresh >= self.slots)
        m.setu(self._free_top, top - reuse.astype(np.uint32))
        m.setu(self._fresh, fresh + (~reuse & ~over).astype(np.uint32))
        self.stop(m, over, OVERFLOW_SESSIONS)
        return where(over, np.uint32(0), slot)

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
        m.update("u", self.error, lambda old: where(test & (old == 0), packed, old))

    def running(self, m: Memory) -> Any:
        return (m.u(self.status) | m.u(self.error)) == RUNNING

    # -- ready queue
    def push_ready(self, m: Memory, slot: Any) -> None:
        tail = m.u(self.ready_tail)
        m.setu(self._ready + (tail & np.uint32(self._ring - 1)), slot)
        m.setu(self.ready_tail, tail + ONE)

    def begin_step(self, m: Memory) -> None:
        """Load what every step reads."""
        m.preload("u", self._step_first, self._step_count)

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
        return m.u(self.ready_head) != m.u(self.ready_tail)

    def pop_ready(self, m: Memory, test: Any) -> None:
        """Make the next ready session current, if `test` and there is one."""
        head, current = m.u(self.ready_head), m.u(self.current)
        test = test & (head != m.u(self.ready_tail))
        first = m.u(np.uint32(self._ready) + (head & np.uint32(self._ring - 1)))
        m.setu(self.ready_head, head + test.astype(np.uint32))
        m.setu(self.current, where(test, first, current))

    # -- arithmetic and time
    def mul(self, m: Memory, x: Any, y: Any) -> Any:
        """`x * y`, rounded once. XLA contracts a product that feeds a sum; adding a run-time -0.0
        leaves the value as it is and takes that freedom away."""
        return x * y + m.f(self.nz)

    def next_seq(self, m: Memory) -> Any:
        return m.addf(self.seq, 1.0)

    def advance(self, m: Memory, time: Any) -> None:
        if self.guard_instants:
            moved = time > m.f(self.now)
            m.update("u", self.steps, lambda old: where(moved, np.uint32(0), old))
        self.signals.advance(m, time - m.f(self.now))
        m.setf(self.now, time)

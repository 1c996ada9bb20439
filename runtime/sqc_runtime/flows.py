"""Flows: jobs that hold several stages of constant capacity at once, and share them with each other.

The stages that any flow holds are shared for all their jobs. Whenever a flow started or ended, the
rates of all are computed anew at the end of the instant, and the finish of the one that ends first
is scheduled. The superseded finish stays in the event queue: it is popped and counted when its time
comes, like the reference's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from .core import INF, OVERFLOW_STALE, Core
from .heap import Heap
from .memory import Memory
from .ops import as_u32, lesser, where
from .ring import ONE, member
from .stages import Stage, Uses

U32 = np.uint32


class SharedStage(Stage):
    """A stage that flows hold; a job of this stage alone is a flow as well. Its part of the rates
    and of the times is `flows`'. `capacity(m)` is evaluated when the run starts."""

    waits = False
    lists = False

    def __init__(self, core: Core, name: str, uses: Uses, capacity: Callable[[Memory], Any], flows: Flows):
        super().__init__(core, name, uses)
        layout, members = core.layout, uses.members
        self.flows = flows
        self._evaluate = capacity
        self.capacity = layout.f(f"{name}.capacity")
        self._at_member = layout.field("u", f"{name}.at")
        """Of a slot: the member it holds plus one, 0 if none."""
        self.left, self.rising = layout.f(f"{name}.left", members), layout.f(f"{name}.rising", members)
        """While rates are computed: what is left of the capacity, and the jobs whose rate is open."""

    def clear(self, m: Memory) -> None:
        m.setf(self.capacity, self._evaluate(m))

    @staticmethod
    def signal_name(name: str) -> str:
        """The signal of the part of the capacity that its jobs carry."""
        return f"{name}.carried"

    def carried(self, i: Any) -> Any:
        """The address of the part of a member's capacity that its jobs carry."""
        return self.core.signals.at(self.signal_name(self.name), i)

    def begin(self, m: Memory, slot: Any, work: Any, i: Any) -> None:
        self.flows.begin(m, slot, work, [(self, i)])

    def remove(self, m: Memory, slot: Any) -> None:
        self.flows.remove(m, slot)

    def work(self, m: Memory, i: Any) -> Any:
        return self.flows.work(m, self, i)

    def busy_time(self, m: Memory, i: int) -> Any:
        return self.core.signals.area(m, self.signal_name(self.name), i)

    # -- who holds it
    def hold(self, m: Memory, slot: Any, i: Any) -> None:
        m.setu(self.core.su(slot, self._at_member), U32(i + 1) if isinstance(i, int) else i + ONE)

    def held(self, m: Memory, slot: Any) -> Any:
        """The member that the session's job holds plus one, 0 if none."""
        return m.u(self.core.su(slot, self._at_member))

    def here(self, held: Any) -> Any:
        """The member, of a `held` that is not 0."""
        return 0 if self.members == 1 else held - ONE

    def if_held(self, m: Memory, slot: Any, body: Callable[[Any], None]) -> None:
        """`body(i)` where the session's job holds member i."""
        held = self.held(m, slot)
        m.when(held != 0, lambda: body(self.here(held)))

    def let_go(self, m: Memory, slot: Any) -> None:
        m.setu(self.core.su(slot, self._at_member), U32(0))

    def each(self, m: Memory, body: Callable[[Any], None]) -> None:
        """`body(i)` for every member, in order."""
        if self.members == 1:
            body(0)
            return

        def step(i: Any) -> tuple[Any]:
            body(i)
            return (i + ONE,)

        m.loop(lambda i: i < U32(self.members), step, (m.full(0, U32),))


class Flows:
    """All flows of a program, in the order in which they started. `fill` is progressive filling
    (max-min fair rates), else a flow's tightest stage sets its rate."""

    def __init__(self, core: Core, fill: bool, stale: int):
        self.core, self._fill = core, fill
        self.stages: list[SharedStage] = []
        """In order of declaration."""
        layout = core.layout
        self._list, self._count = layout.u("flows.list", core.slots + 1), layout.u("flows.count")
        self._left, self._rate = layout.field("f", "flow.left"), layout.field("f", "flow.rate")
        self._open = layout.field("u", "flow.open") if fill else None
        self._since, self._due = layout.f("flows.since"), layout.f("flows.due")
        self._changed = layout.u("flows.changed")
        self._events = Heap(layout, "flows.events", stale + 1)

    # -- an event source, like a stage
    def clear(self, m: Memory) -> None:
        self._events.clear(m)

    def due(self, m: Memory) -> tuple[Any, Any]:
        return self._events.time(m), self._events.seq(m)

    def begin(self, m: Memory, slot: Any, work: Any, held: Sequence[tuple[SharedStage, Any]]) -> None:
        """A job of `work` > 0 of this session holds these members from now on."""
        count = m.u(self._count)
        m.setu(U32(self._list) + count, slot)
        m.setu(self._count, count + ONE)
        m.setf(self.core.sf(slot, self._left), work)
        m.setf(self.core.sf(slot, self._rate), 0.0)
        for stage, i in held:
            stage.enter(m, slot, work, i)
            stage.hold(m, slot, i)
        self._change(m)

    def finish(self, m: Memory) -> Any:
        seq = self._events.seq(m)
        slot = self._events.pop(m)

        def ends() -> tuple[Any]:
            self._end(m, slot, lambda stage, i: stage.leave(m, slot, i))
            return (slot,)

        (ended,) = m.when(seq == m.f(self._due), ends, (m.full(0, U32),))
        return ended

    def remove(self, m: Memory, slot: Any) -> None:
        """The session's job leaves all it holds, unfinished."""
        self._end(m, slot, lambda stage, i: stage.depart(m, slot, i))

    def settle(self, m: Memory) -> None:
        m.when(m.u(self._changed) != 0, lambda: self._reschedule(m))

    def work(self, m: Memory, stage: SharedStage, i: Any) -> Any:
        """What is left of all jobs that hold this member."""
        i = as_u32(i)
        gone, count = m.f(self.core.now) - m.f(self._since), m.u(self._count)

        def add(k: Any, total: Any) -> tuple[Any, ...]:
            slot = m.u(U32(self._list) + k)
            left = m.f(self.core.sf(slot, self._left)) - m.opaque(gone * m.f(self.core.sf(slot, self._rate)))
            return k + ONE, where(stage.held(m, slot) == i + ONE, total + left, total)

        return m.loop(lambda k, _total: k < count, add, (m.full(0, U32), m.full(-0.0, np.float64)))[1]

    # -- bookkeeping
    def _each(self, m: Memory, body: Callable[[Any], None]) -> None:
        """`body(slot)` for every flow, in the order in which they started."""
        count = m.u(self._count)

        def step(k: Any) -> tuple[Any]:
            body(m.u(U32(self._list) + k))
            return (k + ONE,)

        m.loop(lambda k: k < count, step, (m.full(0, U32),))

    def _change(self, m: Memory) -> None:
        m.setu(self._changed, ONE)

    def _end(self, m: Memory, slot: Any, off: Callable[[SharedStage, Any], None]) -> None:
        for stage in self.stages:
            stage.if_held(m, slot, partial(off, stage))
            stage.let_go(m, slot)
        cells, last = U32(self._list), m.u(self._count) - ONE
        m.setu(self._count, last)
        (place,) = m.loop(lambda k: m.u(cells + k) != slot, lambda k: (k + ONE,), (m.full(0, U32),))

        def close(k: Any) -> tuple[Any]:
            m.setu(cells + k, m.u(cells + k + ONE))
            return (k + ONE,)

        m.loop(lambda k: k < last, close, (place,))
        self._change(m)

    # -- rates
    def _reschedule(self, m: Memory) -> None:
        """What was done since the last change, the new rates, and the next finish."""
        core = self.core
        now = m.f(core.now)
        gone = now - m.f(self._since)
        m.setu(self._changed, U32(0))
        m.setf(self._since, now)
        m.setf(self._due, 0.0)

        def carry(slot: Any) -> None:
            left = m.f(core.sf(slot, self._left)) - m.opaque(gone * m.f(core.sf(slot, self._rate)))
            m.setf(core.sf(slot, self._left), where(left > 0, left, 0.0))

        self._each(m, carry)
        if self._fill:
            self._fill_up(m)
        else:
            self._each(m, lambda slot: self._tightest(m, slot))
        for stage in self.stages:
            self._measure(m, stage)
        time, slot = self._first(m)

        def schedule() -> None:
            seq = core.next_seq(m)
            m.setf(self._due, seq)
            full = self._events.full(m)
            core.stop(m, full, OVERFLOW_STALE)
            m.when(~full, lambda: self._events.push(m, time, seq, slot))

        # What comes after the horizon never happens.
        m.when((slot != 0) & (time <= m.f(core.horizon)), schedule)

    def _first(self, m: Memory) -> tuple[Any, Any]:
        """The flow that ends first, the one that started first among equals, and when (slot 0: none ends)."""
        now, count = m.f(self.core.now), m.u(self._count)

        def compare(k: Any, time: Any, first: Any) -> tuple[Any, ...]:
            slot = m.u(U32(self._list) + k)
            rate = m.f(self.core.sf(slot, self._rate))
            end = now + m.opaque(m.f(self.core.sf(slot, self._left)) / rate)
            sooner = end < time
            return k + ONE, where(sooner, end, time), where(sooner, slot, first)

        start = (m.full(0, U32), m.full(INF, np.float64), m.full(0, U32))
        _, time, slot = m.loop(lambda k, *_: k < count, compare, start)
        return time, slot

    def _tightest(self, m: Memory, slot: Any) -> None:
        """A flow's rate: the least share, capacity over jobs present, of what it holds."""
        rate = self.core.sf(slot, self._rate)
        m.setf(rate, INF)

        def bound(stage: SharedStage, i: Any) -> None:
            share = m.opaque(m.f(stage.capacity) / stage.present(m, i))
            m.update("f", rate, lambda old: lesser(share, old))

        for stage in self.stages:
            stage.if_held(m, slot, partial(bound, stage))

    def _fill_up(self, m: Memory) -> None:
        """Progressive filling: the stage with the least share left, the first declared among equals,
        sets the rate of its flows; what these carry is taken off everything they hold."""
        core = self.core

        def start(stage: SharedStage, i: Any) -> None:
            m.setf(member(stage.left, i), m.f(stage.capacity))
            m.setf(member(stage.rising, i), stage.present(m, i))

        for stage in self.stages:
            stage.each(m, partial(start, stage))
        assert self._open is not None
        state = self._open
        self._each(m, lambda slot: m.setu(core.su(slot, state), ONE))

        def fix(slot: Any, share: Any, number: Any, which: Any) -> None:
            """Fix a flow's rate if it is open and holds that stage (number 0: in any case)."""
            holds = number == 0
            for n, stage in enumerate(self.stages):
                holds = holds | ((number == n + 1) & (stage.held(m, slot) == which + ONE))

            def take() -> None:
                m.setu(core.su(slot, state), U32(0))
                m.setf(core.sf(slot, self._rate), share)
                for stage in self.stages:
                    stage.if_held(m, slot, partial(take_off, stage))

            def take_off(stage: SharedStage, i: Any) -> None:
                m.addf(member(stage.left, i), -share)
                m.addf(member(stage.rising, i), -1.0)

            m.when(holds & (m.u(core.su(slot, state)) != 0), take)

        def fill(_go: Any) -> tuple[Any]:
            share, number, which = self._least_share(m)
            # Where no share is finite, the flows that are left hold nothing that limits them.
            self._each(m, lambda slot: fix(slot, share, number, which))
            return (number != 0,)

        m.loop(lambda go: go, fill, (m.full(True, np.bool_),))

    def _least_share(self, m: Memory) -> tuple[Any, Any, Any]:
        """The least of capacity left over open flows: the share, the number of the stage from 1
        (0: no share is finite), the member."""
        best: tuple[Any, ...] = (m.full(INF, np.float64), m.full(0, U32), m.full(0, U32))
        for number, stage in enumerate(self.stages, 1):
            count = U32(stage.members)
            compare = partial(self._compare_share, m, stage, number)
            _, *best = m.loop(lambda i, *_, count=count: i < count, compare, (m.full(0, U32), *best))
        share, which_stage, which = best
        return share, which_stage, which

    def _compare_share(
        self, m: Memory, stage: SharedStage, number: int, i: Any, share: Any, best: Any, which: Any
    ) -> tuple[Any, ...]:
        """Member i takes the place of the best so far if its share is less."""
        at = 0 if stage.members == 1 else i
        rising = m.f(member(stage.rising, at))
        own = m.opaque(m.f(member(stage.left, at)) / rising)
        less = (rising > 0) & (own < share)
        return i + ONE, where(less, own, share), where(less, U32(number), best), where(less, i, which)

    def _measure(self, m: Memory, stage: SharedStage) -> None:
        """The part of a stage's capacity that its jobs carry (0 of one without limit)."""
        stage.each(m, lambda i: m.setf(stage.carried(i), 0.0))

        def add(slot: Any) -> None:
            rate = m.f(self.core.sf(slot, self._rate))

            def more(i: Any) -> None:
                m.addf(stage.carried(i), rate)

            stage.if_held(m, slot, more)

        self._each(m, add)
        capacity = m.f(stage.capacity)

        def part(i: Any) -> None:
            m.update("f", stage.carried(i), lambda rate: where(capacity < INF, m.opaque(rate / capacity), 0.0))

        stage.each(m, part)

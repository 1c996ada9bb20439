"""Step stages: residents that share iterations, the batch of the one that runs, their statistics.

Which resident gets how many tokens is the compiler's: it plans an iteration at the end of an instant and
hands over the batch. Here are the lists, the end of an iteration, and what is measured of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .core import INF, Core
from .heap import Heap
from .memory import Memory
from .ops import as_u32, greater, lesser, where
from .ring import ONE, member
from .stages import Stage, Uses
from .tokens import Gaps, Repeats, TokenTimes

ZERO = np.uint32(0)
PREFILL, DECODE = np.uint32(1), np.uint32(2)
DONE = 1e-9
"""Tokens left of a job that is done."""
SIGNALS = ("prefill_only", "decode_only", "mixed", "decodes")


class Planning:
    """The registers of the iteration that is being planned: one at a time in a lane."""

    def __init__(self, core: Core):
        f, u = core.layout.f, core.layout.u
        self.active = u("plan.stage")
        """The number of the stage (0: nothing is being planned)."""
        self.member, self.stamp, self.index = u("plan.member"), u("plan.stamp"), u("plan.index")
        """`stamp`: the number of the attempt. `index`: how many residents have been gone through in their order."""
        self.round = u("plan.round")
        """The number of the statement that serves: each goes once through those that have no tokens yet."""
        self.left, self.budget, self.chunk = f("plan.left"), f("plan.budget"), f("plan.chunk")
        self.preempted, self.admitted = f("plan.preempted"), f("plan.admitted")


class Engine(Stage):
    """Residents lie in the order of their sessions' latest admissions; the batch in that of serving."""

    waits = False
    lists = False

    def __init__(self, core: Core, name: str, uses: Uses, planning: Planning):
        super().__init__(core, name, uses)
        self.planning = planning
        layout, members = core.layout, uses.members
        self._size = core.slots + 1
        self._residents = layout.u(f"{name}.residents", self._size * members)
        self._batch = layout.u(f"{name}.batch", self._size * members)
        self._count, self._batched = layout.u(f"{name}.count", members), layout.u(f"{name}.batched", members)
        self._runs = layout.u(f"{name}.runs", members)
        self._decoders = layout.f(f"{name}.decoders", members)
        self._events = Heap(layout, f"{name}.events", members)
        self.remaining, self.tokens = layout.shared_field("f", "job.remaining"), layout.shared_field("f", "job.tokens")
        self.mode, self.growth = layout.shared_field("u", "job.mode"), layout.shared_field("u", "job.growth")
        """What kind of run it is; which part of a hold grows with it, as the compiler numbers them (0: none)."""
        self.considered, self.joined = (
            layout.shared_field("u", "job.considered"),
            layout.shared_field("u", "job.joined"),
        )
        """The round in which it was gone through, the attempt during or after which it came."""
        self.order = layout.shared_field("f", "job.order")
        self._iterations, self.served = layout.f(f"{name}.iterations", members), layout.f(f"{name}.served", members)
        self._decode_steps, self._decode_sum, self._decode_time = (
            layout.f(f"{name}.decode.{what}", members) for what in ("steps", "sum", "time")
        )
        self._idle = layout.u(f"{name}.idle_with_work", members)
        self._gaps = Gaps(core, name, members)
        self.times: TokenTimes
        """Set when the rows exist."""
        self.take_equal: Callable[[Memory, Any], None] | None = None
        """Set where equal iterations may be taken at once: done at the end of one, while its batch is there."""

    @staticmethod
    def signal_names(name: str) -> list[str]:
        return [f"{name}.{kind}" for kind in SIGNALS]

    def clear(self, m: Memory) -> None:
        self._events.clear(m)

    def due(self, m: Memory) -> tuple[Any, Any]:
        return self._events.time(m), self._events.seq(m)

    # -- residents
    def _cell(self, base: int, k: Any, i: Any) -> Any:
        first = member(base, i, self._size)
        return k + as_u32(first)

    def count(self, m: Memory, i: Any) -> Any:
        """How many residents there are (uint32)."""
        return m.u(member(self._count, i))

    def resident(self, m: Memory, k: Any, i: Any) -> Any:
        """The session in place k, 0 the one admitted first."""
        return m.u(self._cell(self._residents, k, i))

    def decoders(self, m: Memory, i: Any) -> Any:
        """Residents that decode, as a double."""
        return m.f(member(self._decoders, i))

    def decodes(self, m: Memory, slot: Any) -> Any:
        return m.u(self.core.su(slot, self.mode)) == DECODE

    def runs(self, m: Memory, i: Any) -> Any:
        """Whether an iteration is running."""
        return m.u(member(self._runs, i)) != 0

    def in_service(self, m: Memory, i: Any) -> Any:
        running = m.u(member(self._batched, i)).astype(np.float64)
        return where(self.runs(m, i), running, 0.0)

    def work(self, m: Memory, i: Any) -> Any:
        return self.over_residents(m, i, lambda slot: m.f(self.core.sf(slot, self.remaining)))

    def over_residents(self, m: Memory, i: Any, value: Callable[[Any], Any]) -> Any:
        """The sum of a value over the residents, in their order."""
        return self._total(m, self._residents, m.u(member(self._count, i)), i, value)

    def over_batch(self, m: Memory, i: Any, value: Callable[[Any], Any]) -> Any:
        """The sum of a value over the batch."""
        return self._total(m, self._batch, m.u(member(self._batched, i)), i, value)

    def _total(self, m: Memory, base: int, count: Any, i: Any, value: Callable[[Any], Any]) -> Any:
        def add(k: Any, total: Any) -> tuple[Any, Any]:
            return k + ONE, total + value(m.u(self._cell(base, k, i)))

        return m.loop(lambda k, _: k < count, add, (m.full(0, np.uint32), m.full(0.0, np.float64)))[1]

    def least_of_batch(self, m: Memory, i: Any, lesser_of: Callable[[Any, Any], Any]) -> Any:
        """`lesser_of(session, least so far)` over the batch, from +inf, until it is 0 or less."""
        count = m.u(member(self._batched, i))

        def look(k: Any, least: Any) -> tuple[Any, Any]:
            return k + ONE, lesser_of(m.u(self._cell(self._batch, k, i)), least)

        start = (m.full(0, np.uint32), m.full(INF, np.float64))
        return m.loop(lambda k, least: (k < count) & (least > 0), look, start)[1]

    def each_batched(self, m: Memory, i: Any, body: Callable[[Any], None]) -> None:
        """`body` for each session of the batch, in its order (it must leave the batch as it is)."""
        count = m.u(member(self._batched, i))

        def each(k: Any) -> tuple[Any]:
            body(m.u(self._cell(self._batch, k, i)))
            return (k + ONE,)

        m.loop(lambda k: k < count, each, (m.full(0, np.uint32),))

    # -- jobs
    def begin(self, m: Memory, slot: Any, work: Any, i: Any) -> None:
        """A job for which nobody waits: a prefill of a session that has never been admitted."""
        self.join(m, slot, work, i, PREFILL, ZERO, INF)

    def join(self, m: Memory, slot: Any, work: Any, i: Any, mode: Any, growth: Any, order: Any) -> None:
        """A run of `work` tokens arrives, of a session with this number of admission."""
        core = self.core
        self.enter(m, slot, work, i)
        m.setf(core.sf(slot, self.remaining), work)
        m.setf(core.sf(slot, self.tokens), 0.0)
        m.setu(core.su(slot, self.mode), mode)
        m.setu(core.su(slot, self.growth), growth)
        m.setu(core.su(slot, self.considered), ZERO)
        m.setu(core.su(slot, self.joined), m.u(self.planning.stamp))
        m.setf(core.sf(slot, self.order), order)
        m.addf(member(self._decoders, i), 1.0 if int(mode) == int(DECODE) else 0.0)
        end = self.count(m, i)
        mine = m.f(core.sf(slot, self.order))

        def later(k: Any, _before: Any) -> Any:
            return (k > 0) & _before

        def before(k: Any) -> Any:
            last = self.resident(m, greater(k, ONE) - ONE, i)
            return m.f(core.sf(last, self.order)) > mine

        def shift(k: Any, _before: Any) -> tuple[Any, Any]:
            m.setu(self._cell(self._residents, k, i), self.resident(m, k - ONE, i))
            return k - ONE, before(k - ONE)

        place, _ = m.loop(later, shift, (end, before(end)))
        m.setu(self._cell(self._residents, place, i), slot)
        m.setu(member(self._count, i), end + ONE)

    def depart(self, m: Memory, slot: Any, i: Any) -> None:
        super().depart(m, slot, i)
        decoding = self.decodes(m, slot)
        m.addf(member(self._decoders, i), where(decoding, m.full(-1.0, np.float64), 0.0))
        m.setu(self.core.su(slot, self.mode), ZERO)

    def remove(self, m: Memory, slot: Any) -> None:
        """Preempted: the tokens that the iteration being planned had given it are there again."""
        i, plan = self.member_of(m, slot), self.planning
        place = self._take_out(m, self._residents, member(self._count, i), slot, i)
        planned = m.u(plan.active) == np.uint32(self.uses.number)
        if self.members > 1:
            planned = planned & (m.u(plan.member) == i)

        def back() -> None:
            m.update("u", plan.index, lambda index: index - (place < index).astype(np.uint32))
            m.addf(plan.left, m.f(self.core.sf(slot, self.tokens)))

        m.when(planned, back)
        m.when(m.f(self.core.sf(slot, self.tokens)) > 0, lambda: self.unbatch(m, slot, i))
        self.depart(m, slot, i)

    def _take_out(self, m: Memory, base: int, counter: Any, slot: Any, i: Any) -> Any:
        """Close the gap that a session leaves in a list; returns its place."""
        count = m.u(counter)
        start = (m.full(0, np.uint32),)
        (place,) = m.loop(lambda k: (k < count) & (m.u(self._cell(base, k, i)) != slot), lambda k: (k + ONE,), start)

        def close(k: Any) -> tuple[Any]:
            m.setu(self._cell(base, k, i), m.u(self._cell(base, k + ONE, i)))
            return (k + ONE,)

        m.loop(lambda k: k + ONE < count, close, (place,))
        m.setu(counter, count - (place < count).astype(np.uint32))
        return place

    # -- the batch
    def batch(self, m: Memory, slot: Any, tokens: Any, i: Any) -> None:
        """The session gets tokens in the iteration that is being planned."""
        m.setf(self.core.sf(slot, self.tokens), tokens)
        at = member(self._batched, i)
        count = m.u(at)
        m.setu(self._cell(self._batch, count, i), slot)
        m.setu(at, count + ONE)

    def unbatch(self, m: Memory, slot: Any, i: Any) -> None:
        self._take_out(m, self._batch, member(self._batched, i), slot, i)
        m.setf(self.core.sf(slot, self.tokens), 0.0)

    def displace(self, m: Memory, slot: Any, i: Any) -> None:
        """Of the batch only this session stays."""
        tokens = m.f(self.core.sf(slot, self.tokens))
        self.each_batched(m, i, lambda other: m.setf(self.core.sf(other, self.tokens), 0.0))
        m.setu(member(self._batched, i), ZERO)
        self.batch(m, slot, tokens, i)

    def batched(self, m: Memory, i: Any) -> Any:
        """How many sessions are in the batch (uint32)."""
        return m.u(member(self._batched, i))

    def start(self, m: Memory, i: Any, cost: Any, tokens: Any, prefilled: Any, decoders: Any) -> None:
        """The iteration runs from now on."""
        core, now, warm = self.core, m.f(self.core.now), m.f(self.core.warm)
        index = as_u32(i)
        self._events.push(m, now + cost, core.next_seq(m), index)
        m.setu(member(self._runs, i), ONE)
        m.setu(member(self._idle, i), ZERO)
        m.addf(member(self._iterations, i), 1.0)
        m.addf(member(self.served, i), tokens)
        prefills, decodes = prefilled > 0, decoders > 0
        kinds = (prefills & ~decodes, decodes & ~prefills, prefills & decodes)
        for name, kind in zip(SIGNALS[:3], kinds, strict=True):
            m.setf(core.signals.at(f"{self.name}.{name}", i), kind.astype(np.float64))
        m.setf(core.signals.at(f"{self.name}.decodes", i), decoders)
        carried = where(decodes, warm, 0.0)
        m.addf(member(self._decode_steps, i), carried)
        m.addf(member(self._decode_sum, i), carried * decoders)
        m.addf(member(self._decode_time, i), carried * cost)

    def attempt_failed(self, m: Memory, i: Any, work: Any) -> None:
        """Nothing was scheduled; `work`: whether there were residents or waiting requests."""
        m.setu(member(self._idle, i), work.astype(np.uint32))

    def finish(self, m: Memory) -> Any:
        """An iteration ends. Sessions whose jobs are done become ready."""
        core, which = self.core, self._events.pop(m)
        i = which if self.members > 1 else 0

        def end_of_step(slot: Any) -> None:
            left = m.addf(core.sf(slot, self.remaining), -m.f(core.sf(slot, self.tokens)))
            m.setf(core.sf(slot, self.tokens), 0.0)
            decodes, done = self.decodes(m, slot), left <= DONE
            m.when(decodes | done, lambda: self.times.token(m, self, slot, decodes, i))

            def end() -> None:
                self.leave(m, slot, i)
                core.push_ready(m, slot)

            m.when(done, end)

        self.each_batched(m, i, end_of_step)
        if self.take_equal is not None:
            self.take_equal(m, i)
        m.setu(member(self._batched, i), ZERO)
        m.setu(member(self._runs, i), ZERO)
        for name in SIGNALS:
            m.setf(core.signals.at(f"{self.name}.{name}", i), 0.0)
        self._compact(m, i)
        return m.full(0, np.uint32)

    # -- equal iterations at once
    def count_off(self, m: Memory, start: Any, cost: Any, until: Any, most: Any) -> tuple[Any, Any, Any, Any]:
        """How many iterations of this cost end before `until`, `most` at most (a double), when the last one ends,
        and the shortest and the longest time between two ends: the clock is a sum of rounded numbers."""

        def more(count: Any, time: Any, *_: Any) -> Any:
            return (count < most) & (time + cost < until) & (time + cost > time)

        def add(count: Any, time: Any, least: Any, largest: Any) -> tuple[Any, ...]:
            gap = (time + cost) - time
            return count + 1.0, time + cost, lesser(gap, least), greater(gap, largest)

        nothing, never = m.full(0.0, np.float64), m.full(INF, np.float64)
        count, time, least, largest = m.loop(more, add, (nothing, start, never, nothing))
        return count, time, least, largest

    def repeat(self, m: Memory, i: Any, r: Repeats) -> None:
        """The iteration that has just given its tokens, over again: a token for everybody in the batch each time."""
        core = self.core
        decoders = m.u(member(self._batched, i)).astype(np.float64)

        def each(slot: Any) -> None:
            m.addf(core.sf(slot, self.remaining), -r.count)
            self.times.tokens(m, slot, r.count, r.time)

        self.each_batched(m, i, each)
        self._gaps.note_many(m, i, decoders, r)
        m.addf(member(self._iterations, i), r.count)
        m.addf(member(self.served, i), r.count * decoders)
        carried = m.f(core.warm) * r.count
        m.addf(member(self._decode_steps, i), carried)
        m.addf(member(self._decode_sum, i), carried * decoders)
        m.addf(member(self._decode_time, i), carried * r.cost)

    def _compact(self, m: Memory, i: Any) -> None:
        """Close the gaps of those that have left."""
        count = self.count(m, i)

        def move(k: Any, kept: Any) -> tuple[Any, Any]:
            slot = self.resident(m, k, i)
            m.setu(self._cell(self._residents, kept, i), slot)
            stays = m.u(self.core.su(slot, self.mode)) != ZERO
            return k + ONE, kept + stays.astype(np.uint32)

        zero = m.full(0, np.uint32)
        m.setu(member(self._count, i), m.loop(lambda k, _: k < count, move, (zero, zero))[1])

    def gap(self, m: Memory, i: Any, value: Any) -> None:
        """Time between two tokens of one turn, the later one from here."""
        self._gaps.note(m, i, value)

    # -- the report
    def metrics(self, m: Memory, span: Any, i: int) -> dict[str, Any]:
        signals, steps = self.core.signals, m.f(member(self._decode_steps, i))
        rows = {name: signals.area(m, f"{self.name}.{name}", i) / span for name in SIGNALS[:3]}
        return {
            **super().metrics(m, span, i),
            "iterations": m.f(member(self._iterations, i)),
            **rows,
            "mean_decodes": signals.area(m, f"{self.name}.decodes", i) / span,
            "mean_decode_batch": m.f(member(self._decode_sum, i)) / steps,
            "mean_decode_step": m.f(member(self._decode_time, i)) / steps,
            "mean_itl": self._gaps.mean(m, i),
            "itl_p50": self._gaps.quantile(m, i, 0.5),
            "itl_p99": self._gaps.quantile(m, i, 0.99),
            "idle_with_work": m.u(member(self._idle, i)).astype(np.float64),
        }

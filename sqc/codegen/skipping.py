"""Equal iterations of a step stage, taken at once.

An iteration in which every resident decodes one token, and in which nobody was admitted or preempted, is followed
by one that differs in its times alone, until the next event of anything else, the end of a run, or a token for
which memory must grow. At the end of such an iteration those that follow are counted off: the clock is added up
as their events would have moved it, everything else is multiplied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sqc_runtime.core import INF
from sqc_runtime.engine import DONE, Engine
from sqc_runtime.memory import Memory
from sqc_runtime.ops import ceil, floor, lesser, where
from sqc_runtime.ring import member
from sqc_runtime.tokens import Repeats

from .. import ir
from .context import Context
from .steady import feels_growth, is_live, moves

if TYPE_CHECKING:
    from .holds import Part
    from .statements import Statements

U32 = np.uint32


@dataclass(frozen=True)
class Clock:
    """A lane's time: `following(m)` is that of the next event, `go_on(m, time)` moves the clock with all that is
    measured over time."""

    following: Callable[[Memory], Any]
    go_on: Callable[[Memory, Any], None]


class Skipping:
    """Of one step stage."""

    def __init__(self, context: Context, stage: ir.Stage, code: Statements, clock: Clock):
        self.context, self.stage, self.core, self.clock = context, stage, context.core, clock
        self.holds, self.growing = code.holds, code.growing
        assert isinstance(stage.kind, ir.Step)
        self.kind = stage.kind
        engine = context.stages[stage.name]
        assert isinstance(engine, Engine)
        self.engine = engine
        layout, name, members = self.core.layout, f"stage.{stage.name}.steady", engine.members
        self._plan, self._events = layout.u(f"{name}.plan", members), layout.f(f"{name}.events", members)
        self._cost = layout.f(f"{name}.cost", members)
        self._used = layout.f(f"{name}.used")
        self._still, self._restless = self._sort_queues()

    def _sort_queues(self) -> tuple[list[str], list[str]]:
        """Pools where a waiter is refused again as long as no memory grows, and those where anything can happen."""
        still: list[str] = []
        restless: list[str] = []
        several = sum(engine.members for engine in self.context.engines.values()) > 1
        for pool in self.context.program.pools:
            holds = [site.hold for site in self.holds.sites_of(pool.name)]
            amounts = [e for hold in holds for p in hold.parts for e in (p.units, p.reserve) if e is not None]
            indices = [p.pool.index for hold in holds for p in hold.parts if p.pool.index is not None]
            read = (*amounts, *indices, *pool.queue)
            if not is_live(read):
                continue
            here = pool.admit_via is not None and pool.admit_via.name == self.stage.name
            waits_still = here and not several and not any(moves(read))
            (still if waits_still else restless).append(pool.name)
        return still, restless

    # -- as an iteration is planned
    def begin(self, m: Memory) -> None:
        """Its planning begins."""
        m.setf(self._used, self._in_use(m))

    def _in_use(self, m: Memory) -> Any:
        """Units allocated in the pools that grow with runs."""
        total = m.full(0.0, np.float64)
        for name in dict.fromkeys(part.name for part in self.growing.of_runs.values()):
            pool = self.context.pools[name]
            for i in range(pool.members):
                total = total + m.f(pool.signal("used", i))
        return total

    def planned(self, m: Memory, i: Any, cost: Any, tokens: Any) -> None:
        """It has been planned, and starts: whether the next one will be its equal."""
        engine, plan = self.engine, self.engine.planning
        residents = engine.count(m, i)
        steady = (engine.batched(m, i) == residents) & (tokens == residents.astype(np.float64))
        steady = steady & (engine.decoders(m, i) == tokens) & (cost > 0)
        steady = steady & (m.f(plan.preempted) == 0) & (m.f(plan.admitted) == 0)
        steady = steady & ~self._anyone_waits(m, self._restless)
        grew = m.f(self._used) != self._in_use(m)
        steady = steady & ~(grew if feels_growth(self.kind) else grew & self._anyone_waits(m, self._still))
        m.setu(member(self._plan, i), where(steady, m.u(plan.stamp), m.full(0, U32)))
        m.setf(member(self._events, i), m.f(self.core.events))
        m.setf(member(self._cost, i), cost)

    def _anyone_waits(self, m: Memory, names: list[str]) -> Any:
        anyone = m.full(False, np.bool_)
        for pool in (self.context.pools[name] for name in names):
            for i in range(pool.members):
                anyone = anyone | pool.waiting(m, i)
        return anyone

    # -- as it ends
    def repeat(self, m: Memory, i: Any) -> None:
        """The batch has its tokens. If that was all, take the iterations that are equal to this one."""
        core, plan = self.core, self.engine.planning
        undisturbed = (m.u(member(self._plan, i)) == m.u(plan.stamp)) & (m.u(member(self._plan, i)) != 0)
        undisturbed = undisturbed & (m.f(core.events) == m.f(member(self._events, i)) + 1.0) & ~core.ready(m)

        def look() -> None:
            until = lesser(self.clock.following(m), m.f(core.horizon))
            most = self._most(m, i)
            m.when(most > 0, lambda: self._take(m, i, until, most))

        m.when(undisturbed, look)

    def _most(self, m: Memory, i: Any) -> Any:
        """How many further iterations end no run and need no memory (a double)."""
        engine = self.engine

        def least(slot: Any, most: Any) -> Any:
            left = m.f(self.core.sf(slot, engine.remaining))
            return lesser(lesser(most, ceil(left - DONE) - 1.0), self._room(m, slot))

        return engine.least_of_batch(m, i, least)

    def _room(self, m: Memory, slot: Any) -> Any:
        """Tokens for which a resident has memory."""
        at = self.core.scratch_f
        m.setf(at, INF)

        def left(part: Part) -> Callable[[], None]:
            return lambda: m.setf(at, floor(m.f(self.holds.units(part, slot)) - self.holds.reached(m, part, slot)))

        self.growing.by_part(m, m.u(self.core.su(slot, self.engine.growth)), left)
        return m.f(at)

    def _take(self, m: Memory, i: Any, until: Any, most: Any) -> None:
        core, engine = self.core, self.engine
        start, cost = m.f(core.now), m.f(member(self._cost, i))
        count, time, least, largest = engine.count_off(m, start, cost, until, most)

        def go() -> None:
            engine.repeat(m, i, Repeats(start, cost, count, time, least, largest))
            if self.growing.of_runs:
                engine.each_batched(m, i, lambda slot: self._move(m, slot, count))
            m.addf(core.events, count)
            m.addf(core.seq, count)
            self.clock.go_on(m, time)

        m.when(count > 0, go)

    def _move(self, m: Memory, slot: Any, count: Any) -> None:
        """The position of a growing run moves on, as if by single tokens."""

        def one(part: Part) -> Callable[[], None]:
            def body() -> None:
                before = self.holds.reached(m, part, slot)
                at_once = before + count

                def step_by_step() -> tuple[Any]:
                    return (self._added_up(m, before, count),)

                (after,) = m.when(at_once - before != count, step_by_step, (at_once,))
                m.setf(self.holds.position(part, slot), after)

            return body

        self.growing.by_part(m, m.u(self.core.su(slot, self.engine.growth)), one)

    @staticmethod
    def _added_up(m: Memory, before: Any, count: Any) -> Any:
        """Where a position is no whole number, single tokens round otherwise than their sum."""
        start = m.full(0.0, np.float64), before
        return m.loop(lambda k, _: k < count, lambda k, at: (k + 1.0, at + 1.0), start)[1]

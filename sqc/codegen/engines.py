"""Step stages as code: what one iteration does, planned at the end of an instant.

Planning is part of a step of the lane's loop, but an admission interrupts it: the session that was
admitted runs in the next steps, and planning goes on when nobody is ready any more. Where it stands is in
registers: the stage in the order of declaration, its member, the statement of its body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sqc_runtime.engine import DECODE, PREFILL, Engine, Planning
from sqc_runtime.memory import Memory
from sqc_runtime.ops import where
from sqc_runtime.ring import ONE

from .. import ir
from . import errors
from .context import Context
from .expressions import Scope
from .iteration_claims import IterationClaims
from .iterations import Procedure
from .skipping import Clock
from .statements import Statements

U32 = np.uint32
STEPS_AT_ONCE = 1000
"""Iterations of no duration that may follow one another."""


def has_engines(program: ir.Program) -> bool:
    return any(isinstance(stage.kind, ir.Step) for stage in program.stages)


class Engines:
    """Every step stage of a program, and where the planning of their iterations stands."""

    def __init__(
        self,
        context: Context,
        code: Statements,
        outside: Callable[[Memory, Any], Scope],
        clock: Clock | None,
    ):
        """Equal iterations are taken at once where there is a `clock` to move."""
        self.context, self.code, self.core = context, code, context.core
        layout = context.core.layout
        self.position, self.settling = layout.u("settle.position"), layout.u("settle.under_way")
        self.pause = layout.u("plan.pause")
        self._at_once = layout.f("plan.at_once")
        self.claims = IterationClaims(context)
        program = context.program
        self.all = [Procedure(self, declared, outside) for declared in program.stages if _is_step(declared)]
        self.planning: Planning = self.all[0].engine.planning
        if clock is not None:
            for procedure in self.all:
                procedure.take_equal(clock)
        context.budget_left = self.budget_left
        code.growing.interrupted = self._interrupted

    def clear(self, m: Memory, outside: Callable[[Memory, Any], Scope]) -> None:
        """Registers of the stages start at their first values."""
        self.claims.clear(m)
        for procedure in self.all:
            procedure.clear(m, outside)

    def _interrupted(self, m: Memory, slot: Any) -> None:
        """A session is preempted: the iteration that is being planned, if one is, knows."""
        m.addf(self.planning.preempted, 1.0)
        assert self.code.times is not None
        self.code.times.interrupted(m, slot)

    def budget_left(self, m: Memory, name: str, i: Any) -> Any:
        (procedure,) = (p for p in self.all if p.declared.name == name)
        return procedure.view.budget_left(m, i)

    # -- the end of an instant
    def settle(self, m: Memory, sources: Sequence[Any], next_time: Callable[[], Any]) -> Any:
        """Each step stage in its order plans an iteration, then the other stages reschedule; returns whether all have
        done so. Else a session was admitted: it runs, then this goes on."""
        procedures = {procedure.engine: procedure for procedure in self.all}
        plans = [self._plan(m, procedures[s], next_time) for s in sources if isinstance(s, Engine)]
        others = [self._settle(m, s) for s in sources if not isinstance(s, Engine)]
        bodies = dict(enumerate([*plans, *others]))
        m.setu(self.settling, ONE)
        m.setu(self.pause, U32(0))

        def step(_: Any) -> tuple[Any]:
            m.switch(m.u(self.position), bodies)
            return ((m.u(self.position) < U32(len(bodies))) & (m.u(self.pause) == 0) & self.core.running(m),)

        start = m.u(self.position) < U32(len(bodies))
        m.loop(lambda go: go, step, (start,))
        return m.u(self.pause) == 0

    def _settle(self, m: Memory, source: Any) -> Callable[[], None]:
        def body() -> None:
            source.settle(m)
            m.addu(self.position, 1)

        return body

    def _plan(self, m: Memory, procedure: Procedure, next_time: Callable[[], Any]) -> Callable[[], None]:
        engine, plan = procedure.engine, self.planning

        def body() -> None:
            i = m.u(plan.member) if engine.members > 1 else 0
            resting = m.u(plan.active) == 0

            def begin() -> None:
                alone = next_time() > m.f(self.core.now)
                can = ~engine.runs(m, i) & procedure.has_work(m, i) & alone
                m.when(can, lambda: procedure.begin(m, i))

            m.when(resting, begin)
            m.when(m.u(plan.active) != 0, lambda: procedure.proceed(m, i))
            m.when(m.u(plan.active) == 0, on)

        def on() -> None:
            if engine.members == 1:
                m.addu(self.position, 1)
                return
            following = m.addu(plan.member, 1)

            def last() -> None:
                m.setu(plan.member, U32(0))
                m.addu(self.position, 1)

            m.when(following == U32(engine.members), last)

        return body

    def settled(self, m: Memory) -> None:
        """An event comes."""
        m.setu(self.position, U32(0))
        m.setu(self.settling, U32(0))

    def bound(self, m: Memory, cost: Any, declared: ir.Stage) -> None:
        """Iterations may take no time, but not for ever."""
        row = m.update("f", self._at_once, lambda old: where(cost > 0, 0.0, old + 1.0))
        self.context.fail(m, row > STEPS_AT_ONCE, errors.ENDLESS_STEPS, declared)


def _is_step(declared: ir.Stage) -> bool:
    return isinstance(declared.kind, ir.Step)


def kind_of(run: ir.Run) -> Any:
    """The kind of a run on a step stage."""
    return DECODE if run.mode == "decode" else PREFILL

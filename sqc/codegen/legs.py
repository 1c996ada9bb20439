"""Legs: `fork` lets a copy of the session run a block on its own, `join` waits for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sqc_runtime.memory import Memory

from .. import ir
from .context import Context
from .plan import Gather

U32 = np.uint32


class Legs:
    def __init__(self, context: Context):
        self.context = context
        if not context.plan.forks:
            return
        layout = context.core.layout
        self._parent, self._live = layout.field("u", "leg.parent"), layout.field("u", "legs.live")
        self._gathers, self._forked = layout.field("u", "legs.gathers"), layout.field("u", "legs.forked")
        """`gathers`: one more than the number of the `join` at which the session waits, 0 if it does not."""

    def born(self, m: Memory, slot: Any) -> None:
        """A new session has no legs and is none."""
        context = self.context
        if context.plan.forks:
            self._clear(m, slot, slot)
        if context.gone is not None:
            m.setu(context.core.su(slot, context.gone), U32(0))

    def _clear(self, m: Memory, slot: Any, home: Any) -> None:
        core, context = self.context.core, self.context
        assert context.home is not None
        m.setu(core.su(slot, context.home), home)
        for field in (self._parent, self._live, self._gathers, self._forked):
            m.setu(core.su(slot, field), U32(0))

    def start(self, m: Memory, slot: Any, segment: int) -> Any:
        """A leg of the session, with a copy of its attributes, lines up to run `segment`; returns its slot."""
        context, core = self.context, self.context.core
        leg, home = core.allocate(m), context.owner(m, slot)
        m.addf(core.others, 1.0)
        for field in {*context.attributes.values(), core.turn_start}:
            m.setf(core.sf(leg, field), m.f(core.sf(slot, field)))
        m.setu(core.su(leg, core.turn_count), m.u(core.su(slot, core.turn_count)))
        m.setu(core.su(leg, core.pc), U32(segment))
        m.setu(core.su(leg, context.waits_at), U32(0))
        self._clear(m, leg, home)
        m.setu(core.su(leg, self._parent), slot)
        m.addu(core.su(slot, self._live), 1)
        number = m.u(core.su(home, self._forked))
        m.setu(core.su(home, self._forked), number + U32(1))
        context.prefetch.leg_born(m, leg, number)
        core.push_ready(m, leg)
        return leg

    def are_live(self, m: Memory, slot: Any) -> Any:
        return m.u(self.context.core.su(slot, self._live)) != 0

    def gather(self, m: Memory, slot: Any, op: Gather) -> None:
        """`join`: go on when no leg is live."""
        core, number = self.context.core, self.context.statement(op.statement)
        m.setu(core.su(slot, core.pc), U32(op.segment))

        def wait() -> None:
            m.setu(core.su(slot, self._gathers), U32(number + 1))
            m.setu(core.current, U32(0))

        m.when(self.are_live(m, slot), wait)

    def is_gathering(self, m: Memory, slot: Any) -> Any:
        """Whether the session waits at a `join`."""
        return m.u(self.context.core.su(slot, self._gathers)) != 0

    def fail_at_join(self, m: Memory, slot: Any, error: int) -> None:
        """The run fails with the `join` at which the session waits."""
        context, core = self.context, self.context.core
        nodes = ir.walk((context.program.session, context.program.server))
        numbers = {context.statement(node) for node in nodes if isinstance(node, ir.Join)}
        m.when(m.u(core.error) == 0, lambda: m.setu(core.actor, slot))
        for number in sorted(numbers):
            core.fail(m, m.u(core.su(slot, self._gathers)) == number + 1, error, number)

    def session_of_leg(self, m: Memory, slot: Any) -> Any:
        """The session that a leg belongs to (0 of a session)."""
        return m.u(self.context.core.su(slot, self._parent))

    def stop_gathering(self, m: Memory, slot: Any) -> None:
        """The session waits for no leg any more."""
        m.setu(self.context.core.su(slot, self._gathers), U32(0))

    def end(self, m: Memory, leg: Any) -> None:
        """The leg is over: the session that waits for its last one goes on, and one that has ended is forgotten."""
        core = self.context.core
        parent = m.u(core.su(leg, self._parent))
        left = m.u(core.su(parent, self._live)) - U32(1)
        m.setu(core.su(parent, self._live), left)

        def go_on() -> None:
            self.stop_gathering(m, parent)
            core.push_ready(m, parent)

        def forget() -> None:
            self.context.forget(m, parent)
            m.addf(core.others, -1.0)

        m.when((left == 0) & self.is_gathering(m, parent), go_on)
        if self.context.gone is not None:
            m.when((left == 0) & ~self.context.lives(m, parent), forget)
        m.setu(core.su(leg, self._parent), U32(0))
        core.release(m, leg)
        m.addf(core.others, -1.0)
        m.setu(core.current, U32(0))

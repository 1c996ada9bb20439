"""Legs: `fork` lets a copy of the session run a block on its own, `join` waits for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sqc_runtime.memory import Memory

from .context import Context

U32 = np.uint32


class Legs:
    def __init__(self, context: Context):
        self.context = context
        if not context.plan.forks:
            return
        layout = context.core.layout
        self._parent, self._live = layout.field("u", "leg.parent"), layout.field("u", "legs.live")
        self._gathers, self._forked = layout.field("u", "legs.gathers"), layout.field("u", "legs.forked")

    def born(self, m: Memory, slot: Any) -> None:
        """A new session has no legs and is none."""
        if self.context.plan.forks:
            self._clear(m, slot, slot)

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

    def gather(self, m: Memory, slot: Any, segment: int) -> None:
        """`join`: go on at `segment` when no leg is live."""
        core = self.context.core
        m.setu(core.su(slot, core.pc), U32(segment))

        def wait() -> None:
            m.setu(core.su(slot, self._gathers), U32(1))
            m.setu(core.current, U32(0))

        m.when(self.are_live(m, slot), wait)

    def end(self, m: Memory, leg: Any) -> None:
        """The leg is over: the session that waits for its last one goes on."""
        core = self.context.core
        parent = m.u(core.su(leg, self._parent))
        left = m.u(core.su(parent, self._live)) - U32(1)
        m.setu(core.su(parent, self._live), left)
        gathers = core.su(parent, self._gathers)

        def go_on() -> None:
            m.setu(gathers, U32(0))
            core.push_ready(m, parent)

        m.when((left == 0) & (m.u(gathers) != 0), go_on)
        core.release(m, leg)
        m.addf(core.others, -1.0)
        m.setu(core.current, U32(0))

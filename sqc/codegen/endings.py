"""How sessions and legs end: at the end of their statements, or refused by a pool.

A leg that is refused ends its session with it, wherever that is. Other legs of a session that has ended go on;
its slot is kept for them, and its prefixes are theirs, until the last of them ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sqc_runtime.memory import Memory
from sqc_runtime.ops import where
from sqc_runtime.tokens import TokenTimes

from .. import ir
from . import errors
from .context import Context
from .expressions import Scope
from .growth import Growing
from .holds import Holds
from .leases import Leases
from .legs import Legs
from .plan import Site
from .removal import take_out

U32 = np.uint32


class Endings:
    def __init__(self, context: Context, holds: Holds, growing: Growing, leases: Leases, legs: Legs):
        self.context, self.plan, self.core = context, context.plan, context.core
        self.holds, self.growing, self.leases, self.legs = holds, growing, leases, legs
        self._doomed = context.core.layout.u("session.doomed") if context.plan.kills else None
        """The session that a refused leg ends, until that is done."""
        self.times: TokenTimes | None = None
        """Set where there are step stages."""

    def finish(self, held: Sequence[Site], s: Scope, slot: Any) -> None:
        """The session is at its end, out of the holds `held` (outermost first)."""
        if self.plan.forks:
            self.core.fail(s.m, self.legs.are_live(s.m, slot), errors.LIVE_LEGS, 0)
        self._end(held, s, slot)

    def refuse(self, site: Site, s: Scope, slot: Any) -> None:
        """The hold asks for more than a pool has."""
        if not site.leg:
            self._end(site.outer, s, slot)
            return
        m, session = s.m, self.context.owner(s.m, slot)
        self._leave(site.outer, s, slot)
        self.leg(m, slot)
        assert self._doomed is not None
        m.setu(self._doomed, where(self.context.lives(m, session), session, U32(0)))

    def leg(self, m: Memory, slot: Any) -> None:
        """A leg is over: its leases are the session's, and end if that has ended."""
        context, session = self.context, self.context.owner(m, slot)
        self.leases.pass_on(m, slot, session)
        if self.plan.outlived and self.leases.parts:

            def end_leases() -> None:
                s = context.scope(m, session)
                s.draws = context.prefetch.single(m, session)
                self.leases.end_all(m, s, session)
                m.setu(self.core.dirty, U32(1))

            m.when(~context.lives(m, session), end_leases)
        self.legs.end(m, slot)

    def end_doomed(self, m: Memory) -> None:
        """Right after a leg has acted: if it was refused, its session ends. (Here, and not for each hold anew.)"""
        if self._doomed is None:
            return
        doomed = m.u(self._doomed)

        def end() -> None:
            m.setu(self._doomed, U32(0))
            self._end_anywhere(m, doomed)

        m.when(doomed != 0, end)

    def _end_anywhere(self, m: Memory, slot: Any) -> None:
        """The session ends, whatever it is doing."""
        context, holds = self.context, self.holds
        take_out(m, context, holds, slot)
        self.growing.stop(m, slot)
        self.legs.stop_gathering(m, slot)
        s = context.scope(m, slot)
        s.draws = context.prefetch.single(m, slot)
        for site in sorted((site for site in self.plan.sites if not site.leg), key=lambda site: -len(site.outer)):
            holds.if_within(m, site, slot, lambda site=site: holds.leave(site, s, slot))  # type: ignore[misc]
        self._end((), s, slot)

    def _leave(self, held: Sequence[Site], s: Scope, slot: Any) -> None:
        """Holds end innermost first."""
        for site in reversed(held):
            self.holds.leave(site, s, slot)

    def _end(self, held: Sequence[Site], s: Scope, slot: Any) -> None:
        """The session's holds end, then its leases; its prefixes stay."""
        m, core, context = s.m, self.core, self.context
        self._leave(held, s, slot)
        self.leases.end_all(m, s, slot)
        if held or self.leases.parts or self.plan.kills:
            m.setu(core.dirty, U32(1))
        m.addf(core.signals.at("live"), -1.0)
        m.addf(core.ended, m.f(core.warm))
        self._leave_slot(m, slot)
        m.setu(core.current, U32(0))
        if isinstance(context.program.arrival, ir.Closed):
            m.addu(core.births, 1)

    def _leave_slot(self, m: Memory, slot: Any) -> None:
        """The session has ended: its slot is free, now or when its last leg has ended."""
        context, core = self.context, self.core
        if context.gone is None:
            context.forget(m, slot)
            return
        gone = core.su(slot, context.gone)

        def keep() -> None:
            m.setu(gone, U32(1))
            if self.times is not None:
                self.times.session_ends(m, slot)
            m.addf(core.others, 1.0)

        m.either(self.legs.are_live(m, slot), keep, lambda: context.forget(m, slot))

"""Sessions that wait for each other when the run ends: one at a `join` whose legs wait for memory that none gives back.

Of all sessions and legs that wait, at a `join` or in the queue of a pool, those are set free again and again that
something still helps, until nothing changes: a request, unless each pool that has no room for it is held, and held
only by those who wait; a session at a `join` with a leg that does not wait. Whoever is left waits for ever. Without
a session at a `join` among them that is no error: memory that nobody gives back is a result of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from sqc_runtime.core import ONE
from sqc_runtime.memory import Memory
from sqc_runtime.ring import member

from . import errors
from .context import Context
from .holds import Holds
from .leases import Leases
from .legs import Legs
from .plan import Site

U32 = np.uint32
ZERO = U32(0)


class Deadlock:
    """`holds.asked` must be kept: what a request asks for is what it asked for when it was made."""

    def __init__(self, context: Context, holds: Holds, leases: Leases, legs: Legs):
        self.context, self.core = context, context.core
        self.holds, self.leases, self.legs = holds, leases, legs
        layout = context.core.layout
        self._waits = layout.field("u", "deadlock.waits")
        self._changed = layout.u("deadlock.changed")
        self._awake = {name: layout.u(f"{name}.awake", pool.members) for name, pool in context.pools.items()}
        """Of each pool: whether someone who holds it does not wait."""

    def check(self, m: Memory) -> None:
        """The run is over: fail it if a session at a `join` waits for ever."""
        core, legs = self.core, self.legs
        at = core.su

        def begin(slot: Any) -> None:
            waits = (m.u(at(slot, self.context.waits_at)) != 0) | legs.is_gathering(m, slot)
            m.setu(at(slot, self._waits), waits.astype(U32))

        def round_() -> tuple[Any, ...]:
            m.setu(self._changed, ZERO)
            self._find_awake(m)
            self._each(m, lambda slot: self._set_free(m, slot))
            return ()

        def judge(slot: Any) -> None:
            lost = self._is_waiting(m, slot) & legs.is_gathering(m, slot)
            m.when(lost, lambda: legs.fail_at_join(m, slot, errors.DEADLOCK))

        self._each(m, begin)
        m.setu(self._changed, ONE)
        m.loop(lambda: m.u(self._changed) != 0, round_)
        self._each(m, judge)

    def _each(self, m: Memory, body: Callable[[Any], None]) -> None:
        """`body` for every slot that was ever used; nobody waits in one that is free."""
        last = m.u(self.core.fresh)

        def step(slot: Any) -> tuple[Any]:
            body(slot)
            return (slot + ONE,)

        m.loop(lambda slot: slot <= last, step, (m.full(1, U32),))

    def _is_waiting(self, m: Memory, slot: Any) -> Any:
        return m.u(self.core.su(slot, self._waits)) != 0

    def _members(self) -> Iterator[tuple[str, int]]:
        for name, pool in self.context.pools.items():
            yield from ((name, i) for i in range(pool.members))

    def _find_awake(self, m: Memory) -> None:
        for name, i in self._members():
            m.setu(self._awake[name] + i, ZERO)

        def look(slot: Any) -> None:
            for name, i in self._members():
                holds = ~self._is_waiting(m, slot) & self.holds.is_holder(m, name, slot, i)
                m.when(holds, partial(m.setu, self._awake[name] + i, ONE))

        self._each(m, look)
        self.leases.each_that_expires(m, lambda name, i: m.setu(member(self._awake[name], i), ONE))

    def _set_free(self, m: Memory, slot: Any) -> None:
        """If something helps the session; a leg that does not wait helps its session."""
        context, core = self.context, self.core
        waits = core.su(slot, self._waits)

        def free(slot: Any) -> None:
            at = core.su(slot, self._waits)
            m.when(m.u(at) != 0, lambda: m.setu(self._changed, ONE))
            m.setu(at, ZERO)

        def judge(site: Site) -> None:
            m.when(~self._is_hopeless(m, site, slot), lambda: free(slot))

        queued = m.u(core.su(slot, context.waits_at))
        sites = {site.index + 1: partial(judge, site) for site in context.plan.sites}
        m.when(m.u(waits) != 0, lambda: m.switch(queued, sites))
        m.when(m.u(waits) == 0, lambda: free(self.legs.session_of_leg(m, slot)))

    def _is_hopeless(self, m: Memory, site: Site, slot: Any) -> Any:
        """Whether a pool has no room for the request, and each that has none is held by those only who wait."""
        lacks, helped = m.full(False, np.bool_), m.full(False, np.bool_)
        for part in self.holds.parts[site.index]:
            i, pool = self.holds.i(m, part, slot), part.pool
            full = ~pool.fits(m, pool.up(m, self.holds.asked(m, part, slot), i), i)
            nobody = m.f(pool.signal("holders", i)) == 0
            lacks = lacks | full
            helped = helped | (full & (nobody | (m.u(member(self._awake[part.name], i)) != 0)))
        return lacks & ~helped

"""Holds as code: reaching one, the queue of its first pool, admission, the end of its scope."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sqc_runtime.memory import Memory
from sqc_runtime.ops import as_u32, fmax, greater, lesser, where
from sqc_runtime.pools import Pool
from sqc_runtime.ring import member

from .. import ir
from . import errors
from .context import Context
from .expressions import Scope, evaluate, number
from .plan import Site
from .policies import Policies

U32 = np.uint32


@dataclass
class Part:
    """One pool of a hold, and where a session's slot says what it holds of it."""

    site: Site
    number: int
    ir: ir.Part
    pool: Pool
    units: int
    """Slot field of the allocation; behind it what is reserved, the position (negative: no load), the prefix."""
    member: int | None
    """Slot field of the member of an array (None: known before the run)."""
    held: int | None
    """Slot field that says whether it is held (None: it is throughout the scope)."""

    @property
    def name(self) -> str:
        return self.ir.pool.name


class Holds:
    def __init__(self, context: Context, policies: Policies):
        self.context, self.policies = context, policies
        program, plan, layout = context.program, context.plan, context.core.layout
        nodes = list(ir.walk((program.session, program.server)))
        self.preempts = {pool.name for pool in program.pools if pool.preempt != "none"}
        self.flagged = bool(self.preempts) or any(isinstance(n, ir.Release) for n in nodes)
        self.flagged = self.flagged or any(isinstance(s.kind, ir.Step) and s.kind.memory for s in program.stages)
        grows = any(isinstance(n, ir.Run) and n.growing is not None for n in nodes)
        self._loads = bool(self.preempts) or grows or any(isinstance(n, ir.Load) for n in nodes)
        """Whether positions matter."""
        leased = {s.hold.parts[s.hold.lease.part].pool.name for s in plan.sites if s.hold.lease}
        nested = {p.pool.name for s in plan.sites for o in s.outer for p in o.hold.parts} | leased
        self._counts = {n: layout.field("u", f"{n}.holds", context.pools[n].members) for n in sorted(nested)}
        self._admitted = {
            n: layout.field("f", f"{n}.admitted", context.pools[n].members) for n in sorted(self.preempts)
        }
        self._admission = layout.f("admissions.order")
        self.parts = {site.index: [self._part(site, k) for k in range(len(site.hold.parts))] for site in plan.sites}
        self._fit = layout.u("hold.fits")
        self.lease: Callable[[Part, Scope, Any], None] | None = None
        """Set where holds can become leases: what happens to a part instead of its release."""
        self.scope_over: Callable[[Memory, str, Any], None] | None = None
        """Set where holds can be preempted: a session has left a hold of this pool at its end."""

    def _part(self, site: Site, number: int) -> Part:
        layout, part = self.context.core.layout, site.hold.parts[number]
        name = f"hold{site.index}.{number}"
        computed = part.pool.index is not None and not isinstance(part.pool.index, ir.Const)
        return Part(
            site,
            number,
            part,
            self.context.pools[part.pool.name],
            layout.field("f", f"{name}.units", 4),
            layout.field("u", f"{name}.member") if computed else None,
            layout.field("u", f"{name}.held") if self.flagged else None,
        )

    # -- what a part holds
    def i(self, m: Memory, part: Part, slot: Any) -> Any:
        """The member of its pool."""
        if part.member is not None:
            return m.u(self.context.core.su(slot, part.member))
        index = part.ir.pool.index
        return int(index.value) if isinstance(index, ir.Const) else 0

    def units(self, part: Part, slot: Any) -> Any:
        """The address of the allocation."""
        return self.context.core.sf(slot, part.units)

    def reserved(self, part: Part, slot: Any) -> Any:
        return self.context.core.sf(slot, part.units + 1)

    def position(self, part: Part, slot: Any) -> Any:
        return self.context.core.sf(slot, part.units + 2)

    def prefix(self, part: Part, slot: Any) -> Any:
        """The address of the length of the prefix that the hold began with."""
        return self.context.core.sf(slot, part.units + 3)

    def computed(self, m: Memory, part: Part, slot: Any) -> Any:
        """The position reached: the whole allocation unless something was loaded."""
        units = m.f(self.units(part, slot))
        if not self._loads:
            return units
        position = m.f(self.position(part, slot))
        return where(position < 0, units, position)

    def reached(self, m: Memory, part: Part, slot: Any) -> Any:
        """The position of an interrupted hold: what its prefix and its loads cover."""
        position = m.f(self.position(part, slot))
        return where(position < 0, m.f(self.prefix(part, slot)), position)

    def is_held(self, m: Memory, part: Part, slot: Any) -> Any:
        assert part.held is not None
        return m.u(self.context.core.su(slot, part.held)) != 0

    def if_held(self, m: Memory, part: Part, slot: Any, body: Callable[[], None]) -> None:
        """`body`, unless the part was given back before the scope's end."""
        if part.held is None:
            body()
        else:
            m.when(self.is_held(m, part, slot), body)

    def admission_order(self, pool: str, slot: Any, i: Any) -> Any:
        """The address of the number of a session's latest admission to a pool that preempts (0: it holds nothing)."""
        address = self.context.core.sf(slot, self._admitted[pool])
        return address + as_u32(i)

    # -- reaching the statement
    def reach(self, site: Site, segment: int, s: Scope, slot: Any, refuse: Callable[[], None]) -> None:
        """The session waits for its pools, or is refused because they could never fit it."""
        m, context, hold = s.m, self.context, site.hold
        for part in self.parts[site.index]:
            i = context.index(part.ir.pool, part.pool.members, s, hold)
            if part.member is not None:
                m.setu(context.core.su(slot, part.member), i)
            for amount in (part.ir.units, part.ir.reserve):
                if amount is not None:
                    context.fail(m, ~(number(evaluate(amount, s)) >= 0), errors.UNITS, hold)
        refused, counts = m.full(False, np.bool_), []
        for part in self.parts[site.index]:
            if part.ir.refusable is not None:
                i = self.i(m, part, slot)
                need = part.pool.up(m, number(evaluate(part.ir.refusable, s)), i)
                too_much = need > m.f(part.pool.cap(i))
                counts.append((part, too_much & ~refused))
                refused = refused | too_much

        def turn_away() -> None:
            for part, counted in counts:
                rejected = part.pool.counter("rejected", self.i(m, part, slot))
                m.addf(rejected, where(counted, m.full(1.0, np.float64), 0.0))
            refuse()

        def wait() -> None:
            self.wait(m, site, segment, slot)
            m.setu(context.core.current, U32(0))

        m.either(refused, turn_away, wait)

    def wait(self, m: Memory, site: Site, segment: int, slot: Any, first: bool = False) -> None:
        """Join the queue of the first pool (`first`: at its head)."""
        core, part = self.context.core, self.parts[site.index][0]
        m.setu(core.su(slot, core.pc), U32(segment))
        m.setu(core.su(slot, self.context.waits_at), U32(site.index + 1))
        i = self.i(m, part, slot)
        (part.pool.join_first if first else part.pool.join)(m, slot, i)
        m.setu(core.dirty, U32(1))

    # -- serving a pool
    def sites_of(self, pool: str) -> list[Site]:
        """Holds that wait in this pool's queue."""
        return [site for site in self.context.plan.sites if site.hold.parts[0].pool.name == pool]

    def _by_site(self, m: Memory, sites: Sequence[Site], slot: Any, body: Callable[[Site], None]) -> None:
        if len(sites) == 1:
            body(sites[0])
            return
        at = m.u(self.context.core.su(slot, self.context.waits_at))
        m.switch(at, {site.index + 1: (lambda site=site: body(site)) for site in sites})  # type: ignore[misc]

    def serve(self, m: Memory, name: str, i: Any) -> None:
        """Admit from the pool's queue while the session whose turn it is fits (head-of-line blocking)."""
        pool = self.context.pools[name]

        def again(_: Any) -> tuple[Any]:
            return (self.admit_next(m, name, i) & pool.waiting(m, i),)

        m.loop(lambda go: go, again, (pool.waiting(m, i),))

    def admit_next(self, m: Memory, name: str, i: Any) -> Any:
        """Admit the session whose turn it is (of a queue that is not empty); returns whether it fitted."""
        pool, sites = self.context.pools[name], self.sites_of(name)
        slot = pool.first(m, i, lambda slot: self.policies.queue_keys(m, name, slot))
        m.setu(self._fit, U32(0))
        self._by_site(m, sites, slot, lambda site: m.setu(self._fit, self._fits(m, site, slot).astype(U32)))
        fits = m.u(self._fit) != 0

        def admit() -> None:
            pool.admitted(m, slot, i)
            pool.leave_queue(m, slot, i)
            self._by_site(m, sites, slot, lambda site: self._admit(m, site, slot))

        m.when(fits, admit)
        return fits

    def _need(self, part: Part, s: Scope) -> Any:
        """Units that must be free: what it allocates, or reserves."""
        units = number(evaluate(part.ir.units, s))
        return units if part.ir.reserve is None else fmax(units, number(evaluate(part.ir.reserve, s)))

    def _fits(self, m: Memory, site: Site, slot: Any) -> Any:
        s = self.context.scope(m, slot, site.hold)
        fits = m.full(True, np.bool_)
        for part in self.parts[site.index]:
            i = self.i(m, part, slot)
            fits = fits & part.pool.fits(m, part.pool.up(m, self._need(part, s), i), i)
        return fits

    def _admit(self, m: Memory, site: Site, slot: Any) -> None:
        context, hold = self.context, site.hold
        s = context.scope(m, slot, hold)
        owns = []
        parts = self.parts[site.index]
        amounts = [(number(evaluate(p.ir.units, s)), self._need(p, s)) for p in parts]
        reuse = number(evaluate(hold.reuse, s)) if hold.reuse is not None else None
        for part, (units, need) in zip(parts, amounts, strict=True):
            i, pool = self.i(m, part, slot), part.pool
            if hold.cache is not None and pool.cache is not None:
                most = None if reuse is None else pool.down(m, reuse, i)
                owns.append(pool.cache.consume(m, context.owner(m, slot), i, most))
            if self._loads:
                began = hold.cache is not None and pool.cache is not None
                m.setf(self.prefix(part, slot), owns[-1] if began else 0.0)
            self._take(m, part, slot, pool.up(m, units, i), pool.up(m, need, i), i)
        own = m.full(0.0, np.float64)
        for size in owns:
            own = greater(size, own)
        context.set(m, slot, "cached", own)
        context.count_admission(m, slot)
        m.setu(context.core.su(slot, context.waits_at), U32(0))
        context.core.push_ready(m, slot)

    def _take(self, m: Memory, part: Part, slot: Any, units: Any, need: Any, i: Any) -> None:
        """Allocate units of one pool."""
        core, pool, name = self.context.core, part.pool, part.name
        self.policies.room(m, name, units, i)
        m.addf(pool.signal("used", i), units)
        pool.promise(m, need - units, i)
        m.addf(pool.counter("admissions", i), 1.0)
        self.count_holder(m, name, slot, i)
        m.setf(self.units(part, slot), units)
        if pool.traits.promises:
            m.setf(self.reserved(part, slot), need)
        if self._loads:
            m.setf(self.position(part, slot), -1.0)
        if part.held is not None:
            m.setu(core.su(slot, part.held), U32(1))
        if name in self.preempts:
            m.setf(self.admission_order(name, slot, i), m.addf(self._admission, 1.0))

    # -- holders
    def _count(self, name: str, slot: Any, i: Any) -> Any:
        return self.context.core.su(slot, self._counts[name]) + as_u32(i)

    def count_holder(self, m: Memory, name: str, slot: Any, i: Any) -> None:
        """The session has a hold or lease more on a pool: it counts as a holder once."""
        holders = self.context.pools[name].signal("holders", i)
        if name not in self._counts:
            m.addf(holders, 1.0)
            return
        count = m.addu(self._count(name, slot, i), 1)
        m.addf(holders, where(count == 1, m.full(1.0, np.float64), 0.0))

    def discount_holder(self, m: Memory, name: str, slot: Any, i: Any) -> None:
        holders = self.context.pools[name].signal("holders", i)
        if name not in self._counts:
            m.addf(holders, -1.0)
            return
        at = self._count(name, slot, i)
        count = m.u(at) - U32(1)
        m.setu(at, count)
        m.addf(holders, where(count == 0, m.full(-1.0, np.float64), 0.0))

    # -- the end of a hold
    def give_back(self, m: Memory, part: Part, s: Scope, slot: Any, interrupted: bool = False) -> None:
        """Free a part's units; keep what the cache clause says, of what an interrupted hold has reached."""
        i, core, pool = self.i(m, part, slot), self.context.core, part.pool
        units = m.f(self.units(part, slot))
        computed = (self.reached if interrupted else self.computed)(m, part, slot)
        self.free(m, part, slot, units, i)
        if part.held is not None:
            m.setu(core.su(slot, part.held), U32(0))
        self.forget_admission(m, part, slot, i)
        self.discount_holder(m, part.name, slot, i)
        self.keep(m, part.site.hold, pool, s, slot, computed, i)

    def becomes_lease(self, m: Memory, part: Part, slot: Any, i: Any) -> None:
        """The allocation stays, but no longer by this hold."""
        if part.pool.traits.promises:
            unused = greater(m.f(self.reserved(part, slot)) - m.f(self.units(part, slot)), 0.0)
            part.pool.promise(m, -unused, i)
        if part.held is not None:
            m.setu(self.context.core.su(slot, part.held), U32(0))
        self.forget_admission(m, part, slot, i)

    def free(self, m: Memory, part: Part, slot: Any, units: Any, i: Any) -> None:
        pool = part.pool
        m.addf(pool.signal("used", i), -units)
        if pool.traits.promises:
            pool.promise(m, -greater(m.f(self.reserved(part, slot)) - units, 0.0), i)

    def forget_admission(self, m: Memory, part: Part, slot: Any, i: Any) -> None:
        """The session holds nothing of a pool that preempts any more, unless a hold around this one does."""
        if part.name not in self.preempts:
            return
        m.setf(self.admission_order(part.name, slot, i), 0.0)

    def keep(self, m: Memory, hold: ir.Hold, pool: Pool, s: Scope, slot: Any, computed: Any, i: Any) -> None:
        """What the cache clause keeps of a prefix that reaches `computed`."""
        if hold.cache is None or pool.cache is None:
            return
        length = number(evaluate(hold.cache, s))
        kept = pool.down(m, lesser(greater(length, 0.0), computed), i)  # NaN keeps nothing
        pool.cache.keep(m, self.context.owner(m, slot), kept, i)

    def leave(self, site: Site, s: Scope, slot: Any, lease: bool = False, interrupted: bool = False) -> None:
        """The scope ends: at its end, where a `lease` begins, by the session's end, or `interrupted` by preemption."""
        m = s.m
        for part in self.parts[site.index]:
            leased = lease and site.hold.lease is not None and site.hold.lease.part == part.number

            def end(part: Part = part, leased: bool = leased) -> None:
                if leased:
                    assert self.lease is not None
                    self.lease(part, s, slot)
                else:
                    self.give_back(m, part, s, slot, interrupted)

            self.if_held(m, part, slot, end)
            if self.scope_over is not None and not interrupted:
                self.scope_over(m, part.name, slot)
        self.context.set(m, slot, "computed", 0.0)

    # -- within a hold
    def parts_of(self, ref: ir.Ref, sites: Sequence[Site]) -> list[Part]:
        """The parts that a statement in the body can mean, innermost first: those with the same member, if
        any is written so."""
        parts = [p for site in sites for p in self.parts[site.index] if p.name == ref.name]
        return [p for p in parts if p.ir.pool.index == ref.index] or parts

    def part_of(self, ref: ir.Ref, sites: Sequence[Site]) -> Part:
        """The innermost of them."""
        return self.parts_of(ref, sites)[0]

    def load(self, statement: ir.Load, sites: Sequence[Site], s: Scope, slot: Any) -> None:
        """The position advances; it must stay within the allocation."""
        m, part = s.m, self.part_of(statement.pool, sites)
        amount = number(evaluate(statement.amount, s))
        position = self.reached(m, part, slot) + amount
        self.context.fail(m, ~(amount >= 0), errors.AMOUNT, statement)
        if part.held is not None:
            self.context.fail(m, ~self.is_held(m, part, slot), errors.GIVEN_BACK, statement)
        over = position > m.f(self.units(part, slot)) + 1e-9
        self.context.fail(m, over, errors.BEYOND, statement)
        m.setf(self.position(part, slot), position)

    # -- the end of the run
    def note_over_cap(self, m: Memory, name: str, i: int, queue: int) -> None:
        """Note which pools the session whose turn it is asks for more than they have."""
        pool, sites = self.context.pools[name], self.sites_of(name)

        def look() -> None:
            slot = pool.first(m, i, lambda slot: self.policies.queue_keys(m, name, slot))
            self._by_site(m, sites, slot, lambda site: note(site, slot))

        def note(site: Site, slot: Any) -> None:
            s = self.context.scope(m, slot, site.hold)
            for part in self.parts[site.index]:
                j = self.i(m, part, slot)
                need = self._need(part, s)

                def store(part: Part = part, j: Any = j, need: Any = need) -> None:
                    m.setf(member(part.pool.over_queue, j), float(queue))
                    m.setf(member(part.pool.over_need, j), need)

                m.when(part.pool.up(m, need, j) > m.f(part.pool.cap(j)), store)

        m.when(pool.waiting(m, i), look)

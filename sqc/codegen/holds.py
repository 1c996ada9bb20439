"""Holds as code: reaching one, the queue of its first pool, admission, the end of its scope."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sqc_runtime.cache import Cache
from sqc_runtime.chain import Chain
from sqc_runtime.content import Content
from sqc_runtime.core import INF
from sqc_runtime.memory import Memory
from sqc_runtime.ops import as_u32, fmax, greater, lesser, where
from sqc_runtime.pools import Pool
from sqc_runtime.prefixes import Prefixes
from sqc_runtime.ring import member

from .. import ir
from . import errors
from .context import Context
from .expressions import Scope, evaluate, number
from .plan import Site, can_be_refused
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
    order: int | None
    """Slot field of a number of admission, 0 while it is not held (None: its pool does not preempt)."""
    node: int | None
    """Slot field of the last node of the cached prefix that it reads (None: its pool does not share prefixes)."""

    @property
    def shares(self) -> Prefixes | Chain | None:
        """The cache whose prefixes it reads, if others do so too."""
        cache = self.pool.cache
        return cache if self.node is not None and not isinstance(cache, Cache) else None

    @property
    def name(self) -> str:
        return self.ir.pool.name


class Holds:
    def __init__(self, context: Context, policies: Policies):
        self.context, self.policies = context, policies
        program, plan, layout = context.program, context.plan, context.core.layout
        nodes = list(ir.walk((program.session, program.server)))
        self.preempts = {pool.name for pool in program.pools if pool.preempt != "none"}
        self._released = {node.pool.name for node in nodes if isinstance(node, ir.Release)}
        """Pools that a hold can give back before its scope ends."""
        self.flagged = plan.removes or bool(self._released)
        self.flagged = self.flagged or any(isinstance(s.kind, ir.Step) and s.kind.memory for s in program.stages)
        grows = any(isinstance(n, ir.Run) and n.growing is not None for n in nodes)
        self._loads = bool(self.preempts) or grows or any(isinstance(n, ir.Load) for n in nodes)
        """Whether positions matter."""
        leased = {s.hold.parts[s.hold.lease.part].pool.name for s in plan.sites if s.hold.lease}
        nested = {p.pool.name for s in plan.sites for o in s.outer for p in o.hold.parts} | leased
        counted = set(context.pools) if plan.can_lock else nested
        self._counts = {n: layout.field("u", f"{n}.holds", context.pools[n].members) for n in sorted(counted)}
        self._admission = layout.f("admissions.order")
        self.parts = {site.index: [self._part(site, k) for k in range(len(site.hold.parts))] for site in plan.sites}
        for site in plan.sites:
            if any(self._shares(site, part) for part in site.hold.parts):
                context.contexts.reserve(site)
        self._fit = layout.u("hold.fits")
        self.lease: Callable[[Part, Scope, Any], None] | None = None
        """Set where holds can become leases: what happens to a part instead of its release."""
        self.over: Callable[[Memory, str, Any], None] | None = None
        """Set where holds can be preempted: a session has given this pool back, or made it a lease, by itself."""

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
            layout.field("f", f"{name}.order") if part.pool.name in self.preempts else None,
            layout.field("u", f"{name}.node") if self._shares(site, part) else None,
        )

    def _shares(self, site: Site, part: ir.Part) -> bool:
        return site.hold.cache is not None and self.context.contexts.knows(part.pool.name)

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

    def advance(self, m: Memory, part: Part, slot: Any, amount: Any) -> None:
        """Something is computed or loaded: from now on what the hold has computed is the position reached, on each of
        its pools, and only this one moves on."""
        for one in self.parts[part.site.index]:
            reached = self.reached(m, one, slot)
            m.setf(self.position(one, slot), reached + amount if one is part else reached)

    def is_held(self, m: Memory, part: Part, slot: Any) -> Any:
        assert part.held is not None
        return m.u(self.context.core.su(slot, part.held)) != 0

    def if_held(self, m: Memory, part: Part, slot: Any, body: Callable[[], None]) -> None:
        """`body`, unless the part was given back before the scope's end."""
        if part.held is None:
            body()
        else:
            m.when(self.is_held(m, part, slot), body)

    def if_within(self, m: Memory, site: Site, slot: Any, body: Callable[[], None]) -> None:
        """`body`, if the session has some of a hold's pools."""
        within = m.full(False, np.bool_)
        for part in self.parts[site.index]:
            within = within | self.is_held(m, part, slot)
        m.when(within, body)

    def parts_on(self, pool: str) -> list[Part]:
        """All parts on a pool, those of inner holds first."""
        parts = [part for parts in self.parts.values() for part in parts if part.name == pool]
        return sorted(parts, key=lambda part: -len(part.site.outer))

    def is_on(self, m: Memory, part: Part, slot: Any, i: Any) -> Any:
        """Whether a part is one of a pool's member (of a session that holds it)."""
        mine = self.i(m, part, slot)
        return m.full(mine == i, np.bool_) if isinstance(mine, int) and isinstance(i, int) else mine == i

    def admission_order(self, m: Memory, pool: str, slot: Any, i: Any) -> Any:
        """The place of a session among those that hold a pool that preempts: the first of its numbers of admission
        (0: it holds nothing)."""
        first = self._first_number(m, self.parts_on(pool), slot, i)
        return where(first < INF, first, 0.0)

    def _first_number(self, m: Memory, parts: Sequence[Part], slot: Any, i: Any) -> Any:
        first = m.full(INF, np.float64)
        for part in parts:
            assert part.order is not None
            number_ = m.f(self.context.core.sf(slot, part.order))
            counts = number_ > 0
            if part.pool.members > 1:
                counts = counts & self.is_on(m, part, slot, i)
            first = lesser(first, where(counts, number_, INF))
        return first

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
            if context.plan.can_lock:
                m.setf(self.units(part, slot), number(evaluate(part.ir.units, s)))
        refused, counts = self.too_much(site, s, slot)

        def turn_away() -> None:
            for part, counted in counts:
                rejected = part.pool.counter("rejected", self.i(m, part, slot))
                m.addf(rejected, where(counted, m.full(1.0, np.float64), 0.0))
            refuse()

        def wait() -> None:
            self.wait(m, site, segment, slot)
            m.setu(context.core.current, U32(0))

        if counts:
            m.either(refused, turn_away, wait)
        else:
            wait()

    def too_much(self, site: Site, s: Scope, slot: Any) -> tuple[Any, list[tuple[Part, Any]]]:
        """Whether a hold asks for more than some pool can ever give; and for which, the first counts."""
        m, refused, counts = s.m, s.m.full(False, np.bool_), []
        for part in self.parts[site.index]:
            if can_be_refused(self.context.program, part.ir):
                assert part.ir.refusable is not None
                i = self.i(m, part, slot)
                need = part.pool.up(m, number(evaluate(part.ir.refusable, s)), i)
                above = need > m.f(part.pool.cap(i))
                counts.append((part, above & ~refused))
                refused = refused | above
        return refused, counts

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
        content = self._content(site, s, slot)
        for part in self.parts[site.index]:
            i, pool = self.i(m, part, slot), part.pool
            need = pool.up(m, self._need(part, s), i)
            if part.shares is not None:
                assert content is not None
                most = self._most(part, s, i)
                _, _, locked = part.shares.match(m, content, most, pool.tail_block(m, i), i)
                need = need - locked
                fits = fits & part.shares.is_open(m, i)
            fits = fits & pool.fits(m, need, i)
        return fits

    def _content(self, site: Site, s: Scope, slot: Any) -> Content | None:
        """What the context of a hold is made of, where that matters."""
        shares = any(part.shares is not None for part in self.parts[site.index])
        return self.context.contexts.of(site.hold, s, slot) if shares else None

    def _most(self, part: Part, s: Scope, i: Any) -> Any:
        """How much of a cached prefix a hold can read at most."""
        hold, m = part.site.hold, s.m
        most = part.pool.up(m, number(evaluate(part.ir.units, s)), i)
        if hold.reuse is None:
            return most
        return lesser(most, part.pool.down(m, number(evaluate(hold.reuse, s)), i))

    def _admit(self, m: Memory, site: Site, slot: Any) -> None:
        context, hold = self.context, site.hold
        s = context.scope(m, slot, hold)
        owns = []
        parts = self.parts[site.index]
        amounts = [(number(evaluate(p.ir.units, s)), self._need(p, s)) for p in parts]
        reuse = number(evaluate(hold.reuse, s)) if hold.reuse is not None else None
        content = self._content(site, s, slot)
        if content is not None:
            context.contexts.remember(m, site, lambda field: context.core.sf(slot, field), content)
        for part, (units, need) in zip(parts, amounts, strict=True):
            i, pool = self.i(m, part, slot), part.pool
            most = None if reuse is None else pool.down(m, reuse, i)
            read = None
            if part.shares is not None:
                assert content is not None
                assert part.node is not None
                everything, block = pool.up(m, units, i), pool.tail_block(m, i)
                node, read, cached = part.shares.lock(m, context.owner(m, slot), content, everything, most, block, i)
                m.setu(context.core.su(slot, part.node), node)
                m.setf(self.prefix(part, slot), read)
                owns.append(cached)
            elif hold.cache is not None and isinstance(pool.cache, Cache):
                owns.append(pool.cache.consume(m, context.owner(m, slot), i, most))
            if self._loads and read is None:
                began = hold.cache is not None and pool.cache is not None
                m.setf(self.prefix(part, slot), owns[-1] if began else 0.0)
            self._take(m, part, slot, pool.up(m, units, i), pool.up(m, need, i), i, read)
        own = m.full(0.0, np.float64)
        for size in owns:
            own = greater(size, own)
        context.set(m, slot, "cached", own)
        context.count_admission(m, slot)
        m.setu(context.core.su(slot, context.waits_at), U32(0))
        context.core.push_ready(m, slot)

    def _take(self, m: Memory, part: Part, slot: Any, units: Any, need: Any, i: Any, read: Any = None) -> None:
        """Allocate units of one pool, but for those of a cached prefix that the hold reads."""
        core, pool, name = self.context.core, part.pool, part.name
        private = units if read is None else greater(units - read, 0.0)
        self.policies.room(m, name, private, i)
        m.addf(pool.signal("used", i), private)
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
        if part.order is not None:
            m.setf(core.sf(slot, part.order), m.addf(self._admission, 1.0))

    def asked(self, m: Memory, part: Part, slot: Any) -> Any:
        """Units that a waiting request asked for when it was made (of programs that can lock)."""
        return m.f(self.units(part, slot))

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

    def is_holder(self, m: Memory, name: str, slot: Any, i: Any) -> Any:
        """Whether a session, or a leg, has a hold or lease on a pool (of programs that can lock)."""
        return m.u(self._count(name, slot, i)) != 0

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
        i, pool = self.i(m, part, slot), part.pool
        units = m.f(self.units(part, slot))
        computed = (self.reached if interrupted else self.computed)(m, part, slot)
        self.free(m, part, slot, units, i)
        self._held_no_longer(m, part, slot, i, interrupted)
        self.discount_holder(m, part.name, slot, i)
        if part.shares is None:
            self.keep(m, part.site.hold, pool, s, slot, computed, i)
        else:
            self._unlock(part, s, slot, computed, i)

    def becomes_lease(self, m: Memory, part: Part, slot: Any, i: Any) -> None:
        """The allocation stays, but no longer by this hold."""
        if part.pool.traits.promises:
            unused = greater(m.f(self.reserved(part, slot)) - m.f(self.units(part, slot)), 0.0)
            part.pool.promise(m, -unused, i)
        self._held_no_longer(m, part, slot, i)

    def _held_no_longer(self, m: Memory, part: Part, slot: Any, i: Any, interrupted: bool = False) -> None:
        if part.held is not None:
            m.setu(self.context.core.su(slot, part.held), U32(0))
        self._forget_admission(m, part, slot, i)
        if self.over is not None and not interrupted:
            self.over(m, part.name, slot)

    def free(self, m: Memory, part: Part, slot: Any, units: Any, i: Any) -> None:
        pool, private = part.pool, units
        if part.shares is not None:
            private = greater(units - m.f(self.prefix(part, slot)), 0.0)
        m.addf(pool.signal("used", i), -private)
        if pool.traits.promises:
            pool.promise(m, -greater(m.f(self.reserved(part, slot)) - units, 0.0), i)

    def _forget_admission(self, m: Memory, part: Part, slot: Any, i: Any) -> None:
        """The session holds a pool once less: of several numbers of admission the first goes, whichever hold ends."""
        if part.order is None:
            return
        core = self.context.core
        others = [other for other in self.parts_on(part.name) if other is not part and _nested(other.site, part.site)]
        mine = m.f(core.sf(slot, part.order))
        first = self._first_number(m, others, slot, i)
        for other in others:
            assert other.order is not None
            at = core.sf(slot, other.order)
            m.when((m.f(at) == first) & (first < mine), lambda at=at: m.setf(at, mine))  # type: ignore[misc]
        m.setf(core.sf(slot, part.order), 0.0)

    def keep(self, m: Memory, hold: ir.Hold, pool: Pool, s: Scope, slot: Any, computed: Any, i: Any) -> None:
        """What the cache clause keeps of a prefix that reaches `computed`."""
        if hold.cache is not None and isinstance(pool.cache, Cache):
            kept = self._kept(hold.cache, pool, s, computed, i)
            pool.cache.keep(m, self.context.owner(m, slot), kept, i)

    @staticmethod
    def _kept(clause: ir.Expr, pool: Pool, s: Scope, computed: Any, i: Any) -> Any:
        length = number(evaluate(clause, s))
        return pool.down(s.m, lesser(greater(length, 0.0), computed), i)  # NaN keeps nothing

    def _unlock(self, part: Part, s: Scope, slot: Any, computed: Any, i: Any) -> None:
        """The end of a hold that reads a shared prefix."""
        m, core, site = s.m, self.context.core, part.site
        assert part.shares is not None
        assert part.node is not None
        assert site.hold.cache is not None
        kept = self._kept(site.hold.cache, part.pool, s, computed, i)
        content = self.context.contexts.recall(m, site, lambda field: core.sf(slot, field))
        node, position = m.u(core.su(slot, part.node)), m.f(self.prefix(part, slot))
        block, owner = part.pool.tail_block(m, i), self.context.owner(m, slot)
        part.shares.unlock(m, owner, content, node, position, kept, block, i)

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
        self.context.set(m, slot, "computed", 0.0)

    # -- within a hold
    def parts_of(self, ref: ir.Ref, sites: Sequence[Site]) -> list[Part]:
        """The parts that a statement in the body can mean, innermost first: those with the same member, if
        any is written so."""
        parts = [p for site in sites for p in self.parts[site.index] if p.name == ref.name]
        return [p for p in parts if p.ir.pool.index == ref.index] or parts

    def candidates(self, ref: ir.Ref, sites: Sequence[Site]) -> list[Part]:
        """Those that it can act on: an outer one only where an inner one may have been given back."""
        parts = self.parts_of(ref, sites)
        return parts if ref.name in self._released else parts[:1]

    def innermost(
        self,
        m: Memory,
        ref: ir.Ref,
        sites: Sequence[Site],
        slot: Any,
        body: Callable[[Part], None],
        otherwise: Callable[[], None],
    ) -> None:
        """`body` for the innermost part that is still held, `otherwise` where each was given back."""
        parts, act = self.candidates(ref, sites), otherwise
        if ref.name not in self._released:
            body(parts[0])
            return
        for part in reversed(parts):

            def this(part: Part = part, outer: Callable[[], None] = act) -> None:
                m.either(self.is_held(m, part, slot), lambda: body(part), outer)

            act = this
        act()

    def given_back(self, m: Memory, statement: ir.Stmt) -> Callable[[], None]:
        """The error of a statement whose pool every hold around it has given back."""
        return lambda: self.context.fail(m, m.full(True, np.bool_), errors.GIVEN_BACK, statement)

    def load(self, statement: ir.Load, sites: Sequence[Site], s: Scope, slot: Any) -> None:
        """The position advances; it must stay within the allocation."""
        m, amount = s.m, number(evaluate(statement.amount, s))
        self.context.fail(m, ~(amount >= 0), errors.AMOUNT, statement)

        def advance(part: Part) -> None:
            over = self.reached(m, part, slot) + amount > m.f(self.units(part, slot)) + 1e-9
            self.context.fail(m, over, errors.BEYOND, statement)
            self.advance(m, part, slot, amount)

        self.innermost(m, statement.pool, sites, slot, advance, self.given_back(m, statement))

    def checkpoint(self, statement: ir.Checkpoint, sites: Sequence[Site], s: Scope, slot: Any) -> None:
        """The pool can be resumed at this position from now on."""
        m, position = s.m, number(evaluate(statement.position, s))
        self.context.fail(m, ~(position >= 0), errors.AMOUNT, statement)

        def make(part: Part) -> None:
            chain, i = part.shares, self.i(m, part, slot)
            assert isinstance(chain, Chain)
            left, possible = chain.checkpoint(m, position, m.f(self.prefix(part, slot)), i)
            m.addf(part.pool.counter("evicted_entries", i), left)
            beyond = position > m.f(self.units(part, slot)) + 1e-9
            self.context.fail(m, beyond | ~possible, errors.CHECKPOINT, statement)

        self.innermost(m, statement.pool, sites, slot, make, self.given_back(m, statement))

    # -- the end of the run
    def note_over_cap(self, m: Memory, name: str, i: int, queue: int) -> None:
        """Note which pools the session whose turn it is asks for more than they have; of several queues the first."""
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

                first = ~(m.f(member(part.pool.over_need, j)) >= 0)  # NaN: none yet
                m.when(first & (part.pool.up(m, need, j) > m.f(part.pool.cap(j))), store)

        m.when(pool.waiting(m, i), look)


def _nested(one: Site, other: Site) -> bool:
    """Whether a session can be in both holds at once."""
    return one is other or one in other.outer or other in one.outer

"""`grow`: more units of a hold, at once or when there is room; and preemption, which makes room."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sqc_runtime.core import ONE
from sqc_runtime.memory import Memory
from sqc_runtime.ops import greater, where
from sqc_runtime.order import precedes
from sqc_runtime.pools import TOLERANCE, Pool

from .. import ir
from . import errors
from .context import Context
from .expressions import Scope, evaluate, number
from .holds import Holds, Part
from .plan import Growth, Job, jobs
from .policies import Policies
from .removal import take_out

U32 = np.uint32


class Growing:
    def __init__(self, context: Context, holds: Holds, policies: Policies):
        self.context, self.holds, self.policies = context, holds, policies
        layout = context.core.layout
        nodes = ir.walk((context.program.session, context.program.server))
        grown = {n.pool.name for n in nodes if isinstance(n, ir.Grow)}
        self.of_runs = self._grown_by_runs()
        """The parts that grow with runs on step stages, by the numbers that jobs have for them."""
        grown |= {part.name for part in self.of_runs.values()}
        self.pools = [pool for pool in context.program.pools if pool.name in grown]
        """Where something can grow, and wait for it."""
        self.interrupted: Callable[[Memory, Any], None] | None = None
        """Set where there are step stages: a session is preempted."""
        if not self.pools:
            return
        self._at, self._amount = layout.field("u", "grow.units"), layout.field("f", "grow.amount")
        """While a session waits for a growth: the slot field of its allocation (0: it does not), how much more."""
        self._found = layout.u("grow.done")
        self._last = {p.name: layout.field("f", f"{p.name}.preempted_at") for p in self.pools if p.preempt != "none"}
        """One more than the position of the latest preemption of a hold that is not over (0: none)."""
        self._stuck = layout.field("u", "stuck")
        """Whether the session counts as stuck: it does so once, on the pool where it is first."""
        holds.over = self._forget

    # -- runs on step stages
    def _grown_by_runs(self) -> dict[int, Part]:
        found = [job for segment in self.context.plan.segments for job in jobs(segment.code) if job.sites]
        parts = [part for job in found for part in self.holds.candidates(_growing(job), job.sites)]
        return dict(enumerate({_key(part): part for part in parts}.values(), 1))

    def number_for(self, job: Job, m: Memory, slot: Any) -> Any:
        """The number of the part that grows with the job (0: none)."""
        number_ = self.context.core.scratch
        m.setu(number_, U32(0))

        def begin(part: Part) -> None:
            m.setu(number_, U32(next(n for n, of_run in self.of_runs.items() if _key(of_run) == _key(part))))

        if job.sites:
            nothing_left = self.holds.given_back(m, job.run)
            self.holds.innermost(m, _growing(job), job.sites, slot, begin, nothing_left)
        return m.u(number_)

    def for_tokens(self, m: Memory, slot: Any, growth: Any, tokens: Any) -> Any:
        """Room for tokens behind the position of a growing run: `GREW`, `WAITS`, or `SELF` (the grower was
        preempted). Who waits is a grower of the pool: it is tried again when memory is given back, not here."""
        m.setu(self._found, U32(GREW))

        def one(part: Part) -> Callable[[], None]:
            def body() -> None:
                i = self.holds.i(m, part, slot)
                more = self.holds.reached(m, part, slot) + tokens - m.f(self.holds.units(part, slot))

                def attempt() -> None:
                    self._attempt(m, part.name, slot, m.full(part.units, U32), more, i)
                    m.when(m.u(self._found) == WAITS, lambda: self._wait(m, part, slot, more, i))

                waits = m.u(self.context.core.su(slot, self._at)) != 0
                m.when(waits, lambda: m.setu(self._found, U32(WAITS)))
                m.when(~waits & (more > 0), attempt)

            return body

        self.by_part(m, growth, one)
        return m.u(self._found)

    def by_part(self, m: Memory, growth: Any, body: Callable[[Part], Callable[[], None]]) -> None:
        """The body for the part that has this number; none for 0, of a run that does not grow."""
        if self.of_runs:
            m.switch(growth, {number: body(part) for number, part in self.of_runs.items()})

    def _wait(self, m: Memory, part: Part, slot: Any, amount: Any, i: Any) -> None:
        """The growth has to wait."""
        core, growers = self.context.core, part.pool.growers
        assert growers is not None
        m.setu(core.su(slot, self._at), U32(part.units))
        m.setf(core.sf(slot, self._amount), amount)
        growers.push(m, slot, i)

    # -- the statement
    def grow(self, op: Growth, s: Scope, slot: Any) -> None:
        m, context, core = s.m, self.context, self.context.core
        amount = number(evaluate(op.statement.amount, s))
        context.fail(m, ~(amount >= 0), errors.AMOUNT, op.statement)
        m.setu(core.su(slot, core.pc), U32(op.segment))

        def grow(part: Part) -> None:
            self._grow(m, part, slot, amount)

        holds, statement = self.holds, op.statement
        holds.innermost(m, statement.pool, op.sites, slot, grow, holds.given_back(m, statement))

    def _grow(self, m: Memory, part: Part, slot: Any, amount: Any) -> None:
        core, i = self.context.core, self.holds.i(m, part, slot)

        def wait() -> None:
            self._wait(m, part, slot, amount, i)
            m.setu(core.current, U32(0))
            m.setu(core.dirty, U32(1))

        self._attempt(m, part.name, slot, m.full(part.units, U32), amount, i)
        done = m.u(self._found)
        m.when(done == WAITS, wait)

    def _attempt(self, m: Memory, name: str, slot: Any, field: Any, amount: Any, i: Any) -> None:
        """Grow if there is room, or if preemption makes room: says in `_found` how it came out."""
        core, pool = self.context.core, self.context.pools[name]
        base = core.layout.slot("f", slot)
        units = m.f(base + field)
        target = pool.up(m, m.opaque(units + amount), i)
        more = target - units
        extra = more
        if pool.traits.promises:
            reserved = m.f(base + field + ONE)
            extra = greater(target - greater(units, reserved), 0.0)
        m.setu(self._found, U32(WAITS))

        def take() -> None:
            self.policies.room(m, name, more, i)
            m.addf(pool.signal("used", i), more)
            if pool.traits.promises:
                pool.promise(m, extra - more, i)
            m.setf(base + field, target)
            m.setu(self._found, U32(GREW))

        if name not in self._last:
            m.when(pool.fits(m, extra, i), take)
            return

        def again(_: Any) -> tuple[Any]:
            """Preempt one; go on while there is someone to preempt, other than the grower, and no room."""
            victim = self._victim(m, name, i)
            m.when(victim != 0, lambda: self.preempt(m, name, victim, i))
            m.when(victim == slot, lambda: m.setu(self._found, U32(SELF)))
            return ((victim != 0) & (victim != slot) & ~pool.fits(m, extra, i),)

        m.loop(lambda go: go, again, (~pool.fits(m, extra, i),))
        m.when((m.u(self._found) == WAITS) & pool.fits(m, extra, i), take)

    # -- growers
    def retry(self, m: Memory, name: str, i: Any) -> None:
        """Those that wait for a growth, in the order in which they stalled; the first blocks the rest."""
        pool, core = self.context.pools[name], self.context.core
        growers = pool.growers
        assert growers is not None

        def again(_: Any) -> tuple[Any]:
            slot = growers.first(m, i)
            self._attempt(m, name, slot, m.u(core.su(slot, self._at)), m.f(core.sf(slot, self._amount)), i)

            def go_on() -> None:
                growers.pop(m, i)
                m.setu(core.su(slot, self._at), U32(0))
                m.when(~self._is_resident(m, slot), lambda: core.push_ready(m, slot))

            m.when(m.u(self._found) == GREW, go_on)
            return (growers.any(m, i) & (m.u(self._found) != WAITS),)

        m.loop(lambda go: go, again, (growers.any(m, i),))

    def _is_resident(self, m: Memory, slot: Any) -> Any:
        """Whether it is a run on a step stage that grows: it gets its tokens in a later iteration."""
        if not self.of_runs:
            return m.full(False, np.bool_)
        engine = next(iter(self.context.engines.values()))
        return m.u(self.context.core.su(slot, engine.mode)) != 0

    # -- preemption
    def _candidate(self, m: Memory, name: str, slot: Any, i: Any) -> Any:
        """The number by whose order a session can be a victim (0: it cannot)."""
        held = self.holds.admission_order(m, name, slot, i)
        engines = self.context.engines_with(name)
        if not engines:
            return held
        here = m.full(False, np.bool_)
        for engine in engines:
            here = here | engine.has(m, slot)
        return where(here & (held > 0), m.f(self.context.core.sf(slot, engines[0].order)), 0.0)

    def _victim(self, m: Memory, name: str, i: Any) -> Any:
        """The holder to preempt: the last admitted, or the one with the least keys (0: there is none)."""
        context, core = self.context, self.context.core
        declared = context.declared[name]

        def rank(slot: Any, order: Any) -> Sequence[Any]:
            if declared.preempt == "lifo":
                return [-order]
            s = context.scope(m, slot, declared)
            s.context = {"decoding": self._decoding(m, name, slot)}
            names = {n.name for key in declared.preempt_keys for n in ir.walk(key) if isinstance(n, ir.Context)}
            if "position" in names:
                s.context["position"] = self._position(m, name, slot, i)
            if "admission" in names:
                s.context["admission"] = self._place(m, name, order, i)
            return [*(number(evaluate(key, s)) for key in declared.preempt_keys), -order]

        width = len(declared.preempt_keys) + 1 if declared.preempt == "by" else 1
        worst = [m.full(np.inf, np.float64)] * width

        def compare(slot: Any, best_slot: Any, *best: Any) -> tuple[Any, ...]:
            order = self._candidate(m, name, slot, i)

            def judge() -> tuple[Any, ...]:
                found = rank(slot, order)
                before = precedes(m, found, best) | (best_slot == 0)
                return where(before, slot, best_slot), *(where(before, a, b) for a, b in zip(found, best, strict=True))

            return slot + ONE, *m.when(order > 0, judge, (best_slot, *best))

        last = m.u(core.fresh)
        zero = m.full(0, U32)
        _, victim, *_ = m.loop(lambda slot, *_: slot <= last, compare, (m.full(1, U32), zero, *worst))
        return victim

    def _decoding(self, m: Memory, name: str, slot: Any) -> Any:
        decodes = m.full(False, np.bool_)
        for engine in self.context.engines_with(name):
            decodes = decodes | (engine.has(m, slot) & engine.decodes(m, slot))
        return decodes.astype(np.float64)

    def _place(self, m: Memory, name: str, order: Any, i: Any) -> Any:
        """A candidate's place in the order of admission: 0, 1, .."""
        last = m.u(self.context.core.fresh)

        def count(slot: Any, place: Any) -> tuple[Any, Any]:
            other = self._candidate(m, name, slot, i)
            return slot + ONE, place + where((other > 0) & (other < order), m.full(1.0, np.float64), 0.0)

        _, place = m.loop(lambda slot, _: slot <= last, count, (m.full(1, U32), m.full(0.0, np.float64)))
        return place

    def _innermost(self, m: Memory, name: str, slot: Any, i: Any, body: Callable[[Part], None]) -> None:
        """`body` for the innermost part on the pool that the session holds."""
        m.setu(self._done, U32(0))
        for part in self.holds.parts_on(name):

            def found(part: Part = part) -> None:
                m.setu(self._done, U32(1))
                body(part)

            here = self.holds.is_held(m, part, slot) & (m.u(self._done) == 0)
            if part.pool.members > 1:
                here = here & self.holds.is_on(m, part, slot, i)
            m.when(here, found)

    @property
    def _done(self) -> int:
        return self.context.core.scratch

    def _position(self, m: Memory, name: str, slot: Any, i: Any) -> Any:
        core = self.context.core
        self._innermost(m, name, slot, i, lambda p: m.setf(core.scratch_f, self.holds.reached(m, p, slot)))
        return m.f(core.scratch_f)

    def preempt(self, m: Memory, name: str, slot: Any, i: Any) -> None:
        """The session loses its hold on the pool, and what it holds within; it waits for that hold anew."""
        if self.interrupted is not None:
            self.interrupted(m, slot)
        take_out(m, self.context, self.holds, slot)
        self.stop(m, slot)
        self._innermost(m, name, slot, i, lambda part: self._restart(m, part, slot, i))

    def stop(self, m: Memory, slot: Any) -> None:
        """The session that is taken out waits for no growth any more."""
        if not self.pools:
            return
        context, core = self.context, self.context.core
        grows = core.su(slot, self._at)
        for declared in self.pools:
            pool = context.pools[declared.name]
            fields = {p.units for p in self.holds.parts_on(declared.name)}
            for member_index in range(pool.members):

                def forget(pool: Pool = pool, j: int = member_index) -> None:
                    assert pool.growers is not None
                    pool.growers.remove(m, slot, j)

                waiting = m.full(False, np.bool_)
                for field in fields:
                    waiting = waiting | (m.u(grows) == field)
                m.when(waiting, forget)
        m.setu(grows, U32(0))

    def _restart(self, m: Memory, part: Part, slot: Any, i: Any) -> None:
        context, core, pool, name = self.context, self.context.core, part.pool, part.name
        declared = context.declared[name]
        s = context.scope(m, slot, part.site.hold)
        s.draws = context.prefetch.single(m, slot)
        position = self.holds.reached(m, part, slot)
        inner = [site for site in context.plan.sites if part.site in site.outer]
        for site in sorted(inner, key=lambda site: -len(site.outer)):
            self.holds.leave(site, s, slot, interrupted=True)
        self.holds.leave(part.site, s, slot, interrupted=True)
        context.prefetch.session_used(m, slot, s.draws)
        context.set(m, slot, "computed", position)
        m.addf(pool.counter("preemptions", i), 1.0)
        at = core.sf(slot, self._last[name])
        before, counted = m.f(at), core.su(slot, self._stuck)
        stuck = (before > 0) & (position + 1.0 <= before + TOLERANCE) & (m.u(counted) == 0)
        m.addf(pool.counter("stuck", i), where(stuck, m.full(1.0, np.float64), 0.0))
        m.setu(counted, m.u(counted) | stuck.astype(U32))
        m.setf(at, position + 1.0)

        def wait() -> None:
            self.holds.wait(m, part.site, part.site.body, slot, first=declared.requeue == "head")

        def refuse() -> None:
            """The session goes on by itself, to where it is refused."""
            m.setu(core.su(slot, core.pc), U32(part.site.again))
            core.push_ready(m, slot)

        if part.site.again < 0:
            wait()
        else:
            m.either(self.holds.too_much(part.site, s, slot)[0], refuse, wait)

    def _forget(self, m: Memory, name: str, slot: Any) -> None:
        """A hold on the pool has come to its end: what comes next starts from nothing."""
        if name in self._last:
            m.setf(self.context.core.sf(slot, self._last[name]), 0.0)

    def born(self, m: Memory, slot: Any) -> None:
        """A new session has not been preempted."""
        if self.pools:
            m.setu(self.context.core.su(slot, self._at), U32(0))
            m.setu(self.context.core.su(slot, self._stuck), U32(0))
            for field in self._last.values():
                m.setf(self.context.core.sf(slot, field), 0.0)


WAITS, GREW, SELF = 0, 1, 2
"""How an attempt to grow came out; `SELF`: the grower was the victim."""


def _growing(job: Job) -> ir.Ref:
    """The pool that grows with a job."""
    assert isinstance(job.run, ir.Run)
    assert job.run.growing is not None
    return job.run.growing


def _key(part: Part) -> tuple[int, int]:
    return part.site.index, part.number

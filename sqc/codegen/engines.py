"""Step stages as code: what one iteration does, planned at the end of an instant.

Planning is part of a step of the lane's loop, but an admission interrupts it: the session that was
admitted runs in the next steps, and planning goes on when nobody is ready any more. Where it stands is in
registers: the stage in the order of declaration, its member, the statement of its body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sqc_runtime.cache import precedes
from sqc_runtime.engine import DECODE, PREFILL, Engine, Planning
from sqc_runtime.memory import Memory
from sqc_runtime.ops import floor, greater, lesser, where
from sqc_runtime.ring import ONE, member

from .. import ir
from . import errors
from .context import Context
from .expressions import Scope, evaluate, number, truth
from .growth import GREW, SELF
from .holds import Part
from .statements import Statements

U32 = np.uint32
STEPS_AT_ONCE = 1000
"""Iterations of no duration that may follow one another."""


class Moment(dict[str, Any]):
    """Context variables that are computed where they are read."""

    def __init__(self, values: Mapping[str, Callable[[], Any]]):
        super().__init__()
        self._values = values

    def __missing__(self, name: str) -> Any:
        return self._values[name]()

    def with_values(self, values: Mapping[str, Callable[[], Any]]) -> Moment:
        return Moment({**self._values, **values})


def has_engines(program: ir.Program) -> bool:
    return any(isinstance(stage.kind, ir.Step) for stage in program.stages)


class Engines:
    """Every step stage of a program, and where the planning of their iterations stands."""

    def __init__(self, context: Context, code: Statements, outside: Callable[[Memory, Any], Scope]):
        self.context, self.code, self.core = context, code, context.core
        layout = context.core.layout
        self.position, self.settling = layout.u("settle.position"), layout.u("settle.under_way")
        self.pause = layout.u("plan.pause")
        self._at_once = layout.f("plan.at_once")
        self.claims = IterationClaims(context)
        program = context.program
        self.all = [_Procedure(self, declared, outside) for declared in program.stages if _is_step(declared)]
        self.planning: Planning = self.all[0].engine.planning
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
        return procedure.budget_left(m, i)

    # -- the end of an instant
    def settle(self, m: Memory, sources: Sequence[Any], next_time: Callable[[], Any]) -> Any:
        """Each stage in its order reschedules, or plans an iteration; returns whether all have done so. Else a
        session was admitted: it runs, then this goes on."""
        bodies: dict[int, Callable[[], None]] = {}
        procedures = {procedure.engine: procedure for procedure in self.all}
        for place, source in enumerate(sources):
            if isinstance(source, Engine):
                bodies[place] = self._plan(m, procedures[source], next_time)
            else:
                bodies[place] = self._settle(m, source)
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

    def _plan(self, m: Memory, procedure: _Procedure, next_time: Callable[[], Any]) -> Callable[[], None]:
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


@dataclass
class _Jump:
    """Within a body: go on at `to`."""

    to: int = -1


@dataclass
class _Choice:
    guard: ir.Expr
    other: int = -1


class _Procedure:
    """What an iteration of one stage does."""

    def __init__(self, engines: Engines, declared: ir.Stage, outside: Callable[[Memory, Any], Scope]):
        self.engines, self.declared, self._outside = engines, declared, outside
        self.context, self.core, self.holds = engines.context, engines.core, engines.code.holds
        assert isinstance(declared.kind, ir.Step)
        self.kind: ir.Step = declared.kind
        engine = self.context.stages[declared.name]
        assert isinstance(engine, Engine)
        self.engine, self.plan, self.number = engine, engine.planning, U32(engine.uses.number)
        layout, name, members = self.core.layout, f"stage.{declared.name}", engine.members
        self._at, self._ended, self._refused = (layout.u(f"{name}.plan.{w}") for w in ("at", "ended", "refused"))
        self._tried, self._admits = layout.u(f"{name}.plan.tried"), layout.u(f"{name}.plan.admits")
        self._offer = layout.f(f"{name}.plan.offer")
        self._asks = layout.u(f"{name}.plan.asks")
        self._registers = {n: layout.f(f"{name}.register.{n}", members) for n, _ in self.kind.registers}
        self._saved = {n: layout.f(f"{name}.saved.{n}") for n, _ in self.kind.registers}
        lets = [node.name for node in ir.walk(self.kind.body) if isinstance(node, ir.StepLet)]
        self._lets = {n: layout.f(f"{name}.let.{n}") for n in dict.fromkeys(lets)}
        self._pools = [p for p in self.context.program.pools if p.admit_via and p.admit_via.name == declared.name]
        self._code: list[Any] = []
        self._flatten(self.kind.body)
        orders = {node.keys for node in ir.walk(self.kind.body) if isinstance(node, ir.Serve)}
        self._order: tuple[ir.Expr, ...] = orders.pop() if len(orders) == 1 else ()
        """In which newcomers are served: the one order that the body names."""

    def clear(self, m: Memory, outside: Callable[[Memory, Any], Scope]) -> None:
        for name, first in self.kind.registers:
            value = number(evaluate(first, outside(m, self.declared)))
            for i in range(self.engine.members):
                m.setf(member(self._registers[name], i), value)

    # -- the body as a list
    def _flatten(self, stmts: tuple[ir.StepStmt, ...]) -> None:
        for stmt in stmts:
            if not isinstance(stmt, ir.StepBranch):
                self._code.append(stmt)
                continue
            choice, jump = _Choice(stmt.guard), _Jump()
            self._code.append(choice)
            self._flatten(stmt.then)
            self._code.append(jump)
            choice.other = len(self._code)
            self._flatten(stmt.other)
            jump.to = len(self._code)

    # -- what expressions see
    def _scope(self, m: Memory, i: Any) -> Scope:
        return replace(self._outside(m, self.declared), context=self._standing(m, i))

    def _standing(self, m: Memory, i: Any) -> Moment:
        """The residents as they stand, and what has been scheduled so far."""
        engine, plan = self.engine, self.plan
        values: dict[str, Callable[[], Any]] = {
            "residents": lambda: engine.present(m, i),
            "decoders": lambda: engine.decoders(m, i),
            "kv_decode": lambda: engine.over_residents(m, i, lambda slot: self._memory_of(m, slot, True)),
            "kv_prefill": lambda: engine.over_residents(m, i, lambda slot: self._memory_of(m, slot, False)),
            "preempted": lambda: m.f(plan.preempted),
            "admitted": lambda: m.f(plan.admitted),
            "queued": lambda: self._waiting(m, i),
            "demand": lambda: self._demand(m, i, m.f(plan.chunk)),
            "served": lambda: m.f(member(engine.served, i)),
            "arrived": lambda: m.f(self.core.arrivals),
            "tokens": lambda: engine.over_batch(m, i, lambda slot: self._given(m, slot)),
            "prefilled": lambda: engine.over_batch(m, i, lambda slot: self._given(m, slot, False)),
            "attention": lambda: engine.over_batch(m, i, lambda slot: self._attention(m, slot)),
        }
        values |= {n: lambda at=at: m.f(member(at, i)) for n, at in self._registers.items()}  # type: ignore[misc]
        values |= {n: lambda at=at: m.f(at) for n, at in self._lets.items()}  # type: ignore[misc]
        return Moment(values)

    def _batch_scope(self, m: Memory, i: Any) -> Scope:
        """What the cost and the claims see: the batch."""
        engine = self.engine
        one, none = m.full(1.0, np.float64), m.full(0.0, np.float64)
        s = self._scope(m, i)
        assert isinstance(s.context, Moment)
        s.context = s.context.with_values(
            {
                "decoders": lambda: engine.over_batch(m, i, lambda slot: where(engine.decodes(m, slot), one, none)),
                "kv_decode": lambda: engine.over_batch(m, i, lambda slot: self._memory_of(m, slot, True)),
                "kv_prefill": lambda: engine.over_batch(m, i, lambda slot: self._memory_of(m, slot, False)),
            }
        )
        return s

    def _resident_scope(self, m: Memory, slot: Any, i: Any) -> Scope:
        engine, core = self.engine, self.core
        s = self._scope(m, i)
        assert isinstance(s.context, Moment)
        s.context = s.context.with_values(
            {
                "decoding": lambda: engine.decodes(m, slot).astype(np.float64),
                "admission": lambda: m.f(core.sf(slot, engine.order)),
                "remaining": lambda: m.f(core.sf(slot, engine.remaining)),
            }
        )
        s.attribute = lambda name: self.context.get(m, slot, name)
        return s

    def _memory_of(self, m: Memory, slot: Any, decoding: bool) -> Any:
        """Units of the stage's memory that a resident of one kind holds."""
        total = m.full(0.0, np.float64)
        if self.kind.memory is None:
            return total
        for part in self._memory_parts():
            mine = self.holds.is_held(m, part, slot)
            total = total + where(mine, m.f(self.holds.units(part, slot)), 0.0)
        kind = self.engine.decodes(m, slot)
        return where(kind if decoding else ~kind, total, 0.0)

    def _memory_parts(self) -> Iterator[Part]:
        assert self.kind.memory is not None
        for parts in self.holds.parts.values():
            yield from (part for part in parts if part.name == self.kind.memory.name)

    def _given(self, m: Memory, slot: Any, all_kinds: bool = True) -> Any:
        tokens = m.f(self.core.sf(slot, self.engine.tokens))
        return tokens if all_kinds else where(self.engine.decodes(m, slot), 0.0, tokens)

    def _attention(self, m: Memory, slot: Any) -> Any:
        n = self._given(m, slot, False)
        return m.opaque(n * (self._position(m, slot) + m.opaque(n / 2.0)))

    def _position(self, m: Memory, slot: Any) -> Any:
        """The position of a growing run (0 of another)."""
        growing = self.engines.code.growing
        at = self.core.scratch_f
        m.setf(at, 0.0)
        cases = {
            number: (lambda part=part: m.setf(at, self.holds.reached(m, part, slot)))
            for number, part in growing.of_runs.items()
        }
        if cases:
            m.switch(m.u(self.core.su(slot, self.engine.growth)), cases)
        return m.f(at)

    def _want(self, m: Memory, slot: Any, chunk: Any) -> Any:
        left = m.f(self.core.sf(slot, self.engine.remaining))
        capped = where((chunk > 0) & (chunk < left), chunk, left)
        return where(self.engine.decodes(m, slot), lesser(left, 1.0), capped)

    def _demand(self, m: Memory, i: Any, chunk: Any) -> Any:
        """Tokens that the residents could take."""
        return self.engine.over_residents(m, i, lambda slot: self._want(m, slot, chunk))

    def budget_left(self, m: Memory, i: Any) -> Any:
        """What a request that is being admitted is offered; at other times what the residents leave."""
        s = self._scope(m, i)
        asks = m.u(self._asks) != 0
        if self.engine.members > 1:
            asks = asks & (m.u(self.plan.member) == i)

        def otherwise() -> tuple[Any]:
            chunk = number(evaluate(self.kind.chunk, s))
            return (greater(number(evaluate(self.kind.budget, s)) - self._demand(m, i, chunk), 0.0),)

        (left,) = m.either(asks, lambda: (m.f(self._offer),), otherwise)
        return left

    # -- an attempt
    def _queues(self, i: Any) -> Iterator[tuple[str, Any]]:
        """The queues that this member admits from, in order."""
        for declared in self._pools:
            pool = self.context.pools[declared.name]
            if not self.holds.sites_of(declared.name):
                continue
            if self.engine.members > 1 and pool.members == self.engine.members:
                yield declared.name, i
            else:
                yield from ((declared.name, j) for j in range(pool.members))

    def _waiting(self, m: Memory, i: Any) -> Any:
        total = m.full(0.0, np.float64)
        for name, j in self._queues(i):
            total = total + m.f(self.context.pools[name].signal("queue", j))
        return total

    def has_work(self, m: Memory, i: Any) -> Any:
        work = self.engine.count(m, i) != 0
        for name, j in self._queues(i):
            work = work | self.context.pools[name].waiting(m, j)
        return work

    def begin(self, m: Memory, i: Any) -> None:
        plan, s = self.plan, self._scope(m, i)
        m.setu(plan.active, self.number)
        m.addu(plan.stamp, 1)
        for cell in (plan.index, self._at, self._ended, self._refused, self._admits):
            m.setu(cell, U32(0))
        m.setf(plan.preempted, 0.0)
        m.setf(plan.admitted, 0.0)
        for name, at in self._registers.items():
            m.setf(self._saved[name], m.f(member(at, i)))
        budget = number(evaluate(self.kind.budget, s))
        m.setf(plan.budget, budget)
        m.setf(plan.left, budget)
        m.setf(plan.chunk, number(evaluate(self.kind.chunk, s)))

    def proceed(self, m: Memory, i: Any) -> None:
        """Go on with the body until a session has been admitted, or the end."""
        bodies = {k: self._statement(m, k, stmt, i) for k, stmt in enumerate(self._code)}
        end = U32(len(self._code))

        def step(_: Any) -> tuple[Any]:
            m.switch(m.u(self._at), bodies)
            return ((m.u(self._at) < end) & (m.u(self.engines.pause) == 0) & self.core.running(m),)

        m.loop(lambda go: go, step, (m.u(self._at) < end,))
        m.when(m.u(self._at) == end, lambda: self._conclude(m, i))

    def _statement(self, m: Memory, k: int, stmt: Any, i: Any) -> Callable[[], None]:
        def go_on(to: int = k + 1) -> None:
            m.setu(self._at, U32(to))

        def body() -> None:
            match stmt:
                case _Jump(to):
                    go_on(to)
                case _Choice(guard, other):
                    test = truth(evaluate(guard, self._scope(m, i)))
                    m.setu(self._at, where(test, U32(k + 1), m.full(other, U32)))
                case ir.StepLet(name, value):
                    m.setf(self._lets[name], number(evaluate(value, self._scope(m, i))))
                    go_on()
                case ir.StepSet(name, value):
                    m.setf(member(self._registers[name], i), number(evaluate(value, self._scope(m, i))))
                    go_on()
                case ir.Serve(keys, only):
                    self._serve(m, keys, only, i)
                    go_on()
                case ir.Admit(only, test):
                    self._newcomers(m, only, i)
                    self._admit(m, i, m.f(self.plan.left), self._may_admit(m, test, i), k + 1)
                case ir.ServeExclusive():
                    self._exclusive(m, k, i)

        return body

    # -- serving
    def _serve(self, m: Memory, keys: tuple[ir.Expr, ...], only: ir.Expr | None, i: Any) -> None:
        """Go through the residents that have not been gone through."""
        m.setu(self._ended, U32(0))
        m.setu(self.plan.index, U32(0))
        if not keys:
            self._in_order(m, only, i, lambda _: m.full(True, np.bool_))
        else:
            self._by_keys(m, keys, only, i, lambda _: m.full(True, np.bool_))

    def _newcomers(self, m: Memory, only: ir.Expr | None, i: Any) -> None:
        """Serve those that came since an admission."""

        def is_new(slot: Any) -> Any:
            return m.u(self.core.su(slot, self.engine.joined)) == m.u(self.plan.stamp)

        def serve() -> None:
            m.setu(self.plan.index, U32(0))
            if not self._order:
                self._in_order(m, only, i, is_new)
            else:
                self._by_keys(m, self._order, only, i, is_new)

        m.when(m.u(self._admits) != 0, serve)
        m.setu(self._admits, U32(0))

    def _goes_on(self, m: Memory) -> Any:
        return (m.f(self.plan.left) > 0) & (m.u(self._ended) == 0)

    def _considered(self, m: Memory, slot: Any) -> Any:
        return m.u(self.core.su(slot, self.engine.considered)) == m.u(self.plan.stamp)

    def _in_order(self, m: Memory, only: ir.Expr | None, i: Any, wanted: Callable[[Any], Any]) -> None:
        plan, engine = self.plan, self.engine

        def step() -> tuple[Any, ...]:
            index = m.u(plan.index)
            slot = engine.resident(m, index, i)
            m.setu(plan.index, index + ONE)
            m.when(~self._considered(m, slot) & wanted(slot), lambda: self._consider(m, slot, only, i))
            return ()

        m.loop(lambda: (m.u(plan.index) < engine.count(m, i)) & self._goes_on(m), step)

    def _by_keys(
        self, m: Memory, keys: tuple[ir.Expr, ...], only: ir.Expr | None, i: Any, wanted: Callable[[Any], Any]
    ) -> None:
        engine = self.engine
        worst = [m.full(np.inf, np.float64)] * len(keys)
        zero = m.full(0, U32)

        def least() -> Any:
            def compare(k: Any, best_slot: Any, *best: Any) -> tuple[Any, ...]:
                slot = engine.resident(m, k, i)

                def judge() -> tuple[Any, ...]:
                    s = self._resident_scope(m, slot, i)
                    found = [number(evaluate(key, s)) for key in keys]
                    before = precedes(m, found, best) | (best_slot == 0)
                    return where(before, slot, best_slot), *(
                        where(before, a, b) for a, b in zip(found, best, strict=True)
                    )

                look = ~self._considered(m, slot) & wanted(slot)
                return k + ONE, *m.when(look, judge, (best_slot, *best))

            count = engine.count(m, i)
            return m.loop(lambda k, *_: k < count, compare, (zero, zero, *worst))[1]

        def step(_: Any) -> tuple[Any]:
            slot = least()
            m.when(slot != 0, lambda: self._consider(m, slot, only, i))
            return ((slot != 0) & self._goes_on(m),)

        m.loop(lambda go: go, step, (self._goes_on(m),))

    def _consider(self, m: Memory, slot: Any, only: ir.Expr | None, i: Any) -> None:
        m.setu(self.core.su(slot, self.engine.considered), m.u(self.plan.stamp))
        if only is None:
            self._give(m, slot, i)
            return
        wants = truth(evaluate(only, self._resident_scope(m, slot, i)))
        m.when(wants, lambda: self._give(m, slot, i))

    def _give(self, m: Memory, slot: Any, i: Any) -> None:
        """What a resident gets of the tokens that are left, once its memory has grown for them."""
        plan, engine = self.plan, self.engine
        left = m.f(plan.left)
        want = self._want(m, slot, m.f(plan.chunk))
        tokens = lesser(want, left)
        if self.kind.granule is not None:
            granule = number(evaluate(self.kind.granule, self._scope(m, i)))
            partial = ~engine.decodes(m, slot) & (tokens < m.f(self.core.sf(slot, engine.remaining)))
            whole = where(granule < np.inf, m.opaque(floor(m.opaque(tokens / granule)) * granule), 0.0)
            tokens = where(partial, whole, tokens)
            m.when(partial & ~(tokens > 0), lambda: m.setu(self._refused, ONE))

        def schedule() -> None:
            m.addf(plan.left, -tokens)
            engine.batch(m, slot, tokens, i)

        def try_it() -> None:
            growing = self.engines.code.growing
            growth = m.u(self.core.su(slot, engine.growth))
            if not growing.of_runs:
                schedule()
                return
            out = growing.for_tokens(m, slot, growth, tokens)
            m.when(out == U32(GREW), schedule)
            m.when(out == U32(SELF), lambda: m.setu(self._ended, ONE))

        m.when(tokens > 0, try_it)

    # -- admitting
    def _may_admit(self, m: Memory, test: ir.Expr | None, i: Any) -> Any:
        may = (m.f(self.plan.left) > 0) & (m.u(self._refused) == 0)
        return may if test is None else may & truth(evaluate(test, self._scope(m, i)))

    def _admit(self, m: Memory, i: Any, offer: Any, may: Any, after: int) -> None:
        """Admit one request; planning goes on at `after` when there is none to admit."""
        m.setu(self._tried, U32(0))

        def attempt(name: str, j: Any) -> Callable[[], None]:
            def body() -> None:
                m.setu(self._tried, ONE)
                m.setu(self._asks, ONE)
                m.setf(self._offer, offer)
                m.setu(self._admits, self.holds.admit_next(m, name, j).astype(U32))
                m.setu(self._asks, U32(0))

            return body

        for name, j in self._queues(i):
            m.when(may & (m.u(self._tried) == 0) & self.context.pools[name].waiting(m, j), attempt(name, j))

        def wait_for_it() -> None:
            m.setu(self.engines.pause, ONE)
            m.addf(self.plan.admitted, 1.0)

        m.either(m.u(self._admits) != 0, wait_for_it, lambda: m.setu(self._at, U32(after)))

    def _exclusive(self, m: Memory, k: int, i: Any) -> None:
        """One prefill alone, else the decodes, which a newcomer that prefills displaces."""
        engine, plan, core = self.engine, self.plan, self.core

        def first_prefill() -> Any:
            count, zero = engine.count(m, i), m.full(0, U32)

            def look(at: Any, _found: Any) -> tuple[Any, Any]:
                slot = engine.resident(m, at, i)
                return at + ONE, where(engine.decodes(m, slot), zero, slot)

            return m.loop(lambda at, found: (at < count) & (found == 0), look, (zero, zero))[1]

        prefill = first_prefill()

        def alone() -> None:
            engine.displace(m, i)
            m.setf(plan.left, m.f(plan.budget))
            m.setu(core.su(prefill, engine.considered), m.u(plan.stamp))
            self._give(m, prefill, i)
            m.setu(self._at, U32(k + 1))

        def decodes() -> None:
            m.setu(self._ended, U32(0))
            m.setu(plan.index, U32(0))
            m.setu(self._admits, U32(0))
            self._in_order(m, None, i, lambda _: m.full(True, np.bool_))
            self._admit(m, i, m.f(plan.budget), self._may_admit(m, _UNDISTURBED, i), k + 1)

        m.either(prefill != 0, alone, decodes)

    # -- the end of an attempt
    def _conclude(self, m: Memory, i: Any) -> None:
        plan, engine = self.plan, self.engine
        m.setu(plan.active, U32(0))
        something = (engine.batched(m, i) != 0) | (m.f(plan.preempted) > 0)

        def nothing() -> None:
            engine.attempt_failed(m, i, self.has_work(m, i))

            def undo() -> None:
                for name, at in self._registers.items():
                    m.setf(member(at, i), m.f(self._saved[name]))

            m.when(m.f(plan.admitted) == 0, undo)

        m.either(something, lambda: self._run(m, i), nothing)

    def _run(self, m: Memory, i: Any) -> None:
        engine, s = self.engine, self._batch_scope(m, i)
        tokens, prefilled, decoders = (s.context[name] for name in ("tokens", "prefilled", "decoders"))
        cost = number(evaluate(self.kind.cost, s))
        bad = ~(cost >= 0) | ((tokens > 0) & ~(cost > 0))
        self.context.fail(m, bad, errors.COST, self.declared)
        self.engines.bound(m, cost, self.declared)
        self.engines.claims.read(m, self.declared.name, i, s)
        engine.each_batched(m, i, lambda slot: self._advance(m, slot))
        engine.start(m, i, cost, tokens, prefilled, decoders)

    def _advance(self, m: Memory, slot: Any) -> None:
        """The position of a growing run moves on."""
        tokens = m.f(self.core.sf(slot, self.engine.tokens))
        cases = {}
        for growth, part in self.engines.code.growing.of_runs.items():

            def move(part: Part = part) -> None:
                m.setf(self.holds.position(part, slot), self.holds.reached(m, part, slot) + tokens)

            cases[growth] = move
        if cases:
            m.switch(m.u(self.core.su(slot, self.engine.growth)), cases)


_UNDISTURBED = ir.Unary("not", ir.Context("preempted"))


class IterationClaims:
    """Claims that are read as an iteration starts."""

    def __init__(self, context: Context):
        self.context = context
        layout = context.core.layout
        self._claims = [claim for claim in context.program.claims if claim.stage is not None]
        self._cells = {claim.name: layout.f(f"claim.{claim.name}.counts", 4) for claim in self._claims}
        """Of each: how often it was read, how often 0, the times of the first 0 and of the first other value."""

    def clear(self, m: Memory) -> None:
        for cell in self._cells.values():
            m.setf(cell + 2, np.nan)
            m.setf(cell + 3, np.nan)

    def read(self, m: Memory, stage: str, i: Any, s: Scope) -> None:
        for claim in self._claims:
            assert claim.stage is not None
            if claim.stage.name != stage:
                continue
            members = self.context.stages[stage].members
            wanted = self.context.index(claim.stage, members, s, claim)
            cell = self._cells[claim.name]

            def look(claim: ir.Claim = claim, cell: int = cell) -> None:
                holds = truth(evaluate(claim.value, s))
                now = m.f(self.context.core.now)
                m.addf(cell, 1.0)
                m.addf(cell + 1, where(holds, m.full(0.0, np.float64), 1.0))
                for at, test in ((cell + 2, ~holds), (cell + 3, holds)):
                    m.update("f", at, lambda old, t=test: where(t & (old != old), now, old))  # type: ignore[misc]

            if claim.stage.index is None or members == 1:
                look()
            else:
                m.when(m.full(wanted == i, np.bool_) if isinstance(wanted == i, bool) else wanted == i, look)

    def metrics(self, m: Memory) -> dict[str, Any]:
        rows: dict[str, Any] = {}
        for claim in self._claims:
            cell = self._cells[claim.name]
            checked, failures = m.f(cell), m.f(cell + 1)
            every = claim.kind == "every_iteration"
            came_out = failures == 0 if every else failures < checked
            rows[f"claim.{claim.name}.value"] = where(checked > 0, came_out.astype(np.float64), np.nan)
            rows[f"claim.{claim.name}.checked"], rows[f"claim.{claim.name}.failures"] = checked, failures
            rows[f"claim.{claim.name}.first"] = m.f(cell + (2 if every else 3))
        return rows


def _is_step(declared: ir.Stage) -> bool:
    return isinstance(declared.kind, ir.Step)


def kind_of(run: ir.Run) -> Any:
    """The kind of a run on a step stage."""
    return DECODE if run.mode == "decode" else PREFILL

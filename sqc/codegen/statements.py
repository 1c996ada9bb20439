"""Statements: the operations of a segment into code over the lane's memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sqc_runtime.core import Core
from sqc_runtime.memory import Memory
from sqc_runtime.ops import greater, lesser, where
from sqc_runtime.pools import Pool
from sqc_runtime.stages import Stage
from sqc_runtime.statistics import Row

from .. import ir
from . import errors
from .draws import Position, Prefetch
from .expressions import Scope, as_u32, compute, draws_bound, evaluate, is_test, number
from .plan import (
    Code,
    EndTurn,
    Enter,
    Finish,
    Fork,
    Goto,
    Job,
    Join,
    Leave,
    Op,
    Plan,
    Return,
    SetReturn,
    Site,
    StartTurn,
    Test,
)

U32 = np.uint32
JUMP_LIMIT = 1_000_000


class Statements:
    """Code for the segments of one program. Registers and fields are reserved when it is made."""

    def __init__(
        self,
        program: ir.Program,
        plan: Plan,
        core: Core,
        stages: dict[str, Stage],
        pools: dict[str, Pool],
        rows: dict[str, Row],
        prefetch: Prefetch,
    ):
        self.program, self.plan, self.core = program, plan, core
        self.stages, self.pools, self.rows, self.prefetch = stages, pools, rows, prefetch
        layout = core.layout
        self.inputs = {decl.name: layout.f(f"input.{decl.name}") for decl in program.inputs}
        names = [n for n in program.attributes if n not in ("serial", "turn_no", "cached", "computed")]
        self._first_attribute = layout.field("f", "attributes", max(len(names) + 2, 1))
        self.attribute_count = len(names) + 2
        fields = {name: self._first_attribute + i for i, name in enumerate(["cached", "computed", *names])}
        self.attributes = {**fields, "serial": core.serial, "turn_no": core.turn_no}
        self.jumps = layout.u("jumps")
        self._return = layout.field("u", "return") if plan.turns > 1 else None
        outers = {outer.index for site in plan.sites for outer in site.outer}
        self._allocation = {
            site.index: layout.field("f", f"hold{site.index}.units")
            if site.index in outers
            else layout.shared_field("f", "hold.units")
            for site in plan.sites
        }
        self._copies = outers
        self.site_of = layout.field("u", "hold.site") if len(plan.sites) > 1 else None
        self.statements: list[ir.Span | None] = [None]

    # -- scopes
    def statement(self, stmt: Any) -> int:
        """The number of a statement in run-time errors."""
        span = getattr(stmt, "span", None)
        if span not in self.statements:
            self.statements.append(span)
        return self.statements.index(span)

    def constants(self, m: Memory) -> Scope:
        """What an expression without a session sees."""
        core = self.core
        return Scope(
            m=m,
            mul=lambda x, y: core.mul(m, x, y),
            opaque=lambda x: x + m.f(core.nz),
            now=lambda: m.f(core.now),
            input=lambda name: m.f(self.inputs[name]),
            read=lambda kind, resource: self._read(m, kind, resource, None),
        )

    def scope(self, m: Memory, slot: Any) -> Scope:
        core = self.core
        return replace(
            self.constants(m),
            attribute=lambda name: m.f(core.sf(slot, self.attributes[name])),
            read=lambda kind, resource: self._read(m, kind, resource, slot),
        )

    def _read(self, m: Memory, kind: str, resource: str, slot: Any) -> Any:
        match kind:
            case "queue":
                return self.stages[resource].present(m)
            case "busy":
                return self.stages[resource].in_service(m)
            case "used" | "holders":
                return m.f(self.pools[resource].signal(kind))
            case "queued":
                return m.f(self.pools[resource].signal("queue"))
            case "free":
                pool = self.pools[resource]
                return m.f(pool.cap) - m.f(pool.signal("used"))
            case "cachedin":
                return self.pools[resource].own(m, slot) if slot is not None else m.full(0.0, np.float64)
        raise NotImplementedError(f"`{kind}`")

    # -- plain operations
    def _ops(self, ops: list[Op], s: Scope, slot: Any) -> None:
        for op in ops:
            self._op(op, s, slot)

    def _block(self, stmts: tuple[ir.Stmt, ...], s: Scope, slot: Any) -> None:
        """An init or turn block: its statements are plain operations."""
        for stmt in stmts:
            assert isinstance(stmt, ir.Set | ir.Observe)
            self._op(stmt, s, slot)

    def _op(self, op: Op, s: Scope, slot: Any) -> None:
        m, core = s.m, self.core
        match op:
            case ir.Set(name, value):
                result = number(compute(value, s))
                m.setf(core.sf(slot, self.attributes[name]), result)
            case ir.Observe(name, value):
                self.rows[f"observe.{name}"].record(m, number(compute(value, s)), slot)
            case ir.Drop(pool):
                self.pools[pool].consume(m, slot)
            case Test():
                self._test(op, s, slot)
            case StartTurn():
                self._start_turn(s, slot)
            case EndTurn():
                response = m.f(core.now) - m.f(core.sf(slot, core.turn_start))
                self.rows["client.response"].record(m, response, slot)
            case SetReturn(segment):
                assert self._return is not None
                m.setu(core.su(slot, self._return), U32(segment))
            case Enter(site):
                if site.index in self._copies:
                    units = m.f(core.sf(slot, self.pools[site.hold.pool].units))
                    m.setf(core.sf(slot, self._allocation[site.index]), units)

    def _guard(self, guard: ir.Expr, stmt: Any, s: Scope) -> Any:
        """A guard as a boolean; anything but 0 and 1 ends the lane."""
        value = compute(guard, s)
        if is_test(value):
            return value
        bad = ~((value == 0) | (value == 1))
        self.core.fail(s.m, bad, errors.GUARD, self.statement(stmt))
        return value == 1

    def _test(self, op: Test, s: Scope, slot: Any) -> None:
        test = self._guard(op.branch.guard, op.branch, s)
        start = s.draws.mark() if s.draws else None
        moves = draws_bound(op.branch.then) + draws_bound(op.branch.other) > 0

        def arm(ops: list[Op]) -> Any:
            def run() -> tuple[Any, ...]:
                inner = s.inner()
                if inner.draws is not None:
                    inner.draws.set(start)
                self._ops(ops, inner, slot)
                return (as_u32(inner.draws.mark()),) if inner.draws and moves else ()

            return run

        if op.other or moves:
            out = s.m.either(test, arm(op.then), arm(op.other), (s.m.full(0, U32),) if moves else ())
        else:
            out = s.m.when(test, arm(op.then))
        if s.draws is not None:
            s.draws.set(out[0] if moves else start)

    def _start_turn(self, s: Scope, slot: Any) -> None:
        m, core = s.m, self.core
        turn = m.addu(core.su(slot, core.turn_count), 1)
        m.addf(core.turns, m.f(core.warm))
        m.setf(core.sf(slot, core.turn_start), m.f(core.now))
        m.addf(core.sf(slot, core.turn_no), 1.0)
        self.prefetch.turn_started(m, slot, turn)
        if self.program.turn:
            marks = Scope(**{**vars(s), "draws": self.prefetch.marks(m, slot, turn)})
            self._block(self.program.turn, marks, slot)

    def init(self, m: Memory, slot: Any) -> None:
        """The init block of a new session."""
        s = self.scope(m, slot)
        s.draws = self.prefetch.marks(m, slot, m.full(0, U32)) if self.prefetch.need.init else None
        self._block(self.program.init, s, slot)

    # -- segments
    def segment(self, m: Memory, code: Code, slot: Any) -> None:
        s = self.scope(m, slot)
        s.draws = self.prefetch.session(m, slot)
        self._code(code, s, slot)

    def _code(self, code: Code, s: Scope, slot: Any) -> None:
        self._ops(code.ops, s, slot)
        m, core, last = s.m, self.core, code.last
        match last:
            case Fork(guard, then, other, statement):
                test = self._guard(guard, statement, s)
                start = s.draws.mark() if s.draws else None

                def arm(code: Code) -> Any:
                    def run() -> None:
                        inner = s.inner()
                        if inner.draws is not None:
                            inner.draws.set(start)
                        self._code(code, inner, slot)

                    return run

                m.either(test, arm(then), arm(other))
                return
            case Goto(segment):
                self._continue(m, slot, U32(segment))
            case Return():
                assert self._return is not None
                self._continue(m, slot, m.u(core.su(slot, self._return)))
            case Job(run, segment):
                self._job(run, segment, s, slot)
            case Join(site, segment):
                self._join(site, segment, s, slot)
            case Leave(site, segment):
                self._release(site, s, slot)
                m.setf(core.sf(slot, self.attributes["computed"]), 0.0)
                m.setu(core.su(slot, core.pc), U32(segment))
                m.setu(core.serve_now, U32(1))
            case Finish(held):
                self._finish(held, s, slot)
        used = s.draws
        assert used is None or isinstance(used, Position)
        self.prefetch.session_used(m, slot, used)

    def _continue(self, m: Memory, slot: Any, segment: Any) -> None:
        """Go on at a segment without waiting."""
        core = self.core
        m.setu(core.su(slot, core.pc), segment)
        if self.plan.loops:
            jumps = m.addu(self.jumps, 1)
            core.fail(m, jumps > JUMP_LIMIT, errors.ENDLESS, 0)

    def _job(self, run: ir.Run, segment: int, s: Scope, slot: Any) -> None:
        m, core = s.m, self.core
        work = number(compute(run.work, s))
        m.setu(core.su(slot, core.pc), U32(segment))
        m.setu(core.current, U32(0))
        stage = self.stages[run.stage]
        statement = self.statement(run)

        def no_job() -> None:
            core.fail(m, ~(work == 0), errors.WORK, statement)
            core.push_ready(m, slot)

        m.either(work > 0, lambda: stage.begin(m, slot, work), no_job)

    def _join(self, site: Site, segment: int, s: Scope, slot: Any) -> None:
        m, core, hold = s.m, self.core, site.hold
        pool = self.pools[hold.pool]
        units = number(compute(hold.units, s))
        statement = self.statement(hold)

        def wait() -> None:
            m.setu(core.su(slot, core.pc), U32(segment))
            m.setu(core.current, U32(0))
            if self.site_of is not None:
                m.setu(core.su(slot, self.site_of), U32(site.index))
            pool.join(m, slot, units)
            m.setu(core.dirty, U32(1))

        def refuse() -> None:
            core.fail(m, ~(units >= 0), errors.UNITS, statement)
            m.addf(pool.rejected, 1.0)
            self._finish(site.outer, s.inner(), slot)

        joins = units >= 0
        if hold.refusable is not None:
            joins = joins & (units <= m.f(pool.cap))
        m.either(joins, wait, refuse)

    def _release(self, site: Site, s: Scope, slot: Any) -> None:
        """End a hold: free its units, keep what its cache clause says."""
        m, core, hold = s.m, self.core, site.hold
        pool = self.pools[hold.pool]
        units = m.f(core.sf(slot, self._allocation[site.index]))
        pool.give_back(m, units)
        if not self._holds_again(site):
            m.addf(pool.signal("holders"), -1.0)
        if hold.cache is not None:
            keep = number(compute(hold.cache, s))
            pool.keep(m, slot, lesser(greater(keep, 0.0), units))  # NaN keeps nothing

    def _holds_again(self, site: Site) -> bool:
        """Whether an outer hold of the same pool is around this one (a session counts once)."""
        return any(outer.hold.pool == site.hold.pool for outer in site.outer)

    def _finish(self, held: tuple[Site, ...], s: Scope, slot: Any) -> None:
        """The session ends: its holds end innermost first, its prefixes stay, its slot is free."""
        m, core = s.m, self.core
        for site in reversed(held):
            self._release(site, s, slot)
        if held:
            m.setu(core.dirty, U32(1))
        for pool in self.pools.values():
            pool.disown(m, slot)
        m.addf(core.signals.at("live"), -1.0)
        m.addf(core.ended, m.f(core.warm))
        core.release(m, slot)
        m.setu(core.current, U32(0))
        if isinstance(self.program.arrival, ir.Closed):
            m.addu(core.births, 1)

    # -- admission
    def serve(self, m: Memory) -> None:
        """Every pool in declaration order: admit what fits."""
        for name, pool in self.pools.items():
            sites = [site for site in self.plan.sites if site.hold.pool == name]
            if sites:
                m.when(pool.waiting(m), lambda pool=pool, sites=sites: self._serve(m, pool, sites))  # type: ignore[misc]

    def _serve(self, m: Memory, pool: Pool, sites: list[Site]) -> None:
        core = self.core

        def is_site(site: Site, slot: Any) -> Any:
            assert self.site_of is not None
            return m.u(core.su(slot, self.site_of)) == site.index

        def units_of(slot: Any) -> Any:
            """The demand now: what was computed on joining, unless it reads live state."""
            units = m.f(core.sf(slot, pool.units))
            for site in sites:
                if site.hold.refusable is None:
                    live = number(evaluate(site.hold.units, self.scope(m, slot)))
                    units = live if len(sites) == 1 else where(is_site(site, slot), live, units)
            return units

        def admit(slot: Any) -> None:
            units = units_of(slot)
            m.setf(core.sf(slot, pool.units), units)
            consuming = [site for site in sites if site.hold.cache is not None]
            own = m.full(0.0, np.float64)
            if len(consuming) == len(sites):
                own = pool.consume(m, slot)
            elif consuming:
                test = m.full(False, np.bool_)
                for site in consuming:
                    test = test | is_site(site, slot)
                (own,) = m.when(test, lambda: (pool.consume(m, slot),), (own,))
            pool.take(m, units)
            again = [site for site in sites if self._holds_again(site)]
            count = m.full(1.0, np.float64)
            for site in again:
                count = where(is_site(site, slot), m.full(0.0, np.float64), count)
            m.addf(pool.signal("holders"), count)
            m.setf(core.sf(slot, self.attributes["cached"]), own)
            core.push_ready(m, slot)

        pool.serve(m, units_of, admit)

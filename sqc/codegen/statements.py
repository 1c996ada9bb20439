"""Statements: the operations of a segment into code over the lane's memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from sqc_runtime.cache import Cache
from sqc_runtime.engine import DECODE, PREFILL, Engine
from sqc_runtime.flows import SharedStage
from sqc_runtime.memory import Memory
from sqc_runtime.ops import as_u32, floor, where
from sqc_runtime.order import precedes
from sqc_runtime.prefixes import Prefixes
from sqc_runtime.tokens import TokenTimes

from .. import ir
from . import errors
from .context import Context
from .deadlock import Deadlock
from .endings import Endings
from .expressions import Scope, draws_bound, evaluate, is_test, number
from .growth import Growing
from .holds import Holds, Part
from .leases import Leases
from .legs import Legs
from .plan import (
    Advance,
    Code,
    EndLeg,
    EndTurn,
    Finish,
    Gather,
    GiveBack,
    Goto,
    Growth,
    Job,
    Join,
    Last,
    Leave,
    Op,
    Return,
    Save,
    SetReturn,
    Site,
    Split,
    StartLeg,
    StartTurn,
    Test,
)
from .policies import Policies
from .steady import is_live

U32 = np.uint32
JUMP_LIMIT = 1_000_000
TOKEN_ROWS = ("ttft", "tpot")


class Statements:
    """Code for the segments of one program. Registers and fields are reserved when it is made."""

    def __init__(self, context: Context, stale: int):
        self.context, self.plan, self.core = context, context.plan, context.core
        self.vanish = len(self.plan.segments)
        """The segment of jobs for which nobody waits."""
        policies = Policies(context, self.vanish)
        self.holds = Holds(context, policies)
        self.growing = Growing(context, self.holds, policies)
        self.leases = Leases(context, self.holds, stale)
        self.legs = Legs(context)
        self.deadlock = Deadlock(context, self.holds, self.leases, self.legs) if self.plan.can_lock else None
        self.endings = Endings(context, self.holds, self.growing, self.leases, self.legs)
        layout = self.core.layout
        self.jumps = layout.u("jumps")
        self.times: TokenTimes | None = None
        if context.engines:
            rows = context.rows
            self.times = TokenTimes(context.core, rows["client.ttft"], rows["client.tpot"], context.owner)
            self.endings.times = self.times
            for engine in context.engines.values():
                engine.times = self.times
        self._return = layout.field("u", "return") if self.plan.turns > 1 else None
        self.spills = any(pool.spill for pool in context.program.pools)
        self.always_serves = bool(self.plan.sites) and _reads_live_state(context.program)
        """Whether any event can change who is admitted."""
        holds = [site.hold for site in self.plan.sites]
        self.asks_for_more = any(part.refusable != _demand(part) for hold in holds for part in hold.parts)
        """Whether a demand can be larger than the capacity and wait all the same."""

    # -- plain operations
    def _ops(self, ops: list[Op], s: Scope, slot: Any) -> None:
        for op in ops:
            self._op(op, s, slot)

    def block(self, stmts: tuple[ir.Stmt, ...], s: Scope, slot: Any) -> None:
        """An init or turn block: its statements are plain operations."""
        for stmt in stmts:
            assert isinstance(stmt, ir.Set | ir.Observe)
            self._op(stmt, s, slot)

    def _op(self, op: Op, s: Scope, slot: Any) -> None:
        m, core, context = s.m, self.core, self.context
        context.at = op.branch if isinstance(op, Test) else getattr(op, "statement", op)
        match op:
            case ir.Set(name, value):
                context.set(m, slot, name, number(evaluate(value, s)))
            case ir.Observe(name, value):
                sample = number(evaluate(value, s))
                context.rows[f"observe.{name}"].record(m, sample, slot)
                context.claims.sample(m, name, sample)
            case ir.Drop(ref):
                pool = context.pools[ref.name]
                if isinstance(pool.cache, Cache | Prefixes):
                    i = context.index(ref, pool.members, s, op)
                    pool.cache.drop(m, context.owner(m, slot), i)
            case ir.Choose():
                self._choose(op, s, slot)
            case Test():
                self._test(op, s, slot)
            case StartTurn():
                self._start_turn(s, slot)
            case EndTurn():
                response = m.f(core.now) - m.f(core.sf(slot, core.turn_start))
                context.rows["client.response"].record(m, response, slot)
                if self.times is not None:
                    self.times.turn_ends(m, slot, response)
            case SetReturn(segment):
                assert self._return is not None
                m.setu(core.su(slot, self._return), U32(segment))
            case Advance(statement, sites):
                self.holds.load(statement, sites, s, slot)
            case Save(statement, sites):
                self.holds.checkpoint(statement, sites, s, slot)
            case StartLeg(_, segment):
                leg = self.legs.start(m, slot, segment)
                self.context.never_admitted(m, leg)
                self.growing.born(m, leg)
                self.leases.born(m, leg)
                if self.times is not None:
                    self.times.leg_starts(m, leg)

    def _guard(self, guard: ir.Expr, stmt: Any, s: Scope) -> Any:
        """A guard as a boolean; anything but 0 and 1 ends the lane."""
        value = evaluate(guard, s)
        if is_test(value):
            return value
        bad = ~((value == 0) | (value == 1))
        self.context.fail(s.m, bad, errors.GUARD, stmt)
        return value == 1

    def _test(self, op: Test, s: Scope, slot: Any) -> None:
        test = self._guard(op.branch.guard, op.branch, s)
        start = s.draws.mark() if s.draws else None
        moves = s.draws is not None and draws_bound((op.branch.then, op.branch.other)) != 0

        def arm(ops: list[Op]) -> Callable[[], tuple[Any, ...]]:
            def run() -> tuple[Any, ...]:
                if s.draws is not None:
                    s.draws.set(start)
                self._ops(ops, s, slot)
                return (as_u32(s.draws.mark()),) if s.draws is not None and moves else ()

            return run

        if moves and isinstance(start, int):
            start = s.m.full(start, U32)
        out = s.m.either(test, arm(op.then), arm(op.other))
        if s.draws is not None:
            s.draws.set(out[0] if moves else start)

    def _choose(self, op: ir.Choose, s: Scope, slot: Any) -> None:
        """Set the attribute to each index in turn; the least keys win, the smallest index among equals."""
        m, context = s.m, self.context
        count = number(evaluate(op.count, s))
        context.fail(m, ~((count >= 0) & (count == floor(count))), errors.CHOICES, op)

        def keys(index: Any) -> list[Any]:
            context.set(m, slot, op.name, index)
            return [number(evaluate(key, s)) for key in op.keys]

        def compare(index: Any, best_index: Any, *best: Any) -> tuple[Any, ...]:
            found = keys(index)
            before = precedes(m, found, best) | (best_index < 0)
            return (
                index + 1.0,
                where(before, index, best_index),
                *(where(before, a, b) for a, b in zip(found, best, strict=True)),
            )

        start = (m.full(0.0, np.float64), m.full(-1.0, np.float64), *[m.full(np.inf, np.float64)] * len(op.keys))
        _, chosen, *_ = m.loop(lambda index, *_: index < count, compare, start)
        context.set(m, slot, op.name, where(chosen < 0, m.full(0.0, np.float64), chosen))

    def _start_turn(self, s: Scope, slot: Any) -> None:
        m, core, context = s.m, self.core, self.context
        turn = m.addu(core.su(slot, core.turn_count), 1)
        m.addf(core.turns, m.f(core.warm))
        m.setf(core.sf(slot, core.turn_start), m.f(core.now))
        m.addf(core.sf(slot, core.turn_no), 1.0)
        if self.times is not None:
            self.times.turn_starts(m, slot)
        context.prefetch.turn_started(m, slot, turn)
        if context.traces is not None:
            context.traces.next_row(m, slot, lambda name, value: context.set(m, slot, name, value))
        if context.program.turn:
            marks = replace(s, draws=context.prefetch.marks(m, slot, turn))
            self.block(context.program.turn, marks, slot)

    def init(self, m: Memory, slot: Any) -> None:
        """The init block of a new session."""
        s = self.context.scope(m, slot)
        s.draws = self.context.prefetch.init_marks(m, slot)
        self.block(self.context.program.init, s, slot)

    def born(self, m: Memory, slot: Any) -> None:
        """Set what a new session's slot must say."""
        m.setu(self.core.su(slot, self.context.waits_at), U32(0))
        self.context.never_admitted(m, slot)
        self.legs.born(m, slot)
        self.growing.born(m, slot)
        self.leases.born(m, slot)

    # -- segments
    def segment(self, m: Memory, code: Code, slot: Any) -> None:
        s = self.context.scope(m, slot)
        s.draws = self.context.prefetch.session(m, slot, code)
        self._code(code, s, slot)

    def _code(self, code: Code, s: Scope, slot: Any) -> None:
        self._ops(code.ops, s, slot)
        m, core, last = s.m, self.core, code.last
        self.context.at = _statement_of(last)
        match last:
            case Split(guard, then, other, statement):
                test = self._guard(guard, statement, s)
                start = s.draws.mark() if s.draws else None

                def arm(code: Code) -> Any:
                    def run() -> None:
                        if s.draws is not None:
                            s.draws.set(start)
                        self._code(code, s, slot)

                    return run

                m.either(test, arm(then), arm(other))
                return
            case Goto(segment):
                self._continue(m, slot, U32(segment))
            case Return():
                assert self._return is not None
                self._continue(m, slot, m.u(core.su(slot, self._return)))
            case Job():
                self._job(last, s, slot)
            case Join(site, segment):
                self.holds.reach(site, segment, s, slot, lambda: self.endings.refuse(site, s, slot))
            case Leave(site, segment):
                self.holds.leave(site, s, slot, lease=True)
                self._serve_first(m, slot, segment)
            case GiveBack(statement, sites, segment):
                self._give_back(statement, sites, s, slot)
                self._serve_first(m, slot, segment)
            case Growth():
                self.growing.grow(last, s, slot)
            case Gather():
                self.legs.gather(m, slot, last)
            case EndLeg():
                self.endings.leg(m, slot)
            case Finish(held):
                self.endings.finish(held, s, slot)
        self.context.prefetch.session_used(m, slot, s.draws)

    def _continue(self, m: Memory, slot: Any, segment: Any) -> None:
        """Go on at a segment without waiting."""
        core = self.core
        m.setu(core.su(slot, core.pc), segment)
        if self.plan.loops:
            jumps = m.addu(self.jumps, 1)
            core.fail(m, jumps > JUMP_LIMIT, errors.ENDLESS, 0)

    def _serve_first(self, m: Memory, slot: Any, segment: int) -> None:
        """The pools are served before the session goes on."""
        m.setu(self.core.su(slot, self.core.pc), U32(segment))
        m.setu(self.core.serve_now, U32(1))

    def _job(self, job: Job, s: Scope, slot: Any) -> None:
        m, core, context = s.m, self.core, self.context
        run, segment = job.run, job.segment
        work = number(evaluate(run.work, s))
        m.setu(core.su(slot, core.pc), U32(segment))
        m.setu(core.current, U32(0))

        def begin() -> None:
            if isinstance(run, ir.Flow):
                self._flow(run, s, slot, work)
                return
            stage = context.stages[run.stage.name]
            i = context.index(run.stage, stage.members, s, run)
            if isinstance(stage, Engine):
                self._join_engine(stage, job, run, m, slot, work, i)
            else:
                stage.begin(m, slot, work, i)

        def no_job() -> None:
            context.fail(m, ~(work == 0), errors.WORK, run)
            core.push_ready(m, slot)

        if self.times is not None and isinstance(run, ir.Run) and run.mode == "decode":
            self.times.decode_starts(m, slot)  # one of no tokens too
        m.either(work > 0, begin, no_job)

    def _join_engine(self, engine: Engine, job: Job, run: ir.Run, m: Memory, slot: Any, work: Any, i: Any) -> None:
        """The session becomes a resident of a step stage."""
        mode, growth = DECODE if run.mode == "decode" else PREFILL, self.growing.number_for(job, m, slot)
        engine.join(m, slot, work, i, mode, growth, self.context.latest_admission(m, slot))

    def _flow(self, run: ir.Flow, s: Scope, slot: Any, work: Any) -> None:
        """A job on several stages at once."""
        m, context = s.m, self.context
        held: list[tuple[SharedStage, Any]] = []
        for ref in run.stages:
            stage = context.stages[ref.name]
            assert isinstance(stage, SharedStage)
            held.append((stage, context.index(ref, stage.members, s, run)))
        held[0][0].flows.begin(m, slot, work, held)

    def _give_back(self, statement: ir.Release, sites: tuple[Site, ...], s: Scope, slot: Any) -> None:
        """`release`: what the innermost hold around still has of the pool, else the session's oldest lease of it."""
        m, holds = s.m, self.holds

        def give_back(part: Part) -> None:
            holds.give_back(m, part, s, slot)

        def end_lease() -> None:
            self.leases.release(m, statement.pool, s, slot, statement)

        holds.innermost(m, statement.pool, sites, slot, give_back, end_lease)

    def end_of_job(self, m: Memory, slot: Any) -> None:
        """A job for which nobody waited is done."""
        self.core.release(m, slot)
        m.addf(self.core.others, -1.0)
        m.setu(self.core.current, U32(0))

    # -- admission
    def serve(self, m: Memory) -> None:
        """Every pool in declaration order: growers, then whoever fits."""
        grown = {pool.name for pool in self.growing.pools}
        by_engines = {pool.name for pool in self.context.program.pools if pool.admit_via is not None}
        for name, pool in self.context.pools.items():
            waits = bool(self.holds.sites_of(name)) and name not in by_engines

            def member(i: Any, name: str = name, waits: bool = waits) -> None:
                if name in grown:
                    self.growing.retry(m, name, i)
                if waits:
                    self.holds.serve(m, name, i)

            if not waits and name not in grown:
                continue
            if pool.members == 1:
                member(0)
                continue

            def each(i: Any, member: Callable[[Any], None] = member) -> tuple[Any]:
                member(i)
                return (i + U32(1),)

            m.loop(lambda i, n=pool.members: i < n, each, (m.full(0, U32),))


def _statement_of(last: Last) -> Any:
    """The statement that ends a segment, if it is one."""
    match last:
        case Job(run, _):
            return run
        case Join(site, _) | Leave(site, _):
            return site.hold
    return getattr(last, "statement", None)


def _demand(part: ir.Part) -> ir.Expr:
    """What is refused when it exceeds the capacity, if nothing of it reads live state."""
    return part.units if part.reserve is None else ir.Binary("max", part.units, part.reserve)


def _reads_live_state(program: ir.Program) -> bool:
    """Whether a hold's demand or a queue key reads what changes without a release."""
    holds = [n for n in ir.walk((program.session, program.server)) if isinstance(n, ir.Hold)]
    demands = [e for hold in holds for p in hold.parts for e in (p.units, p.reserve) if e is not None]
    keys = [key for pool in program.pools for key in pool.queue]
    return is_live((*demands, *keys))

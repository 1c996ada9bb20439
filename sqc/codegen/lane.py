"""The lane program: one run of one seed, as a loop of steps over the lane's memory.

A step does at most one of each thing, in this order, so that a typical event is one step:

1. if nothing is left to do at this instant: the next event is popped and handled;
2. the next ready session becomes current;
3. chores, which few steps have: the gap to the next arrival is drawn, a session is created, random
   numbers that the current session will need are computed, an init block runs;
4. without chores, the current session executes a segment of the phase after an event;
5. the pools are served, at the end of a hold or when no session is ready;
6. the next ready session becomes current;
7. it executes a segment of the phase after serving (a hold's body, what follows a hold).

One flat loop, rather than loops within loops, is also what lets many lanes run in lockstep: none
waits for another's inner loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sqc_runtime.cache import Cache
from sqc_runtime.chain import Chain
from sqc_runtime.core import DONE, INF, Core, Signals
from sqc_runtime.memory import Layout, Memory
from sqc_runtime.ops import floor, lesser, where
from sqc_runtime.pools import Pool, Traits
from sqc_runtime.prefixes import Prefixes
from sqc_runtime.statistics import Row

from .. import ir
from . import errors
from .claims import Claims
from .context import Context, attribute_fields
from .draws import Prefetch
from .engines import Engines, has_engines
from .expressions import Scope, evaluate, exponential, number
from .gauges import Gauges
from .invariants import Invariants
from .needs import Bounds, need_of, starts_turn
from .plan import AFTER_EVENT, AFTER_SERVE, Code, Plan, make_plan
from .policies import eviction_attributes, reads_release
from .prefixes import Contexts, shape_of
from .skipping import Clock
from .stages import make_stages, signals, sources
from .statements import TOKEN_ROWS, Statements
from .traces import Traces

U32 = np.uint32
MOST_SESSIONS = 1_000_000
CLIENT_ROWS = ("response", *TOKEN_ROWS)


class LaneProgram:
    """A compiled program before it meets a memory: addresses, segments, metric names.

    `capacities`: "sessions" (live at once), "entries" (of each pool's cache), "stale" (pending
    finishes of a ps stage), "samples" (kept per row; 0 keeps histograms instead), "values" (kept
    of an observation for claims, where they need all).
    """

    def __init__(
        self,
        program: ir.Program,
        capacities: Mapping[str, int],
        mode: str = "native",
        debug: bool = False,
        skip: bool = True,
    ):
        self.program = program
        self.capacities = dict(capacities)
        self.plan = make_plan(program)
        self.layout = layout = Layout("u" if mode == "native" else "h")
        slots = capacities["sessions"]
        self.core = core = Core(layout, slots, guard_instants=_can_stand_still(program, self.plan))
        others = {name: p.size or 1 for p in program.pools for name in Pool.signal_names(f"pool.{p.name}")}
        jobs, carried = signals(program)
        core.signals = Signals(jobs, {"live": 1, **others, **carried}, layout)
        attributes = attribute_fields(program, core)
        self.shape = shape_of(program)
        self.pools = {p.name: self._pool(p, attributes) for p in program.pools}
        self.stages = make_stages(program, core, capacities["stale"], self._outside, self.plan.removes)
        self.sources = sources(self.stages)
        samples = capacities["samples"]
        steps = has_engines(program)
        names = [f"observe.{o.name}" for o in program.observes] + ["client.response"]
        names += [f"client.{name}" for name in TOKEN_ROWS] if steps else []
        self.rows = {name: Row(core, name, samples) for name in names}
        bounds = Bounds(program, self.plan)
        self.prefetch = Prefetch(core, need_of(program, self.plan, bounds), bounds)
        self.claims = Claims(core, program, capacities.get("values", 0))
        self.traces = Traces(core, program.trace, self.prefetch.seed) if program.trace else None
        contexts = Contexts(program, self.shape, layout)
        resources = (self.stages, self.pools, self.rows, self.prefetch)
        self.context = Context(program, self.plan, core, attributes, *resources, self.claims, self.traces, contexts)
        self.code = Statements(self.context, capacities["stale"])
        # The invariants are checked at every instant: then none is skipped.
        clock = Clock(self._following, self._skip_to) if skip and not debug else None
        self.engines = Engines(self.context, self.code, self._outside, clock) if steps else None
        self.invariants = Invariants(self.context, self.code.holds) if debug else None
        self.next_arrival, self.arrival_seq = layout.f("arrival.time"), layout.f("arrival.seq")
        self.end = layout.f("end")
        self.gauges = Gauges(core, program.gauges, samples)
        self.change_points = self.gauges.change_points
        layout.freeze(slots)

    def _pool(self, decl: ir.Pool, attributes: Mapping[str, int]) -> Pool:
        program, name, members = self.program, f"pool.{decl.name}", decl.size or 1
        nodes = list(ir.walk((program.session, program.server)))
        traits = Traits(
            members=members,
            blocks=decl.block is not None,
            keyed=bool(decl.queue),
            grows=any(_grows(n) == decl.name for n in nodes),
            promises=decl.reserve_held,
            removes=self.plan.removes,
        )
        cache: Cache | Prefixes | Chain | None = None
        kept = {part.pool.name for site in self.plan.sites if site.hold.cache is not None for part in site.hold.parts}
        if decl.name in kept | {p.spill.pool.name for p in program.pools if p.spill}:
            fields = sorted(attributes[a] for a in eviction_attributes(program, decl))
            named = any(p.spill for p in program.pools)
            entries = self.capacities["entries"]
            if decl.slots is not None:
                cache = Chain(self.core, name, members, entries, self.shape.segments, decl.retain == "lru")
            elif decl.name in self.shape.pools:
                segments = self.shape.segments
                cache = Prefixes(self.core, name, members, entries, segments, fields, reads_release(decl))
            else:
                cache = Cache(self.core, name, members, entries, fields, reads_release(decl), named)
        return Pool(self.core, name, traits, cache)

    @property
    def statements(self) -> list[ir.Span | None]:
        """Spans by statement number, as run-time errors report them (complete once traced)."""
        return self.context.statements

    def _outside(self, m: Memory, stmt: Any) -> Scope:
        """What an expression sees that is evaluated without a session, of a machine."""
        return replace(self.context.constants(m, stmt), draws=self.prefetch.machine(m))

    # -- one run
    def simulate(
        self, m: Memory, seed: Any, horizon: Any, warmup: Any, limit: Any, inputs: Sequence[Any]
    ) -> dict[str, Any]:
        """Run to the end; returns the metrics and the status registers."""
        self._start(m, seed, horizon, warmup, limit, inputs)
        m.loop(lambda: self.core.running(m), lambda: self._step(m))
        return self._results(m)

    def _start(self, m: Memory, seed: Any, horizon: Any, warmup: Any, limit: Any, inputs: Sequence[Any]) -> None:
        core = self.core
        m.setu(self.prefetch.seed_low, seed.astype(U32))
        m.setu(self.prefetch.seed_high, (seed >> np.uint64(32)).astype(U32))
        m.setf(core.horizon, horizon)
        m.setf(core.warmup, warmup)
        m.setf(core.limit, limit)
        m.setf(core.warm, where(warmup > 0, 0.0, 1.0))
        m.setf(core.warmup_due, where(warmup > 0, warmup, INF))
        for decl, value in zip(self.program.inputs, inputs, strict=True):
            m.setf(self.context.inputs[decl.name], value)
        for part in dict.fromkeys([*self.stages.values(), *self.sources]):
            part.clear(m)
        for row in self.rows.values():
            row.clear(m)
        self.prefetch.clear(m)
        self.gauges.clear(m)
        self.claims.clear(m)
        constants = self.context.constants(m)
        for declared in self.program.pools:
            self._clear_pool(m, declared, constants)
        self.code.leases.clear(m)
        if self.engines is not None:
            self.engines.clear(m, self._outside)
        m.setf(self.next_arrival, INF)
        match self.program.arrival:
            case ir.Poisson(rate):
                value = number(evaluate(rate, constants))
                bad = ~((value > 0) & (value < INF))
                core.fail(m, bad, errors.RATE, self.context.statement(self.program.arrival))
                m.setf(self.next_arrival, 0.0)
            case ir.Renewal():
                m.setu(self.core.schedule_due, U32(1))
            case ir.Closed(n) | ir.Batch(n):
                count = number(evaluate(n, constants))
                bad = ~((count >= 0) & (count <= MOST_SESSIONS) & (count == floor(count)))
                core.fail(m, bad, errors.COUNT, self.context.statement(self.program.arrival))
                m.setu(self.core.births, where(bad, 0.0, count).astype(U32))
        m.setf(core.seq, 1.0)

    def _clear_pool(self, m: Memory, declared: ir.Pool, constants: Scope) -> None:
        cap, block = number(evaluate(declared.cap, constants)), None
        if declared.block is not None:
            block = number(evaluate(declared.block, constants))
            self.core.fail(m, ~((block > 0) & (block < INF)), errors.BLOCK, self.context.statement(declared))
        pool = self.pools[declared.name]
        pool.clear(m, cap, block)
        if declared.slots is not None and isinstance(pool.cache, Chain):
            slots = number(evaluate(declared.slots, constants))
            bad = ~((slots >= 0) & (slots == floor(slots)) & (slots < INF))
            self.core.fail(m, bad, errors.SLOTS, self.context.statement(declared))
            pool.cache.set_slots(m, slots)

    # -- arrivals
    def _schedule_arrival(self, m: Memory) -> None:
        """Draw the gap to the next arrival; its event takes the next sequence number."""
        m.setu(self.core.schedule_due, U32(0))
        core, arrival = self.core, self.program.arrival
        scope = self.context.constants(m)
        draws = None
        if self.prefetch.need.arrivals:
            draws = self.prefetch.arrival_draws(m)
            scope.draws = draws
        if isinstance(arrival, ir.Poisson):
            assert draws is not None
            rate = number(evaluate(arrival.rate, scope))
            gap = exponential(m.full(1.0, np.float64), draws.take(m), scope) / m.opaque(rate)
        else:
            assert isinstance(arrival, ir.Renewal)
            gap = number(evaluate(arrival.gap, scope))
            core.fail(m, ~((gap > 0) & (gap < INF)), errors.GAP, self.context.statement(arrival))
        if draws is not None:
            self.prefetch.arrivals_used(m, draws)
        m.setf(self.next_arrival, m.f(core.now) + gap)
        m.setf(self.arrival_seq, core.next_seq(m))

    def _arrival(self, m: Memory) -> None:
        m.setf(self.next_arrival, INF)
        more = m.f(self.core.arrivals) + 1.0 < m.f(self.core.limit)
        m.setu(self.core.schedule_due, more.astype(U32))
        m.setu(self.core.births, U32(1))

    def _create(self, m: Memory) -> None:
        """A session in a free slot; its init block runs once its random numbers are there."""
        core, code = self.core, self.code
        m.setu(core.births, m.u(core.births) - U32(1))
        slot = core.allocate(m)
        serial = m.f(core.arrivals)
        m.setf(core.arrivals, serial + 1.0)
        m.addf(core.signals.at("live"), 1.0)
        m.setf(core.sf(slot, core.serial), serial)
        m.setu(core.su(slot, core.turn_count), U32(0))
        m.setu(core.su(slot, core.pc), U32(self.plan.start))
        for name, field in self.context.attributes.items():
            if name != "serial":
                m.setf(core.sf(slot, field), 0.0)
        code.born(m, slot)
        self.prefetch.born(m, slot)
        if self.traces is not None:
            self.traces.pick(m, slot, serial)
        m.setu(core.current, slot)
        if self.program.init:
            m.setu(self.core.init_due, U32(1))
        else:
            self._begin(m, slot)

    def _born(self, m: Memory) -> None:
        """Init, then the new session joins the back of the ready queue."""
        slot = m.u(self.core.current)
        m.setu(self.core.init_due, U32(0))
        self.code.init(m, slot)
        self._begin(m, slot)

    def _begin(self, m: Memory, slot: Any) -> None:
        """A session is made."""
        self.claims.given(self.context.scope(m, slot))
        self._line_up(m, slot)

    def _line_up(self, m: Memory, slot: Any) -> None:
        """The new session runs now, or behind those that were ready before it."""
        core = self.core

        def queue_up() -> None:
            core.push_ready(m, slot)
            m.setu(core.current, U32(0))

        m.when(core.ready(m) | (m.u(self.core.births) != 0), queue_up)

    # -- events
    def _event(self, m: Memory) -> None:
        core = self.core
        if self.engines is None:
            for source in self.sources:
                source.settle(m)
        else:
            self.engines.settled(m)
        time, which, drained, all_came, over = self._next_event(m)
        time = where(drained, m.f(core.now), lesser(time, m.f(core.horizon)))
        if self.invariants is not None:
            self.invariants.check(m, time)
        self._go_on(m, time, over)
        m.addf(core.events, where(over, 0.0, 1.0))
        if self.plan.loops:
            m.setu(self.code.jumps, U32(0))
        if self.code.always_serves:
            m.setu(core.dirty, U32(1))
        m.when(over, lambda: self._finish(m, drained, all_came))
        m.when(~over, lambda: m.switch(which, self._handlers(m)))

    def _go_on(self, m: Memory, time: Any, over: Any) -> None:
        """The clock goes on, and what is measured over time with it."""
        self.gauges.read(m, self.context.constants(m), time, over)
        self.core.advance(m, time)

    def _skip_to(self, m: Memory, time: Any) -> None:
        self._go_on(m, time, m.full(False, np.bool_))

    def _following(self, m: Memory) -> Any:
        """The time of the next event."""
        return self._next_event(m)[0]

    def _next_event(self, m: Memory) -> tuple[Any, ...]:
        """The first event by (time, sequence number): its time and kind, and whether the run is over."""
        core = self.core
        times: list[tuple[Any, Any]] = [(m.f(self.next_arrival), m.f(self.arrival_seq))]
        times += [source.due(m) for source in self.sources]
        if self.code.leases.parts:
            times.append(self.code.leases.due(m))
        time, seq, which = m.f(core.warmup_due), m.full(0.0, np.float64), m.full(0, U32)
        for i, (t, q) in enumerate(times):
            earlier = (t < time) | ((t == time) & (q < seq))
            time, seq = where(earlier, t, time), where(earlier, q, seq)
            which = where(earlier, U32(i + 1), which)
        all_came = m.f(core.arrivals) >= m.f(core.limit)
        drained = all_came & (m.f(core.signals.at("live")) == 0)
        return time, which, drained, all_came, drained | (time > m.f(core.horizon))

    def _finish(self, m: Memory, drained: Any, all_came: Any) -> None:
        """The run is over: at the horizon, or when the last of a limited number has ended."""
        core = self.core
        limited = m.f(core.limit) < INF
        if self.code.deadlock is not None:
            self.code.deadlock.check(m)
        core.fail(m, limited & ~all_came, errors.NOT_REACHED, 0)
        core.fail(m, limited & ~drained, errors.NOT_DRAINED, 0)
        core.fail(m, drained & (m.f(core.now) <= m.f(core.warmup)), errors.DRAINED_EARLY, 0)
        queue = 0
        for pool in self.program.pools:
            for i in range(pool.size or 1):
                if self.code.asks_for_more and self.code.holds.sites_of(pool.name):
                    self.code.holds.note_over_cap(m, pool.name, i, queue)
                queue += 1
        m.setf(self.end, m.f(core.now))
        m.setu(core.dirty, U32(0))  # what the last iteration left is not given out any more
        core.stop(m, m.full(True, np.bool_), DONE)

    def _handlers(self, m: Memory) -> dict[int, Callable[[], None]]:
        """What each kind of event does, by the numbers that `_next_event` gives them."""
        core = self.core

        def warm_up() -> None:
            m.setf(core.warm, 1.0)
            m.setf(core.warmup_due, INF)
            core.signals.reset(m)
            self.gauges.warm_up(m)

        handlers: dict[int, Callable[[], None]] = {0: warm_up}
        if isinstance(self.program.arrival, ir.Poisson | ir.Renewal):
            handlers[1] = lambda: self._arrival(m)
        for kind, source in enumerate(self.sources, 2):
            handlers[kind] = lambda source=source: m.setu(core.current, source.finish(m))  # type: ignore[misc]
        if self.code.leases.parts:
            handlers[len(self.sources) + 2] = lambda: self.code.leases.expire(m)
        return handlers

    # -- a step
    def _step(self, m: Memory) -> tuple[Any, ...]:
        core = self.core
        current, ready, births = m.u(core.current), core.ready(m), m.u(core.births)
        settled = m.u(core.dirty) == 0
        if self.engines is not None:
            settled = settled | (m.u(self.engines.settling) != 0)
        quiet = (current == 0) & ~ready & (births == 0) & settled
        # The gap to the next arrival is drawn as an arrival is handled: its uniforms must be there.
        quiet = quiet & self.prefetch.arrivals_ready(m) & (m.u(core.schedule_due) == 0)
        if self.engines is None:
            m.when(quiet, lambda: self._event(m))
        else:
            m.when(quiet, lambda: self._settle(m))
        self._pop(m)
        core.guard(m)
        slot = m.u(core.current)
        lacking = self.prefetch.lacking(m, slot, self._starts_turn(m, slot, AFTER_EVENT))
        chores = lacking | ((m.u(core.births) | m.u(core.schedule_due) | m.u(core.init_due)) != 0)
        m.when(chores & core.running(m), lambda: self._chores(m))
        self._dispatch(m, AFTER_EVENT, ~chores)
        if self.plan.sites:
            self._serve(m)
        if any(s.phase == AFTER_SERVE for s in self.plan.segments):
            idle = m.u(core.current) == 0
            self._pop(m)
            m.when(idle, lambda: core.guard(m))
            slot = m.u(core.current)
            lacking = self.prefetch.lacking(m, slot, self._starts_turn(m, slot, AFTER_SERVE))
            self._dispatch(m, AFTER_SERVE, ~lacking & (m.u(core.init_due) == 0) & (m.u(core.error) == 0))
        return ()

    def _settle(self, m: Memory) -> None:
        """The stages settle, step stages plan their iterations; once all have, the next event comes."""
        assert self.engines is not None
        over = self.engines.settle(m, self.sources, lambda: self._following(m))
        m.when(over & ~self.core.ready(m) & self.core.running(m), lambda: self._event(m))

    def _chores(self, m: Memory) -> None:
        """What few steps need: the next arrival's gap, a new session, random numbers, an init block."""
        core = self.core
        if isinstance(self.program.arrival, ir.Poisson | ir.Renewal):
            due = self.prefetch.arrivals_ready(m) & (m.u(core.schedule_due) != 0)
            m.when(due, lambda: self._schedule_arrival(m))
        m.when((m.u(core.current) == 0) & (m.u(core.births) != 0), lambda: self._create(m))
        slot = m.u(core.current)
        self.prefetch.provide(m, slot, self._starts_turn(m, slot, AFTER_EVENT))
        if self.program.init:
            there = (slot != 0) & ~self.prefetch.lacking(m, slot, None)
            m.when((m.u(core.init_due) != 0) & there, lambda: self._born(m))

    def _starts_turn(self, m: Memory, slot: Any, phase: int) -> Any:
        """Whether the segment that a session runs in this phase draws the marks of a turn."""
        indices = [s.index for s in self.plan.segments if starts_turn(s.code)]
        if phase == AFTER_SERVE and not any(self.plan.segments[i].phase == phase for i in indices):
            return None
        pc = m.u(self.core.su(slot, self.core.pc))
        starts = m.full(False, np.bool_)
        for index in indices:
            starts = starts | (pc == index)
        return starts

    def _pop(self, m: Memory) -> None:
        core = self.core
        core.pop_ready(m, (m.u(core.current) == 0) & (m.u(self.core.births) == 0))

    def _serve(self, m: Memory) -> None:
        core, code = self.core, self.code
        quiet = (m.u(core.current) == 0) & ~core.ready(m) & (m.u(core.births) == 0) & (m.u(core.dirty) != 0)
        if self.engines is not None:  # while iterations are planned, only ends of holds serve
            quiet = quiet & (m.u(self.engines.settling) == 0)

        def serve() -> None:
            m.setu(core.serve_now, U32(0))
            m.setu(core.dirty, U32(0))
            code.serve(m)

        m.when((m.u(core.serve_now) != 0) | quiet, serve)

    def _dispatch(self, m: Memory, phase: int, can_run: Any) -> None:
        """Execute the current session's segment, if it belongs to this phase."""
        segments = [s for s in self.plan.segments if s.phase == phase]
        core = self.core
        slot = m.u(core.current)
        pc = m.u(core.su(slot, core.pc))
        go = can_run & (slot != 0)

        def run(code: Code) -> Callable[[], None]:
            def segment() -> None:
                m.setu(core.actor, slot)
                if self.code.always_serves:
                    m.setu(core.dirty, U32(1))
                self.code.segment(m, code, slot)

            return segment

        bodies = {segment.index: run(segment.code) for segment in segments}
        if self.code.spills and phase == AFTER_EVENT:
            bodies[self.code.vanish] = lambda: self.code.end_of_job(m, slot)
        m.when(go, lambda: m.switch(pc, bodies))
        self.code.endings.end_doomed(m)

    # -- results
    def _results(self, m: Memory) -> dict[str, Any]:
        core = self.core
        span = m.f(self.end) - m.f(core.warmup)
        metrics: dict[str, Any] = {
            "events": m.f(core.events),
            "arrivals": m.f(core.arrivals),
            "ended": m.f(core.ended),
            "turns": m.f(core.turns),
            "mean_live": core.signals.area(m, "live") / span,
            "end": m.f(self.end),
        }
        rows = [f"observe.{o.name}" for o in self.program.observes] + [f"client.{name}" for name in CLIENT_ROWS]
        for row in rows:
            values = self.rows[row].metrics(m) if row in self.rows else self._empty_row(m)
            metrics |= {f"{row}.{key}": value for key, value in values.items()}
        metrics |= self.gauges.metrics(m, span)
        metrics |= self.claims.metrics(m, self.context.constants(m))
        if self.engines is not None:
            metrics |= self.engines.claims.metrics(m)
        for declared in self.program.stages:
            stage = self.stages[declared.name]
            for i, label in enumerate(_labels(f"stage.{declared.name}", declared.size)):
                metrics |= {f"{label}.{key}": value for key, value in stage.metrics(m, span, i).items()}
                metrics.setdefault(f"{label}.iterations", m.full(0.0, np.float64))
        for pool in self.program.pools:
            for i, label in enumerate(_labels(f"pool.{pool.name}", pool.size)):
                metrics |= {f"{label}.{key}": value for key, value in self.pools[pool.name].metrics(m, span, i).items()}
        self.metric_names = tuple(metrics)
        return {
            "metrics": metrics,
            "status": m.u(core.status),
            "error": m.u(core.error),
            "time": m.f(core.now),
            "session": m.f(core.sf(m.u(core.actor), core.serial)),
        }

    def _empty_row(self, m: Memory) -> dict[str, Any]:
        nan = m.full(np.nan, np.float64)
        row = {"count": m.full(0.0, np.float64), "mean": nan, "cv2": nan}
        return row if self.capacities["samples"] else row | {"p99": nan}


def _grows(node: ir.Node) -> str | None:
    """The pool in which a statement can take more units."""
    match node:
        case ir.Grow(pool) | ir.Run(growing=ir.Ref() as pool):
            return pool.name
    return None


def _labels(name: str, size: int | None) -> list[str]:
    """The names of a resource's members, as metrics have them."""
    return [name] if size is None else [f"{name}[{i}]" for i in range(size)]


def _can_stand_still(program: ir.Program, plan: Plan) -> bool:
    """Whether a session may become ready again and again without time passing."""
    preempts = any(pool.preempt != "none" for pool in program.pools)
    return plan.loops or preempts or isinstance(program.arrival, ir.Closed)

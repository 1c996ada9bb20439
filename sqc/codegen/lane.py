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
from typing import Any

import jax.numpy as jnp
import numpy as np

from sqc_runtime.core import DONE, INF, Core, Signals
from sqc_runtime.delay import DelayStage
from sqc_runtime.fifo import FifoStage
from sqc_runtime.memory import Layout, Memory
from sqc_runtime.ops import where
from sqc_runtime.pools import Pool
from sqc_runtime.ps import PsStage
from sqc_runtime.stages import Stage
from sqc_runtime.statistics import Row

from .. import ir
from . import errors
from .draws import Prefetch, need_of, starts_turn
from .expressions import evaluate, exponential, number
from .plan import AFTER_EVENT, AFTER_SERVE, Code, make_plan
from .statements import Statements

U32 = np.uint32
MOST_SESSIONS = 1_000_000
CLIENT_ROWS = ("response", "ttft", "tpot")


class LaneProgram:
    """A compiled program before it meets a memory: addresses, segments, metric names.

    `capacities`: "sessions" (live at once), "entries" (of each pool's cache), "stale" (pending
    finishes of a ps stage), "samples" (kept per row; 0 keeps histograms instead).
    """

    def __init__(self, program: ir.Program, capacities: Mapping[str, int], mode: str = "native"):
        self.program = program
        self.capacities = dict(capacities)
        self.plan = make_plan(program)
        self.layout = layout = Layout("u" if mode == "native" else "h")
        slots = capacities["sessions"]
        self.core = core = Core(layout, slots, guard_instants=self.plan.loops or isinstance(program.arrival, ir.Closed))
        pool_signals = [name for p in program.pools for name in Pool.signal_names(f"pool.{p.name}")]
        core.signals = Signals([f"stage.{s.name}" for s in program.stages], ["live", *pool_signals], layout)
        caching = {site.hold.pool for site in self.plan.sites if site.hold.cache is not None}
        self.pools = {
            p.name: Pool(core, f"pool.{p.name}", capacities["entries"], p.name in caching) for p in program.pools
        }
        self.stages = {s.name: self._stage(s) for s in program.stages}
        samples = capacities["samples"]
        names = [f"observe.{o.name}" for o in program.observes] + ["client.response"]
        self.rows = {name: Row(core, name, samples) for name in names}
        self.prefetch = Prefetch(core, need_of(program, self.plan))
        self.code = Statements(program, self.plan, core, self.stages, self.pools, self.rows, self.prefetch)
        self.next_arrival, self.arrival_seq = layout.f("arrival.time"), layout.f("arrival.seq")
        self.end = layout.f("end")
        layout.freeze(slots)

    def _stage(self, decl: ir.Stage) -> Stage:
        name = f"stage.{decl.name}"
        match decl.kind:
            case ir.Fifo(servers):
                return FifoStage(self.core, name, servers)
            case ir.Delay():
                return DelayStage(self.core, name)
            case ir.Ps(ir.Present()):
                return DelayStage(self.core, name)
            case ir.Ps(capacity):

                def phi(m: Memory, present: Any) -> Any:
                    scope = self.code.constants(m)
                    scope.present = present
                    return number(evaluate(capacity, scope))

                return PsStage(self.core, name, phi, self.capacities["stale"])
        raise AssertionError(decl)

    @property
    def statements(self) -> list[ir.Span | None]:
        """Spans by statement number, as run-time errors report them (complete once traced)."""
        return self.code.statements

    # -- one run
    def simulate(
        self, m: Memory, seed: Any, horizon: Any, warmup: Any, limit: Any, inputs: Sequence[Any], nz: Any
    ) -> dict[str, Any]:
        """Run to the end; returns the metrics and the status registers. `nz` is a run-time -0.0."""
        self._start(m, seed, horizon, warmup, limit, inputs, nz)
        m.loop(lambda: self.core.running(m), lambda: self._step(m))
        return self._results(m)

    def _start(
        self, m: Memory, seed: Any, horizon: Any, warmup: Any, limit: Any, inputs: Sequence[Any], nz: Any
    ) -> None:
        core = self.core
        m.setu(self.prefetch.seed_low, seed.astype(U32))
        m.setu(self.prefetch.seed_high, (seed >> np.uint64(32)).astype(U32))
        m.setf(core.nz, nz)
        m.setf(core.horizon, horizon)
        m.setf(core.warmup, warmup)
        m.setf(core.limit, limit)
        m.setf(core.warm, where(warmup > 0, 0.0, 1.0))
        m.setf(core.warmup_due, where(warmup > 0, warmup, INF))
        for decl, value in zip(self.program.inputs, inputs, strict=True):
            m.setf(self.code.inputs[decl.name], value)
        for stage in self.stages.values():
            stage.clear(m)
        for row in self.rows.values():
            row.clear(m)
        self.prefetch.clear(m)
        constants = self.code.constants(m)
        for declared in self.program.pools:
            m.setf(self.pools[declared.name].cap, number(evaluate(declared.cap, constants)))
        m.setf(self.next_arrival, INF)
        match self.program.arrival:
            case ir.Poisson(rate):
                value = number(evaluate(rate, constants))
                bad = ~((value > 0) & (value < INF))
                core.fail(m, bad, errors.RATE, self.code.statement(self.program.arrival))
                m.setf(self.next_arrival, 0.0)
            case ir.Renewal():
                m.setu(self.core.schedule_due, U32(1))
            case ir.Closed(n) | ir.Batch(n):
                count = number(evaluate(n, constants))
                bad = ~((count >= 0) & (count <= MOST_SESSIONS) & (count == jnp.floor(count)))
                core.fail(m, bad, errors.COUNT, self.code.statement(self.program.arrival))
                m.setu(self.core.births, where(bad, 0.0, count).astype(U32))
        m.setf(core.seq, 1.0)

    # -- arrivals
    def _schedule_arrival(self, m: Memory) -> None:
        """Draw the gap to the next arrival; its event takes the next sequence number."""
        m.setu(self.core.schedule_due, U32(0))
        core, arrival = self.core, self.program.arrival
        scope = self.code.constants(m)
        draws = None
        if self.prefetch.need.arrivals:
            draws = self.prefetch.arrival_draws(m)
            scope.draws = draws
        if isinstance(arrival, ir.Poisson):
            assert draws is not None
            rate = number(evaluate(arrival.rate, scope))
            gap = exponential(m.full(1.0, np.float64), draws.take(m), scope) / scope.opaque(rate)
        else:
            assert isinstance(arrival, ir.Renewal)
            gap = number(evaluate(arrival.gap, scope))
            core.fail(m, ~((gap > 0) & (gap < INF)), errors.GAP, self.code.statement(arrival))
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
        m.setf(core.sf(slot, core.turn_no), 0.0)
        m.setu(core.su(slot, core.turn_count), U32(0))
        m.setu(core.su(slot, core.pc), U32(self.plan.start))
        zeros = jnp.zeros(code.attribute_count)
        m.store_n("f", core.sf(slot, code._first_attribute), zeros)
        self.prefetch.born(m, slot)
        m.setu(core.current, slot)
        if self.program.init:
            m.setu(self.core.init_due, U32(1))
        else:
            self._line_up(m, slot)

    def _born(self, m: Memory) -> None:
        """Init, then the new session joins the back of the ready queue."""
        slot = m.u(self.core.current)
        m.setu(self.core.init_due, U32(0))
        self.code.init(m, slot)

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
        for stage in self.stages.values():
            stage.settle(m)
        time, which, drained, all_came, over = m.reading(lambda: self._next_event(m))
        time = where(drained, m.f(core.now), jnp.minimum(time, m.f(core.horizon)))
        core.advance(m, time)
        m.addf(core.events, where(over, 0.0, 1.0))
        if self.plan.loops:
            m.setu(self.code.jumps, U32(0))
        comes = ~over
        m.when(over, lambda: self._finish(m, drained, all_came))
        m.when(comes & (which < 2), lambda: self._handle_rare(m, which))
        for i, stage in enumerate(self.stages.values()):
            m.when(comes & (which == i + 2), lambda stage=stage: m.setu(core.current, stage.finish(m)))  # type: ignore[misc]

    def _next_event(self, m: Memory) -> tuple[Any, ...]:
        """The first event by (time, sequence number): its time and kind, and whether the run is over."""
        core = self.core
        times: list[tuple[Any, Any]] = [(m.f(self.next_arrival), m.f(self.arrival_seq))]
        times += [stage.due(m) for stage in self.stages.values()]
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
        core.fail(m, limited & ~all_came, errors.NOT_REACHED, 0)
        core.fail(m, limited & ~drained, errors.NOT_DRAINED, 0)
        core.fail(m, drained & (m.f(core.now) <= m.f(core.warmup)), errors.DRAINED_EARLY, 0)
        m.setf(self.end, m.f(core.now))
        core.stop(m, m.full(True, np.bool_), DONE)

    def _handle_rare(self, m: Memory, which: Any) -> None:
        """The warm-up's end, or an arrival."""
        core = self.core

        def warm_up() -> None:
            m.setf(core.warm, 1.0)
            m.setf(core.warmup_due, INF)
            core.signals.reset(m)

        m.when(which == 0, warm_up)
        if isinstance(self.program.arrival, ir.Poisson | ir.Renewal):
            m.when(which == 1, lambda: self._arrival(m))

    # -- a step
    def _step(self, m: Memory) -> tuple[Any, ...]:
        core = self.core
        core.begin_step(m)
        current, ready, births = m.u(core.current), core.ready(m), m.u(core.births)
        quiet = (current == 0) & ~ready & (births == 0) & (m.u(core.dirty) == 0)
        # The gap to the next arrival is drawn as an arrival is handled: its uniforms must be there.
        quiet = quiet & self.prefetch.arrivals_ready(m) & (m.u(core.schedule_due) == 0)
        m.when(quiet, lambda: self._event(m))
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
            self._pop(m)
            slot = m.u(core.current)
            lacking = self.prefetch.lacking(m, slot, self._starts_turn(m, slot, AFTER_SERVE))
            self._dispatch(m, AFTER_SERVE, ~lacking & (m.u(core.init_due) == 0) & (m.u(core.error) == 0))
        return ()

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
                self.code.segment(m, code, slot)

            return segment

        for segment in segments:
            m.when(go & (pc == segment.index), run(segment.code))

    # -- results
    def _results(self, m: Memory) -> dict[str, Any]:
        m.freeze()
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
        for name, stage in self.stages.items():
            metrics |= {f"stage.{name}.{key}": value for key, value in stage.metrics(m, span).items()}
            metrics[f"stage.{name}.iterations"] = m.full(0.0, np.float64)
        for name, pool in self.pools.items():
            metrics |= {f"pool.{name}.{key}": value for key, value in pool.metrics(m, span).items()}
        self.metric_names = tuple(metrics)
        return {
            "metrics": jnp.stack([metrics[name] for name in metrics], axis=-1),
            "status": m.u(core.status),
            "error": m.u(core.error),
            "time": m.f(core.now),
            "session": m.f(core.sf(m.u(core.actor), core.serial)),
        }

    def _empty_row(self, m: Memory) -> dict[str, Any]:
        nan = m.full(np.nan, np.float64)
        row = {"count": m.full(0.0, np.float64), "mean": nan, "cv2": nan}
        return row if self.capacities["samples"] else row | {"p99": nan}

"""The debug mode of a kernel: what must hold whenever an instant has settled, checked there.

A lane on which something does not hold ends with R199 at that time. The checks walk queues and caches,
so a kernel in debug mode is slower; its results are those of any other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sqc_runtime.engine import Engine
from sqc_runtime.memory import Memory
from sqc_runtime.ops import absolute, where
from sqc_runtime.ring import ONE

from .. import ir
from . import errors
from .context import Context
from .holds import Holds

SLACK = 1e-6
"""Sums of amounts that were added and taken away again may be off by this much."""


class Invariants:
    def __init__(self, context: Context, holds: Holds):
        self.context, self.holds = context, holds
        spills = [pool.spill for pool in context.program.pools if pool.spill is not None]
        self._may_exceed = {spill.pool.name for spill in spills}
        """Pools that evicted units are spilled to: those may fill them past their capacity."""

    def check(self, m: Memory, next_time: Any) -> None:
        """Fail the lane unless everything holds; `next_time` is when the next event comes."""
        context, core = self.context, self.context.core
        self._must(m, next_time >= m.f(core.now))
        slots = (m.u(core.fresh) - core.free_count(m)).astype(np.float64)
        self._must(m, slots == m.f(core.signals.at("live")) + m.f(core.others))
        for name, pool in context.pools.items():
            for i in range(pool.members):
                self._pool(m, name, i)
        for stage in context.stages.values():
            for i in range(stage.members):
                self._must(m, stage.present(m, i) >= stage.in_service(m, i))
                self._must(m, stage.in_service(m, i) >= 0)
        for engine in context.engines.values():
            for i in range(engine.members):
                self._engine(m, engine, i)
        for declared in context.program.stages:
            if isinstance(declared.kind, ir.Step) and declared.kind.memory is not None:
                self._memory(m, context.engines[declared.name], declared.kind.memory.name)

    def _must(self, m: Memory, holds: Any) -> None:
        self.context.core.fail(m, ~holds, errors.BROKEN, 0)

    def _pool(self, m: Memory, name: str, i: int) -> None:
        pool = self.context.pools[name]
        used, cached = m.f(pool.signal("used", i)), m.f(pool.signal("cached", i))
        self._must(m, (used >= -SLACK) & (cached >= -SLACK) & (m.f(pool.signal("holders", i)) >= 0))
        if name not in self._may_exceed:
            self._must(m, used + cached <= m.f(pool.cap(i)) + SLACK)
        self._must(m, m.f(pool.signal("queue", i)) == pool.queue_length(m, i))
        if pool.cache is not None:
            total, linked = pool.cache.walk(m, i)
            self._must(m, linked & (absolute(total - cached) <= SLACK))

    def _engine(self, m: Memory, engine: Engine, i: int) -> None:
        """The residents are as many as counted, in order; the batch of a running iteration has tokens, nobody else."""
        core, residents = self.context.core, engine.count(m, i)
        batched = engine.batched(m, i).astype(np.float64)

        def has_job(slot: Any) -> Any:
            return (m.u(core.su(slot, engine.mode)) != 0) & (engine.member_of(m, slot) == i)

        def has_tokens(slot: Any) -> Any:
            tokens = m.f(core.sf(slot, engine.tokens))
            return (tokens > 0) & (tokens <= m.f(core.sf(slot, engine.remaining)) + SLACK)

        def one_if(test: Any) -> Any:
            return where(test, m.full(1.0, np.float64), 0.0)

        def order(k: Any) -> Any:
            return m.f(core.sf(engine.resident(m, k, i), engine.order))

        def on(k: Any, ordered: Any) -> tuple[Any, Any]:
            return k + ONE, ordered & (order(k) <= order(k + ONE))

        start = (m.full(0, np.uint32), m.full(True, np.bool_))
        _, ordered = m.loop(lambda k, _: k + ONE < residents, on, start)
        self._must(m, ordered)
        self._must(m, engine.present(m, i) == residents.astype(np.float64))
        jobs = engine.over_residents(m, i, lambda slot: one_if(has_job(slot)))
        decoding = engine.over_residents(m, i, lambda slot: one_if(engine.decodes(m, slot)))
        self._must(m, (jobs == engine.present(m, i)) & (decoding == engine.decoders(m, i)))
        served = engine.over_residents(m, i, lambda slot: one_if(m.f(core.sf(slot, engine.tokens)) > 0))
        rightly = engine.over_batch(m, i, lambda slot: one_if(has_job(slot) & has_tokens(slot)))
        self._must(m, (served == batched) & (rightly == batched) & (engine.runs(m, i) | (batched == 0)))

    def _memory(self, m: Memory, engine: Engine, name: str) -> None:
        """What the residents hold of the engine's memory is in use there."""
        parts = [part for site in self.holds.parts.values() for part in site if part.name == name]

        def held(slot: Any) -> Any:
            total = m.full(0.0, np.float64)
            for part in parts:
                total = total + where(self.holds.is_held(m, part, slot), m.f(self.holds.units(part, slot)), 0.0)
            return total

        total = m.full(0.0, np.float64)
        for i in range(engine.members):
            total = total + engine.over_residents(m, i, held)
        pool = self.context.pools[name]
        used = [m.f(pool.signal("used", i)) for i in range(pool.members)]
        self._must(m, total <= sum(used[1:], used[0]) + SLACK)

"""The debug mode of a kernel: what must hold whenever an instant has settled, checked there.

A lane on which something does not hold ends with R199 at that time. The checks walk queues and caches,
so a kernel in debug mode is slower; its results are those of any other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sqc_runtime.memory import Memory
from sqc_runtime.ops import absolute

from . import errors
from .context import Context

SLACK = 1e-6
"""Sums of amounts that were added and taken away again may be off by this much."""


class Invariants:
    def __init__(self, context: Context):
        self.context = context
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

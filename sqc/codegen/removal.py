"""Taking a session out of wherever it is: at a stage, in the queue of a pool, ready to go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sqc_runtime.memory import Memory

from .context import Context
from .holds import Holds
from .plan import Site

U32 = np.uint32


def take_out(m: Memory, context: Context, holds: Holds, slot: Any) -> None:
    """Its job leaves the stage unfinished, its request the queue; it does not go on by itself (of programs with
    `removes`)."""
    core = context.core
    for stage in context.stages.values():
        m.when(stage.has(m, slot), lambda stage=stage: stage.remove(m, slot))  # type: ignore[misc]
    core.ready_queue.remove(m, slot)
    m.when(m.u(core.current) == slot, lambda: m.setu(core.current, U32(0)))

    def stop_waiting(site: Site) -> Callable[[], None]:
        part = holds.parts[site.index][0]
        return lambda: part.pool.leave_queue(m, slot, holds.i(m, part, slot))

    waits = core.su(slot, context.waits_at)
    m.switch(m.u(waits), {site.index + 1: stop_waiting(site) for site in context.plan.sites})
    m.setu(waits, U32(0))

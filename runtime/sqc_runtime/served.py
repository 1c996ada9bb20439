"""Stages whose jobs in service each have a finish event of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from .core import OVERFLOW_STALE, Core
from .heap import Heap
from .memory import Memory
from .stages import Stage, Uses


class Served(Stage):
    """One heap holds the events of all members. `stale`: pending events of jobs that were taken out."""

    def __init__(self, core: Core, name: str, uses: Uses, stale: int):
        super().__init__(core, name, uses)
        self._heap = Heap(core.layout, name, core.slots + (stale if uses.removes else 0))

    def clear(self, m: Memory) -> None:
        self._heap.clear(m)

    def due(self, m: Memory) -> tuple[Any, Any]:
        return self._heap.time(m), self._heap.seq(m)

    def serve(self, m: Memory, slot: Any, work: Any) -> None:
        """The job is in service from now on."""
        time, seq = self.starts(m, slot, work)
        if not self.uses.removes:
            self._heap.push(m, time, seq, slot)
            return
        full = self._heap.full(m)
        self.core.stop(m, full, OVERFLOW_STALE)
        m.when(~full, lambda: self._heap.push(m, time, seq, slot))

    def finish(self, m: Memory) -> Any:
        seq = self._heap.seq(m)
        slot = self._heap.pop(m)
        if not self.uses.removes:
            self.ended(m, slot, self.member_of(m, slot))
            return slot

        def end() -> tuple[Any]:
            self.ended(m, slot, self.member_of(m, slot))
            return (slot,)

        (ended,) = m.when(m.f(self.core.sf(slot, self._seq)) == seq, end, (m.full(0, np.uint32),))
        return ended

    def ended(self, m: Memory, slot: Any, i: Any) -> None:
        """The job of this session is done."""
        self.leave(m, slot, i)

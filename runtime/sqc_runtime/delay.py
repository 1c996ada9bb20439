"""A delay: every job at rate 1, none waits."""

from __future__ import annotations

from typing import Any

from .core import Core
from .heap import Heap
from .memory import Memory
from .stages import Stage


class DelayStage(Stage):
    waits = False

    def __init__(self, core: Core, name: str):
        super().__init__(core, name)
        self._heap = Heap(core.layout, name, core.slots)

    def clear(self, m: Memory) -> None:
        self._heap.clear(m)

    def due(self, m: Memory) -> tuple[Any, Any]:
        return m.f(self._heap.root), m.f(self._heap.root + 1)

    def begin(self, m: Memory, slot: Any, work: Any) -> None:
        core = self.core
        now = m.f(core.now)
        self.enter(m, slot)
        self._heap.push(m, now + work, core.next_seq(m), slot)

    def finish(self, m: Memory) -> Any:
        slot = self._heap.pop(m)
        self.leave(m, slot)
        return slot

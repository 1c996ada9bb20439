"""First in, first out: jobs start in order of arrival on the first free server."""

from __future__ import annotations

from typing import Any

import numpy as np

from .core import INF, ONE, Core
from .heap import Heap
from .memory import Memory
from .stages import Stage


class FifoStage(Stage):
    """`servers` servers at rate 1. One server needs no heap: its finish is a pair of registers."""

    def __init__(self, core: Core, name: str, servers: int):
        super().__init__(core, name)
        self.servers = servers
        layout = core.layout
        self._ring = 1 << (core.slots + 1).bit_length()
        self._waiting = layout.u(f"{name}.ring", self._ring)
        self._head, self._tail = layout.u(f"{name}.head"), layout.u(f"{name}.tail")
        self._work = layout.field("f", f"{name}.work")
        if servers == 1:
            self._finish, self._seq, self._slot = (
                layout.f(f"{name}.finish"),
                layout.f(f"{name}.seq"),
                layout.u(f"{name}.slot"),
            )
        else:
            self._heap = Heap(layout, name, min(servers, core.slots))

    def clear(self, m: Memory) -> None:
        if self.servers == 1:
            m.setf(self._finish, INF)
        else:
            self._heap.clear(m)

    def due(self, m: Memory) -> tuple[Any, Any]:
        if self.servers == 1:
            return m.f(self._finish), m.f(self._seq)
        return m.f(self._heap.root), m.f(self._heap.root + 1)

    def in_service(self, m: Memory) -> Any:
        """Jobs in service, as a double."""
        if self.servers == 1:
            return (m.u(self._slot) != 0).astype(np.float64)
        return self._heap.count(m).astype(np.float64)

    def _start(self, m: Memory, slot: Any, work: Any) -> None:
        now = m.f(self.core.now)
        m.setf(self.core.sf(slot, self.started), now)
        seq = self.core.next_seq(m)
        if self.servers == 1:
            m.setf(self._finish, now + work)
            m.setf(self._seq, seq)
            m.setu(self._slot, slot)
        else:
            self._heap.push(m, now + work, seq, slot)

    def begin(self, m: Memory, slot: Any, work: Any) -> None:
        self.enter(m, slot)
        busy = m.u(self._slot) != 0 if self.servers == 1 else self._heap.count(m) >= min(self.servers, self.core.slots)

        def wait() -> None:
            tail = m.u(self._tail)
            m.setf(self.core.sf(slot, self._work), work)
            m.setu(self._waiting + (tail & np.uint32(self._ring - 1)), slot)
            m.setu(self._tail, tail + ONE)

        m.either(busy, wait, lambda: self._start(m, slot, work))

    def finish(self, m: Memory) -> Any:
        if self.servers == 1:
            slot = m.u(self._slot)
            m.setu(self._slot, np.uint32(0))
            m.setf(self._finish, INF)
        else:
            slot = self._heap.pop(m)
        self.leave(m, slot)
        head = m.u(self._head)

        def next_job() -> None:
            head = m.u(self._head)
            job = m.u(self._waiting + (head & np.uint32(self._ring - 1)))
            m.setu(self._head, head + ONE)
            self._start(m, job, m.f(self.core.sf(job, self._work)))

        m.when(head != m.u(self._tail), next_job)
        return slot

"""First in, first out: jobs start in order of arrival on the first free server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .core import INF, Core
from .memory import Memory
from .ring import Ring, member
from .served import Served
from .stages import Stage, Uses


class Line:
    """The jobs that wait, with their work."""

    def __init__(self, core: Core, name: str, members: int):
        self.core = core
        self.ring = Ring(core.layout, name, core.slots, members)
        self._work = core.layout.shared_field("f", "job.work")

    def join(self, m: Memory, slot: Any, work: Any, i: Any) -> None:
        m.setf(self.core.sf(slot, self._work), work)
        self.ring.push(m, slot, i)

    def next(self, m: Memory, start: Callable[[Any, Any], None], i: Any) -> None:
        """The first job, if one waits, is served: `start(slot, work)`."""

        def serve() -> None:
            slot = self.ring.pop(m, i)
            start(slot, m.f(self.core.sf(slot, self._work)))

        m.when(self.ring.any(m, i), serve)


class SingleFifo(Stage):
    """One server, no array, no job is taken out: the finish is a pair of registers."""

    def __init__(self, core: Core, name: str, uses: Uses):
        super().__init__(core, name, uses)
        layout = core.layout
        self._line = Line(core, name, 1)
        self._finish, self._finish_seq = layout.f(f"{name}.finish"), layout.f(f"{name}.seq")
        self._slot = layout.u(f"{name}.slot")

    def clear(self, m: Memory) -> None:
        m.setf(self._finish, INF)

    def due(self, m: Memory) -> tuple[Any, Any]:
        return m.f(self._finish), m.f(self._finish_seq)

    def in_service(self, m: Memory, i: Any) -> Any:  # noqa: ARG002
        return (m.u(self._slot) != 0).astype(np.float64)

    def _start(self, m: Memory, slot: Any, work: Any) -> None:
        time, seq = self.starts(m, slot, work)
        m.setf(self._finish, time)
        m.setf(self._finish_seq, seq)
        m.setu(self._slot, slot)

    def begin(self, m: Memory, slot: Any, work: Any, i: Any) -> None:
        self.enter(m, slot, work, i)
        m.either(m.u(self._slot) != 0, lambda: self._line.join(m, slot, work, i), lambda: self._start(m, slot, work))

    def finish(self, m: Memory) -> Any:
        slot = m.u(self._slot)
        m.setu(self._slot, np.uint32(0))
        m.setf(self._finish, INF)
        self.leave(m, slot, 0)
        self._line.next(m, lambda job, work: self._start(m, job, work), 0)
        return slot


class FifoStage(Served):
    """`servers` servers at rate 1, a plain number where it is constant, else known when the run starts."""

    def __init__(self, core: Core, name: str, uses: Uses, stale: int, servers: float | Callable[[Memory], Any]):
        super().__init__(core, name, uses, stale)
        self._line = Line(core, name, uses.members)
        self._busy = core.layout.f(f"{name}.busy", uses.members)
        self._servers = servers
        self._count = core.layout.f(f"{name}.servers") if callable(servers) else None

    def clear(self, m: Memory) -> None:
        super().clear(m)
        if self._count is not None:
            assert callable(self._servers)
            m.setf(self._count, self._servers(m))

    def in_service(self, m: Memory, i: Any) -> Any:
        return m.f(member(self._busy, i))

    def _start(self, m: Memory, slot: Any, work: Any, i: Any) -> None:
        m.addf(member(self._busy, i), 1.0)
        self.serve(m, slot, work)

    def _next(self, m: Memory, i: Any) -> None:
        """A server of this member has become free."""
        m.addf(member(self._busy, i), -1.0)
        self._line.next(m, lambda job, work: self._start(m, job, work, i), i)

    def begin(self, m: Memory, slot: Any, work: Any, i: Any) -> None:
        self.enter(m, slot, work, i)
        servers = self._servers if self._count is None else m.f(self._count)
        m.either(
            m.f(member(self._busy, i)) >= servers,
            lambda: self._line.join(m, slot, work, i),
            lambda: self._start(m, slot, work, i),
        )

    def ended(self, m: Memory, slot: Any, i: Any) -> None:
        self.leave(m, slot, i)
        self._next(m, i)

    def remove(self, m: Memory, slot: Any) -> None:
        i = self.member_of(m, slot)
        served = m.f(self.core.sf(slot, self._seq)) != 0
        self.depart(m, slot, i)
        m.either(served, lambda: self._next(m, i), lambda: self._line.ring.remove(m, slot, i))

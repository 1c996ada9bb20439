"""What every stage shares: its signals, its counters, the job's times in the session slot."""

from __future__ import annotations

from typing import Any

from .core import Core
from .memory import Memory

JOB_ENTERED, JOB_STARTED = "job.entered", "job.started"


class Stage:
    """A station that jobs pass through. A session is at one stage at a time, so the times of its
    job live in its slot, shared by all stages."""

    def __init__(self, core: Core, name: str):
        self.core = core
        self.name = name
        layout = core.layout
        self.entered = layout.shared_field("f", JOB_ENTERED)
        self.started = layout.shared_field("f", JOB_STARTED)
        self._completed = layout.f(f"{name}.completed")
        self._wait, self._service = layout.f(f"{name}.wait"), layout.f(f"{name}.service")

    waits = True
    """Whether a job can wait before it starts."""

    # -- the interface
    def clear(self, m: Memory) -> None:
        """Set the registers that do not start at zero."""
        raise NotImplementedError

    def due(self, m: Memory) -> tuple[Any, Any]:
        """Time and sequence number of the stage's next event (+inf: none)."""
        raise NotImplementedError

    def begin(self, m: Memory, slot: Any, work: Any) -> None:
        """A job of `work` > 0 of this session arrives."""
        raise NotImplementedError

    def finish(self, m: Memory) -> Any:
        """Handle the stage's next event; returns the session whose job ended (0: none)."""
        raise NotImplementedError

    def in_service(self, m: Memory) -> Any:
        """Jobs in service, as a double: all that are present, unless they can wait."""
        return self.present(m)

    def settle(self, m: Memory) -> None:
        """The instant has settled: reschedule if the population changed."""

    # -- bookkeeping
    def present(self, m: Memory) -> Any:
        """Jobs present, as a double."""
        return m.f(self.core.signals.at(self.name))

    def enter(self, m: Memory, slot: Any) -> None:
        """A job arrives now."""
        m.addf(self.core.signals.at(self.name), 1.0)
        m.setf(self.core.sf(slot, self.entered), m.f(self.core.now))

    def leave(self, m: Memory, slot: Any) -> None:
        """Count a finished job: its wait and its service, if the run is warm."""
        core = self.core
        m.addf(core.signals.at(self.name), -1.0)

        def times() -> tuple[Any, Any]:
            warm, now = m.f(core.warm), m.f(core.now)
            entered = m.f(core.sf(slot, self.entered))
            started = m.f(core.sf(slot, self.started)) if self.waits else entered
            return warm * (started - entered), warm * (now - started)

        wait, service = m.reading(times)
        m.addf(self._completed, m.f(core.warm))
        if self.waits:
            m.addf(self._wait, wait)
        m.addf(self._service, service)

    def metrics(self, m: Memory, span: Any) -> dict[str, Any]:
        """The stage's row; `span` is the length of the measured time."""
        signals, done = self.core.signals, m.f(self._completed)
        return {
            "mean_number": signals.area(m, self.name) / span,
            "utilization": signals.busy(m, self.name) / span,
            "completed": done,
            "throughput": done / span,
            "mean_wait": m.f(self._wait) / done,
            "mean_service": m.f(self._service) / done,
        }

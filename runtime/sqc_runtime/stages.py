"""What every stage shares: its signals, its counters, the job's times in the session slot."""

from __future__ import annotations

from typing import Any

from .core import Core
from .memory import Memory
from .ops import lesser

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

    @staticmethod
    def signal_names(name: str) -> list[str]:
        return [f"{name}.number", f"{name}.busy"]

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

    def settle(self, m: Memory) -> None:
        """The instant has settled: reschedule if the population changed."""

    # -- bookkeeping
    def present(self, m: Memory) -> Any:
        """Jobs present, as a double."""
        return m.f(self.core.signals.at(f"{self.name}.number"))

    def _set_present(self, m: Memory, number: Any) -> None:
        signals = self.core.signals
        m.setf(signals.at(f"{self.name}.number"), number)
        m.setf(signals.at(f"{self.name}.busy"), lesser(number, 1.0))

    def enter(self, m: Memory) -> None:
        self._set_present(m, self.present(m) + 1.0)

    def leave(self, m: Memory, slot: Any) -> None:
        """Count a finished job: its wait and its service, if the run is warm."""
        core = self.core
        self._set_present(m, self.present(m) - 1.0)
        warm, now = m.f(core.warm), m.f(core.now)
        entered, started = m.f(core.sf(slot, self.entered)), m.f(core.sf(slot, self.started))
        m.addf(self._completed, warm)
        m.addf(self._wait, warm * (started - entered))
        m.addf(self._service, warm * (now - started))

    def metrics(self, m: Memory, span: Any) -> dict[str, Any]:
        """The stage's row; `span` is the length of the measured time."""
        signals, done = self.core.signals, m.f(self._completed)
        return {
            "mean_number": signals.area(m, f"{self.name}.number") / span,
            "utilization": signals.area(m, f"{self.name}.busy") / span,
            "completed": done,
            "throughput": done / span,
            "mean_wait": m.f(self._wait) / done,
            "mean_service": m.f(self._service) / done,
        }

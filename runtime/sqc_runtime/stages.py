"""What every stage shares: its signals, its counters, its estimates, the job's times in the session slot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .core import INF, Core
from .memory import Memory
from .ops import as_u32, lesser, where
from .ring import ONE, Ring, member

WEIGHT, LOAD_LIMIT = 0.01, 0.99
"""Of the estimates: the weight of the newest job, and the largest load that they admit."""


@dataclass(frozen=True)
class Uses:
    """What a program uses of a stage; what it does not use costs nothing."""

    members: int = 1
    number: int = 1
    """Its number among the program's stages, from 1."""
    removes: bool = False
    """Sessions can be taken out of the stage before their job is done."""
    work: bool = False
    """The unfinished work is read."""
    estimates: bool = False
    """Arrival rate, load or wait are read."""


class Stage:
    """A station that jobs pass through, or an array of them; `i` is the member (0 for a single one).

    A session is at one stage at a time, so what concerns its job lives in its slot, shared by all
    stages. A job that was taken out leaves its finish event behind: an event counts only while its
    sequence number is that of its job.
    """

    waits = True
    """Whether a job can wait before it starts."""
    lists = True
    """Whether the jobs present are listed, where the work is read."""

    def __init__(self, core: Core, name: str, uses: Uses):
        self.core, self.name, self.uses, self.members = core, name, uses, uses.members
        layout, members = core.layout, uses.members
        self.entered = layout.shared_field("f", "job.entered")
        self.started = layout.shared_field("f", "job.started") if self.waits else self.entered
        self._completed = layout.f(f"{name}.completed", members)
        self._wait, self._service = layout.f(f"{name}.wait", members), layout.f(f"{name}.service", members)
        self._member = layout.shared_field("u", "job.member") if members > 1 else None
        if uses.removes:
            self._at, self._seq = layout.shared_field("u", "job.stage"), layout.shared_field("f", "job.seq")
        self._jobs = None
        if uses.work and self.lists:
            self._jobs = Ring(layout, f"{name}.present", core.slots, members)
            self._work, self._until = layout.shared_field("f", "job.work"), layout.shared_field("f", "job.until")
        self._estimates = Estimates(core, name, members) if uses.estimates else None

    # -- the interface
    def clear(self, m: Memory) -> None:
        """Set the registers that do not start at zero."""

    def due(self, m: Memory) -> tuple[Any, Any]:
        """Time and sequence number of the next event of any member (+inf: none)."""
        raise NotImplementedError

    def begin(self, m: Memory, slot: Any, work: Any, i: Any) -> None:
        """A job of `work` > 0 of this session arrives."""
        raise NotImplementedError

    def finish(self, m: Memory) -> Any:
        """Handle the next event; returns the session whose job ended (0: none)."""
        raise NotImplementedError

    def remove(self, m: Memory, slot: Any) -> None:
        """Take the job of this session out, unfinished (of stages with `removes`)."""
        raise NotImplementedError

    def settle(self, m: Memory) -> None:
        """The instant has settled: reschedule where the population changed."""

    # -- observables
    def present(self, m: Memory, i: Any) -> Any:
        """Jobs present, as a double."""
        return m.f(self.core.signals.at(self.name, i))

    def in_service(self, m: Memory, i: Any) -> Any:
        """Jobs in service, as a double: all that are present, unless they can wait."""
        return self.present(m, i)

    def work(self, m: Memory, i: Any) -> Any:
        """Unfinished work of all jobs present: what is left of those in service, all of those that wait."""
        jobs, now = self._jobs, m.f(self.core.now)
        assert jobs is not None
        end = m.u(jobs.tail(i))

        def add(at: Any, total: Any) -> tuple[Any, ...]:
            slot = jobs.at(m, at, i)
            until = m.f(self.core.sf(slot, self._until))
            return at + ONE, total + where(until < INF, until - now, m.f(self.core.sf(slot, self._work)))

        return m.loop(lambda at, _total: at != end, add, (m.u(jobs.head(i)), m.full(-0.0, np.float64)))[1]

    def est_lambda(self, m: Memory, i: Any) -> Any:
        assert self._estimates is not None
        return self._estimates.rate(m, i)

    def est_rho(self, m: Memory, i: Any) -> Any:
        assert self._estimates is not None
        return self._estimates.load(m, i)

    def est_wait(self, m: Memory, i: Any) -> Any:
        assert self._estimates is not None
        return self._estimates.wait(m, i)

    def price(self, m: Memory, i: Any, held: Any, extra: Any) -> Any:
        assert self._estimates is not None
        return self._estimates.price(m, i, held, extra)

    def has(self, m: Memory, slot: Any) -> Any:
        """Whether the session's job is here (of stages with `removes`)."""
        return m.u(self.core.su(slot, self._at)) == np.uint32(self.uses.number)

    # -- bookkeeping
    def member_of(self, m: Memory, slot: Any) -> Any:
        """The member at which the session's job is."""
        return 0 if self._member is None else m.u(self.core.su(slot, self._member))

    def enter(self, m: Memory, slot: Any, work: Any, i: Any) -> None:
        """A job arrives now; it has not started."""
        core = self.core
        m.addf(core.signals.at(self.name, i), 1.0)
        m.setf(core.sf(slot, self.entered), m.f(core.now))
        if self._member is not None:
            m.setu(core.su(slot, self._member), as_u32(i))
        if self.uses.removes:
            m.setu(core.su(slot, self._at), np.uint32(self.uses.number))
            m.setf(core.sf(slot, self._seq), 0.0)
        if self._jobs is not None:
            self._jobs.push(m, slot, i)
            m.setf(core.sf(slot, self._work), work)
            m.setf(core.sf(slot, self._until), INF)

    def starts(self, m: Memory, slot: Any, work: Any) -> tuple[Any, Any]:
        """The job is served from now on, at rate 1; returns time and sequence number of its finish."""
        core = self.core
        now, seq = m.f(core.now), core.next_seq(m)
        if self.waits:
            m.setf(core.sf(slot, self.started), now)
        if self.uses.removes:
            m.setf(core.sf(slot, self._seq), seq)
        if self._jobs is not None:
            m.setf(core.sf(slot, self._until), now + work)
        return now + work, seq

    def depart(self, m: Memory, slot: Any, i: Any) -> None:
        """The job is no longer here."""
        core = self.core
        m.addf(core.signals.at(self.name, i), -1.0)
        if self.uses.removes:
            m.setu(core.su(slot, self._at), np.uint32(0))
            m.setf(core.sf(slot, self._seq), 0.0)
        jobs = self._jobs
        if jobs is not None:
            first = jobs.first(m, i) == slot
            m.either(first, lambda: jobs.drop_first(m, i), lambda: jobs.remove(m, slot, i))

    def leave(self, m: Memory, slot: Any, i: Any) -> None:
        """Count a finished job: its wait and its service, if the run is warm."""
        self.depart(m, slot, i)
        core = self.core
        warm, now = m.f(core.warm), m.f(core.now)
        entered = m.f(core.sf(slot, self.entered))
        started = m.f(core.sf(slot, self.started)) if self.waits else entered
        m.addf(member(self._completed, i), warm)
        if self.waits:
            m.addf(member(self._wait, i), warm * (started - entered))
        m.addf(member(self._service, i), warm * (now - started))
        if self._estimates is not None:
            self._estimates.note(m, i, entered, started)

    # -- the report
    def metrics(self, m: Memory, span: Any, i: int) -> dict[str, Any]:
        """A member's row; `span` is the length of the measured time."""
        done = m.f(member(self._completed, i))
        return {
            "mean_number": self.core.signals.area(m, self.name, i) / span,
            "utilization": self.busy_time(m, i) / span,
            "completed": done,
            "throughput": done / span,
            "mean_wait": m.f(member(self._wait, i)) / done,
            "mean_service": m.f(member(self._service, i)) / done,
        }

    def busy_time(self, m: Memory, i: int) -> Any:
        """Time with at least one job present."""
        return self.core.signals.busy(m, self.name, i)


class Estimates:
    """Exponentially weighted estimates from finished jobs, over the whole run: the gap between the
    starts of two jobs that finished one after the other, the service, the wait."""

    def __init__(self, core: Core, name: str, members: int):
        self.core = core
        self._seen, self._last, self._gap, self._service, self._wait = (
            core.layout.f(f"{name}.est.{what}", members) for what in ("seen", "last", "gap", "service", "wait")
        )

    def note(self, m: Memory, i: Any, entered: Any, started: Any) -> None:
        """A job is finished."""
        seen, last = m.f(member(self._seen, i)), member(self._last, i)

        def weigh(at: int, earlier: float, value: Any) -> None:
            old = m.f(member(at, i))
            blend = m.opaque(old * (1.0 - WEIGHT)) + m.opaque(value * WEIGHT)
            m.setf(member(at, i), where(seen == earlier, value, blend))

        m.when(seen > 0, lambda: weigh(self._gap, 1.0, started - m.f(last)))
        weigh(self._service, 0.0, m.f(self.core.now) - started)
        weigh(self._wait, 0.0, started - entered)
        m.setf(last, started)
        m.setf(member(self._seen, i), seen + 1.0)

    def rate(self, m: Memory, i: Any) -> Any:
        """Jobs per unit of time: 0 while there is no estimate of a positive gap."""
        gap = m.f(member(self._gap, i))
        return where(gap > 0, m.opaque(m.opaque(m.full(1.0, np.float64)) / gap), 0.0)

    def load(self, m: Memory, i: Any) -> Any:
        return lesser(m.opaque(self.rate(m, i) * m.f(member(self._service, i))), LOAD_LIMIT)

    def wait(self, m: Memory, i: Any) -> Any:
        return m.f(member(self._wait, i))

    def price(self, m: Memory, i: Any, held: Any, extra: Any) -> Any:
        """What `extra` more work costs a job that holds `held`, and those behind it."""
        rate, idle, all_held = self.rate(m, i), 1.0 - self.load(m, i), held + extra
        squares = m.opaque(all_held * all_held) - m.opaque(held * held)
        own = m.opaque(rate * squares) / m.opaque(2.0 * idle)
        others = m.opaque(m.opaque(rate * self.wait(m, i)) * extra) / idle
        return extra + m.opaque(own) + m.opaque(others)

"""Which random numbers a program needs: bounds on what its parts can consume."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .. import ir
from .expressions import draws_bound
from .plan import (
    Advance,
    Code,
    Finish,
    GiveBack,
    Growth,
    Job,
    Join,
    Leave,
    Plan,
    Save,
    Site,
    Split,
    StartTurn,
    Test,
)


class Bounds:
    """Session-stream uniforms that segments can consume, at most (inf: there is no bound).

    Those that a segment may consume or not, by other tests than the program's own, have no bound
    either: a stream that moves in memory, as it is read, is then where it must be.
    """

    def __init__(self, program: ir.Program, plan: Plan):
        nodes = list(ir.walk((program.session, program.server)))
        leases = any(site.hold.lease is not None for site in plan.sites)
        releases = any(isinstance(node, ir.Release) for node in nodes)
        keeps = any(_cache(site) for site in plan.sites)
        self._early = keeps and (plan.removes or leases or releases)
        """Whether cache clauses draw, and a hold can be over before its scope ends."""
        self.aside = keeps and (plan.removes or leases)
        """Whether they may do so outside of the session's segments."""

    def code(self, code: Code) -> float:
        return sum(map(self._op, code.ops)) + self._last(code)

    def _op(self, op: Any) -> float:
        match op:
            case Test(branch, then, other):
                return draws_bound(branch.guard) + max(sum(map(self._op, then)), sum(map(self._op, other)))
            case Advance(statement) | Save(statement):
                return draws_bound(statement)
            case ir.Set() | ir.Observe() | ir.Drop() | ir.Choose():
                return draws_bound(op)
        return 0  # marks are a stream of their own, a leg has its own

    def _last(self, code: Code) -> float:
        match code.last:
            case Split(guard, then, other):
                return draws_bound(guard) + max(self.code(then), self.code(other))
            case Job(run):
                refs = run.stages if isinstance(run, ir.Flow) else (run.stage,)
                return draws_bound(run.work) + _unbounded(draws_bound(refs))
            case Join(site):
                refs = tuple(part.pool for part in site.hold.parts)
                return _unbounded(draws_bound(refs) + self._ends(site.outer))
            case Leave(site):
                lease = site.hold.lease
                return self._ends([site]) + (_unbounded(draws_bound(lease.time)) if lease is not None else 0)
            case GiveBack(statement):
                return _unbounded(draws_bound(statement) + self._early)
            case Growth(statement):
                return _unbounded(self.aside) + draws_bound(statement)
            case Finish(held):
                return self._ends(held)
        return 0

    def _ends(self, sites: Iterable[Site]) -> float:
        """Holds end, and leases with them or before them."""
        return math.inf if self._early else sum(map(_cache, sites))


def _unbounded(bound: float) -> float:
    return math.inf if bound else 0


def _cache(site: Site) -> float:
    """A cache clause is read for each pool of its hold."""
    clause = site.hold.cache
    return 0 if clause is None else draws_bound(clause) * len(site.hold.parts)


def starts_turn(code: Code) -> bool:
    """Whether a segment draws the marks of a turn."""
    if any(isinstance(op, StartTurn) for op in code.ops):
        return True
    return isinstance(code.last, Split) and (starts_turn(code.last.then) or starts_turn(code.last.other))


@dataclass(frozen=True)
class Need:
    """What a program draws. Bounds that are infinite are not prefetched: those uniforms are computed singly."""

    init: float
    """Uniforms of the stream (serial, 0)."""
    turn: float
    """Uniforms of the stream of one (serial, turn), at most."""
    turns: float
    """Turns of a session, at most."""
    session: int
    """Session-stream uniforms of one segment whose draws are bounded, at most."""
    total: int
    """Such uniforms of a whole life (where `again` is false)."""
    singly: bool
    """Whether a session's stream is also read at places without a bound, or outside of the session's segments."""
    again: bool
    """Whether a session can execute a segment more often than it has turns."""
    arrivals: float
    """Uniforms of one gap."""
    forks: bool
    machine: bool
    """Whether a capacity draws."""
    eviction: bool
    """Whether an eviction key or a spill clause draws."""


def need_of(program: ir.Program, plan: Plan, bounds: Bounds) -> Need:
    segments = [bounds.code(segment.code) for segment in plan.segments]
    bounded = [int(b) for b in segments if b < math.inf]
    gap: float = 0
    if isinstance(program.arrival, ir.Poisson):
        gap = 1
    elif isinstance(program.arrival, ir.Renewal):
        gap = draws_bound(program.arrival.gap)
    preempts = any(pool.preempt != "none" for pool in program.pools)
    again = plan.loops or preempts
    return Need(
        init=draws_bound(program.init),
        turn=draws_bound(program.turn),
        turns=math.inf if again else plan.turns,
        session=max(bounded, default=0),
        total=sum(bounded) * max(plan.turns, 1),
        singly=bounds.aside or len(bounded) < len(segments),
        again=again,
        arrivals=gap,
        forks=plan.forks,
        machine=any(draws_bound(stage.kind) for stage in program.stages),
        eviction=any(draws_bound((pool.evict, pool.spill)) for pool in program.pools),
    )

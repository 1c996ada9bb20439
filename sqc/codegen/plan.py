"""The session as a state machine: its statements cut into segments between two waits.

A segment is what one session executes from a resume point until it waits, ends or jumps. Its code
is a tree: operations in order, and a last operation that says how it goes on. Branches whose arms
do not wait stay plain operations (`Test`); one whose arms wait ends the segment (`Fork`), each arm
with an end of its own. Code that is reached from two places becomes a segment of its own.

Segments belong to one of two phases of a step of the event loop: those that run right after an
event, and those that run after the pools were served (bodies of holds, and what follows a hold).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from .. import ir

AFTER_EVENT, AFTER_SERVE = 1, 2


@dataclass
class Site:
    """One `hold` statement: `outer` are the sites around it, outermost first."""

    index: int
    hold: ir.Hold
    outer: tuple[Site, ...]
    leg: bool = False
    """Whether it stands in the block of a `fork`."""
    body: int = -1
    """The segment of its body."""
    again: int = -1
    """The segment of the statement itself, where what it asks for can be too much once it has been preempted."""


# Operations of a segment. Plain statements (ir.Set, ir.Observe, ir.Drop, ir.Choose) stand for themselves.


@dataclass
class Test:
    """A branch whose arms do not wait."""

    branch: ir.Branch
    then: list[Op]
    other: list[Op]


@dataclass
class StartTurn:
    statement: ir.Turn


@dataclass
class EndTurn:
    """The server block has run to its end: the response is recorded."""


@dataclass
class SetReturn:
    """Where the session goes on after the server block (programs with several `turn;`)."""

    segment: int


@dataclass
class Advance:
    """`load`: the position on the pool of the hold around it advances."""

    statement: ir.Load
    sites: tuple[Site, ...]


@dataclass
class Save:
    """`checkpoint`: a position of the context on a pool of the hold around it."""

    statement: ir.Checkpoint
    sites: tuple[Site, ...]


@dataclass
class StartLeg:
    """`fork`: a leg starts at `segment`."""

    statement: ir.Fork
    segment: int


# Ends of a segment.


@dataclass
class Split:
    """A branch whose arms wait, or the test of a loop."""

    guard: ir.Expr
    then: Code
    other: Code
    statement: ir.Stmt


@dataclass
class Goto:
    segment: int


@dataclass
class Return:
    """To the segment that `SetReturn` named."""


@dataclass
class Job:
    """Run work on a stage, or on several at once; resume at `segment`. `sites`: the holds that can grow with it."""

    run: ir.Run | ir.Flow
    segment: int
    sites: tuple[Site, ...] = ()


@dataclass
class Join:
    """Join the queue of the hold's pool; the body is at `segment`."""

    site: Site
    segment: int


@dataclass
class Leave:
    """End of a hold's scope; the pools are served, then the session goes on at `segment`."""

    site: Site
    segment: int


@dataclass
class GiveBack:
    """`release`: the pools are served, then the session goes on at `segment`."""

    statement: ir.Release
    sites: tuple[Site, ...]
    segment: int


@dataclass
class Growth:
    """`grow`, of a hold among `sites`: the session goes on at `segment`, now or when there is room."""

    statement: ir.Grow
    sites: tuple[Site, ...]
    segment: int


@dataclass
class Gather:
    """`join`: go on at `segment` when no leg is live."""

    statement: ir.Join
    segment: int


@dataclass
class Finish:
    """The session ends, out of the holds `held` (outermost first)."""

    held: tuple[Site, ...]


@dataclass
class EndLeg:
    """The leg ends."""


Op = ir.Set | ir.Observe | ir.Drop | ir.Choose | Test | StartTurn | EndTurn | SetReturn | Advance | Save | StartLeg
Last = Split | Goto | Return | Job | Join | Leave | GiveBack | Growth | Gather | Finish | EndLeg


@dataclass
class Code:
    ops: list[Op]
    last: Last


@dataclass
class Segment:
    index: int
    code: Code
    phase: int


@dataclass
class Plan:
    segments: list[Segment] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)
    start: int = 0
    turns: int = 0
    """How many `turn;` statements the session has."""
    loops: bool = False
    """Whether a session can come back to a statement."""
    forks: bool = False
    kills: bool = False
    """Whether a leg can be refused: its session ends by that, wherever it is."""
    outlived: bool = False
    """Whether a session can end, refused, before its legs."""
    can_lock: bool = False
    """Whether sessions at a `join` can wait for each other's memory: legs hold some."""
    removes: bool = False
    """Whether sessions can be taken out of wherever they are: by preemption, or because they end there."""


def make_plan(program: ir.Program) -> Plan:
    return _Planner(program).plan


Continuation = Callable[[], Code]


_WAITING = (*(ir.Run, ir.Flow, ir.Hold, ir.Turn, ir.End, ir.Loop, ir.While, ir.Release, ir.Grow, ir.Join),)


def _waits(stmt: ir.Stmt) -> bool:
    """Whether a statement ends a segment (it may wait, loop, serve the pools, or end the session)."""
    if isinstance(stmt, ir.Fork):
        return False  # its block runs on its own
    return any(isinstance(node, _WAITING) for node in ir.walk(stmt))


class _Planner:
    def __init__(self, program: ir.Program):
        self.program = program
        self.plan = Plan()
        nodes = list(ir.walk((program.session, program.server)))
        self.plan.turns = sum(isinstance(n, ir.Turn) for n in ir.walk(program.session))
        self.plan.loops = any(isinstance(n, ir.Loop | ir.While) for n in nodes)
        self.plan.forks = any(isinstance(n, ir.Fork) for n in nodes)
        self._server: dict[tuple[int, ...], int] = {}
        self._in_leg = False
        code = self._sequence(program.session, (), lambda: Code([], Finish(())))
        self.plan.start = self._segment(code, AFTER_EVENT)
        refusable = [site for site in self.plan.sites if any(can_be_refused(program, p) for p in site.hold.parts)]
        self.plan.kills = any(site.leg for site in refusable)
        self.plan.outlived = self.plan.forks and bool(refusable)
        self.plan.can_lock = any(site.leg for site in self.plan.sites)
        self.plan.removes = self.plan.kills or any(pool.preempt != "none" for pool in program.pools)

    # -- segments
    def _segment(self, code: Code, phase: int) -> int:
        """A segment for `code`; a bare jump is no segment of its own, unless the pools are served before it."""
        if not code.ops and isinstance(code.last, Goto):
            target = self.plan.segments[code.last.segment]
            if target.phase in (phase, AFTER_SERVE):
                return target.index
        self.plan.segments.append(Segment(len(self.plan.segments), code, phase))
        return len(self.plan.segments) - 1

    def _reserve(self, phase: int) -> Segment:
        """A segment whose code comes later (the head of a loop)."""
        segment = Segment(len(self.plan.segments), Code([], Finish(())), phase)
        self.plan.segments.append(segment)
        return segment

    def _shared(self, k: Continuation) -> Continuation:
        """`k` for use at several places: its code once, jumps elsewhere."""
        made: list[int] = []

        def go() -> Code:
            if not made:
                made.append(self._segment(k(), AFTER_EVENT))
            return Code([], Goto(made[0]))

        return go

    # -- statements
    def _sequence(self, stmts: tuple[ir.Stmt, ...], held: tuple[Site, ...], k: Continuation) -> Code:
        ops: list[Op] = []
        for i, stmt in enumerate(stmts):
            if not _waits(stmt):
                ops.append(self._plain(stmt, held))
                continue
            rest = stmts[i + 1 :]
            code = self._waiting(stmt, held, partial(self._sequence, rest, held, k) if rest else k)
            return Code(ops + code.ops, code.last)
        code = k()
        return Code(ops + code.ops, code.last)

    def _plain(self, stmt: ir.Stmt, held: tuple[Site, ...]) -> Op:
        match stmt:
            case ir.Branch():
                return Test(stmt, [self._plain(s, held) for s in stmt.then], [self._plain(s, held) for s in stmt.other])
            case ir.Load(pool):
                return Advance(stmt, _around(pool, held))
            case ir.Checkpoint(pool):
                return Save(stmt, _around(pool, held))
            case ir.Fork(body):
                outer, self._in_leg = self._in_leg, True
                code = self._sequence(body, (), lambda: Code([], EndLeg()))
                self._in_leg = outer
                return StartLeg(stmt, self._segment(code, AFTER_EVENT))
        assert isinstance(stmt, ir.Set | ir.Observe | ir.Drop | ir.Choose)
        return stmt

    def _waiting(self, stmt: ir.Stmt, held: tuple[Site, ...], k: Continuation) -> Code:
        match stmt:
            case ir.End():
                return Code([], Finish(held))
            case ir.Run(growing=ir.Ref() as pool):
                return Code([], Job(stmt, self._segment(k(), AFTER_EVENT), _around(pool, held)))
            case ir.Run() | ir.Flow():
                return Code([], Job(stmt, self._segment(k(), AFTER_EVENT)))
            case ir.Release(pool):
                return Code([], GiveBack(stmt, _around(pool, held), self._segment(k(), AFTER_SERVE)))
            case ir.Grow(pool):
                return Code([], Growth(stmt, _around(pool, held), self._segment(k(), AFTER_EVENT)))
            case ir.Join():
                return Code([], Gather(stmt, self._segment(k(), AFTER_EVENT)))
            case ir.Hold():
                site = Site(len(self.plan.sites), stmt, held, self._in_leg)
                self.plan.sites.append(site)

                def leave() -> Code:
                    return Code([], Leave(site, self._segment(k(), AFTER_SERVE)))

                site.body = self._segment(self._sequence(stmt.body, (*held, site), leave), AFTER_SERVE)
                if _asks_otherwise(self.program, stmt):
                    site.again = self._segment(Code([], Join(site, site.body)), AFTER_EVENT)
                return Code([], Join(site, site.body))
            case ir.Branch():
                if _falls_through(stmt.then) and _falls_through(stmt.other):
                    k = self._shared(k)
                then = self._sequence(stmt.then, held, k)
                other = self._sequence(stmt.other, held, k)
                return Code([], Split(stmt.guard, then, other, stmt))
            case ir.Loop():
                head = self._reserve(AFTER_EVENT)
                head.code = self._sequence(stmt.body, held, lambda: Code([], Goto(head.index)))
                return Code([], Goto(head.index))
            case ir.While():
                head = self._reserve(AFTER_EVENT)
                body = self._sequence(stmt.body, held, lambda: Code([], Goto(head.index)))
                head.code = Code([], Split(stmt.guard, body, k(), stmt))
                return Code([], Goto(head.index))
            case ir.Turn():
                return self._turn(stmt, held, k)
        raise AssertionError(stmt)

    def _turn(self, stmt: ir.Turn, held: tuple[Site, ...], k: Continuation) -> Code:
        if self.plan.turns == 1:
            code = self._sequence(self.program.server, held, lambda: self._after_turn(k))
            return Code([StartTurn(stmt), *code.ops], code.last)
        back = self._segment(k(), AFTER_EVENT)
        around = tuple(site.index for site in held)
        if around not in self._server:
            code = self._sequence(self.program.server, held, lambda: Code([EndTurn()], Return()))
            self._server[around] = self._segment(Code([StartTurn(stmt), *code.ops], code.last), AFTER_EVENT)
        return Code([SetReturn(back)], Goto(self._server[around]))

    def _after_turn(self, k: Continuation) -> Code:
        code = k()
        return Code([EndTurn(), *code.ops], code.last)


def can_be_refused(program: ir.Program, part: ir.Part) -> bool:
    """Whether a hold can be refused for what it asks of one pool, as far as constants say."""
    (pool,) = (pool for pool in program.pools if pool.name == part.pool.name)
    match part.refusable, pool.cap, pool.block or ir.Const(0.0):
        case None, _, _:
            return False
        case _, ir.Const(math.inf), _:
            return False
        case ir.Const(units), ir.Const(cap), ir.Const(block):
            return (math.ceil(units / block) * block if block else units) > cap
    return True


def _asks_otherwise(program: ir.Program, hold: ir.Hold) -> bool:
    """Whether a hold can be refused, when it is preempted, that was not when it was reached."""
    preempting = {pool.name for pool in program.pools if pool.preempt != "none"}
    asked = [part.refusable for part in hold.parts if part.refusable is not None and can_be_refused(program, part)]
    changes = any(node == ir.Attr("computed") for node in ir.walk(tuple(asked)))
    return changes and any(part.pool.name in preempting for part in hold.parts)


def jobs(code: Code) -> Iterator[Job]:
    """The jobs that a segment can end with."""
    if isinstance(code.last, Split):
        yield from jobs(code.last.then)
        yield from jobs(code.last.other)
    elif isinstance(code.last, Job):
        yield code.last


def _around(pool: ir.Ref, held: tuple[Site, ...]) -> tuple[Site, ...]:
    """The holds around that list a pool of this name, innermost first."""
    return tuple(s for s in reversed(held) if any(part.pool.name == pool.name for part in s.hold.parts))


def _falls_through(stmts: tuple[ir.Stmt, ...]) -> bool:
    """Whether control can reach the end of the statements."""
    for stmt in stmts:
        if isinstance(stmt, ir.End | ir.Loop):
            return False
        if isinstance(stmt, ir.Branch) and not (_falls_through(stmt.then) or _falls_through(stmt.other)):
            return False
    return True

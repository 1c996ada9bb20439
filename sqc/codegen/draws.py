"""Which random numbers a program needs, and the machinery that keeps them ahead of the events.

A session reads two streams: the marks of (serial, turn), new at every turn, and its own stream for
its whole life. Both are ChaCha blocks of eight uniforms. One wide batch computes many blocks in
vector instructions; what it computes is one of

* the arrival stream's next blocks,
* the *tape*: the first turns (and first session blocks) of the next few sessions to arrive, which
  are known before they arrive because serials are handed out in order,
* a refill: the next turns and session blocks of one session that has outlived what it had.

Where a buffer holds the k-th uniform of every block side by side ("k-major"), results are stored as
they come out of the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from sqc_runtime import streams
from sqc_runtime.core import Core
from sqc_runtime.memory import Memory
from sqc_runtime.ops import where

from .. import ir
from .expressions import Draws, draws_bound
from .plan import Code, Fork, Plan, StartTurn, Test

U32, U64 = np.uint32, np.uint64
WIDTH = 16
"""Blocks of one batch."""

LACKS_MARKS, LACKS_DRAWS, LACKS_ALL = 1, 2, 3


def _u32(position: Any) -> Any:
    return U32(position) if isinstance(position, int) else position


def _code_bound(code: Code) -> int:
    """Session-stream uniforms that a segment can consume."""
    return sum(_op_bound(op) for op in code.ops) + _last_bound(code)


def _op_bound(op: Any) -> int:
    if isinstance(op, Test):
        arms = (sum(map(_op_bound, op.then)), sum(map(_op_bound, op.other)))
        return draws_bound(op.branch.guard) + max(arms)
    return draws_bound(op)


def _last_bound(code: Code) -> int:
    last = code.last
    if isinstance(last, Fork):
        return draws_bound(last.guard) + max(_code_bound(last.then), _code_bound(last.other))
    own = 0
    if hasattr(last, "run"):
        own += draws_bound(last.run.work)
    for site in [*getattr(last, "held", ()), *([last.site] if hasattr(last, "site") else [])]:
        own += draws_bound(site.hold.cache) if site.hold.cache is not None else 0
    return own


def starts_turn(code: Code) -> bool:
    """Whether a segment draws the marks of a turn."""
    if any(isinstance(op, StartTurn) for op in code.ops):
        return True
    return isinstance(code.last, Fork) and (starts_turn(code.last.then) or starts_turn(code.last.other))


@dataclass(frozen=True)
class Need:
    """What a program draws."""

    marks: int
    """Uniforms of one (serial, turn) stream, at most."""
    init: bool
    """Whether the init block draws (turn 0)."""
    session: int
    """Session-stream uniforms of one segment, at most."""
    session_total: int
    """Session-stream uniforms of a whole life (programs without loops)."""
    turns: int | None
    """Turns of a session, at most (None: unbounded)."""
    arrivals: int
    """Uniforms of one gap."""


def need_of(program: ir.Program, plan: Plan) -> Need:
    init, turn = draws_bound(program.init), draws_bound(program.turn)
    gap = 0
    if isinstance(program.arrival, ir.Poisson):
        gap = 1
    elif isinstance(program.arrival, ir.Renewal):
        gap = draws_bound(program.arrival.gap)
    bounds = [_code_bound(s.code) for s in plan.segments]
    return Need(
        marks=max(init, turn),
        init=init > 0,
        session=max(bounds, default=0),
        session_total=sum(bounds) * max(plan.turns, 1),
        turns=None if plan.loops else plan.turns,
        arrivals=gap,
    )


class Position(Draws):
    """A stream read through an address function; the position is a Python int while it can be."""

    def __init__(self, address: Any):
        self._address = address
        self._position: Any = 0

    def take(self, m: Memory) -> Any:
        value = m.f(self._address(self._position))
        self._position = self._position + (1 if isinstance(self._position, int) else U32(1))
        return value

    def mark(self) -> Any:
        return self._position

    def set(self, position: Any) -> None:
        self._position = position


class Prefetch:
    """Buffers, and the batch that fills them. Addresses are reserved when it is made."""

    def __init__(self, core: Core, need: Need):
        self.core, self.need = core, need
        self.mark_blocks = -(-need.marks // streams.PER_BLOCK)
        self.first_turn = 0 if need.init else 1
        self._shape()
        layout = core.layout
        self.seed_high, self.seed_low = layout.u("seed.high"), layout.u("seed.low")
        self._mark_rows = min(need.marks, streams.PER_BLOCK)
        if need.marks:
            self._marks = layout.field("f", "marks", self._mark_rows * self._mark_stride)
            self._marks_first, self._marks_end = layout.field("u", "marks.first"), layout.field("u", "marks.end")
            self._tape_marks = layout.f("tape.marks", self._mark_rows * self._tape_turns)
        if need.session:
            self._own = layout.field("f", "draws", streams.PER_BLOCK * self._own_stride)
            self._at, self._block = layout.field("u", "draws.at"), layout.field("u", "draws.block")
            self._own_end = layout.field("u", "draws.end")
            self._tape_own = layout.f("tape.draws", streams.PER_BLOCK * max(self._group * self._tape_blocks, 1))
        if need.marks or need.session:
            self._lacks = layout.field("u", "draws.lacks")
            self._tape_first, self._tape_end = layout.f("tape.first"), layout.f("tape.end")
        if need.arrivals:
            self._arrivals = layout.f("arrival.uniforms", streams.PER_BLOCK * self.width)
            self._arrival_at, self._arrival_block = core.arrival_at, layout.f("arrival.block")

    def _shape(self) -> None:
        """How a batch is shared: tape of `group` sessions, refill of one."""
        need, per_turn = self.need, self.mark_blocks
        least = -(-(need.session + streams.PER_BLOCK - 1) // streams.PER_BLOCK) if need.session else 0
        if need.session and need.turns is not None:
            least = -(-(need.session_total + need.session) // streams.PER_BLOCK)
        turns = need.turns + (1 if need.init else 0) if need.turns is not None else 6
        if need.turns is not None:
            tape_turns = turns if per_turn else 0
            blocks = max(least, 1) if need.session else 0
        else:
            tape_turns = max(1, turns // per_turn) if per_turn else 0
            blocks = max(least, 2) if need.session else 0
        used = tape_turns * per_turn + blocks
        self.width = max(WIDTH, -(-used // 8) * 8)
        self._tape_turn_count, self._tape_blocks = tape_turns, blocks
        self._group = max(1, self.width // used) if used else 1
        self._tape_turns = self._group * tape_turns * per_turn
        refill_blocks = max(least, self.width // 4) if need.session else 0
        if not per_turn:
            refill_blocks = self.width if need.session else 0
        refill_turns = (self.width - refill_blocks) // per_turn if per_turn else 0
        if per_turn and refill_turns < 1:
            self.width += -(-per_turn // 8) * 8
            refill_turns = (self.width - refill_blocks) // per_turn
        self._refill_turns, self._refill_blocks = refill_turns, refill_blocks
        self._mark_stride = max(refill_turns, tape_turns) * per_turn
        self._own_stride = max(refill_blocks, blocks)

    # -- reading
    def arrival_draws(self, m: Memory) -> Position:
        start = m.u(self._arrival_at)

        def address(position: Any) -> Any:
            p = start + _u32(position)
            return U32(self._arrivals) + (p & U32(7)) * U32(self.width) + (p >> U32(3))

        return Position(address)

    def arrivals_used(self, m: Memory, draws: Position) -> None:
        m.addu(self._arrival_at, _u32(draws.mark()))

    def marks(self, m: Memory, slot: Any, turn: Any) -> Position | None:
        """The stream of (serial, turn), which `ready` has shown to be there."""
        if not self.need.marks:
            return None
        lane = (turn - m.u(self.core.su(slot, self._marks_first))) * U32(self.mark_blocks)
        base = self.core.sf(slot, self._marks) + lane

        def address(position: Any) -> Any:
            if self.mark_blocks == 1:
                return base + _u32(position) * U32(self._mark_stride)
            p = _u32(position)
            return base + (p & U32(7)) * U32(self._mark_stride) + (p >> U32(3))

        return Position(address)

    def session(self, m: Memory, slot: Any) -> Position | None:
        if not self.need.session:
            return None
        start = m.u(self.core.su(slot, self._at))
        base = self.core.sf(slot, self._own)

        def address(position: Any) -> Any:
            p = start + _u32(position)
            return base + (p & U32(7)) * U32(self._own_stride) + (p >> U32(3))

        return Position(address)

    def session_used(self, m: Memory, slot: Any, draws: Position | None) -> None:
        if draws is not None and not (isinstance(draws.mark(), int) and draws.mark() == 0):
            at = self.core.su(slot, self._at)
            used = m.addu(at, _u32(draws.mark()))
            if self.need.turns is None:
                lacks = self.core.su(slot, self._lacks)
                low = used + U32(self.need.session) > m.u(self.core.su(slot, self._own_end))
                m.update("u", lacks, lambda old: where(low, U32(LACKS_DRAWS), old))

    def turn_started(self, m: Memory, slot: Any, turn: Any) -> None:
        """Turn number `turn` draws its marks: note whether the next one's are there."""
        if self.need.marks and self.need.turns is None:
            lacks = self.core.su(slot, self._lacks)
            last = turn + U32(1) >= m.u(self.core.su(slot, self._marks_end))
            m.update("u", lacks, lambda old: where(last & (old == 0), U32(LACKS_MARKS), old))

    # -- what is there
    def born(self, m: Memory, slot: Any) -> None:
        """A new session: nothing is buffered for it yet."""
        if self.need.marks or self.need.session:
            m.setu(self.core.su(slot, self._lacks), U32(LACKS_ALL))

    def clear(self, m: Memory) -> None:
        """Set the registers that do not start at zero: the arrival buffer is empty."""
        if self.need.arrivals:
            m.setu(self._arrival_at, U32(8 * self.width))
            m.setf(self._arrival_block, -float(self.width))

    def _arrival_first(self, m: Memory) -> Any:
        """The first block that still holds an unused uniform."""
        return m.f(self._arrival_block) + (m.u(self._arrival_at) >> U32(3)).astype(np.float64)

    def arrivals_ready(self, m: Memory) -> Any:
        if not self.need.arrivals:
            return m.full(True, np.bool_)
        return m.u(self._arrival_at) + U32(self.need.arrivals) <= U32(8 * self.width)

    # A session's `lacks` field says what must be computed before it may run on: nothing, the marks of
    # its next turn (only if that is what it runs into), or something it needs in any case.

    def _wants(self, m: Memory, slot: Any, starts: Any) -> Any:
        lacks = m.u(self.core.su(slot, self._lacks))
        if starts is None:
            return lacks > LACKS_MARKS
        return (lacks > LACKS_MARKS) | ((lacks == LACKS_MARKS) & starts)

    def lacking(self, m: Memory, slot: Any, starts: Any) -> Any:
        """Whether random numbers must be computed: arrivals', or what the session in `slot` can draw.

        `starts`: whether its segment starts a turn (None: it surely does not).
        """
        lacking = ~self.arrivals_ready(m)
        return lacking | self._wants(m, slot, starts) if self.need.marks or self.need.session else lacking

    def provide(self, m: Memory, slot: Any, starts: Any) -> None:
        """Compute what is lacking: at most one batch at a time, arrivals first."""
        arrivals = ~self.arrivals_ready(m)
        if not (self.need.marks or self.need.session):
            if self.need.arrivals:
                m.when(arrivals, lambda: self._batch(m, arrivals, m.full(False, np.bool_), slot))
            return
        core = self.core
        wants = (slot != 0) & self._wants(m, slot, starts)
        fresh = m.u(core.su(slot, self._lacks)) == LACKS_ALL
        serial = m.f(core.sf(slot, core.serial))
        tape = wants & fresh & (serial >= m.f(self._tape_end)) & ~arrivals
        m.when(arrivals | tape | (wants & ~fresh), lambda: self._batch(m, arrivals, tape, slot))
        m.when(wants & fresh & (serial < m.f(self._tape_end)), lambda: self._copy(m, slot, serial))

    def _batch(self, m: Memory, arrivals: Any, tape: Any, slot: Any) -> None:
        core, width = self.core, self.width
        lane = lax.iota(U64, width)  # not a NumPy constant: those would become arguments of the kernel

        def each(value: Any) -> Any:
            """A value of the lane as a column beside the blocks."""
            return jnp.asarray(value)[..., None]

        seed = (m.u(self.seed_high).astype(U64) << U64(32)) | m.u(self.seed_low).astype(U64)
        seeds = counters = None
        if self.need.marks or self.need.session:
            serial = m.f(core.sf(slot, core.serial)).astype(np.int64).astype(U64)
            seeds, counters = self._session_blocks(m, each, slot, lane, tape, seed, serial)
        if self.need.arrivals:
            own = each(seed) + jnp.zeros(width, U64)
            count = each(self._arrival_first(m).astype(np.int64).astype(U64)) + lane
            seeds = own if seeds is None else where(each(arrivals), own, seeds)
            counters = count if counters is None else where(each(arrivals), count, counters)
        assert seeds is not None
        assert counters is not None
        uniforms = streams.blocks(seeds, counters)
        if self.need.arrivals:
            m.when(arrivals, lambda: self._store_arrivals(m, uniforms))
        if self.need.marks or self.need.session:
            m.when(~arrivals & tape, lambda: self._store_tape(m, uniforms, m.f(core.sf(slot, core.serial))))
            if self.need.turns is None:
                m.when(~arrivals & ~tape, lambda: self._store_refill(m, uniforms, slot))

    def _session_blocks(
        self, m: Memory, each: Any, slot: Any, lane: Any, tape: Any, seed: Any, serial: Any
    ) -> tuple[Any, Any]:
        """Generator seeds and block numbers of a tape batch or a refill batch."""
        core, per_turn = self.core, max(self.mark_blocks, 1)
        marks = lane < U64(self._tape_turns)
        own = jnp.where(marks, U64(0), lane - U64(self._tape_turns))
        per_session = U64(max(self._tape_turn_count * per_turn, 1))
        blocks = U64(max(self._tape_blocks, 1))
        tape_serial = jnp.where(marks, lane // per_session, jnp.minimum(own // blocks, U64(self._group - 1)))
        tape_turn = jnp.where(marks, lane % per_session // U64(per_turn) + U64(self.first_turn), U64(0))
        tape_block = jnp.where(marks, lane % U64(per_turn), own % blocks)
        tape_kind = jnp.where(marks, U64(streams.WORKLOAD), U64(streams.SESSION))
        serials = each(serial) + tape_serial
        if self.need.turns is not None:
            start = streams.substream(streams.root(each(seed)), serials, tape_turn, tape_kind)
            return start, jnp.broadcast_to(tape_block, start.shape)
        refilled = U64(self._refill_turns * per_turn if self.need.marks else 0)
        again = lane < refilled
        turn = m.u(core.su(slot, core.turn_count)).astype(U64) + U64(1)
        turns = each(turn) + lane // U64(per_turn)
        first = m.full(0, U64)
        if self.need.session:
            first = (m.u(core.su(slot, self._block)) + (m.u(core.su(slot, self._at)) >> U32(3))).astype(U64)
        more = each(first) + jnp.where(again, U64(0), lane - refilled)
        t = each(tape)
        serials = jnp.where(t, serials, each(serial))
        turns = jnp.where(t, tape_turn, jnp.where(again, turns, U64(0)))
        kinds = jnp.where(t, tape_kind, jnp.where(again, U64(streams.WORKLOAD), U64(streams.SESSION)))
        counters = jnp.where(t, tape_block, jnp.where(again, lane % U64(per_turn), more))
        return streams.substream(streams.root(each(seed)), serials, turns, kinds), counters

    def _store_arrivals(self, m: Memory, uniforms: list[Any]) -> None:
        for k, row in enumerate(uniforms):
            m.store_n("f", self._arrivals + k * self.width, row)
        m.setf(self._arrival_block, self._arrival_first(m))
        m.setu(self._arrival_at, m.u(self._arrival_at) & U32(7))

    def _store_tape(self, m: Memory, uniforms: list[Any], serial: Any) -> None:
        n = self._tape_turns
        if self.need.marks:
            for k in range(self._mark_rows):
                m.store_n("f", self._tape_marks + k * n, uniforms[k][..., :n])
        if self.need.session:
            b = self._group * self._tape_blocks
            for k, row in enumerate(uniforms):
                m.store_n("f", self._tape_own + k * b, row[..., n : n + b])
        m.setf(self._tape_first, serial)
        m.setf(self._tape_end, serial + float(self._group))

    def _copy(self, m: Memory, slot: Any, serial: Any) -> None:
        """The session's part of the tape into its slot."""
        core = self.core
        g = (serial - m.f(self._tape_first)).astype(U32)
        if self.need.marks:
            n = self._tape_turn_count * self.mark_blocks
            for k in range(self._mark_rows):
                row = m.load_n("f", U32(self._tape_marks + k * self._tape_turns) + g * U32(n), n)
                m.store_n("f", core.sf(slot, self._marks + k * self._mark_stride), row)
            m.setu(core.su(slot, self._marks_first), U32(self.first_turn))
            m.setu(core.su(slot, self._marks_end), U32(self.first_turn + self._tape_turn_count))
        if self.need.session:
            n = self._tape_blocks
            for k in range(streams.PER_BLOCK):
                row = m.load_n("f", U32(self._tape_own + k * self._group * n) + g * U32(n), n)
                m.store_n("f", core.sf(slot, self._own + k * self._own_stride), row)
            m.setu(core.su(slot, self._at), U32(0))
            m.setu(core.su(slot, self._block), U32(0))
            m.setu(core.su(slot, self._own_end), U32(8 * n))
        m.setu(core.su(slot, self._lacks), U32(0))

    def _store_refill(self, m: Memory, uniforms: list[Any], slot: Any) -> None:
        core = self.core
        n = self._refill_turns * self.mark_blocks
        if self.need.marks:
            for k in range(self._mark_rows):
                m.store_n("f", core.sf(slot, self._marks + k * self._mark_stride), uniforms[k][..., :n])
            first = m.u(core.su(slot, core.turn_count)) + U32(1)
            m.setu(core.su(slot, self._marks_first), first)
            m.setu(core.su(slot, self._marks_end), first + U32(self._refill_turns))
        if self.need.session:
            b = self._refill_blocks
            for k, row in enumerate(uniforms):
                m.store_n("f", core.sf(slot, self._own + k * self._own_stride), row[..., n : n + b])
            at = core.su(slot, self._at)
            used = m.u(at)
            m.addu(core.su(slot, self._block), used >> U32(3))
            m.setu(at, used & U32(7))
            m.setu(core.su(slot, self._own_end), U32(8 * b))
        m.setu(core.su(slot, self._lacks), U32(0))

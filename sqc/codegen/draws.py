"""Random numbers of a lane: the machinery that keeps them ahead of the events.

A session reads two streams: the marks of (serial, turn), new at every turn, and its own stream for
its whole life (a leg reads one of its own instead). They are ChaCha blocks of eight uniforms. One
batch computes many blocks in vector instructions; what it computes is one of

* the arrival stream's next blocks,
* the *tape*: the first turns (and first session blocks) of the next few sessions to arrive, which
  are known before they arrive because serials are handed out in order,
* a refill: the next turns and blocks of one session or leg that has outlived what it had.

Where a buffer holds the k-th uniform of every block side by side ("k-major"), results are stored as
they come out of the batch.

What has no bound on its draws, or is read outside of a session's segments, is computed singly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sqc_runtime import streams
from sqc_runtime.core import Core
from sqc_runtime.memory import Memory
from sqc_runtime.ops import as_u32, part, where

from .expressions import Draws
from .needs import Bounds, Need
from .plan import Code

U32, U64 = np.uint32, np.uint64

LACKS_MARKS, LACKS_DRAWS, LACKS_ALL = 1, 2, 3

_WIDTHS = (8, 16, 32)
"""Blocks of one batch: whole groups of what native code computes side by side."""
_ENOUGH = 0.8
"""Share of a tape's blocks that must be of use; else a wider batch is tried."""
_TAPED_TURNS = 3
"""Turns of a session on the tape, where their number has no bound."""


def _blocks(uniforms: float) -> int:
    """Blocks of so many uniforms from the start of one."""
    return -(-int(uniforms) // streams.PER_BLOCK)


class Position(Draws):
    """A stream read through an address function; the position is a Python int while it can be."""

    def __init__(self, address: Callable[[Any], Any], start: Any = 0):
        self._address, self.start = address, start
        self._position: Any = 0

    def take(self, m: Memory) -> Any:
        value = m.f(self._address(self._position))
        self._position = self._position + (1 if isinstance(self._position, int) else U32(1))
        return value

    def mark(self) -> Any:
        return self._position

    def set(self, position: Any) -> None:
        self._position = position


class Single(Draws):
    """A stream that is computed singly and moved in memory as it is read: `advance` moves it by one."""

    at_once = True

    def __init__(
        self,
        singles: streams.Singles,
        generator: Any,
        position: Callable[[Memory], Any],
        advance: Callable[[Memory], None],
    ):
        self._singles, self._generator = singles, generator
        self._place, self._advance = position, advance

    def take(self, m: Memory) -> Any:
        value = self._singles.at(m, self._generator, self._place(m))
        self._advance(m)
        return value

    def mark(self) -> Any:
        return 0

    def set(self, position: Any) -> None:
        """The memory holds the position."""


class Prefetch:
    """Buffers, and the batch that fills them. Addresses are reserved when it is made."""

    def __init__(self, core: Core, need: Need, bounds: Bounds):
        self.core, self.need, self._bounds = core, need, bounds
        init, turn = (n if n < math.inf else 0 for n in (need.init, need.turn))
        self._mark_uniforms = int(max(init, turn))
        self.mark_blocks = _blocks(self._mark_uniforms)
        self.first_turn = 0 if init else 1
        turns = (need.turns if turn else 0) + (1 if init else 0)
        self._refills_marks = turns == math.inf
        self._refills = self._refills_marks or (need.session > 0 and (need.again or need.forks or need.singly))
        self._shape(turns)
        self._arrivals_ahead = 0 < need.arrivals < math.inf
        layout = core.layout
        self.seed_high, self.seed_low = layout.u("seed.high"), layout.u("seed.low")
        self._mark_rows = min(self._mark_uniforms, streams.PER_BLOCK)
        if self.mark_blocks:
            self._marks = layout.field("f", "marks", self._mark_rows * self._mark_stride)
            self._marks_first, self._marks_end = layout.field("u", "marks.first"), layout.field("u", "marks.end")
            self._tape_marks = layout.f("tape.marks", max(self._mark_rows * self._tape_turns, 2))
        if need.session or need.singly:
            self._at, self._block = layout.field("u", "draws.at"), layout.field("u", "draws.block")
        if need.session:
            self._own = layout.field("f", "draws", streams.PER_BLOCK * self._own_stride)
            self._own_end = layout.field("u", "draws.end")
            self._tape_own = layout.f("tape.draws", streams.PER_BLOCK * self._group * self._tape_blocks)
        self._ahead = self.mark_blocks > 0 or need.session > 0
        if self._ahead:
            self._lacks = layout.field("u", "draws.lacks")
            self._tape_first, self._tape_end = layout.f("tape.first"), layout.f("tape.end")
        if self._arrivals_ahead:
            self._arrivals = layout.f("arrival.uniforms", streams.PER_BLOCK * self.width)
            self._arrival_at, self._arrival_block = core.arrival_at, layout.f("arrival.block")
        if need.forks:
            self._leg = layout.field("u", "draws.leg")
        self._reserve_singles()

    def _reserve_singles(self) -> None:
        """Streams that are read singly: the position of each that is not a session's own."""
        need, layout = self.need, self.core.layout
        endless = {"marks": math.inf in (need.init, need.turn), "arrivals": need.arrivals == math.inf}
        used = {**endless, "machine": need.machine, "eviction": need.eviction}
        self._moved = {name: layout.f(f"{name}.at") for name, wanted in used.items() if wanted}
        if self._moved or need.singly:
            self._singles = streams.Singles(layout, "single")

    def _shape(self, turns: float) -> None:
        """How a batch is shared: tape of `group` sessions, refill of one.

        `turns`: how many turns of a session have marks that are prefetched.
        """
        need, per_turn = self.need, self.mark_blocks
        refilled = _blocks(need.session + streams.PER_BLOCK - 1) if need.session else 0
        taped = _blocks(need.session if self._refills else need.total)
        if self._refills and not per_turn:
            taped = 2 * taped  # such sessions live long
        if turns < math.inf:
            taped_turns = int(turns)
        else:
            taped_turns = max(1, _TAPED_TURNS // per_turn) + (1 if self.first_turn == 0 else 0)
        used = taped_turns * per_turn + taped
        least = max(used, refilled + (per_turn if self._refills_marks else 0)) if self._refills else used
        self.width = _width(used, least)
        self._tape_turn_count, self._tape_blocks = taped_turns if per_turn else 0, taped
        self._group = max(1, self.width // used) if used else 1
        self._tape_turns = self._group * self._tape_turn_count * per_turn
        self._refill_turns, self._refill_blocks = 0, 0
        if self._refills_marks:
            self._refill_blocks = max(refilled, self.width // 4) if need.session else 0
            self._refill_turns = (self.width - self._refill_blocks) // per_turn
        elif self._refills:
            self._refill_blocks = self.width
        self._mark_stride = max(self._refill_turns, self._tape_turn_count) * per_turn
        self._own_stride = max(self._refill_blocks, taped)

    # -- streams
    def seed(self, m: Memory) -> Any:
        """The run's seed."""
        return (m.u(self.seed_high).astype(U64) << U64(32)) | m.u(self.seed_low).astype(U64)

    def _leg_and_kind(self, m: Memory, slot: Any) -> tuple[Any, Any]:
        """Which stream a slot's own draws come from: (0, a session's), or (its number, a leg's)."""
        zero, session = m.full(0, U64), m.full(streams.SESSION, U64)
        if not self.need.forks:
            return zero, session
        leg = m.u(self.core.su(slot, self._leg))
        number = (leg - U32(1)).astype(U64)
        return where(leg == 0, zero, number), where(leg == 0, session, U64(streams.LEG))

    def _own_generator(self, m: Memory, slot: Any) -> Any:
        serial = m.f(self.core.sf(slot, self.core.serial)).astype(U64)
        return streams.substream(streams.root(self.seed(m)), serial, *self._leg_and_kind(m, slot))

    def _single_of_lane(self, name: str, generator: Any) -> Single:
        register = self._moved[name]

        def advance(m: Memory) -> None:
            m.addf(register, 1.0)

        return Single(self._singles, generator, lambda m: _count(m.f(register)), advance)

    # -- reading
    def arrival_draws(self, m: Memory) -> Draws:
        if not self._arrivals_ahead:
            return self._single_of_lane("arrivals", self.seed(m))
        start = m.u(self._arrival_at)

        def address(position: Any) -> Any:
            p = start + as_u32(position)
            return U32(self._arrivals) + (p & U32(7)) * U32(self.width) + (p >> U32(3))

        return Position(address, start)

    def arrivals_used(self, m: Memory, draws: Draws) -> None:
        if isinstance(draws, Position):
            m.setu(self._arrival_at, draws.start + as_u32(draws.mark()))

    def init_marks(self, m: Memory, slot: Any) -> Draws | None:
        """The stream (serial, 0) of a new session's init block, which must not lack it."""
        return self._marks_of(m, slot, m.full(0, U32), self.need.init)

    def marks(self, m: Memory, slot: Any, turn: Any) -> Draws | None:
        """The stream of (serial, turn), which a session that starts a turn must not lack."""
        return self._marks_of(m, slot, turn, self.need.turn)

    def _marks_of(self, m: Memory, slot: Any, turn: Any, bound: float) -> Draws | None:
        if bound == math.inf:
            serial = m.f(self.core.sf(slot, self.core.serial)).astype(U64)
            root, kind = streams.root(self.seed(m)), m.full(streams.WORKLOAD, U64)
            m.setf(self._moved["marks"], 0.0)
            return self._single_of_lane("marks", streams.substream(root, serial, turn.astype(U64), kind))
        if bound == 0:
            return None
        lane = (turn - m.u(self.core.su(slot, self._marks_first))) * U32(self.mark_blocks)
        base = self.core.sf(slot, self._marks) + lane

        def address(position: Any) -> Any:
            if self.mark_blocks == 1:
                return base + as_u32(position) * U32(self._mark_stride)
            p = as_u32(position)
            return base + (p & U32(7)) * U32(self._mark_stride) + (p >> U32(3))

        return Position(address)

    def session(self, m: Memory, slot: Any, code: Code) -> Draws | None:
        """The slot's own stream, for a segment."""
        bound = self._bounds.code(code)
        if bound == math.inf:
            return self.single(m, slot)
        if bound == 0:
            return None
        start = m.u(self.core.su(slot, self._at))
        base = self.core.sf(slot, self._own)

        def address(position: Any) -> Any:
            p = start + as_u32(position)
            return base + (p & U32(7)) * U32(self._own_stride) + (p >> U32(3))

        return Position(address, start)

    def session_used(self, m: Memory, slot: Any, draws: Draws | None) -> None:
        """The segment is over, or others are about to read its stream: the stream is where `draws` left it."""
        if isinstance(draws, Position) and not (isinstance(draws.mark(), int) and draws.mark() == 0):
            self._move(m, slot, draws.start + as_u32(draws.mark()))

    def _move(self, m: Memory, slot: Any, position: Any) -> None:
        """The slot's own stream is at a position, counted from the start of what it has."""
        m.setu(self.core.su(slot, self._at), position)
        if self._refills and self.need.session:
            lacks = self.core.su(slot, self._lacks)
            low = position + U32(self.need.session) > m.u(self.core.su(slot, self._own_end))
            m.update("u", lacks, lambda old: where(low, U32(LACKS_DRAWS), old))

    def single(self, m: Memory, slot: Any) -> Draws | None:
        """The slot's own stream, for what is evaluated outside of its segments or without a bound."""
        if not self.need.singly:
            return None
        at = self.core.su(slot, self._at)
        return Single(
            self._singles,
            self._own_generator(m, slot),
            lambda m: self._absolute(m, slot),
            lambda m: self._move(m, slot, m.u(at) + U32(1)),
        )

    def _absolute(self, m: Memory, slot: Any) -> Any:
        """The position of a slot's own stream."""
        first = m.u(self.core.su(slot, self._block)).astype(U64)
        return (first << U64(3)) + m.u(self.core.su(slot, self._at)).astype(U64)

    def machine(self, m: Memory) -> Draws | None:
        """The stream of what is evaluated without a session."""
        if not self.need.machine:
            return None
        return self._single_of_lane("machine", self.seed(m) ^ streams.MACHINE)

    def eviction(self, m: Memory) -> Draws | None:
        """The stream of eviction keys and spill clauses, whether the entry's session lives or not."""
        if not self.need.eviction:
            return None
        return self._single_of_lane("eviction", self.seed(m) ^ streams.EVICTION)

    def turn_started(self, m: Memory, slot: Any, turn: Any) -> None:
        """Turn number `turn` draws its marks: note whether the next one's are there."""
        if self._refills_marks:
            lacks = self.core.su(slot, self._lacks)
            last = turn + U32(1) >= m.u(self.core.su(slot, self._marks_end))
            m.update("u", lacks, lambda old: where(last & (old == 0), U32(LACKS_MARKS), old))

    # -- what is there
    def born(self, m: Memory, slot: Any) -> None:
        """A new session: nothing is buffered for it yet."""
        if self._ahead:
            m.setu(self.core.su(slot, self._lacks), U32(LACKS_ALL))
        self._begin(m, slot, 0)

    def leg_born(self, m: Memory, slot: Any, number: Any) -> None:
        """A new leg, the session's `number`-th from 0, which has a stream of its own from the start."""
        if self._ahead:
            m.setu(self.core.su(slot, self._lacks), U32(LACKS_DRAWS if self.need.session else 0))
        self._begin(m, slot, number + U32(1))

    def _begin(self, m: Memory, slot: Any, leg: Any) -> None:
        core = self.core
        if self.need.session or self.need.singly:
            m.setu(core.su(slot, self._at), U32(0))
            m.setu(core.su(slot, self._block), U32(0))
        if self.need.session:
            m.setu(core.su(slot, self._own_end), U32(0))
        if self.need.forks:
            m.setu(core.su(slot, self._leg), as_u32(leg))

    def clear(self, m: Memory) -> None:
        """Set the registers that do not start at zero: the arrival buffer is empty."""
        if self._arrivals_ahead:
            m.setu(self._arrival_at, U32(8 * self.width))
            m.setf(self._arrival_block, -float(self.width))

    def _arrival_first(self, m: Memory) -> Any:
        """The first block that still holds an unused uniform."""
        return m.f(self._arrival_block) + (m.u(self._arrival_at) >> U32(3)).astype(np.float64)

    def arrivals_ready(self, m: Memory) -> Any:
        if not self._arrivals_ahead:
            return m.full(True, np.bool_)
        return m.u(self._arrival_at) + U32(int(self.need.arrivals)) <= U32(8 * self.width)

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
        return lacking | self._wants(m, slot, starts) if self._ahead else lacking

    def provide(self, m: Memory, slot: Any, starts: Any) -> None:
        """Compute what is lacking: at most one batch at a time, arrivals first."""
        arrivals = ~self.arrivals_ready(m)
        if not self._ahead:
            if self._arrivals_ahead:
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
        width = self.width

        def each(value: Any) -> Any:
            """A value of the lane beside every block."""
            return m.spread(value, width)

        seed = self.seed(m)
        seeds = counters = None
        if self._ahead:
            seeds, counters = self._session_blocks(m, each, slot, tape, seed)
        if self._arrivals_ahead:
            own = each(seed)
            count = each(_count(self._arrival_first(m))) + m.row(range(width), U64)
            seeds = own if seeds is None else where(each(arrivals), own, seeds)
            counters = count if counters is None else where(each(arrivals), count, counters)
        assert seeds is not None
        assert counters is not None
        uniforms = streams.blocks(seeds, counters)
        if self._arrivals_ahead:
            m.when(arrivals, lambda: self._store_arrivals(m, uniforms))
        if self._ahead:
            serial = m.f(self.core.sf(slot, self.core.serial))
            m.when(~arrivals & tape, lambda: self._store_tape(m, uniforms, serial))
            if self._refills:
                m.when(~arrivals & ~tape, lambda: self._store_refill(m, uniforms, slot))

    def _session_blocks(self, m: Memory, each: Any, slot: Any, tape: Any, seed: Any) -> tuple[Any, Any]:
        """Generator seeds and block numbers of a tape batch or a refill batch."""
        core, per_turn = self.core, max(self.mark_blocks, 1)
        # Of each block of a tape: its session among the tape's, its turn, its kind, its number.
        tape_rows: list[tuple[int, int, int, int]] = []
        for lane in range(self.width):
            if lane < self._tape_turns:
                session, rest = divmod(lane, self._tape_turn_count * per_turn)
                tape_rows.append((session, rest // per_turn + self.first_turn, streams.WORKLOAD, rest % per_turn))
            else:
                session, block = divmod(lane - self._tape_turns, max(self._tape_blocks, 1))
                tape_rows.append((min(session, self._group - 1), 0, streams.SESSION, block))
        sessions, turns, kinds, numbers = (m.row(column, U64) for column in zip(*tape_rows, strict=True))
        root = each(streams.root(seed))
        serial = each(m.f(core.sf(slot, core.serial)).astype(U64))
        serials = serial + sessions
        if not self._refills:
            return streams.substream(root, serials, turns, kinds), numbers
        refilled = self._refill_turns * per_turn
        again = [lane < refilled for lane in range(self.width)]
        ahead = m.row([lane // per_turn if of_turn else 0 for lane, of_turn in enumerate(again)], U64)
        within = m.row([lane % per_turn if of_turn else lane - refilled for lane, of_turn in enumerate(again)], U64)
        next_turn = m.u(core.su(slot, core.turn_count)).astype(U64) + U64(1)
        first = m.full(0, U64)
        if self.need.session:
            first = (m.u(core.su(slot, self._block)) + (m.u(core.su(slot, self._at)) >> U32(3))).astype(U64)
        of_turn, t = m.row(again, np.bool_), each(tape)
        leg, kind = self._leg_and_kind(m, slot)
        refill_turns = where(of_turn, each(next_turn) + ahead, each(leg))
        refill_kinds = where(of_turn, m.row([streams.WORKLOAD] * self.width, U64), each(kind))
        refill_numbers = within + where(of_turn, each(m.full(0, U64)), each(first))
        serials = where(t, serials, serial)
        turns, kinds = where(t, turns, refill_turns), where(t, kinds, refill_kinds)
        return streams.substream(root, serials, turns, kinds), where(t, numbers, refill_numbers)

    def _store_arrivals(self, m: Memory, uniforms: list[Any]) -> None:
        for k, row in enumerate(uniforms):
            m.store_n("f", self._arrivals + k * self.width, row)
        m.setf(self._arrival_block, self._arrival_first(m))
        m.setu(self._arrival_at, m.u(self._arrival_at) & U32(7))

    def _store_tape(self, m: Memory, uniforms: list[Any], serial: Any) -> None:
        n, own = self._tape_turns, self._group * self._tape_blocks
        if n:
            for k in range(self._mark_rows):
                m.store_n("f", self._tape_marks + k * n, part(uniforms[k], 0, n))
        if own:
            for k, row in enumerate(uniforms):
                m.store_n("f", self._tape_own + k * own, part(row, n, own))
        m.setf(self._tape_first, serial)
        m.setf(self._tape_end, serial + float(self._group))

    def _copy(self, m: Memory, slot: Any, serial: Any) -> None:
        """The session's part of the tape into its slot."""
        core = self.core
        g = (serial - m.f(self._tape_first)).astype(U32)
        if self.mark_blocks:
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
            m.setu(core.su(slot, self._own_end), U32(8 * n))
        m.setu(core.su(slot, self._lacks), U32(0))

    def _store_refill(self, m: Memory, uniforms: list[Any], slot: Any) -> None:
        core = self.core
        n, own = self._refill_turns * self.mark_blocks, self._refill_blocks
        if n:
            for k in range(self._mark_rows):
                m.store_n("f", core.sf(slot, self._marks + k * self._mark_stride), part(uniforms[k], 0, n))
            first = m.u(core.su(slot, core.turn_count)) + U32(1)
            m.setu(core.su(slot, self._marks_first), first)
            m.setu(core.su(slot, self._marks_end), first + U32(self._refill_turns))
        if own:
            for k, row in enumerate(uniforms):
                m.store_n("f", core.sf(slot, self._own + k * self._own_stride), part(row, n, own))
            at = core.su(slot, self._at)
            used = m.u(at)
            m.addu(core.su(slot, self._block), used >> U32(3))
            m.setu(at, used & U32(7))
            m.setu(core.su(slot, self._own_end), U32(8 * own))
        m.setu(core.su(slot, self._lacks), U32(0))


def _count(number: Any) -> Any:
    """A whole number as an unsigned integer."""
    return number.astype(np.int64).astype(U64)


def _width(used: int, least: int) -> int:
    """Blocks of a batch of which tapes of `used` blocks waste few; at least `least`."""
    widest = next(w for w in (8 << k for k in range(32)) if w >= least)
    choices = [w for w in _WIDTHS if w >= least] or [widest]
    shares = {w: w // used * used / w if used else 1.0 for w in choices}
    return next((w for w in choices if shares[w] >= _ENOUGH), max(choices, key=lambda w: shares[w]))

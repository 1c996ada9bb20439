"""Tokens: the gaps between those of one turn, and when a turn's tokens came."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .core import Core
from .memory import Memory
from .ops import as_u32, ceil, exp, floor, greater, lesser, log, where
from .ring import ONE, member
from .statistics import Row

if TYPE_CHECKING:
    from .engine import Engine

ZERO = np.uint32(0)


@dataclass(frozen=True)
class Repeats:
    """Equal iterations: the first begins at `start`, the last of `count` ends at `time`."""

    start: Any
    cost: Any
    count: Any
    time: Any
    least: Any
    largest: Any
    """Of the times between two ends."""


_RATIO = float(np.log(1.01))
_FIRST, _LAST = -2400, 2400
"""Buckets of 1 %, of 4e-11 to 2e10; what is beyond counts in the outermost. Below the first: values <= 0."""
_BUCKETS = _LAST - _FIRST + 2


class Gaps:
    """The gaps between tokens of the members of a stage: exact mean, quantiles to 1 %.

    Per bucket: how many, the least, the largest. Most gaps lie between two that are known to be in the bucket of
    the gap before, which spares the logarithm.
    """

    def __init__(self, core: Core, name: str, members: int):
        self.core, f = core, core.layout.f
        self._n, self._sum = f(f"{name}.gaps", members), f(f"{name}.gaps.sum", members)
        self._recent = core.layout.u(f"{name}.gaps.recent", members)
        self._counts = f(f"{name}.gaps.counts", _BUCKETS * members)
        self._least, self._largest = (f(f"{name}.gaps.{end}", _BUCKETS * members) for end in ("least", "largest"))

    def _at(self, base: int, bucket: Any, i: Any) -> Any:
        first = member(base, i, _BUCKETS)
        return bucket + as_u32(first)

    def note(self, m: Memory, i: Any, value: Any) -> None:
        def keep() -> None:
            m.addf(member(self._n, i), 1.0)
            m.addf(member(self._sum, i), value)
            self._put(m, i, self._bucket(m, i, value), 1.0, value, value)

        m.when(m.f(self.core.warm) > 0, keep)

    def note_many(self, m: Memory, i: Any, times: Any, r: Repeats) -> None:
        """The gaps of equal iterations, each so many times (a double)."""

        def keep() -> None:
            m.addf(member(self._n, i), times * r.count)
            m.addf(member(self._sum, i), times * (r.time - r.start))
            bucket = self._bucket(m, i, r.least)

            def one_by_one() -> None:
                def put(k: Any, time: Any) -> tuple[Any, Any]:
                    gap = (time + r.cost) - time
                    self._put(m, i, self._bucket(m, i, gap), times, gap, gap)
                    return k + 1.0, time + r.cost

                m.loop(lambda k, _: k < r.count, put, (m.full(0.0, np.float64), r.start))

            def together() -> None:
                self._put(m, i, bucket, times * r.count, r.least, r.largest)

            m.either(bucket == self._bucket(m, i, r.largest), together, one_by_one)

        m.when(m.f(self.core.warm) > 0, keep)

    def _bucket(self, m: Memory, i: Any, value: Any) -> Any:
        """The number of a gap's bucket."""
        recent = m.u(member(self._recent, i))
        low, high = m.f(self._at(self._least, recent, i)), m.f(self._at(self._largest, recent, i))

        def find() -> tuple[Any]:
            place = floor(log(value) / m.opaque(m.full(_RATIO, np.float64)))
            place = lesser(greater(place, float(_FIRST)), float(_LAST)) - (_FIRST - 1.0)
            return (where(value > 0, place, 0.0).astype(np.uint32),)

        (bucket,) = m.when((value < low) | (value > high) | ~(value > 0), find, (recent,))
        m.setu(member(self._recent, i), bucket)
        return bucket

    def _put(self, m: Memory, i: Any, bucket: Any, times: Any, low: Any, high: Any) -> None:
        counts, least, largest = (self._at(base, bucket, i) for base in (self._counts, self._least, self._largest))
        fresh = m.f(counts) == 0
        m.addf(counts, times)
        m.update("f", least, lambda old: where(fresh | (low < old), low, old))
        m.update("f", largest, lambda old: where(fresh | (high > old), high, old))

    def mean(self, m: Memory, i: int) -> Any:
        return m.f(member(self._sum, i)) / m.f(member(self._n, i))

    def quantile(self, m: Memory, i: int, q: float) -> Any:
        count = m.f(member(self._n, i))
        rank = greater(ceil(q * count), 1.0)

        def seen(bucket: Any) -> Any:
            return m.f(self._at(self._counts, bucket, i))

        def up(bucket: Any, below: Any) -> tuple[Any, Any]:
            return bucket + ONE, below + seen(bucket)

        def on(bucket: Any, below: Any) -> Any:
            return (bucket < np.uint32(_BUCKETS - 1)) & (below + seen(bucket) < rank)

        bucket, _ = m.loop(on, up, (m.full(0, np.uint32), m.full(0.0, np.float64)))
        middle = exp((bucket.astype(np.float64) + (_FIRST - 0.5)) * _RATIO)
        middle = where(bucket == 0, 0.0, middle)
        least, largest = m.f(self._at(self._least, bucket, i)), m.f(self._at(self._largest, bucket, i))
        return where(count > 0, lesser(greater(middle, least), largest), np.nan)


class _Progress:
    """How far the tokens of one runner in a turn have come: whether there are any, whether one was decoded, at which
    stage the latest came, whether its request has been preempted since."""

    def __init__(self, core: Core, name: str):
        self.core = core
        fields = (core.layout.field("u", f"{name}.{what}") for what in ("any", "decoded", "stage", "interrupted"))
        self._any, self._decoded, self._stage, self._interrupted = self._fields = tuple(fields)

    def clear(self, m: Memory, slot: Any) -> None:
        for field in self._fields:
            m.setu(self.core.su(slot, field), ZERO)

    def is_further(self, m: Memory, slot: Any, stage: Any, decoded: Any) -> Any:
        """Whether a token is one more: a decoded one, or the end of a prefill that computes lost tokens anew."""
        core = self.core
        again = (m.u(core.su(slot, self._interrupted)) != 0) & (m.u(core.su(slot, self._stage)) == stage)
        after = decoded | (m.u(core.su(slot, self._decoded)) != 0) | again
        return (m.u(core.su(slot, self._any)) != 0) & after

    def token(self, m: Memory, slot: Any, stage: Any, decoded: Any) -> None:
        core = self.core
        m.setu(core.su(slot, self._any), ONE)
        m.setu(core.su(slot, self._stage), stage)
        m.setu(core.su(slot, self._interrupted), ZERO)
        m.when(decoded, lambda: m.setu(core.su(slot, self._decoded), ONE))

    def interrupt(self, m: Memory, slot: Any) -> None:
        m.setu(self.core.su(slot, self._interrupted), ONE)


class TokenTimes:
    """When a turn's tokens came: the rows `ttft` and `tpot`, and the gaps between tokens.

    A turn's tokens are those of its session and its legs together (`owner` of a leg), a gap lies between two of
    one runner. The first token is provisional until it is known that nobody computes it anew; if the run is warm by
    then, it counts.
    """

    def __init__(self, core: Core, ttft: Row, tpot: Row, owner: Callable[[Memory, Any], Any]):
        self.core, self._ttft, self._tpot, self._owner = core, ttft, tpot, owner
        f = partial(core.layout.field, "f")
        self._count, self._first, self._last = f("tokens.count"), f("tokens.first"), f("tokens.last")
        self._settled = core.layout.field("u", "tokens.settled")
        self._own = _Progress(core, "tokens.own")

    def turn_starts(self, m: Memory, slot: Any) -> None:
        m.setf(self.core.sf(slot, self._count), 0.0)
        m.setu(self.core.su(slot, self._settled), ZERO)
        self.leg_starts(m, slot)

    def leg_starts(self, m: Memory, leg: Any) -> None:
        self._own.clear(m, leg)

    def token(self, m: Memory, engine: Engine, job: Any, decoded: Any, i: Any) -> None:
        """A decoded token, or the end of a prefill, now."""
        core, slot, now = self.core, self._owner(m, job), m.f(self.core.now)
        stage, count = np.uint32(engine.uses.number), core.sf(slot, self._count)
        further = (m.f(count) > 0) & (decoded | (m.u(core.su(slot, self._settled)) != 0))
        of_its_own = self._own.is_further(m, job, stage, decoded)
        last = core.sf(job, self._last)

        def one_more() -> None:
            m.addf(count, 1.0)

        def first() -> None:
            m.setf(count, 1.0)
            m.setf(core.sf(slot, self._first), now)

        m.when(of_its_own, lambda: engine.gap(m, i, now - m.f(last)))
        m.either(further, one_more, first)
        m.setf(last, now)
        self._own.token(m, job, stage, decoded)
        m.when(decoded, lambda: self._settle(m, slot))

    def tokens(self, m: Memory, job: Any, count: Any, time: Any) -> None:
        """Further decoded tokens of a run that decodes, the last of them at `time`."""
        m.addf(self.core.sf(self._owner(m, job), self._count), count)
        m.setf(self.core.sf(job, self._last), time)

    def decode_starts(self, m: Memory, job: Any) -> None:
        """A decode run begins: a first token of this instant is final."""
        core, slot = self.core, self._owner(m, job)
        fresh = (m.f(core.sf(slot, self._count)) > 0) & (m.f(core.sf(slot, self._first)) == m.f(core.now))
        m.when(fresh, lambda: self._settle(m, slot))

    def interrupted(self, m: Memory, job: Any) -> None:
        """The request is preempted."""
        self._own.interrupt(m, job)

    def _settle(self, m: Memory, slot: Any) -> None:
        settled = self.core.su(slot, self._settled)

        def enter() -> None:
            m.setu(settled, ONE)
            self._ttft.record(m, self._until_first(m, slot), slot)

        m.when(m.u(settled) == ZERO, enter)

    def _until_first(self, m: Memory, slot: Any) -> Any:
        return m.f(self.core.sf(slot, self._first)) - m.f(self.core.sf(slot, self.core.turn_start))

    def session_ends(self, m: Memory, slot: Any) -> None:
        """Within a turn, before its legs: what they produce is no first token of a response."""
        m.setu(self.core.su(slot, self._settled), ONE)

    def turn_ends(self, m: Memory, slot: Any, response: Any) -> None:
        count = m.f(self.core.sf(slot, self._count))
        m.when(count > 0, lambda: self._settle(m, slot))

        def record() -> None:
            self._tpot.record(m, (response - self._until_first(m, slot)) / (count - 1.0), slot)

        m.when(count >= 2, record)

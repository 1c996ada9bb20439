"""Samples of a row (an observation, a client measure): moments, histogram, or every sample.

A lane keeps running moments and a histogram with 128 buckets an octave: the bucket is
the top bits of the double, so no logarithm is taken, and its relative width is under 0.8 %. A run
that reports a single seed keeps every sample besides, as (time, session, turn, value).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from .core import OVERFLOW_SAMPLES, Core
from .memory import Memory
from .ops import absolute, bits_of, ceil, double_of, greater, lesser, sqrt, where

_SHIFT = 45
_OCTAVES = 48
_LOWEST = int(np.float64(2.0**-24).view(np.int64)) >> _SHIFT
_HALF = _OCTAVES * 128
BUCKETS = 2 * _HALF + 1
"""Negative values mirrored below, zero and the tiniest in the middle, positive values above."""

SAMPLE_CELLS = 4
"""A sample: time, session, turn, value."""
CHANGE_CELLS = 2
"""A change of a gauge: time, value."""


def bucket_of(value: Any) -> Any:
    """The bucket of a value, 0 .. BUCKETS - 1, in the order of the values."""
    bits = bits_of(absolute(value)) >> np.int64(_SHIFT)
    rank = lesser(greater(bits - np.int64(_LOWEST - 1), np.int64(0)), np.int64(_HALF))
    return (where(value < 0, -rank, rank) + np.int64(_HALF)).astype(np.uint32)


def bucket_middle(bucket: Any) -> Any:
    """The geometric middle of a bucket."""
    rank = bucket.astype(np.int64) - np.int64(_HALF)
    size = where(rank < 0, -rank, rank) - np.int64(1) + np.int64(_LOWEST)
    low = double_of(size << np.int64(_SHIFT))
    high = double_of((size + np.int64(1)) << np.int64(_SHIFT))
    middle = sqrt(low) * sqrt(high)
    return where(rank == 0, 0.0, where(rank < 0, -middle, middle))


def bucket_number(value: float) -> int:
    """`bucket_of` a plain number."""
    bits = int(np.float64(abs(value)).view(np.int64)) >> _SHIFT
    rank = min(max(bits - (_LOWEST - 1), 0), _HALF)
    return (-rank if value < 0 else rank) + _HALF


@cache
def bucket_middles() -> np.ndarray[Any, np.dtype[np.float64]]:
    """`bucket_middle` of every bucket, as an array."""
    edges = (np.arange(_LOWEST, _LOWEST + _HALF + 1) << _SHIFT).view(np.float64)
    middles = np.sqrt(edges[:-1]) * np.sqrt(edges[1:])
    return np.concatenate([-middles[::-1], [0.0], middles])


class Row:
    """One row of statistics; `samples` > 0 keeps that many samples at most (bank `x`)."""

    def __init__(self, core: Core, name: str, samples: int):
        self.core = core
        self.name = name
        self.capacity = samples
        f = core.layout.f
        self._count, self._shift = f(f"{name}.count"), f(f"{name}.shift")
        self._sum, self._squares = f(f"{name}.sum"), f(f"{name}.squares")
        if samples:
            self.base = core.layout.region("x", name, SAMPLE_CELLS * samples)
        else:
            self._least, self._largest = f(f"{name}.least"), f(f"{name}.largest")
            self._bank = core.layout.histograms
            self._buckets = core.layout.region(self._bank, f"{name}.buckets", BUCKETS)

    @property
    def histogram(self) -> tuple[str, int, int, int]:
        """The bank of the histogram, its first cell there, the registers of the least and the largest sample."""
        return self._bank, self._buckets, self._least, self._largest

    def clear(self, m: Memory) -> None:
        """Set the registers that do not start at zero."""
        if not self.capacity:
            m.setf(self._least, np.inf)
            m.setf(self._largest, -np.inf)

    def record(self, m: Memory, value: Any, slot: Any) -> None:
        """Keep a sample of this session, if the run is warm.

        Sums are taken about the first sample, so that a small spread about a large mean keeps its
        digits, and equal samples have a spread of exactly 0.
        """
        core = self.core

        def keep() -> None:
            count = m.f(self._count)
            if self.capacity:
                core.stop(m, count >= self.capacity, OVERFLOW_SAMPLES)
                m.when(count < self.capacity, lambda: self._write(m, count, value, slot))
            else:
                m.update(self._bank, np.uint32(self._buckets) + bucket_of(value), lambda old: old + np.uint32(1))
                m.setf(self._least, lesser(value, m.f(self._least)))
                m.setf(self._largest, greater(value, m.f(self._largest)))
            shift = where(count == 0, value, m.f(self._shift))
            m.setf(self._shift, shift)
            m.setf(self._count, count + 1.0)
            off = value - shift
            m.addf(self._sum, off)
            m.addf(self._squares, off * off)

        m.when(m.f(core.warm) > 0, keep)

    def _write(self, m: Memory, index: Any, value: Any, slot: Any) -> None:
        core = self.core
        at = np.uint32(self.base) + index.astype(np.uint32) * np.uint32(SAMPLE_CELLS)
        m.store("x", at, m.f(core.now))
        m.store("x", at + np.uint32(1), m.f(core.sf(slot, core.serial)))
        m.store("x", at + np.uint32(2), m.f(core.sf(slot, core.turn_no)))
        m.store("x", at + np.uint32(3), value)

    def quantile(self, m: Memory, q: float) -> Any:
        """The value of rank ceil(q n) to a bucket's width; NaN without samples."""
        count = m.f(self._count)
        above = count - greater(ceil(q * count), 1.0)

        def go(bucket: Any, seen: Any) -> Any:
            return (seen + m.load(self._bank, self._buckets + bucket).astype(np.float64) <= above) & (bucket > 0)

        def down(bucket: Any, seen: Any) -> tuple[Any, Any]:
            return bucket - np.uint32(1), seen + m.load(self._bank, self._buckets + bucket).astype(np.float64)

        start = bucket_of(m.f(self._largest))
        bucket, _ = m.loop(go, down, (start, m.full(0.0, np.float64)))
        value = lesser(greater(bucket_middle(bucket), m.f(self._least)), m.f(self._largest))
        return where(count > 0, value, np.nan)

    def metrics(self, m: Memory) -> dict[str, Any]:
        count, total = m.f(self._count), m.f(self._sum)
        mean = m.f(self._shift) + total / count
        variance = (m.f(self._squares) - total * total / count) / (count - 1.0)
        cv2 = where((count >= 2) & (mean != 0), variance / (mean * mean), np.nan)
        rows = {"count": count, "mean": where(count > 0, mean, np.nan), "cv2": cv2}
        if not self.capacity:
            rows["p99"] = self.quantile(m, 0.99)
        return rows

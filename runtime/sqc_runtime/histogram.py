"""Histograms of samples as arrays: what a lane counted, read from its banks. They add up, and have quantiles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .memory import Memory
from .ops import greater, lesser
from .statistics import BUCKETS, bucket_middles, bucket_number, bucket_of

Place = tuple[str, int, int, int]
"""Where a row has its histogram: the bank, the first cell there, the registers of the least and the largest sample."""


@dataclass(frozen=True, eq=False)
class Histogram:
    """How many samples fell into each of some neighbouring buckets, from number `first` on.

    `least` and `largest` are the extreme samples themselves.
    """

    first: int
    counts: NDArray[np.int64]
    least: float
    largest: float

    @property
    def count(self) -> int:
        """The number of samples."""
        return int(self.counts.sum())

    @property
    def middles(self) -> NDArray[np.float64]:
        """The middle of each bucket."""
        return bucket_middles()[self.first : self.first + len(self.counts)]

    def __add__(self, other: Histogram) -> Histogram:
        first = min(self.first, other.first)
        counts = np.zeros(max(h.first + len(h.counts) for h in (self, other)) - first, np.int64)
        for part in (self, other):
            counts[part.first - first : part.first - first + len(part.counts)] += part.counts
        return Histogram(first, counts, min(self.least, other.least), max(self.largest, other.largest))

    def quantile(self, q: float) -> float:
        """The sample of rank ceil(q n) to the width of its bucket, under 1 %; q from 0 to 1."""
        rank = max(math.ceil(q * self.count), 1)
        place = int(np.searchsorted(np.cumsum(self.counts), rank))
        return float(np.clip(self.middles[place], self.least, self.largest))

    def json(self) -> list[Any]:
        """JSON-ready; `from_json` reads it back."""
        return [self.first, self.counts.tolist(), self.least, self.largest]

    @classmethod
    def from_json(cls, document: Sequence[Any]) -> Histogram:
        first, counts, least, largest = document
        return cls(int(first), np.array(counts, np.int64), float(least), float(largest))


def add_up(m: Memory, places: Iterable[Place]) -> None:
    """Native code: add the histograms of the lane that has ended to those of bank `h` and their extremes in `e`."""
    for row, (bank, first, least, largest) in enumerate(places):
        low, high = m.f(least), m.f(largest)

        def add(row: int = row, bank: str = bank, first: int = first, low: Any = low, high: Any = high) -> None:
            m.update("e", 2 * row, lambda old: lesser(low, old))
            m.update("e", 2 * row + 1, lambda old: greater(high, old))
            last, total = bucket_of(high), np.uint32(row * BUCKETS)

            def one(bucket: Any) -> tuple[Any]:
                m.update("h", bucket + total, lambda old: old + m.load(bank, bucket + np.uint32(first)))
                return (bucket + np.uint32(1),)

            m.loop(lambda bucket: bucket <= last, one, (bucket_of(low),))

        m.when(low <= high, add)


def histograms_of(
    names: Iterable[str], counts: Iterable[NDArray[Any]], extremes: NDArray[np.float64]
) -> dict[str, Histogram]:
    """Histograms by name, from counts of all buckets and extremes [names, 2]; empty ones are left out."""
    found = {}
    for name, row, (least, largest) in zip(names, counts, extremes.tolist(), strict=True):
        if least <= largest:
            first, last = bucket_number(least), bucket_number(largest)
            found[name] = Histogram(first, row[first : last + 1].astype(np.int64), least, largest)
    return found


Pooled = Mapping[int, Mapping[str, Histogram]]
"""Histograms by group of lanes and by name."""


def added(one: Pooled, other: Pooled) -> Pooled:
    """Histograms by group and name, those of both added."""
    total = dict(one)
    for group, rows in other.items():
        there = total.get(group, {})
        total[group] = {**there, **{name: there[name] + new if name in there else new for name, new in rows.items()}}
    return total

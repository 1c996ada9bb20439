"""What a context is made of: segments with keys, so that two contexts share what they begin with alike.

Two contexts share their leading segments of equal keys, and of the first that differ in length the shorter length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .core import INF
from .memory import Layout, Memory
from .ops import as_u32, lesser, where
from .ring import member


@dataclass(frozen=True)
class Content:
    """`keys` and `lengths` of the segments, in order."""

    keys: Sequence[Any]
    lengths: Sequence[Any]

    def length(self) -> Any:
        """All segments together."""
        total = self.lengths[0]
        for length in self.lengths[1:]:
            total = total + length
        return total

    def segment_at(self, m: Memory, position: Any) -> tuple[Any, Any]:
        """The number and the key of the segment that a position is in (of the last, behind the end)."""
        number, key = m.full(0.0, np.float64), self.keys[0]
        end = self.lengths[0]
        for k in range(1, len(self.keys)):
            beyond = position >= end
            number, key = where(beyond, float(k), number), where(beyond, self.keys[k], key)
            end = end + self.lengths[k]
        return number, key


class Contents:
    """Stored contents: `count` places of `segments` keys and lengths each."""

    def __init__(self, layout: Layout, name: str, segments: int, count: int):
        self.segments = segments
        self._keys = layout.f(f"{name}.keys", segments * count)
        self._lengths = layout.f(f"{name}.lengths", segments * count)

    def load(self, m: Memory, place: Any) -> Content:
        keys, lengths = self._at(place)
        return Content([m.f(at) for at in keys], [m.f(at) for at in lengths])

    def store(self, m: Memory, place: Any, content: Content) -> None:
        keys, lengths = self._at(place)
        for at, value in zip((*keys, *lengths), (*content.keys, *content.lengths), strict=True):
            m.setf(at, value)

    def _at(self, place: Any) -> tuple[list[Any], list[Any]]:
        first = [member(base, place, self.segments) for base in (self._keys, self._lengths)]
        keys, lengths = ([at + as_u32(k) if k else at for k in range(self.segments)] for at in first)
        return keys, lengths

    def shared(self, m: Memory, content: Content, place: Any) -> Any:
        """How much of a content a stored one begins with."""
        stored = self.load(m, place)
        total, alike = m.full(0.0, np.float64), m.full(True, np.bool_)
        for key, length, other, its in zip(content.keys, content.lengths, stored.keys, stored.lengths, strict=True):
            alike = alike & (key == other)
            total = total + where(alike, lesser(length, its), 0.0)
            alike = alike & (length == its)
        return total


def unbounded(m: Memory, content: Content, last: int) -> Content:
    """A content whose segment `last` goes on for ever: what a context becomes that grows at its end."""
    lengths = list(content.lengths)
    lengths[last] = m.full(INF, np.float64)
    return Content(content.keys, lengths)

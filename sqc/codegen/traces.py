"""Traces: which recorded session an arriving one replays, and its rows, turn by turn.

The rows are data of the run (bank `d`: the number n of recorded sessions, n + 1 first rows, then the
rows), so code is the same for every trace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sqc_runtime import streams
from sqc_runtime.core import Core
from sqc_runtime.memory import Memory
from sqc_runtime.ops import where

from .. import ir

U32, U64 = np.uint32, np.uint64
COLUMNS = ("new", "out", "think", "forced")
Setter = Callable[[str, Any], None]


class Traces:
    """`seed(m)`: the run's seed (uint64)."""

    def __init__(self, core: Core, trace: ir.Trace, seed: Callable[[Memory], Any]):
        self.core, self._ordered, self._seed = core, trace.ordered, seed
        layout = core.layout
        self._row, self._end = layout.field("u", "trace.row"), layout.field("u", "trace.end")
        if not trace.ordered:
            self._integers = streams.Integers(layout, "trace")

    def _count(self, m: Memory) -> Any:
        """The number of recorded sessions."""
        return m.load("d", m.full(0, U32)).astype(U32)

    def pick(self, m: Memory, slot: Any, serial: Any) -> None:
        """A session has arrived: what it replays."""
        count = self._count(m)
        if self._ordered:
            number = (serial.astype(U64) % count.astype(U64)).astype(U32)
        else:
            number = self._integers.below(m, self._seed(m) ^ streams.TRACE, count)
        for field, k in ((self._row, 1), (self._end, 2)):
            m.setu(self.core.su(slot, field), m.load("d", number + U32(k)).astype(U32))

    def next_row(self, m: Memory, slot: Any, set_attribute: Setter) -> None:
        """A turn starts: its row, if one is left, and whether more are."""
        at = self.core.su(slot, self._row)
        row, end = m.u(at), m.u(self.core.su(slot, self._end))

        def load() -> None:
            first = self._count(m) + U32(2) + row * U32(len(COLUMNS))
            for k, name in enumerate(COLUMNS):
                set_attribute(name, m.load("d", first + U32(k)))
            m.setu(at, row + U32(1))

        m.when(row < end, load)
        set_attribute("more", where(row + U32(1) < end, m.full(1.0, np.float64), 0.0))

"""Gauges: expressions of the system's state, read at the end of every instant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sqc_runtime.core import OVERFLOW_SAMPLES, Core
from sqc_runtime.memory import Memory
from sqc_runtime.ops import greater, lesser
from sqc_runtime.statistics import CHANGE_CELLS

from .. import ir
from .expressions import Scope, evaluate, number

U32 = np.uint32


class _Gauge:
    """The registers of one. Its integral is its own, because it may be infinite or not a number."""

    def __init__(self, core: Core, gauge: ir.Gauge, samples: int):
        self.name, self.expression = f"gauge.{gauge.name}", gauge.value
        f = core.layout.f
        self.value, self.area = f(f"{self.name}.value"), f(f"{self.name}.area")
        self.least, self.largest = f(f"{self.name}.least"), f(f"{self.name}.largest")
        self.changes = -1
        if samples:
            self.changes = core.layout.region("x", f"{self.name}.changes", 1 + CHANGE_CELLS * samples)


class Gauges:
    """`samples` > 0 keeps that many changes of each gauge at most (bank `x`)."""

    def __init__(self, core: Core, gauges: Sequence[ir.Gauge], samples: int):
        self.core, self._samples = core, samples
        self._gauges = [_Gauge(core, gauge, samples) for gauge in gauges]
        if self._gauges:
            self._seen = core.layout.u("gauges.seen")
        kept = zip(gauges, self._gauges, strict=True) if samples else ()
        self.change_points = {declared.name: gauge.changes for declared, gauge in kept}
        """Of each gauge's changes the first cell: their number; behind it time and value of each."""

    def clear(self, m: Memory) -> None:
        """Set the cells that do not start at zero."""
        self.warm_up(m)
        for base in self.change_points.values():
            m.store("x", base, 0.0)

    def warm_up(self, m: Memory) -> None:
        """The warm-up is over: what has been measured is forgotten."""
        for gauge in self._gauges:
            m.setf(gauge.area, 0.0)
            m.setf(gauge.least, np.inf)
            m.setf(gauge.largest, -np.inf)

    def read(self, m: Memory, s: Scope, until: Any, over: Any) -> None:
        """Before the clock goes on to `until`, or the run is `over`: what holds from now on."""
        if not self._gauges:
            return
        span = until - m.f(self.core.now)

        def look() -> None:
            first = m.u(self._seen) == 0
            for gauge in self._gauges:
                value, last = number(evaluate(gauge.expression, s)), m.f(gauge.value)
                if self._samples:
                    same = (last == value) | ((last != last) & (value != value))
                    m.when(first | ~same, lambda g=gauge, v=value: self._note(m, g, v))  # type: ignore[misc]
                m.setf(gauge.value, value)
                m.when(span > 0, lambda g=gauge, v=value: self._hold(m, g, v, span))  # type: ignore[misc]
            m.setu(self._seen, U32(1))

        m.when((span > 0) | over, look)

    def _hold(self, m: Memory, gauge: _Gauge, value: Any, span: Any) -> None:
        m.addf(gauge.area, m.opaque(value * span))
        m.setf(gauge.least, lesser(value, m.f(gauge.least)))
        m.setf(gauge.largest, greater(value, m.f(gauge.largest)))

    def _note(self, m: Memory, gauge: _Gauge, value: Any) -> None:
        """Keep a change."""
        count = m.load("x", gauge.changes)

        def write() -> None:
            at = U32(gauge.changes + 1) + count.astype(U32) * U32(CHANGE_CELLS)
            m.store("x", at, m.f(self.core.now))
            m.store("x", at + U32(1), value)
            m.store("x", gauge.changes, count + 1.0)

        self.core.stop(m, count >= self._samples, OVERFLOW_SAMPLES)
        m.when(count < self._samples, write)

    def metrics(self, m: Memory, span: Any) -> dict[str, Any]:
        """The rows; `span` is the length of the measured time."""
        rows: dict[str, Any] = {}
        for gauge in self._gauges:
            rows[f"{gauge.name}.mean"] = m.f(gauge.area) / span
            rows[f"{gauge.name}.min"], rows[f"{gauge.name}.max"] = m.f(gauge.least), m.f(gauge.largest)
        return rows

"""Gauges: expressions of the system's state, read at the end of every instant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from sqc_runtime.core import OVERFLOW_SAMPLES, Core
from sqc_runtime.memory import Memory
from sqc_runtime.ops import greater, lesser
from sqc_runtime.statistics import CHANGE_CELLS

from .. import ir
from .expressions import Scope, evaluate, number

U32 = np.uint32


def signal_name(gauge: ir.Gauge) -> str:
    """The signal that integrates a gauge."""
    return f"gauge.{gauge.name}"


class Gauges:
    """`samples` > 0 keeps that many changes of each gauge at most (bank `x`)."""

    def __init__(self, core: Core, gauges: Iterable[ir.Gauge], samples: int):
        self.core, self.gauges, self._samples = core, tuple(gauges), samples
        layout = core.layout
        names = [signal_name(gauge) for gauge in self.gauges]
        self._least = {name: layout.f(f"{name}.least") for name in names}
        self._largest = {name: layout.f(f"{name}.largest") for name in names}
        self._seen = layout.u("gauges.seen") if self.gauges else 0
        self.change_points: dict[str, int] = {}
        """Of each gauge's changes the first cell: their number; behind it time and value of each."""
        if samples:
            for gauge in self.gauges:
                length = 1 + CHANGE_CELLS * samples
                self.change_points[gauge.name] = layout.region("x", f"{signal_name(gauge)}.changes", length)

    def clear(self, m: Memory) -> None:
        """Set the cells that do not start at zero."""
        self._forget(m)
        if self._samples:
            for base in self.change_points.values():
                m.store("x", base, 0.0)

    def _forget(self, m: Memory) -> None:
        for gauge in self.gauges:
            m.setf(self._least[signal_name(gauge)], np.inf)
            m.setf(self._largest[signal_name(gauge)], -np.inf)

    def warm_up(self, m: Memory) -> None:
        """The warm-up is over: extremes count from now on."""
        self._forget(m)

    def read(self, m: Memory, s: Scope, until: Any, over: Any) -> None:
        """Before the clock goes on to `until`, or the run is `over`: what holds from now on."""
        if not self.gauges:
            return
        core = self.core
        moves = until > m.f(core.now)

        def look() -> None:
            first = m.u(self._seen) == 0
            for gauge in self.gauges:
                name, value = signal_name(gauge), number(evaluate(gauge.value, s))
                at = core.signals.at(name)
                if self._samples:
                    m.when(first | (m.f(at) != value), lambda g=gauge, v=value: self._note(m, g, v))  # type: ignore[misc]
                m.setf(at, value)
                m.when(moves, lambda n=name, v=value: self._extremes(m, n, v))  # type: ignore[misc]
            m.setu(self._seen, U32(1))

        m.when(moves | over, look)

    def _extremes(self, m: Memory, name: str, value: Any) -> None:
        m.setf(self._least[name], lesser(value, m.f(self._least[name])))
        m.setf(self._largest[name], greater(value, m.f(self._largest[name])))

    def _note(self, m: Memory, gauge: ir.Gauge, value: Any) -> None:
        """Keep a change."""
        base = self.change_points[gauge.name]
        count = m.load("x", base)

        def write() -> None:
            at = U32(base + 1) + count.astype(U32) * U32(CHANGE_CELLS)
            m.store("x", at, m.f(self.core.now))
            m.store("x", at + U32(1), value)
            m.store("x", base, count + 1.0)

        self.core.stop(m, count >= self._samples, OVERFLOW_SAMPLES)
        m.when(count < self._samples, write)

    def metrics(self, m: Memory, span: Any) -> dict[str, Any]:
        """The rows; `span` is the length of the measured time."""
        rows: dict[str, Any] = {}
        for gauge in self.gauges:
            name = signal_name(gauge)
            rows[f"{name}.mean"] = self.core.signals.area(m, name) / span
            rows[f"{name}.min"], rows[f"{name}.max"] = m.f(self._least[name]), m.f(self._largest[name])
        return rows

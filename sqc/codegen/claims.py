"""Claims at the end of a run: what they read of the observations, and how they came out."""

from __future__ import annotations

from typing import Any

import numpy as np

from sqc_runtime.core import OVERFLOW_VALUES, Core
from sqc_runtime.heap import Heap
from sqc_runtime.memory import Memory
from sqc_runtime.ops import fmax, fmin, where

from .. import ir
from .expressions import Scope, evaluate, truth

U32 = np.uint32


class Claims:
    """`values`: how many samples of an observation can be kept where the claims need every one."""

    def __init__(self, core: Core, program: ir.Program, values: int):
        self.core, self.claims = core, program.claims
        layout = core.layout
        self._out = {claim.name: layout.f(f"claim.{claim.name}.out") for claim in self.claims}
        """One more than the number of the first session that fails `given` (0: none does)."""
        read = {(n.observe, n.kind) for n in ir.walk(self.claims) if isinstance(n, ir.Total)}
        self._observed = sorted({observe for observe, _ in read})
        self._cells = {name: layout.f(f"claims.{name}", 4) for name in self._observed}
        """Of each observation that is read: count, sum, least, largest."""
        self._kept = {
            observe: Heap(layout, f"claims.{observe}.values", values)
            for observe, kind in sorted(read)
            if kind == "prefix_total"
        }

    def clear(self, m: Memory) -> None:
        """Set the cells that do not start at zero."""
        for cell in self._cells.values():
            m.setf(cell + 2, np.nan)
            m.setf(cell + 3, np.nan)
        for heap in self._kept.values():
            heap.clear(m)

    def sample(self, m: Memory, observe: str, value: Any) -> None:
        """An observation, warm or not."""
        if observe not in self._cells:
            return
        cell = self._cells[observe]
        count = m.addf(cell, 1.0)
        m.addf(cell + 1, value)
        m.setf(cell + 2, fmin(value, m.f(cell + 2)))
        m.setf(cell + 3, fmax(value, m.f(cell + 3)))
        if observe in self._kept:
            heap = self._kept[observe]
            self.core.stop(m, heap.full(m), OVERFLOW_VALUES)
            m.when(~heap.full(m), lambda: heap.push(m, value, count, m.full(0, U32)))

    def given(self, s: Scope) -> None:
        """A new session's init block has run: whether it is one that the claims are about."""
        m = s.m
        for claim in self.claims:
            if claim.given is not None:
                outside = ~truth(evaluate(claim.given, s))
                number = m.f(self.core.arrivals)  # the session is the latest
                m.update("f", self._out[claim.name], lambda old, o=outside, n=number: where(o & (old == 0), n, old))  # type: ignore[misc]

    def in_scope(self, m: Memory, claim: ir.Claim) -> Any:
        """Whether no session has failed its `given`."""
        return m.f(self._out[claim.name]) == 0

    # -- the end
    def metrics(self, m: Memory, s: Scope) -> dict[str, Any]:
        """How the claims came out, NaN where they were not read, and `why` not: the first session out of scope, or
        how many are live."""
        if not self.claims:
            return {}
        s.total = self._total(m)
        live = m.f(self.core.signals.at("live"))
        rows: dict[str, Any] = {}
        for claim in self.claims:
            within = self.in_scope(m, claim)
            rows[f"claim.{claim.name}.out_of_scope"] = (~within).astype(np.float64)
            outsider = where(within, np.nan, m.f(self._out[claim.name]) - 1.0)
            rows[f"claim.{claim.name}.why"] = outsider
            if claim.stage is not None:
                continue  # read with the iterations
            holds = truth(evaluate(claim.value, s)).astype(np.float64)
            rows[f"claim.{claim.name}.value"] = where(within & (live == 0), holds, np.nan)
            rows[f"claim.{claim.name}.why"] = where(within & (live > 0), live, outsider)
        return rows

    def _total(self, m: Memory) -> Any:
        sums = {name: self._prefix_total(m, heap) for name, heap in self._kept.items()}

        def total(kind: str, observe: str) -> Any:
            if kind == "prefix_total":
                return sums[observe]
            cell = self._cells[observe]
            value = m.f(cell + {"count": 0, "total": 1, "smallest": 2, "largest": 3}[kind])
            return where(m.f(cell) > 0, value, 0.0)

        return total

    def _prefix_total(self, m: Memory, heap: Heap) -> Any:
        """The sum of the prefix sums of the ascending values; takes them out."""

        def add(prefix: Any, total: Any) -> tuple[Any, Any]:
            prefix = prefix + heap.time(m)
            heap.pop(m)
            return prefix, total + prefix

        zero = m.full(0.0, np.float64)
        _, total = m.loop(lambda *_: heap.count(m) != 0, add, (zero, zero))
        return total

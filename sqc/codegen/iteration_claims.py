"""Claims about iterations, read as one starts."""

from __future__ import annotations

from typing import Any

import numpy as np

from sqc_runtime.memory import Memory
from sqc_runtime.ops import where

from .. import ir
from .context import Context
from .expressions import Scope, evaluate, truth

U32 = np.uint32


class IterationClaims:
    """Claims that are read as an iteration starts."""

    def __init__(self, context: Context):
        self.context = context
        layout = context.core.layout
        self._claims = [claim for claim in context.program.claims if claim.stage is not None]
        self._cells = {claim.name: layout.f(f"claim.{claim.name}.counts", 4) for claim in self._claims}
        """Of each: how often it was read, how often 0, the times of the first 0 and of the first other value."""

    def clear(self, m: Memory) -> None:
        for cell in self._cells.values():
            m.setf(cell + 2, np.nan)
            m.setf(cell + 3, np.nan)

    def read(self, m: Memory, stage: str, i: Any, s: Scope) -> None:
        for claim in self._claims:
            assert claim.stage is not None
            if claim.stage.name != stage:
                continue
            members = self.context.stages[stage].members
            wanted = self.context.index(claim.stage, members, s, claim)
            cell = self._cells[claim.name]

            def look(claim: ir.Claim = claim, cell: int = cell) -> None:
                holds = truth(evaluate(claim.value, s))
                now = m.f(self.context.core.now)
                m.addf(cell, 1.0)
                m.addf(cell + 1, where(holds, m.full(0.0, np.float64), 1.0))
                for at, test in ((cell + 2, ~holds), (cell + 3, holds)):
                    m.update("f", at, lambda old, t=test: where(t & (old != old), now, old))  # type: ignore[misc]

            within = self.context.claims.in_scope(m, claim)
            if claim.stage.index is not None and members > 1:
                within = within & (m.full(wanted == i, np.bool_) if isinstance(wanted == i, bool) else wanted == i)
            m.when(within, look)

    def metrics(self, m: Memory) -> dict[str, Any]:
        rows: dict[str, Any] = {}
        for claim in self._claims:
            cell = self._cells[claim.name]
            checked, failures = m.f(cell), m.f(cell + 1)
            every = claim.kind == "every_iteration"
            came_out = failures == 0 if every else failures < checked
            within = self.context.claims.in_scope(m, claim)
            rows[f"claim.{claim.name}.value"] = where(within, came_out.astype(np.float64), np.nan)
            rows[f"claim.{claim.name}.checked"], rows[f"claim.{claim.name}.failures"] = checked, failures
            rows[f"claim.{claim.name}.first"] = m.f(cell + (2 if every else 3))
        return rows

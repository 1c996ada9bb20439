"""A delay: every job at rate 1, none waits."""

from __future__ import annotations

from typing import Any

from .memory import Memory
from .served import Served


class DelayStage(Served):
    waits = False

    def begin(self, m: Memory, slot: Any, work: Any, i: Any) -> None:
        self.enter(m, slot, work, i)
        self.serve(m, slot, work)

    def remove(self, m: Memory, slot: Any) -> None:
        self.depart(m, slot, self.member_of(m, slot))

"""What the expressions of an iteration see: residents, batch, queues, registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sqc_runtime.engine import Engine
from sqc_runtime.memory import Memory
from sqc_runtime.ops import greater, lesser, where
from sqc_runtime.ring import member

from .. import ir
from .context import Context
from .expressions import Scope, evaluate, number
from .holds import Part

if TYPE_CHECKING:
    from .statements import Statements


class Moment(dict[str, Any]):
    """Context variables that are computed where they are read."""

    def __init__(self, values: Mapping[str, Callable[[], Any]]):
        super().__init__()
        self._values = values

    def __missing__(self, name: str) -> Any:
        return self._values[name]()

    def with_values(self, values: Mapping[str, Callable[[], Any]]) -> Moment:
        return Moment({**self._values, **values})


class View:
    """Of one step stage. `offer` and `asks`: what a request that is being admitted is offered, and whether one is."""

    def __init__(self, context: Context, declared: ir.Stage, code: Statements, outside: Callable[[Memory, Any], Scope]):
        self.context, self.core, self.declared, self._outside = context, context.core, declared, outside
        self.holds, self.growing = code.holds, code.growing
        assert isinstance(declared.kind, ir.Step)
        self.kind = declared.kind
        engine = context.stages[declared.name]
        assert isinstance(engine, Engine)
        self.engine, self.plan = engine, engine.planning
        layout, name = self.core.layout, f"stage.{declared.name}"
        self.offer, self.asks = layout.f(f"{name}.plan.offer"), layout.u(f"{name}.plan.asks")
        self.registers = {n: layout.f(f"{name}.register.{n}") for n, _ in self.kind.registers}
        """Only of a stage that is no array."""
        context.registers |= self.registers
        lets = [node.name for node in ir.walk(self.kind.body) if isinstance(node, ir.StepLet)]
        self.lets = {n: layout.f(f"{name}.let.{n}") for n in dict.fromkeys(lets)}
        self._pools = [p for p in context.program.pools if p.admit_via and p.admit_via.name == declared.name]

    # -- what expressions see
    def scope(self, m: Memory, i: Any) -> Scope:
        registers = {n: at for n, at in self.context.registers.items() if n not in self.lets}
        return replace(self._outside(m, self.declared), context=self._standing(m, i), registers=registers)

    def _standing(self, m: Memory, i: Any) -> Moment:
        """The residents as they stand, and what has been scheduled so far."""
        engine, plan = self.engine, self.plan
        values: dict[str, Callable[[], Any]] = {
            "residents": lambda: engine.present(m, i),
            "decoders": lambda: engine.decoders(m, i),
            "kv_decode": lambda: engine.over_residents(m, i, lambda slot: self._memory_of(m, slot, True)),
            "kv_prefill": lambda: engine.over_residents(m, i, lambda slot: self._memory_of(m, slot, False)),
            "preempted": lambda: m.f(plan.preempted),
            "admitted": lambda: m.f(plan.admitted),
            "queued": lambda: self.waiting(m, i),
            "demand": lambda: self._demand(m, i, m.f(plan.chunk)),
            "served": lambda: m.f(member(engine.served, i)),
            "arrived": lambda: m.f(self.core.arrivals),
            "tokens": lambda: engine.over_batch(m, i, lambda slot: self._given(m, slot)),
            "prefilled": lambda: engine.over_batch(m, i, lambda slot: self._given(m, slot, False)),
            "attention": lambda: engine.over_batch(m, i, lambda slot: self._attention(m, slot)),
        }
        values |= {n: lambda at=at: m.f(at) for n, at in self.lets.items()}  # type: ignore[misc]
        return Moment(values)

    def batch_scope(self, m: Memory, i: Any) -> Scope:
        """What the cost and the claims see: the batch."""
        engine = self.engine
        one, none = m.full(1.0, np.float64), m.full(0.0, np.float64)
        s = self.scope(m, i)
        assert isinstance(s.context, Moment)
        s.context = s.context.with_values(
            {
                "decoders": lambda: engine.over_batch(m, i, lambda slot: where(engine.decodes(m, slot), one, none)),
                "kv_decode": lambda: engine.over_batch(m, i, lambda slot: self._memory_of(m, slot, True)),
                "kv_prefill": lambda: engine.over_batch(m, i, lambda slot: self._memory_of(m, slot, False)),
            }
        )
        return s

    def resident_scope(self, m: Memory, slot: Any, i: Any) -> Scope:
        engine, core = self.engine, self.core
        s = self.scope(m, i)
        assert isinstance(s.context, Moment)
        s.context = s.context.with_values(
            {
                "decoding": lambda: engine.decodes(m, slot).astype(np.float64),
                "admission": lambda: m.f(core.sf(slot, engine.order)),
                "remaining": lambda: m.f(core.sf(slot, engine.remaining)),
            }
        )
        s.attribute = lambda name: self.context.get(m, slot, name)
        return s

    def _memory_of(self, m: Memory, slot: Any, decoding: bool) -> Any:
        """Units of the stage's memory that a resident of one kind holds."""
        total = m.full(0.0, np.float64)
        if self.kind.memory is None:
            return total
        for part in self._memory_parts():
            mine = self.holds.is_held(m, part, slot)
            total = total + where(mine, m.f(self.holds.units(part, slot)), 0.0)
        kind = self.engine.decodes(m, slot)
        return where(kind if decoding else ~kind, total, 0.0)

    def _memory_parts(self) -> Iterator[Part]:
        assert self.kind.memory is not None
        for parts in self.holds.parts.values():
            yield from (part for part in parts if part.name == self.kind.memory.name)

    def _given(self, m: Memory, slot: Any, all_kinds: bool = True) -> Any:
        tokens = m.f(self.core.sf(slot, self.engine.tokens))
        return tokens if all_kinds else where(self.engine.decodes(m, slot), 0.0, tokens)

    def _attention(self, m: Memory, slot: Any) -> Any:
        n = self._given(m, slot, False)
        return m.opaque(n * (self._position(m, slot) + m.opaque(n / 2.0)))

    def _position(self, m: Memory, slot: Any) -> Any:
        """The position of a growing run (0 of another)."""
        at = self.core.scratch_f
        m.setf(at, 0.0)

        def reached(part: Part) -> Callable[[], None]:
            return lambda: m.setf(at, self.holds.reached(m, part, slot))

        self.growing.by_part(m, m.u(self.core.su(slot, self.engine.growth)), reached)
        return m.f(at)

    def want(self, m: Memory, slot: Any, chunk: Any) -> Any:
        left = m.f(self.core.sf(slot, self.engine.remaining))
        capped = where((chunk > 0) & (chunk < left), chunk, left)
        return where(self.engine.decodes(m, slot), lesser(left, 1.0), capped)

    def _demand(self, m: Memory, i: Any, chunk: Any) -> Any:
        """Tokens that the residents could take."""
        return self.engine.over_residents(m, i, lambda slot: self.want(m, slot, chunk))

    def budget_left(self, m: Memory, i: Any) -> Any:
        """What a request that is being admitted is offered; at other times what the residents leave."""
        s = self.scope(m, i)
        asks = m.u(self.asks) != 0
        if self.engine.members > 1:
            asks = asks & (m.u(self.plan.member) == i)

        def otherwise() -> tuple[Any]:
            chunk = number(evaluate(self.kind.chunk, s))
            return (greater(number(evaluate(self.kind.budget, s)) - self._demand(m, i, chunk), 0.0),)

        (left,) = m.either(asks, lambda: (m.f(self.offer),), otherwise)
        return left

    # -- who waits
    def queues(self, i: Any) -> Iterator[tuple[str, Any]]:
        """The queues that this member admits from, in order."""
        for declared in self._pools:
            pool = self.context.pools[declared.name]
            if not self.holds.sites_of(declared.name):
                continue
            if self.engine.members > 1 and pool.members == self.engine.members:
                yield declared.name, i
            else:
                yield from ((declared.name, j) for j in range(pool.members))

    def waiting(self, m: Memory, i: Any) -> Any:
        total = m.full(0.0, np.float64)
        for name, j in self.queues(i):
            total = total + m.f(self.context.pools[name].signal("queue", j))
        return total

"""What the code of every statement shares: the program's resources, its attributes, its scopes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sqc_runtime.cache import Cache
from sqc_runtime.core import Core
from sqc_runtime.engine import Engine
from sqc_runtime.memory import Memory
from sqc_runtime.ops import floor, where
from sqc_runtime.pools import Pool
from sqc_runtime.stages import Stage
from sqc_runtime.statistics import Row

from .. import ir
from . import errors
from .claims import Claims
from .draws import Prefetch
from .expressions import Scope, evaluate, number
from .plan import Plan
from .prefixes import Contexts
from .traces import Traces

U32 = np.uint32
BUILT_IN = ("serial", "turn_no", "cached", "computed")


class Context:
    """Registers and slot fields that statements use, reserved when it is made."""

    def __init__(
        self,
        program: ir.Program,
        plan: Plan,
        core: Core,
        attributes: Mapping[str, int],
        stages: Mapping[str, Stage],
        pools: Mapping[str, Pool],
        rows: Mapping[str, Row],
        prefetch: Prefetch,
        claims: Claims,
        traces: Traces | None,
        contexts: Contexts,
    ):
        self.program, self.plan, self.core = program, plan, core
        self.stages, self.pools, self.rows, self.prefetch = stages, pools, rows, prefetch
        self.claims, self.traces = claims, traces
        layout = core.layout
        self.inputs = {decl.name: layout.f(f"input.{decl.name}") for decl in program.inputs}
        self.attributes = attributes
        self.waits_at = layout.field("u", "hold.site")
        """Where a session waits in a pool's queue: the number of its site plus one, 0 if it does not."""
        self.home = layout.field("u", "leg.home") if plan.forks else None
        self.gone = layout.field("u", "session.gone") if plan.outlived else None
        """Whether the session has ended and its slot is kept for its legs."""
        self.contexts = contexts
        contexts.serial = lambda m, slot: m.f(core.sf(self.owner(m, slot), core.serial))
        self.declared = {pool.name: pool for pool in program.pools}
        self.statements: list[ir.Span | None] = [None]
        self.engines = {name: stage for name, stage in stages.items() if isinstance(stage, Engine)}
        self.admission = layout.field("f", "admission.number") if self.engines else None
        """The number of a session's latest admission of all (inf: none), where the order of residents needs it."""
        self._admissions = layout.f("admissions") if self.engines else 0
        self.registers: dict[str, int] = {}
        """Set where there are step stages: the cell of each register."""
        self.budget_left: Callable[[Memory, str, Any], Any] | None = None
        """Set where there are step stages: what requests can still get of a stage's budget."""
        self.at: Any = None
        """The statement whose code is being made: errors of what it evaluates are its."""

    # -- sessions
    def owner(self, m: Memory, slot: Any) -> Any:
        """The slot of the session that a leg belongs to (a session's own slot)."""
        return slot if self.home is None else m.u(self.core.su(slot, self.home))

    def lives(self, m: Memory, slot: Any) -> Any:
        """Whether a session has not ended (0: it has)."""
        there = slot != 0
        return there if self.gone is None else there & (m.u(self.core.su(slot, self.gone)) == 0)

    def forget(self, m: Memory, slot: Any) -> None:
        """Nobody asks for the session any more: its prefixes are without an owner, its slot is free."""
        for pool in self.pools.values():
            if pool.cache is not None:
                pool.cache.disown(m, slot)
        self.core.release(m, slot)

    # -- step stages
    def count_admission(self, m: Memory, slot: Any) -> None:
        """A session is admitted, or a leg."""
        if self.admission is not None:
            m.setf(self.core.sf(slot, self.admission), m.addf(self._admissions, 1.0))

    def never_admitted(self, m: Memory, slot: Any) -> None:
        if self.admission is not None:
            m.setf(self.core.sf(slot, self.admission), np.inf)

    def latest_admission(self, m: Memory, slot: Any) -> Any:
        assert self.admission is not None
        return m.f(self.core.sf(slot, self.admission))

    def engines_with(self, pool: str) -> list[Engine]:
        """The step stages whose memory a pool is."""
        declared = {s.name: s.kind for s in self.program.stages if isinstance(s.kind, ir.Step)}
        memories = {name: kind.memory.name for name, kind in declared.items() if kind.memory is not None}
        return [engine for name, engine in self.engines.items() if memories.get(name) == pool]

    def get(self, m: Memory, slot: Any, name: str) -> Any:
        return m.f(self.core.sf(slot, self.attributes[name]))

    def set(self, m: Memory, slot: Any, name: str, value: Any) -> None:
        m.setf(self.core.sf(slot, self.attributes[name]), value)

    # -- errors
    def statement(self, stmt: Any) -> int:
        """The number of a statement in run-time errors."""
        span = getattr(stmt if stmt is not None else self.at, "span", None)
        if span not in self.statements:
            self.statements.append(span)
        return self.statements.index(span)

    def fail(self, m: Memory, test: Any, error: int, stmt: Any) -> None:
        self.core.fail(m, test, error, self.statement(stmt))

    # -- scopes
    def constants(self, m: Memory, stmt: Any = None) -> Scope:
        """What an expression without a session sees; errors are `stmt`'s."""
        return Scope(
            m=m,
            now=lambda: m.f(self.core.now),
            input=lambda name: m.f(self.inputs[name]),
            read=lambda kind, ref: self._read(m, kind, ref, None, stmt),
            price=lambda ref, held, extra: self._price(m, ref, held, extra, stmt),
            fail=lambda test, error: self.fail(m, test, error, stmt),
            registers=self.registers,
        )

    def scope(self, m: Memory, slot: Any, stmt: Any = None) -> Scope:
        """What a session's expression sees."""
        return replace(
            self.constants(m, stmt),
            attribute=lambda name: self.get(m, slot, name),
            read=lambda kind, ref: self._read(m, kind, ref, slot, stmt),
            price=lambda ref, held, extra: self._price(m, ref, held, extra, stmt, slot),
        )

    def index(self, ref: ir.Ref, members: int, s: Scope, stmt: Any) -> Any:
        """The member of an array that a reference names: a plain number where it is constant."""
        if ref.index is None:
            return 0
        if isinstance(ref.index, ir.Const):
            return int(ref.index.value)
        value = number(evaluate(ref.index, s))
        good = (value >= 0) & (value < float(members)) & (value == floor(value))
        self.fail(s.m, ~good, errors.INDEX, stmt)
        return where(good, value, s.m.full(0.0, np.float64)).astype(U32) if members > 1 else 0

    def _at(self, m: Memory, ref: ir.Ref, members: int, slot: Any, stmt: Any) -> Any:
        s = self.constants(m, stmt) if slot is None else self.scope(m, slot, stmt)
        return self.index(ref, members, s, stmt)

    def _read(self, m: Memory, kind: str, ref: ir.Ref, slot: Any, stmt: Any) -> Any:
        if ref.name in self.stages:
            stage = self.stages[ref.name]
            i = self._at(m, ref, stage.members, slot, stmt)
            match kind:
                case "budget_left":
                    assert self.budget_left is not None
                    return self.budget_left(m, ref.name, i)
                case "queue":
                    return stage.present(m, i)
                case "busy":
                    return stage.in_service(m, i)
                case "work":
                    return stage.work(m, i)
            return getattr(stage, kind)(m, i)
        pool = self.pools[ref.name]
        i = self._at(m, ref, pool.members, slot, stmt)
        match kind:
            case "used" | "holders":
                return m.f(pool.signal(kind, i))
            case "queued":
                return m.f(pool.signal("queue", i))
            case "free":
                return m.f(pool.cap(i)) - m.f(pool.signal("used", i))
            case "cap":
                return m.f(pool.cap(i))
            case "cached":
                return m.f(pool.signal("cached", i))
            case "cachedin":
                if slot is None or pool.cache is None:
                    return m.full(0.0, np.float64)
                if isinstance(pool.cache, Cache):
                    return pool.cache.own(m, self.owner(m, slot), i)
                content = self.contexts.of(self.contexts.clause(ref.name), self.scope(m, slot, stmt), slot)
                return pool.cache.cached_of(m, content, pool.tail_block(m, i), i)
        assert kind in ir.RECORDED
        return m.f(pool.counter(kind, i))

    def _price(self, m: Memory, ref: ir.Ref, held: Any, extra: Any, stmt: Any, slot: Any = None) -> Any:
        stage = self.stages[ref.name]
        return stage.price(m, self._at(m, ref, stage.members, slot, stmt), held, extra)


def attribute_fields(program: ir.Program, core: Core) -> dict[str, int]:
    """The slot field of each attribute; those that start at zero stand side by side."""
    names = ["cached", "computed", *(n for n in program.attributes if n not in BUILT_IN)]
    first = core.layout.field("f", "attributes", len(names))
    fields = {name: first + k for k, name in enumerate(names)}
    return {**fields, "serial": core.serial, "turn_no": core.turn_no}

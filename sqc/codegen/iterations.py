"""What one iteration of a step stage does: its body as code that can be interrupted after every admission."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

import numpy as np

from sqc_runtime.engine import Engine
from sqc_runtime.memory import Memory
from sqc_runtime.ops import floor, lesser, where
from sqc_runtime.order import precedes
from sqc_runtime.ring import ONE

from .. import ir
from . import errors
from .expressions import Scope, evaluate, number, truth
from .growth import GREW, SELF
from .holds import Part
from .iteration_view import View
from .skipping import Clock, Skipping
from .steady import reason

if TYPE_CHECKING:
    from .engines import Engines

U32 = np.uint32


@dataclass
class _Jump:
    """Within a body: go on at `to`."""

    to: int = -1


@dataclass
class _Choice:
    guard: ir.Expr
    other: int = -1


class _Exclusive(Enum):
    """The parts of `serve exclusive prefill`: the first prefill, else the decodes, then the admissions."""

    ALONE = auto()
    DECODES = auto()
    DISPLACING = auto()


class Procedure:
    """What an iteration of one stage does."""

    def __init__(self, engines: Engines, declared: ir.Stage, outside: Callable[[Memory, Any], Scope]):
        self.engines, self.declared = engines, declared
        self.context, self.core, self.holds = engines.context, engines.core, engines.code.holds
        assert isinstance(declared.kind, ir.Step)
        self.kind: ir.Step = declared.kind
        engine = self.context.stages[declared.name]
        assert isinstance(engine, Engine)
        self.engine, self.plan, self.number = engine, engine.planning, U32(engine.uses.number)
        layout, name = self.core.layout, f"stage.{declared.name}"
        self._at, self._ended, self._refused = (layout.u(f"{name}.plan.{w}") for w in ("at", "ended", "refused"))
        self._tried, self._admits = layout.u(f"{name}.plan.tried"), layout.u(f"{name}.plan.admits")
        self.view = View(self.context, declared, engines.code, outside)
        self._saved = {n: layout.f(f"{name}.saved.{n}") for n, _ in self.kind.registers}
        self._code: list[Any] = []
        self._flatten(self.kind.body)
        orders = {node.keys for node in ir.walk(self.kind.body) if isinstance(node, ir.Serve)}
        self._order: tuple[ir.Expr, ...] = orders.pop() if len(orders) == 1 else ()
        """In which newcomers are served: the one order that the body names."""

        self._skipping: Skipping | None = None

    def take_equal(self, clock: Clock) -> None:
        """Take equal iterations at once, if that can be shown to be right."""
        if reason(self.context.program, self.declared) is None:
            self._skipping = Skipping(self.context, self.declared, self.engines.code, clock)
            self.engine.take_equal = self._skipping.repeat

    def clear(self, m: Memory, outside: Callable[[Memory, Any], Scope]) -> None:
        for name, first in self.kind.registers:
            value = number(evaluate(first, outside(m, self.declared)))
            m.setf(self.view.registers[name], value)

    # -- the body as a list
    def _flatten(self, stmts: tuple[ir.StepStmt, ...]) -> None:
        for stmt in stmts:
            if isinstance(stmt, ir.ServeExclusive):
                self._code += _Exclusive
                continue
            if not isinstance(stmt, ir.StepBranch):
                self._code.append(stmt)
                continue
            choice, jump = _Choice(stmt.guard), _Jump()
            self._code.append(choice)
            self._flatten(stmt.then)
            self._code.append(jump)
            choice.other = len(self._code)
            self._flatten(stmt.other)
            jump.to = len(self._code)

    # -- an attempt
    def has_work(self, m: Memory, i: Any) -> Any:
        work = self.engine.count(m, i) != 0
        for name, j in self.view.queues(i):
            work = work | self.context.pools[name].waiting(m, j)
        return work

    def begin(self, m: Memory, i: Any) -> None:
        plan, s = self.plan, self.view.scope(m, i)
        m.setu(plan.active, self.number)
        m.addu(plan.stamp, 1)
        m.addu(plan.round, 1)
        for cell in (plan.index, self._at, self._ended, self._refused, self._admits):
            m.setu(cell, U32(0))
        m.setf(plan.preempted, 0.0)
        m.setf(plan.admitted, 0.0)
        for name, at in self.view.registers.items():
            m.setf(self._saved[name], m.f(at))
        budget = number(evaluate(self.kind.budget, s))
        m.setf(plan.budget, budget)
        m.setf(plan.left, budget)
        m.setf(plan.chunk, number(evaluate(self.kind.chunk, s)))
        if self._skipping is not None:
            self._skipping.begin(m)

    def proceed(self, m: Memory, i: Any) -> None:
        """Go on with the body until a session has been admitted, or the end."""
        bodies = {k: self._statement(m, k, stmt, i) for k, stmt in enumerate(self._code)}
        end = U32(len(self._code))

        def step(_: Any) -> tuple[Any]:
            m.switch(m.u(self._at), bodies)
            return ((m.u(self._at) < end) & (m.u(self.engines.pause) == 0) & self.core.running(m),)

        m.loop(lambda go: go, step, (m.u(self._at) < end,))
        m.when(m.u(self._at) == end, lambda: self._conclude(m, i))

    def _statement(self, m: Memory, k: int, stmt: Any, i: Any) -> Callable[[], None]:
        def go_on(to: int = k + 1) -> None:
            m.setu(self._at, U32(to))

        def body() -> None:
            match stmt:
                case _Jump(to):
                    go_on(to)
                case _Choice(guard, other):
                    test = truth(evaluate(guard, self.view.scope(m, i)))
                    m.setu(self._at, where(test, U32(k + 1), m.full(other, U32)))
                case ir.StepLet(name, value):
                    m.setf(self.view.lets[name], number(evaluate(value, self.view.scope(m, i))))
                    go_on()
                case ir.StepSet(name, value):
                    m.setf(self.view.registers[name], number(evaluate(value, self.view.scope(m, i))))
                    go_on()
                case ir.Serve(keys, only):
                    self._serve(m, keys, only, i)
                    go_on()
                case ir.Admit(only, test):
                    goes_on = self._newcomers(m, only, i)
                    self._admit(m, i, m.f(self.plan.left), goes_on & self._may_admit(m, test, i), k + 1)
                case _Exclusive.ALONE:
                    self._alone(m, k, i)
                case _Exclusive.DECODES:
                    self._decodes(m, k, i)
                case _Exclusive.DISPLACING:
                    self._displacing(m, k, i)

        return body

    # -- serving
    def _serve(self, m: Memory, keys: tuple[ir.Expr, ...], only: ir.Expr | None, i: Any) -> None:
        """Go through the residents that have got nothing yet."""
        m.addu(self.plan.round, 1)
        m.setu(self._ended, U32(0))
        m.setu(self.plan.index, U32(0))
        if not keys:
            self._in_order(m, only, i, lambda _: m.full(True, np.bool_))
        else:
            self._by_keys(m, keys, only, i, lambda _: m.full(True, np.bool_))

    def _newcomers(self, m: Memory, only: ir.Expr | None, i: Any) -> Any:
        """Serve those that came since an admission; returns whether none of them preempted itself, which ends this."""

        def is_new(slot: Any) -> Any:
            return self._is_new(m, slot)

        def serve() -> None:
            m.setu(self.plan.index, U32(0))
            if not self._order:
                self._in_order(m, only, i, is_new)
            else:
                self._by_keys(m, self._order, only, i, is_new)

        m.setu(self._ended, U32(0))
        m.when(m.u(self._admits) != 0, serve)
        m.setu(self._admits, U32(0))
        return m.u(self._ended) == 0

    def _is_new(self, m: Memory, slot: Any) -> Any:
        """Whether a resident joined in this iteration."""
        return m.u(self.core.su(slot, self.engine.joined)) == m.u(self.plan.stamp)

    def _goes_on(self, m: Memory) -> Any:
        return (m.f(self.plan.left) > 0) & (m.u(self._ended) == 0)

    def _considered(self, m: Memory, slot: Any) -> Any:
        """Whether a resident has its tokens, or has been gone through."""
        before = m.u(self.core.su(slot, self.engine.considered)) == m.u(self.plan.round)
        return before | (m.f(self.core.sf(slot, self.engine.tokens)) > 0)

    def _in_order(self, m: Memory, only: ir.Expr | None, i: Any, wanted: Callable[[Any], Any]) -> None:
        plan, engine = self.plan, self.engine

        def step() -> tuple[Any, ...]:
            index = m.u(plan.index)
            slot = engine.resident(m, index, i)
            m.setu(plan.index, index + ONE)
            m.when(~self._considered(m, slot) & wanted(slot), lambda: self._consider(m, slot, only, i))
            return ()

        m.loop(lambda: (m.u(plan.index) < engine.count(m, i)) & self._goes_on(m), step)

    def _by_keys(
        self, m: Memory, keys: tuple[ir.Expr, ...], only: ir.Expr | None, i: Any, wanted: Callable[[Any], Any]
    ) -> None:
        engine = self.engine
        worst = [m.full(np.inf, np.float64)] * len(keys)
        zero = m.full(0, U32)

        def least() -> Any:
            def compare(k: Any, best_slot: Any, *best: Any) -> tuple[Any, ...]:
                slot = engine.resident(m, k, i)

                def judge() -> tuple[Any, ...]:
                    s = self.view.resident_scope(m, slot, i)
                    found = [number(evaluate(key, s)) for key in keys]
                    before = precedes(m, found, best) | (best_slot == 0)
                    return where(before, slot, best_slot), *(
                        where(before, a, b) for a, b in zip(found, best, strict=True)
                    )

                look = ~self._considered(m, slot) & wanted(slot)
                return k + ONE, *m.when(look, judge, (best_slot, *best))

            count = engine.count(m, i)
            return m.loop(lambda k, *_: k < count, compare, (zero, zero, *worst))[1]

        def step(_: Any) -> tuple[Any]:
            slot = least()
            m.when(slot != 0, lambda: self._consider(m, slot, only, i))
            return ((slot != 0) & self._goes_on(m),)

        m.loop(lambda go: go, step, (self._goes_on(m),))

    def _consider(self, m: Memory, slot: Any, only: ir.Expr | None, i: Any) -> None:
        m.setu(self.core.su(slot, self.engine.considered), m.u(self.plan.round))
        if only is None:
            self._give(m, slot, i)
            return
        wants = truth(evaluate(only, self.view.resident_scope(m, slot, i)))
        m.when(wants, lambda: self._give(m, slot, i))

    def _give(self, m: Memory, slot: Any, i: Any) -> None:
        """What a resident gets of the tokens that are left, once its memory has grown for them."""
        plan, engine = self.plan, self.engine
        left = m.f(plan.left)
        want = self.view.want(m, slot, m.f(plan.chunk))
        tokens = lesser(want, left)
        if self.kind.granule is not None:
            granule = number(evaluate(self.kind.granule, self.view.scope(m, i)))
            partial = ~engine.decodes(m, slot) & (tokens < m.f(self.core.sf(slot, engine.remaining)))
            whole = where(granule < np.inf, m.opaque(floor(m.opaque(tokens / granule)) * granule), 0.0)
            tokens = where(partial, whole, tokens)
            m.when(partial & ~(tokens > 0), lambda: m.setu(self._refused, ONE))

        def schedule() -> None:
            m.addf(plan.left, -tokens)
            engine.batch(m, slot, tokens, i)

        def try_it() -> None:
            growing = self.engines.code.growing
            growth = m.u(self.core.su(slot, engine.growth))
            if not growing.of_runs:
                schedule()
                return
            out = growing.for_tokens(m, slot, growth, tokens)
            m.when(out == U32(GREW), schedule)
            m.when(out == U32(SELF), lambda: m.setu(self._ended, ONE))

        m.when(tokens > 0, try_it)

    # -- admitting
    def _may_admit(self, m: Memory, test: ir.Expr | None, i: Any) -> Any:
        may = (m.f(self.plan.left) > 0) & (m.u(self._refused) == 0)
        return may if test is None else may & truth(evaluate(test, self.view.scope(m, i)))

    def _admit(self, m: Memory, i: Any, offer: Any, may: Any, after: int) -> None:
        """Admit one request; planning goes on at `after` when there is none to admit."""
        m.setu(self._tried, U32(0))

        def attempt(name: str, j: Any) -> Callable[[], None]:
            def body() -> None:
                m.setu(self._tried, ONE)
                m.setu(self.view.asks, ONE)
                m.setf(self.view.offer, offer)
                m.setu(self._admits, self.holds.admit_next(m, name, j).astype(U32))
                m.setu(self.view.asks, U32(0))

            return body

        for name, j in self.view.queues(i):
            m.when(may & (m.u(self._tried) == 0) & self.context.pools[name].waiting(m, j), attempt(name, j))

        def wait_for_it() -> None:
            m.setu(self.engines.pause, ONE)
            m.addf(self.plan.admitted, 1.0)

        m.either(m.u(self._admits) != 0, wait_for_it, lambda: m.setu(self._at, U32(after)))

    def _alone(self, m: Memory, k: int, i: Any) -> None:
        """The first prefill whose memory can grow has the iteration to itself; where none can, newcomers may."""
        prefill = self._first_prefill(m, i, lambda slot: ~self._considered(m, slot))
        some = self._first_prefill(m, i, lambda _: m.full(True, np.bool_)) != 0

        def go_on() -> None:
            m.setu(self._at, where(some, U32(k + 2), m.full(k + 1, U32)))

        def try_it() -> None:
            self._displace(m, prefill, i, k + 3)
            m.when(m.u(self._ended) != 0, lambda: m.setu(self._at, U32(k + 3)))

        m.either(prefill != 0, try_it, go_on)

    def _decodes(self, m: Memory, k: int, i: Any) -> None:
        m.setu(self._ended, U32(0))
        self._in_order(m, None, i, lambda _: m.full(True, np.bool_))
        m.setu(self._at, U32(k + 1))

    def _displacing(self, m: Memory, k: int, i: Any) -> None:
        """Admissions beside the decodes: a newcomer that prefills displaces them, if its memory can grow."""

        def unseen(slot: Any) -> Any:
            return self._is_new(m, slot) & ~self._considered(m, slot)

        prefill = self._first_prefill(m, i, unseen)

        def admit() -> None:
            m.setu(self._ended, U32(0))
            m.setu(self.plan.index, U32(0))
            self._in_order(m, None, i, unseen)
            m.setu(self._admits, U32(0))
            self._admit(m, i, m.f(self.plan.budget), self._may_admit(m, _UNDISTURBED, i), k + 1)

        m.either(prefill != 0, lambda: self._displace(m, prefill, i, k + 1), admit)

    def _first_prefill(self, m: Memory, i: Any, wanted: Callable[[Any], Any]) -> Any:
        """The slot of the first resident that prefills, 0 if there is none."""
        engine = self.engine
        count, zero = engine.count(m, i), m.full(0, U32)

        def look(at: Any, _found: Any) -> tuple[Any, Any]:
            slot = engine.resident(m, at, i)
            return at + ONE, where(wanted(slot) & ~engine.decodes(m, slot), slot, zero)

        return m.loop(lambda at, found: (at < count) & (found == 0), look, (zero, zero))[1]

    def _displace(self, m: Memory, prefill: Any, i: Any, after: int) -> None:
        """Give a prefill the whole budget, and nothing to the others: planning goes on at `after`."""
        plan, engine = self.plan, self.engine
        budget = m.f(plan.budget)
        rest = m.f(plan.left) - budget
        m.setf(plan.left, budget)
        self._consider(m, prefill, None, i)
        got = m.f(self.core.sf(prefill, engine.tokens)) > 0
        m.addf(plan.left, where(got, 0.0, rest))

        def displace() -> None:
            engine.displace(m, prefill, i)
            m.setu(self._at, U32(after))

        m.when(got, displace)

    # -- the end of an attempt
    def _conclude(self, m: Memory, i: Any) -> None:
        plan, engine = self.plan, self.engine
        m.setu(plan.active, U32(0))
        something = (engine.batched(m, i) != 0) | (m.f(plan.preempted) > 0)

        def nothing() -> None:
            engine.attempt_failed(m, i, self.has_work(m, i))

            def undo() -> None:
                for name, at in self.view.registers.items():
                    m.setf(at, m.f(self._saved[name]))

            m.when(m.f(plan.admitted) == 0, undo)

        m.either(something, lambda: self._run(m, i), nothing)

    def _run(self, m: Memory, i: Any) -> None:
        engine, s = self.engine, self.view.batch_scope(m, i)
        tokens, prefilled, decoders = (s.context[name] for name in ("tokens", "prefilled", "decoders"))
        cost = number(evaluate(self.kind.cost, s))
        bad = ~(cost >= 0) | ((tokens > 0) & ~(cost > 0))
        self.context.fail(m, bad, errors.COST, self.declared)
        self.engines.bound(m, cost, self.declared)
        self.engines.claims.read(m, self.declared.name, i, s)
        engine.each_batched(m, i, lambda slot: self._advance(m, slot))
        engine.start(m, i, cost, tokens, prefilled, decoders)
        if self._skipping is not None:
            self._skipping.planned(m, i, cost, tokens)

    def _advance(self, m: Memory, slot: Any) -> None:
        """The position of a growing run moves on."""
        tokens = m.f(self.core.sf(slot, self.engine.tokens))
        growing = self.engines.code.growing

        def move(part: Part) -> Callable[[], None]:
            return lambda: self.holds.advance(m, part, slot, tokens)

        growing.by_part(m, m.u(self.core.su(slot, self.engine.growth)), move)


_UNDISTURBED = ir.Unary("not", ir.Context("preempted"))

"""Constants with a meaning: rates, counts, servers, capacities, guards and amounts known in advance."""

from __future__ import annotations

import math

from sqc import ir
from sqc.check.constants import Constants
from sqc.check.scope import Resource, Scope, family
from sqc.check.values import Values
from sqc.diagnostics import Note, Place, Reporter
from sqc.syntax import tree

MAX_COUNT = 1_000_000


def check_declared(scope: Scope, constants: Constants, reporter: Reporter) -> None:
    """Constant expressions of declarations; these must be constants, whatever else is wrong."""
    amounts = _Declared(constants, reporter)
    for pool in scope.pools.values():
        amounts.pool(pool)
    for stage in scope.stages.values():
        amounts.stage(stage)
    if scope.arrive is not None:
        amounts.arrive(scope.arrive)


def check_amounts(scope: Scope, values: Values, reporter: Reporter) -> None:
    """Guards, demands and amounts in statements whose value is known before the run."""
    amounts = _Amounts(scope, values, reporter)
    arrive = scope.arrive
    if arrive is not None and arrive.word == "renewal" and arrive.value is not None:
        gap = values.constant(arrive.value)
        if gap is not None and not 0 < gap < math.inf:
            reporter.error(
                "E305", f"the gap between arrivals is positive and finite, found {gap:g}", arrive.value.place
            )
    for stage in scope.stages.values():
        amounts.granule(stage)
        amounts.engine(stage)
    for _, block in scope.blocks():
        for node in tree.walk(block):
            amounts.statement(node)


class _Declared:
    def __init__(self, constants: Constants, reporter: Reporter) -> None:
        self.constants = constants
        self.reporter = reporter

    def pool(self, pool: Resource) -> None:
        for option in pool.options("slots"):
            slots = self.value(option.values[0])
            if slots is not None and not (0 <= slots <= MAX_COUNT and slots == math.floor(slots)):
                message = f"the slots of a pool are a whole number from 0 to {MAX_COUNT}, found {slots:g}"
                self.reporter.error("E305", message, option.values[0].place)
        for word in ("cap", "block"):
            for option in pool.options(word):
                value = self.value(option.values[0])
                least = ">= 0" if word == "cap" else "> 0"
                if value is not None and not (value >= 0 if word == "cap" else 0 < value < math.inf):
                    message = f"the {word} of a pool is a number {least}, found {value:g}"
                    self.reporter.error("E305", message, option.values[0].place)

    def stage(self, stage: Resource) -> None:
        assert isinstance(stage.item, tree.Stage)
        kind = stage.item.kind
        if kind.word == "fifo" and kind.value is not None:
            servers = self.value(kind.value)
            if servers is not None and not (servers >= 1 and servers == servers // 1 and servers <= MAX_COUNT):
                message = f"the number of servers is a whole number of at least 1, found {servers:g}"
                self.reporter.error("E305", message, kind.value.place)
        for option in stage.options("state"):
            self.value(option.values[-1])
        for option in stage.options("granule"):
            granule = self.value(option.values[0])
            if granule is not None and not granule > 0:
                message = f"a granule is a number of tokens above 0 (inf: all or nothing), found {granule:g}"
                self.reporter.error("E305", message, option.values[0].place)

    def arrive(self, arrive: tree.Arrive) -> None:
        if arrive.value is None or arrive.word == "renewal":
            return
        value = self.value(arrive.value)
        place = arrive.value.place
        if value is None:
            return
        if arrive.word == "poisson":
            if not 0 < value < math.inf:
                self.reporter.error("E305", f"the rate of arrivals is positive and finite, found {value:g}", place)
        else:
            least = 1 if arrive.word == "batch" else 0
            if not (least <= value <= MAX_COUNT and value == math.floor(value)):
                message = f"the number of sessions is a whole number from {least} to {MAX_COUNT}, found {value:g}"
                self.reporter.error("E305", message, place)

    def value(self, expr: tree.Node) -> float | None:
        """The number, or None when it depends on an input (or has been reported)."""
        made = self.constants.evaluate(expr)  # type: ignore[arg-type]
        return made.value if isinstance(made, ir.Const) else None


class _Amounts:
    def __init__(self, scope: Scope, values: Values, reporter: Reporter) -> None:
        self.scope = scope
        self.values = values
        self.reporter = reporter

    def statement(self, node: tree.Node) -> None:
        match node:
            case tree.Branch(guard=guard, probability=False) | tree.While(guard=guard):
                self.guard(guard, "while (~bernoulli({}))" if isinstance(node, tree.While) else "branch with ({})")
            case tree.Run(work=work) | tree.Serve(work=work) | tree.Transfer(work=work):
                self.amount(work)
            case tree.Grow(amount=amount) | tree.Load(amount=amount):
                self.amount(amount)
            case tree.Checkpoint(position=position):
                self.amount(position)
            case tree.Segment(length=length):
                self.amount(length)
            case tree.Hold():
                self.checkpoints(node)
            case tree.Choose(count=count):
                self.count(count)
            case tree.Part(pool=pool, units=units, reserve=reserve):
                self.demand(pool, units)
                if reserve is not None:
                    self.demand(pool, reserve)

    def granule(self, stage: Resource) -> None:
        """A prefill gets a multiple of the granule, and no more than the cap on what a run gets."""
        for option in stage.options("granule"):
            granule = self.values.constant(option.values[0])  # type: ignore[arg-type]
            for cap in stage.options("chunk"):
                most = self.least(cap.values[0])
                if granule is not None and most is not None and 0 < most < granule:
                    notes = [Note("what a run gets at most", cap.values[0].place)]
                    message = f"a granule of {granule:g} with at most {most:g}: a longer prompt would never get a token"
                    self.reporter.error("E305", message, option.values[0].place, None, notes)

    def least(self, expression: object) -> float | None:
        """What a cap may fall to, if that can be seen: a constant, or the largest constant of a `max`."""
        callee = expression.callee if isinstance(expression, tree.Call) else None
        if isinstance(expression, tree.Call) and isinstance(callee, tree.Name) and callee.id == "max":
            known = [value for value in map(self.least, expression.args) if value is not None]
            return max(known, default=None)
        return self.values.constant(expression)  # type: ignore[arg-type]

    def engine(self, stage: Resource) -> None:
        """An engine has tokens to give, and its cap on what a run gets is above 0 whenever it is read."""
        assert isinstance(stage.item, tree.Stage)
        if stage.item.kind.word != "engine":
            return
        for option in stage.options("budget"):
            budget = self.values.constant(option.values[0])  # type: ignore[arg-type]
            if budget is not None and not budget > 0:
                message = f"an iteration has a number of tokens above 0 (inf: any), found {budget:g}"
                self.reporter.error("E305", message, option.values[0].place)
        for option in stage.options("chunk"):
            if not self.positive(option.values[0]):  # type: ignore[arg-type]
                message = "a run gets more than 0 tokens, whatever the iteration reads"
                advice = "write a constant, inf, max(k, ...) with k above 0, or `... ? ... : ...` of these"
                self.reporter.error("E709", message, option.values[0].place, advice)

    def positive(self, expr: tree.Expr) -> bool:
        """Is the value above 0 for certain, as far as inputs let it be known?"""
        fixed = self.values.fixed(expr)
        if fixed is not None:
            return not isinstance(fixed, ir.Const) or fixed.value > 0
        match expr:
            case tree.Cond(then=then, other=other):
                return self.positive(then) and self.positive(other)
            case tree.Call(callee=tree.Name(id="max"), args=args):
                return any(map(self.positive, args))
            case tree.Call(callee=tree.Name(id="min"), args=args):
                return all(map(self.positive, args))
        return False

    def guard(self, guard: tree.Expr, draw: str) -> None:
        value = self.values.constant(guard)
        if value is None or value in (0.0, 1.0):
            return
        advice = f"a probability is written: {draw.format(guard.place.text)}" if 0 < value < 1 else None
        self.reporter.error("E307", f"a guard is 0 or 1, and this is always {value:g}", guard.place, advice)

    def count(self, expr: tree.Expr) -> None:
        value = self.values.constant(expr)
        if value is not None and not (0 <= value < math.inf and value == math.floor(value)):
            message = f"`choose` goes over a whole number of candidates, found {value:g}"
            self.reporter.error("E305", message, expr.place)

    def amount(self, expr: tree.Expr) -> float | None:
        value = self.values.constant(expr)
        if value is not None and not value >= 0:
            message = f"an amount is a number of at least 0, found {value:g}"
            self.reporter.error("E305", message, expr.place)
            return None
        return value

    def demand(self, pool: tree.Ref, expr: tree.Expr) -> None:
        value = self.amount(expr)
        if value is None:
            return
        declared = self.scope.pools[family(pool)]
        for option in declared.options("cap"):
            cap = self.values.constant(option.values[0])  # type: ignore[arg-type]
            whole = self.rounded(declared, value)
            if cap is not None and whole > cap:
                place: Place = option.place
                notes = [Note("the capacity is declared here", place)]
                asks = f"{value:g} units" if whole == value else f"{value:g} units ({whole:g} in whole blocks)"
                message = f"this asks for {asks} of `{family(pool)}`, more than its cap of {cap:g}"
                self.reporter.error("E306", message, expr.place, notes=notes)

    def checkpoints(self, hold: tree.Hold) -> None:
        """A position that is known lies within what the hold asks for, unless that grows."""
        known = {family(part.pool): self.values.constant(part.units) for part in hold.parts}
        nodes = list(tree.walk(hold.body))
        grown = {family(node.pool) for node in nodes if isinstance(node, tree.Grow)}
        grown |= {family(n.growing) for n in nodes if isinstance(n, tree.Run | tree.Serve) and n.growing is not None}
        for node in nodes:
            if not isinstance(node, tree.Checkpoint):
                continue
            units, position = known.get(family(node.pool)), self.values.constant(node.position)
            if units is not None and position is not None and position > units and family(node.pool) not in grown:
                message = f"a checkpoint at {position:g}, beyond the context of {units:g} units"
                notes = [Note("the hold asks for them here", hold.header)]
                self.reporter.error("E306", message, node.position.place, "a checkpoint stands within it", notes)

    def rounded(self, pool: Resource, units: float) -> float:
        for option in pool.options("block"):
            block = self.values.constant(option.values[0])  # type: ignore[arg-type]
            if block:
                return math.ceil(units / block) * block
        return units

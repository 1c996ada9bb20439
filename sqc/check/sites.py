"""Every expression of a program, with the moment at which it is evaluated.

The checks of names, moments and costs all ask the same question of each expression: where does
it stand? `sites` answers it once. A `Moment` says what may be read there; a `Site` is one
expression, its moment, the resources whose cost it must be, and whose statement it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sqc.check.scope import Scope, family
from sqc.syntax import tree


class Moment(NamedTuple):
    """What an expression may read. `context` are the context variables of the moment, `unread` the observables
    that it may not read."""

    what: str
    context: frozenset[str] = frozenset()
    draws: bool = False
    attributes: bool = True
    live: bool = True
    now: bool = True
    decides: bool = False  # the scheduler decides by it, for one session: nothing hidden may be read
    totals: bool = False
    unread: frozenset[str] = frozenset()
    plans: bool = False  # forms an iteration: it may not ask the engine for its plan, `budget_left`


def _moment(what: str, context: str = "", unread: str = "", **rights: bool) -> Moment:
    return Moment(what, frozenset(context.split()), unread=frozenset(unread.split()), **rights)


_TOTALS = "residents decoders kv_decode kv_prefill"
_COST = f"{_TOTALS} tokens prefilled attention"
_RUNNING = "running.count running.decoding running.kv_decode running.kv_prefill waiting.count"
_BATCH = "batch.tokens batch.prefilled batch.decoding batch.kv_decode batch.kv_prefill batch.attention"
_ONE_RUN = "decoding admission remaining"

STATEMENT = _moment("a statement", draws=True)
MARK = _moment("the marks of a session", draws=True)
GAP = _moment("the gap between arrivals", draws=True, attributes=False, live=False, now=False)
CAPACITY = _moment("the capacity of a ps stage", "present", draws=True, attributes=False)
UNITS = _moment("a hold's units")
RESERVE = _moment("a hold's reserve")
REUSE = _moment("a hold's reuse")
SEGMENT_KEY = _moment("a prefix key", live=False, now=False)
SEGMENT_LENGTH = _moment("a prefix length", live=False, now=False)
BINDING = _moment("an `at admission` binding")
CACHE = _moment("a cache clause", draws=True)
LEASE = _moment("the time of a lease", draws=True)
QUEUE_KEY = _moment("a queue key", "waited", decides=True)
EVICTION_KEY = _moment("an eviction key", "size age last waiting", draws=True, decides=True)
SPILL = _moment("a spill clause", "size age last waiting", draws=True, decides=True)
PREEMPTION_KEY = _moment("a preemption key", "admission decoding position", decides=True)
CHOICE_KEY = _moment("a choose key", draws=True)
BUDGET = _moment("the budget of a step stage", _TOTALS, "budget_left", draws=True, attributes=False)
COST = _moment("the cost of a step stage", _COST, draws=True, attributes=False)
SERVE_KEY = _moment("a serve key", f"{_TOTALS} {_ONE_RUN}", decides=True)
SERVE_ONLY = _moment("a `serve only` clause", f"{_TOTALS} {_ONE_RUN}", "work", now=False, decides=True)
_BODY = f"{_TOTALS} preempted admitted tokens prefilled"
BODY = _moment("an iteration body", _BODY, "work", now=False, attributes=False, plans=True)
TOKENS = BUDGET._replace(what="`tokens cap`", context=frozenset(_RUNNING.split()))
EACH = BUDGET._replace(what="`each at most`", context=TOKENS.context)
EXECUTE = COST._replace(what="`execute`", context=frozenset(f"running.count waiting.count {_BATCH}".split()))
ADVANCE_KEY = SERVE_KEY._replace(what="an `advance` key", context=frozenset(f"{_RUNNING} {_ONE_RUN}".split()))
ONLY = SERVE_ONLY._replace(what="an `only` clause", context=ADVANCE_KEY.context)
SCHEDULE = BODY._replace(
    what="a schedule",
    context=TOKENS.context | {"running.preempted", "waiting.admitted", "batch.tokens", "batch.prefilled"},
)
LET = SCHEDULE._replace(what="a schedule's `let`", context=TOKENS.context)
GAUGE = _moment("a gauge", "", "work cachedin budget_left", attributes=False, now=False)
GIVEN = _moment("a claim's `given`", live=False, now=False)
ITERATION_CLAIM = _moment(
    "a claim over iterations",
    f"{_COST} demand served arrived",
    "work cachedin budget_left est_lambda est_rho est_wait price",
    attributes=False,
)
END_CLAIM = _moment("a claim at the end", attributes=False, live=False, totals=True)
INDEX = _moment("an index", draws=True)


class Site(NamedTuple):
    """`wants` are the resources whose cost the expression must be; None: any value."""

    expr: tree.Expr
    moment: Moment
    owner: str  # "workload", "server" or "program"
    wants: tuple[tree.Ref, ...] | None = None
    plain: bool = False  # must be no cost: a test, or work given as a plain number
    stage: str | None = None  # the step stage whose iterations read it
    waits: tree.Ref | None = None  # the pool in whose queue requests wait when it is read


def sites(scope: Scope) -> Iterator[Site]:
    """All expressions of the program outside of constants."""
    if scope.arrive is not None and scope.arrive.word == "renewal" and scope.arrive.value is not None:
        yield Site(scope.arrive.value, GAP, "program", plain=True)
    for pool in scope.pools.values():
        assert isinstance(pool.item, tree.Pool)
        for option in pool.item.options:
            yield from _pool_option(pool.item.name, option)
    for stage in scope.stages.values():
        assert isinstance(stage.item, tree.Stage)
        kind = stage.item.kind
        if kind.word == "ps" and kind.value is not None:
            yield Site(kind.value, CAPACITY, "program", plain=True)
        for site in _step(kind):
            yield site._replace(stage=stage.item.name.id)
    for name, block in scope.blocks():
        for site in _block(block, "server" if name == "server" else "workload"):
            yield site._replace(moment=MARK) if name in ("init", "turn") else site
    for gauge in scope.gauges:
        yield Site(gauge.value, GAUGE, "program")
    for claim in scope.claims:
        if claim.given is not None:
            yield Site(claim.given, GIVEN, "program")
        if claim.stage is None:
            yield Site(claim.value, END_CLAIM, "program")
        else:
            yield Site(claim.value, ITERATION_CLAIM, "program", stage=family(claim.stage))


_POOL_MOMENTS = {"queue by": QUEUE_KEY, "evict by": EVICTION_KEY, "spill": SPILL}


def _pool_option(pool: tree.Name, option: tree.Option) -> Iterator[Site]:
    moment = PREEMPTION_KEY if option.word.startswith("preempt") else _POOL_MOMENTS.get(option.word)
    if moment is not None:
        values = option.values[2:] if option.word == "spill" else option.values
        for value in values:
            yield Site(value, moment, "program", plain=True, waits=pool)  # type: ignore[arg-type]


class _Words(NamedTuple):
    """The moments of one spelling of a step stage."""

    options: dict[str, Moment]
    key: Moment
    only: Moment
    body: Moment


_WORDS = {
    "step": _Words({"budget": BUDGET, "chunk": BUDGET, "cost": COST}, SERVE_KEY, SERVE_ONLY, BODY),
    "engine": _Words({"budget": TOKENS, "chunk": EACH, "cost": EXECUTE}, ADVANCE_KEY, ONLY, SCHEDULE),
}


def _step(kind: tree.Kind) -> Iterator[Site]:
    words = _WORDS.get(kind.word)
    for option in kind.options if words is not None else ():
        assert words is not None
        if option.word in words.options:
            yield Site(option.values[0], words.options[option.word], "program", plain=True)  # type: ignore[arg-type]
        elif option.word in ("serve", "iteration"):
            for statement in option.values:
                yield from _scheduled(statement, words)


def _scheduled(node: tree.Node, words: _Words) -> Iterator[Site]:
    """The expressions of one statement of an iteration."""
    found: list[tuple[tree.Expr | None, Moment]] = []
    match node:
        case tree.StepServe(only=only, order=order):
            found = [(only, words.only), *((key, words.key) for key in order or ())]
        case tree.StepAdmit(only=only, test=test):
            found = [(only, words.only), (test, words.body)]
        case tree.StepSet(value=value):
            found = [(value, words.body)]
        case tree.StepLet(value=value):
            found = [(value, LET)]
        case tree.StepBranch(guard=guard):
            found = [(guard, words.body)]
    yield from (Site(expr, moment, "program", plain=True) for expr, moment in found if expr is not None)
    if isinstance(node, tree.StepBranch):
        for statement in (*node.then, *node.other):
            yield from _scheduled(statement, words)


def _block(block: tree.Block | None, owner: str) -> Iterator[Site]:
    for statement in block.body if block is not None else ():
        yield from _statement(statement, owner)


def _statement(node: tree.Stmt, owner: str) -> Iterator[Site]:
    def site(
        expr: tree.Expr | None,
        moment: Moment = STATEMENT,
        wants: tuple[tree.Ref, ...] | None = None,
        plain: bool = False,
    ) -> Iterator[Site]:
        if expr is not None:
            yield Site(expr, moment, owner, wants, plain)

    for ref, _ in named(node):
        if isinstance(ref, tree.Index):
            yield from site(ref.index, INDEX, plain=True)
    match node:
        case tree.Set(word=kind, value=value):
            yield from site(value, plain=kind == "Size")
        case tree.Observe(value=value):
            yield from site(value)
        case tree.CostRecord(record=record):
            for field in record:
                yield from site(field.value, plain=True)
        case tree.Branch(guard=guard, then=then, other=other):
            yield from site(guard, plain=True)
            yield from _block(then, owner)
            yield from _block(other, owner)
        case tree.While(guard=guard, body=body):
            yield from site(guard, plain=True)
            yield from _block(body, owner)
        case tree.Loop(body=body) | tree.Fork(body=body):
            yield from _block(body, owner)
        case tree.Choose(count=count, keys=keys):
            yield from site(count, plain=True)
            for key in keys:
                yield from site(key, CHOICE_KEY)
        case tree.Hold():
            yield from _hold(node, owner)
        case tree.Grow(pool=pool, amount=amount) | tree.Load(pool=pool, amount=amount):
            yield from site(amount, wants=(pool,))
        case tree.Checkpoint(position=position):
            yield from site(position)
        case tree.Run(stages=stages, work=work):
            yield from site(work, wants=stages)
        case tree.Serve(index=index, work=work):
            yield from site(index, INDEX, plain=True)
            yield from site(work, plain=True)
        case tree.Transfer(index=index, work=work, units=units):
            yield from site(index, INDEX, plain=True)
            yield from site(work, plain=True)
            yield from site(units, plain=True)


def _hold(node: tree.Hold, owner: str) -> Iterator[Site]:
    pools = tuple(part.pool for part in node.parts)
    for named_part in (*node.parts, *((node.lease,) if node.lease is not None else ())):
        for ref, _ in named(named_part):
            if isinstance(ref, tree.Index):
                yield Site(ref.index, INDEX, owner, plain=True)
    for part in node.parts:
        yield Site(part.units, UNITS, owner, (part.pool,), waits=pools[0])
        if part.reserve is not None:
            yield Site(part.reserve, RESERVE, owner, (part.pool,), waits=pools[0])
    for segment in node.prefix:
        yield Site(segment.key, SEGMENT_KEY, owner, plain=True, waits=pools[0])
        yield Site(segment.length, SEGMENT_LENGTH, owner, waits=pools[0])
    if node.reuse is not None:
        yield Site(node.reuse, REUSE, owner, pools, waits=pools[0])
    for binding in node.bindings:
        yield Site(binding.value, BINDING, owner, waits=pools[0])
    yield from _block(node.body, owner)
    if node.cache is not None:
        yield Site(node.cache, CACHE, owner, pools)
    if node.lease is not None:
        yield Site(node.lease.time, LEASE, owner, plain=True)


def references(scope: Scope) -> Iterator[tuple[tree.Ref, str]]:
    """Every pool and stage named outside of expressions, with "pool" or "stage"; not those that a whole array has."""
    for pool in scope.pools.values():
        for option in pool.options("spill"):
            yield option.values[0], "pool"  # type: ignore[misc]
            yield option.values[1], "stage"  # type: ignore[misc]
    for claim in scope.claims:
        if claim.stage is not None:
            yield claim.stage, "stage"
    for _, block in scope.blocks():
        for node in tree.walk(block):
            yield from named(node)


def named(node: tree.Node) -> Iterator[tuple[tree.Ref, str]]:
    """The pools and stages that one statement, or one part of a hold's header, names."""
    match node:
        case tree.Part(pool=pool) | tree.Lease(pool=pool) | tree.Grow(pool=pool) | tree.Load(pool=pool):
            yield pool, "pool"
        case tree.Checkpoint(pool=pool) | tree.Drop(pool=pool) | tree.Release(pool=pool):
            yield pool, "pool"
        case tree.Run(stages=stages, growing=growing):
            yield from ((stage, "stage") for stage in stages)
            if growing is not None:
                yield growing, "pool"
        case tree.Serve(on=on, growing=growing):
            if on is not None:
                yield on, "stage"
            if growing is not None:
                yield growing, "pool"
        case tree.Transfer(on=stages, source=source, target=target):
            yield from ((stage, "stage") for stage in stages)
            yield source, "pool"
            yield target, "pool"


def amounts(node: tree.Hold) -> Iterator[tree.Expr]:
    """What a hold asks for: units, reserves, what its context is made of and what it reuses."""
    for part in node.parts:
        yield part.units
        if part.reserve is not None:
            yield part.reserve
    for segment in node.prefix:
        yield from (segment.key, segment.length)
    if node.reuse is not None:
        yield node.reuse

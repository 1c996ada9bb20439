"""From the grammar's rules to tree nodes: one small function per rule, named as in grammar.lark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sqc.diagnostics import Place
from sqc.syntax import tree


class Word(NamedTuple):
    """A keyword or sign that the grammar keeps."""

    place: Place
    text: str


Builder = Callable[..., Any]
BUILD: dict[str, Builder] = {}


def _rule(*names: str) -> Callable[[Builder], Builder]:
    def register(function: Builder) -> Builder:
        BUILD.update(dict.fromkeys(names, function))
        return function

    return register


def _node(rule: str, cls: Callable[..., Any], *fixed: Any) -> None:
    """`rule` makes a node of `cls` from its children, after the fixed fields."""
    BUILD[rule] = lambda place, *parts: cls(place, *fixed, *parts)


def _list(*rules: str) -> None:
    """The children as a tuple, without absent ones."""
    for rule in rules:
        BUILD[rule] = lambda place, *parts: tuple(p for p in parts if p is not None)


def _word(*rules: str) -> None:
    for rule in rules:
        BUILD[rule] = lambda place, word: word.text


def _same(_: Place, inner: Any) -> Any:
    return inner


_list("params", "keys", "args", "parts", "prefix", "bindings", "places", "roles", "relargs", "iters", "scheds")
_word("quantifier", "sharing", "mode", "service", "fold")

# --------------------------------------------------------------------------- declarations

_node("use", tree.Use)
_node("let", tree.Let)
_node("def_expr", tree.Def)
_node("def_stmt", tree.Def)
_node("stage", tree.Stage)
_node("server", tree.Server)
_node("gauge", tree.Gauge)
_node("share", tree.Share)
_node("kind_fifo", lambda place, value: tree.Kind(place, "fifo", value, ()))
_node("kind_ps", lambda place, value: tree.Kind(place, "ps", value, ()))
_node("kind_delay", lambda place: tree.Kind(place, "delay", None, ()))
_node("step", lambda place, *options: tree.Kind(place, "step", None, options))
_node("claim_iteration", tree.Claim)
_node("claim_end", lambda place, name, given, value: tree.Claim(place, name, given, "end", None, value))
_node("trace", lambda place, path: tree.Trace(place, path, False))
_node("trace_ordered", lambda place, path: tree.Trace(place, path, True))
_node("init", tree.Routine, "init")
_node("turn_block", tree.Routine, "turn")
_node("session", tree.Routine, "session")
BUILD["start"] = lambda place, *items: tree.File(place, items)
BUILD["main"] = lambda place, *items: tree.Main(place, items)
BUILD["workload"] = lambda place, *items: tree.Workload(place, items)
BUILD["hidden"] = lambda place, *names: tree.Hidden(place, names)
BUILD["arrive"] = lambda place, arrival: arrival
BUILD["order_admission"] = lambda place: ()


BUILD["pool"] = lambda place, name, size, on, *options: tree.Pool(place, name, size, on, options)
BUILD["on_owner"] = lambda place, owner: tree.On(place, None, owner)
BUILD["on_engine"] = lambda place, engine, device: tree.On(place, engine, device)


@_rule("arrival")
def _arrival(place: Place, word: Word, *rest: Any) -> tree.Arrive:
    return tree.Arrive(place, word.text, rest[1] if rest else None)


@_rule("preemption")
def _preemption(place: Place, word: Word, *rest: Any) -> tree.Option:
    keys = rest[0] if rest else ()
    tail = " tail" if any(isinstance(r, Word) and r.text == "tail" for r in rest) else ""
    return tree.Option(place, f"preempt {word.text}{tail}", keys or ())


def _option(rule: str, word: str) -> None:
    def build(place: Place, *parts: Any) -> tree.Option:
        values: list[tree.Node] = []
        for part in parts:
            if type(part) is tuple:
                values.extend(part)
            elif part is not None:
                values.append(part)
        return tree.Option(place, word, tuple(values))

    BUILD[rule] = build


BUILD["opt_preempt"] = lambda place, option: tree.Option(place, option.word, option.values)
for _rule_name, _text in {
    "opt_cap": "cap", "opt_block": "block", "opt_evict_lru": "evict lru", "opt_evict_by": "evict by",
    "opt_queue_fifo": "queue fifo", "opt_queue_by": "queue by", "opt_admit_via": "admit via",
    "opt_reserve_held": "reserve held", "opt_history_one": "history one", "opt_slots": "slots",
    "opt_retain_lru": "retain lru", "opt_retain_fifo": "retain fifo", "opt_spill": "spill",
    "step_budget": "budget", "step_cost": "cost", "step_chunk": "chunk", "step_memory": "memory", "step_serve": "serve",
    "step_granule": "granule", "step_state": "state", "step_iteration": "iteration",
    "engine_schedule": "schedule", "engine_execute": "execute",
}.items():  # fmt: skip
    _option(_rule_name, _text)

# --------------------------------------------------------------------------- statements

for _name, _cls in {
    "turn": tree.Turn, "end": tree.End, "observe": tree.Observe, "loop": tree.Loop, "while_loop": tree.While,
    "choose": tree.Choose, "grow": tree.Grow, "load": tree.Load, "checkpoint": tree.Checkpoint,
    "drop": tree.Drop, "release": tree.Release, "run": tree.Run, "fork": tree.Fork, "join": tree.Join,
    "field": tree.Field, "binding": tree.Field, "part": tree.Part, "segment": tree.Segment,
    "lease": tree.Lease, "mark": tree.Mark, "run_own": tree.RunOwn,
}.items():  # fmt: skip
    _node(_name, _cls)
_node("set", tree.Set, "set")
_node("size", tree.Set, "Size")
_node("cost", tree.Set, "Cost")
BUILD["block"] = lambda place, *body: tree.Block(place, body)
BUILD["cost_record"] = lambda place, name, *record: tree.CostRecord(place, name, record)
BUILD["branch"] = lambda place, guard, then, other: tree.Branch(place, guard, False, then, other)
BUILD["branch_with"] = lambda place, guard, then, other: tree.Branch(place, guard, True, then, other)
BUILD["target_index"] = _same
BUILD["target_on"] = lambda place, stages: stages


@_rule("hold")
def _hold(
    place: Place, parts: Any, prefix: Any, reuse: Any, bindings: Any, body: tree.Block, cache: Any, lease: Any
) -> tree.Hold:
    text = place.source.text[place.start : body.place.start].rstrip()
    header = place._replace(end=place.start + len(text))
    return tree.Hold(place, header, parts, prefix or (), reuse, bindings or (), body, cache, lease)


def _target(target: Any) -> tuple[Any, tuple[Any, ...]]:
    """The index and the stages of a service statement's target."""
    if target is None:
        return None, ()
    return (None, target) if type(target) is tuple else (target, ())


@_rule("serve")
def _serve(place: Place, word: str, target: Any, work: Any, growing: Any) -> tree.Node:
    index, on = _target(target)
    if len(on) > 1:
        return tree.Run(place, on, None, work, growing)
    return tree.Serve(place, word, index, on[0] if on else None, work, growing)


@_rule("transfer")
def _transfer(place: Place, target: Any, work: Any, source: Any, to: Any, units: Any) -> tree.Transfer:
    return tree.Transfer(place, *_target(target), work, source, to, units)


@_rule("call_stmt")
def _call_stmt(place: Place, callee: Any, args: Any, source: Any, target: Any, units: Any) -> tree.Node:
    if source is None and isinstance(callee, tree.Name):
        return tree.CallStmt(place, callee, args)
    return tree.EntryCall(place, callee, args, source, target, units)


# --------------------------------------------------------------------------- expressions

BUILD["parens"] = _same
BUILD["place"] = _same
BUILD["cond"] = lambda place, test, then, other: tree.Cond(place, test, then, other)
BUILD["binary"] = lambda place, x, op, y: tree.Binary(place, op.text, x, y)
BUILD["unary"] = lambda place, op, x: tree.Unary(place, op.text, x)
BUILD["call"] = lambda place, callee, args: tree.Call(place, callee, args)
BUILD["index"] = lambda place, base, index: tree.Index(place, base, index)
BUILD["member"] = lambda place, base, name: tree.Member(place, base, name)
BUILD["draw"] = lambda place, dist, args: tree.Draw(place, dist, args)
BUILD["aggregate"] = lambda place, fold, name, count, body: tree.Aggregate(place, fold, name, count, body)


@_rule("index_member")
def _index_member(place: Place, base: tree.Name, index: Any, name: tree.Name) -> tree.Member:
    closed = place.source.text.index("]", index.place.end) + 1
    return tree.Member(place, tree.Index(place._replace(end=closed), base, index), name)


@_rule("call_fold")
def _call_fold(place: Place, fold: str, args: Any) -> tree.Call:
    return tree.Call(place, tree.Name(place._replace(end=place.start + len(fold)), fold), args)


# --------------------------------------------------------------------------- stations

_node("station_stage", tree.StationStage)
_node("station_nic", tree.Nic)
_node("request", tree.Request)
BUILD["queue"] = lambda place, name, size, roles, *items: tree.Queue(place, name, size, roles, items)
BUILD["entry"] = lambda place, verb, params, source, body: tree.Entry(place, verb, params or (), source, body)


@_rule("relation")
def _relation(place: Place, verb: Any, args: tuple[tree.Expr | tree.Field, ...]) -> tree.Relation:
    stations = tuple(a for a in args if not isinstance(a, tree.Field))
    options = tuple(a for a in args if isinstance(a, tree.Field))
    return tree.Relation(place, verb, stations, options, None)


@_rule("relation_pull")
def _relation_pull(place: Place, reader: Any, source: Any, latency: Any, share: Any) -> tree.Relation:
    """`D pull P latency e share maxmin;`, as an earlier release wrote it."""
    option = tree.Field(latency.place, tree.Name(latency.place, "latency"), latency)
    return tree.Relation(place, tree.Name(place, "pull"), (source, reader), (option,), share)


# --------------------------------------------------------------------------- step stages, devices, engines

_node("sched_let", tree.StepLet)
_node("sched_set", tree.StepSet)
_node("sched_advance", tree.StepServe)
_node("sched_admit", tree.StepAdmit)
_node("sched_exclusive", tree.StepExclusive)
_node("time_resource", tree.TimeResource)
_node("capacity", tree.Capacity)
BUILD["serving"] = lambda place, only, order: tree.StepServe(place, only, order, None)
BUILD["step_exclusive"] = lambda place: tree.Option(place, "serve", (tree.StepExclusive(place, None),))
BUILD["iter_admit"] = lambda place, only, test: tree.StepAdmit(place, only, test, None)
BUILD["sched_branch"] = lambda place, guard, then, other: tree.StepBranch(place, guard, then, other or ())
BUILD["device"] = lambda place, name, size, *parts: tree.Device(place, name, size, parts)
BUILD["engine"] = lambda place, name, size, device, *parts: tree.Engine(place, name, size, device, parts)


@_rule("order_decode_first")
def _decode_first(place: Place) -> tuple[tree.Expr, ...]:
    """`decode first` is `by (decoding ? 0 : 1)`."""
    return (tree.Cond(place, tree.Name(place, "decoding"), tree.Num(place, 0.0), tree.Num(place, 1.0)),)

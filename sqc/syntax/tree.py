"""The nodes of a program as written: a plain tree, each node with its place in the text.

Nodes are small immutable records made from their annotations: positional or named fields, the
place first. Lists are tuples and absent parts are None, so one pair of functions, `children` and
`rebuild`, serves every traversal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, dataclass_transform

from sqc.diagnostics import Place


@dataclass_transform(eq_default=False, frozen_default=True)
class _Record:
    """Makes records of its subclasses. Not dataclasses: sixty of them would take 60 ms to import."""

    fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls.fields = (*cls.fields, *cls.__annotations__)

    if not TYPE_CHECKING:

        def __init__(self, *values, **named):
            self.__dict__.update(zip(self.fields, values, strict=False), **named)
            assert len(self.__dict__) == len(self.fields), f"{type(self).__name__}{self.fields}"

    def __repr__(self) -> str:
        inner = ", ".join(repr(getattr(self, f)) for f in self.fields[1:])
        return f"{type(self).__name__}({inner})"


class Node(_Record):
    """Base of all nodes: something that stands at a place."""

    place: Place


# --------------------------------------------------------------------------- expressions


class Num(Node):
    value: float


class Text(Node):
    value: str


class Name(Node):
    id: str


class Index(Node):
    """`base[index]`: a member of an array of pools or stages."""

    base: Name
    index: Expr


class Member(Node):
    """`base.name`: a field of a Cost record, `args.number`, or a part of a station."""

    base: Name | Index
    name: Name


class Unary(Node):
    op: str
    x: Expr


class Binary(Node):
    op: str
    x: Expr
    y: Expr


class Cond(Node):
    test: Expr
    then: Expr
    other: Expr


class Call(Node):
    """A function, an observable, a cost or a definition: what it is depends on the name."""

    callee: Ref
    args: tuple[Expr, ...]


class Draw(Node):
    dist: Name
    args: tuple[Expr, ...]


class Aggregate(Node):
    """`max k in n (e)`."""

    fold: str
    name: Name
    count: Expr
    body: Expr


Ref: TypeAlias = Name | Index | Member
Expr: TypeAlias = Num | Text | Ref | Unary | Binary | Cond | Call | Draw | Aggregate


# --------------------------------------------------------------------------- statements


class Block(Node):
    body: tuple[Stmt, ...]


class Turn(Node):
    pass


class End(Node):
    pass


class Set(Node):
    """`set x = e`, `Size x = e` or `Cost x = e`; `word` says which."""

    word: str
    name: Name
    value: Expr


class Field(Node):
    name: Name
    value: Expr


class CostRecord(Node):
    """`Cost c = { s: e1, kv: e2 };`."""

    name: Name
    record: tuple[Field, ...]


class Observe(Node):
    name: Name
    value: Expr


class Branch(Node):
    """`probability`: written `branch with (p)`."""

    guard: Expr
    probability: bool
    then: Block
    other: Block | None


class Loop(Node):
    body: Block


class While(Node):
    guard: Expr
    body: Block


class Choose(Node):
    name: Name
    count: Expr
    keys: tuple[Expr, ...]


class Part(Node):
    """One pool of a hold's header."""

    pool: Ref
    units: Expr
    reserve: Expr | None


class Segment(Node):
    """What a stretch of a context is made of: equal keys, equal content."""

    key: Expr
    length: Expr


class Lease(Node):
    pool: Ref
    time: Expr


class Hold(Node):
    """`header` is the place of everything before the body."""

    header: Place
    parts: tuple[Part, ...]
    prefix: tuple[Segment, ...]
    reuse: Expr | None
    bindings: tuple[Field, ...]
    body: Block
    cache: Expr | None
    lease: Lease | None


class Grow(Node):
    pool: Ref
    amount: Expr


class Load(Node):
    pool: Ref
    amount: Expr


class Checkpoint(Node):
    pool: Ref
    position: Expr


class Drop(Node):
    pool: Ref


class Release(Node):
    pool: Ref


class Run(Node):
    """`mode` is "prefill", "decode" or None; `stages` has several entries for a shared run."""

    stages: tuple[Ref, ...]
    mode: str | None
    work: Expr
    growing: Ref | None


class Serve(Node):
    """`prefill e`, `decode e`, `tool e`: a run on the stage of that name, or the one given."""

    word: str
    index: Expr | None
    on: Ref | None
    work: Expr
    growing: Ref | None


class Transfer(Node):
    index: Expr | None
    on: tuple[Ref, ...]
    work: Expr
    source: Ref
    target: Ref
    units: Expr


class Fork(Node):
    body: Block


class Join(Node):
    pass


class CallStmt(Node):
    """A use of a statement definition."""

    callee: Name
    args: tuple[Expr, ...]


class EntryCall(Node):
    """A station's entry called: `P[i].prefill (n)`, `D.decode (n) from P`, `L.transfer (n) from P to kv (m)`."""

    callee: Ref
    args: tuple[Expr, ...]
    source: Ref | None
    target: Ref | None
    units: Expr | None


class Mark(Node):
    """`mark x`: the moment, in the station's attribute `x`."""

    name: Name


class RunOwn(Node):
    """`run (e)`: on the station's own stage."""

    work: Expr


Stmt: TypeAlias = (
    Turn | End | Set | CostRecord | Observe | Branch | Loop | While | Choose | Hold | Grow | Load | Checkpoint
    | Drop | Release | Run | Serve | Transfer | Fork | Join | CallStmt | EntryCall | Mark | RunOwn
)  # fmt: skip


# --------------------------------------------------------------------------- declarations


class Use(Node):
    path: Text


class Let(Node):
    name: Name
    value: Expr


class Def(Node):
    """An expression definition (`body` an expression) or a statement definition (a block)."""

    name: Name
    params: tuple[Name, ...]
    body: Expr | Block


class Option(Node):
    """One option of a pool, a step stage or an engine, by its words: "cap", "evict by", "iteration", ..."""

    word: str
    values: tuple[Node, ...]


class On(Node):
    """`on OWNER`, or `on ENGINE.DEVICE` with the engine that admits."""

    engine: Name | None
    owner: Name


class Pool(Node):
    name: Name
    size: Expr | None
    on: On | None
    options: tuple[Option, ...]


class Kind(Node):
    """`fifo`, `ps`, `delay`, `step`, or `engine` for a step stage that was written as an engine."""

    word: str
    value: Expr | None
    options: tuple[Option, ...]


class Stage(Node):
    name: Name
    size: Expr | None
    kind: Kind


class StepServe(Node):
    """`serve ...` or `advance running ...`; `order` is None where none is written, () is of admission."""

    only: Expr | None
    order: tuple[Expr, ...] | None
    each: Expr | None


class StepAdmit(Node):
    only: Expr | None
    test: Expr | None
    each: Expr | None


class StepExclusive(Node):
    """`serve exclusive prefill` or `exclusive prefill`."""

    each: Expr | None


class StepBranch(Node):
    guard: Expr
    then: tuple[StepStmt, ...]
    other: tuple[StepStmt, ...]


class StepLet(Node):
    """A value read as the iteration starts."""

    name: Name
    value: Expr


class StepSet(Node):
    """An update of a register."""

    name: Name
    value: Expr


StepStmt: TypeAlias = StepServe | StepAdmit | StepExclusive | StepBranch | StepLet | StepSet


class TimeResource(Node):
    """`compute (t) = e;` of a device."""

    name: Name
    params: tuple[Name, ...]
    value: Expr


class Capacity(Node):
    """`kv cap e;` of a device or engine; `tokens cap e;` of an engine is its budget."""

    name: Name
    size: Expr | None
    value: Expr


class Device(Node):
    """Lowering (sqc/engines) leaves it without parts, only to keep its name."""

    name: Name
    size: Expr | None
    parts: tuple[TimeResource | Capacity, ...]


class Engine(Node):
    """Inside a station it has no name: it is the station's stage."""

    name: Name | None
    size: Expr | None
    device: Name
    parts: tuple[Capacity | Option, ...]


class Arrive(Node):
    word: str
    value: Expr | None


class Trace(Node):
    path: Text
    ordered: bool


class Routine(Node):
    """The `init`, `turn` or `session` block of the workload."""

    word: str
    body: Block


class Hidden(Node):
    names: tuple[Name, ...]


class Request(Node):
    """`request gw;` in the workload: its turns enter this gateway."""

    name: Name


class Workload(Node):
    items: tuple[Arrive | Trace | Routine | Hidden | Request, ...]


class Server(Node):
    body: Block


class Gauge(Node):
    name: Name
    value: Expr


class Claim(Node):
    """`word` is "every", "some" (iterations of `stage`) or "end"."""

    name: Name
    given: Expr | None
    word: str
    stage: Ref | None
    value: Expr


class Share(Node):
    word: str


class StationStage(Node):
    """`serve kind latency e;`: the stage of a station."""

    kind: Kind
    latency: Expr | None


class Nic(Node):
    kind: Kind


class Entry(Node):
    """The statements that one request runs at a station; `source` is the station of its `from`."""

    verb: Name
    params: tuple[Name, ...]
    source: Name | None
    body: Block


class Queue(Node):
    """A station; lowering (sqc/stations) leaves it without items, only to keep its name."""

    name: Name
    size: Expr | None
    roles: tuple[Name, ...]
    items: tuple[Pool | Device | Engine | StationStage | Nic | Entry, ...]


class Relation(Node):
    """`kvt.nixl_pull (P, D, latency = e);`: how the second station reads from the first."""

    verb: Ref
    stations: tuple[Expr, ...]
    options: tuple[Field, ...]
    share: str | None


Item: TypeAlias = (
    Use | Let | Def | Pool | Stage | Workload | Server | Gauge | Claim | Share | Queue | Relation | Device | Engine
)


STATIONS = (Queue, Relation, Request, EntryCall, Mark, RunOwn)  # what only programs with stations have
ENGINES = (Device, Engine, On)  # what only programs with engines have


class Main(Node):
    items: tuple[Item, ...]


class File(Node):
    items: tuple[Use | Let | Def | Main | Workload, ...]


# --------------------------------------------------------------------------- traversal


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below, in the order of the text."""
    for value in node.__dict__.values():
        if isinstance(value, Node):
            yield value
        elif type(value) is tuple:
            yield from (v for v in value if isinstance(v, Node))


def walk(node: Node) -> Iterator[Node]:
    """The node and all nodes below it, parents first, in the order of the text."""
    stack = [node]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(reversed(list(children(top))))


def rebuild(node: Any, change: Callable[[Any, str], Any], place: Callable[[Place], Place] | None = None) -> Any:
    """A copy of a node with `change(child, field)` for each child and `place` for its own places.

    `change` may return a tuple for a child in a list: it is spliced in (a definition's statements).
    A node in which nothing changes is returned itself.
    """
    values: dict[str, Any] = {}
    same = True
    for name, value in node.__dict__.items():
        new = value
        if isinstance(value, Node):
            new = change(value, name)
        elif type(value) is Place:
            new = value if place is None else place(value)
        elif type(value) is tuple:
            made: list[Any] = []
            for v in value:
                one = change(v, name) if isinstance(v, Node) else v
                made.extend(one) if type(one) is tuple else made.append(one)
            if len(made) != len(value) or any(a is not b for a, b in zip(made, value, strict=True)):
                new = tuple(made)
        values[name] = new
        same = same and new is value
    return node if same else type(node)(**values)


def depth(node: Node) -> int:
    """The number of levels of the tree, without recursion."""
    levels, layer = 0, [node]
    while layer:
        levels += 1
        layer = [child for parent in layer for child in children(parent)]
    return levels


def dotted(ref: Node) -> str:
    """A reference as a word for messages: `kv`, `kv[...]`, `c.kv`."""
    match ref:
        case Name(id=name):
            return name
        case Index(base=base):
            return f"{base.id}[...]"
        case Member(base=base, name=name):
            return f"{dotted(base)}.{name.id}"
    return ref.place.text

"""The intermediate representation: one file of frozen dataclasses, versioned, to and from JSON.

The IR is what lowering produces and code generation reads. Names are resolved, definitions are
inlined, constants are folded and every use of an external input is an explicit `Input` node.
It carries no source text but the program's own (for diagnostics of a run) and a span on each
statement. Anything that the language reads textually (`def`, `let`, `branch with`, the implicit
`tool` stage, default `session { turn; }`) is gone by here.

Goal: small, closed, explicit. Non-goals: optimisation (see `passes/`), resume points and slots
(see `codegen/`).
"""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from dataclasses import dataclass, field
from typing import Any, TypeAlias

IR_VERSION = 3

# --------------------------------------------------------------------------- expressions

UNARY_OPS = ("neg", "not", "abs", "floor", "ceil", "sqrt", "exp", "ln")
BINARY_OPS = ("+", "-", "*", "/", "pow", "min", "max", "<", "<=", ">", ">=", "==", "!=")
LAZY_OPS = ("&&", "||")
DISTRIBUTIONS = {"exp": 1, "det": 1, "uniform": 2, "erlang": 2, "h2": 2, "bernoulli": 1}
OBSERVABLES = (
    *("queue", "busy", "work", "used", "free", "cachedin", "holders", "queued"),
    *("est_lambda", "est_rho", "est_wait", "budget_left"),
)
RECORDED = ("cap", "cached", "evicted_entries", "evicted_units", "rejected", "preemptions", "spills")
"""What a recording of a run reads of a pool besides; no program can."""
CONTEXT = (
    *("present", "waited", "size", "age", "last", "waiting", "admission", "decoding", "position"),
    *("residents", "decoders", "kv_decode", "kv_prefill", "remaining", "tokens", "prefilled", "attention"),
    *("preempted", "admitted", "queued", "demand", "served", "arrived"),
)
TOTALS = ("total", "count", "largest", "smallest", "prefix_total")


@dataclass(frozen=True)
class Const:
    """A number. `inf` is written as the string "inf" in JSON."""

    value: float


@dataclass(frozen=True)
class Input:
    """The run-time value of an external input (`args.number`), by its external name."""

    name: str


@dataclass(frozen=True)
class Attr:
    """An attribute of the session, by name (built in: `serial`, `turn_no`, `cached`, `computed`)."""

    name: str


@dataclass(frozen=True)
class Now:
    """The clock."""


@dataclass(frozen=True)
class Unary:
    op: str
    x: Expr


@dataclass(frozen=True)
class Binary:
    """A strict operator: the left side is evaluated, then the right."""

    op: str
    x: Expr
    y: Expr


@dataclass(frozen=True)
class Lazy:
    """`&&` and `||`: the right side is evaluated (and draws) only when it decides."""

    op: str
    x: Expr
    y: Expr


@dataclass(frozen=True)
class Cond:
    """`test ? then : other`: only the taken arm is evaluated (and draws)."""

    test: Expr
    then: Expr
    other: Expr


@dataclass(frozen=True)
class Draw:
    """A random draw. Arguments are evaluated left to right before the draw."""

    dist: str
    args: tuple[Expr, ...]


@dataclass(frozen=True)
class Ref:
    """A pool or a stage; `index` picks the member of an array (None: the resource is no array)."""

    name: str
    index: Expr | None = None


@dataclass(frozen=True)
class Read:
    """An observable of live state: `queue(s)`, `used(p[j])`, ..."""

    kind: str
    ref: Ref


@dataclass(frozen=True)
class Price:
    """`price(s, held, extra)` of a stage's estimates."""

    ref: Ref
    held: Expr
    extra: Expr


@dataclass(frozen=True)
class Context:
    """A variable of the moment: `present`, `waited`, `size`, `age`, ..."""

    name: str


@dataclass(frozen=True)
class Total:
    """Over all samples of an observation, in a claim at the end: `total(o)`, `count(o)`, ..."""

    kind: str
    observe: str


Expr: TypeAlias = Const | Input | Attr | Now | Unary | Binary | Lazy | Cond | Draw | Read | Price | Context | Total


# --------------------------------------------------------------------------- statements


@dataclass(frozen=True)
class Span:
    """Where a statement stands: 1-based line and column, end exclusive."""

    line: int
    col: int
    end_line: int
    end_col: int


@dataclass(frozen=True)
class Set:
    name: str
    value: Expr
    span: Span | None = None


@dataclass(frozen=True)
class Observe:
    name: str
    value: Expr
    span: Span | None = None


@dataclass(frozen=True)
class Branch:
    """`guard` must come out 1 (then) or 0 (other); a `bernoulli` draw always does."""

    guard: Expr
    then: tuple[Stmt, ...]
    other: tuple[Stmt, ...] = ()
    span: Span | None = None


@dataclass(frozen=True)
class Loop:
    body: tuple[Stmt, ...]
    span: Span | None = None


@dataclass(frozen=True)
class While:
    guard: Expr
    body: tuple[Stmt, ...]
    span: Span | None = None


@dataclass(frozen=True)
class Turn:
    """One interaction: marks are drawn, then the whole server block runs."""

    span: Span | None = None


@dataclass(frozen=True)
class End:
    span: Span | None = None


@dataclass(frozen=True)
class Run:
    """A job of `work` on a stage; zero work completes at once.

    On a step stage `mode` is "prefill" or "decode" and `growing` the pool whose hold grows with it.
    """

    stage: Ref
    work: Expr
    span: Span | None = None
    mode: str = ""
    growing: Ref | None = None


@dataclass(frozen=True)
class Flow:
    """One job of `work` that holds several ps stages at once; its rate is set by the program's `share`."""

    stages: tuple[Ref, ...]
    work: Expr
    span: Span | None = None


@dataclass(frozen=True)
class Choose:
    """`name` becomes the index in 0 .. count-1 with the lexicographically least keys."""

    name: str
    count: Expr
    keys: tuple[Expr, ...]
    span: Span | None = None


@dataclass(frozen=True)
class Part:
    """One pool of a hold.

    `refusable` is what rejection looks at: the larger of the units and the reserve, less what reads
    live state (None when both do).
    """

    pool: Ref
    units: Expr
    reserve: Expr | None = None
    refusable: Expr | None = None


@dataclass(frozen=True)
class Segment:
    """A stretch of a context: two contexts share their leading segments of equal keys, up to the shorter length of
    the first that differ in it."""

    key: Expr
    length: Expr


@dataclass(frozen=True)
class Lease:
    """At the scope's end the allocation of part number `part` stays the session's for `time`."""

    part: int
    time: Expr


@dataclass(frozen=True)
class Hold:
    """Units of one or more pools around a body; `cache` keeps a prefix at the end of the scope.

    `prefix` says what the context is made of (none: of the session alone, whatever its length).
    `at admission` bindings are gone by here: substituted in the header, set at the top of the body
    where the body reads them.
    """

    parts: tuple[Part, ...]
    body: tuple[Stmt, ...]
    cache: Expr | None = None
    reuse: Expr | None = None
    lease: Lease | None = None
    span: Span | None = None
    prefix: tuple[Segment, ...] = ()


@dataclass(frozen=True)
class Grow:
    pool: Ref
    amount: Expr
    span: Span | None = None


@dataclass(frozen=True)
class Load:
    pool: Ref
    amount: Expr
    span: Span | None = None


@dataclass(frozen=True)
class Checkpoint:
    """A pool with one history can be resumed at this position of the context from now on."""

    pool: Ref
    position: Expr
    span: Span | None = None


@dataclass(frozen=True)
class Release:
    pool: Ref
    span: Span | None = None


@dataclass(frozen=True)
class Drop:
    pool: Ref
    span: Span | None = None


@dataclass(frozen=True)
class Fork:
    body: tuple[Stmt, ...]
    span: Span | None = None


@dataclass(frozen=True)
class Join:
    span: Span | None = None


Stmt: TypeAlias = (
    Set
    | Observe
    | Branch
    | Loop
    | While
    | Turn
    | End
    | Run
    | Flow
    | Choose
    | Hold
    | Grow
    | Load
    | Checkpoint
    | Release
    | Drop
    | Fork
    | Join
)


# --------------------------------------------------------------------------- the program


@dataclass(frozen=True)
class InputDecl:
    """An external input: its name outside, its default, the `let` that declares it."""

    name: str
    default: float
    let: str
    span: Span | None = None


@dataclass(frozen=True)
class Spill:
    """Evicted units move to `pool` with a job of `work` on `stage`, when `when` is not 0."""

    pool: Ref
    stage: Ref
    work: Expr
    when: Expr


@dataclass(frozen=True)
class Pool:
    """`cap` and `block` in units (inputs and constants only); `size` members if it is an array.

    Empty `evict` is least recently used, empty `queue` first in first out.
    """

    name: str
    cap: Expr
    size: int | None = None
    block: Expr | None = None
    evict: tuple[Expr, ...] = ()
    queue: tuple[Expr, ...] = ()
    preempt: str = "none"  # "none", "lifo" or "by"
    preempt_keys: tuple[Expr, ...] = ()
    requeue: str = "head"  # "head" or "tail"
    reserve_held: bool = False
    spill: Spill | None = None
    span: Span | None = None
    admit_via: Ref | None = None
    slots: Expr | None = None
    """Checkpoints that it keeps, of a pool with one history (None: it has entries)."""
    retain: str = "lru"  # "lru" (the root is pinned) or "fifo"


@dataclass(frozen=True)
class Fifo:
    servers: Expr = field(default_factory=lambda: Const(1.0))


@dataclass(frozen=True)
class Ps:
    """Processor sharing: all jobs together get `capacity`, an expression over `Context("present")`."""

    capacity: Expr


@dataclass(frozen=True)
class Delay:
    pass


# Statements of one iteration of a step stage.


@dataclass(frozen=True)
class Serve:
    """Go through the residents in the order of `keys` (none: of admission); those for which `only` is 0 get nothing."""

    keys: tuple[Expr, ...] = ()
    only: Expr | None = None


@dataclass(frozen=True)
class Admit:
    """Admit from the queues that the stage admits while `test` is not 0; each newcomer is served if `only` is not 0."""

    only: Expr | None = None
    test: Expr | None = None


@dataclass(frozen=True)
class ServeExclusive:
    """`serve exclusive prefill`: the first prefill alone, or the decodes with admissions that may displace them."""


@dataclass(frozen=True)
class StepBranch:
    guard: Expr
    then: tuple[StepStmt, ...]
    other: tuple[StepStmt, ...] = ()


@dataclass(frozen=True)
class StepLet:
    """A value read once as the iteration starts; expressions read it as `Context(name)`."""

    name: str
    value: Expr


@dataclass(frozen=True)
class StepSet:
    """A register of the stage; expressions read it as `Context(name)`."""

    name: str
    value: Expr


StepStmt: TypeAlias = Serve | Admit | ServeExclusive | StepBranch | StepLet | StepSet


@dataclass(frozen=True)
class Step:
    """Iterations over resident requests. `budget` and `chunk` in tokens (chunk 0: no cap), `cost` in clock units.

    `registers` are names with their first values. `memory` is the pool of `kv_decode`, `kv_prefill` and of
    the candidates for preemption. `body` is what one iteration does.
    """

    budget: Expr
    cost: Expr
    body: tuple[StepStmt, ...]
    chunk: Expr = field(default_factory=lambda: Const(0.0))
    memory: Ref | None = None
    granule: Expr | None = None
    registers: tuple[tuple[str, Expr], ...] = ()


@dataclass(frozen=True)
class Stage:
    name: str
    kind: Fifo | Ps | Delay | Step
    size: int | None = None
    span: Span | None = None


@dataclass(frozen=True)
class Poisson:
    rate: Expr
    span: Span | None = None


@dataclass(frozen=True)
class Renewal:
    gap: Expr
    span: Span | None = None


@dataclass(frozen=True)
class Closed:
    n: Expr
    span: Span | None = None


@dataclass(frozen=True)
class Batch:
    n: Expr
    span: Span | None = None


@dataclass(frozen=True)
class NoArrivals:
    pass


Arrival: TypeAlias = Poisson | Renewal | Closed | Batch | NoArrivals


@dataclass(frozen=True)
class Trace:
    """A corpus of n sessions: session k has rows `starts[k] .. starts[k + 1] - 1` of (new, out, think,
    forced); `starts` has n + 1 entries."""

    ordered: bool
    starts: tuple[int, ...]
    rows: tuple[tuple[float, float, float, float], ...]


@dataclass(frozen=True)
class ObserveDecl:
    """One row of the observe table; `test` when every value is a test (comparison, &&, ||, !)."""

    name: str
    test: bool = False


@dataclass(frozen=True)
class Gauge:
    name: str
    value: Expr
    span: Span | None = None


@dataclass(frozen=True)
class Claim:
    """A claim at the end of the run ("at_end"), or of iterations of `stage` ("every_iteration", "some_iteration").

    `given` is read for each session after its init.
    """

    name: str
    value: Expr
    given: Expr | None = None
    span: Span | None = None
    kind: str = "at_end"
    stage: Ref | None = None


@dataclass(frozen=True)
class Program:
    """A whole program.

    `attributes` are the names the program assigns, in order of appearance (with a trace also its
    columns). `observes` are in the order in which their statements stand in the text. `share` is
    how flows over several ps stages get their rates: "maxmin", "bottleneck" or "". `source` and
    `file` serve diagnostics only.
    """

    inputs: tuple[InputDecl, ...]
    attributes: tuple[str, ...]
    pools: tuple[Pool, ...]
    stages: tuple[Stage, ...]
    arrival: Arrival
    init: tuple[Stmt, ...]
    turn: tuple[Stmt, ...]
    session: tuple[Stmt, ...]
    server: tuple[Stmt, ...]
    observes: tuple[ObserveDecl, ...]
    gauges: tuple[Gauge, ...] = ()
    claims: tuple[Claim, ...] = ()
    share: str = ""
    trace: Trace | None = None
    file: str = "<program>"
    source: str = field(default="", repr=False)
    version: int = IR_VERSION


Node: TypeAlias = Any

_NODES: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        *(Const, Input, Attr, Now, Unary, Binary, Lazy, Cond, Draw, Ref, Read, Price, Context, Total),
        *(Span, Set, Observe, Branch, Loop, While, Turn, End, Run, Flow, Choose, Part, Lease, Hold),
        *(Segment, Grow, Load, Checkpoint, Release, Drop, Fork, Join, InputDecl, Spill, Pool, Fifo, Ps, Delay, Stage),
        *(Serve, Admit, ServeExclusive, StepBranch, StepLet, StepSet, Step),
        *(Poisson, Renewal, Closed, Batch, NoArrivals, Trace, ObserveDecl, Gauge, Claim, Program),
    )
}


class IRError(ValueError):
    """A JSON text is not the IR of a program: wrong version, unknown node, missing field."""


# --------------------------------------------------------------------------- JSON


def to_json(program: Program, indent: int | None = 1) -> str:
    """The program as JSON text; `from_json` reads it back to an equal program."""
    return json.dumps(_encode(program), indent=indent, allow_nan=False)


def from_json(text: str) -> Program:
    """Read a program back. Raises `IRError` with one line that says what is wrong."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: no JSON, or a number of thousands of digits
        raise IRError(f"not JSON: {error}") from None
    if not isinstance(data, dict) or data.get("node") != "Program":
        raise IRError("not an IR file: no object with node 'Program' at the top")
    if data.get("version") != IR_VERSION:
        raise IRError(f"IR version {data.get('version')!r}; this build reads version {IR_VERSION}")
    program = _decode(data, "program")
    assert isinstance(program, Program)
    return program


def _encode(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        if isinstance(value, Span):
            return {"node": "Span", "at": [value.line, value.col, value.end_line, value.end_col]}
        out: dict[str, Any] = {"node": type(value).__name__}
        for f in dataclasses.fields(value):
            out[f.name] = _encode(getattr(value, f.name))
        return out
    if isinstance(value, tuple):
        return [_encode(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "inf" if value > 0 else "-inf" if value < 0 else "nan"
    return value


def _decode(data: Any, where: str) -> Any:
    if isinstance(data, list):
        return tuple(_decode(v, where) for v in data)
    if not isinstance(data, dict):
        return data
    kind = data.get("node")
    cls = _NODES.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise IRError(f"unknown node {kind!r} in {where}")
    if cls is Span:
        at = data.get("at")
        if not (isinstance(at, list) and len(at) == 4 and all(isinstance(n, int) for n in at)):
            raise IRError(f"bad span in {where}")
        return Span(*at)
    values: dict[str, Any] = {}
    hints = typing.get_type_hints(cls)
    for f in dataclasses.fields(cls):
        if f.name not in data:
            if f.default is dataclasses.MISSING:
                raise IRError(f"{kind} in {where} has no field {f.name!r}")
            continue
        value = _decode(data[f.name], f"{where}.{f.name}")
        if hints[f.name] is float:
            try:
                value = float(value)
            except (TypeError, ValueError):
                raise IRError(f"{kind}.{f.name} in {where} is no number") from None
        values[f.name] = value
    return cls(**values)


def walk(node: Node) -> typing.Iterator[Node]:
    """Every IR node below and including `node`, parents first, in field order."""
    stack = [node]
    while stack:
        top = stack.pop()
        if isinstance(top, tuple):
            stack.extend(reversed(top))
        elif dataclasses.is_dataclass(top) and not isinstance(top, Span):
            yield top
            stack.extend(getattr(top, f.name) for f in reversed(dataclasses.fields(top)))

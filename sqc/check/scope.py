"""What a program declares: constants, pools, stages, attributes, observations, and its parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sqc import ir
from sqc.check.constants import Constant
from sqc.check.language import STEP_KINDS
from sqc.diagnostics import Place
from sqc.syntax import tree


def family(ref: tree.Node) -> str:
    """The pool or stage that a reference is of."""
    match ref:
        case tree.Name(id=name) | tree.Index(base=tree.Name(id=name)):
            return name
    return "?"


@dataclass(eq=False, repr=False)
class Resource:
    """A pool or a stage; `size` is None for a single one."""

    item: tree.Pool | tree.Stage
    size: int | None

    @property
    def place(self) -> Place:
        return self.item.name.place

    def options(self, word: str) -> Iterator[tree.Option]:
        """A pool's options of one word."""
        options = self.item.options if isinstance(self.item, tree.Pool) else self.item.kind.options
        return (o for o in options if o.word == word)

    @property
    def preemption(self) -> tree.Option | None:
        """What says that a pool preempts holds (None: it does not)."""
        options = self.item.options if isinstance(self.item, tree.Pool) else ()
        return next((o for o in options if o.word.startswith("preempt") and o.word != "preempt none"), None)

    @property
    def is_step(self) -> bool:
        return isinstance(self.item, tree.Stage) and self.item.kind.word in STEP_KINDS


@dataclass(eq=False, repr=False)
class Attribute:
    """An attribute: where it is first assigned, and by whom.

    `owner` is "workload", "server", "language", or "hold" for a name bound `at admission`.
    """

    place: Place | None
    owner: str


@dataclass(frozen=True)
class Register:
    """A register of a step stage."""

    place: Place
    stage: str


@dataclass(eq=False, repr=False)
class Scope:
    """A whole program, expanded. Everything is in the order of the text."""

    items: list[tree.Item] = field(default_factory=list)
    constants: dict[str, Constant] = field(default_factory=dict)
    inputs: dict[str, ir.InputDecl] = field(default_factory=dict)
    pools: dict[str, Resource] = field(default_factory=dict)
    stages: dict[str, Resource] = field(default_factory=dict)
    attributes: dict[str, Attribute] = field(default_factory=dict)
    records: dict[str, tree.CostRecord] = field(default_factory=dict)
    registers: dict[str, Register] = field(default_factory=dict)
    lets: set[str] = field(default_factory=set)  # what schedules read as an iteration starts, under long names
    observations: dict[str, list[tree.Observe]] = field(default_factory=dict)
    arrive: tree.Arrive | None = None
    trace: tree.Trace | None = None
    corpus: ir.Trace | None = None
    init: tree.Block | None = None
    turn: tree.Block | None = None
    session: tree.Block | None = None
    hidden: dict[str, Place] = field(default_factory=dict)
    server: tree.Block | None = None
    gauges: list[tree.Gauge] = field(default_factory=list)
    claims: list[tree.Claim] = field(default_factory=list)
    shares: list[tree.Share] = field(default_factory=list)
    workload: tree.Workload | None = None

    @property
    def resources(self) -> dict[str, Resource]:
        return {**self.pools, **self.stages}

    def played(self, node: tree.Serve) -> tree.Ref:
        """The stage of a service statement: the one given, that of its word, or the only step stage."""
        if node.on is not None:
            return node.on
        name = node.word
        if name not in self.stages and name != "tool":
            steps = [stage for stage, declared in self.stages.items() if declared.is_step]
            name = steps[0] if len(steps) == 1 else name
        at = tree.Name(node.place._replace(end=node.place.start + len(node.word)), name)
        return at if node.index is None else tree.Index(node.index.place, at, node.index)

    def admitting(self, pool: str) -> str | None:
        """The step stage that admits to a pool."""
        for option in self.pools[pool].options("admit via") if pool in self.pools else ():
            return family(option.values[0])
        return None

    def blocks(self) -> Iterator[tuple[str, tree.Block]]:
        """The four statement blocks that exist, by name."""
        for name, block in (("init", self.init), ("turn", self.turn), ("session", self.session)):
            if block is not None:
                yield name, block
        if self.server is not None:
            yield "server", self.server

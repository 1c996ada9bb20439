"""What a program declares: constants, pools, stages, attributes, observations, and its parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sqc import ir
from sqc.check.constants import Constant
from sqc.diagnostics import Place
from sqc.syntax import tree


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
    def is_step(self) -> bool:
        return isinstance(self.item, tree.Stage) and self.item.kind.word == "step"


@dataclass(eq=False, repr=False)
class Attribute:
    """An attribute: where it is first assigned, and by whom.

    `owner` is "workload", "server", "language", or "hold" for a name bound `at admission`.
    """

    place: Place | None
    owner: str


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

    def blocks(self) -> Iterator[tuple[str, tree.Block]]:
        """The four statement blocks that exist, by name."""
        for name, block in (("init", self.init), ("turn", self.turn), ("session", self.session)):
            if block is not None:
                yield name, block
        if self.server is not None:
            yield "server", self.server

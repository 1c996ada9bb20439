"""What the pieces of a generated program may refer to: pools, stages, attributes, and where a statement stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from generating.pieces import Piece
from generating.profiles import Pick

#: Sizes that the workload owns. `n` and `m` are units (1..5 and 0..3), `w` is work, `pri` a class (0..2), `K` the
#: context that grows from turn to turn.
SIZES = ("n", "m", "w", "pri", "K")


@dataclass(frozen=True)
class Resource:
    """A pool or a stage; `size` members if it is an array."""

    name: str
    size: int | None = None


@dataclass(frozen=True)
class Pool(Resource):
    """`owner`: the device or engine that the pool is on, which has its cap."""

    cap: int = 10
    preempts: bool = False
    owner: str | None = None


@dataclass(frozen=True)
class Stage(Resource):
    kind: str = "fifo"
    shared: bool = False


@dataclass(frozen=True)
class Engine(Resource):
    """A step engine on a device of as many members, with the pool on that device and those on itself."""

    device: str = ""
    memory: Pool | None = None
    slots: tuple[Pool, ...] = ()


@dataclass
class Held:
    """A pool of an enclosing hold, by the text that names it; `units` is an expression that can be read again."""

    ref: str
    pool: Pool
    units: str
    caches: bool
    released: bool = False
    loads: int = 0


@dataclass(frozen=True)
class Place:
    """Where a statement stands. `cached` may be read only in the body of a hold that caches, outside nested holds."""

    depth: int = 0
    held: tuple[Held, ...] = ()
    leg: bool = False
    looping: bool = False
    cached: bool = False

    @property
    def preempted(self) -> bool:
        """Whether an enclosing hold may run again from its start."""
        return any(one.pool.preempts for one in self.held)


#: Makes one statement of a kind, with what belongs to it.
Statement: TypeAlias = "Callable[[World, Place], list[Piece]]"


@dataclass
class World:
    """A program in the making. `whole`: works, gaps and units are whole numbers, so that events tie all the time.

    `weighs`: decisions may read `work(s)`. The reference adds the works of the jobs in an order that
    changes from run to run, so the last bit is not defined, and where two sums tie its own runs differ.

    `more` are kinds of statements, by name, beside those of every program; `stations` make the call of one each, and
    `outside` are texts that read the state of stations.
    """

    pick: Pick
    on: frozenset[str]
    whole: bool
    members: int = 2
    weighs: bool = False
    pools: list[Pool] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    engines: list[Engine] = field(default_factory=list)
    observes: list[str] = field(default_factory=list)
    leases: list[str] = field(default_factory=list)
    counter: int = 0
    budget: int = 14
    chosen: bool = False
    more: dict[str, Statement] = field(default_factory=dict)
    stations: list[Callable[[World], list[Piece]]] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)

    @property
    def servers(self) -> list[Stage | Engine]:
        """Whatever jobs run on."""
        return [*self.stages, *self.engines]

    @property
    def arrays(self) -> list[Resource]:
        """The families of pools, stages and engines."""
        return [one for one in (*self.pools, *self.servers) if one.size is not None]

    @property
    def slots(self) -> list[Pool]:
        """The pools on engines: a few units each."""
        return [pool for engine in self.engines for pool in engine.slots]

    def has(self, feature: str, percent: int = 100) -> bool:
        return feature in self.on and self.pick.chance(percent)

    def fresh(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def observe(self) -> str:
        name = self.fresh("seen")
        self.observes.append(name)
        return name

    def ref(self, resource: Resource, *, constant: bool = False) -> str:
        """A text that names the resource, or one member of it."""
        if resource.size is None:
            return resource.name
        indices = [str(k) for k in range(resource.size)]
        if not constant:
            indices += [f"serial - {resource.size} * floor(serial / {resource.size})"]
            indices += ["j"] * (3 * self.chosen) + ["n > 2"] * (resource.size > 1)
        return f"{resource.name}[{self.pick.one(indices)}]"

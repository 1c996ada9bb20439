"""A station as declared: its roles, its parts and their long names, its entries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from sqc.check.reads import assigned
from sqc.diagnostics import Place
from sqc.syntax import tree


class Verb(NamedTuple):
    """The entry of a role: its name, how many parameters it has, whether it may have a `from`."""

    name: str
    params: int
    sourced: bool = False


ROLES = {
    "gateway": Verb("route", 0),
    "prefill": Verb("prefill", 1),
    "decode": Verb("decode", 1, sourced=True),
    "link": Verb("transfer", 1),
}

# Stand for what only a call knows; no name of a program looks like these.
SELF = "<self>"
SOURCE = "<source>"


def parameter(name: str) -> str:
    """The name that stands for a parameter in a body made ready for calls."""
    return f"<{name}>"


class Way(NamedTuple):
    """How a reader copies from a source: the relation's latency, if any, is waited at the NIC of one of them."""

    place: Place
    latency: tree.Expr | None
    waits: Station


@dataclass(eq=False, repr=False)
class Station:
    """`entries` are by verb and by whether they have a `from`; `ways` by the name of the source."""

    item: tree.Queue
    pools: dict[str, tree.Pool] = field(default_factory=dict)
    devices: dict[str, tree.Device] = field(default_factory=dict)
    engine: tree.Engine | None = None
    nic: tree.Nic | None = None
    stage: tree.StationStage | None = None
    entries: dict[tuple[str, bool], tree.Entry] = field(default_factory=dict)
    ways: dict[str, Way] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.item.name.id

    @property
    def place(self) -> Place:
        return self.item.name.place

    @property
    def is_family(self) -> bool:
        return self.item.size is not None

    @property
    def roles(self) -> frozenset[str]:
        return frozenset(role.id for role in self.item.roles)

    @property
    def latency(self) -> tree.Expr | None:
        """The fixed wait of a link."""
        return self.stage.latency if self.stage is not None else None

    @property
    def served(self) -> tree.StationStage | tree.Engine | None:
        """What makes the station's own stage."""
        return self.engine if self.stage is None else self.stage

    @property
    def registers(self) -> frozenset[str]:
        """The registers of its engine."""
        states = (p for p in (self.engine.parts if self.engine else ()) if isinstance(p, tree.Option))
        names = (option.values[0] for option in states if option.word == "state")
        return frozenset(name.id for name in names if isinstance(name, tree.Name))

    def has(self, part: str) -> bool:
        """Is there a pool or a stage `NAME.part`? The station's own stage is the empty part."""
        present = {"": self.served, "nic": self.nic, "latency": self.latency}
        return part in self.pools or present.get(part) is not None

    def long(self, part: str) -> str:
        return f"{self.name}.{part}" if part else self.name

    def ref(self, part: str, place: Place, index: tree.Expr | None) -> tree.Name | tree.Index:
        """A reference to a pool or stage of the station; `index` is the member of a family."""
        name = tree.Name(place, self.long(part))
        return name if index is None else tree.Index(place, name, index)

    def attributes(self) -> Iterator[str]:
        """What its entries set (a gateway's are the program's own) and mark."""
        for entry in self.entries.values():
            if entry.verb.id != "route":
                yield from (name.id for name in assigned(entry.body))
            yield from (node.name.id for node in tree.walk(entry.body) if isinstance(node, tree.Mark))


def label(station: Station, entry: tree.Entry) -> str:
    """An entry in messages: `P.prefill`."""
    return f"{station.name}.{entry.verb.id}"

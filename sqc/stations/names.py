"""Names of stations in the program around them: `P[i].kv`, `P.nic`, `P.first_token`, `L.latency`."""

from __future__ import annotations

from collections.abc import Callable

from sqc.diagnostics import Note, Reporter, nearest
from sqc.stations.model import Station
from sqc.syntax import tree

# Fields that name the pool a statement takes from, gives to or gives back.
TAKEN = ("pool", "growing", "source", "target")


def station_of(ref: tree.Node, stations: dict[str, Station]) -> Station | None:
    """The station that `P.x` or `P[i].x` is of."""
    if not isinstance(ref, tree.Member):
        return None
    base = ref.base.base if isinstance(ref.base, tree.Index) else ref.base
    return stations.get(base.id)


class Names:
    """Resolves what the program, outside of all stations, calls a station's."""

    def __init__(self, stations: dict[str, Station], reporter: Reporter) -> None:
        self.stations = stations
        self.reporter = reporter
        self.attributes = {name: frozenset(station.attributes()) for name, station in stations.items()}

    def member(self, node: tree.Member, field: str, change: Callable[[tree.Expr], tree.Expr]) -> tree.Ref:
        """`P.x` as a reference or an attribute; `change` is for the index."""
        station = station_of(node, self.stations)
        assert station is not None
        part = node.name.id
        index = node.base.index if isinstance(node.base, tree.Index) else None
        if part and station.has(part):
            if field in TAKEN and part in station.pools:
                self.taken(station, node)
            return station.ref(part, node.place, None if index is None else change(index))
        if part in station.registers and index is None:
            return tree.Name(node.place, station.long(part))
        if part not in self.attributes[station.name]:
            known = [*station.pools, *self.attributes[station.name]]
            message = f"the station `{station.name}` has no pool `{part}`, and no entry of it marks or sets `{part}`"
            notes = [Note("the station is declared here", station.place)]
            self.reporter.error("E601", message, node.name.place, nearest(part, known), notes)
        elif index is not None:
            message = f"`{station.name}.{part}` belongs to the request, to no member of `{station.name}`"
            self.reporter.error("E602", message, node.place, f"write {station.name}.{part}")
        return tree.Name(node.place, station.long(part))

    def taken(self, station: Station, node: tree.Member) -> None:
        message = f"`{node.name.id}` is a pool of the station `{station.name}`: only its entries hold and release it"
        verbs = sorted({verb for verb, _ in station.entries})
        advice = f"call one: {station.name}.{verbs[0]} (...)" if verbs else None
        self.reporter.error("E607", message, node.place, advice)

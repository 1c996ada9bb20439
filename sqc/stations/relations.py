"""Relations between stations: who reads from whom, over which NICs, after which wait."""

from __future__ import annotations

from collections.abc import Collection

from sqc.check.constants import Constants
from sqc.diagnostics import Note, Place, Reporter, nearest
from sqc.stations.model import Station, Way
from sqc.syntax import tree

# Which side posts a copy, and so waits the latency at its NIC.
_KINDS = {"kvt.nixl_pull": "reader", "kvt.nixl_push": "source", "pull": "reader"}


class Relations:
    """Reads the relations of a program in order, each after the two stations it names."""

    def __init__(self, constants: Constants, uses: Collection[str], shared: bool, reporter: Reporter) -> None:
        self.constants = constants
        self.uses = uses
        self.shared = shared  # the program says how flows share stages
        self.reporter = reporter

    def read(self, item: tree.Relation, above: dict[str, Station]) -> list[tree.Item]:
        """Enter a relation; the declarations that it stands for."""
        verb = tree.dotted(item.verb)
        kind = _KINDS.get(verb)
        if kind is None:
            self.error(f"unknown declaration `{verb}`", item.verb.place, nearest(verb, _KINDS))
            return []
        if verb != "pull" and "std/kvt" not in self.uses:
            self.error(f"`{verb}` is not available here", item.verb.place, 'the program must say: use "std/kvt";')
            return []
        latency = self.latency(item)
        pair = self.pair(item, above)
        if pair is None:
            return []
        source, reader = pair
        if not self.related(item, source, reader):
            return []
        waits = reader if kind == "reader" else source
        reader.ways[source.name] = Way(item.place, latency, waits)
        made: list[tree.Item] = []
        if latency is not None:
            name = tree.Name(item.place, waits.long("nic.latency"))
            made.append(tree.Stage(item.place, name, waits.item.size, tree.Kind(item.place, "delay", None, ())))
        if item.share is not None:
            made.append(tree.Share(item.place, item.share))
        return made

    def error(self, message: str, place: Place, advice: str | None = None, notes: Collection[Note] = ()) -> None:
        self.reporter.error("E609", message, place, advice, notes)

    def latency(self, item: tree.Relation) -> tree.Expr | None:
        found: tree.Expr | None = None
        for option in item.options:
            if option.name.id != "latency":
                advice = nearest(option.name.id, ["latency"])
                self.error(f"a relation has no `{option.name.id}`", option.name.place, advice)
            elif found is not None:
                self.error("`latency` is given twice", option.name.place)
            elif self.constants.evaluate(option.value) is not None:
                found = option.value
        return found

    def pair(self, item: tree.Relation, above: dict[str, Station]) -> tuple[Station, Station] | None:
        """The source and the reader, or None after saying what is wrong with them."""
        if len(item.stations) != 2:
            message = f"a relation is between two stations, the source and the reader, not {len(item.stations)}"
            self.error(message, item.place, "write kvt.nixl_pull (SOURCE, READER, latency = ...);")
            return None
        found: list[Station] = []
        for name in item.stations:
            station = above.get(name.id) if isinstance(name, tree.Name) else None
            if station is None:
                shown = name.place.text
                self.error(f"no station `{shown}` is declared above", name.place, nearest(shown, above))
            elif station.nic is None:
                notes = [Note("declared here", station.place)]
                self.error(
                    f"the station `{station.name}` has no `nic`: nothing carries a copy", name.place, None, notes
                )
            else:
                found.append(station)
        return (found[0], found[1]) if len(found) == 2 else None

    def related(self, item: tree.Relation, source: Station, reader: Station) -> bool:
        entry = reader.entries.get(("decode", True))
        if entry is None or entry.source is None or entry.source.id != source.name:
            notes = [Note("declared here", reader.place)]
            message = f"`{reader.name}` has no entry `decode ... from {source.name}`: nothing reads what this copies"
            self.error(message, item.place, "the source comes first, then the reader", notes)
            return False
        if source.name in reader.ways:
            notes = [Note("declared here", reader.ways[source.name].place)]
            self.error(f"`{reader.name}` reads from `{source.name}` already", item.place, None, notes)
            return False
        if not self.shared and item.share is None:
            message = "reads divide the NICs among them, and the program does not say how"
            self.error(message, item.place, "write share maxmin; or share bottleneck;")
        return True

"""Calls of entries: each becomes the entry's body, with the arguments in place of the parameters."""

from __future__ import annotations

from typing import Any

from sqc.check.substitution import Substitution
from sqc.diagnostics import Called, Note, Reporter, nearest
from sqc.stations import transfers
from sqc.stations.model import SELF, SOURCE, Station, label, parameter
from sqc.syntax import tree
from sqc.syntax.parse import MAX_DEPTH


class Calls:
    """The entries of all stations, ready for use, and their inlining."""

    def __init__(self, stations: dict[str, Station], reporter: Reporter) -> None:
        self.stations = stations
        self.reporter = reporter
        self.copies = Substitution(reporter)
        self.bodies: dict[int, tree.Block] = {}  # by the identity of the entry

    def prepare(self, bodies: dict[int, tree.Block]) -> None:
        """Inline the calls that bodies make of each other, the called ones first."""
        waiting = dict(bodies)
        while waiting:
            ready = [key for key, body in waiting.items() if not self.called(body) & waiting.keys()]
            if not ready:
                self.cycle(waiting)
                return
            for key in ready:
                self.bodies[key] = self.inline(waiting.pop(key))

    def called(self, body: tree.Node) -> set[int]:
        """The entries that a body calls, as far as they exist."""
        found = set()
        for node in tree.walk(body):
            if isinstance(node, tree.EntryCall) and isinstance(node.callee, tree.Member):
                base = node.callee.base.base if isinstance(node.callee.base, tree.Index) else node.callee.base
                station = self.stations.get(base.id)
                entry = self.entry(station, node) if station is not None else None
                found.add(id(entry))
        return found

    def cycle(self, waiting: dict[int, tree.Block]) -> None:
        for body in waiting.values():
            for node in tree.walk(body):
                if isinstance(node, tree.EntryCall) and self.called(node) & waiting.keys():
                    place = node.callee.place
                    self.reporter.error("E612", "the entries of stations call each other in a circle", place)
                    return

    def inline(self, node: Any, _field: str = "") -> Any:
        """The tree with every call replaced by what it runs."""
        made = tree.rebuild(node, self.inline)
        if not isinstance(made, tree.EntryCall):
            return made
        body = self.call(made)
        for statement in body:
            if tree.depth(statement) > MAX_DEPTH:
                message = f"this call makes more than {MAX_DEPTH} levels of nesting"
                self.reporter.fatal("E105", message, made.place)
        return body

    def call(self, node: tree.EntryCall) -> tuple[tree.Stmt, ...]:
        """The statements of one call; none after an error."""
        before = len(self.reporter)
        found = self.find(node)
        if found is None:
            return ()
        station, entry = found
        self.arguments(node, station, entry)
        values: dict[str, tree.Expr] = {
            parameter(p.id): argument for p, argument in zip(entry.params, node.args, strict=False)
        }
        assert isinstance(node.callee, tree.Member)
        self.member(node.callee.base, station, values, SELF)
        if node.target is None and node.source is not None:
            self.taken_from(node.source, entry, values)
        if len(self.reporter) > before or id(entry) not in self.bodies:
            return ()
        body = self.copies.copy(self.bodies[id(entry)], lambda name, *_: values.get(name.id), Called(*node.place))
        return (*body.body, *self.arrival(node))

    def find(self, node: tree.EntryCall) -> tuple[Station, tree.Entry] | None:
        """The station and the entry that a call names."""
        callee = node.callee
        if not isinstance(callee, tree.Member):
            shown = tree.dotted(callee)
            message = f"`{shown}` is no entry of a station"
            self.reporter.error("E601", message, callee.place, "write STATION.entry (...)")
            return None
        base = callee.base.base if isinstance(callee.base, tree.Index) else callee.base
        station = self.stations.get(base.id)
        if station is None:
            message = f"unknown station `{base.id}`"
            self.reporter.error("E601", message, base.place, nearest(base.id, self.stations))
            return None
        entry = self.entry(station, node)
        if entry is None:
            self.no_entry(node, station, callee.name)
            return None
        return station, entry

    @staticmethod
    def entry(station: Station, node: tree.EntryCall) -> tree.Entry | None:
        assert isinstance(node.callee, tree.Member)
        verb = node.callee.name.id
        if (verb == "transfer") != (node.target is not None):
            return None
        return station.entries.get((verb, node.source is not None and verb != "transfer"))

    def no_entry(self, node: tree.EntryCall, station: Station, verb: tree.Name) -> None:
        notes = [Note("the station is declared here", station.place)]
        verbs = {name for name, _ in station.entries}
        shown = f"{station.name}.{verb.id}"
        advice: str | None
        if verb.id not in verbs:
            message = f"the station `{station.name}` has no entry `{verb.id}`"
            advice = nearest(verb.id, verbs)
            if "link" in station.roles and verb.id == "transfer":
                advice = f"its stage is its cost: transfer on {station.name} (...) from ... to ... (...);"
        elif verb.id == "transfer":
            message = f"`{shown}` names the pool it takes from and the pool it fills"
            advice = f"write {shown} (...) from SOURCE to POOL (...);"
        elif node.source is None:
            message, advice = f"`{shown}` takes what another station has leased", f"write {shown} (...) from STATION;"
        else:
            message, advice = f"`{shown}` has no `from`", f"write {shown} (...);"
        self.reporter.error("E601", message, node.callee.place, advice, notes)

    def arguments(self, node: tree.EntryCall, station: Station, entry: tree.Entry) -> None:
        notes = [Note("declared here", entry.verb.place)]
        takes, got, shown = len(entry.params), len(node.args), label(station, entry)
        if takes != got:
            message = f"`{shown}` takes {takes} argument{'s' * (takes != 1)}, got {got}"
            self.reporter.error("E203", message, node.place, notes=notes)
        for read in (*node.args, node.callee, node.source):
            for part in tree.walk(read) if read is not None else ():
                if isinstance(part, tree.Draw):
                    message = f"an argument of `{shown}` draws: the body would draw wherever it reads it"
                    self.reporter.error("E604", message, part.place, "draw into an attribute first", notes)

    def member(self, base: tree.Ref, station: Station, values: dict[str, tree.Expr], what: str) -> None:
        """The index that picks the member of a family."""
        notes = [Note("the station is declared here", station.place)]
        if isinstance(base, tree.Index):
            values[what] = base.index
            if not station.is_family:
                message = f"`{station.name}` is one station, no family"
                self.reporter.error("E602", message, base.place, f"write {station.name}", notes)
        elif station.is_family:
            message = f"`{station.name}` is a family of stations: it needs an index"
            self.reporter.error("E602", message, base.place, f"write {station.name}[0]", notes)

    def taken_from(self, source: tree.Ref, entry: tree.Entry, values: dict[str, tree.Expr]) -> None:
        """The station after `from`: the one that the entry takes from."""
        base = source.base if isinstance(source, tree.Index) else source
        assert entry.source is not None
        if not isinstance(base, tree.Name) or base.id != entry.source.id:
            notes = [Note("the entry is declared here", entry.source.place)]
            message = f"this entry takes from `{entry.source.id}`, not from `{source.place.text}`"
            self.reporter.error("E608", message, source.place, notes=notes)
        elif base.id in self.stations:
            self.member(source, self.stations[base.id], values, SOURCE)

    @staticmethod
    def arrival(node: tree.EntryCall) -> tuple[tree.Stmt, ...]:
        """After a called link's body, what it carried is there."""
        if node.target is None or node.source is None or node.units is None:
            return ()
        return transfers.arrival(node.place, node.source, node.target, node.units)

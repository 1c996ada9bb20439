"""Stations to the rest of the language: pools and stages under long names, entries inlined at their calls.

Goal: after this pass a program has no stations, and reads as if it had been written without them.
Non-goals: to check what the checks of plain programs check anyway (types, holds, indices); those
see the inlined statements, and show the entry and the call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from sqc.check.constants import Constants
from sqc.check.declare import head
from sqc.check.language import BUILT_IN, OBSERVABLES, TRACED
from sqc.check.reads import assigned
from sqc.diagnostics import Note, Reporter, nearest
from sqc.stations import transfers
from sqc.stations.calls import Calls
from sqc.stations.declare import declare
from sqc.stations.inside import Inside, Surroundings
from sqc.stations.leases import entry_leases, leased
from sqc.stations.model import Station, label
from sqc.stations.names import Names, station_of
from sqc.stations.relations import Relations
from sqc.syntax import tree


def lower(items: list[tree.Item], constants: Constants, uses: Collection[str], reporter: Reporter) -> list[tree.Item]:
    """Main's declarations (without definitions) without stations. Raises what is wrong with the stations."""
    lowering = _Lowering(items, constants, uses, reporter)
    made = lowering.items()
    if len(reporter) > lowering.before:
        raise reporter.failure()
    return made


class _Lowering:
    def __init__(self, items: list[tree.Item], constants: Constants, uses: Collection[str], reporter: Reporter) -> None:
        self.before = len(reporter)
        self.written = items
        self.constants = constants
        self.reporter = reporter
        self.stations: dict[str, Station] = {}
        for item in items:
            if isinstance(item, tree.Queue):
                self.declare(item)
        shared = any(isinstance(i, tree.Share) or (isinstance(i, tree.Relation) and i.share) for i in items)
        self.relations = Relations(constants, uses, shared, reporter)
        self.names = Names(self.stations, reporter)
        self.calls = Calls(self.stations, reporter)
        self.in_workload = False

    def declare(self, item: tree.Queue) -> None:
        made = declare(item, self.reporter)
        first = self.stations.setdefault(made.name, made)
        if first is not made:
            notes = [Note("declared here", first.place)]
            self.reporter.error("E204", f"station `{made.name}` is declared twice", made.place, notes=notes)

    def items(self) -> list[tree.Item]:
        made = self.declarations()
        if len(self.reporter) > self.before:
            return made
        around = self.surroundings()
        bodies: dict[int, tree.Block] = {}
        for station in self.stations.values():
            for entry in station.entries.values():
                if self.source(station, entry):
                    bodies[id(entry)] = Inside(station, entry, self.names, around, self.reporter).body()
        self.calls.prepare(bodies)
        return [self.change(item) for item in self.entered(made)]

    # ----------------------------------------------------------------- declarations

    def declarations(self) -> list[tree.Item]:
        """Pools and stages in place of stations and relations, in order."""
        made: list[tree.Item] = []
        above: dict[str, Station] = {}
        for item in self.written:
            if isinstance(item, tree.Queue):
                station = self.stations[item.name.id]
                above[item.name.id] = station
                made.extend(self.parts(station))
            elif isinstance(item, tree.Relation):
                made.extend(self.relations.read(item, above))
            else:
                made.append(item)
        return made

    def parts(self, station: Station) -> Iterator[tree.Item]:
        """The pools and stages of a station; without a stage of its name, the name itself."""
        size = station.item.size
        seen: set[str] = set()

        def named(part: str, place: Any) -> tree.Name:
            seen.add(part)
            return tree.Name(place, station.long(part))

        for part in station.item.items:
            match part:
                case tree.Pool(name=name, options=options, on=on):
                    policies = tuple(self.policy(option, station, seen) for option in options)
                    owner = None if on is None else self.on(on, station)
                    mine = size if on is None else part.size  # on a device or engine it is an array as that one
                    yield tree.Pool(part.place, named(name.id, name.place), mine, owner, policies)
                case tree.Device(name=name):
                    caps = tuple(self.capacity(p, station) for p in part.parts)
                    yield tree.Device(part.place, tree.Name(name.place, station.long(name.id)), size, caps)
                case tree.Engine(device=device):
                    parts = (self.policy(self.capacity(p, station), station, seen) for p in part.parts)
                    where = tree.Name(device.place, station.long(device.id))
                    yield tree.Engine(part.place, named("", station.place), size, where, tuple(parts))
                case tree.Nic(kind=kind):
                    yield tree.Stage(part.place, named("nic", head(part.place, "nic")), size, kind)
                case tree.StationStage(kind=kind, latency=latency):
                    own = self.policy(kind, station, seen)
                    yield tree.Stage(part.place, named("", station.place), size, own)
                    if latency is not None:
                        delay = tree.Kind(latency.place, "delay", None, ())
                        yield tree.Stage(part.place, named("latency", latency.place), size, delay)
        if station.served is None:
            yield tree.Queue(station.item.place, station.item.name, None, (), ())

    @staticmethod
    def on(on: tree.On, station: Station) -> tree.On:
        """The device under its long name; the engine has the station's."""
        owner = on.owner if on.owner.id == station.name else tree.Name(on.owner.place, station.long(on.owner.id))
        return tree.On(on.place, on.engine, owner)

    @staticmethod
    def capacity(part: Any, station: Station) -> Any:
        """A capacity is called like its pool, a register like an attribute of the station."""
        registers = station.registers

        def change(node: Any, _: str = "") -> Any:
            if isinstance(node, tree.Name) and node.id in registers:
                return tree.Name(node.place, station.long(node.id))
            return tree.rebuild(node, change)

        if isinstance(part, tree.Capacity) and part.name.id != "tokens":
            name = tree.Name(part.name.place, station.long(part.name.id))
            return tree.Capacity(part.place, name, part.size, part.value)
        return change(part)

    def policy(self, node: Any, station: Station, above: set[str]) -> Any:
        """An option of a pool or the kind of the stage, which may read the station's pools above it."""

        def resource(ref: Any) -> Any:
            if not isinstance(ref, tree.Name) or ref.id not in above:
                return ref
            if station.is_family:
                message = f"a policy of the family `{station.name}` cannot read `{ref.id}`: it knows no member"
                self.reporter.error("E605", message, ref.place, f"{station.name}[0].{ref.id} is one of them")
            return tree.Name(ref.place, station.long(ref.id))

        def change(node: Any, _: str = "") -> Any:
            match node:
                case tree.Option(word="spill", values=(pool, stage, *keys)):
                    return tree.Option(node.place, "spill", (resource(pool), resource(stage), *map(change, keys)))
                case tree.Call(callee=tree.Name(id=name), args=args) if name in OBSERVABLES or name == "blocksize":
                    return tree.Call(node.place, node.callee, (*map(resource, args[:1]), *map(change, args[1:])))
            return tree.rebuild(node, change)

        return change(node)

    def surroundings(self) -> Surroundings:
        """What the program has outside of its stations."""
        attributes = {"serial", "turn_no"}
        hidden: set[str] = set()
        resources: set[str] = set()
        for item in self.written:
            match item:
                case tree.Pool(name=name) | tree.Stage(name=name) | tree.Engine(name=tree.Name() as name):
                    resources.add(name.id)
                case tree.Workload(items=parts):
                    hidden.update(name.id for part in parts if isinstance(part, tree.Hidden) for name in part.names)
                    if any(isinstance(part, tree.Trace) for part in parts):
                        attributes.update(TRACED)
            if not isinstance(item, tree.Queue):
                attributes.update(name.id for name in assigned(item))
        for station in self.stations.values():
            gateway = station.entries.get(("route", False))
            attributes.update(name.id for name in (assigned(gateway.body) if gateway is not None else ()))
        constants = frozenset(self.constants.table)
        free = frozenset(attributes) - hidden - set(BUILT_IN[2:])
        return Surroundings(frozenset(hidden), free, constants, frozenset(resources))

    def source(self, station: Station, entry: tree.Entry) -> bool:
        """Is there something for an entry's `from` to take?"""
        if entry.source is None:
            return True
        name, place = entry.source.id, entry.source.place
        source = self.stations.get(name)
        if source is None:
            self.reporter.error("E601", f"unknown station `{name}`", place, nearest(name, self.stations))
            return False
        notes = [Note("the station is declared here", source.place)]
        if source is station:
            self.reporter.error("E608", f"`{name}` takes from another station, not from itself", place)
            return False
        if leased(source):
            return True
        empty = [label(source, e) for e in source.entries.values() if not entry_leases(e)]
        which = f"`{empty[0]}` leases nothing on some path" if empty else "its entries lease different pools"
        message = f"there is nothing to take from `{name}`: {which}"
        advice = "every entry holds with `lease POOL (inf)`, on every path"
        self.reporter.error("E608", message, place, advice, notes)
        return False

    # ----------------------------------------------------------------- the program around

    def entered(self, items: list[tree.Item]) -> Iterator[tree.Item]:
        """With `request gw;`, the server is the gateway's route."""
        for item in items:
            if not isinstance(item, tree.Workload):
                yield item
                continue
            requests = [part for part in item.items if isinstance(part, tree.Request)]
            yield tree.Workload(item.place, tuple(p for p in item.items if not isinstance(p, tree.Request)))
            for request in requests:
                yield from self.request(request, items, requests[0])

    def request(self, request: tree.Request, items: list[tree.Item], first: tree.Request) -> Iterator[tree.Item]:
        name, place = request.name, request.place
        station = self.stations.get(name.id)
        servers = [item for item in items if isinstance(item, tree.Server)]
        if station is None:
            advice = nearest(name.id, self.stations)
            self.reporter.error("E601", f"unknown station `{name.id}`", name.place, advice)
        elif "gateway" not in station.roles:
            notes = [Note("declared here", station.place)]
            self.reporter.error("E613", f"`{name.id}` is no gateway: requests enter one", name.place, notes=notes)
        elif servers or request is not first:
            other, what = (servers[0], "a server") if servers else (first, "another `request`")
            notes = [Note("this one", head(other.place, other.place.text.split()[0]))]
            self.reporter.error("E613", f"the requests enter twice: there is {what} as well", place, notes=notes)
        else:
            callee = tree.Member(name.place, name, tree.Name(name.place, "route"))
            call = tree.EntryCall(place, callee, (), None, None, None)
            yield tree.Server(place, tree.Block(place, (call,)))

    def change(self, node: Any, field: str = "") -> Any:
        """The rest of the program in its own names, with the calls inlined."""
        match node:
            case tree.Member() if station_of(node, self.stations) is not None:
                return self.names.member(node, field, self.change)
            case tree.EntryCall():
                return self.entry_call(node)
            case tree.Mark():
                message = "`mark` is an entry's: it names a moment of a station"
                self.reporter.error("E611", message, head(node.place, "mark"), f"write set {node.name.id} = now;")
                return ()
            case tree.RunOwn():
                message = "`run (...)` without a stage is an entry's: it is on the station's own"
                self.reporter.error("E611", message, head(node.place, "run"), "name the stage: run STAGE (...)")
                return ()
            case tree.Transfer(on=on) if transfers.waits(node.place, on, self.stations):
                return (*transfers.waits(node.place, on, self.stations), tree.rebuild(node, self.change))
            case tree.Workload():
                self.in_workload = True
                made = tree.rebuild(node, self.change)
                self.in_workload = False
                return made
        return tree.rebuild(node, self.change)

    def entry_call(self, node: tree.EntryCall) -> Any:
        if self.in_workload:
            message = "an entry is called by the server: the session describes turns"
            self.reporter.error("E613", message, node.callee.place, "write `turn;` here, and the call in the server")
            return ()
        return self.calls.inline(tree.rebuild(node, self.argument))

    def argument(self, node: Any, field: str) -> Any:
        """The parts of a call; the entry's name and its station are not read as an attribute."""
        if field != "callee" or not isinstance(node, tree.Member):
            return self.change(node, field)
        return tree.rebuild(node, lambda child, f: tree.rebuild(child, self.change) if f == "base" else child)

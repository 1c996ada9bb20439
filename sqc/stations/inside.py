"""The body of an entry in the program's names: what it calls its own, and what it may not see.

A name inside is, in this order: a parameter, `self`, an attribute that the entry sets, a word or
constant, `cached`, `computed` or a hidden attribute. Pools and stages are the station's own and
the pool that the `from` names. A gateway is the deployment's: it sees what the server sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqc.check.language import CONTEXT, OBSERVABLES
from sqc.check.reads import WORDS, assigned
from sqc.diagnostics import Note, Place, Reporter
from sqc.stations import transfers
from sqc.stations.leases import leased
from sqc.stations.model import SELF, SOURCE, Station, label, parameter
from sqc.stations.names import TAKEN, Names, station_of
from sqc.syntax import tree

_RUNS_ON = ("stages", "on")


@dataclass(frozen=True)
class Surroundings:
    """What the program has outside of its stations; hidden attributes are not among the attributes."""

    hidden: frozenset[str]
    attributes: frozenset[str]
    constants: frozenset[str]
    resources: frozenset[str]


class Inside:
    """Resolves one entry."""

    def __init__(
        self, station: Station, entry: tree.Entry, names: Names, around: Surroundings, reporter: Reporter
    ) -> None:
        self.station = station
        self.entry = entry
        self.names = names
        self.around = around
        self.reporter = reporter
        self.label = label(station, entry)
        self.gateway = entry.verb.id == "route"
        self.params = {p.id for p in entry.params}
        self.local = set() if self.gateway else {name.id for name in assigned(entry.body)}
        self.source = names.stations.get(entry.source.id) if entry.source is not None else None
        self.header = False

    def body(self) -> tree.Block:
        """The body with long names, its transfers written out, its calls ready to be inlined."""
        made = self.change(self.entry.body)
        assert isinstance(made, tree.Block)
        return made

    def change(self, node: Any, field: str = "") -> Any:
        if field in TAKEN:
            return self.taken(node)
        if field in _RUNS_ON:
            return self.stage(node)
        match node:
            case tree.Name():
                return self.value(node)
            case tree.Member():
                return self.member(node, field)
            case tree.Index():
                return self.index(node)
            case tree.Call(callee=tree.Name(id="cost"), args=args):
                return self.call(node, [self.family(a) for a in args[:-1]], args[-1:])
            case tree.Call(callee=tree.Name(id=name), args=args) if name in OBSERVABLES or name == "blocksize":
                return self.call(node, [self.observed(a) for a in args[:1]], args[1:])
            case tree.CostRecord(name=name, record=record):
                fields = (tree.Field(f.place, self.short(f.name), self.change(f.value)) for f in record)
                return tree.CostRecord(node.place, self.written(name), tuple(fields))
            case tree.Set() | tree.Choose():
                return self.assignment(node)
            case tree.Hold():
                return self.hold(node)
            case tree.Mark(name=name):
                moment = tree.Name(node.place, "now")
                return tree.Set(node.place, "set", tree.Name(name.place, self.station.long(name.id)), moment)
            case tree.RunOwn(work=work):
                return self.own_run(node, work)
            case tree.Transfer():
                return self.transfer(node)
            case tree.EntryCall():
                return self.entry_call(node)
        return self.rest(node)

    def rest(self, node: Any) -> Any:
        """The node with its parts changed, except names that are only words."""
        word = WORDS.get(type(node))
        return tree.rebuild(node, lambda child, field: child if field == word else self.change(child, field))

    def index(self, node: tree.Index) -> tree.Index:
        return tree.Index(node.place, node.base, self.change(node.index))

    def call(self, node: tree.Call, resources: list[Any], values: tuple[tree.Expr, ...]) -> tree.Call:
        return tree.Call(node.place, node.callee, (*resources, *(self.change(v) for v in values)))

    # ----------------------------------------------------------------- values

    def written(self, name: tree.Name) -> tree.Name:
        return tree.Name(name.place, self.station.long(name.id)) if name.id in self.local else name

    def short(self, name: tree.Name) -> tree.Name:
        """The field of a record is a pool or stage."""
        part = self.part(name)
        return name if part is None else tree.Name(name.place, self.station.long(part))

    def value(self, node: tree.Name) -> tree.Name:
        name, around = node.id, self.around
        if name in self.params:
            return tree.Name(node.place, parameter(name))
        if name == "self":
            return self.member_index(node)
        if name in self.local:
            return self.written(node)
        if self.gateway or name in ("inf", "cached", "computed"):
            return node
        if name in CONTEXT or name in around.hidden:
            if self.header and (name == "now" or name in around.hidden):
                self.unseen_by_header(node)
        elif name in around.constants:
            return node
        elif name in around.attributes:
            if self.header:
                self.unseen_by_header(node)
            else:
                message = f"`{self.label}` reads `{name}`, an attribute of the request that is set outside"
                advice = f"an entry sees its parameters and hidden attributes: pass `{name}` as an argument"
                self.reporter.error("E605", message, node.place, advice)
        elif (part := self.part(node)) is not None:
            return tree.Name(node.place, self.station.long(part))
        return node

    def unseen_by_header(self, node: tree.Name) -> None:
        message = f"a hold's header in `{self.label}` reads `{node.id}`: it sees parameters and the station's own pools"
        self.reporter.error("E606", message, node.place, f"pass `{node.id}` as an argument")

    def member_index(self, node: tree.Name) -> tree.Name:
        if not self.station.is_family:
            self.reporter.error("E602", f"`{self.station.name}` is no family: it has no `self`", node.place)
        return tree.Name(node.place, SELF)

    def member(self, node: tree.Member, field: str) -> tree.Ref:
        """`c.kv` of a record made here; what is another station's only a gateway reads."""
        station = station_of(node, self.names.stations)
        if station is not None and self.gateway:
            return self.names.member(node, field, self.change)
        if station is not None:
            self.foreign(node, f"{station.name}.{node.name.id}")
            return tree.Name(node.place, "?")
        if isinstance(node.base, tree.Name) and node.base.id in self.local:
            return tree.Member(node.place, self.written(node.base), self.short(node.name))
        return node

    def foreign(self, node: tree.Node, shown: str) -> None:
        message = f"`{self.label}` reads `{shown}`: an entry sees only its own station"
        advice = "let the caller read it, and pass it as an argument"
        self.reporter.error("E605", message, node.place, advice)

    # ----------------------------------------------------------------- pools and stages

    def part(self, ref: tree.Node) -> str | None:
        """Which of the station's own pools and stages a reference names ("" is its stage)."""
        match ref:
            case tree.Name(id=name) if name == self.station.name:
                return ""
            case tree.Name(id=name) if name != "latency" and self.station.has(name):
                return name
            case tree.Member(base=tree.Name(id=name), name=part) if name == self.station.name:
                return part.id if self.station.has(part.id) else None
        return None

    def own(self, part: str, place: Place) -> tree.Ref:
        if part == "" and self.station.served is None:
            message = f"the station `{self.station.name}` has no stage: it has no `serve`"
            self.reporter.error("E603", message, place, notes=[Note("declared here", self.station.place)])
        index = tree.Name(place, SELF) if self.station.is_family else None
        return self.station.ref(part, place, index)

    def source_pool(self, ref: tree.Node) -> tree.Ref | None:
        """The pool that the `from` names, if that is what the reference is."""
        source = self.source
        if source is None or not isinstance(ref, tree.Name) or ref.id != source.name:
            return None
        pools = leased(source)
        index = tree.Name(ref.place, SOURCE) if source.is_family else None
        return source.ref(pools[0], ref.place, index) if pools else tree.Name(ref.place, "?")

    def elsewhere(self, ref: Any, field: str) -> Any:
        """A pool or stage that is not the station's own."""
        if station_of(ref, self.names.stations) is not None:
            return self.names.member(ref, field, self.change)
        return self.index(ref) if isinstance(ref, tree.Index) else ref

    def indexed(self, ref: tree.Node) -> bool:
        """Report `P[i]` inside `P`, where the member is given."""
        name = self.station.name
        if not isinstance(ref, tree.Index) or ref.base.id != name:
            return False
        message = f"inside `{name}` its stage is the member's own"
        self.reporter.error("E602", message, ref.place, f"write {name}")
        return True

    def taken(self, ref: Any) -> Any:
        """The pool of a hold, grow, load, release or drop."""
        part = self.part(ref)
        if part is not None and part in self.station.pools:
            return self.own(part, ref.place)
        pool = self.source_pool(ref)
        if pool is not None:
            return pool
        if self.gateway:
            return self.elsewhere(ref, "pool")
        shown = ref.place.text
        message = f"`{shown}` is no pool of `{self.station.name}`: `{self.label}` takes only its own station's"
        advice = f"those are {', '.join(f'`{p}`' for p in self.station.pools)}" if self.station.pools else None
        self.reporter.error("E607", message, ref.place, advice)
        return tree.Name(ref.place, "?")

    def stage(self, ref: Any) -> Any:
        """The stage of a run; a station may run elsewhere too."""
        part = self.part(ref)
        if part is not None and part not in self.station.pools:
            return self.own(part, ref.place)
        return ref if self.indexed(ref) else self.elsewhere(ref, "stages")

    def observed(self, ref: Any) -> Any:
        part = self.part(ref)
        if part is not None:
            return self.own(part, ref.place)
        pool = self.source_pool(ref)
        if pool is not None:
            return pool
        if self.gateway:
            return self.elsewhere(ref, "observed")
        base = ref.base if isinstance(ref, tree.Index) else ref
        known = isinstance(base, tree.Name) and base.id in {*self.around.resources, *self.names.stations}
        if not self.indexed(ref) and (known or station_of(ref, self.names.stations) is not None):
            self.foreign(ref, ref.place.text)
            return tree.Name(ref.place, "?")
        return ref

    def family(self, ref: Any) -> Any:
        """The resource of a cost: families are named without a member."""
        part = self.part(ref)
        made = self.own(part, ref.place) if part is not None else self.source_pool(ref) or self.elsewhere(ref, "cost")
        return made.base if isinstance(made, tree.Index) else made

    # ----------------------------------------------------------------- statements

    def assignment(self, node: tree.Set | tree.Choose) -> Any:
        return self.rest(tree.rebuild(node, lambda child, f: self.written(child) if f == "name" else child))

    def hold(self, node: tree.Hold) -> tree.Hold:
        self.header = not self.gateway
        parts = tuple(self.rest(part) for part in node.parts)
        prefix = tuple(self.rest(segment) for segment in node.prefix)
        reuse = self.change(node.reuse) if node.reuse is not None else None
        bindings = tuple(tree.Field(b.place, self.written(b.name), self.change(b.value)) for b in node.bindings)
        self.header = False
        body = self.change(node.body)
        cache = self.change(node.cache) if node.cache is not None else None
        lease = self.rest(node.lease) if node.lease is not None else None
        return tree.Hold(node.place, node.header, parts, prefix, reuse, bindings, body, cache, lease)

    def own_run(self, node: tree.RunOwn, work: tree.Expr) -> tree.Run:
        place = node.place._replace(end=node.place.start + len("run"))
        return tree.Run(node.place, (self.own("", place),), None, self.change(work), None)

    def transfer(self, node: tree.Transfer) -> Any:
        """A read is written out; a transfer on a plain stage stays one."""
        place = node.place
        source, target = self.taken(node.source), self.taken(node.target)
        if self.source is not None and self.source_pool(node.source) is None:
            message = f"a transfer in `{self.label}` takes from the station of its `from`, `{self.source.name}`"
            self.reporter.error("E608", message, node.source.place)
        on = tuple(self.stage(ref) for ref in node.on)
        work, units = self.change(node.work), self.change(node.units)
        end = transfers.arrival(place, source, target, units)
        if on:
            return (*transfers.waits(place, on, self.names.stations), transfers.run(place, on, work), *end)
        way = self.station.ways.get(self.source.name) if self.source is not None else None
        if node.index is not None or self.source is None:
            index = self.change(node.index) if node.index is not None else None
            return tree.Transfer(place, index, (), work, source, target, units)
        if way is None:
            message = f"nothing says how `{self.station.name}` reads from `{self.source.name}`"
            advice = (
                f"declare kvt.nixl_pull ({self.source.name}, {self.station.name}, latency = ...); or name links: on L"
            )
            start = place._replace(end=place.start + len("transfer"))
            self.reporter.error("E610", message, start, advice)
            return ()
        return (*self.posted(place, way), transfers.run(place, self.nics(place), work), *end)

    def nics(self, place: Place) -> tuple[tree.Ref, tree.Ref]:
        """The NICs of a read: the source's, then the reader's."""
        assert self.source is not None
        index = tree.Name(place, SOURCE) if self.source.is_family else None
        return self.source.ref("nic", place, index), self.own("nic", place)

    def posted(self, place: Place, way: Any) -> tuple[tree.Stmt, ...]:
        """The wait of a relation, at the side that posts the copy."""
        if way.latency is None:
            return ()
        index = tree.Name(place, SELF if way.waits is self.station else SOURCE) if way.waits.is_family else None
        return (transfers.run(place, (way.waits.ref("nic.latency", place, index),), way.latency),)

    def entry_call(self, node: tree.EntryCall) -> tree.EntryCall:
        """A call of another station: its parts are read here, the inlining comes later."""
        callee = node.callee
        if isinstance(callee, tree.Member) and isinstance(callee.base, tree.Index):
            callee = tree.Member(callee.place, self.index(callee.base), callee.name)
        args = tuple(self.change(a) for a in node.args)
        if node.target is None:
            source = self.index(node.source) if isinstance(node.source, tree.Index) else node.source
            return tree.EntryCall(node.place, callee, args, source, None, None)
        source = self.taken(node.source) if node.source is not None else None
        units = self.change(node.units) if node.units is not None else None
        return tree.EntryCall(node.place, callee, args, source, self.taken(node.target), units)

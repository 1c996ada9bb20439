"""From the text of a station to a `Station`: what may stand in it, in which order, how often."""

from __future__ import annotations

from sqc.check.language import CONTEXT
from sqc.check.reads import assigned
from sqc.diagnostics import Note, Place, Reporter, nearest
from sqc.stations.model import ROLES, Station
from sqc.syntax import tree


def declare(item: tree.Queue, reporter: Reporter) -> Station:
    """The station; what is wrong with its declaration is reported and left out."""
    declaration = _Declaration(Station(item), reporter)
    declaration.roles()
    for part in item.items:
        declaration.part(part)
    declaration.missing()
    return declaration.station


class _Declaration:
    def __init__(self, station: Station, reporter: Reporter) -> None:
        self.station = station
        self.reporter = reporter
        self.above: tree.Node | None = None  # the last stage or entry

    def error(self, message: str, place: Place, advice: str | None = None, notes: list[Note] | None = None) -> None:
        self.reporter.error("E603", message, place, advice, notes or [])

    def roles(self) -> None:
        station = self.station
        seen: set[str] = set()
        for role in station.item.roles:
            if role.id not in ROLES:
                known = ", ".join(f"`{r}`" for r in ROLES)
                advice = nearest(role.id, ROLES) or f"a station is {known}"
                self.error(f"unknown role `{role.id}`", role.place, advice)
            elif role.id in seen:
                self.error(f"the role `{role.id}` is given twice", role.place)
            seen.add(role.id)
        if "gateway" in seen and station.item.size is not None:
            self.error("a gateway is one station, no family: requests enter it", station.item.size.place)

    def part(self, part: tree.Node) -> None:
        match part:
            case tree.Pool():
                self.pool(part)
            case tree.StationStage():
                self.stage(part)
            case tree.Device():
                self.device(part)
            case tree.Engine():
                self.engine(part)
            case tree.Nic():
                self.once(self.station.nic, "`nic`", part)
                self.station.nic = self.station.nic or part
            case tree.Entry():
                self.above = part
                self.entry(part)

    def once(self, first: tree.Node | None, what: str, part: tree.Node) -> None:
        if first is not None:
            place = part.place._replace(end=part.place.start + len(part.place.text.split()[0]))
            notes = [Note("first given here", first.place)]
            self.error(f"{what} is given twice: `{self.station.name}` has one", place, notes=notes)

    def pool(self, pool: tree.Pool) -> None:
        name = pool.name
        if pool.on is not None:
            self.on(pool.on)
        elif self.above is not None:
            message = f"the pool `{name.id}` stands below the stage or an entry of `{self.station.name}`"
            self.error(message, name.place, "pools first, then the stage, then the entries")
        if pool.size is not None:
            message = f"a pool of a station is no array: each member of `{self.station.name}` has its own"
            self.error(message, pool.size.place, f"write pool {name.id}")
        self.once(self.station.pools.get(name.id), f"the pool `{name.id}`", pool)
        self.station.pools.setdefault(name.id, pool)

    def stage(self, stage: tree.StationStage) -> None:
        station = self.station
        if isinstance(self.above, tree.Entry):
            message = f"the stage stands below an entry of `{station.name}`"
            place = stage.place._replace(end=stage.place.start + len("serve"))
            self.error(message, place, "pools first, then the stage, then the entries")
        if stage.latency is not None and "link" not in station.roles:
            self.error("`latency` is the fixed wait of a link", stage.latency.place)
        self.once(station.served, "the stage", stage)
        station.stage = station.stage or stage
        self.above = stage

    def device(self, device: tree.Device) -> None:
        station, name = self.station, device.name
        if self.above is not None:
            message = f"the device `{name.id}` stands below the stage or an entry of `{station.name}`"
            self.error(message, name.place, "devices and pools first, then the engine, then the entries")
        if device.size is not None:
            message = f"each member of `{station.name}` has a `{name.id}` of its own"
            self.error(message, device.size.place, f"write device {name.id}")
        self.once(station.devices.get(name.id) or station.pools.get(name.id), f"`{name.id}`", device)
        station.devices.setdefault(name.id, device)

    def engine(self, engine: tree.Engine) -> None:
        station, device = self.station, engine.device
        if isinstance(self.above, tree.Entry):
            message = f"the engine stands below an entry of `{station.name}`"
            place = engine.place._replace(end=engine.place.start + len("engine"))
            self.error(message, place, "devices and pools first, then the engine, then the entries")
        if engine.name is not None:
            message = f"the engine of a station is its stage, and is called `{station.name}`"
            self.error(message, engine.name.place, f"write engine on {device.id}")
        if device.id not in station.devices:
            message = f"`{station.name}` has no device `{device.id}` above its engine"
            self.error(message, device.place, nearest(device.id, station.devices))
        for part in engine.parts:
            if isinstance(part, tree.Capacity) and part.size is not None:
                message = f"an entry names its own `{part.name.id}` without an index: there is one"
                self.error(message, part.size.place, f"write {part.name.id} cap ...;")
        self.once(station.served, "the stage", engine)
        station.engine = station.engine or engine
        self.above = engine

    def on(self, on: tree.On) -> None:
        """The pool of a device or the engine, which may stand below the engine."""
        station, owner = self.station, on.owner
        own = on.engine is None or (on.engine.id == station.name and station.engine is not None)
        engine = on.engine is None and owner.id == station.name and station.engine is not None
        if not engine and not (own and owner.id in station.devices):
            message = f"`{on.place.text.partition(' ')[2].strip()}` is no device or engine of `{station.name}` above"
            self.error(message, on.place, f"write on DEVICE, on {station.name}.DEVICE or on {station.name}")
        elif isinstance(self.above, tree.Entry):
            message = f"this pool stands below an entry of `{station.name}`"
            self.error(message, on.place, "devices and pools first, then the engine, then the entries")

    def entry(self, entry: tree.Entry) -> None:
        station, verb = self.station, entry.verb
        roles = {role for role, made in ROLES.items() if made.name == verb.id}
        if not roles & station.roles:
            if station.roles - ROLES.keys():
                return  # it may belong to the role that has been reported
            verbs = [ROLES[r].name for r in station.roles if r in ROLES]
            known = ", ".join(f"`{v}`" for v in verbs)
            message = f"`{verb.id}` is no entry of a station with the roles of `{station.name}`"
            self.error(message, verb.place, nearest(verb.id, verbs) or (known and f"its entries are {known}") or None)
            return
        role = ROLES[roles.pop()]
        if entry.source is not None and not role.sourced:
            self.error(f"only `decode` has a `from`, not `{verb.id}`", entry.source.place)
        if len(entry.params) != role.params:
            message = f"`{verb.id}` has {role.params} parameter{'s' * (role.params != 1)}, not {len(entry.params)}"
            self.error(message, verb.place)
        self.parameters(entry)
        key = (verb.id, entry.source is not None)
        first = station.entries.setdefault(key, entry)
        if first is not entry:
            shown = f"`{verb.id} ... from`" if key[1] else f"`{verb.id}`"
            self.error(f"`{station.name}` has {shown} twice", verb.place, notes=[Note("first given here", first.place)])

    def parameters(self, entry: tree.Entry) -> None:
        names: dict[str, tree.Name] = {}
        for param in entry.params:
            if param.id in CONTEXT or param.id in ("inf", "self"):
                message = f"`{param.id}` is a name the language supplies: no parameter can have it"
                self.reporter.error("E204", message, param.place)
            if names.setdefault(param.id, param) is not param:
                self.reporter.error("E204", f"the parameter `{param.id}` is declared twice", param.place)
        for name in assigned(entry.body):
            if name.id in names:
                notes = [Note("the parameter is declared here", names[name.id].place)]
                message = f"`{name.id}` is a parameter: the entry cannot assign it"
                self.reporter.error("E204", message, name.place, notes=notes)

    def missing(self) -> None:
        station = self.station
        for role in station.item.roles:
            if role.id not in ROLES:
                continue
            verb = ROLES[role.id].name
            found = any(key[0] == verb for key in station.entries)
            if role.id == "link":
                self.link(found)
            elif not found:
                self.error(f"the {role.id} `{station.name}` has no entry `{verb}`", station.place)

    def link(self, called: bool) -> None:
        station = self.station
        if station.served is None and not called:
            message = f"the link `{station.name}` has neither a stage nor an entry `transfer`"
            self.error(message, station.place, "say what a transfer over it costs: serve ps (...);")
        if called and station.latency is not None:
            message = f"the link `{station.name}` has an entry and a latency: the time of a called link is its entry's"
            self.error(message, station.latency.place, "run the wait in the entry's body")

"""Devices, engines and the pools on them to step stages and plain pools.

Goal: after this pass an engine is a stage of kind `engine` with the options of a step stage, and
every pool has its capacity and who admits to it. Expressions keep the names that engines use
(`running.count`, `batch.tokens`): what may be read where is for the checks of moments, which know
both spellings. Non-goals: to check what those checks see anyway.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sqc.check.constants import Constants
from sqc.check.structure import word
from sqc.diagnostics import Note, Place, Reporter, nearest
from sqc.engines.devices import Machine, declare
from sqc.engines.pools import Pools
from sqc.engines.schedule import Schedule
from sqc.syntax import tree


def lower(
    items: list[tree.Item], constants: Constants, definitions: Collection[str], reporter: Reporter
) -> list[tree.Item]:
    """Main's declarations without engines. `definitions` are the program's names of definitions.

    Raises what is wrong with the devices, engines and pools on them.
    """
    before = len(reporter)
    lowering = _Lowering(items, constants, definitions, reporter)
    made = list(lowering.items())
    lowering.times(made)
    if len(reporter) == before:  # a pool that is wrong leaves its capacity over
        lowering.pools.leftover()
    if len(reporter) > before:
        raise reporter.failure()
    return made


class _Lowering:
    def __init__(
        self, items: list[tree.Item], constants: Constants, definitions: Collection[str], reporter: Reporter
    ) -> None:
        self.written = items
        self.constants = constants
        self.definitions = definitions
        self.reporter = reporter
        self.devices: dict[str, Machine] = {}
        self.engines: dict[str, tree.Engine] = {}
        self.names = {
            item.name.id: item.name.place
            for item in reversed(items)
            if isinstance(item, tree.Pool | tree.Stage | tree.Device | tree.Engine) and item.name is not None
        }
        self.pools = Pools(items, self.devices, self.engines, reporter)

    def items(self) -> Iterator[tree.Item]:
        for item in self.written:
            match item:
                case tree.Device():
                    made = declare(item, self.constants, self.definitions, self.reporter)
                    self.devices.setdefault(item.name.id, made)
                    yield tree.Device(item.place, item.name, item.size, ())
                case tree.Engine():
                    yield from self.engine(item)
                case tree.Pool(on=tree.On() as on):
                    yield self.pools.pool(item, on)
                case _:
                    yield item

    @property
    def taken(self) -> dict[str, Place]:
        """Names that a `let` of a schedule cannot have."""
        return {**self.names, **{name: constant.place for name, constant in self.constants.table.items()}}

    # ----------------------------------------------------------------- engines

    def engine(self, item: tree.Engine) -> Iterator[tree.Stage]:
        name = item.name
        if name is None:
            message = "an engine outside of a station has a name"
            self.reporter.error("E701", message, word(item), f"write engine NAME on {item.device.id}")
            return
        if name.id == "engine":
            self.reporter.error("E204", "`engine` is a word of the language: no engine can have it", name.place)
        self.engines.setdefault(name.id, item)
        device = self.devices.get(item.device.id)
        if device is None:
            message = f"no device `{item.device.id}` is declared above this engine"
            self.reporter.error("E702", message, item.device.place, nearest(item.device.id, self.devices))
            return
        if device.engine is not None:
            assert device.engine.name is not None
            notes = [Note("this one does", device.engine.name.place)]
            message = f"`{item.device.id}` runs an engine already"
            self.reporter.error("E703", message, item.device.place, "one device runs one engine", notes)
        device.engine = device.engine or item
        self.sizes(name, item, device)
        yield tree.Stage(item.place, name, item.size, tree.Kind(item.place, "engine", None, self.options(item, device)))

    def sizes(self, name: tree.Name, item: tree.Engine, device: Machine) -> None:
        """There is one engine for each device of a family."""
        size = None if item.size is None else self.constants.whole(item.size, "the size of an array")
        if size == device.size and (size is None) is (item.size is None):
            return
        if item.size is not None and size is None:
            return  # reported
        shown = "one device" if device.size is None else f"a family of {device.size}"
        wanted = "" if device.size is None else f"[{device.size}]"
        notes = [Note("the device is declared here", device.item.name.place)]
        message = f"`{device.item.name.id}` is {shown}, and each has one engine"
        self.reporter.error("E703", message, name.place, f"write engine {name.id}{wanted}", notes)

    def options(self, item: tree.Engine, device: Machine) -> tuple[tree.Option, ...]:
        """What an engine says, as options of a step stage."""
        found = self.once(item)
        made: list[tree.Option] = []
        for key, needed in _NEEDED.items():
            if key not in found:
                place = item.place._replace(end=item.place.start + len("engine"))
                assert item.name is not None
                self.reporter.error("E701", f"the engine `{item.name.id}` has no `{key}`", place, needed)
        if "tokens" in found:
            (budget,) = found["tokens"]
            made.append(tree.Option(budget.place, "budget", (budget.value,)))  # type: ignore[union-attr]
        for key in ("granule", "state"):
            made.extend(found.get(key, []))  # type: ignore[arg-type]
        for option in found.get("schedule", []):
            assert isinstance(option, tree.Option)
            assert item.name is not None
            made.extend(Schedule(item.name.id, option, self.taken, self.reporter).options())
        for option in found.get("execute", []):
            assert isinstance(option, tree.Option)
            made.append(tree.Option(option.place, "cost", (device.times.expand(option.values[0]),)))
        memory = self.pools.memories.get(item.device.id)
        if memory is not None:
            made.append(tree.Option(memory.name.place, "memory", (memory.name,)))
        return tuple(made)

    def once(self, item: tree.Engine) -> dict[str, list[tree.Capacity | tree.Option]]:
        """The parts of an engine by their word; only registers may be several."""
        found: dict[str, list[tree.Capacity | tree.Option]] = {}
        for part in item.parts:
            if isinstance(part, tree.Capacity) and part.name.id != "tokens":
                self.capacity(item, part)
                continue
            key = part.word if isinstance(part, tree.Option) else "tokens"
            first = found.setdefault(key, [])
            if first and key != "state":
                notes = [Note("first given here", first[0].place)]
                self.reporter.error("E510", f"`{key}` is given twice", word(part), notes=notes)
                continue
            first.append(part)
            if isinstance(part, tree.Capacity) and part.size is not None:
                message = "an iteration has one budget of tokens"
                self.reporter.error("E704", message, part.size.place, "write tokens cap ...;")
        return found

    def capacity(self, item: tree.Engine, cap: tree.Capacity) -> None:
        """A capacity that the engine holds."""
        assert item.name is not None
        first = next(c for c in item.parts if isinstance(c, tree.Capacity) and c.name.id == cap.name.id)
        if first is not cap:
            notes = [Note("declared here", first.name.place)]
            self.reporter.error("E204", f"`{cap.name.id}` is declared twice", cap.name.place, notes=notes)
        if cap.size is not None and item.size is not None:
            message = f"each member of `{item.name.id}` has a `{cap.name.id}` of its own"
            self.reporter.error("E704", message, cap.size.place, f"write {cap.name.id} cap ...;")

    # ----------------------------------------------------------------- times

    def times(self, made: list[tree.Item]) -> None:
        """Report the times of devices that are read where no batch is timed."""
        times = {name: device for device in self.devices.values() for name in device.names}
        for item in made:
            for node in tree.walk(item):
                if isinstance(node, tree.Call) and isinstance(node.callee, tree.Name) and node.callee.id in times:
                    name, device = node.callee, times[node.callee.id]
                    notes = [Note("declared here", device.names[name.id])]
                    owner = device.item.name.id
                    message = f"`{name.id}` is a time of the device `{owner}`: only its engine's `execute` reads it"
                    self.reporter.error("E706", message, name.place, notes=notes)


_NEEDED = {
    "tokens": "the tokens of one iteration: tokens cap N;",
    "schedule": "what an iteration does: schedule { advance running; admit waiting while (running.preempted == 0); }",
    "execute": "how long a batch takes: execute (T);",
}

"""A device: its times, which are definitions for its engine's `execute`, and its capacities."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqc.check.constants import Constants
from sqc.check.definitions import Definitions
from sqc.diagnostics import Note, Place, Reporter
from sqc.syntax import tree


@dataclass(eq=False, repr=False)
class Machine:
    """A device as declared; `names` are its times, `engine` the one that runs on it."""

    item: tree.Device
    size: int | None
    times: Definitions
    names: dict[str, Place]
    engine: tree.Engine | None = None


def declare(item: tree.Device, constants: Constants, definitions: Collection[str], reporter: Reporter) -> Machine:
    """The device; what is wrong with its parts is reported. `definitions` are the program's."""
    size = None if item.size is None else constants.whole(item.size, "the size of an array")
    times = [part for part in item.parts if isinstance(part, tree.TimeResource)]
    for time in times:
        _parameters(time, reporter)
        if time.name.id in definitions:
            message = f"`{time.name.id}` is a definition of the program: no time of a device can have its name"
            reporter.error("E204", message, time.name.place)
    _capacities(item, reporter)
    made = {time.name.id: tree.Def(time.place, time.name, time.params, time.value) for time in reversed(times)}
    table = Definitions(reporter, made, lambda e: constants.number(e, "the count of an aggregate"))
    for time in _in_order(times):
        table.declare(tree.Def(time.place, time.name, time.params, time.value))
    return Machine(item, size, table, {time.name.id: time.name.place for time in reversed(times)})


def _parameters(time: tree.TimeResource, reporter: Reporter) -> None:
    read = {node.id for node in tree.walk(time.value) if isinstance(node, tree.Name)}
    for param in time.params:
        if param.id not in read:
            message = f"`{time.name.id}` does not read its parameter `{param.id}`"
            reporter.error("E706", message, param.place, "leave it out")


def _capacities(item: tree.Device, reporter: Reporter) -> None:
    seen: dict[str, tree.Node] = {part.name.id: part for part in item.parts if isinstance(part, tree.TimeResource)}
    for part in item.parts:
        if not isinstance(part, tree.Capacity):
            continue
        if part.name.id in seen:
            notes = [Note("declared here", seen[part.name.id].place)]
            message = f"`{part.name.id}` is declared twice"
            reporter.error("E204", message, part.name.place, notes=notes)
        seen[part.name.id] = part
        if part.size is not None:
            message = f"a capacity of a device is no array: `{item.name.id}` has one `{part.name.id}`"
            reporter.error("E704", message, part.size.place, f"write {part.name.id} cap ...;")


def _in_order(times: list[tree.TimeResource]) -> list[tree.TimeResource]:
    """Those that others read before them; the order of the text where there is none, as in a circle."""
    waiting, ordered = list(times), list[tree.TimeResource]()
    while waiting:
        names = {time.name.id for time in waiting}
        ready = [time for time in waiting if not _called(time) & names] or waiting
        ordered.extend(ready)
        waiting = [time for time in waiting if time not in ready]
    return ordered


def _called(time: tree.TimeResource) -> set[str]:
    return {
        node.callee.id
        for node in tree.walk(time.value)
        if isinstance(node, tree.Call) and isinstance(node.callee, tree.Name)
    }

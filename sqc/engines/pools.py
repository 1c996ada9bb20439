"""Pools on devices and engines: where their capacity comes from, and who admits to them."""

from __future__ import annotations

from collections.abc import Mapping

from sqc.check.structure import word
from sqc.diagnostics import Note, Reporter, nearest
from sqc.engines.devices import Machine
from sqc.syntax import tree


def capacities(owner: tree.Device | tree.Engine) -> list[tree.Capacity]:
    """What pools can be of; the tokens of an engine are its budget."""
    caps = [part for part in owner.parts if isinstance(part, tree.Capacity)]
    return caps if isinstance(owner, tree.Device) else [cap for cap in caps if cap.name.id != "tokens"]


class Pools:
    """The pools of a program; `devices` and `engines` are those declared above, and grow meanwhile."""

    def __init__(
        self,
        items: list[tree.Item],
        devices: Mapping[str, Machine],
        engines: Mapping[str, tree.Engine],
        reporter: Reporter,
    ) -> None:
        self.devices = devices
        self.engines = engines
        self.reporter = reporter
        self.pooled: set[int] = set()  # the capacities that are pools, by identity
        self.memories = {
            item.on.owner.id: item for item in reversed(items) if isinstance(item, tree.Pool) and item.on is not None
        }

    def pool(self, item: tree.Pool, on: tree.On) -> tree.Pool:
        """The pool with its capacity, its size and who admits to it."""
        for option in item.options:
            if option.word in ("cap", "admit via"):
                what = "its capacity" if option.word == "cap" else "who admits to it"
                message = f"a pool on a device or engine has {what} from there"
                self.reporter.error("E704", message, word(option), _POOL_HELP[option.word])
        if item.size is not None:
            message = "a pool on a device or engine is an array exactly if that is one"
            self.reporter.error("E704", message, item.size.place, f"write pool {item.name.id} on {on.owner.id}")
        found = self.owner(on)
        if found is None:
            return item
        owner, via = found
        caps = capacities(owner)
        cap = next((c for c in caps if c.name.id == item.name.id), None)
        if cap is None:
            shown = on.owner.id if on.engine is None else f"{on.engine.id}.{on.owner.id}"
            message = f"`{shown}` has no capacity `{item.name.id}`"
            advice = nearest(item.name.id, [c.name.id for c in caps]) or f"write there: {item.name.id} cap ...;"
            self.reporter.error("E702", message, item.name.place, advice)
            return item
        self.pooled.add(id(cap))
        self.only_memory(item, on)
        options = (*item.options, tree.Option(cap.place, "cap", (cap.value,)))
        if via is not None:
            options = (*options, tree.Option(on.place, "admit via", (via,)))
        size = cap.size if cap.size is not None else owner.size
        return tree.Pool(item.place, item.name, size, on, options)

    def owner(self, on: tree.On) -> tuple[tree.Device | tree.Engine, tree.Name | None] | None:
        """Whose capacity the pool is, and the engine that admits to it."""
        name = on.owner
        if on.engine is None:
            if name.id in self.engines:
                return self.engines[name.id], name
            if name.id in self.devices:
                return self.devices[name.id].item, None
            known = [*self.devices, *self.engines]
            message = f"no device or engine `{name.id}` is declared above this pool"
            self.reporter.error("E702", message, name.place, nearest(name.id, known))
            return None
        engine = self.engines.get(on.engine.id)
        if engine is None:
            message = f"no engine `{on.engine.id}` is declared above this pool"
            self.reporter.error("E702", message, on.engine.place, nearest(on.engine.id, self.engines))
        elif engine.device.id != name.id:
            notes = [Note("declared here", engine.device.place)]
            message = f"`{on.engine.id}` runs on `{engine.device.id}`, not on `{name.id}`"
            self.reporter.error("E703", message, name.place, f"write {on.engine.id}.{engine.device.id}", notes)
        elif name.id in self.devices:
            return self.devices[name.id].item, on.engine
        return None

    def only_memory(self, item: tree.Pool, on: tree.On) -> None:
        """An engine has one memory: the pool on its device."""
        first = self.memories[on.owner.id]
        if first is not item and on.owner.id in self.devices:
            notes = [Note("this one is on it already", first.name.place)]
            message = f"`{on.owner.id}` has two pools: which is its engine's memory?"
            self.reporter.error("E703", message, item.name.place, "put one of them on a device of its own", notes)

    def leftover(self) -> None:
        """Report the capacities that nothing can hold."""
        owners: list[tree.Device | tree.Engine] = [device.item for device in self.devices.values()]
        for owner in (*owners, *self.engines.values()):
            for cap in capacities(owner):
                if id(cap) not in self.pooled:
                    assert owner.name is not None
                    message = f"the capacity `{cap.name.id}` of `{owner.name.id}` is no pool: nothing can hold it"
                    advice = f"declare pool {cap.name.id} on {owner.name.id} {{ }}"
                    self.reporter.error("E705", message, cap.name.place, advice)


_POOL_HELP = {
    "cap": "write the capacity there: NAME cap ...;",
    "admit via": "`on ENGINE.DEVICE` and `on ENGINE` are admitted by the engine, `on DEVICE` as soon as it fits",
}

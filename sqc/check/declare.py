"""From the text's declarations to a `Scope`: constants evaluated, definitions expanded, clashes found."""

from __future__ import annotations

from typing import Any

from sqc.check.constants import Constants
from sqc.check.definitions import Definitions
from sqc.check.language import BUILT_IN, CONTEXT, TRACED
from sqc.check.reads import reads
from sqc.check.scope import Attribute, Register, Resource, Scope
from sqc.check.uses import Unit
from sqc.diagnostics import Note, Place, Reporter
from sqc.syntax import tree


def expand(unit: Unit, reporter: Reporter) -> tuple[list[tree.Item], Constants]:
    """Main's declarations without definitions, and the constants."""
    constants = Constants(reporter)
    declared = {item.name.id: item for item in unit.items if isinstance(item, tree.Def)}
    definitions = Definitions(reporter, declared, lambda e: constants.number(e, "the count of an aggregate"))
    evaluate(unit, constants, definitions)
    items = [
        definitions.expand(item)
        for main in unit.mains
        for item in main.items
        if not isinstance(item, tree.Use | tree.Let | tree.Def)
    ]
    return items, constants


def collect(items: list[tree.Item], constants: Constants, reporter: Reporter) -> Scope:
    """The scope that the declarations make."""
    scope = Scope(items, constants.table, constants.inputs)
    _Collector(scope, constants, reporter).collect()
    return scope


def check_parts(unit: Unit, whole: Place, reporter: Reporter) -> None:
    """Exactly one main, workload and server."""
    start = whole._replace(end=whole.start + 1)
    if not unit.mains:
        reporter.error("E501", "the program has no `fn main() { ... }`", start)
        return
    for extra in unit.mains[1:]:
        twice(reporter, "`fn main`", extra.place, unit.mains[0].place)
    main = unit.mains[0]
    for cls, word, code in ((tree.Workload, "workload", "E502"), (tree.Server, "server", "E503")):
        found = [item for item in main.items if isinstance(item, cls)]
        if not found and not (cls is tree.Server and requests(main)):
            other = "server" if word == "workload" else "workload"
            message = f"the program has no `{word} {{ ... }}`: its `{other}` needs one"
            advice = "write one, or name the file that has it: --workload FILE" if word == "workload" else None
            reporter.error(code, message, head(main.place, "fn main"), advice)
        for extra_item in found[1:]:
            twice(reporter, f"`{word}`", extra_item.place, found[0].place)


def requests(main: tree.Main) -> bool:
    """Does the workload name the gateway that its requests enter?"""
    workloads = (item for item in main.items if isinstance(item, tree.Workload))
    return any(isinstance(part, tree.Request) for workload in workloads for part in workload.items)


def head(place: Place, word: str) -> Place:
    """The first word of a declaration instead of all of it."""
    return place._replace(end=place.start + len(word))


def twice(reporter: Reporter, what: str, place: Place, first: Place) -> None:
    short = place.text.split("{")[0].split()[0]
    notes = [Note("first declared here", first._replace(end=first.start + len(short)))]
    reporter.error("E504", f"{what} is declared twice", head(place, short), notes=notes)


def evaluate(unit: Unit, constants: Constants, definitions: Definitions) -> None:
    """Constants and definitions in order; each reads only what stands above it."""
    lets = [(item, False) for item in unit.top] + [(item, True) for m in unit.mains for item in m.items]
    remaining = [item.name.id for item, _ in lets if isinstance(item, tree.Let)]
    for item, in_main in lets:
        if isinstance(item, tree.Def):
            definitions.declare(item)
        elif isinstance(item, tree.Let):
            remaining.remove(item.name.id)
            constants.later = frozenset(remaining)
            refused = None if in_main else "write the `let` inside `fn main`"
            if "std/args" not in unit.uses:
                refused = 'the program must say: use "std/args";'
            constants.declare(definitions.expand(item), args_allowed=refused)


MAX_MEMBERS = 10_000  # of one array
SETTABLE = ("serial", "turn_no", *TRACED)  # attributes of the language that the workload may set as well


class _Collector:
    """Enters every declaration into the scope; a name that means two things is an error."""

    def __init__(self, scope: Scope, constants: Constants, reporter: Reporter) -> None:
        self.scope = scope
        self.constants = constants
        self.reporter = reporter
        self.meaning: dict[str, tuple[str, Place]] = {
            name: ("a constant", constant.place) for name, constant in constants.table.items()
        }

    def collect(self) -> None:
        scope = self.scope
        for item in scope.items:
            match item:
                case tree.Pool():
                    self.enter(item.name, "a pool")
                    scope.pools.setdefault(item.name.id, Resource(item, self.size(item)))
                case tree.Stage():
                    self.enter(item.name, "a stage" if item.kind.word != "engine" else "an engine")
                    scope.stages.setdefault(item.name.id, Resource(item, self.size(item)))
                    self.registers(item)
                case tree.Device():
                    self.enter(item.name, "a device")
                case tree.Queue():
                    self.enter(item.name, "a station")
                case tree.Workload():
                    scope.workload = scope.workload or item
                    self.workload(item)
                case tree.Server():
                    scope.server = scope.server or item.body
                case tree.Gauge():
                    scope.gauges.append(item)
                case tree.Claim():
                    scope.claims.append(item)
                case tree.Share():
                    scope.shares.append(item)
        for name in BUILT_IN + (TRACED if scope.trace else ()):
            scope.attributes[name] = Attribute(None, "language")
        for block_name, block in scope.blocks():
            self.assignments(block, "server" if block_name == "server" else "workload")
        self.observations()
        for gauge in scope.gauges:
            self.enter(gauge.name, "a gauge")
        for claim in scope.claims:
            self.enter(claim.name, "a claim")

    def size(self, item: tree.Pool | tree.Stage) -> int | None:
        """The size of an array; 1 after an error, so that it stays an array."""
        if item.size is None:
            return None
        for name, at in reads(item.size):
            constant = self.constants.table.get(name)
            if (
                constant is not None
                and constant.place.source is at.place.source
                and constant.place.start > at.place.start
            ):
                notes = [Note("declared here", constant.place)]
                message = f"`{name}` is declared later: the size of an array reads earlier constants"
                self.reporter.error("E205", message, at.place, notes=notes)
                return 1
        size = self.constants.whole(item.size, "the size of an array") or 1
        if size > MAX_MEMBERS:
            message = f"an array has at most {MAX_MEMBERS} members, found {size}"
            self.reporter.error("E208", message, item.size.place)
            return 1
        return size

    def registers(self, item: tree.Stage) -> None:
        """The registers of a step stage, and the lets of its schedule (which have long names)."""
        for option in item.kind.options:
            if option.word == "state":
                name = option.values[0]
                assert isinstance(name, tree.Name)
                self.enter(name, "a register")
                self.scope.registers.setdefault(name.id, Register(name.place, item.name.id))
            self.scope.lets.update(node.name.id for node in tree.walk(option) if isinstance(node, tree.StepLet))

    def workload(self, item: tree.Workload) -> None:
        scope = self.scope
        for part in item.items:
            match part:
                case tree.Arrive():
                    self.once("arrive", "`arrive`", part)
                case tree.Trace():
                    self.once("trace", "`trace`", part)
                case tree.Routine(word=word, body=body):
                    if getattr(scope, word) is None:
                        setattr(scope, word, body)
                    else:
                        twice(self.reporter, f"the `{word}` block", part.place, getattr(scope, word).place)
                case tree.Hidden(names=names):
                    scope.hidden.update((name.id, name.place) for name in names)

    def once(self, slot: str, what: str, part: Any) -> None:
        first = getattr(self.scope, slot)
        if first is None:
            setattr(self.scope, slot, part)
        else:
            twice(self.reporter, what, part.place, first.place)

    def assignments(self, block: tree.Block, owner: str) -> None:
        """The attributes that a block assigns, in order of appearance."""
        for node in tree.walk(block):
            match node:
                case tree.Set(name=name) | tree.Choose(name=name):
                    self.attribute(name, owner)
                case tree.CostRecord(name=name):
                    self.attribute(name, owner)
                    self.scope.records.setdefault(name.id, node)
                case tree.Hold(bindings=bindings):
                    for binding in bindings:
                        self.attribute(binding.name, "hold")

    def attribute(self, name: tree.Name, owner: str) -> None:
        known = self.scope.attributes.get(name.id)
        if known is not None:
            if known.owner == "language":
                if owner != "workload" or name.id not in SETTABLE:
                    message = f"`{name.id}` is an attribute that the language sets"
                    self.reporter.error("E407", message, name.place)
            elif (known.owner == "hold") is not (owner == "hold"):
                assert known.place is not None
                message = f"`{name.id}` is both an attribute and a name bound `at admission`"
                notes = [Note("the other one is here", known.place)]
                self.reporter.error("E204", message, name.place, "use another name for the binding", notes)
            elif known.owner == "workload" and owner == "server":
                assert known.place is not None
                message = f"the server cannot set `{name.id}`: it is the workload's"
                notes = [Note("the workload sets it here", known.place)]
                self.reporter.error("E407", message, name.place, "use another name in the server", notes)
            return
        self.enter(name, "an attribute")
        self.scope.attributes[name.id] = Attribute(name.place, owner)  # after a clash as well: it is known

    def observations(self) -> None:
        for item in self.scope.items:
            for node in tree.walk(item):
                if isinstance(node, tree.Observe):
                    found = self.scope.observations.setdefault(node.name.id, [])
                    if not found and node.name.id not in self.scope.attributes:
                        self.enter(node.name, "an observation")
                    found.append(node)

    def enter(self, name: tree.Name, what: str) -> None:
        """Give a name its one meaning."""
        if name.id in CONTEXT or name.id == "inf":
            message = f"`{name.id}` is a name the language supplies: it cannot be {what}"
            self.reporter.error("E204", message, name.place)
            return
        if name.id in self.meaning:
            other, place = self.meaning[name.id]
            same = other == what
            message = f"{what[what.index(' ') + 1 :]} `{name.id}` is declared twice" if same else (
                f"`{name.id}` is {other}: it cannot also be {what}"
            )  # fmt: skip
            self.reporter.error("E204", message, name.place, notes=[Note("declared here", place)])
            return
        self.meaning[name.id] = (what, name.place)

"""Every name means something, is of the right kind, and gets the right number of arguments."""

from __future__ import annotations

from sqc.check import sites
from sqc.check.constants import is_args_number
from sqc.check.language import (
    CALLABLE,
    CONTEXT,
    DISTRIBUTIONS,
    ENGINE_NAMES,
    FUNCTIONS,
    LINKS,
    OBSERVABLE_ARITY,
    OBSERVABLES,
    STATEMENT_WORDS,
    TOTALS,
)
from sqc.check.scope import Resource, Scope, family
from sqc.check.values import Values
from sqc.diagnostics import Note, Place, Reporter, nearest
from sqc.syntax import tree

ERROR = "?"  # the name of what has been reported already


def check_names(scope: Scope, values: Values, reporter: Reporter) -> None:
    """Report every unknown or misused name of a program."""
    names = _Names(scope, values, reporter)
    for site in sites.sites(scope):
        names.expression(site.expr, site.moment)
    for ref, kind in sites.references(scope):
        names.reference(ref, kind)
    for pool in scope.pools.values():
        for option in pool.options("admit via"):
            names.belonging(option.values[0], "stage", pool)
    for stage in scope.stages.values():
        for option in stage.options("memory"):
            names.belonging(option.values[0], "pool", stage)
    for claim in scope.claims:
        if claim.stage is not None:
            names.iterations(claim.stage)
    for name, place in scope.hidden.items():
        names.hidden(name, place)
    for name, block in scope.blocks():
        for node in tree.walk(block):
            if isinstance(node, tree.Serve):
                names.service(node, name)
            elif isinstance(node, tree.Transfer) and not node.on:
                names.link(node)


class _Names:
    def __init__(self, scope: Scope, values: Values, reporter: Reporter) -> None:
        self.scope = scope
        self.values = values
        self.reporter = reporter
        self.resources = scope.resources

    def expression(self, node: tree.Node, moment: sites.Moment) -> None:
        match node:
            case tree.Name():
                self.value(node)
            case tree.Member():
                self.member(node)
            case tree.Index(base=base):
                what = self.kind_of(base.id)
                self.reporter.error("E211", f"`{base.id}[...]` is {what}, not a number", node.place)
            case tree.Text():
                self.reporter.error("E211", "a text is not a number", node.place)
            case tree.Draw(dist=dist, args=args):
                takes = DISTRIBUTIONS.get(dist.id)
                if takes is None:
                    advice = nearest(dist.id, DISTRIBUTIONS)
                    self.reporter.error("E217", f"unknown distribution `~{dist.id}`", dist.place, advice)
                else:
                    self.arity(f"~{dist.id}", takes, len(args), node.place)
                for arg in args:
                    self.expression(arg, moment)
            case tree.Call():
                self.call(node, moment)
            case _:
                for child in tree.children(node):
                    self.expression(child, moment)

    def kind_of(self, name: str) -> str:
        if name in self.scope.pools:
            return "a pool"
        if name in self.scope.stages:
            return "a stage"
        return "no array"

    def value(self, node: tree.Name) -> None:
        name, scope = node.id, self.scope
        if name in scope.attributes or name in scope.constants or name in CONTEXT or name in ("inf", ERROR):
            if name in scope.records:
                fields = ", ".join(f"`{name}.{f.name.id}`" for f in scope.records[name].record)
                self.reporter.error("E211", f"`{name}` is a record", node.place, f"read {fields}")
            return
        if name in scope.registers or name in scope.lets:
            return
        if name in self.resources:
            read = "used" if name in scope.pools else "queue"
            message = f"`{name}` is {self.kind_of(name)}, not a number"
            self.reporter.error("E211", message, node.place, f"read its state: {read}({name})")
        elif name in CALLABLE:
            self.reporter.error("E211", f"`{name}` is a function: it needs arguments", node.place)
        elif name in scope.observations:
            advice = "an observation is only recorded; `set` an attribute to read it"
            self.reporter.error("E211", f"`{name}` is an observation, not a number", node.place, advice)
        else:
            truth = {"true": "write 1", "false": "write 0"}.get(name)
            known = [*scope.attributes, *scope.constants, "now", *self.resources]
            self.reporter.error("E201", f"unknown name `{name}`", node.place, truth or nearest(name, known))

    def member(self, node: tree.Member) -> None:
        base = node.base.id if isinstance(node.base, tree.Name) else ""
        record = self.scope.records.get(base)
        shown = tree.dotted(node)
        if shown in CONTEXT:
            return
        if record is None:
            known = [f"{r}.{f.name.id}" for r, c in self.scope.records.items() for f in c.record]
            known += [name for name in ENGINE_NAMES if name.startswith(f"{base}.")]
            self.reporter.error("E201", f"unknown name `{shown}`", node.place, nearest(shown, known))
        elif node.name.id not in (fields := [f.name.id for f in record.record]):
            notes = [Note("the record is made here", record.name.place)]
            message = f"the record `{base}` has no field `{node.name.id}`"
            self.reporter.error("E201", message, node.name.place, nearest(node.name.id, fields), notes)

    def call(self, node: tree.Call, moment: sites.Moment) -> None:
        if is_args_number(node):
            message = "`args.number` must be the whole value of a `let` inside `fn main`"
            self.reporter.error("E207", message, node.place, 'let x = args.number("x", 1); and use `x`')
            return
        name = tree.dotted(node.callee)
        args = node.args
        if name == "cost":
            self.cost(node, moment)
        elif name in FUNCTIONS:
            self.arity(name, FUNCTIONS[name], len(args), node.place)
            for arg in args:
                self.expression(arg, moment)
        elif name in OBSERVABLES or name == "blocksize":
            if self.arity(name, OBSERVABLE_ARITY.get(name, 1), len(args), node.place):
                self.observed(name, args[0])
                for arg in args[1:]:
                    self.expression(arg, moment)
        elif name in TOTALS:
            if self.arity(name, 1, len(args), node.place):
                self.total(name, args[0], node.place, moment)
        else:
            shown = f"`{name}`"
            if isinstance(node.callee, tree.Name) and node.callee.id in STATEMENT_WORDS:
                self.reporter.error("E202", f"{shown} is a statement, not a function", node.callee.place)
                return
            known = [*FUNCTIONS, *OBSERVABLES, "blocksize", "cost", *TOTALS]
            advice = nearest(name, known)
            if name in DISTRIBUTIONS:
                advice = f"a draw is written ~{name}(...)"
            self.reporter.error("E202", f"unknown function {shown}", node.callee.place, advice)
            for arg in args:
                if not isinstance(arg, tree.Index | tree.Text):
                    self.expression(arg, moment)

    def arity(self, name: str, takes: int, got: int, place: Place) -> bool:
        if got != takes:
            message = f"`{name}` takes {takes} argument{'s' * (takes != 1)}, got {got}"
            self.reporter.error("E203", message, place)
        return got == takes

    def cost(self, node: tree.Call, moment: sites.Moment) -> None:
        if len(node.args) < 2:
            self.reporter.error("E203", "`cost` takes a resource and an amount: cost(kv, 100)", node.place)
            return
        for resource in node.args[:-1]:
            if isinstance(resource, tree.Name | tree.Index):
                self.reference(resource, "resource", family=True)
            else:
                self.reporter.error("E211", "a cost is of a pool or a stage: name one", resource.place)
        self.expression(node.args[-1], moment)

    def observed(self, name: str, arg: tree.Expr) -> None:
        kind = OBSERVABLES.get(name, "pool")
        if not isinstance(arg, tree.Name | tree.Index):
            self.reporter.error("E211", f"`{name}` reads a {kind}: name one", arg.place)
            return
        self.reference(arg, kind)
        base = arg if isinstance(arg, tree.Name) else arg.base
        if name == "budget_left":
            self.steps(base, "has tokens to spend")
        if name == "blocksize" and base.id in self.scope.pools:
            pool = self.scope.pools[base.id]
            if not any(True for _ in pool.options("block")):
                notes = [Note("the pool is declared here", pool.place)]
                self.reporter.error("E511", f"the pool `{base.id}` has no `block`", arg.place, notes=notes)

    def total(self, name: str, arg: tree.Expr, place: Place, moment: sites.Moment) -> None:
        if not moment.totals:
            message = f"`{name}` is read only in a claim at the end, not in {moment.what}"
            self.reporter.error("E401", message, place)
        elif not isinstance(arg, tree.Name) or arg.id not in self.scope.observations:
            shown = arg.place.text
            advice = nearest(shown, self.scope.observations)
            self.reporter.error("E201", f"no observation is called `{shown}`", arg.place, advice)

    def reference(self, ref: tree.Ref, kind: str, family: bool = False) -> None:
        """A pool or stage, with an index exactly if it is an array (a cost may name the family)."""
        if isinstance(ref, tree.Member):
            self.reporter.error("E201", f"unknown {kind} `{tree.dotted(ref)}`", ref.place)
            return
        base = ref if isinstance(ref, tree.Name) else ref.base
        known = {"pool": self.scope.pools, "stage": self.scope.stages}.get(kind, self.resources)
        resource = known.get(base.id)
        if base.id == ERROR:
            return
        if resource is None:
            self.no_resource(base, kind, list(known))
            return
        if isinstance(ref, tree.Index):
            self.expression(ref.index, sites.INDEX)
            if resource.size is None and self.values.constant(ref.index) is None:
                notes = [Note("declared here", resource.place)]
                self.reporter.error("E211", f"`{base.id}` is no array", ref.place, "leave out the index", notes)
            else:
                self.index(ref, resource)
        elif resource.size is not None and not family:
            notes = [Note("declared here", resource.place)]
            message = f"`{base.id}` is an array of {resource.size}: it needs an index"
            self.reporter.error("E210", message, ref.place, f"write {base.id}[0]", notes)

    def belonging(self, ref: tree.Node, kind: str, owner: Resource) -> None:
        """The stage that admits to a pool, or the memory of a stage: member for member, or one for all."""
        assert isinstance(ref, tree.Name | tree.Index | tree.Member)
        self.reference(ref, kind, family=True)
        found = self.resources.get(family(ref))
        if isinstance(ref, tree.Index):
            if self.values.constant(ref.index) is None:
                self.reporter.error("E205", "an option names a member by a constant index", ref.index.place)
        elif found is not None and found.size not in (None, owner.size):
            notes = [Note("declared here", found.place)]
            mine = f"an array of {owner.size}" if owner.size is not None else "no array"
            message = f"`{family(ref)}` is an array of {found.size}, and `{owner.item.name.id}` is {mine}"
            self.reporter.error("E210", message, ref.place, "one for all, or member for member", notes)
        if kind == "stage":
            self.steps(ref, "admits in its iterations")

    def iterations(self, ref: tree.Ref) -> None:
        """The stage of a claim over iterations."""
        self.steps(ref, "has iterations")
        if isinstance(ref, tree.Index) and self.values.constant(ref.index) is None:
            self.reporter.error("E205", "a claim names a member by a constant index", ref.index.place)

    def steps(self, ref: tree.Node, does: str) -> None:
        stage = self.scope.stages.get(family(ref))
        if stage is not None and not stage.is_step:
            notes = [Note("declared here", stage.place)]
            message = f"`{family(ref)}` is no step stage or engine: only one of those {does}"
            self.reporter.error("E211", message, ref.place, notes=notes)

    def no_resource(self, base: tree.Name, kind: str, known: list[str]) -> None:
        if kind != "resource" and base.id in self.resources:
            other = self.resources[base.id]
            notes = [Note("declared here", other.place)]
            message = f"`{base.id}` is {self.kind_of(base.id)}, not a {kind}"
            self.reporter.error("E211", message, base.place, notes=notes)
        elif base.id == "tool" and kind in ("stage", "resource"):
            message = "there is no stage `tool`: it exists only through `tool` statements"
            self.reporter.error("E201", message, base.place, "declare it: stage tool : delay;")
        else:
            what = "pool or stage" if kind == "resource" else kind
            self.reporter.error("E201", f"unknown {what} `{base.id}`", base.place, nearest(base.id, known))

    def index(self, ref: tree.Index, resource: Resource) -> None:
        value = self.values.constant(ref.index)
        if value is None:
            return
        size = resource.size or 1
        if not (0 <= value < size and value == int(value)):
            notes = [Note("declared here", resource.place)]
            members = f"0 to {size - 1}" if size > 1 else "0"
            message = f"the index {value:g} is out of range: `{ref.base.id}` has members {members}"
            self.reporter.error("E209", message, ref.index.place, notes=notes)

    def hidden(self, name: str, place: Place) -> None:
        if name in ("cached", "computed"):
            self.reporter.error("E407", f"`{name}` cannot be hidden: the scheduler sets it", place)
        elif name not in self.scope.attributes:
            advice = nearest(name, self.scope.attributes)
            self.reporter.error("E201", f"unknown attribute `{name}`", place, advice)

    def link(self, node: tree.Transfer) -> None:
        """`transfer` without a stage runs on the one called `link` or `transfer`."""
        place = node.place._replace(end=node.place.start + len("transfer"))
        name = next((name for name in LINKS if name in self.scope.stages), None)
        if name is None:
            advice = "declare it, or name another: transfer on STAGE (...)"
            self.reporter.error("E201", "there is no stage `link` or `transfer`", place, advice)
        else:
            self.target(tree.Name(place, name), node.index)

    def target(self, stage: tree.Name, index: tree.Expr | None) -> None:
        """The stage that a service statement runs on."""
        self.reference(stage if index is None else tree.Index(index.place, stage, index), "stage")

    def service(self, node: tree.Serve, block: str) -> None:
        """`prefill e` and `decode e` need a stage of that name or the only step stage.

        `tool e` in the session brings its own stage.
        """
        if node.on is not None:
            return
        word = node.word
        stage = self.scope.played(node)
        if family(stage) in self.scope.stages:
            self.reference(stage, "stage")
        elif word != "tool" or block == "server":
            place = node.place._replace(end=node.place.start + len(word))
            advice = f"declare it, or name another: {word} on STAGE (...)"
            self.reporter.error("E201", f"there is no stage `{word}`", place, advice)

"""Options of pools and stages: each once, the required ones present, modes on step stages only."""

from __future__ import annotations

from sqc.check.scope import Resource, Scope, family
from sqc.check.structure import word
from sqc.check.values import Values
from sqc.diagnostics import Note, Reporter
from sqc.syntax import tree


def check_options(scope: Scope, values: Values, reporter: Reporter) -> None:
    """Report options given twice or missing, and run modes that do not fit their stage."""
    for resource in (*scope.pools.values(), *scope.stages.values()):
        _once(resource, reporter)
        _named(resource, values, reporter)
    for _, block in scope.blocks():
        for node in tree.walk(block):
            if isinstance(node, tree.Run) and len(node.stages) == 1:
                _mode(scope, node.stages[0], node.mode, node.growing, reporter)
            elif isinstance(node, tree.Serve):
                _service(scope, node, reporter)
            elif isinstance(node, tree.Transfer) and len(node.on) == 1:
                _mode(scope, node.on[0], None, None, reporter)


def _once(resource: Resource, reporter: Reporter) -> None:
    item = resource.item
    options = item.options if isinstance(item, tree.Pool) else item.kind.options
    seen: dict[str, tree.Option] = {}
    for option in options:
        key = option.word.split()[0]
        if key == "state":
            continue
        first = seen.setdefault(key, option)
        if first is not option:
            notes = [Note("first given here", first.place)]
            reporter.error("E510", f"the option `{key}` is given twice", word(option), notes=notes)
    if resource.is_step and "cost" not in seen:
        reporter.error("E511", f"the step stage `{item.name.id}` has no `cost`", item.name.place)


def _named(resource: Resource, values: Values, reporter: Reporter) -> None:
    """The pools and stages that options name are known before the run."""
    for option in resource.options("spill"):
        for ref in option.values[:2]:
            if isinstance(ref, tree.Index) and values.constant(ref.index) is None:
                reporter.error("E205", "an option names a member by a constant index", ref.index.place)
        if family(option.values[0]) == resource.item.name.id:
            message = f"`{resource.item.name.id}` cannot spill into itself"
            reporter.error("E515", message, option.values[0].place, "name another pool")


def _mode(scope: Scope, ref: tree.Ref, mode: str | None, growing: tree.Ref | None, reporter: Reporter) -> None:
    """A run on a step stage is a prefill or a decode, and only there it grows."""
    name = family(ref)
    stage = scope.stages.get(name)
    if stage is None:
        return
    notes = [Note("the stage is declared here", stage.place)]
    if stage.is_step and mode is None:
        message = f"a run on the step stage `{name}` is `prefill` or `decode`"
        advice = f"write run {name} prefill (...) or run {name} decode (...)"
        reporter.error("E308", message, ref.place, advice, notes)
    elif not stage.is_step and mode is not None:
        message = f"`{mode}` is for step stages, and `{name}` is none"
        reporter.error("E308", message, ref.place, notes=notes)
    if not stage.is_step and growing is not None:
        message = f"`growing` is for step stages, and `{name}` is none"
        reporter.error("E308", message, growing.place, notes=notes)


def _service(scope: Scope, node: tree.Serve, reporter: Reporter) -> None:
    """A service statement has the mode of its word on a step stage, and none on another."""
    ref = scope.played(node)
    stage = scope.stages.get(family(ref))
    step = stage is not None and stage.is_step
    _mode(scope, ref, node.word if step and node.word != "tool" else None, node.growing, reporter)

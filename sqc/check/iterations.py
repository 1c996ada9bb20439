"""What an iteration of a step stage does: every path does something, rules that exclude each other, registers."""

from __future__ import annotations

from sqc.check.scope import Resource, Scope
from sqc.check.structure import word
from sqc.diagnostics import Note, Place, Reporter
from sqc.syntax import tree


def check_iterations(scope: Scope, reporter: Reporter) -> None:
    """Report wrong serving rules, bodies and registers of step stages, in either spelling."""
    for stage in scope.stages.values():
        if stage.is_step:
            _rules(stage, reporter)
            _granule(stage, reporter)
            _registers(scope, stage, reporter)


def acts(body: tuple[tree.Node, ...]) -> bool:
    """Does every path through some statements serve or admit?"""
    return any(
        isinstance(node, tree.StepServe | tree.StepAdmit | tree.StepExclusive)
        or (isinstance(node, tree.StepBranch) and acts(node.then) and acts(node.other))
        for node in body
    )


def _rules(stage: Resource, reporter: Reporter) -> None:
    engine = _kind(stage).word == "engine"
    for option in stage.options("iteration"):
        if not acts(option.values):
            what = "schedule" if engine else "body"
            message = f"this {what} has a path that neither serves nor admits: an engine that takes it stands still"
            advice = "advance running; or admit waiting; on every path" if engine else "serve; or admit; on every path"
            reporter.error("E707", message, word(option), advice)
        for rule in stage.options("serve"):
            notes = [Note("the body is here", word(option))]
            (serve,) = rule.values
            if isinstance(serve, tree.StepExclusive):
                message = "`serve exclusive prefill` takes back what a body would have served"
                reporter.error("E708", message, word(rule), "leave one of them out", notes)
            elif isinstance(serve, tree.StepServe) and serve.only is not None:
                message = "`serve only` is a body by itself"
                advice = "write it in the body: serve only (...); admit only (...) while (!preempted);"
                reporter.error("E708", message, word(rule), advice, notes)


def _granule(stage: Resource, reporter: Reporter) -> None:
    for rule in stage.options("serve"):
        for option in stage.options("granule") if isinstance(rule.values[0], tree.StepExclusive) else ():
            message = "a prefill that its granule refuses would block every decode: the stage would stand still"
            advice = "leave the granule out, or serve prefills and decodes together"
            reporter.error("E708", message, word(option), advice, [Note("prefills are alone here", word(rule))])


def _registers(scope: Scope, stage: Resource, reporter: Reporter) -> None:
    name = stage.item.name.id
    mine = {r for r, register in scope.registers.items() if register.stage == name}
    updates = [node for option in _kind(stage).options for node in tree.walk(option) if isinstance(node, tree.StepSet)]
    for node in updates:
        register = scope.registers.get(node.name.id)
        if register is None:
            message = f"`{node.name.id}` is no register of `{name}`: an iteration sets nothing else"
            _error(reporter, message, node.name.place, f"declare it: state {node.name.id} = 0;")
        elif register.stage != name:
            notes = [Note("declared here", register.place)]
            message = f"`{node.name.id}` is a register of `{register.stage}`, not of `{name}`"
            _error(reporter, message, node.name.place, notes=notes)
    unset = mine - {node.name.id for node in updates}
    for option in stage.options("state"):
        register_name = option.values[0]
        assert isinstance(register_name, tree.Name)
        if stage.size is not None:
            message = f"`{register_name.id}` would be a register of each member of `{name}`: which one is read?"
            _error(reporter, message, register_name.place, "only a stage that is no array has registers")
        elif register_name.id in unset and not any(stage.options("iteration")):
            message = f"nothing can set the register `{register_name.id}`: `{name}` has no body"
            _error(reporter, message, register_name.place, "write what an iteration does")


def _error(
    reporter: Reporter, message: str, place: Place, advice: str | None = None, notes: list[Note] | None = None
) -> None:
    reporter.error("E710", message, place, advice, notes or [])


def _kind(stage: Resource) -> tree.Kind:
    assert isinstance(stage.item, tree.Stage)
    return stage.item.kind

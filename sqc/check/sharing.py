"""Runs over several stages at once: what their stages must be, and how the program shares them."""

from __future__ import annotations

from sqc import ir
from sqc.check.scope import Resource, Scope, family
from sqc.check.values import Values
from sqc.diagnostics import Note, Reporter
from sqc.syntax import tree


def check_sharing(scope: Scope, values: Values, reporter: Reporter) -> None:
    """Report wrong stages of flows, and a `share` that is missing, unused or given twice."""
    flows: list[tuple[tree.Ref, ...]] = []
    for _, block in scope.blocks():
        for node in tree.walk(block):
            stages = node.stages if isinstance(node, tree.Run) else node.on if isinstance(node, tree.Transfer) else ()
            if len(stages) > 1:
                flows.append(stages)
    for stages in flows:
        _flow(scope, values, stages, reporter)
    for extra in scope.shares[1:]:
        notes = [Note("first given here", scope.shares[0].place)]
        reporter.error("E504", "`share` is declared twice", extra.place, notes=notes)
    if flows and not scope.shares:
        message = "a run over several stages needs the program to say how they are shared"
        reporter.error("E514", message, flows[0][1].place, "declare share maxmin; or share bottleneck;")
    elif scope.shares and not flows:
        message = "`share` without a run over several stages"
        reporter.error("E514", message, scope.shares[0].place, "leave it out")


def _flow(scope: Scope, values: Values, stages: tuple[tree.Ref, ...], reporter: Reporter) -> None:
    seen: set[str] = set()
    for ref in stages:
        name = family(ref)
        stage = scope.stages.get(name)
        if name in seen:
            reporter.error("E515", f"this run names `{name}` twice", ref.place, "a job holds a stage once")
        elif stage is not None and not _shareable(stage, values):
            notes = [Note("the stage is declared here", stage.place)]
            message = f"`{name}` cannot be held together with another stage: it is no ps(c) with a constant c above 0"
            reporter.error("E310", message, ref.place, notes=notes)
        seen.add(name)


def _shareable(stage: Resource, values: Values) -> bool:
    assert isinstance(stage.item, tree.Stage)
    kind = stage.item.kind
    if kind.word != "ps" or kind.value is None:
        return False
    capacity = values.fixed(kind.value)
    return capacity is not None and (not isinstance(capacity, ir.Const) or capacity.value > 0)

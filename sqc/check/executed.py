"""What parses and checks, but is not executed by this version: refused by name.

One diagnostic for a program: at the first construct that is not executed, with the others named.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqc.check.scope import Scope
from sqc.check.structure import word
from sqc.diagnostics import Note, Place, Reporter
from sqc.syntax import tree


def refuse_foreign(items: list[tree.Item], reporter: Reporter) -> None:
    """Devices and engines: read, but not understood any further."""
    found = [
        (node.construct, word(node)) for item in items for node in tree.walk(item) if isinstance(node, tree.Foreign)
    ]
    _refuse(found, reporter)


def refuse(scope: Scope, reporter: Reporter) -> None:
    """Step stages, and what exists only with them."""
    _refuse([found for item in scope.items for node in tree.walk(item) for found in _step(node)], reporter)


def _refuse(found: list[tuple[str, Place]], reporter: Reporter) -> None:
    first: dict[str, Place] = {}
    for construct, place in sorted(found, key=lambda f: f[1].start):
        first.setdefault(construct, place)
    if not first:
        return
    (construct, place), *others = first.items()
    listed = ", ".join(f"{other} (line {at.span.line})" for other, at in others)
    notes = [Note(f"not executed either: {listed}")] if listed else []
    reporter.error("E901", f"{construct} is not executed yet", place, notes=notes)


def _step(node: tree.Node) -> Iterator[tuple[str, Place]]:
    match node:
        case tree.Stage(kind=tree.Kind(word="step") as kind):
            yield "`step`", word(kind)
        case tree.Option(word="admit via"):
            yield "`admit via`", node.place
        case tree.Run(growing=growing) | tree.Serve(growing=growing) if growing is not None:
            yield "`growing`", growing.place
        case tree.Claim(stage=stage) if stage is not None:
            yield "a claim over iterations", word(node)
        case tree.Call(callee=tree.Name(id="budget_left") as callee):
            yield "`budget_left`", callee.place

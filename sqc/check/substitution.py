"""Copies of a body with names replaced: how definitions and the entries of stations come to their use.

The copy's places are seen through the use (`Place.via`), so that a finding in it is shown at the
body and at every use that led there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from sqc.diagnostics import Place, ReadAs, Reporter
from sqc.syntax import tree
from sqc.syntax.tree import Node

MAX_NODES = 50_000  # of all copies together

Replace: TypeAlias = Callable[[tree.Name, str, Node | None], Any]
"""What stands for a name, given its field and the node it is a field of; None keeps it."""


class Substitution:
    """Makes the copies, and gives up when all of them together are too large to be meant."""

    def __init__(self, reporter: Reporter) -> None:
        self.reporter = reporter
        self.nodes = 0

    def copy(self, body: Any, replace: Replace, use: Place | None) -> Any:
        """The body with its names replaced; `use` is where it is expanded (None: where it stands)."""
        seen: dict[int, Place] = {}

        def through(place: Place) -> Place:
            if use is None:
                return place
            if place.via is None:
                return place._replace(via=use)
            key = id(place.via)
            if key not in seen:
                seen[key] = through(place.via)
            return place._replace(via=seen[key])

        def change(node: Any, field: str, parent: Node | None) -> Any:
            self.grow(use or node.place)
            if isinstance(node, tree.Name):
                value = replace(node, field, parent)
                if value is not None:
                    return value if use is None else self.argument(value, ReadAs(*through(node.place)))
            return tree.rebuild(node, lambda child, name: change(child, name, node), through)

        return change(body, "", None)

    def argument(self, value: Any, read: ReadAs) -> Any:
        """An argument stands where it is given, and remembers where the body reads it."""

        def seen(place: Place) -> Place:
            return place._replace(via=read) if place.via is None else place

        def change(node: Any, _: str) -> Any:
            self.grow(read)
            return tree.rebuild(node, change, seen)

        return change(value, "")

    def grow(self, place: Place) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            message = f"the definitions and entries expand to more than {MAX_NODES} parts"
            self.reporter.fatal("E215", message, place)

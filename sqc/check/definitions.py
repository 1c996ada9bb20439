"""Definitions are textual: every use becomes the body with its parameters replaced.

A definition's own body is expanded when it is declared, so a use is one substitution and there
is no recursion. Aggregates (`sum k in n (e)`) are written out here as well. What comes out has
no definitions, no uses of them and no aggregates; the places of an expanded body remember the
use that brought them (`Place.via`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

from sqc.check.language import CALLABLE, CONTEXT, OBSERVABLES, STATEMENT_WORDS
from sqc.check.reads import WORDS, assigned
from sqc.check.substitution import Substitution
from sqc.diagnostics import Note, Place, Reporter, nearest
from sqc.syntax import tree
from sqc.syntax.parse import MAX_DEPTH
from sqc.syntax.tree import Node

# Fields that name a pool or a stage: an argument put there must be a plain reference.
_REFERENCES = frozenset({"base", "pool", "stages", "growing", "on", "source", "target"})


class _Definition:
    """A definition ready for use: its expanded body and what a use must know of it."""

    def __init__(self, item: tree.Def, body: tree.Expr | tree.Block) -> None:
        self.name = item.name.id
        self.place = item.name.place
        self.params = tuple(p.id for p in item.params)
        self.body = body
        self.statements = isinstance(body, tree.Block)
        self.depth = tree.depth(body)
        self.assigned = {name.id for name in assigned(body)}
        self.reads = dict.fromkeys(self.params, 0)
        for node in tree.walk(body):
            if isinstance(node, tree.Name) and node.id in self.reads:
                self.reads[node.id] += 1


class Definitions:
    """The definitions seen so far, and the expansion of trees that use them."""

    def __init__(self, reporter: Reporter, declared: dict[str, tree.Def], count: Callable[[tree.Expr], Any]) -> None:
        self.reporter = reporter
        self.declared = declared  # all of the program, for messages
        self.count = count  # the value of a constant expression, or None after reporting
        self.table: dict[str, _Definition] = {}
        self.within: str | None = None
        self.copies = Substitution(reporter)

    def declare(self, item: tree.Def) -> None:
        name = item.name.id
        if name in CALLABLE or name in STATEMENT_WORDS:
            self.reporter.error("E204", f"`{name}` is a word of the language", item.name.place)
            return
        if name in self.table:
            notes = [Note("first defined here", self.table[name].place)]
            self.reporter.error("E204", f"`{name}` is defined twice", item.name.place, notes=notes)
            return
        self.parameters(item)
        self.within = name
        body = self.expand(item.body)
        self.within = None
        self.table[name] = _Definition(item, body)

    def parameters(self, item: tree.Def) -> None:
        """A parameter's name means the argument, and nothing else, throughout the body."""
        params: dict[str, tree.Name] = {}
        for param in item.params:
            if param.id in CONTEXT or param.id == "inf":
                message = f"`{param.id}` is a name the language supplies: no parameter can have it"
                self.reporter.error("E204", message, param.place)
            if params.setdefault(param.id, param) is not param:
                self.reporter.error("E204", f"the parameter `{param.id}` is declared twice", param.place)
        observed = (node.name for node in tree.walk(item.body) if isinstance(node, tree.Observe))
        for name in (*assigned(item.body), *observed):
            if name.id in params:
                notes = [Note("the parameter is declared here", params[name.id].place)]
                message = f"`{name.id}` is a parameter of `{item.name.id}`: the body cannot assign or observe it"
                self.reporter.error("E204", message, name.place, notes=notes)

    def expand(self, node: Any, _field: str = "") -> Any:
        """The tree without uses of definitions; a statement may become several."""
        made = tree.rebuild(node, self.expand)
        if isinstance(made, tree.Call) and isinstance(made.callee, tree.Name):
            return self.call(made, made.callee, made.args, statement=False)
        if isinstance(made, tree.CallStmt):
            return self.call(made, made.callee, made.args, statement=True)
        if isinstance(made, tree.Aggregate):
            return self.aggregate(made)
        return made

    def call(self, use: Any, callee: tree.Name, args: tuple[tree.Expr, ...], statement: bool) -> Any:
        name = callee.id
        definition = self.table.get(name)
        if definition is None:
            return self.unknown(use, callee, statement)
        notes = [Note("defined here", definition.place)]
        nothing: Any = () if statement else tree.Num(use.place, 0.0)
        if definition.statements is not statement:
            kind = "an expression, not statements" if statement else "statements, not an expression"
            self.reporter.error("E211", f"`{name}` is {kind}", callee.place, notes=notes)
            return nothing
        takes = len(definition.params)
        if len(args) != takes:
            message = f"`{name}` takes {takes} argument{'s' * (takes != 1)}, got {len(args)}"
            self.reporter.error("E203", message, use.place, notes=notes)
            return nothing
        for parameter, argument in zip(definition.params, args, strict=True):
            self.check_argument(definition, parameter, argument)
        if definition.depth + max(map(tree.depth, args), default=0) > MAX_DEPTH:
            message = f"this use of `{name}` makes more than {MAX_DEPTH} levels of nesting"
            self.reporter.fatal("E105", message, use.place)
        made = self.substitute(definition.body, dict(zip(definition.params, args, strict=True)), use.place)
        return made.body if statement else made

    def unknown(self, use: Any, callee: tree.Name, statement: bool) -> Any:
        """Not (yet) a definition: an error only where nothing else can have that name."""
        name = callee.id
        if name == self.within or (name in self.declared and self.reaches(name, self.within)):
            self.reporter.error("E213", f"`{self.within}` uses itself", callee.place)
        elif name in self.declared and name not in CALLABLE:
            notes = [Note("defined here", self.declared[name].name.place)]
            message = f"`{name}` is defined later: a definition uses the ones before it"
            self.reporter.error("E212", message, callee.place, notes=notes)
        elif statement:
            advice = nearest(name, [*self.declared, *STATEMENT_WORDS])
            self.reporter.error("E212", f"unknown statement `{name}`", callee.place, advice)
        else:
            return use
        return () if statement else tree.Num(use.place, 0.0)

    def reaches(self, start: str, goal: str | None) -> bool:
        """Does a definition's text use another, directly or through others?"""
        seen, todo = set(), [start]
        while todo:
            name = todo.pop()
            if name in seen or name not in self.declared:
                continue
            seen.add(name)
            for node in tree.walk(self.declared[name].body):
                if isinstance(node, tree.Call | tree.CallStmt) and isinstance(node.callee, tree.Name):
                    todo.append(node.callee.id)
        return goal in seen

    def check_argument(self, definition: _Definition, parameter: str, argument: tree.Expr) -> None:
        name, reads = definition.name, definition.reads[parameter]
        notes = [Note("defined here", definition.place)]
        for node in tree.walk(argument):
            if isinstance(node, tree.Draw) and reads > 1:
                message = f"this argument draws, and `{name}` reads `{parameter}` {reads} times"
                self.reporter.error("E214", message, node.place, "draw into an attribute first", notes)
            elif isinstance(node, tree.Name) and node.id in definition.assigned:
                message = f"this argument reads `{node.id}`, which `{name}` assigns"
                self.reporter.error("E214", message, node.place, notes=notes)
            elif definition.statements and self.moves(node):
                shown = node.place.text
                message = f"this argument reads `{shown}`, which changes while the statements of `{name}` run"
                self.reporter.error("E214", message, node.place, "`set` it before the call", notes)

    @staticmethod
    def moves(node: Node) -> bool:
        """Reads the clock or live state?"""
        if isinstance(node, tree.Name):
            return node.id in CONTEXT
        return isinstance(node, tree.Call) and isinstance(node.callee, tree.Name) and node.callee.id in OBSERVABLES

    def substitute(self, body: Any, values: dict[str, Any], use: Place | None) -> Any:
        """A copy of a body with parameters replaced."""

        def replace(node: tree.Name, field: str, parent: Node | None) -> Any:
            if node.id not in values or (parent is not None and WORDS.get(type(parent)) == field):
                return None
            value = values[node.id]
            if field in _REFERENCES and not isinstance(value, tree.Name | tree.Index | tree.Member):
                message = f"`{node.id}` names a pool or a stage: the argument must be a plain reference"
                self.reporter.error("E214", message, value.place)
                return tree.Name(value.place, "?")
            return value

        return self.copies.copy(body, replace, use)

    def aggregate(self, node: tree.Aggregate) -> tree.Expr:
        """The terms for 0 .. n-1, folded from the left."""
        n = self.count(node.count)
        if n is None:
            return tree.Num(node.place, 0.0)
        if not (1 <= n < math.inf and n == int(n)):
            message = f"`{node.fold} {node.name.id} in` needs a whole number of at least 1, found {n:g}"
            self.reporter.error("E208", message, node.count.place)
            return tree.Num(node.place, 0.0)
        if n + tree.depth(node.body) > MAX_DEPTH:
            message = f"`{node.fold}` over {n:g} terms makes more than {MAX_DEPTH} levels of nesting"
            self.reporter.fatal("E105", message, node.place)
        numbers = (tree.Num(node.count.place, float(k)) for k in range(int(n)))
        terms = [self.substitute(node.body, {node.name.id: k}, None) for k in numbers]

        def join(x: tree.Expr, y: tree.Expr) -> tree.Expr:
            if node.fold == "sum":
                return tree.Binary(node.place, "+", x, y)
            return tree.Call(node.place, tree.Name(node.place, node.fold), (x, y))

        folded: tree.Expr = reduce(join, terms)
        return folded

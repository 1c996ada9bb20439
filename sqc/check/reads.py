"""Which names an expression or a statement reads as values, and when two references are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqc.check.language import OBSERVABLES, TOTALS
from sqc.check.values import Values
from sqc.syntax import tree

# Fields that hold a name which is not read.
WORDS: dict[type[tree.Node], str] = {
    tree.Set: "name", tree.CostRecord: "name", tree.Observe: "name", tree.Choose: "name", tree.Field: "name",
    tree.Member: "name", tree.Draw: "dist", tree.Call: "callee", tree.CallStmt: "callee", tree.Aggregate: "name",
    tree.Mark: "name",
}  # fmt: skip


def reads(node: tree.Node) -> Iterator[tuple[str, tree.Name | tree.Member]]:
    """The names that an expression reads, or a statement outside of its blocks; records as `c.f`."""
    stack = [node]
    while stack:
        top = stack.pop()
        if isinstance(top, tree.Name | tree.Member):
            yield tree.dotted(top), top
        else:
            stack.extend(reversed(list(_below(top))))


def _below(node: tree.Node) -> Iterator[tree.Node]:
    """The parts of a node that may read names."""
    if isinstance(node, tree.Call) and isinstance(node.callee, tree.Name) and node.callee.id in TOTALS:
        return  # names an observation
    word = getattr(node, WORDS.get(type(node), ""), None)
    yield from (c for c in tree.children(node) if c is not word and not isinstance(c, tree.Block))


def always(expr: tree.Node, of: Callable[[str], frozenset[str]]) -> frozenset[str]:
    """What every evaluation of an expression reads, whichever arms it takes: the union over its names of what each
    stands for."""
    match expr:
        case tree.Name() | tree.Member():
            return of(tree.dotted(expr))
        case tree.Cond(test=test, then=then, other=other):
            return always(test, of) | (always(then, of) & always(other, of))
        case tree.Binary(op="&&" | "||", x=x):
            return always(x, of)
    return frozenset[str]().union(*(always(part, of) for part in _below(expr)))


def assigned(body: tree.Node) -> Iterator[tree.Name]:
    """The names that statements assign or bind."""
    for node in tree.walk(body):
        match node:
            case tree.Set(name=name) | tree.CostRecord(name=name) | tree.Choose(name=name):
                yield name
            case tree.Hold(bindings=bindings):
                yield from (binding.name for binding in bindings)


def live_reads(expr: tree.Node) -> Iterator[tree.Call]:
    """The observables of live state in an expression."""
    for node in tree.walk(expr):
        if isinstance(node, tree.Call) and isinstance(node.callee, tree.Name) and node.callee.id in OBSERVABLES:
            yield node


def member(ref: tree.Ref, values: Values) -> tuple[str, object]:
    """What a reference names, as far as the text tells: equal for `kv[j]` and `kv[j]`, or `kv[0]` and `kv[2 - 2]`."""
    if not isinstance(ref, tree.Index):
        return tree.dotted(ref), 0.0
    value = values.constant(ref.index)
    return ref.base.id, repr(ref.index) if value is None else value

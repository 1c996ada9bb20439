"""The schedule of an engine, as options of a step stage: its cap on a run's tokens, and its body or rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sqc.check.language import CONTEXT
from sqc.check.reads import reads
from sqc.check.structure import word
from sqc.check.substitution import Substitution
from sqc.diagnostics import Note, Place, Reporter
from sqc.syntax import tree


class Schedule:
    """One schedule. Its lets get long names (`e.schedule.c`); `taken` are the names that they cannot have."""

    def __init__(self, engine: str, option: tree.Option, taken: Mapping[str, Place], reporter: Reporter) -> None:
        self.engine = engine
        self.option = option
        self.taken = taken
        self.reporter = reporter
        self.copies = Substitution(reporter)
        self.capped: set[str] = set()  # the names that `each at most` reads, perhaps through a let
        top = next((i for i, s in enumerate(option.values) if not isinstance(s, tree.StepLet)), len(option.values))
        self.lets = [s for s in option.values[:top] if isinstance(s, tree.StepLet)]
        self.body = option.values[top:]

    def options(self) -> Iterator[tree.Option]:
        """`chunk`, and `iteration` or `serve`."""
        self.places()
        each = self.each()
        if each is not None:
            yield tree.Option(each.place, "chunk", (each,))
        exclusive = [node for node in self.statements() if isinstance(node, tree.StepExclusive)]
        if exclusive:
            self.alone(exclusive[0])
            yield tree.Option(self.option.place, "serve", (exclusive[0],))
            return
        yield tree.Option(self.option.place, "iteration", tuple(self.written()))

    def statements(self) -> Iterator[tree.Node]:
        """All statements of the body, those of branches too."""
        for statement in self.body:
            yield from tree.walk(statement)

    def places(self) -> None:
        """Lets stand at the top, under names of their own."""
        seen: dict[str, tree.StepLet] = {}
        for let in self.lets:
            name = let.name
            if name.id in CONTEXT or name.id == "inf":
                message = f"`{name.id}` is a name the language supplies: no `let` can have it"
                self.reporter.error("E204", message, name.place)
            elif name.id in seen or name.id in self.taken:
                first = seen[name.id].name.place if name.id in seen else self.taken[name.id]
                message = f"`{name.id}` is declared twice"
                self.reporter.error("E204", message, name.place, notes=[Note("declared here", first)])
            seen[name.id] = let
        for node in self.statements():
            if isinstance(node, tree.StepLet):
                message = "a `let` of a schedule is read as the iteration starts: it stands before the statements"
                self.reporter.error("E711", message, word(node))

    # ----------------------------------------------------------------- each at most

    def each(self) -> tree.Expr | None:
        """The one cap on what a run gets in an iteration, or None."""
        serving = [
            node for node in self.statements() if isinstance(node, tree.StepServe | tree.StepAdmit | tree.StepExclusive)
        ]
        values: dict[str, tree.Expr] = {}

        def written_out(name: str) -> tree.Expr | None:
            self.capped.add(name)
            return values.get(name)

        for let in self.lets:
            values[let.name.id] = self.replaced(let.value, written_out)
        caps = [None if node.each is None else self.replaced(node.each, written_out) for node in serving]
        for node, cap in zip(serving[1:], caps[1:], strict=True):
            if repr(cap) != repr(caps[0]):
                notes = [Note("this statement has another", serving[0].place)]
                message = "an iteration has one cap on what a run gets: all statements of a schedule say the same"
                advice = "write the same `each at most (...)` everywhere, or none"
                self.reporter.error("E709", message, node.place, advice, notes)
                break
        return caps[0] if caps else None

    def replaced(self, expr: Any, of: Callable[[str], tree.Expr | None]) -> Any:
        """A copy with other expressions for names that are read."""
        read = {id(at) for _, at in reads(expr)}
        return self.copies.copy(expr, lambda name, *_: of(name.id) if id(name) in read else None, None)

    # ----------------------------------------------------------------- the body

    def alone(self, rule: tree.StepExclusive) -> None:
        """`exclusive prefill` is a whole rule: only the admissions that belong to it may be written."""
        match self.body:
            case (tree.StepExclusive(), tree.StepAdmit(only=None, test=test)) if _undisturbed(test):
                return
        message = "`exclusive prefill` takes back what other statements would have served: it goes with one admission"
        advice = "write exclusive prefill; admit waiting while (running.preempted == 0);"
        self.reporter.error("E708", message, word(rule), advice)

    def long(self, name: str) -> str:
        """A let as no program can write it: attributes of stations have only one dot."""
        return f"{self.engine}.schedule.{name}"

    def written(self) -> Iterator[tree.Node]:
        """The statements with long names for the lets, and before them the lets, but those only of `each at most`."""
        names = {let.name.id for let in self.lets}

        def change(node: Any, _: str = "") -> Any:
            match node:
                case tree.StepServe() | tree.StepAdmit() | tree.StepBranch() | tree.StepSet():
                    return tree.rebuild(node, change_in(node))
            return self.replaced(node, named)

        def change_in(node: tree.Node) -> Callable[[Any, str], Any]:
            kept = ("name",) if isinstance(node, tree.StepSet) else ("each",)
            return lambda child, field: child if field in kept else change(child)

        def named(name: str) -> tree.Expr | None:
            if name not in names:
                return None
            read.add(name)
            return tree.Name(self.option.place, self.long(name))

        read: set[str] = set()
        body = [change(node) for node in self.body]
        lets: list[tree.StepLet] = []
        for let in reversed(self.lets):
            if let.name.id in read or let.name.id not in self.capped:
                name = tree.Name(let.name.place, self.long(let.name.id))
                lets.insert(0, tree.StepLet(let.place, name, self.replaced(let.value, named)))
        return iter((*lets, *body))


def _undisturbed(test: tree.Expr | None) -> bool:
    """Is it `running.preempted == 0`, or the same as `!running.preempted`?"""
    match test:
        case tree.Binary(op="==", x=tree.Member() as read, y=tree.Num(value=0.0)):
            return tree.dotted(read) == "running.preempted"
        case tree.Unary(op="!", x=tree.Member() as read):
            return tree.dotted(read) == "running.preempted"
    return False

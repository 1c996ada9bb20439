"""What blocks must and may not contain: turns, ends, the workload's blocks, loops that let time pass."""

from __future__ import annotations

from sqc.check.costs import used_by_server
from sqc.check.declare import head
from sqc.check.scope import Scope, family
from sqc.check.values import Values
from sqc.diagnostics import Note, Place, Reporter
from sqc.syntax import tree


def check_structure(scope: Scope, values: Values, reporter: Reporter) -> None:
    """Report statements in blocks where they have no meaning."""
    for name, block in (("init", scope.init), ("turn", scope.turn)):
        for statement in block.body if block is not None else ():
            if not isinstance(statement, tree.Set | tree.Observe) or _word(statement) == "Cost":
                message = f"the `{name}` block may only `set` and `observe`, and declare a `Size`"
                reporter.error("E509", message, word(statement))
    if scope.server is not None:
        _server(scope.server, reporter)
    if scope.session is not None:
        _session(scope, scope.session, reporter)
    passing = _Passing(scope, values)
    for block in (scope.session, scope.server):
        for node in tree.walk(block) if block is not None else ():
            if isinstance(node, tree.Loop | tree.While) and not passing.block(node.body):
                what = "loop" if isinstance(node, tree.Loop) else "while"
                message = f"this `{what}` may go round without letting time pass"
                advice = "every path through its body needs a `run` of work, a `turn` that takes time, or `end`"
                reporter.error("E508", message, head(node.place, what), advice)
    _legs(scope, reporter)


def _word(node: tree.Stmt) -> str:
    return node.word if isinstance(node, tree.Set) else ""


_NOT_IN_LEGS = {tree.Turn: "turn", tree.End: "end", tree.Fork: "fork", tree.Join: "join"}


def _legs(scope: Scope, reporter: Reporter) -> None:
    """Legs do a part of a request and end: the session turns, ends, forks and joins."""
    nodes = [node for block in (scope.session, scope.server) if block is not None for node in tree.walk(block)]
    forks = [node for node in nodes if isinstance(node, tree.Fork)]
    joins = [node for node in nodes if isinstance(node, tree.Join)]
    if not forks:
        for join in joins:
            reporter.error("E512", "this `join` waits for nothing: the program has no `fork`", word(join))
    elif not joins:
        message = "the program forks and never joins: a session may not end while its leg runs"
        reporter.error("E513", message, word(forks[0]), "write join; where the session waits for its legs")
    for fork in forks:
        for node in tree.walk(fork.body):
            name = _NOT_IN_LEGS.get(type(node))
            if name is not None:
                message = f"a leg may not `{name}`: that is for the session itself"
                reporter.error("E509", message, word(node), notes=[Note("the leg starts here", word(fork))])


def word(node: tree.Node) -> Place:
    """The first word of a statement."""
    text = node.place.text
    end = next((i for i, c in enumerate(text) if not (c.isalnum() or c == "_")), len(text))
    return node.place._replace(end=node.place.start + max(end, 1))


def _server(server: tree.Block, reporter: Reporter) -> None:
    for node in tree.walk(server):
        if isinstance(node, tree.Turn):
            message = "`turn` is the session's: the server is what happens within one"
            reporter.error("E506", message, word(node))
        elif isinstance(node, tree.End):
            message = "`end` is the session's: the server cannot end it"
            reporter.error("E507", message, word(node), "set an attribute, and let the session test it")
        elif isinstance(node, tree.Set) and node.word == "Size":
            message = "a `Size` is the workload's: the server makes values and costs"
            reporter.error("E509", message, word(node), "write set, or make it in the workload")


def _session(scope: Scope, session: tree.Block, reporter: Reporter) -> None:
    if not any(isinstance(node, tree.Turn) for node in tree.walk(session)):
        message = "the session has no `turn;`: it never uses the server"
        reporter.error("E505", message, session.place._replace(end=session.place.start + 1))
    used = used_by_server(scope)
    for node in tree.walk(session):
        stages = node.stages if isinstance(node, tree.Run) else ()
        if isinstance(node, tree.Serve) and node.word != "tool":
            stages = (scope.played(node),)
        for stage in stages:
            if family(stage) in used:
                message = f"the session cannot run on `{family(stage)}`: the server uses it"
                reporter.error("E509", message, stage.place, "give the session a stage of its own")


class _Passing:
    """Does every path through some statements let time pass, or end the session?"""

    def __init__(self, scope: Scope, values: Values) -> None:
        self.values = values
        server = scope.server
        self.turn = False
        self.turn = server is not None and self.block(server)

    def block(self, block: tree.Block | None) -> bool:
        return block is not None and any(self.statement(s) for s in block.body)

    def statement(self, node: tree.Stmt) -> bool:
        match node:
            case tree.Run(work=work) | tree.Serve(work=work) | tree.Transfer(work=work):
                return self.values.constant(work) != 0.0
            case tree.End():
                return True
            case tree.Turn():
                return self.turn
            case tree.Branch(then=then, other=other):
                return self.block(then) and self.block(other)
            case tree.Loop() | tree.Hold():
                return self.block(node.body)
        return False

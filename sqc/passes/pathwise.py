"""Which inputs a run depends on smoothly, so that the derivative of a sample path is an estimate of the derivative.

Along an input that only stretches times and works, the events of a run keep their order while it moves a little, and
the means of what they observe are as smooth as the times are (infinitesimal perturbation analysis). Where two events
change places the path may jump, and then the derivative of the path says nothing: an estimate without bias needs that
the order of neighbouring events does not matter (the commuting condition; P. Glasserman, Gradient Estimation via
Perturbation Analysis, 1991). What is refused here is what can break it, on the safe side:

* memory: who is admitted, evicted or preempted depends on the order of requests. Engines: iterations are counted.
* jumps of a value: a comparison, `floor`, a count of phases, the probability of a branch.
* decisions by times or by live state: they depend on the order of events, whichever input moves it.
* a `fifo` stage whose jobs can overtake each other on their way to it: two that change places exchange their waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import ir

_JUMPS = {"<", "<=", ">", ">=", "==", "!="}
LIVE = "live state or time"
"""What depends on the order of events, whichever input moves them."""


def reasons(program: ir.Program) -> dict[str, str | None]:
    """For each input, why its pathwise derivative is not one of the mean; None where it is."""
    return {declared.name: _Pass(program, declared.name).reason() for declared in program.inputs}


def is_smooth(program: ir.Program, metric: str, name: str) -> bool:
    """Whether a metric is a mean of what is as smooth as the times of events, along an input."""
    if metric == "client.response.mean":
        return True
    kind, _, rest = metric.partition(".")
    observed, _, statistic = rest.rpartition(".")
    if kind != "observe" or statistic != "mean":
        return False
    moved = _Pass(program, name)
    nodes = [n for n in ir.walk(_blocks(program)) if isinstance(n, ir.Observe) and n.name == observed]
    return bool(nodes) and not any(moved.jump(node.value) or moved.is_live(node.value) for node in nodes)


def _blocks(program: ir.Program) -> tuple[Any, ...]:
    return (program.init, program.turn, program.session, program.server)


class _Pass:
    """What one input moves: attributes whose value it changes, and those that depend on the order of events."""

    def __init__(self, program: ir.Program, name: str):
        self.program, self.name = program, name
        sets = [node for node in ir.walk(_blocks(program)) if isinstance(node, ir.Set | ir.Choose)]
        self.moved: set[str] = set()
        self.live: set[str] = {"cached", "computed"}
        while True:
            before = len(self.moved), len(self.live)
            for node in sets:
                values = (node.value,) if isinstance(node, ir.Set) else node.keys
                if any(self.moves(value) for value in values):
                    self.moved.add(node.name)
                if any(self.is_live(value) for value in values):
                    self.live.add(node.name)
            if before == (len(self.moved), len(self.live)):
                break

    def moves(self, node: Any) -> bool:
        """Whether the input, or time, can change a value."""
        return any(
            (isinstance(n, ir.Input) and n.name == self.name)
            or isinstance(n, ir.Now)
            or (isinstance(n, ir.Attr) and n.name in self.moved)
            for n in ir.walk(node)
        )

    def is_live(self, node: Any) -> bool:
        """Whether a value depends on the order of events."""
        return any(
            isinstance(n, ir.Read | ir.Price) or (isinstance(n, ir.Attr) and n.name in self.live) for n in ir.walk(node)
        )

    def jump(self, node: Any) -> str | None:
        """What makes a value jump as the input moves."""
        for n in ir.walk(node):
            match n:
                case ir.Unary(op="floor" | "ceil" | "not" as op, x=x) if self.moves(x):
                    return f"`{op}`"
                case ir.Binary(op=op, x=x, y=y) if op in _JUMPS and (self.moves(x) or self.moves(y)):
                    return "a comparison"
                case ir.Lazy(x=x, y=y) if self.moves(x) or self.moves(y):
                    return "a comparison"
                case ir.Cond(test=test) if self.moves(test):
                    return "a comparison"
                case ir.Draw(dist="bernoulli", args=args) if self.moves(args):
                    return "a probability"
                case ir.Draw(dist="erlang", args=(phases, *_)) if self.moves(phases):
                    return "a count of phases"
                case ir.Draw(dist="h2", args=(_, spread)) if self.moves(spread):
                    return "a probability"
        return None

    def reason(self) -> str | None:
        if not any(isinstance(n, ir.Input) and n.name == self.name for n in ir.walk(self.program)):
            return None
        return next(self._found(), None)

    def _found(self) -> Iterator[str]:
        program = self.program
        nodes = list(ir.walk(_blocks(program)))
        if any(isinstance(n, ir.Hold) for n in nodes):
            yield "the program has memory: the order of requests decides who is admitted"
        if any(isinstance(stage.kind, ir.Step) for stage in program.stages):
            yield "the program has an engine: its iterations are counted"
        if any(isinstance(n, ir.Fork | ir.Flow) for n in nodes):
            yield "the program forks, or runs over several stages at once"
        if isinstance(program.arrival, ir.Closed | ir.Batch) and self.moves(program.arrival.n):
            yield "it is the number of sessions"
        for stage in program.stages:
            if isinstance(stage.kind, ir.Fifo) and self.moves(stage.kind.servers):
                yield f"it is the number of servers of `{stage.name}`"
        timed = [node for node in nodes if isinstance(node, ir.Set | ir.Run)]
        for part in (*timed, program.arrival, *(stage.kind for stage in program.stages)):
            what = self.jump(part)
            if what is not None:
                yield f"{what} of it makes values jump"
        yield from self._decisions(nodes)
        yield from self._overtaking()

    def _decisions(self, nodes: list[Any]) -> Iterator[str]:
        for node in nodes:
            deciding: tuple[Any, ...] = ()
            match node:
                case ir.Branch(guard=guard) | ir.While(guard=guard):
                    deciding, what = (guard,), "a branch"
                case ir.Choose(keys=keys, count=count):
                    deciding, what = (*keys, count), "a choice"
                case ir.Run(stage=ir.Ref(index=index)) if index is not None:
                    deciding, what = (index,), "an index"
            if any(self.moves(e) or self.is_live(e) for e in deciding):
                yield f"{what} depends on it, or on {LIVE}"
        works = [node.work for node in nodes if isinstance(node, ir.Run)]
        if any(self.is_live(work) for work in works):
            yield f"a work depends on {LIVE}"

    def _overtaking(self) -> Iterator[str]:
        """Jobs come to a `fifo` stage in the order of their arrival, whatever the times are."""
        kinds = {stage.name: stage.kind for stage in self.program.stages}
        body = self.program.session
        once = (
            not isinstance(self.program.arrival, ir.Closed | ir.Batch)
            and sum(isinstance(n, ir.Turn) for n in ir.walk(body)) == 1
            and not any(isinstance(n, ir.Loop | ir.While) for n in ir.walk((body, self.program.server)))
        )
        seen: set[str] = set()

        def follow(block: Any, ordered: bool) -> Iterator[tuple[str, bool]]:
            for node in block:
                if isinstance(node, ir.Branch):
                    arms = [list(follow(arm, ordered)) for arm in (node.then, node.other)]
                    for arm in arms:
                        yield from arm
                    ordered = ordered and not any(arms)
                elif isinstance(node, ir.Turn):
                    found = list(follow(self.program.server, ordered))
                    yield from found
                    ordered = ordered and not found
                elif isinstance(node, ir.Loop | ir.While):
                    yield from follow(node.body, False)
                    ordered = False
                elif isinstance(node, ir.Run):
                    kind = kinds.get(node.stage.name)
                    if isinstance(kind, ir.Fifo):
                        yield node.stage.name, ordered and node.stage.name not in seen
                        seen.add(node.stage.name)
                    alone = isinstance(kind, ir.Fifo) and kind.servers == ir.Const(1.0)
                    ordered = ordered and alone

        for name, ordered in follow(body, once):
            if not ordered:
                yield f"jobs can overtake each other on their way to `{name}`"
                return

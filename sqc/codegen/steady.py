"""Which step stages may take equal iterations at once, from the IR alone.

While nothing else happens, iterations of decodes differ in their times only, if what an iteration does is a
function of what stays as it is from one to the next: who is resident, what they hold, who waits. Here is what an
expression may read for that; what must hold besides is seen at run time (`skipping.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from .. import ir

MOVES = frozenset({"remaining", "waited", "age"})
"""Variables of the moment that change from one iteration to the next."""
STAYS = frozenset({"used", "free", "cachedin", "holders", "queued", "queue", "busy", "budget_left"})
"""Observables that do not."""
GROWS = frozenset({"kv_decode", "kv_prefill"})
"""Variables of the moment that change where an iteration takes memory."""


def reason(program: ir.Program, stage: ir.Stage) -> str | None:
    """Why every iteration of a step stage is simulated; None if equal ones may be taken at once."""
    assert isinstance(stage.kind, ir.Step)
    return next(_reasons(program, stage.name, stage.kind), None)


def reasons(program: ir.Program) -> dict[str, str | None]:
    """`reason` of each step stage by its name."""
    return {s.name: reason(program, s) for s in program.stages if isinstance(s.kind, ir.Step)}


def _reasons(program: ir.Program, name: str, kind: ir.Step) -> Iterator[str]:
    for node in ir.walk(kind.body):
        if isinstance(node, ir.StepSet):
            yield f"its body sets the register `{node.name}`"
    parts = {"budget": kind.budget, "chunk": kind.chunk, "cost": kind.cost}
    for what, expression in parts.items():
        for moving in moves(expression):
            yield f"its {what} {moving}"
    for node in ir.walk(kind.body):
        tests: tuple[ir.Expr | None, ...] = ()
        match node:
            case ir.Serve(keys, only):
                if any(isinstance(n, ir.Draw) for n in ir.walk(keys)):
                    yield "its serving order draws"
                tests = (only,)
            case ir.Admit(only, test):
                tests = (only, test)
            case ir.StepBranch(guard):
                tests = (guard,)
            case ir.StepLet(_, value):
                tests = (value,)
        for moving in moves(tuple(e for e in tests if e is not None)):
            yield f"its body {moving}"
    for claim in program.claims:
        if claim.stage is not None and claim.stage.name == name:
            yield f"the claim `{claim.name}` reads its iterations"
    for gauge in program.gauges:
        for moving in moves(gauge.value):
            yield f"the gauge `{gauge.name}` {moving}"


def moves(expressions: ir.Expr | tuple[ir.Expr, ...]) -> Iterator[str]:
    """What makes the value of expressions change though nothing happens, each as the rest of a sentence."""
    for node in ir.walk(expressions):
        match node:
            case ir.Draw():
                yield "draws"
            case ir.Now():
                yield "reads the clock"
            case ir.Price(ref):
                yield f"reads `price({ref.name}, ..)`, an estimate"
            case ir.Read(kind, ref) if kind.startswith("est_"):
                yield f"reads `{kind}({ref.name})`, an estimate"
            case ir.Read(kind, ref) if kind not in STAYS:
                yield f"reads `{kind}({ref.name})`, which changes with every iteration"
            case ir.Context(variable) if variable in MOVES:
                yield f"reads `{variable}`, which changes with every iteration"


def is_live(expressions: tuple[ir.Expr, ...]) -> bool:
    """Whether expressions read the state of the system."""
    return any(isinstance(n, ir.Read | ir.Now | ir.Price | ir.Context) for n in ir.walk(expressions))


def feels_growth(kind: ir.Step) -> bool:
    """Whether what an iteration does depends on what its own growth changes (its cost, read afterwards, apart)."""
    return any(
        isinstance(n, ir.Read) or (isinstance(n, ir.Context) and n.name in GROWS)
        for n in ir.walk((kind.budget, kind.chunk, kind.body))
    )

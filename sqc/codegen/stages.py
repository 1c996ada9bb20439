"""The stages of a program, made from their declarations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqc_runtime.core import INF, Core
from sqc_runtime.delay import DelayStage
from sqc_runtime.engine import Engine, Planning
from sqc_runtime.fifo import FifoStage, SingleFifo
from sqc_runtime.flows import Flows, SharedStage
from sqc_runtime.memory import Memory
from sqc_runtime.ops import floor
from sqc_runtime.ps import PsStage
from sqc_runtime.stages import Stage, Uses

from .. import ir
from . import errors
from .expressions import Scope, evaluate, number

Outside = Callable[[Memory, ir.Stage], Scope]
"""The scope of what is evaluated without a session; errors are the stage's."""


def make_stages(program: ir.Program, core: Core, stale: int, outside: Outside, removes: bool) -> dict[str, Stage]:
    """Every stage, in order of declaration. `stale`: events that a stage may keep pending in vain; `removes`: jobs
    can be taken out before they are done."""
    shared = shared_stages(program)
    flows = Flows(core, program.share == "maxmin", stale) if shared else None
    steps = any(isinstance(decl.kind, ir.Step) for decl in program.stages)
    planning = Planning(core) if steps else None
    stages: dict[str, Stage] = {}
    for number_, decl in enumerate(program.stages, 1):
        uses, name = _uses(program, decl, number_, removes), f"stage.{decl.name}"
        if decl.name in shared:
            assert flows is not None
            assert isinstance(decl.kind, ir.Ps)
            stage = SharedStage(core, name, uses, _shared_capacity(decl, decl.kind, outside), flows)
            flows.stages.append(stage)
            stages[decl.name] = stage
        elif isinstance(decl.kind, ir.Step):
            assert planning is not None
            stages[decl.name] = Engine(core, name, uses, planning)
        else:
            stages[decl.name] = _own_stage(core, name, uses, stale, decl, outside)
    return stages


def _own_stage(core: Core, name: str, uses: Uses, stale: int, decl: ir.Stage, outside: Outside) -> Stage:
    match decl.kind:
        case ir.Fifo(ir.Const(1.0)) if uses.members == 1 and not uses.removes:
            return SingleFifo(core, name, uses)
        case ir.Fifo(servers):
            return FifoStage(core, name, uses, stale, _servers(decl, servers, outside))
        case ir.Delay() | ir.Ps(ir.Context("present")):
            return DelayStage(core, name, uses, stale)
        case ir.Ps(capacity):
            return PsStage(core, name, uses, stale, _capacity(decl, capacity, outside))
    raise AssertionError(decl)


def shared_stages(program: ir.Program) -> set[str]:
    """The stages that runs on several stages at once hold, anywhere in the program."""
    return {ref.name for node in ir.walk(program) if isinstance(node, ir.Flow) for ref in node.stages}


def signals(program: ir.Program) -> tuple[dict[str, int], dict[str, int]]:
    """The signals of the stages, with their numbers of members: the jobs present, and others."""
    sizes = {f"stage.{decl.name}": decl.size or 1 for decl in program.stages}
    shared = [f"stage.{name}" for name in shared_stages(program)]
    carried = {SharedStage.signal_name(name): sizes[name] for name in sorted(shared)}
    for decl in program.stages:
        if isinstance(decl.kind, ir.Step):
            name = f"stage.{decl.name}"
            carried |= dict.fromkeys(Engine.signal_names(name), sizes[name])
    return sizes, carried


def sources(stages: Mapping[str, Stage]) -> Sequence[Stage | Flows]:
    """What schedules events and settles, in the order in which it does: the stages, then the flows."""
    own = [stage for stage in stages.values() if not isinstance(stage, SharedStage)]
    flows = {stage.flows: None for stage in stages.values() if isinstance(stage, SharedStage)}
    return [*own, *flows]


def _uses(program: ir.Program, decl: ir.Stage, number_: int, removes: bool) -> Uses:
    kinds = {node.kind for node in ir.walk(program) if isinstance(node, ir.Read) and node.ref.name == decl.name}
    prices = any(isinstance(node, ir.Price) and node.ref.name == decl.name for node in ir.walk(program))
    return Uses(
        members=decl.size or 1,
        number=number_,
        removes=removes,
        work="work" in kinds,
        estimates=prices or bool(kinds & {"est_lambda", "est_rho", "est_wait"}),
    )


def _servers(decl: ir.Stage, servers: ir.Expr, outside: Outside) -> float | Callable[[Memory], Any]:
    if isinstance(servers, ir.Const) and servers.value >= 1 and servers.value.is_integer():
        return servers.value

    def count(m: Memory) -> Any:
        scope = outside(m, decl)
        value = number(evaluate(servers, scope))
        assert scope.fail is not None
        scope.fail(~((value >= 1) & (value < INF) & (value == floor(value))), errors.SERVERS)
        return value

    return count


def _capacity(decl: ir.Stage, capacity: ir.Expr, outside: Outside) -> Callable[[Memory, Any], Any]:
    def phi(m: Memory, present: Any) -> Any:
        scope = outside(m, decl)
        scope.context = {"present": present}
        return number(evaluate(capacity, scope))

    return phi


def _shared_capacity(decl: ir.Stage, kind: ir.Ps, outside: Outside) -> Callable[[Memory], Any]:
    def phi(m: Memory) -> Any:
        scope = outside(m, decl)
        value = number(evaluate(kind.capacity, scope))
        assert scope.fail is not None
        scope.fail(~(value > 0), errors.SHARED)
        return value

    return phi

"""A stand-in for the kernel: the shape of its answers without compiling anything.

Tests of reports, sweeps and the command line need numbers, not simulations. A lane's numbers here
are plain arithmetic on its seed and its input `C`; a lane whose seed is in `FAILING` fails.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sqc import ir
from sqc.diagnostics import CompileError, Diagnostic
from sqc.report import Samples

if TYPE_CHECKING:
    import pytest

SOURCE = "\n".join(f"// line {number} of the program" for number in range(1, 30))

PROGRAM = ir.Program(
    inputs=(ir.InputDecl("C", 2e5, "C"), ir.InputDecl("think time", 3.0, "Z")),
    attributes=("K", "warm"),
    pools=(ir.Pool("kv", ir.Input("C")),),
    stages=(ir.Stage("engine", ir.Fifo()), ir.Stage("tool", ir.Delay())),
    arrival=ir.Poisson(ir.Const(0.5)),
    init=(),
    turn=(),
    session=(ir.Turn(),),
    server=(ir.Observe("hit", ir.Attr("warm")),),
    observes=(ir.ObserveDecl("hit", test=True),),
    file="prog.sq",
    source=SOURCE,
)

FAILING: set[int] = set()
kept_in: list[str] = []
"""Folders given to `keep_compilations`."""
SPAN = ir.Span(3, 4, 3, 8)
STAGE = ("mean_number", "utilization", "completed", "throughput", "mean_wait", "mean_service", "iterations")
POOL = (
    *("mean_used", "mean_cached", "mean_queue", "mean_holders", "mean_wait", "admissions"),
    *("evicted_entries", "evicted_units", "preemptions", "spills", "rejected", "stuck"),
)
ROW = ("count", "mean", "cv2", "p99")
METRICS = (
    *("events", "arrivals", "ended", "turns", "mean_live", "end"),
    *(f"observe.hit.{name}" for name in ROW),
    *(f"client.{row}.{name}" for row in ("response", "ttft", "tpot") for name in ROW),
    *(f"stage.{stage}.{name}" for stage in ("engine", "tool") for name in STAGE),
    *(f"pool.kv.{name}" for name in POOL),
)


@dataclass(frozen=True)
class Failure:
    code: str
    message: str
    time: float
    session: int
    span: ir.Span | None


FAILURE = Failure("R201", "the guard is 0.5, neither 0 nor 1", 12.25, 4, SPAN)


@dataclass
class RunResult:
    metrics: dict[str, float]
    samples: dict[str, Samples]
    failure: Failure | None = None
    mode: str = "native"


@dataclass
class LaneBatch:
    metrics: dict[str, np.ndarray[Any, Any]]
    failures: dict[int, Failure] = field(default_factory=dict)


class KernelError(ValueError):
    pass


class Interrupted(Exception):
    def __init__(self, partial: LaneBatch, done: np.ndarray[Any, Any]) -> None:
        super().__init__("interrupted")
        self.partial, self.done = partial, done


def lane_value(name: str, seed: int, inputs: Mapping[str, float]) -> float:
    """The metric of a lane: its place in the list, the seed, and the input C."""
    if name.startswith(("client.ttft", "client.tpot")):
        return float("nan")
    return METRICS.index(name) + seed / 8 + inputs["C"] / 1e5


def samples(count: int, seed: int = 1) -> Samples:
    """So many samples in order of time; values are exponential with mean 2."""
    rng = np.random.default_rng(seed)
    time = np.cumsum(rng.exponential(size=count))
    return Samples(time, np.arange(count), np.ones(count, np.int64), rng.exponential(2.0, count))


class Kernel:
    metrics = METRICS
    compile_seconds = 1.25
    from_cache = False

    def __init__(self, program: ir.Program, **options: Any) -> None:
        self.inputs = {declared.name: declared.default for declared in program.inputs}
        self.options = options
        self.capacities = {"sessions": 64, "kv.entries": 32}
        self.mode = options.get("mode") or "native"

    def is_native(self) -> bool:
        return self.mode == "native"

    def emit(self, form: str) -> str:
        return f"module as {form}"

    def run(self, seed: int, *, inputs: Mapping[str, float], horizon: float, **_: Any) -> RunResult:
        metrics = {name: lane_value(name, seed, inputs) for name in METRICS} | {"end": horizon}
        kept = {"observe.hit": samples(100, seed), "client.response": samples(50, seed)}
        return RunResult(metrics, kept, FAILURE if seed in FAILING else None, self.mode)

    def lanes(
        self,
        seeds: np.ndarray[Any, Any],
        *,
        inputs: Mapping[str, np.ndarray[Any, Any]],
        progress: Callable[[int], None] | None = None,
        **_: Any,
    ) -> LaneBatch:
        lanes = [
            (int(seed), {name: float(values[k]) for name, values in inputs.items()}) for k, seed in enumerate(seeds)
        ]
        metrics = {name: np.array([lane_value(name, *lane) for lane in lanes]) for name in METRICS}
        batch = LaneBatch(metrics, {k: FAILURE for k, (seed, _) in enumerate(lanes) if seed in FAILING})
        if progress:
            progress(len(lanes))
        return batch


class InterruptedKernel(Kernel):
    """Ctrl-C comes when the first half of the lanes is done."""

    def lanes(self, seeds: np.ndarray[Any, Any], **options: Any) -> LaneBatch:
        done = np.arange(len(seeds)) < len(seeds) // 2
        raise Interrupted(super().lanes(seeds, **options), done)


def install(monkeypatch: pytest.MonkeyPatch, kernel: type[Kernel] = Kernel, failing: tuple[int, ...] = ()) -> None:
    """Put the stand-in where `sqc.kernel` would be, for one test."""
    module = types.ModuleType("sqc.kernel")
    vars(module).update(Kernel=kernel, KernelError=KernelError, Interrupted=Interrupted, Failure=Failure)
    vars(module).update(keep_compilations=kept_in.append)
    monkeypatch.setitem(sys.modules, "sqc.kernel", module)
    kept_in.clear()
    FAILING.clear()
    FAILING.update(failing)


def install_front_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a stand-in where `sqc.lower` would be: every text is `PROGRAM`, except one that says `wrong`."""

    def compile_text(text: str, file: str = "<program>", directory: Path | None = None) -> ir.Program:
        del directory
        if "wrong" in text:
            found = Diagnostic("E201", "unknown name `x`", file, ir.Span(1, 1, 1, 6), text.split("\n")[0], "is it y?")
            raise CompileError([found, found._replace(span=None, help=None)])
        return replace(PROGRAM, file=file)

    def compile_file(path: Path) -> ir.Program:
        try:
            return compile_text(path.read_text(encoding="utf-8"), str(path))
        except OSError as error:
            raise CompileError([Diagnostic("E108", str(error.strerror), str(path))]) from None

    module = types.ModuleType("sqc.lower")
    vars(module).update(compile_text=compile_text, compile_file=compile_file)
    monkeypatch.setitem(sys.modules, "sqc.lower", module)

"""A stand-in for the kernel: the shape of its answers without compiling anything.

Tests of reports, sweeps and the command line need numbers, not simulations. A lane's numbers here
are plain arithmetic on its seed and its input `C`; a lane whose seed is in `FAILING` fails.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sqc import ir, irfile
from sqc.diagnostics import CompileError, Diagnostic
from sqc.report import Changes, Samples, label
from sqc_runtime.histogram import Histogram, Pooled, added
from sqc_runtime.statistics import bucket_number

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

WIDE = replace(
    PROGRAM,
    pools=(ir.Pool("P.kv", ir.Input("C"), size=2), ir.Pool("slot", ir.Const(3.0))),
    stages=(ir.Stage("P", ir.Fifo(), size=2), ir.Stage("one", ir.Ps(ir.Const(1.0)), size=1)),
    gauges=(ir.Gauge("line", ir.Const(0.0)),),
    claims=tuple(ir.Claim(name, ir.Const(1.0)) for name in ("sure", "wrong", "open", "outside")),
)
"""Everything that `PROGRAM` has not: arrays, a name with a dot, a gauge, claims of every result."""

SET = {
    "claim.sure.value": 1.0,
    "claim.sure.out_of_scope": 0.0,
    "claim.wrong.value": 0.0,
    "claim.wrong.out_of_scope": 0.0,
    "claim.open.value": np.nan,
    "claim.open.why": 3.0,
    "claim.open.out_of_scope": 0.0,
    "claim.outside.value": np.nan,
    "claim.outside.why": 4.0,
    "claim.outside.out_of_scope": 1.0,
    "pool.P.kv[0].over_cap_queue": 2.0,
    "pool.P.kv[0].over_cap_need": 7.5,
    "pool.P.kv[0].growing_at_end": 3.0,
    "pool.P.kv[0].growing_stalled": 0.0,
    "pool.P.kv[1].growing_at_end": 2.0,
    "pool.P.kv[1].growing_stalled": 1.0,
}
"""Metrics of `WIDE` that are the same in every lane."""

UNUSED = {"over_cap_queue": np.nan, "over_cap_need": np.nan, "growing_at_end": 0.0, "growing_stalled": 0.0}
"""What a pool says that nobody waits for at the end."""

FAILING: set[int] = set()
kept_in: list[str] = []
"""Folders in which kernels were to be kept."""
SPAN = ir.Span(3, 4, 3, 8)
STAGE = ("mean_number", "utilization", "completed", "throughput", "mean_wait", "mean_service", "iterations")
POOL = (
    *("mean_used", "mean_cached", "mean_queue", "mean_holders", "mean_wait", "admissions"),
    *("evicted_entries", "evicted_units", "preemptions", "spills", "rejected", "stuck", *UNUSED),
)
ROW = ("count", "mean", "cv2", "p99")
GAUGE = ("mean", "min", "max")
CLAIM = ("value", "out_of_scope", "why")


def metrics_of(program: ir.Program) -> tuple[str, ...]:
    """The names of a program's metrics, in the order of the report."""
    names = ["events", "arrivals", "ended", "turns", "mean_live", "end"]

    def rows(kind: str, of: Iterable[str], fields: Iterable[str]) -> None:
        names.extend(f"{kind}.{row}.{name}" for row in of for name in fields)

    rows("observe", (declared.name for declared in program.observes), ROW)
    rows("client", ("response", "ttft", "tpot"), ROW)
    rows("gauge", (declared.name for declared in program.gauges), GAUGE)
    rows("claim", (declared.name for declared in program.claims), CLAIM)
    rows("stage", _labels(program.stages), STAGE)
    rows("pool", _labels(program.pools), POOL)
    return tuple(names)


def _labels(declared: Iterable[ir.Stage | ir.Pool]) -> Iterator[str]:
    for resource in declared:
        for index in range(resource.size or 1):
            yield label(resource.name, None if resource.size is None else index)


METRICS = metrics_of(PROGRAM)


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
    gauges: dict[str, Changes]
    failure: Failure | None = None
    mode: str = "native"


@dataclass
class LaneBatch:
    metrics: dict[str, np.ndarray[Any, Any]]
    failures: dict[int, Failure] = field(default_factory=dict)
    pooled: Pooled = field(default_factory=dict)


class KernelError(ValueError):
    pass


class Interrupted(Exception):
    def __init__(self, partial: LaneBatch, done: np.ndarray[Any, Any]) -> None:
        super().__init__("interrupted")
        self.partial, self.done = partial, done


def lane_value(name: str, seed: int, inputs: Mapping[str, float], names: tuple[str, ...] = METRICS) -> float:
    """The metric of a lane: its place in the list, the seed, and the input C; or what is set for it."""
    if name.startswith(("client.ttft", "client.tpot")):
        return float("nan")
    if name in SET:
        return SET[name]
    last = name.rpartition(".")[2]
    return UNUSED[last] if last in UNUSED else names.index(name) + seed / 8 + inputs["C"] / 1e5


def samples(count: int, seed: int = 1) -> Samples:
    """So many samples in order of time; values are exponential with mean 2."""
    rng = np.random.default_rng(seed)
    time = np.cumsum(rng.exponential(size=count))
    return Samples(time, np.arange(count), np.ones(count, np.int64), rng.exponential(2.0, count))


def pooled(groups: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> Pooled:
    """Histograms of `client.response` by group: one sample a lane, its mean."""
    found: Pooled = {}
    for group, value in zip(groups.tolist(), values.tolist(), strict=False):
        one = Histogram(bucket_number(value), np.ones(1, np.int64), value, value)
        found = added(found, {group: {"client.response": one}})
    return found


CHANGES = Changes(np.array([0.0, 3.0, 8.0]), np.array([2.0, 0.0, 1.5]))
"""The change points of every gauge."""


class Kernel:
    compile_seconds = 1.25
    from_cache = False

    def __init__(self, program: ir.Program, **options: Any) -> None:
        self.metrics = metrics_of(program)
        self._gauges = [declared.name for declared in program.gauges]
        self.inputs = {declared.name: declared.default for declared in program.inputs}
        self.options = options
        if options.get("cache_dir") is not None:
            kept_in.append(str(options["cache_dir"]))
        self.capacities = {"sessions": 64, "kv.entries": 32}
        self.mode = options.get("mode") or "native"
        self.iterates: dict[str, str | None] = {}

    def emit(self, form: str) -> str:
        return f"module as {form}"

    def run(self, seed: int, *, inputs: Mapping[str, float], horizon: float, **_: Any) -> RunResult:
        metrics = {name: lane_value(name, seed, inputs, self.metrics) for name in self.metrics} | {"end": horizon}
        kept = {"observe.hit": samples(100, seed), "client.response": samples(50, seed)}
        failure = FAILURE if seed in FAILING else None
        return RunResult(metrics, kept, dict.fromkeys(self._gauges, CHANGES), failure, self.mode)

    def lanes(
        self,
        seeds: np.ndarray[Any, Any],
        *,
        inputs: Mapping[str, np.ndarray[Any, Any]],
        progress: Callable[[int], None] | None = None,
        pool: np.ndarray[Any, Any] | None = None,
        **_: Any,
    ) -> LaneBatch:
        lanes = [
            (int(seed), {name: float(values[k]) for name, values in inputs.items()}) for k, seed in enumerate(seeds)
        ]
        metrics = {name: np.array([lane_value(name, *lane, self.metrics) for lane in lanes]) for name in self.metrics}
        failures = {k: FAILURE for k, (seed, _) in enumerate(lanes) if seed in FAILING}
        batch = LaneBatch(metrics, failures, {} if pool is None else pooled(pool, metrics["client.response.mean"]))
        if progress:
            progress(len(lanes))
        return batch


class InterruptedKernel(Kernel):
    """Ctrl-C comes when the first half of the lanes is done."""

    def lanes(self, seeds: np.ndarray[Any, Any], **options: Any) -> LaneBatch:
        done = np.arange(len(seeds)) < len(seeds) // 2
        batch, half = super().lanes(seeds, **options), len(seeds) // 2
        if options.get("pool") is not None:
            batch.pooled = pooled(options["pool"][:half], batch.metrics["client.response.mean"])
        raise Interrupted(batch, done)


def install(monkeypatch: pytest.MonkeyPatch, kernel: type[Kernel] = Kernel, failing: tuple[int, ...] = ()) -> None:
    """Put the stand-in where `sqc.kernel` would be, for one test."""
    module = types.ModuleType("sqc.kernel")
    vars(module).update(Kernel=kernel, KernelError=KernelError, Interrupted=Interrupted, Failure=Failure)
    monkeypatch.setitem(sys.modules, "sqc.kernel", module)
    kept_in.clear()
    FAILING.clear()
    FAILING.update(failing)


def install_front_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a stand-in where `sqc.lower` would be: every text is `PROGRAM`, except one that says `wrong`."""

    def compile_text(text: str, file: str = "<program>", **_: Any) -> ir.Program:
        if "wrong" in text:
            found = Diagnostic("E201", "unknown name `x`", file, ir.Span(1, 1, 1, 6), text.split("\n")[0], "is it y?")
            raise CompileError([found, found._replace(span=None, help=None)])
        return replace(PROGRAM, file=file)

    def compile_file(path: Path, **_: Any) -> ir.Program:
        if path.suffix == ".json":
            return irfile.read(path)
        try:
            return compile_text(path.read_text(encoding="utf-8"), str(path))
        except OSError as error:
            raise CompileError([Diagnostic("E108", str(error.strerror), str(path))]) from None

    module = types.ModuleType("sqc.lower")
    vars(module).update(compile_text=compile_text, compile_file=compile_file)
    monkeypatch.setitem(sys.modules, "sqc.lower", module)

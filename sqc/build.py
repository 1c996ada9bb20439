"""Builds: a program with fixed capacities made executable, by LLVM or by JAX.

* `NativeBuild`: machine code that runs lanes one after the other; it can be read from a file, and
  then neither code generation nor JAX is loaded.
* `PortableBuild`: the same lane program as a JAX function with its lanes side by side, for every
  backend that JAX has. From an export it is ready, and code generation is not loaded.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sqc_runtime.core import DONE
from sqc_runtime.histogram import Histogram, Place, histograms_of
from sqc_runtime.machine import MachineCode, Results, bank_cells, lanes_module, object_code, text_of
from sqc_runtime.statistics import BUCKETS

from . import ir, stored

if TYPE_CHECKING:
    from .codegen.lane import LaneProgram
    from .export import Export

Columns = NDArray[np.float64]
_IDLE_HORIZON = -1.0
"""The horizon of lanes that only fill a call up: they end at once."""
_WIDEST = 4096


@dataclass(frozen=True)
class About:
    """What a caller must know of a build besides how to run it."""

    metrics: tuple[str, ...]
    statements: tuple[ir.Span | None, ...]
    """Spans by statement number, as run-time errors report them."""
    rows: Mapping[str, int]
    """The first cell of each row of samples in the bank of samples."""
    gauges: Mapping[str, int]
    """The first cell of each gauge's change points there."""
    cells: Mapping[str, int]
    """The length of each bank."""
    histograms: Mapping[str, Place] = field(default_factory=dict)
    """Where each row has its histogram."""


@dataclass(frozen=True)
class Options:
    """How a program is built: with the invariants checked at every instant; with equal iterations taken at once."""

    debug: bool = False
    skip: bool = True


def simulate(program: LaneProgram) -> Callable[..., dict[str, Any]]:
    """One run as a function of memory, seed, horizon, warm-up, arrival limit and inputs."""

    def run(memory: Any, seed: Any, horizon: Any, warmup: Any, limit: Any, *inputs: Any) -> dict[str, Any]:
        return program.simulate(memory, seed, horizon, warmup, limit, inputs)

    return run


def _histograms(program: LaneProgram) -> dict[str, Place]:
    return {name: row.histogram for name, row in program.rows.items() if not row.capacity}


def trace_data(program: ir.Program) -> NDArray[np.float64]:
    """The read-only bank: the number n of sessions of the trace, n + 1 first rows, then the rows."""
    trace = program.trace
    if trace is None:
        return np.zeros(1)
    starts = np.array(trace.starts, np.float64)
    return np.concatenate([[len(starts) - 1.0], starts, np.array(trace.rows, np.float64).reshape(-1)])


class _Build:
    mode: str
    about: About
    seconds: float
    from_cache: bool

    def __init__(self, program: ir.Program, capacities: Mapping[str, int], options: Options):
        self._program, self._capacities, self._options = program, capacities, options
        self.data = trace_data(program)

    @cached_property
    def lane_program(self) -> LaneProgram:
        from .codegen.lane import LaneProgram  # here: a kernel from a file does without code generation

        return LaneProgram(self._program, self._capacities, self.mode, self._options.debug, self._options.skip)

    def _about(self) -> About:
        """Complete once the lane program has been traced."""
        program = self.lane_program
        return About(
            metrics=tuple(program.metric_names),
            statements=tuple(program.statements),
            rows={name: row.base for name, row in program.rows.items() if row.capacity},
            gauges=dict(program.change_points),
            cells=bank_cells(program.layout),
            histograms=_histograms(program),
        )

    def run(self, seeds: NDArray[np.uint64], columns: Columns, groups: NDArray[Any] | None = None) -> Results:
        """Run lanes: one entry of `seeds`, one column of `columns` each; add up histograms by `groups` of lanes."""
        raise NotImplementedError


@contextmanager
def _without_collection() -> Iterator[None]:
    """Code is built of some hundred thousand objects that all stay until it is done: the collector of cycles would walk
    them again and again, for half of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class NativeBuild(_Build):
    mode = "native"

    def __init__(self, program: ir.Program, capacities: Mapping[str, int], options: Options, folder: Path | None):
        super().__init__(program, capacities, options)
        started = time.perf_counter()
        place = stored.place(folder, program, capacities, options.skip) if folder and not options.debug else None
        kept = stored.load(place) if place else None
        self.from_cache = kept is not None
        if kept:
            self.about, code = kept
        else:
            with _without_collection():
                module = self.module
                self.about = self._about()
                code = object_code(module)
            if place:
                stored.save(place, self.about, code)
        self._code = MachineCode(code, self.about.cells, len(self.about.metrics))
        self.seconds = time.perf_counter() - started

    @cached_property
    def module(self) -> Any:
        inputs = len(self._program.inputs)
        program = self.lane_program
        return lanes_module(program.layout, simulate(program), 3 + inputs, _histograms(program))

    def text(self, form: str) -> str:
        """The optimised code: "llvm" or "assembly"."""
        return text_of(self.module, form)

    def run(self, seeds: NDArray[np.uint64], columns: Columns, groups: NDArray[Any] | None = None) -> Results:
        """As of every build; the lanes of a call are of one group."""
        if groups is None:
            return self._code(seeds, columns, self.data)
        return self._code(seeds, columns, self.data, int(groups[0]), tuple(self.about.histograms))


class PortableBuild(_Build):
    mode = "portable"
    from_cache = False

    def __init__(
        self, program: ir.Program, capacities: Mapping[str, int], options: Options, export: Export | None = None
    ):
        super().__init__(program, capacities, options)
        started = time.perf_counter()
        self._compiled: dict[int, Any] = {}
        self._export = export
        if export is None:
            with _without_collection():
                self.traced(1)
        self.about = self._about() if export is None else export.about
        self.seconds = time.perf_counter() - started

    @cached_property
    def call(self) -> Callable[..., dict[str, Any]]:
        """`call(seeds, *columns)` as a function that JAX can trace."""
        if self._export is not None:
            return self._export.exported().call
        from sqc_runtime.lanes import lockstep_lanes

        return lockstep_lanes(self.lane_program.layout, simulate(self.lane_program), self.data)

    def traced(self, lanes: int) -> Any:
        import jax

        columns = 3 + len(self._program.inputs)
        with jax.enable_x64(True):
            empty = [np.zeros(lanes, np.uint64), *[np.zeros(lanes)] * columns]
            return jax.jit(self.call).trace(*empty)

    def text(self, form: str) -> str:
        """The program that JAX sees or makes: "jaxpr", "stablehlo" or "hlo"."""
        import jax

        with jax.enable_x64(True):
            traced = self.traced(1)
            if form == "jaxpr":
                return str(traced.jaxpr)
            lowered = traced.lower()
            return str(lowered.as_text() if form == "stablehlo" else lowered.compile().as_text())

    def run(self, seeds: NDArray[np.uint64], columns: Columns, groups: NDArray[Any] | None = None) -> Results:
        import jax

        count = len(seeds)
        lanes = 1 << (count - 1).bit_length()
        if lanes not in self._compiled:
            with jax.enable_x64(True), _without_collection():
                self._compiled[lanes] = self.traced(lanes).lower().compile()
        fill = lanes - count
        seeds = np.concatenate([seeds, np.repeat(seeds[:1], fill)])
        columns = np.concatenate([columns, np.repeat(columns[:, :1], fill, axis=1)], axis=1)
        columns[0, count:] = _IDLE_HORIZON
        with jax.enable_x64(True):
            given = self._compiled[lanes](seeds, *columns)
            pooled = {} if groups is None else self._pooled(given, groups)
            out = {name: np.asarray(v)[:count] for name, v in given.items() if name not in ("h", "f")}
        samples = out["x"][-1] if "x" in out else np.zeros(1)
        return Results(out["metrics"], out["status"], out["error"], out["time"], out["session"], samples, pooled)

    def _pooled(self, given: Mapping[str, Any], groups: NDArray[Any]) -> dict[int, dict[str, Histogram]]:
        """The histograms of the lanes that came to a good end, added up by group on the device."""
        import jax.numpy as jnp

        names, place = np.unique(groups, return_inverse=True)
        status, error = (given[name][: len(groups)] for name in ("status", "error"))
        good = ((status == DONE) & (error == 0))[:, None]
        counts, registers = given["h"][: len(groups)], given["f"][: len(groups)]
        places = tuple(self.about.histograms.values())
        low, high = (registers[:, np.array([at[k] for at in places])] for k in (2, 3))
        shape = len(names), len(places)
        counts = jnp.zeros((len(names), counts.shape[1]), np.uint64).at[place].add(jnp.where(good, counts, 0))
        low = jnp.full(shape, np.inf).at[place].min(jnp.where(good, low, np.inf))
        high = jnp.full(shape, -np.inf).at[place].max(jnp.where(good, high, -np.inf))
        rows, extremes = np.asarray(counts), np.stack([low, high], axis=-1)
        return {
            int(name): histograms_of(self.about.histograms, [row[at[1] : at[1] + BUCKETS] for at in places], ends)
            for name, row, ends in zip(names, rows, extremes, strict=True)
        }

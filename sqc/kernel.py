"""Kernels: a compiled program over many lanes, with capacities that grow and runs that end with a status.

A lane is one run: a seed, a horizon, a warm-up, an arrival limit and the inputs, all run-time values. A
kernel compiles once per set of capacities; a lane that overflows one is run again with more room,
so that its result depends on none of them.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sqc_runtime.core import DONE, OVERFLOWS
from sqc_runtime.lanes import lockstep_lanes, native_lanes
from sqc_runtime.native import took_effect
from sqc_runtime.statistics import SAMPLE_CELLS

from . import ir, stored
from .codegen.errors import ERRORS, error_of

if TYPE_CHECKING:
    from .codegen.lane import LaneProgram

RUNTIME_CODES: Mapping[str, str] = dict(ERRORS)
"""Codes of run-time errors and what they mean."""

FORMS = ("jaxpr", "stablehlo", "hlo")
CHUNK = 16
"""Lanes of one native call. A call with fewer is padded with lanes that end at once."""
_GROWTH = 4
_MOST = 1 << 24
_IDLE_HORIZON = -1.0


@dataclass(frozen=True)
class Failure:
    """Why a lane ended early: a run-time rule, the statement that broke it, the simulated time."""

    code: str
    message: str
    time: float
    session: int
    span: ir.Span | None


@dataclass(frozen=True)
class LaneBatch:
    """Results of many lanes: each metric as a float64 array [lanes], NaN where a lane failed."""

    metrics: dict[str, NDArray[np.float64]]
    failures: dict[int, Failure]


@dataclass(frozen=True)
class Samples:
    """The samples of one row after the warm-up, in execution order."""

    time: NDArray[np.float64]
    session: NDArray[np.int64]
    turn: NDArray[np.float64]
    value: NDArray[np.float64]


@dataclass(frozen=True)
class RunResult:
    """One run with its samples; `failure` is set when a run-time rule was broken."""

    metrics: dict[str, float]
    samples: dict[str, Samples]
    failure: Failure | None
    mode: str


class Interrupted(Exception):
    """Ctrl-C during a batch: `partial` holds what is finished, `done` says which lanes those are."""

    def __init__(self, partial: LaneBatch, done: NDArray[np.bool_]):
        super().__init__("interrupted")
        self.partial = partial
        self.done = done


class KernelError(ValueError):
    """A kernel cannot be built or called so; one line says why."""


class _Build:
    """One kernel with fixed capacities, for calls of a fixed number of lanes: compiled, or read from a file.

    What only compiling needs is made when it is first asked for, so a kernel from a file has none of it.
    """

    def __init__(self, program: ir.Program, capacities: Mapping[str, int], mode: str, lanes: int):
        started = time.perf_counter()
        self._program, self._capacities, self._mode = program, capacities, mode
        self.lanes = lanes
        place = stored.place(_kept_in, program, capacities, mode, lanes) if _kept_in else None
        kept = stored.load(place) if place else None
        self.from_cache = kept is not None
        self.execute: Callable[[tuple[NDArray[Any], ...]], dict[str, jax.Array]] = kept or self.compiled
        self.about = kept.about if kept else self._about()
        self.hlo: Callable[[], str | None] = (kept or self.compiled).as_text
        if place and not kept:
            stored.save(place, self.about, self.compiled)
        self.seconds = time.perf_counter() - started

    def _about(self) -> stored.About:
        rows = self.lane_program.rows if self._capacities["samples"] else {}
        return stored.About(
            metrics=tuple(self.lane_program.metric_names),
            results=tuple(sorted(self.compiled.out_info)),
            statements=tuple(self.lane_program.statements),
            rows={name: row.base for name, row in rows.items()},
        )

    @cached_property
    def lane_program(self) -> LaneProgram:
        from .codegen.lane import LaneProgram  # here: a kernel from a file does without code generation

        return LaneProgram(self._program, self._capacities, self._mode)

    @cached_property
    def call(self) -> Callable[[tuple[jax.Array, ...]], dict[str, Any]]:
        """All lanes of a call, as a function that JAX can trace."""
        make = native_lanes if self._mode == "native" else lockstep_lanes
        return make(self.lane_program.layout, self._simulate)

    @cached_property
    def traced(self) -> jax.stages.Traced:
        dtypes = (np.uint64, *[np.float64] * (4 + len(self._program.inputs)))
        with jax.enable_x64(True):
            columns = tuple(np.zeros(self.lanes, dtype) for dtype in dtypes)
            # An executable from a file takes all arguments, used or not.
            return jax.jit(self.call, keep_unused=True).trace(columns)

    @cached_property
    def lowered(self) -> jax.stages.Lowered:
        with jax.enable_x64(True):
            lowered: jax.stages.Lowered = self.traced.lower()
            return lowered

    @cached_property
    def compiled(self) -> jax.stages.Compiled:
        with jax.enable_x64(True):
            return self.lowered.compile()

    def _simulate(self, memory: Any, seed: Any, horizon: Any, warmup: Any, limit: Any, nz: Any, *inputs: Any) -> Any:
        return self.lane_program.simulate(memory, seed, horizon, warmup, limit, inputs, nz)

    def run(self, arguments: tuple[NDArray[Any], ...]) -> dict[str, NDArray[Any]]:
        """Run up to `lanes` lanes (one array per argument)."""
        count = len(arguments[0])
        fill = self.lanes - count
        if fill:
            arguments = tuple(np.concatenate([a, np.repeat(a[:1], fill)]) for a in arguments)
            arguments[1][count:] = _IDLE_HORIZON
        with jax.enable_x64(True):
            out = self.execute(arguments)
            return {name: np.asarray(value)[:count] for name, value in out.items()}


class Kernel:
    """A program as a function of seeds, times and inputs.

    `samples`: keep every sample (for single runs) instead of histograms. `capacities`: starting
    sizes ("sessions", "entries", "stale", "samples"). `mode`: "native" (CPU, one lane after the
    other in machine code), "portable" (lanes in lockstep, any backend), or None for the best here.
    """

    def __init__(
        self,
        program: ir.Program,
        *,
        samples: bool = False,
        capacities: Mapping[str, int] | None = None,
        mode: str | None = None,
    ):
        if mode not in (None, "native", "portable"):
            raise KernelError(f"mode is `native` or `portable`, not {mode!r}")
        self.program = program
        self.mode = mode or ("native" if jax.default_backend() == "cpu" else "portable")
        self.inputs: dict[str, float] = {decl.name: decl.default for decl in program.inputs}
        self._samples = samples
        self._capacities = self._initial(capacities or {})
        self._lanes = 1 if samples else CHUNK
        self._builds: dict[tuple[tuple[str, int], ...], _Build] = {}
        self._lock = threading.Lock()

    def _initial(self, given: Mapping[str, int]) -> dict[str, int]:
        sizes = {"sessions": 64, "entries": 128, "stale": 256, "samples": 1 << 16 if self._samples else 0}
        arrival = self.program.arrival
        if isinstance(arrival, ir.Closed | ir.Batch) and isinstance(arrival.n, ir.Const):
            sizes["sessions"] = max(8, min(int(arrival.n.value) + 1, _MOST))
        unknown = set(given) - set(sizes)
        if unknown:
            raise KernelError(f"unknown capacity {sorted(unknown)[0]!r}; there are {', '.join(sizes)}")
        for name, size in given.items():
            if size < 1:
                raise KernelError(f"capacity {name} is at least 1, not {size}")
            if name != "samples" or self._samples:
                sizes[name] = size
        return sizes

    # -- what it is
    def _build(self, sizes: Mapping[str, int] | None = None) -> _Build:
        sizes = dict(sizes or self._capacities)
        key = tuple(sorted(sizes.items()))
        with self._lock:
            if key not in self._builds:
                try:
                    self._builds[key] = _Build(self.program, sizes, self.mode, self._lanes)
                except NotImplementedError as construct:
                    raise KernelError(f"{construct} is not executed yet") from None
            return self._builds[key]

    @property
    def capacities(self) -> dict[str, int]:
        """Present sizes: live sessions, cache entries per pool, pending finishes per ps stage, samples per row."""
        return dict(self._capacities)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Dotted metric names, in the order of the report."""
        return self._build().about.metrics

    @property
    def compile_seconds(self) -> float:
        """Seconds from IR to machine code: tracing and compiling, or reading it from the cache."""
        return self._build().seconds

    @property
    def from_cache(self) -> bool:
        """Whether the machine code was read from the folder of `keep_compilations`."""
        return self._build().from_cache

    def emit(self, form: str) -> str:
        """The compiled program as text: its jaxpr, StableHLO, or optimised HLO."""
        build = self._build()
        match form:
            case "jaxpr":
                return str(build.traced.jaxpr)
            case "stablehlo":
                return str(build.lowered.as_text())
            case "hlo":
                return str(build.hlo())
        raise KernelError(f"no form {form!r}; there are {', '.join(FORMS)}")

    def is_native(self) -> bool:
        """Whether the compiled text shows that the native call took effect."""
        return took_effect(self.emit("hlo"))

    # -- calls
    def __call__(
        self,
        seeds: ArrayLike,
        *,
        horizon: ArrayLike,
        warmup: ArrayLike = 0.0,
        arrivals: ArrayLike = math.inf,
        **inputs: ArrayLike,
    ) -> dict[str, Any]:
        """Every metric for every lane: a dict of float64 arrays [lanes], NaN where a lane failed.

        Each argument is a scalar or has one entry per lane (time in clock units, `arrivals` a number of
        sessions). Under a JAX trace this is a pure function with the present capacities (a lane that
        overflows one gives NaN); called with values it grows them and runs such lanes again.
        """
        values = self._inputs(inputs)
        columns = [seeds, horizon, warmup, arrivals, *values]
        if any(isinstance(value, jax.core.Tracer) for value in columns):
            return self._traced(columns)
        batch = self.lanes(seeds, horizon=horizon, warmup=warmup, arrivals=arrivals, inputs=dict(inputs))
        return dict(batch.metrics)

    def _traced(self, columns: list[Any]) -> dict[str, Any]:
        build = self._build()
        with jax.enable_x64(True):
            seeds = jnp.atleast_1d(jnp.asarray(columns[0]).astype(np.uint64))
            rest = [jnp.broadcast_to(jnp.asarray(c).astype(np.float64), seeds.shape) for c in columns[1:]]
            minus_zero = rest[0] * 0.0 * -1.0
            out = _batched(build.call)(seeds, *rest[:3], minus_zero, *rest[3:])
            good = (out["status"] == DONE) & (out["error"] == 0)
            table = jnp.where(good[:, None], out["metrics"], jnp.nan)
            return {name: table[:, i] for i, name in enumerate(build.about.metrics)}

    def lanes(
        self,
        seeds: ArrayLike,
        *,
        horizon: ArrayLike,
        warmup: ArrayLike = 0.0,
        arrivals: ArrayLike = math.inf,
        inputs: Mapping[str, ArrayLike] | None = None,
        chunk: int | None = None,
        threads: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> LaneBatch:
        """Run lanes on all cores. `chunk`: lanes per call (at most the compiled number); `progress`
        is called with the number of lanes done. Raises `Interrupted` on Ctrl-C."""
        arguments = self._arguments(seeds, horizon, warmup, arrivals, inputs or {})
        total = len(arguments[0])
        names = self.metrics
        table = np.full((total, len(names)), np.nan)
        failures: dict[int, Failure] = {}
        done = np.zeros(total, bool)
        step = max(1, min(chunk or self._lanes, self._lanes))

        def batch() -> LaneBatch:
            return LaneBatch({name: table[:, i].copy() for i, name in enumerate(names)}, dict(sorted(failures.items())))

        todo, sizes = np.arange(total), dict(self._capacities)
        try:
            while len(todo):
                build, overflowed, full = self._build(sizes), [], set[int]()
                for lanes, out in self._calls(build, arguments, todo, step, threads):
                    again = self._collect(build, lanes, out, table, failures, full)
                    overflowed.append(again)
                    done[np.setdiff1d(lanes, again)] = True
                    if progress is not None:
                        progress(int(done.sum()))
                todo = np.sort(np.concatenate(overflowed))
                if len(todo):
                    sizes = self._grown(sizes, full)
            self._capacities = sizes
        except KeyboardInterrupt:
            raise Interrupted(batch(), done) from None
        return batch()

    def _calls(
        self, build: _Build, arguments: tuple[NDArray[Any], ...], todo: NDArray[Any], step: int, threads: int | None
    ) -> Iterator[tuple[NDArray[Any], dict[str, NDArray[Any]]]]:
        """Chunks of lanes over threads, in the order in which they finish."""
        pieces = [todo[i : i + step] for i in range(0, len(todo), step)]
        workers = min(threads or _cores(), len(pieces))

        def work(lanes: NDArray[Any]) -> dict[str, NDArray[Any]]:
            return build.run(tuple(a[lanes] for a in arguments))

        if workers <= 1:
            for lanes in pieces:
                yield lanes, work(lanes)
            return
        pool = ThreadPoolExecutor(workers)
        try:
            queue = iter(pieces)
            running: dict[Future[dict[str, NDArray[Any]]], NDArray[Any]] = {}
            for lanes in queue:
                running[pool.submit(work, lanes)] = lanes
                if len(running) >= 2 * workers:
                    yield from _finished(running)
            while running:
                yield from _finished(running)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _collect(
        self,
        build: _Build,
        lanes: NDArray[Any],
        out: dict[str, NDArray[Any]],
        table: NDArray[np.float64],
        failures: dict[int, Failure],
        full: set[int],
    ) -> NDArray[Any]:
        """Enter the results of a call; returns the lanes that must run again, notes in `full` what overflowed."""
        status = out["status"]
        over = np.isin(status, list(OVERFLOWS))
        full |= {int(s) for s in status[over]}
        for k in np.flatnonzero(~over & (out["error"] != 0)):
            failures[int(lanes[k])] = self._failure(build, out, int(k))
        good = ~over & (out["error"] == 0)
        table[lanes[good]] = out["metrics"][good]
        again: NDArray[Any] = lanes[over]
        return again

    def _failure(self, build: _Build, out: dict[str, NDArray[Any]], k: int) -> Failure:
        packed = int(out["error"][k])
        known = error_of(packed & 0xFF)
        assert known is not None
        span = build.about.statements[packed >> 8]
        return Failure(*known, float(out["time"][k]), int(out["session"][k]), span)

    def _grown(self, sizes: Mapping[str, int], full: set[int]) -> dict[str, int]:
        grown = dict(sizes)
        for status in full:
            name = OVERFLOWS[status]
            grown[name] = grown[name] * _GROWTH
            if grown[name] > _MOST:
                raise KernelError(
                    f"more than {_MOST} {name} are needed: the system is unstable, or the horizon too long"
                )
            if name == "sessions":
                grown["stale"] = max(grown["stale"], grown[name])
        return grown

    def run(
        self,
        seed: int,
        *,
        horizon: float,
        warmup: float = 0.0,
        arrivals: float = math.inf,
        inputs: Mapping[str, float] | None = None,
    ) -> RunResult:
        """One run with every sample kept (a kernel made with `samples=True`)."""
        if not self._samples:
            raise KernelError("this kernel keeps no samples: make it with samples=True")
        arguments = self._arguments([seed], horizon, warmup, arrivals, inputs or {})
        while True:
            build = self._build()
            out = build.run(arguments)
            status = int(out["status"][0])
            if status not in OVERFLOWS:
                break
            self._capacities = self._grown(self._capacities, {status})
        failure = self._failure(build, out, 0) if out["error"][0] else None
        metrics = dict(zip(build.about.metrics, (float(v) for v in out["metrics"][0]), strict=True))
        samples = {
            name: _samples(out["x"][0], base, int(metrics[f"{name}.count"])) for name, base in build.about.rows.items()
        }
        return RunResult(metrics, samples, failure, self.mode)

    # -- arguments
    def _inputs(self, given: Mapping[str, Any]) -> list[Any]:
        unknown = set(given) - set(self.inputs)
        if unknown:
            raise KernelError(f"unknown input {sorted(unknown)[0]!r}; there are {', '.join(self.inputs) or 'none'}")
        return [given.get(name, default) for name, default in self.inputs.items()]

    def _arguments(
        self, seeds: ArrayLike, horizon: ArrayLike, warmup: ArrayLike, arrivals: ArrayLike, inputs: Mapping[str, Any]
    ) -> tuple[NDArray[Any], ...]:
        """Columns of equal length, checked."""
        columns: list[NDArray[Any]] = [np.atleast_1d(np.asarray(seeds, dtype=np.uint64))]
        for value in (horizon, warmup, arrivals, *self._inputs(inputs)):
            columns.append(np.atleast_1d(np.asarray(value, dtype=np.float64)))
        try:
            columns = [np.array(c) for c in np.broadcast_arrays(*columns)]
        except ValueError:
            raise KernelError("seeds, times and inputs are scalars or have one entry per lane") from None
        end, start, limit = columns[1], columns[2], columns[3]
        if not (np.isfinite(end).all() and (end > 0).all()):
            raise KernelError("the horizon must be positive and finite")
        if not ((start >= 0) & (start < end)).all():
            raise KernelError("the warm-up must be at least 0 and less than the horizon")
        if np.isfinite(limit).any() and not isinstance(self.program.arrival, ir.Poisson | ir.Renewal):
            raise KernelError("an arrival limit goes with poisson or renewal arrivals only")
        if not (limit > 0).all():
            raise KernelError("the arrival limit must be positive")
        minus_zero = np.full(len(end), -0.0)
        return (*columns[:4], minus_zero, *columns[4:])


def _batched(call: Callable[[tuple[jax.Array, ...]], dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """`call` with a rule for `jax.vmap`: a mapped axis becomes more lanes, one after the other."""

    @jax.custom_batching.custom_vmap
    def lanes(*columns: jax.Array) -> dict[str, Any]:
        return call(columns)

    @lanes.def_vmap
    def rule(size: int, mapped: Any, *columns: jax.Array) -> tuple[dict[str, Any], dict[str, bool]]:
        full = [c if m else jnp.broadcast_to(c, (size, *c.shape)) for c, m in zip(columns, mapped, strict=True)]
        out = lanes(*(c.reshape(-1) for c in full))
        return {name: v.reshape(size, -1, *v.shape[1:]) for name, v in out.items()}, dict.fromkeys(out, True)

    return lanes


def _finished(running: dict[Future[Any], NDArray[Any]]) -> Iterator[tuple[NDArray[Any], dict[str, NDArray[Any]]]]:
    ready, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in ready:
        yield running.pop(future), future.result()


def _samples(bank: NDArray[np.float64], base: int, count: int) -> Samples:
    kept = bank[base : base + count * SAMPLE_CELLS].reshape(count, SAMPLE_CELLS)
    return Samples(kept[:, 0].copy(), kept[:, 1].astype(np.int64), kept[:, 2].copy(), kept[:, 3].copy())


def _cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_kept_in: Path | None = None


def keep_compilations(folder: str) -> None:
    """Keep the kernels that this process compiles in a folder, and take those that are there."""
    global _kept_in
    _kept_in = Path(folder)

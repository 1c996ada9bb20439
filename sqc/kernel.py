"""Kernels: a compiled program over many lanes, with capacities that grow and runs that end with a status.

A lane is one run: a seed, a horizon, a warm-up, an arrival limit and the inputs, all run-time values. A
kernel compiles once per set of capacities; a lane that overflows one is run again with more room,
so that its result depends on none of them.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sqc_runtime.core import DONE, OVERFLOWS
from sqc_runtime.histogram import Pooled, added
from sqc_runtime.machine import Results
from sqc_runtime.statistics import CHANGE_CELLS, SAMPLE_CELLS

from . import ir
from .build import NativeBuild, Options, PortableBuild
from .codegen import steady
from .codegen.errors import ERRORS, error_of
from .forms import FORMS, NATIVE_FORMS

if TYPE_CHECKING:
    import jax

    from .export import Export

RUNTIME_CODES: Mapping[str, str] = dict(ERRORS)
"""Codes of run-time errors and what they mean."""

CHUNK = {"native": 16, "portable": 4096}
"""Lanes of one call, at most."""
_GROWTH = 4
_MOST = 1 << 24


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
    pooled: Pooled = field(default_factory=dict)
    """Histograms of all samples by group of lanes and row, where groups were given."""


@dataclass(frozen=True)
class Samples:
    """The samples of one row after the warm-up, in execution order."""

    time: NDArray[np.float64]
    session: NDArray[np.int64]
    turn: NDArray[np.float64]
    value: NDArray[np.float64]


@dataclass(frozen=True)
class Changes:
    """The change points of a gauge over the whole run: its value from each time on."""

    time: NDArray[np.float64]
    value: NDArray[np.float64]


@dataclass(frozen=True)
class RunResult:
    """One run with its samples; `failure` is set when a run-time rule was broken."""

    metrics: dict[str, float]
    samples: dict[str, Samples]
    gauges: dict[str, Changes]
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


class Kernel:
    """A program as a function of seeds, times and inputs.

    `samples`: keep every sample (for single runs) instead of histograms. `capacities`: starting
    sizes ("sessions", "entries", "stale", "samples", "values"). `mode`: "native" (CPU, one lane after the
    other in machine code), "portable" (lanes in lockstep, any backend of JAX), or None for the best here.
    `debug`: check the invariants of the simulation at every settled instant (a lane that breaks one fails with R199).
    `skip`: take equal iterations of step stages at once, where that changes nothing but the time it takes.
    `export`: the portable build that a file of a compiled program has; it is called where it fits. `cache_dir`: the
    folder where machine code is kept between processes, and taken from.
    """

    def __init__(
        self,
        program: ir.Program,
        *,
        samples: bool = False,
        capacities: Mapping[str, int] | None = None,
        mode: str | None = None,
        debug: bool = False,
        skip: bool = True,
        export: Export | None = None,
        cache_dir: Path | None = None,
    ):
        if mode not in (None, "native", "portable"):
            raise KernelError(f"mode is `native` or `portable`, not {mode!r}")
        self.program = program
        self.mode = mode or best_mode()
        self.inputs: dict[str, float] = {decl.name: decl.default for decl in program.inputs}
        self._export, self._cache_dir = export, cache_dir
        self._samples, self._options = samples, Options(debug=debug, skip=skip)
        self._capacities = self._initial(capacities or {})
        self._lanes = 1 if samples else CHUNK[self.mode]
        self._builds: dict[tuple[str, tuple[tuple[str, int], ...]], NativeBuild | PortableBuild] = {}
        self._lock = threading.Lock()

    def _initial(self, given: Mapping[str, int]) -> dict[str, int]:
        # In lockstep all of it may be copied; in machine code what is not used costs next to nothing.
        many = 64 if self.mode == "portable" else 256
        sizes = {"sessions": many, "entries": 2 * many, "stale": 4 * many, "samples": 1 << 16 if self._samples else 0}
        if any(isinstance(node, ir.Total) and node.kind == "prefix_total" for node in ir.walk(self.program.claims)):
            sizes["values"] = 1 << 12
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
    def _build(self, sizes: Mapping[str, int] | None = None, mode: str = "") -> NativeBuild | PortableBuild:
        sizes, mode = dict(sizes or self._capacities), mode or self.mode
        key = mode, tuple(sorted(sizes.items()))
        with self._lock:
            if key not in self._builds:
                if mode == "native":
                    self._builds[key] = NativeBuild(self.program, sizes, self._options, self._cache_dir)
                else:
                    ready = self._export is not None and self._export.fits(sizes, self._options)
                    export = self._export if ready else None
                    self._builds[key] = PortableBuild(self.program, sizes, self._options, export)
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
    def iterates(self) -> dict[str, str | None]:
        """Of each step stage why every iteration of it is simulated; None: equal ones are taken at once."""
        reasons = steady.reasons(self.program)
        if self._options.debug or not self._options.skip:
            return dict.fromkeys(reasons, "it was asked for")
        return reasons

    @property
    def from_cache(self) -> bool:
        """Whether the machine code was read from `cache_dir`."""
        return self._build().from_cache

    def emit(self, form: str) -> str:
        """The program as text: the native path's optimised "llvm" or "assembly", the portable path's
        "jaxpr", "stablehlo" or optimised "hlo"."""
        if form not in FORMS:
            raise KernelError(f"no form {form!r}; there are {', '.join(FORMS)}")
        return self._build(mode="native" if form in NATIVE_FORMS else "portable").text(form)

    def export(self) -> Export:
        """The portable build with the present capacities as StableHLO."""
        from .export import Export

        build = self._build(mode="portable")
        assert isinstance(build, PortableBuild)
        return Export.of(build, self._capacities, 3 + len(self.inputs), self._options.skip)

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
        sessions). Under a JAX trace this is a pure function, and its results have the caller's precision: float32
        where x64 is off (the runs themselves are in doubles). `jax.vmap` over it makes more lanes. On the
        portable path it then has the present capacities: a lane that overflows one gives NaN.
        """
        values = self._inputs(inputs)
        columns = [seeds, horizon, warmup, arrivals, *values]
        if any(_is_traced(value) for value in columns):
            return self._traced(columns)
        batch = self.lanes(seeds, horizon=horizon, warmup=warmup, arrivals=arrivals, inputs=dict(inputs))
        return dict(batch.metrics)

    def _traced(self, columns: list[Any]) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp

        names = self.metrics
        # Doubles would make every operation of a caller without x64 warn.
        precision = jax.dtypes.canonicalize_dtype(np.float64)
        with jax.enable_x64(True):
            seeds = jnp.atleast_1d(jnp.asarray(columns[0]).astype(np.uint64))
            rest = [jnp.asarray(c).astype(np.float64) for c in columns[1:]]
            lanes = jnp.broadcast_arrays(seeds, *rest)
            table = (_without_derivative(self._native_table) if self.mode == "native" else self._portable_table)(*lanes)
            return {name: table[..., i].astype(precision) for i, name in enumerate(names)}

    def _native_table(self, *columns: jax.Array) -> jax.Array:
        """Metrics [..., metrics] of columns [...]; a mapped axis is more lanes.

        Values travel as pairs of 32-bit words: where the caller has x64 off, JAX would round them.
        """
        import jax
        from jax import lax

        names = self.metrics

        def host(*words: Any) -> NDArray[np.uint32]:
            first, *rest = (np.ascontiguousarray(w) for w in words)
            seeds, times = first.view(np.uint64)[..., 0], [w.view(np.float64)[..., 0].reshape(-1) for w in rest]
            horizon, warmup, arrivals, *inputs = times
            given = dict(zip(self.inputs, inputs, strict=True))
            batch = self.lanes(seeds.reshape(-1), horizon=horizon, warmup=warmup, arrivals=arrivals, inputs=given)
            table = np.stack([batch.metrics[name] for name in names], axis=-1)
            return table.view(np.uint32).reshape(*seeds.shape, len(names), 2)

        shape: Any = jax.ShapeDtypeStruct(  # type: ignore[no-untyped-call]
            (*columns[0].shape, len(names), 2), np.uint32
        )
        words = [lax.bitcast_convert_type(column, np.uint32) for column in columns]
        table: jax.Array = jax.pure_callback(host, shape, *words, vmap_method="broadcast_all")
        return lax.bitcast_convert_type(table, np.float64)

    def _portable_table(self, *columns: jax.Array) -> jax.Array:
        import jax.numpy as jnp

        build = self._build()
        assert isinstance(build, PortableBuild)
        out = _batched(build.call)(*columns)
        good = (out["status"] == DONE) & (out["error"] == 0)
        return jnp.where(good[:, None], out["metrics"], jnp.nan)

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
        pool: ArrayLike | None = None,
    ) -> LaneBatch:
        """Run lanes on all cores. `chunk`: lanes per call (at most the compiled number); `progress`
        is called with the number of lanes done. Raises `Interrupted` on Ctrl-C.

        `pool` gives each lane a group, a number: the histograms of a group's lanes (failed ones left out) are added up.
        """
        column, rows = self._arguments(seeds, horizon, warmup, arrivals, inputs or {})
        total = len(column)
        names = self.metrics
        table = np.full((total, len(names)), np.nan)
        failures: dict[int, Failure] = {}
        groups = None if pool is None else np.broadcast_to(np.asarray(pool), (total,))
        # A chunk's histograms and its lanes go together, so that an interrupt finds both or neither.
        pooled: tuple[Pooled, NDArray[Any]] = ({}, np.zeros(0, np.int64))
        done = np.zeros(total, bool)
        step = max(1, min(chunk or self._lanes, self._lanes))
        if self.mode == "native":  # few lanes are shared by all threads
            step = max(1, min(step, -(-total // (threads or _cores()))))

        def batch() -> LaneBatch:
            columns = {name: table[:, i].copy() for i, name in enumerate(names)}
            return LaneBatch(columns, dict(sorted(failures.items())), pooled[0])

        todo, sizes = np.arange(total), dict(self._capacities)
        try:
            while len(todo):
                build, overflowed, full = self._build(sizes), [], set[int]()
                work = partial(_run, build, column, rows, groups)
                apart = groups if self.mode == "native" else None
                for lanes, out in self._calls(work, _pieces(todo, step, apart), threads):
                    again = self._collect(build, lanes, out, table, failures, full)
                    overflowed.append(again)
                    finished = np.setdiff1d(lanes, again)
                    if groups is not None:
                        pooled = added(pooled[0], out.pooled), finished
                    done[finished] = True
                    if progress is not None:
                        progress(int(done.sum()))
                todo = np.sort(np.concatenate(overflowed))
                if len(todo):
                    sizes = self._grown(sizes, full)
            self._capacities = sizes
        except KeyboardInterrupt:
            done[pooled[1]] = True
            raise Interrupted(batch(), done) from None
        return batch()

    def _calls(
        self, work: Callable[[NDArray[Any]], Results], pieces: Sequence[NDArray[Any]], threads: int | None
    ) -> Iterator[tuple[NDArray[Any], Results]]:
        """Pieces of lanes over threads, in the order in which they finish."""
        workers = min(threads or _cores(), len(pieces)) if self.mode == "native" else 1
        if workers <= 1:
            for lanes in pieces:
                yield lanes, work(lanes)
            return
        pool = ThreadPoolExecutor(workers)
        try:
            queue = iter(pieces)
            running: dict[Future[Results], NDArray[Any]] = {}
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
        build: NativeBuild | PortableBuild,
        lanes: NDArray[Any],
        out: Results,
        table: NDArray[np.float64],
        failures: dict[int, Failure],
        full: set[int],
    ) -> NDArray[Any]:
        """Enter the results of a call; returns the lanes that must run again, notes in `full` what overflowed."""
        status = out.status
        over = np.isin(status, list(OVERFLOWS))
        full |= {int(s) for s in status[over]}
        for k in np.flatnonzero(~over & (out.error != 0)):
            failures[int(lanes[k])] = self._failure(build, out, int(k))
        good = ~over & (out.error == 0)
        table[lanes[good]] = out.metrics[good]
        again: NDArray[Any] = lanes[over]
        return again

    def _failure(self, build: NativeBuild | PortableBuild, out: Results, k: int) -> Failure:
        packed = int(out.error[k])
        known = error_of(packed & 0xFF)
        assert known is not None
        span = build.about.statements[packed >> 8]
        return Failure(*known, float(out.time[k]), int(out.session[k]), span)

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
        column, rows = self._arguments([seed], horizon, warmup, arrivals, inputs or {})
        while True:
            build = self._build()
            out = build.run(column, rows)
            status = int(out.status[0])
            if status not in OVERFLOWS:
                break
            self._capacities = self._grown(self._capacities, {status})
        failure = self._failure(build, out, 0) if out.error[0] else None
        metrics = dict(zip(build.about.metrics, (float(v) for v in out.metrics[0]), strict=True))
        samples = {
            name: _samples(out.samples, base, int(metrics[f"{name}.count"])) for name, base in build.about.rows.items()
        }
        gauges = {name: _changes(out.samples, base) for name, base in build.about.gauges.items()}
        return RunResult(metrics, samples, gauges, failure, self.mode)

    # -- arguments
    def _inputs(self, given: Mapping[str, Any]) -> list[Any]:
        unknown = set(given) - set(self.inputs)
        if unknown:
            raise KernelError(f"unknown input {sorted(unknown)[0]!r}; there are {', '.join(self.inputs) or 'none'}")
        return [given.get(name, default) for name, default in self.inputs.items()]

    def _arguments(
        self, seeds: ArrayLike, horizon: ArrayLike, warmup: ArrayLike, arrivals: ArrayLike, inputs: Mapping[str, Any]
    ) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
        """Seeds [lanes]; horizon, warm-up, arrival limit and inputs [columns, lanes]: checked."""
        names = ("the horizon", "the warm-up", "the arrival limit", *(f"input {name}" for name in self.inputs))
        given = (horizon, warmup, arrivals, *self._inputs(inputs))
        columns: list[NDArray[Any]] = [_whole(seeds), *map(_numbers, given, names)]
        try:
            columns = [np.array(c) for c in np.broadcast_arrays(*columns)]
        except ValueError:
            columns = []
        if not columns or columns[0].ndim > 1:
            raise KernelError("seeds, times and inputs are scalars or have one entry per lane") from None
        end, start, limit = columns[1], columns[2], columns[3]
        if not (np.isfinite(end).all() and (end > 0).all()):
            raise KernelError("the horizon must be positive and finite")
        if not ((start >= 0) & (start < end)).all():
            raise KernelError("the warm-up must be at least 0 and less than the horizon")
        if np.isfinite(limit).any() and not isinstance(self.program.arrival, ir.Poisson | ir.Renewal):
            raise KernelError("an arrival limit goes with poisson or renewal arrivals only")
        if not ((limit > 0) & (limit == np.floor(limit))).all():
            raise KernelError("the arrival limit must be a positive whole number")
        return columns[0], np.stack(columns[1:])


def _run(
    build: NativeBuild | PortableBuild,
    seeds: NDArray[np.uint64],
    columns: NDArray[np.float64],
    groups: NDArray[Any] | None,
    lanes: NDArray[Any],
) -> Results:
    return build.run(seeds[lanes], columns[:, lanes], None if groups is None else groups[lanes])


def _whole(seeds: ArrayLike) -> NDArray[np.uint64]:
    """Seeds as words [lanes]; KernelError unless they are whole numbers from 0 to 2^64 - 1."""
    # A list of large numbers would become one of floats, and lose digits.
    given = np.atleast_1d(np.asarray(seeds, None if hasattr(seeds, "dtype") else object))
    if given.dtype.kind in "bu":
        return given.astype(np.uint64)
    if given.dtype.kind in "if" and ((given >= 0) & (given < 2.0**64) & (given == np.floor(given))).all():
        return given.astype(np.uint64)
    if given.dtype.kind == "O":
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            words = np.array([int(seed) for seed in given.ravel()], np.uint64)
            if (words == given.ravel()).all():
                return words.reshape(given.shape)
    raise KernelError("seeds are whole numbers from 0 to 2^64 - 1")


def _numbers(value: ArrayLike, name: str) -> NDArray[np.float64]:
    """A time or an input as doubles; KernelError for NaN and what is no number."""
    try:
        column = np.atleast_1d(np.asarray(value, np.float64))
    except (TypeError, ValueError, OverflowError):
        raise KernelError(f"{name} is no number") from None
    if np.isnan(column).any():
        raise KernelError(f"{name} is not a number (NaN)")
    return column


def _pieces(lanes: NDArray[Any], step: int, groups: NDArray[Any] | None) -> list[NDArray[Any]]:
    """Lanes cut into chunks of at most `step`, each of one group."""
    parts = [lanes]
    if groups is not None:
        lanes = lanes[np.argsort(groups[lanes], kind="stable")]
        parts = np.split(lanes, np.flatnonzero(np.diff(groups[lanes])) + 1)
    return [part[i : i + step] for part in parts for i in range(0, len(part), step)]


def _is_traced(value: Any) -> bool:
    """Whether a value is known only when a JAX program runs (nobody traces who has not loaded JAX)."""
    module = type(value).__module__
    if not module.startswith("jax"):
        return False
    import jax

    return isinstance(value, jax.core.Tracer)


def best_mode() -> str:
    """The mode of kernels that are given none: machine code on a CPU; lockstep where JAX has an accelerator.

    JAX is loaded only to ask it.
    """
    if not any(importlib.util.find_spec(name) for name in _ACCELERATORS):
        return "native"
    import jax

    return "native" if jax.default_backend() == "cpu" else "portable"


_ACCELERATORS = ("jax_plugins", "jax_cuda12_plugin", "jax_cuda13_plugin", "jax_rocm7_plugin", "libtpu")
"""Packages without one of which JAX has no accelerator."""


def _without_derivative(table: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """`table`, which JAX cannot see into: its derivative would come out as 0, and raises instead."""
    import jax

    made = jax.custom_jvp(table)

    @made.defjvp
    def refuse(_primals: Any, _tangents: Any) -> Any:
        raise KernelError("a kernel in native mode has no derivative: use differences under common random numbers")

    return made


def _batched(call: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """`call` with a rule for `jax.vmap`: a mapped axis becomes more lanes."""
    import jax
    import jax.numpy as jnp

    @jax.custom_batching.custom_vmap
    def lanes(*columns: jax.Array) -> dict[str, Any]:
        return call(*columns)

    @lanes.def_vmap
    def rule(size: int, mapped: Any, *columns: jax.Array) -> tuple[dict[str, Any], dict[str, bool]]:
        full = [c if m else jnp.broadcast_to(c, (size, *c.shape)) for c, m in zip(columns, mapped, strict=True)]
        out = lanes(*(c.reshape(-1) for c in full))
        return {name: v.reshape(size, -1, *v.shape[1:]) for name, v in out.items()}, dict.fromkeys(out, True)

    return lanes


def _finished(running: dict[Future[Results], NDArray[Any]]) -> Iterator[tuple[NDArray[Any], Results]]:
    ready, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in ready:
        yield running.pop(future), future.result()


def _samples(bank: NDArray[np.float64], base: int, count: int) -> Samples:
    kept = bank[base : base + count * SAMPLE_CELLS].reshape(count, SAMPLE_CELLS)
    return Samples(kept[:, 0].copy(), kept[:, 1].astype(np.int64), kept[:, 2].copy(), kept[:, 3].copy())


def _changes(bank: NDArray[np.float64], base: int) -> Changes:
    count = int(bank[base])
    kept = bank[base + 1 : base + 1 + count * CHANGE_CELLS].reshape(count, CHANGE_CELLS)
    return Changes(kept[:, 0].copy(), kept[:, 1].copy())


def _cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

"""A compiled program: the Python face of everything that the command line does.

Importing this module and compiling a program need neither NumPy nor JAX; they are loaded by the
first kernel, run or sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqc import ir
from sqc.inputs import MAX_LANES, InputError, Number, Seeds, Values, point, times
from sqc.inputs import seed as checked_seed
from sqc.inputs import seeds as named_seeds
from sqc.textform import plain, shortest

if TYPE_CHECKING:
    from sqc.export import Export
    from sqc.kernel import Failure, Kernel
    from sqc.report import Report
    from sqc.sweeps import Sweep


class RunError(Exception):
    """A run broke a run-time rule, for example a guard that is neither 0 nor 1.

    `failure` has `code`, `message`, `time` (simulated), `session` (its serial) and `span` (the
    statement, or None). The text shows the statement in the program's source.
    """

    def __init__(self, failure: Failure, program: ir.Program, seed: int) -> None:
        self.failure = failure
        self.seed = seed
        self.file = program.file
        super().__init__(_explain(failure, program, seed))

    def json(self) -> dict[str, Any]:
        """JSON-ready; `line` and `col` are None where the failure has no statement."""
        failure, span = self.failure, self.failure.span
        document: dict[str, Any] = plain(
            {
                "code": failure.code,
                "message": failure.message,
                "file": self.file,
                "line": span.line if span else None,
                "col": span.col if span else None,
                "time": failure.time,
                "session": failure.session,
                "seed": self.seed,
            }
        )
        return document


#: Rules of the whole run, which no session breaks: those of arrival limits.
_OF_THE_RUN = ("R107", "R108", "R109")


def _explain(failure: Failure, program: ir.Program, seed: int) -> str:
    from sqc.diagnostics import Diagnostic, Note, render

    lines = program.source.split("\n")
    span = failure.span
    line = lines[span.line - 1] if span and 0 < span.line <= len(lines) else ""
    session = "" if failure.code in _OF_THE_RUN else f", session {failure.session}"
    note = Note(f"at simulated time {shortest(failure.time)}{session}, seed {seed}")
    return render(Diagnostic(failure.code, failure.message, program.file, span, line, notes=(note,)))


def compile(  # noqa: A001 - named after what it does, as re.compile is
    path: str | Path | None = None,
    *,
    source: str | None = None,
    workload: str | Path | None = None,
    defs: Mapping[str, Number] | None = None,
) -> Program:
    """Compile a program file (`.sq`, or the IR that `sqc ir` writes as `.json`) or a text; `.sqk` is loaded.

    `workload` is the file of the program's workload, if that has one of its own. `defs` maps names
    of expression definitions to new bodies (`{"law": "~det(mean)"}`), which may read what the old
    ones could.

    Raises CompileError with all diagnostics of the first phase that has any; a file that cannot be
    read or is not the IR of a program is one diagnostic.
    """
    if (path is None) == (source is None):
        raise InputError("compile takes a path or source=, not both and not neither")
    from sqc.lower import compile_file, compile_text  # here: `import sqc` stays free of the parser

    load = Path(workload) if workload is not None else None
    bodies = {name: body if isinstance(body, str) else repr(float(body)) for name, body in (defs or {}).items()}
    if source is not None:
        return Program(compile_text(source, workload=load, defs=bodies))
    assert path is not None
    if Path(path).suffix == ".sqk":
        if workload is not None or bodies:
            raise InputError(f"{path}: a compiled program has its workload and definitions; give the program's text")
        from sqc import artefact

        return artefact.load(path)
    return Program(compile_file(Path(path), workload=load, defs=bodies))


class Program:
    """A compiled program. `ir` is its intermediate representation, `inputs` the default of every
    external input (`args.number`) by its name outside.

    Everywhere: horizon and warm-up are times in the program's clock unit; `arrivals` limits the
    number of sessions (the run ends when all have ended); `sets` maps input names to numbers or to
    texts of constant expressions (`"2 * 1e4"`). A wrong argument raises InputError, one line.

    `cache_dir`, None at first, may name a folder that keeps compiled kernels between processes. `skip`, True at
    first: equal iterations of step stages are taken at once, where that changes nothing but the time it takes.
    """

    def __init__(self, program: ir.Program, export: Export | None = None) -> None:
        """`export`: a portable build that is ready, as the file of a compiled program has one."""
        self.ir = program
        self.inputs: dict[str, float] = {declared.name: declared.default for declared in program.inputs}
        self.cache_dir: Path | None = None
        self.skip = True
        self._export = export
        self._kernels: dict[tuple[Any, ...], Kernel] = {}

    def __repr__(self) -> str:
        return f"<sqc.Program {self.ir.file}>"

    def kernel(
        self,
        *,
        samples: bool = False,
        capacities: Mapping[str, int] | None = None,
        mode: str | None = None,
        debug: bool = False,
        skip: bool | None = None,
    ) -> Kernel:
        """The kernel: `kernel(seeds, horizon=..., warmup=..., C=2e4)` gives a dict of arrays with one
        entry per lane. Made once per choice of options and kept.

        `samples` keeps every sample (for single runs), `capacities` sets starting sizes, `mode` is
        `native`, `portable` or None for the best one here. With `debug` the invariants of the simulation are
        checked at every settled instant; a lane on which one does not hold fails with R199. `skip`, if given, goes
        before the program's.
        """
        from sqc.kernel import Kernel

        skip = self.skip if skip is None else skip
        key = (samples, None if capacities is None else tuple(sorted(capacities.items())), mode, debug, skip)
        if key not in self._kernels:
            how: dict[str, Any] = {
                "samples": samples,
                "capacities": capacities,
                "mode": mode,
                "debug": debug,
                "skip": skip,
            }
            self._kernels[key] = Kernel(self.ir, **how, export=self._export, cache_dir=self.cache_dir)
        return self._kernels[key]

    def _times(self, horizon: Number, warmup: Number, arrivals: int | None) -> tuple[float, float, float]:
        checked = times(horizon, warmup, arrivals)
        if arrivals is not None and not isinstance(self.ir.arrival, ir.Poisson | ir.Renewal):
            raise InputError(f"arrivals {arrivals}: a limit goes with poisson and renewal arrivals only")
        return checked

    def run(
        self,
        seed: int = 1,
        *,
        horizon: Number,
        warmup: Number = 0.0,
        arrivals: int | None = None,
        sets: Mapping[str, Number] | None = None,
        mode: str | None = None,
    ) -> Report:
        """One run with every sample kept. Raises RunError if the run breaks a run-time rule."""
        end, start, limit = self._times(horizon, warmup, arrivals)
        inputs = point(sets or {}, self.inputs)
        whole = checked_seed(seed)
        from sqc.report import Report

        kernel = self.kernel(samples=True, mode=mode)
        result = kernel.run(whole, horizon=end, warmup=start, arrivals=limit, inputs=inputs)
        if result.failure is not None:
            raise RunError(result.failure, self.ir, whole)
        return Report.of(self.ir, result, seed=whole, horizon=end, warmup=start, inputs=inputs)

    def sweep(
        self,
        seeds: Seeds,
        *,
        horizon: Number,
        warmup: Number = 0.0,
        arrivals: int | None = None,
        sets: Mapping[str, Values] | None = None,
        mode: str | None = None,
        threads: int | None = None,
        progress: Callable[[int, int], None] | None = None,
        points: str | Path | Sequence[Mapping[str, Number]] | None = None,
        baseline: Mapping[str, Number] | None = None,
        until: Mapping[str, Number] | None = None,
        max_seeds: int = 10_000,
        out: str | Path | None = None,
        resume: bool = False,
        block: int | None = None,
        shard: str | tuple[int, int] | None = None,
        engine: str = "local",
        address: str | None = None,
    ) -> Sweep:
        """Every seed at every point, all as lanes of one kernel.

        `seeds`: a count `n` for seeds 1..n, a text such as `7,9,20:30`, or the seeds themselves.
        `sets` maps input names to one value or several, or to a text with ranges: `"1e4:2e5:12log"`;
        every combination is a point. `points` are further ones, as mappings or in a file (CSV,
        Parquet), each with every combination of `sets`; `sqc.sweeps.design` makes space-filling ones.
        The points that `baseline` compares with are added where they are missing.

        `until` maps metrics to a half width, `"1%"` of the mean or a number: seeds are added to each
        point until its 95 % interval is that narrow, or it has `max_seeds`.

        `out` is a folder that keeps the sweep, a Parquet file per block of lanes (`block` of them, or as
        many as take some seconds); with `resume` the sweep that is there already goes on. With `shard`,
        `"2/8"`, only the second of eight parts of the lanes is run; `sqc.merge_sweeps` puts the folders of
        all parts together. With `engine` "ray" the blocks are tasks of a Ray cluster: the one at
        `address`, else what the environment names, else one of this machine's own.

        `progress` is called with the number of lanes done and of all lanes. Failed lanes are listed in
        the result; Ctrl-C raises SweepInterrupted, which has the finished lanes.
        """
        end, start, limit = self._times(horizon, warmup, arrivals)
        named = named_seeds(seeds)
        from sqc.sweeps.grids import combined, with_baseline
        from sqc.sweeps.pointfile import read_points

        given = read_points(Path(points)) if isinstance(points, str | Path) else points
        every = combined(sets or {}, given, self.inputs)
        if baseline:
            every = with_baseline(every, baseline, self.inputs)
        if len(every) * len(named) > MAX_LANES:
            raise InputError(f"{len(every)} points x {len(named)} seeds are more than {MAX_LANES} runs")
        from sqc.sweeps.experiment import Experiment
        from sqc.sweeps.looks import until as checked_until
        from sqc.sweeps.runner import run
        from sqc.sweeps.shards import shard as named_part
        from sqc.sweeps.store import Store

        kernel = self.kernel(mode=mode)
        stop = checked_until(until, max_seeds, named, kernel.metrics) if until else None
        lanes = (tuple(every), named, end, start, limit)
        part = None if shard is None else named_part(shard)
        if part is not None and (stop is not None or out is None):
            raise InputError("shard: goes with out, and without until, which looks at all seeds of a point")
        experiment = Experiment(self.ir, self.inputs, *lanes, kernel.mode, stop, self.skip, part)
        how: dict[str, Any] = {
            "threads": threads,
            "progress": progress,
            "block": block,
            "engine": engine,
            "address": address,
        }
        if out is None:
            return run(experiment, kernel, **how)
        with Store.begin(Path(out), experiment, kernel.metrics, resume) as store:
            return run(experiment, kernel, store=store, **how)

    def summary(self) -> dict[str, Any]:
        """What the program has, JSON-ready: file, inputs, arrivals, trace, stages, flows, pools, observes,
        gauges, claims, attributes; the trace and the flows are None where there are none."""
        program = self.ir
        return {
            "file": program.file,
            "inputs": dict(self.inputs),
            "arrivals": type(program.arrival).__name__.lower(),
            "trace": _trace(program.trace),
            "stages": {stage.name: _kind(stage) + _size(stage) for stage in program.stages},
            "flows": program.share or None,
            "pools": {pool.name: ("evict by" if pool.evict else "lru") + _size(pool) for pool in program.pools},
            "observes": [declared.name for declared in program.observes],
            "gauges": [declared.name for declared in program.gauges],
            "claims": [declared.name for declared in program.claims],
            "attributes": list(program.attributes),
        }


def _trace(trace: ir.Trace | None) -> str | None:
    """`ordered, 3 sessions, 12 turns`."""
    if trace is None:
        return None
    order = "ordered" if trace.ordered else "sampled"
    return f"{order}, {len(trace.starts) - 1} sessions, {len(trace.rows)} turns"


def _size(declared: ir.Stage | ir.Pool) -> str:
    return "" if declared.size is None else f"[{declared.size}]"


def _kind(stage: ir.Stage) -> str:
    """`fifo`, `fifo(4)`, `ps`, `delay`; servers that depend on an input are not counted here."""
    name = type(stage.kind).__name__.lower()
    servers = stage.kind.servers if isinstance(stage.kind, ir.Fifo) else None
    return f"{name}({servers.value:g})" if isinstance(servers, ir.Const) and servers.value > 1 else name

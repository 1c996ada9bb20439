"""The commands `sweep` and `show`: many runs, kept in a folder or not, as a table."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sqc.cli.commands import (
    Arrivals,
    Defs,
    Json,
    Mode,
    NoSkip,
    Warmup,
    Workload,
    app,
    check_mode,
    compiled,
    kernels_folder,
    no_inputs,
)
from sqc.cli.exits import FAILED, INTERRUPTED, failing
from sqc.cli.printing import print_sweep

if TYPE_CHECKING:
    from sqc.sweeps import Sweep

Metric = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="A metric to show, * and ? match any; repeatable.")
]
Baseline = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="Compare each point, seed by seed, with that of this value; repeatable."),
]
Quantiles = Annotated[
    str | None, typer.Option(metavar="Q1,Q2,...", help="Quantiles of all samples of a point together: 0.5,0.99.")
]
Csv = Annotated[str | None, typer.Option(metavar="FILE", help="Write one row per point, all metrics.")]


@app.command()
def sweep(
    ctx: typer.Context,
    program: Annotated[
        str,
        typer.Argument(
            metavar="PROGRAM|DIR",
            help="A program (.sq), compiled (.sqk), its IR (.json), or -; with --resume the folder of a sweep.",
        ),
    ],
    seeds: Annotated[
        str | None,
        typer.Option(metavar="SEEDS", help="N for seeds 1 to N, or names and ranges: 7,9,20:30 (both ends)."),
    ] = None,
    horizon: Annotated[str | None, typer.Option(metavar="TIME", help="When each run ends; above 0.")] = None,
    warmup: Warmup = "0",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=V1,V2,...",
            help="Values of an input, or LOW:HIGH:COUNT, LOW:HIGH:COUNTlog; repeatable. Every combination is a point. "
            "`-- --NAME V1,V2` is the same.",
        ),
    ] = None,
    points: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Points from a file (.csv, .parquet): a column per input, a row per point."),
    ] = None,
    design: Annotated[
        str | None,
        typer.Option(metavar="METHOD:N", help="N points that fill the space of --over: sobol:64, lhs:40."),
    ] = None,
    over: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=LOW:HIGH", help="An interval of the design, LOW:HIGHlog for ratios; repeatable."),
    ] = None,
    until: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC=1%",
            help="Add seeds to a point until a metric's interval has this half width (% of the mean, or a number); "
            "repeatable.",
        ),
    ] = None,
    max_seeds: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="At most so many seeds a point with --until; default 10000.")
    ] = None,
    baseline: Baseline = None,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Keep the sweep in this folder, a Parquet file per block of runs.")
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Run only part I of N of the runs, into --out; `sqc merge` joins the parts."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the sweep in the folder.")] = False,
    workload: Workload = None,
    defs: Defs = None,
    arrivals: Arrivals = None,
    metric: Metric = None,
    quantiles: Quantiles = None,
    mode: Mode = None,
    no_skip: NoSkip = False,
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="Threads; default: one per core.")] = None,
    block: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Runs of a block; default: as many as take some seconds.")
    ] = None,
    engine: Annotated[
        str, typer.Option(metavar="ENGINE", help="local, or ray: blocks are tasks of a Ray cluster.")
    ] = "local",
    ray_address: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="The cluster of --engine ray; default: that of RAY_ADDRESS, or one here."),
    ] = None,
    csv: Csv = None,
    as_json: Json = False,
) -> int:
    """Run seeds x inputs; print a table.

    Every seed runs at every combination of inputs (a point); the table has one row per point. Each cell is the mean
    over seeds ± the half width of its 95 % interval. Runs that fail are left out and listed; the exit code is then 1.

    \b
    Example:
      sqc sweep prog.sq --seeds 1000 --horizon 2e4 --warmup 2e3 --set C=1e4:2e5:12log --out sweep/
      sqc sweep sweep/ --resume
      sqc sweep prog.sq --seeds 30 --horizon 2e4 --set C=2e5,6e4 --until client.response.mean=1%
      sqc sweep prog.sq --seeds 1000 --horizon 2e4 --set C=2e5,6e4 --shard 2/8 --out part2/
      sqc sweep prog.sq --seeds 10000 --horizon 2e4 --set C=1e4:2e5:12log --engine ray --out sweep/
      sqc sweep prog.sq --seeds 7,9,20:30 --horizon 2e4 --set C=6e4,2e4 --baseline C=2e5 --csv t.csv
      sqc sweep prog.sq --seeds 20 --horizon 2e4 --design sobol:64 --over C=1e4:2e5log
    """
    with failing(ctx.command_path, as_json):
        from sqc.cli.terminal import progress_bar
        from sqc.inputs import InputError, assignments

        check_mode(mode)
        if engine not in ("local", "ray"):
            raise InputError(f"--engine {engine}: local or ray")
        if ray_address is not None and engine != "ray":
            raise InputError("--ray-address goes with --engine ray")
        against = pairs(baseline, "--baseline", "VALUE")
        parts = quantile_list(quantiles)
        folder = Path(program) if Path(program).is_dir() else None
        if folder is not None:
            no_inputs(ctx)
            _as_stored(folder, ctx, resume)
        elif seeds is None or horizon is None:
            raise InputError(f"missing option '--{'seeds' if seeds is None else 'horizon'}'")
        elif resume and out is None:
            raise InputError("--resume goes with --out, or with the folder of a sweep")
        elif shard is not None and (out is None or until):
            raise InputError("--shard goes with --out, and without --until, which looks at all seeds of a point")
        from sqc.sweeps import SweepInterrupted

        try:
            if folder is not None:
                from sqc.sweeps import open_sweep, resume_sweep

                _check_metrics(open_sweep(folder).metrics, metric)
                with progress_bar() as progress:
                    table = resume_sweep(
                        folder,
                        threads=threads,
                        progress=progress,
                        block=block,
                        engine=engine,
                        address=ray_address,
                        cache_dir=kernels_folder(),
                    )
            else:
                assert seeds is not None
                assert horizon is not None
                sets = assignments(settings or [], ctx.obj)
                given = _points(points, design, pairs(over, "--over", "LOW:HIGH"))
                targets = pairs(until, "--until", "1%")
                if max_seeds is not None and not targets:
                    raise InputError("--max-seeds goes with --until")
                made = compiled(program, workload, defs, no_skip)
                # A wrong name must not wait for the end of the sweep.
                _check_metrics(made.kernel(mode=mode).metrics, metric)
                with progress_bar() as progress:
                    table = made.sweep(
                        seeds,
                        horizon=horizon,
                        warmup=warmup,
                        arrivals=arrivals,
                        sets=sets,
                        mode=mode,
                        threads=threads,
                        progress=progress,
                        points=given,
                        baseline=against,
                        until=targets,
                        max_seeds=max_seeds or 10_000,
                        out=out,
                        resume=resume,
                        block=block,
                        shard=shard,
                        engine=engine,
                        address=ray_address,
                    )
        except SweepInterrupted as stop:
            table = stop.partial
        _print(table, metric, against, parts, as_json)
        if csv:
            table.to_csv(csv)
        if table.interrupted:
            kept = folder or out
            where = f"`sqc sweep {kept} --resume` goes on" if kept else "the table has what was finished"
            print(f"{ctx.command_path}: interrupted; {where}", file=sys.stderr)
            return INTERRUPTED
        return FAILED if table.failures else 0


@app.command()
def show(
    ctx: typer.Context,
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The folder of `sqc sweep --out`.")],
    metric: Metric = None,
    quantiles: Quantiles = None,
    baseline: Baseline = None,
    csv: Csv = None,
    as_json: Json = False,
) -> int:
    """Print the table of a stored sweep, finished or not.

    \b
    Example:
      sqc show sweep/ --metric client.response.p99 --quantiles 0.5,0.99
      sqc show sweep/ --baseline C=2e5 --json
    """
    with failing(ctx.command_path, as_json):
        no_inputs(ctx)
        against = pairs(baseline, "--baseline", "VALUE")
        parts = quantile_list(quantiles)
        from sqc.sweeps import open_sweep

        table = open_sweep(folder)
        _check_metrics(table.metrics, metric)
        _print(table, metric, against, parts, as_json)
        if csv:
            table.to_csv(csv)
        return 0


@app.command()
def merge(
    ctx: typer.Context,
    folders: Annotated[list[str], typer.Argument(metavar="DIR...", help="The folders of `sqc sweep --shard`.")],
    out: Annotated[str, typer.Option("--out", "-o", metavar="DIR", help="The folder of the whole sweep; a new one.")],
    metric: Metric = None,
    quantiles: Quantiles = None,
    baseline: Baseline = None,
    csv: Csv = None,
    as_json: Json = False,
) -> int:
    """Put the parts of a sweep together; print the table.

    All parts must be there, finished and of one sweep. The folder has the rows of a sweep that was run as one.

    \b
    Example:
      sqc merge part1/ part2/ part3/ -o sweep/
      sqc merge part*/ -o sweep/ --metric client.response.p99
    """
    with failing(ctx.command_path, as_json):
        no_inputs(ctx)
        against = pairs(baseline, "--baseline", "VALUE")
        parts = quantile_list(quantiles)
        from sqc.sweeps import merge_sweeps, open_sweep

        _check_metrics(open_sweep(folders[0]).metrics, metric)
        table = merge_sweeps(folders, out)
        _print(table, metric, against, parts, as_json)
        if csv:
            table.to_csv(csv)
        return FAILED if table.failures else 0


def pairs(given: Sequence[str] | None, option: str, what: str) -> dict[str, str]:
    """The texts of a repeatable option `NAME=...` by name."""
    from sqc.inputs import assigned

    return assigned(given or (), option, what)


def quantile_list(text: str | None) -> tuple[float, ...]:
    """The numbers of `--quantiles`."""
    from sqc.inputs import InputError, number

    numbers = tuple(number(part, "--quantiles") for part in text.split(",")) if text else ()
    for q in numbers:
        if not 0 <= q <= 1:
            raise InputError(f"--quantiles {text}: from 0 to 1")
    return numbers


def _points(file: str | None, spec: str | None, over: Mapping[str, str]) -> Any:
    """The points of a file or of a design; None without either."""
    from sqc.inputs import InputError

    if file is not None and spec is not None:
        raise InputError("--points and --design: one of them")
    if spec is None:
        if over:
            raise InputError("--over goes with --design")
        return file
    from sqc.sweeps import design

    return design(spec, over)


_OF_THE_STORE = (
    *("seeds", "horizon", "warmup", "settings", "points", "design", "over", "until", "max_seeds", "out", "shard"),
    *("workload", "defs", "arrivals", "mode", "no_skip"),
)


def _as_stored(folder: Path, ctx: typer.Context, resume: bool) -> None:
    """Refuse what a stored sweep has already."""
    from sqc.inputs import InputError

    if not resume:
        raise InputError(f"{folder} is a folder: --resume goes on with a sweep, `sqc show {folder}` prints it")
    for name in _OF_THE_STORE:
        source = ctx.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = "set" if name == "settings" else "def" if name == "defs" else name.replace("_", "-")
            raise InputError(f"--{option}: the sweep in {folder} has its own")


def _check_metrics(known: Sequence[str], patterns: Sequence[str] | None) -> None:
    from sqc.sweeps.text import select

    select(known, patterns or ())


def _print(
    table: Sweep, metrics: list[str] | None, baseline: Mapping[str, str], quantiles: tuple[float, ...], as_json: bool
) -> None:
    from sqc.sweeps.text import Extras

    print_sweep(table, metrics or (), Extras(table.baseline(baseline) if baseline else None, quantiles), as_json)

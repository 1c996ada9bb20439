"""The command `optimize`: a search for the best inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sqc.cli.commands import (
    Defs,
    Horizon,
    Json,
    Mode,
    ProgramFile,
    Settings,
    Warmup,
    Workload,
    app,
    check_mode,
    compiled,
)
from sqc.cli.exits import FAILED, failing
from sqc.cli.printing import print_json
from sqc.cli.sweeps import pairs


@app.command()
def optimize(
    ctx: typer.Context,
    program: ProgramFile,
    minimize: Annotated[
        str, typer.Option(metavar="EXPR", help="What is to be small in the mean: numbers, + - * / ^, inputs, metrics.")
    ],
    over: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=LOW:HIGH", help="Search this interval of an input, LOW:HIGHlog for ratios; repeatable."
        ),
    ],
    horizon: Horizon,
    warmup: Warmup = "0",
    subject_to: Annotated[
        list[str] | None,
        typer.Option(metavar="BOUND", help="EXPR <= EXPR, or >=, on means over runs; repeatable."),
    ] = None,
    budget: Annotated[int, typer.Option(metavar="N", help="Runs to spend, at least 200.")] = 4000,
    seed: Annotated[str, typer.Option(metavar="N", help="Decides which points are tried.")] = "1",
    settings: Settings = None,
    workload: Workload = None,
    defs: Defs = None,
    mode: Mode = None,
    picture: Annotated[
        str | None, typer.Option("-o", metavar="FILE", help="Draw what was tried: .png, .svg or .pdf.")
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(metavar="FILE.parquet", help="Write every run, a row each, as a stored sweep has them."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Search for the inputs at which something is least.

    Many points get few runs, good ones more, the best one many of its own: its mean and 95 % interval are
    of runs that no choice depended on. The exit code is 1 if some run there fails, or a bound is not certain to hold.

    \b
    Example:
      sqc optimize prog.sq --minimize '1e-6 * C + client.response.mean' --over C=1e4:2e5log \\
          --subject-to 'client.response.p99 <= 0.25' --horizon 2e4 --warmup 2e3 -o tried.png
    """
    with failing(ctx.command_path, as_json):
        from sqc.cli.terminal import progress_bar
        from sqc.inputs import InputError, assignments
        from sqc.inputs import seed as whole

        check_mode(mode)
        sets = assignments(settings or [], ctx.obj)
        box = pairs(over, "--over", "LOW:HIGH")
        if picture is not None:
            from sqc import pictures

            pictures.check_file(picture)
            pictures.need_matplotlib()  # before the runs, not behind them
        if out is not None and (Path(out).suffix != ".parquet" or not Path(out).parent.is_dir()):
            raise InputError(f"--out {out}: a file .parquet in a folder that is there")
        from sqc.search.optimize import optimize as search

        with progress_bar() as progress:
            found = search(
                compiled(program, workload, defs),
                minimize,
                over=box,
                horizon=horizon,
                warmup=warmup,
                subject_to=subject_to or (),
                sets=sets,
                budget=budget,
                seed=whole(seed),
                mode=mode,
                progress=progress,
            )
        if as_json:
            print_json(found.json())
        else:
            print(found)
        if out is not None:
            found.to_parquet(out)
        if picture is not None:
            pictures.save(found.plot(), picture)
        return 0 if found.proven else FAILED

"""The commands `draw`, `trace` and `plot`: pictures of a program, of one run, of a sweep."""

from __future__ import annotations

from typing import Annotated

import typer

from sqc.cli.commands import Defs, ProgramFile, Settings, Workload, app, compiled, no_inputs, one_of
from sqc.cli.exits import failing

Picture = Annotated[str, typer.Option("--out", "-o", metavar="FILE", help="The picture: .png, .svg or .pdf.")]
Width = Annotated[
    str, typer.Option(metavar="CM", help="Width of the picture: 25 for a screen, 8 for a column of print.")
]
_SCREEN = "25"


@app.command()
def draw(
    ctx: typer.Context,
    program: ProgramFile,
    out: Picture,
    width: Width = _SCREEN,
    workload: Workload = None,
    defs: Defs = None,
) -> None:
    """Draw a program: its deployment and the path of a request.

    Arrivals, what a session does, what the server does for one turn (holds around what they hold for, runs on
    stages, branches side by side), the pools and stages. Nothing is run.

    \b
    Example:
      sqc draw prog.sq -o prog.svg
      sqc draw prog.sq -o column.pdf --width 8
    """
    with failing(ctx.command_path, as_json=False):
        from sqc import pictures
        from sqc.inputs import number

        no_inputs(ctx)
        pictures.check_file(out)
        pictures.save(pictures.draw(compiled(program, workload, defs), width=number(width, "width")), out)


@app.command()
def trace(
    ctx: typer.Context,
    program: ProgramFile,
    until: Annotated[str, typer.Option(metavar="TIME", help="When the run ends; above 0.")],
    out: Annotated[
        str | None, typer.Option("--out", "-o", metavar="FILE", help="The picture: .png, .svg or .pdf.")
    ] = None,
    csv: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the time series: a row per change, a column per number.")
    ] = None,
    seed: Annotated[str, typer.Option(metavar="N", help="Which random numbers: 0 to 2^64 - 1.")] = "1",
    start: Annotated[str, typer.Option("--from", metavar="TIME", help="Where the picture starts.")] = "0",
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Draw this pool, stage or gauge; repeatable.")
    ] = None,
    settings: Settings = None,
    width: Width = _SCREEN,
    workload: Workload = None,
    defs: Defs = None,
) -> None:
    """Run a program once and draw what happens over time.

    What pools use and cache against their caps, who waits for them, what stages serve; evictions, rejections and
    preemptions are marked. Values are those at the end of every instant.

    \b
    Example:
      sqc trace prog.sq --seed 1 --until 200 -o trace.png
      sqc trace prog.sq --until 2200 --from 2000 --set C=2e4 --only kv -o kv.pdf --csv kv.csv
    """
    with failing(ctx.command_path, as_json=False):
        from sqc import pictures
        from sqc.inputs import InputError, assignments, number
        from sqc.inputs import seed as whole

        if out is None and csv is None:
            raise InputError("nothing to write: -o FILE draws a picture, --csv FILE writes the numbers")
        if out is not None:
            pictures.check_file(out)
            pictures.need_matplotlib()  # before the run, not behind it
        sets = assignments(settings or [], ctx.obj)
        recording = pictures.record(compiled(program, workload, defs), whole(seed), until=until, sets=sets)
        if csv is not None:
            recording.to_csv(csv)
        if out is not None:
            begin, across = number(start, "from"), number(width, "width")
            figure = pictures.timeline(recording, start=begin, only=only or (), width=across)
            pictures.save(figure, out)
            hidden = len(pictures.panels(recording, only or ())) - len(figure.axes)
            if hidden > 0:
                print(f"{out}: {len(figure.axes)} panels, {hidden} more are not drawn (--only NAME chooses)")


@app.command()
def plot(
    ctx: typer.Context,
    sweep: Annotated[str, typer.Argument(metavar="SWEEP", help="A folder that `sqc sweep --out` wrote.")],
    metric: Annotated[str, typer.Option("--y", metavar="METRIC", help="The metric, as `sqc show` names it.")],
    out: Picture,
    x: Annotated[
        str | None, typer.Option("--x", metavar="INPUT", help="The input of the x axis, if several vary.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="INPUT", help="A line for each value of it; the rows of a heat map.")
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="line; dist: the distribution over seeds; heat: colours over two inputs; scatter: all points.",
        ),
    ] = "line",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Take the points where an input is this; repeatable."),
    ] = None,
    log: Annotated[
        str | None,
        typer.Option(
            metavar="AXES",
            help="Logarithmic axes: none, x, y, xy (y is the metric's). Default: x if the points are spaced so.",
        ),
    ] = None,
    width: Width = _SCREEN,
) -> None:
    """Draw a metric of a sweep.

    A line is the mean over the seeds with its interval as a band. Inputs that vary and are not drawn have to be set.

    \b
    Example:
      sqc plot sweep/ --x C --y client.response.mean --by Z -o cliff.png
      sqc plot sweep/ --y client.response.mean --kind dist --set C=2e4 -o runs.pdf
      sqc plot sweep/ --x C --by Z --y pool.kv.evicted_entries --kind heat -o map.svg --width 8
    """
    with failing(ctx.command_path, as_json=False):
        from sqc import pictures
        from sqc.inputs import assignments, number

        no_inputs(ctx)
        pictures.check_file(out)
        one_of("--kind", kind, pictures.KINDS)
        one_of("--log", log, pictures.LOGS)
        pinned = {name: number(text, f"input {name}") for name, text in assignments(settings or []).items()}
        from sqc.sweeps import open_sweep

        figure = pictures.plot(
            *(open_sweep(sweep), metric),
            kind=kind,
            x=x,
            by=by,
            pinned=pinned,
            log=log,
            width=number(width, "width"),
        )
        pictures.save(figure, out)

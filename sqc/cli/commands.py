"""The commands: parse flags, call the library, print."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sqc.cli.exits import failing
from sqc.cli.printing import print_ir, print_kernel, print_summary, print_version, print_written
from sqc.cli.streams import read_program
from sqc.forms import FORMS

if TYPE_CHECKING:
    from sqc.program import Program

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,  # rich costs a fifth of a second at every start
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

ProgramFile = Annotated[
    str,
    typer.Argument(metavar="PROGRAM", help="A program (.sq), compiled (.sqk), its IR (.json), or - for stdin."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON; errors of the program too.")]
Horizon = Annotated[str, typer.Option(metavar="TIME", help="When the run ends; above 0.")]
Warmup = Annotated[str, typer.Option(metavar="TIME", help="Statistics start here.")]
Arrivals = Annotated[
    int | None, typer.Option(metavar="N", help="Stop when N sessions have arrived and all have ended.")
]
Mode = Annotated[
    str | None,
    typer.Option(metavar="MODE", help="native (one machine-code function per core) or portable; default: the best."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Give an input; repeatable. `-- --NAME VALUE` is the same."),
]
Workload = Annotated[
    str | None,
    typer.Option("--workload", metavar="FILE", help="The file with the program's workload, if it is not in PROGRAM."),
]
Defs = Annotated[
    list[str] | None,
    typer.Option("--def", metavar="NAME=EXPR", help="Replace the body of an expression definition; repeatable."),
]
NoSkip = Annotated[
    bool, typer.Option("--no-skip", help="Simulate every iteration of step stages, equal ones too (slower).")
]


def _version(wanted: bool) -> None:
    if wanted:
        print_version()
        raise typer.Exit


@app.callback()
def _sqc(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print versions, device and mode.")
    ] = False,
) -> None:
    """Compile .sq programs to simulation kernels; run and sweep them.

    \b
    Example:
      sqc run prog.sq --horizon 20000 --warmup 2000 --seed 1

    Exit codes: 0 done, 1 the program or the run failed, 2 wrong usage, 130 interrupted. --debug with any command shows
    the traceback of an internal error.
    """


@app.command()
def check(
    ctx: typer.Context, program: ProgramFile, workload: Workload = None, defs: Defs = None, as_json: Json = False
) -> None:
    """Check a program; print what it has.

    It is parsed, resolved and type-checked. Everything found wrong is printed with its place.

    \b
    Example:
      sqc check prog.sq
    """
    with failing(ctx.command_path, as_json):
        no_inputs(ctx)
        print_summary(compiled(program, workload, defs).summary(), as_json)


@app.command()
def ir(ctx: typer.Context, program: ProgramFile, workload: Workload = None, defs: Defs = None) -> None:
    """Print a program's IR as JSON.

    The intermediate representation is a program itself: every command takes it as a .json file.

    \b
    Example:
      sqc ir prog.sq > prog.json
      sqc run prog.json --horizon 20000
    """
    with failing(ctx.command_path, as_json=False):
        no_inputs(ctx)
        print_ir(compiled(program, workload, defs))


@app.command("compile")
def compile_(
    ctx: typer.Context,
    program: ProgramFile,
    emit: Annotated[
        str | None,
        typer.Option(
            metavar="FORM",
            help="Print this form instead: ir, llvm, assembly, or of the portable path jaxpr, stablehlo, hlo.",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Write a file (.sqk) that every command takes in place of the program, here or elsewhere.",
        ),
    ] = None,
    mode: Mode = None,
    no_skip: NoSkip = False,
    workload: Workload = None,
    defs: Defs = None,
    as_json: Json = False,
) -> None:
    """Build the kernel; print what it has.

    Prints its inputs, metrics, capacities, mode and compile time, and of step stages whether equal iterations are
    taken at once, or why not.

    \b
    Example:
      sqc compile prog.sq
      sqc compile prog.sq --emit llvm > prog.ll
      sqc compile prog.sq -o prog.sqk
    """
    with failing(ctx.command_path, as_json):
        no_inputs(ctx)
        one_of("--emit", emit, ("ir", *FORMS))
        check_mode(mode)
        if out is not None:
            _check_out(out, emit, mode)
        made = compiled(program, workload, defs, no_skip)
        if out is not None:
            from sqc.artefact import save

            print_written(out, save(made, out), as_json)
        elif emit == "ir":
            print_ir(made)
        elif emit:
            print(made.kernel(mode=mode).emit(emit))
        else:
            print_kernel(made, mode, as_json)


@app.command()
def run(
    ctx: typer.Context,
    program: ProgramFile,
    horizon: Horizon,
    warmup: Warmup = "0",
    seed: Annotated[str, typer.Option(metavar="N", help="Which random numbers: 0 to 2^64 - 1.")] = "1",
    settings: Settings = None,
    workload: Workload = None,
    defs: Defs = None,
    arrivals: Arrivals = None,
    mode: Mode = None,
    no_skip: NoSkip = False,
    dump: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Write report.json, all samples and all changes of gauges (CSV) into this folder."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a program once and print its report.

    \b
    Example:
      sqc run prog.sq --horizon 20000 --warmup 2000 --seed 1 --set C=2e4
      sqc run prog.sq --horizon 20000 --json --dump samples -- --C 2e4
      sqc run model.sq --workload load.sq --def 'law=~det(1)' --horizon 20000
    """
    with failing(ctx.command_path, as_json):
        from sqc.inputs import InputError, assignments
        from sqc.inputs import seed as whole

        check_mode(mode)
        sets = assignments(settings or [], ctx.obj)
        if dump == "":
            raise InputError("--dump: the name of a folder is missing")
        report = compiled(program, workload, defs, no_skip).run(
            whole(seed), horizon=horizon, warmup=warmup, arrivals=arrivals, sets=sets, mode=mode
        )
        print(report.to_json() if as_json else report)
        if dump:
            report.dump(dump)


def compiled(program: str, workload: str | None, defs: list[str] | None, no_skip: bool = False) -> Program:
    """The program of a command line: a file, or `-` for standard input."""
    from sqc import program as face
    from sqc.inputs import definitions

    bodies = definitions(defs or [])
    if program == "-":
        made = face.compile(source=read_program(), workload=workload, defs=bodies)
    else:
        made = face.compile(program, workload=workload, defs=bodies)
    made.cache_dir, made.skip = kernels_folder(), made.skip and not no_skip
    return made


def _check_out(out: str, emit: str | None, mode: str | None) -> None:
    """Refuse the name of a compiled program that could not be loaded, and what does not go with one."""
    from sqc.inputs import InputError

    if emit or mode:
        raise InputError(f"--out writes a file for every mode; {'--emit' if emit else '--mode'} does not go with it")
    if Path(out).suffix != ".sqk":
        raise InputError(f"--out {out}: the name must end in .sqk")


def kernels_folder() -> Path | None:
    """Where compiled kernels are kept: the user's cache folder, unless JAX has been told of another.

    None where that folder cannot be written.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return None
    with contextlib.suppress(OSError, RuntimeError):  # no right to write there, no home
        home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
        folder = Path(home) / "sqc" / "kernels"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    return None


def no_inputs(ctx: typer.Context) -> None:
    """Refuse what follows `--` on the command line."""
    from sqc.inputs import InputError

    if ctx.obj:
        raise InputError("inputs after -- are for run and sweep")


def one_of(option: str, value: str | None, allowed: tuple[str, ...]) -> None:
    """Refuse a value of an option that is none of its choices."""
    from sqc.inputs import InputError, did_you_mean

    if value is not None and value not in allowed:
        hint = did_you_mean(value, allowed) or f" (one of {', '.join(allowed)})"
        raise InputError(f"{option} {value}: no such choice{hint}")


def check_mode(mode: str | None) -> None:
    """Refuse a mode that there is not."""
    one_of("--mode", mode, ("native", "portable"))

"""From an argument list to an exit code. No traceback reaches the user unless `--debug` asks for it."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from sqc.cli.exits import DONE, FAILED, INTERRUPTED, USAGE
from sqc.cli.streams import reopen_closed


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 1, 2, or 130 for Ctrl-C."""
    words = list(sys.argv[1:] if argv is None else argv)
    # What follows `--` are inputs of the program, which the option parser must not see.
    cut = words.index("--") if "--" in words else len(words)
    words, extra = words[:cut], words[cut + 1 :]
    debug = "--debug" in words
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ± still gets its numbers
    words = [word for word in words if word != "--debug"]
    try:
        code = _run(words, extra)
        try:
            sys.stdout.flush()
        except OSError:
            if code == DONE:  # else the command has said so
                raise
        return code
    except KeyboardInterrupt:
        print("sqc: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe went away (`sqc ... | head`): leave, and let no later flush complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:  # a command says where; this is the output: full, or closed
        if debug:
            raise
        print(f"sqc: {error.strerror or error}", file=sys.stderr)
        return FAILED
    except Exception as error:
        if debug:
            raise
        text = " ".join(str(error).split())
        print(f"sqc: internal error: {type(error).__name__}: {text:.300} (--debug shows where)", file=sys.stderr)
        return FAILED


def process() -> NoReturn:
    """The process `sqc`: `main`, with a quick start and a quick end.

    Collecting garbage while modules load, and taking JAX apart at the end, would cost over half a
    second of a start that finds its kernel in the cache.
    """
    gc.set_threshold(100_000)
    reopen_closed()
    code = main()
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    os._exit(code)


def _run(words: list[str], extra: list[str]) -> int:
    import typer

    import sqc.cli.format
    import sqc.cli.pictures
    import sqc.cli.search
    import sqc.cli.sweeps  # noqa: F401 - their commands join the app
    from sqc.cli.commands import app

    # click's UsageError, wherever this typer keeps click
    usage_error: type[Exception] = typer.BadParameter.__mro__[1]
    command = typer.main.get_command(app)
    try:
        result = command.main(args=words or ["--help"], prog_name="sqc", standalone_mode=False, obj=extra)
    except usage_error as error:
        print(_one_line(error), file=sys.stderr)
        return USAGE
    except typer.Exit as stop:
        return stop.exit_code
    except typer.Abort:
        raise KeyboardInterrupt from None
    return result if isinstance(result, int) else DONE


def _one_line(error: BaseException) -> str:
    """A usage error as `sqc run: no such option --sed (did you mean --seed?)`."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "sqc"
    option = getattr(error, "option_name", None)
    if option and hasattr(error, "possibilities"):
        return f"{path}: no such option {option}{_advice(option, error.possibilities, path)}"
    text = " ".join(error.format_message().split()) if hasattr(error, "format_message") else str(error)
    return f"{path}: {text[:1].lower()}{text[1:].rstrip('.')}"


def _advice(option: str, possibilities: Sequence[str] | None, path: str) -> str:
    if possibilities:
        return f" (did you mean {possibilities[0]}?)"
    name = option.lstrip("-")
    if path.endswith(("run", "sweep", "trace", "optimize")) and name:
        return f" (an input of the program is given as --set {name}=VALUE or as -- --{name} VALUE)"
    return ""

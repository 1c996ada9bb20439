"""Hook of mkdocs: the parts of the reference that are read from the program, in place of `<!-- generated: NAME -->`."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterable
from typing import Any

MARK = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs with the text of each page; an unknown name is a KeyError and ends the build."""
    return MARK.sub(lambda mark: PARTS[mark[1]](), markdown)


def commands() -> str:
    """What `--help` prints, of `sqc` and of each command."""
    import typer
    from typer.testing import CliRunner

    import sqc.cli.format
    import sqc.cli.pictures
    import sqc.cli.search
    import sqc.cli.sweeps  # noqa: F401 - their commands join the app
    from sqc.cli.commands import app

    group: Any = typer.main.get_command(app)
    parts = []
    for words in ([], *([name] for name in group.commands)):
        shown = CliRunner().invoke(app, [*words, "--help"], prog_name="sqc", env={"COLUMNS": "100"})
        if shown.exit_code:
            raise RuntimeError(f"sqc {' '.join(words)} --help: {shown.output}")
        parts.append(f"## {' '.join(['sqc', *words])}\n\n```text\n{shown.output.strip()}\n```")
    return "\n\n".join(parts)


def diagnostics() -> str:
    """The codes of wrong programs."""
    from sqc.diagnostics import CODES

    return _table(CODES.items())


def failures() -> str:
    """The codes with which a run can end."""
    from sqc.codegen.errors import ERRORS

    return _table(ERRORS)


def python() -> str:
    """What `import sqc` has: signatures and docstrings."""
    import sqc

    return "\n\n".join(_entry(name, getattr(sqc, name)) for name in sqc.__all__ if not name.startswith("_"))


def _entry(name: str, thing: Any) -> str:
    parts = [f"## {name}", _described(f"sqc.{name}", thing, inspect.isclass(thing) and not _is_plain(thing))]
    if inspect.isclass(thing):
        for member, value in vars(thing).items():
            made = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if not member.startswith("_") and inspect.getdoc(made) and _is_documented(made):
                parts += [f"### {name}.{member}", _described(f"{name}.{member}", made, False)]
        if "__call__" in vars(thing) and thing.__call__.__doc__:
            parts += [f"### {name}(...)", _described("", thing.__call__, False)]
    return "\n\n".join(parts)


def _is_plain(thing: type) -> bool:
    """A class that nobody calls: an exception, or what functions return."""
    return issubclass(thing, BaseException) or not inspect.getdoc(thing.__init__) or thing.__module__ != "sqc.program"


def _is_documented(thing: Any) -> bool:
    return inspect.isfunction(thing) or isinstance(thing, property | functools.cached_property)


def _described(name: str, thing: Any, called: bool) -> str:
    text = inspect.getdoc(thing) or ""
    if not inspect.isfunction(thing) and not called:
        return text
    signature = re.sub(r"(?<=[(, ])(\w+: )'([^']*)'", r"\1\2", str(inspect.signature(thing))).replace("self, ", "")
    return f"```text\n{name}{signature}\n```\n\n{text}"


def _table(rows: Iterable[tuple[str, str]]) -> str:
    return "\n".join(["| code | meaning |", "|---|---|", *(f"| `{code}` | {text} |" for code, text in rows)])


PARTS = {"commands": commands, "diagnostics": diagnostics, "failures": failures, "python": python}

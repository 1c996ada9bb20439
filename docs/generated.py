"""Hook of mkdocs: the parts of the reference that are read from the program, in place of `<!-- generated: NAME -->`."""

from __future__ import annotations

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


def _table(rows: Iterable[tuple[str, str]]) -> str:
    return "\n".join(["| code | meaning |", "|---|---|", *(f"| `{code}` | {text} |" for code, text in rows)])


PARTS = {"commands": commands, "diagnostics": diagnostics, "failures": failures}

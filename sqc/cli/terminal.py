"""What only a terminal gets: a progress bar on stderr and a table with rules and colour."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqc.sweep import Sweep


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[int, int], None] | None]:
    """A bar of runs done, if stderr is a terminal; yields the callback that moves it, or None."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("compiling", total=None)

        def move(done: int, total: int) -> None:
            bar.update(task, description="runs", completed=done, total=total)

        yield move


def print_table(sweep: Sweep, metrics: Sequence[str], width: int) -> None:
    """The table of a sweep on a terminal of this width; chosen metrics may make it wider."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from sqc import sweep_text

    header, rows = sweep_text.cells(sweep, metrics, width)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in header:
        table.add_column(Text(name), justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console(width=max(width, 1_000 if metrics else width), highlight=False, soft_wrap=True)
    console.print(Text(sweep_text.heading(sweep)), "", table, "", sep="\n")
    shown = sum(name in sweep.lanes for name in header)
    for line in sweep_text.notes(sweep, shown):
        console.print(Text(line, style="dim" if line.startswith("mean") else "red"))

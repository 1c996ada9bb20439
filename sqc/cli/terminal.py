"""What only a terminal gets: a progress bar on stderr and a table with rules and colour."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqc.sweeps import Sweep
    from sqc.sweeps.text import Extras


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


def print_tables(sweep: Sweep, metrics: Sequence[str], width: int, extras: Extras) -> None:
    """The tables of a sweep on a terminal of this width."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from sqc.sweeps import text as sweep_text

    made = sweep_text.tables(sweep, metrics, width, extras, fold=True)
    console = Console(width=width, highlight=False, soft_wrap=True)
    console.print(Text(sweep_text.heading(sweep)), "", sep="\n")
    for title, header, rows, left in made:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for place, name in enumerate(header):
            table.add_column(Text(name), justify="left" if place < left else "right", no_wrap=True)
        for row in rows:
            table.add_row(*map(Text, row))
        console.print(*([Text(title)] if title else []), table, "", sep="\n")
    for line, alarming in sweep_text.notes(sweep, made):
        console.print(Text(line, style="red" if alarming else "dim"))

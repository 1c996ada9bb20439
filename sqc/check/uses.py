"""The files of a program: the definitions that it uses, and a workload in a file of its own.

`use "file.sq";` reads a file of definitions (and constants), relative to the file that says it;
a file may use others, and is read once however often it is used. A workload file has one
`workload { ... }` at its top, beside what a file of definitions may have; it stands in the
program as if it were written before the `server`, except that it may not redefine a constant.
"""

from __future__ import annotations

import os
from pathlib import Path

from sqc.diagnostics import CompileError, Note, Place, Reporter, Source
from sqc.syntax import tree
from sqc.syntax.files import read_source
from sqc.syntax.parse import parse

BUILT_IN = ("std/args", "std/kvt")


class Unit:
    """A program with its files: what stands at the top, and what in `fn main`."""

    def __init__(self) -> None:
        self.top: list[tree.Let | tree.Def] = []
        self.mains: list[tree.Main] = []
        self.uses: set[str] = set()

    @property
    def items(self) -> list[tree.Item]:
        """All declarations in order, those of main last."""
        return [*self.top, *(item for main in self.mains for item in main.items)]


def load(source: Source, directory: Path, reporter: Reporter, workload: Path | None = None) -> Unit:
    """Parse a program, its workload's file if it has one, and the files of definitions they use."""
    loader = _Loader(reporter)
    loader.program(source, directory)
    if workload is not None:
        loader.workload(workload)
    reporter.stop_if_any()
    return loader.unit


class _Loader:
    def __init__(self, reporter: Reporter) -> None:
        self.reporter = reporter
        self.unit = Unit()
        self.done: set[Path] = set()
        self.open: list[Path] = []  # the files being read, each used by the one before it

    def parse(self, source: Source) -> tuple[tree.Item | tree.Main, ...]:
        """What stands in a text; nothing after errors."""
        try:
            return parse(source, Reporter()).items
        except CompileError as error:
            self.reporter.take(error)
            return ()

    def program(self, source: Source, directory: Path) -> None:
        self.open.append((directory / Path(source.file).name).resolve())
        for item in self.parse(source):
            match item:
                case tree.Main():
                    self.unit.mains.append(item)
                    for inner in item.items:
                        if isinstance(inner, tree.Use):
                            self.use(inner, directory)
                case tree.Workload():
                    message = "a `workload` stands inside `fn main`, or in a file of its own"
                    place = item.place._replace(end=item.place.start + len("workload"))
                    self.reporter.error("E502", message, place, "name that file: --workload FILE")
                case _:
                    self.definition(item, directory)
        self.open.pop()

    def definition(self, item: tree.Node, directory: Path) -> None:
        """One declaration of a file of definitions, or of the top of a program."""
        if isinstance(item, tree.Use):
            self.use(item, directory)
        elif isinstance(item, tree.Let | tree.Def):
            self.unit.top.append(item)
        else:
            what = "fn main" if isinstance(item, tree.Main) else "workload"
            place = item.place._replace(end=item.place.start + len(what.split()[0]))
            self.reporter.error("E216", f"a file of definitions may not contain `{what}`", place)

    def use(self, item: tree.Use, directory: Path) -> None:
        name, place = item.path.value, item.path.place
        self.unit.uses.add(name)
        if name in BUILT_IN:
            return
        if name.startswith("std/"):
            known = " and ".join(f'"{n}"' for n in BUILT_IN)
            self.reporter.error("E216", f'there is no "{name}"', place, f"the language supplies {known}")
            return
        shown = directory / name
        path = Path(os.path.realpath(shown))  # which leaves a circle of links alone
        if not os.path.exists(path) and os.path.exists(f"{path}.sq"):  # whose answer to an impossible name is no
            shown, path = (p.with_name(p.name + ".sq") for p in (shown, path))
        if path in self.open:
            self.circle(path, place)
        elif path not in self.done:
            self.done.add(path)
            self.take_in(path, shown, place)

    def take_in(self, path: Path, shown: Path, place: Place) -> None:
        """The definitions of a file, where it is used."""
        try:
            source = read_source(path, str(shown))
        except CompileError as error:
            advice = "a path is relative to the file that uses it"
            self.reporter.error("E216", error.diagnostics[0].message, place, advice)
            return
        source.used = place
        self.open.append(path)
        for item in self.parse(source):
            self.definition(item, shown.parent)
        self.open.pop()

    def circle(self, path: Path, place: Place) -> None:
        names = [p.name for p in self.open[self.open.index(path) :]]
        message = f"`{path.name}` uses itself"
        notes = [Note(f"the circle is {' -> '.join([*names, path.name])}")] if len(names) > 1 else []
        self.reporter.error("E216", message, place, notes=notes)

    def workload(self, path: Path) -> None:
        """Put the workload of a file, and the constants it needs, before the server."""
        source = read_source(path, str(path))
        written: list[tree.Item] = []
        self.open.append(path.resolve())
        before = len(self.reporter)
        for item in self.parse(source):
            match item:
                case tree.Use():
                    self.use(item, path.parent)
                case tree.Main():
                    place = item.place._replace(end=item.place.start + len("fn"))
                    self.reporter.error("E216", "a workload's file may not contain `fn main`", place)
                case _:
                    written.append(item)
        self.open.pop()
        if len(self.reporter) > before:
            return
        if not any(isinstance(item, tree.Workload) for item in written):
            self.reporter.error("E502", "this file has no `workload { ... }`", Place(source, 0, 1))
        self.redefined(written)
        for n, main in enumerate(self.unit.mains[:1]):
            at = next((k for k, item in enumerate(main.items) if isinstance(item, tree.Server)), len(main.items))
            items = (*main.items[:at], *written, *main.items[at:])
            self.unit.mains[n] = tree.Main(main.place, items)

    def redefined(self, written: list[tree.Item]) -> None:
        known = {item.name.id: item.name.place for item in self.unit.items if isinstance(item, tree.Let)}
        for item in written:
            if isinstance(item, tree.Let) and item.name.id in known:
                notes = [Note("declared here", known[item.name.id])]
                message = f"`{item.name.id}` is a constant of the program: its workload cannot change it"
                self.reporter.error("E204", message, item.name.place, "use another name", notes)

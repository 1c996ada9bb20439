"""`use`: the files of definitions a program reads, flattened into one list of declarations."""

from __future__ import annotations

from pathlib import Path

from sqc.diagnostics import CompileError, Reporter, Source
from sqc.syntax import tree
from sqc.syntax.files import read_source
from sqc.syntax.parse import parse

BUILT_IN = ("std/args", "std/kvt")


class Unit:
    """A program with its files: what stands at the top, and what in `fn main`."""

    def __init__(self) -> None:
        self.top: list[tree.Use | tree.Let | tree.Def] = []
        self.mains: list[tree.Main] = []
        self.uses: set[str] = set()

    @property
    def items(self) -> list[tree.Item]:
        """All declarations in order, those of main last."""
        return [*self.top, *(item for main in self.mains for item in main.items)]


def load(source: Source, directory: Path, reporter: Reporter) -> Unit:
    """Parse a program and the files it uses, and those they use, each once."""
    unit = Unit()
    seen: set[Path] = set()

    def take(file: tree.File, base: Path, main: bool) -> None:
        for item in file.items:
            if isinstance(item, tree.Main):
                if main:
                    unit.mains.append(item)
                    for inner in item.items:
                        if isinstance(inner, tree.Use):
                            use(inner, base)
                else:
                    message = "a file of definitions may not contain `fn main`"
                    reporter.error("E216", message, item.place._replace(end=item.place.start + 2))
            elif isinstance(item, tree.Use):
                use(item, base)
            else:
                unit.top.append(item)

    def use(item: tree.Use, base: Path) -> None:
        name = item.path.value
        unit.uses.add(name)
        if name in BUILT_IN:
            return
        if name.startswith("std/"):
            known = " and ".join(f'"{n}"' for n in BUILT_IN)
            reporter.error("E216", f'there is no "{name}"', item.path.place, f"the language supplies {known}")
            return
        path = (base / name).resolve()
        if not path.exists() and path.with_name(path.name + ".sq").exists():
            path = path.with_name(path.name + ".sq")
        if path in seen:
            return
        seen.add(path)
        try:
            text = read_source(path, str(base / name))
        except CompileError as error:
            reporter.error("E216", error.diagnostics[0].message, item.path.place)
            return
        inner = Reporter()
        try:
            file = parse(text, inner)
        except CompileError as error:
            reporter.take(error)
            return
        take(file, path.parent, main=False)

    seen.add((directory / source.file).resolve())
    try:
        file = parse(source, Reporter())
    except CompileError as error:
        reporter.take(error)
        file = None
    if file is not None:
        take(file, directory, main=True)
    reporter.stop_if_any()
    return unit

"""A program in its other spellings: ours must read each of them as the same program.

`if` instead of `branch`, as the formatter writes it, and back; the definitions in a file of their
own; the workload in a file of its own. The reference reads none of these.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from generating import Block, Case, Piece, render
from sqc import ir
from sqc.diagnostics import CompileError
from sqc.format import format_text
from sqc.lower import compile_text


def meaning(text: str, directory: Path, workload: Path | None = None) -> Any:
    """The IR without places and text, or the codes and messages of what is wrong."""

    def placeless(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: placeless(value) for key, value in node.items() if key not in ("span", "source")}
        return [placeless(value) for value in node] if isinstance(node, list) else node

    try:
        return placeless(json.loads(ir.to_json(compile_text(text, directory=directory, workload=workload))))
    except CompileError as error:
        return sorted((found.code, found.message) for found in error.diagnostics)


def unequal_spellings(case: Case) -> list[str]:
    """The spellings in which a program does not mean what it means as it is written."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in case.files:
            (folder / file).write_text(text, encoding="utf-8")
        plain = meaning(case.source, folder)
        if isinstance(plain, list):  # no program, so no other spelling of it
            return []
        return [
            f"the spelling with {what} means something else"
            for what, text, workload in _spellings(case, folder)
            if meaning(text, folder, workload) != plain
        ]


def _spellings(case: Case, folder: Path) -> Iterator[tuple[str, str, Path | None]]:
    """What is spelled otherwise, the text, and the file of the workload if that has one of its own."""
    other = format_text(case.source, spelling="if")
    yield "`if`", other, None
    yield "`branch` again", format_text(other, spelling="seed"), None
    for inner in (False, True):
        rest, definitions = _taken(case.tree, "def ", inner)
        if definitions:
            (folder / "library.sq").write_text(render(definitions), encoding="utf-8")
            yield "its definitions in a library", render((*_used(rest, inner),)), None
    rest, load = _taken(case.tree, "workload ", True)
    if load:
        (folder / "load.sq").write_text(render(load), encoding="utf-8")
        yield "its workload in a file", render(rest), folder / "load.sq"


def _taken(tree: Block, word: str, inner: bool) -> tuple[Block, Block]:
    """A program without the declarations that start with a word, at its top or in `main`; and those."""
    if not inner:
        kept = tuple(one for one in tree if not _starts(one, word))
        return kept, tuple(one for one in tree if _starts(one, word))
    out: list[Piece] = []
    taken: Block = ()
    for one in tree:
        if _starts(one, "fn main") and isinstance(one.parts[-1], tuple):
            body, taken = _taken(one.parts[-1], word, False)
            one = replace(one, parts=(*one.parts[:-1], body))
        out.append(one)
    return tuple(out), taken


def _used(tree: Block, inner: bool) -> Block:
    """The program with a use of the library, where its definitions were."""
    use = Piece(('use "library.sq";',))
    if not inner:
        return (use, *tree)
    *rest, main = tree
    body = main.parts[-1]
    assert isinstance(body, tuple)
    return (*rest, replace(main, parts=(*main.parts[:-1], (use, *body))))


def _starts(one: Piece, word: str) -> bool:
    first = one.parts[0]
    return isinstance(first, str) and first.startswith(word)

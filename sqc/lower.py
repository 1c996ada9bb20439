"""Checked tree to IR: the last step of the front end, and its two entry points.

`compile_text` and `compile_file` run all phases (text, names, checks, lowering, folding) and
raise a CompileError with all findings of the first phase that found any.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sqc import ir, irfile
from sqc.check.program import check
from sqc.diagnostics import Source
from sqc.inputs import InputError
from sqc.lowering.declarations import Declarations
from sqc.passes.fold import fold
from sqc.syntax.files import check_text, read_source


def compile_text(
    text: str,
    file: str = "<program>",
    directory: Path | None = None,
    *,
    workload: Path | None = None,
    defs: Mapping[str, str] | None = None,
) -> ir.Program:
    """A program's text to IR.

    `directory` is where its `use` files are looked for, `workload` the file of its workload if
    that has one of its own, `defs` replaces the bodies of expression definitions.
    """
    check_text(text, file)
    source = Source(file, text)
    scope = check(source, directory or Path(), workload, defs)
    program: ir.Program = fold(Declarations(scope, source).program())
    return program


def compile_file(
    path: str | Path, *, workload: Path | None = None, defs: Mapping[str, str] | None = None
) -> ir.Program:
    """A program's file to IR; a `.json` file is the IR of a program itself, and takes nothing else."""
    path = Path(path)
    if path.suffix == ".json":
        if workload is not None or defs:
            raise InputError(f"{path}: an IR has its workload and definitions; give the program's text")
        return irfile.read(path)
    source = read_source(path, str(path))
    return compile_text(source.text, source.file, path.parent, workload=workload, defs=defs)

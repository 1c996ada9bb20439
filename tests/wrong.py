"""Programs with something wrong in them: the text around the part that a test is about, and what is found."""

from __future__ import annotations

import pytest

from sqc.diagnostics import CompileError, Diagnostic
from sqc.lower import compile_text

WORKLOAD = "workload { arrive poisson(1); turn { set w = ~exp(1); } }"
SERVER = "server { run s (cost(s, w)); }"


def program(items: str = "", server: str = "run s (cost(s, w));", workload: str = WORKLOAD, top: str = "") -> str:
    """A program around some part of it, on lines of its own."""
    return f"{top}\nfn main() {{\n{items}\nstage s : fifo;\n{workload}\nserver {{\n{server}\n}}\n}}\n"


def findings(text: str) -> tuple[Diagnostic, ...]:
    """What a text that does not compile is told."""
    with pytest.raises(CompileError) as caught:
        compile_text(text, "prog.sq")
    return caught.value.diagnostics


def outcome(text: str) -> list[str]:
    """The codes of a program's findings; none where it compiles."""
    try:
        compile_text(text, "prog.sq")
    except CompileError as error:
        return [d.code for d in error.diagnostics]
    return []

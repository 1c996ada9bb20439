"""Traces: what is wrong in a CSV file is told with its line and column."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqc.diagnostics import CompileError, Diagnostic
from sqc.lower import compile_file
from wrong import program

HEADER = "session,turn,new,out,think\n"


def traced(path: Path, data: str | bytes, name: str = "t.csv") -> list[Diagnostic]:
    """The findings of a program that replays a trace with this content."""
    (path / "t.csv").write_bytes(data.encode() if isinstance(data, str) else data)
    workload = f'workload {{ arrive poisson(1); trace "{name}"; }}'
    (path / "prog.sq").write_text(program(server="run s (cost(s, new));", workload=workload))
    try:
        compile_file(path / "prog.sq")
    except CompileError as error:
        return list(error.diagnostics)
    return []


@pytest.mark.parametrize(
    ("data", "line", "under", "message"),
    [
        ("1,1,2,3\n", 2, "1,1,2,3", "5 or 6 fields, found 4"),
        ("1,1,2,3,4,5,6\n", 2, "1,1,2,3,4,5,6", "5 or 6 fields, found 7"),
        ("1,1,2,3,4\n\n# no\n1,1,x,3,4\n", 5, "x", "`x` in the column new"),
        ("1,1,2, 3,4\n", 2, " 3", "`" + " 3` in the column out"),
        ("1,1,2,3,4,\n", 2, "", "the column forced is empty"),
        ("a,1,2,3,4\n", 2, "a", "`a` in the column session"),
        ("1,1,2,3,nan\n", 2, "nan", "`nan` in the column think"),
        ("1,1,2,1e999,4\r\n", 2, "1e999", "out of range"),
    ],
)
def test_rows_of_a_trace(data: str, line: int, under: str, message: str, tmp_path: Path) -> None:
    (found,) = traced(tmp_path, HEADER + data)
    assert (found.code, Path(found.file).name) == ("E110", "t.csv")
    assert message in found.message
    assert found.help
    assert found.span is not None
    assert found.span.line == line
    assert found.source_line[found.span.col - 1 : found.span.end_col - 1] == under


def test_traces_that_are_none(tmp_path: Path) -> None:
    cases: list[tuple[bytes, str, str]] = [
        (HEADER.encode(), "t.csv", "E110"),
        (b"1,1,2,3,\xff\n", "t.csv", "E107"),
        (b"", "missing.csv", "E108"),
        (b"", ".", "E108"),
    ]
    for data, name, code in cases:
        (found,) = traced(tmp_path, data, name)
        assert (found.code, Path(found.file).name) == (code, "prog.sq")


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no /dev/zero here")
def test_a_trace_without_an_end(tmp_path: Path) -> None:
    (found,) = traced(tmp_path, "", "/dev/zero")
    assert (found.code, found.message) == ("E106", "the trace is larger than 200 MB")


def test_all_wrong_rows_at_once(tmp_path: Path) -> None:
    found = traced(tmp_path, "1,1,x,3,4\n1,1,1,1,1\n1,1\n")
    assert [d.span.line for d in found if d.span] == [1, 3]
    assert len(traced(tmp_path, "nonsense\n" * 1000)) == 20

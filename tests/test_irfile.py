"""Programs come back from their IR files as they were; a changed file is a diagnostic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sqc
from harness import CORPUS
from sqc import ir
from sqc.diagnostics import CompileError
from sqc.lower import compile_file

EXECUTED = sorted(path for start in ("04-", *"abcdegh") for path in CORPUS.glob(f"{start}*.sq"))


@pytest.mark.parametrize("path", EXECUTED, ids=lambda path: path.stem)
def test_ir_of_the_corpus(path: Path, tmp_path: Path) -> None:
    written = compile_file(path)
    (tmp_path / "program.json").write_text(ir.to_json(written), encoding="utf-8")
    assert sqc.compile(tmp_path / "program.json").ir == written


def replaced(node: Any, kind: str, field: str, value: Any) -> bool:
    """Change a field of the first node of a kind; whether there is one."""
    if isinstance(node, list):
        return any(replaced(item, kind, field, value) for item in node)
    if not isinstance(node, dict):
        return False
    if node.get("node") == kind:
        node[field] = value
        return True
    return any(replaced(item, kind, field, value) for item in node.values())


@pytest.mark.parametrize(
    ("program", "kind", "field", "value", "message"),
    [
        ("d01_cache_lru", "Binary", "op", "**", "no operator '**'"),
        ("d01_cache_lru", "Draw", "dist", "exp", "'exp' with 2 arguments"),
        ("d01_cache_lru", "Attr", "name", "nothing", "Attr of 'nothing'"),
        ("d01_cache_lru", "Input", "name", "nothing", "Input of 'nothing'"),
        ("d01_cache_lru", "Observe", "name", "nothing", "Observe of 'nothing'"),
        ("d01_cache_lru", "Ref", "name", "nothing", "Ref of 'nothing'"),
        ("d01_cache_lru", "Ref", "index", {"node": "Const", "value": 0.0}, "'tool' with an index"),
        ("e01_choose", "Ref", "index", None, "'rep' without an index"),
        ("e01_choose", "Read", "kind", "nothing", "no kind 'nothing'"),
        ("e04_gauges", "Total", "observe", "nothing", "Total of 'nothing'"),
        ("c03_queue_aging", "Context", "name", "nothing", "Context of 'nothing'"),
        ("c03_queue_aging", "Hold", "parts", 3, "is no list"),
        ("c03_queue_aging", "Hold", "body", [{"node": "Const", "value": 1.0}], "is Const, not"),
        ("g01_trace_ordered", "Trace", "starts", [0, 2, 1], "not its rows in order"),
        ("g01_trace_ordered", "Trace", "rows", [[1.0, 2.0, 3.0]], "has 3 elements, not 4"),
        ("f15_iteration_body", "Context", "name", "other", "Context of 'other'"),
        ("f15_iteration_body", "StepSet", "name", "other", "no register of 'e'"),
        ("f15_iteration_body", "Step", "registers", [["just"]], "has 1 elements, not 2"),
        ("f15_iteration_body", "Step", "body", [{"node": "Const", "value": 1.0}], "is Const, not"),
        ("f04_vllm_like", "Step", "memory", {"node": "Ref", "name": "e", "index": None}, "no pool"),
        ("f03_admit_via", "Run", "mode", "", "with the mode ''"),
        ("f04_vllm_like", "Run", "growing", {"node": "Ref", "name": "e", "index": None}, "growing 'e'"),
        ("f03_admit_via", "Pool", "admit_via", {"node": "Ref", "name": "reqs", "index": None}, "no step stage"),
        ("f08_serve_only", "Claim", "kind", "at_end", "of the kind 'at_end'"),
        ("f08_serve_only", "Claim", "stage", {"node": "Ref", "name": "reqs", "index": None}, "no step stage"),
        ("i04_station_engine", "Read", "ref", {"node": "Ref", "name": "E", "index": None}, "'E' without an index"),
        ("a01_fifo_mm1", "Run", "mode", "decode", "with the mode 'decode'"),
    ],
)
def test_a_changed_file(program: str, kind: str, field: str, value: Any, message: str, tmp_path: Path) -> None:
    written = CORPUS / f"{program}.sq"
    document = json.loads(ir.to_json(compile_file(written)))
    assert replaced(document, kind, field, value)
    path = tmp_path / "program.json"
    path.write_text(json.dumps(document))
    with pytest.raises(CompileError) as caught:
        compile_file(path)
    (found,) = caught.value.diagnostics
    assert found.code == "E109"
    assert message in found.message

"""Programs come back from their IR files as they were."""

from __future__ import annotations

from pathlib import Path

import pytest

import sqc
from harness import CORPUS
from sqc import ir

EXECUTED = sorted(path for pattern in ("a*", "b*", "c04*", "d01*", "04*") for path in CORPUS.glob(f"{pattern}.sq"))


@pytest.mark.parametrize("path", EXECUTED, ids=lambda path: path.stem)
def test_ir_of_the_corpus(path: Path, tmp_path: Path) -> None:
    written = sqc.compile(path)
    (tmp_path / "program.json").write_text(ir.to_json(written.ir), encoding="utf-8")
    assert sqc.compile(tmp_path / "program.json").ir == written.ir

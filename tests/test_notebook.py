"""The notebook shows what it prints when it is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from documents import DOCS

NOTEBOOK = DOCS / "notebooks" / "sweep.ipynb"


def outputs(notebook: Any) -> list[tuple[str, dict[str, str]]]:
    """Each output by kind of content, with the code it belongs to; of pictures that there is one."""
    found = []
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            content = output.get("data") or {output.get("name"): output.get("text")}
            found.append((cell.source, {kind: "" if "image" in kind else text for kind, text in content.items()}))
    return found


def test_the_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    read: Any = nbformat.read  # it has no types
    stored, fresh = (read(NOTEBOOK, as_version=4) for _ in range(2))
    client = NotebookClient(fresh, timeout=60, kernel_name="python3", resources={"metadata": {"path": NOTEBOOK.parent}})
    client.execute()
    assert outputs(stored) == outputs(fresh)
    kinds = [set(content) for _, content in outputs(stored)]
    assert kinds.count({"text/plain", "text/html"}) == 2
    assert kinds.count({"text/plain", "image/png"}) == 1

"""What a page of the documentation shows: its fenced blocks, and what is run with its output."""

from __future__ import annotations

import re
from pathlib import Path

from harness import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of each fenced block, in order."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def shown(page: Path) -> list[tuple[str, str, str]]:
    """Language (`bash`, `python`) and text of each block that is run, with the output that the next block shows."""
    found = blocks(page)
    pairs = []
    for (language, text), (after, output) in zip(found, [*found[1:], ("", "")], strict=False):
        if language != "text":
            assert after == "text", f"{page.name}: no output of {text}"
            pairs.append((language, text, output))
    return pairs

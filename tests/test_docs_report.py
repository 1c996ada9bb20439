"""The reference of the report: all that a run says is described there, by the names that the code gives it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

import sqc
from documents import DOCS, blocks
from sqc.report import text

PAGE = (DOCS / "reference/report.md").read_text(encoding="utf-8")
SHOWN = set(re.findall(r"`([^`\n]+)`", PAGE))

# Every kind of row: observations, a gauge, claims of both kinds, stages with and without steps, arrays, two pools.
PROGRAM = """fn main() {
  pool reqs { cap 5; admit via e; }
  pool mem[2] { cap 10; }
  stage e : step { budget 16; cost 0.03 + 4e-3 * tokens; }
  stage s[2] : fifo;
  gauge backlog = queued(reqs);
  workload { arrive batch(20); turn { set n = ceil(~uniform(5, 30)); } }
  server {
    hold mem[1] (cost(mem, 1)) { run s[0] (cost(s, 1)); }
    hold reqs (cost(reqs, 1)) { prefill n; decode 5; }
    observe done = now;
  }
  claim busy : every iteration of e (tokens >= 0);
  claim quick : at end (largest(done) < 1000);
}"""

CAPITALS = {"observe": "X", "client": "ROW", "gauge": "G", "claim": "A", "stage": "S", "pool": "P"}


@pytest.fixture(scope="module")
def program() -> sqc.Program:
    return sqc.compile(source=PROGRAM)


def test_every_metric(program: sqc.Program) -> None:
    families = {
        re.sub(r"^(\w+)\..*\.", lambda kind: f"{kind[1]}.{CAPITALS[kind[1]]}.", name): name
        for name in program.kernel().metrics
    }
    assert {kind.partition(".")[0] for kind in families} >= set(CAPITALS)
    assert {family: name for family, name in families.items() if family not in SHOWN} == {}


def test_every_key_of_the_json(program: sqc.Program) -> None:
    found = program.run(seed=1, horizon=1000).json()
    names = {"observes", "client", "gauges", "inputs"}  # whose keys are names of a program, or of rows

    def keys(value: Any, named: bool = False) -> Iterator[str]:
        for key, inner in value.items() if isinstance(value, dict) else ():
            yield from () if named else (key,)
            yield from keys(inner, key in names)
        for inner in value if isinstance(value, list) else ():
            yield from keys(inner)

    words = {word for shown in SHOWN for word in re.findall(r"\w+", shown)}
    assert len(set(keys(found))) > 60
    assert set(keys(found)) - words == set()
    assert set(found["client"]) - words == set()


def test_every_column_of_the_text() -> None:
    headers = (text.GAUGE_HEADER, text.CLAIM_HEADER, text.STAGE_HEADER, text.STEP_HEADER, text.POOL_HEADER)
    columns = {column for header in headers for column in header[1:]} | {"count", "mean", "95% CI", "cv2", "p99"}
    assert columns - SHOWN == set()


def test_the_page_describes_nothing_else(program: sqc.Program) -> None:
    """A metric on the page is one that a kernel has."""
    metrics = set(program.kernel().metrics)
    some = {"X": "done", "ROW": "response", "G": "backlog", "A": "busy", "S": "e", "P": "reqs"}
    outside = re.sub(r"^```.*?^```$", "", PAGE, flags=re.DOTALL | re.MULTILINE)
    named = re.findall(r"`((?:observe|client|gauge|claim|stage|pool)\.([A-Z]+)\.(?!csv)\w+)`", outside)
    assert len(named) >= 50
    assert {name for name, letter in named if name.replace(f".{letter}.", f".{some[letter]}.") not in metrics} == set()
    assert blocks(DOCS / "reference/report.md")

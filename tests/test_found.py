"""Programs that the random search found once: each must agree with what the reference said of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import found
import reference
from agreement import replay_differences
from generating import Case
from harness import CORPUS, corpus_text

FILES = sorted((CORPUS / "found").glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_recorded(path: Path) -> None:
    source = path.with_suffix(".sq").read_text(encoding="utf-8")
    document = json.loads(path.read_text(encoding="utf-8"))
    files = tuple((name, (path.parent / name).read_text(encoding="utf-8")) for name in document.get("files", ()))
    wrong = [line for run in document["runs"] for line in replay_differences(source, run, files)]
    assert not wrong, "\n".join(wrong[:40])


@pytest.mark.reference
@pytest.mark.skipif(not reference.AVAILABLE, reason=reference.WHY_NOT)
def test_what_is_saved_can_be_replayed(tmp_path: Path) -> None:
    """A saved program holds its runs in full: with one number changed, the replay says which."""
    case = Case(corpus_text("e04_gauges"), 30.0, 2.0, None, (5,))
    text = found.save(case, tmp_path)
    (run,) = json.loads(text.with_suffix(".json").read_text(encoding="utf-8"))["runs"]
    assert text.read_text(encoding="utf-8") == case.source
    assert replay_differences(case.source, run) == []
    run["samples"]["resp"]["value"][3] += 1e-6
    run["gauge_points"]["u"]["time"][2] += 1e-6
    run["report"]["pools"][0]["admissions"] += 1
    lines = replay_differences(case.source, run)
    assert [line.partition(": ")[2].partition(":")[0] for line in lines] == ["pool.mem.admissions", "resp[3]", "u[2]"]


@pytest.mark.reference
@pytest.mark.skipif(not reference.AVAILABLE, reason=reference.WHY_NOT)
def test_a_refusal_is_saved(tmp_path: Path) -> None:
    """A run names a member outside its array: the reference ends the run, and so must ours."""
    machine = "stage s[2] : fifo; workload { arrive batch(1); turn { set k = 2; } }"
    source = f"fn main() {{ {machine} server {{ run s[k] (cost(s, 1)); }} }}"
    text = found.save(Case(source, 10.0, 0.0, None, (1,)), tmp_path)
    (run,) = json.loads(text.with_suffix(".json").read_text(encoding="utf-8"))["runs"]
    assert "array of 2" in run["refused"]
    assert replay_differences(source, run) == []
    assert replay_differences(source.replace("set k = 2", "set k = 1"), run) != []

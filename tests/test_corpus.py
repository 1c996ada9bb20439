"""The reference corpus: every measured run of the programs whose constructs are executed.

Expected values are the reference's own (`corpus/NAME.json`, see `corpus/README.md`): counters
equal, every statistic to 1e-9 relative, and the first samples after the warm-up in order.
One test is one program, so that a program compiles once: seeds and inputs are run-time values.
"""

from __future__ import annotations

import itertools

import pytest

from compare import differences, sample_differences
from harness import CORPUS, corpus_runs, corpus_text, run

EXECUTED = sorted(path.stem for pattern in ("a*", "b*", "c04*", "d01*") for path in CORPUS.glob(f"{pattern}.json"))


def test_the_list_is_complete() -> None:
    """10 programs a, 5 programs b, c04 and d01: 17. Guards against a pattern that matches nothing."""
    assert len(EXECUTED) == 17


@pytest.mark.parametrize("name", EXECUTED)
def test_runs(name: str) -> None:
    wrong: list[str] = []
    for measured in corpus_runs(name):
        setting = {key: measured[key] for key in ("seed", "horizon", "warmup", "arrivals", "sets")}
        ours = run(corpus_text(name), **setting)
        label = f"seed {setting['seed']} {setting['sets']}"
        wrong += [f"{label} {line}" for line in differences(measured["report"], ours.report)]
        for observe, kept in measured.get("samples", {}).items():
            expected = list(zip(kept["time"], kept["session"], kept["turn"], kept["value"], strict=True))
            first = itertools.islice(ours.samples[observe], len(expected))
            wrong += [f"{label} {line}" for line in sample_differences(observe, expected, first)]
    assert not wrong, "\n".join(wrong[:40])

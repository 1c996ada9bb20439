"""The reference corpus: every measured run of every program.

Expected values are the reference's own (`corpus/NAME.json`, see `corpus/README.md`): counters
equal, every statistic to 1e-9 relative, the first samples after the warm-up and the first changes
of the gauges in order. All runs of a program share its kernel: seeds and inputs are run-time values.
"""

from __future__ import annotations

from typing import Any

import pytest

from agreement import recorded_differences
from compare import metric_differences
from harness import CORPUS, corpus_program, corpus_runs, run_of
from sqc.textform import plain

PROGRAMS = sorted(path.stem for path in CORPUS.glob("[a-i][0-9][0-9]_*.sq"))
RUNS = [(name, number) for name in PROGRAMS for number in range(len(corpus_runs(name)))]

#: What a report has and the lanes of a sweep have not (they keep histograms instead of samples), or
#: have under another name.
NOT_MEASURED = frozenset(
    {
        *("horizon", "warmup", "seed", "ci", "p99"),
        *("kind", "result", "checked", "failures", "first", "over_cap", "queue", "need"),
        *("prefill_only", "decode_only", "mixed", "mean_decodes", "mean_decode_batch", "mean_decode_step"),
        *("mean_itl", "itl_p50", "itl_p99", "idle_with_work"),
    }
)


def setting(measured: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a run."""
    return {key: measured[key] for key in ("seed", "horizon", "warmup", "arrivals", "sets")}


def test_the_lists_are_complete() -> None:
    """10 a, 5 b, 15 c, 9 d, 4 e, 16 f, 2 g, 3 h, 5 i, with three seeds each and other inputs for some."""
    assert len(PROGRAMS) == 69
    assert len(RUNS) >= 3 * 69


@pytest.mark.parametrize(("name", "number"), RUNS)
def test_run(name: str, number: int) -> None:
    measured = corpus_runs(name)[number]
    ours = run_of(corpus_program(name), **setting(measured))
    wrong = recorded_differences(measured, ours)
    assert not wrong, "\n".join(wrong[:40])


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_lane_of_a_sweep_is_the_same_run(name: str) -> None:
    """The last measured run of each program (where it has inputs, they are not the defaults)."""
    measured = corpus_runs(name)[-1]
    arguments = setting(measured)
    table = corpus_program(name).sweep([arguments.pop("seed")], **arguments)
    assert not table.failures
    lane = {metric: plain(float(values[0, 0])) for metric, values in table.lanes.items()}
    wrong = metric_differences(measured["report"], lane, NOT_MEASURED)
    assert not wrong, "\n".join(wrong[:40])

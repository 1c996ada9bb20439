"""The founding program against its document: the printed report and the capacity table, digit for digit.

Two kinds of expected values. `published`: what the document prints, compared at the number of
digits it prints. `measured`: full-precision reports of pyserq 0.1.5, compared to 1e-9. The latter
were taken from the program with `cached >= K - 1e-6`: pyserq 0.1.5 keeps the size of a cache entry
with an error of one unit in the last place in rare cases (4 of the 35 046 warm turns at
C = 2e5), and `cached >= K` then reads 0 on a full prefix. Entries here are exact, so the program as
written must agree with those reports.
"""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

from compare import differences
from harness import CORPUS, FOUNDING, compiled, run
from reference import ReferenceRun

HORIZON, WARMUP = 20_000, 2_000
TABLE: dict[str, Any] = json.loads((CORPUS / "seed_table.json").read_text(encoding="utf-8"))
CAPACITIES: list[dict[str, Any]] = TABLE["published"]["capacity_table"]
MEASURED: list[dict[str, Any]] = [
    *TABLE["measured_pyserq_0_1_5"]["with_tolerance"]["runs"],
    *TABLE["measured_pyserq_0_1_5"]["other_seeds_with_tolerance"],
]


@functools.cache
def founding(capacity: float, seed: int = 1) -> ReferenceRun:
    text = FOUNDING.read_text(encoding="utf-8")
    return run(text, horizon=HORIZON, warmup=WARMUP, seed=seed, sets={"C": capacity})


def test_report_text() -> None:
    """The whole printed report, character for character (the default capacity is 2e5)."""
    report = compiled(FOUNDING.read_text(encoding="utf-8")).run(seed=1, horizon=HORIZON, warmup=WARMUP)
    expected = (CORPUS / "founding_report.txt").read_text(encoding="utf-8")
    assert str(report).rstrip("\n") == expected.rstrip("\n")


def test_event_count() -> None:
    """97969 events = 9905 arrivals + 48984 engine jobs + 39079 tool jobs + 1 end of warm-up.

    The report counts finished jobs after the warm-up only, so the whole-run figures come from a run
    without one: it has the same jobs and one event fewer.
    """
    report = run(FOUNDING.read_text(encoding="utf-8"), horizon=HORIZON, seed=1).report
    finished = [stage["completed"] for stage in report["stages"]]
    assert (report["arrivals"], finished, report["events"]) == (9905, [48984, 39079], 97968)


@pytest.mark.parametrize("row", CAPACITIES, ids=lambda row: f"C={row['cap']}")
def test_capacity_table(row: dict[str, Any]) -> None:
    """Hit rate to 3 decimals, response to 4, evicted entries and rejections as counted."""
    report = founding(row["cap"]).report
    pool = report["pools"][0]
    printed = (
        f"{report['observes']['hit']['mean']:.3f}",
        f"{report['client']['response']['mean']:.4f}",
        pool["evicted_entries"],
        pool["rejected"],
    )
    assert printed == (f"{row['hit_rate']:.3f}", f"{row['response_s']:.4f}", row["entries_evicted"], row["rejected"])


@pytest.mark.parametrize("measured", MEASURED, ids=lambda row: f"C={row['cap']}-seed{row['seed']}")
def test_full_precision(measured: dict[str, Any]) -> None:
    """Every statistic of 13 measured reports: seven capacities, and three of them with seeds 2 and 3."""
    wrong = differences(measured["report"], founding(measured["cap"], measured["seed"]).report)
    assert not wrong, "\n".join(wrong)


def test_nothing_is_evicted_by_a_large_pool() -> None:
    """With C = 2e5 the hit observation is 1 in every one of the 35 046 samples, not merely on average."""
    values = [value for *_, value in founding(200_000).samples["hit"]]
    assert len(values) == 35_046
    assert set(values) == {1.0}

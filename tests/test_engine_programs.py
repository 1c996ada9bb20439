"""The programs with engines: published figures, exactly or as far as seeds vary; what must hold where there are none.

Chapter 6 was measured with the reference on the present random streams: its rows are compared digit for digit.
Other published figures come from single runs on other random streams: each must lie where one more run of ours would,
given the runs of `SEEDS` seeds. The intervals of this file together miss a run of the very same model with
probability at most `FALSE_ALARM`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import reference
from harness import ROOT, lanes, run
from spellings import meaning

FALSE_ALARM = 1e-2
#: The intervals of this file: twelve figures of the vLLM-like engine, two capacities.
INTERVALS = 12 + 2
SEEDS = 24
CRITICAL = float(stats.t.isf(FALSE_ALARM / INTERVALS / 2, SEEDS - 1))  # 3.93


def text(name: str) -> str:
    return (ROOT / "programs" / name).read_text(encoding="utf-8")


# --------------------------------------------------------------------------- chapter 6


@dataclass(frozen=True)
class Cliff:
    """A row of chapter 6: arrival rate and blocks, then what the run gives."""

    rate: float
    blocks: float
    hit: str
    first_token: str
    preemptions: int
    stuck: int
    utilization: str
    events: int


CLIFF = (
    Cliff(1.5, 4_000, "0.479", "0.149", 8_609, 156, "0.597", 17_845_639),
    Cliff(1.7, 4_000, "0.418", "0.426", 26_608, 447, "0.728", 15_552_296),
    Cliff(1.8, 4_000, "0.399", "1.360", 50_138, 796, "0.817", 12_597_316),
    Cliff(1.9, 4_000, "0.389", "5.041", 81_714, 1_307, "0.908", 8_714_217),
    Cliff(2.0, 4_000, "0.385", "19.084", 111_991, 1_770, "0.975", 5_114_796),
    Cliff(2.0, 40_000, "0.800", "0.020", 0, 0, "0.470", 29_344_284),
    Cliff(3.0, 40_000, "0.800", "0.023", 0, 0, "0.633", 36_813_043),
)


@pytest.mark.parametrize("row", CLIFF, ids=lambda row: f"{row.rate}-{row.blocks}")
def test_the_cliff(row: Cliff) -> None:
    """Requests preempt each other and start over; with ten times the memory none does."""
    sets = {"rate": row.rate, "blocks": row.blocks}
    report = run(text("06-cliff.sq"), horizon=20_000, warmup=2_000, sets=sets).report
    kv, observed = report["pools"][0], report["observes"]
    assert [report["events"], kv["preemptions"], kv["stuck"]] == [row.events, row.preemptions, row.stuck]
    assert [f"{observed[name]['mean']:.3f}" for name in ("hit", "first_token")] == [row.hit, row.first_token]
    assert f"{report['stages'][0]['utilization']:.3f}" == row.utilization


# --------------------------------------------------------------------------- figures of single runs


def assess(what: str, published: float, values: NDArray[np.float64], digit: float) -> None:
    """Whether one more run beside these could be printed as the published figure, in units of its last digit."""
    assert len(values) == SEEDS
    mean, spread = float(values.mean()), float(values.std(ddof=1))
    reach = CRITICAL * spread * math.sqrt(1 + 1 / SEEDS) + digit / 2
    assert abs(published - mean) <= reach, f"{what}: published {published}, ours {mean:.6g} with {reach:.2g} either way"


#: Metric, its unit in the table, the last digit printed there.
COLUMNS = (
    ("turns", 1 / 1_800, 0.01),
    ("observe.hit.mean", 1, 0.01),
    ("observe.read.mean", 1, 1),
    ("client.ttft.mean", 1e3, 1),
    ("client.response.mean", 1e3, 1),
    ("stage.e.utilization", 1, 0.01),
)


@pytest.mark.statistics
@pytest.mark.parametrize(
    ("sets", "published"),
    [({}, (3.07, 0.89, 770, 18, 65, 0.17)), ({"rate": 3.0, "p": 0.0}, (2.98, 0.00, 1_994, 43, 94, 0.22))],
    ids=["turns", "single turns"],
)
def test_vllm(sets: dict[str, float], published: tuple[float, ...]) -> None:
    """1 800 s after 200 s of warm-up: requests per second, hits, prompt tokens read, first token, response, busy."""
    metrics = lanes(text("vllm.sq"), SEEDS, horizon=2_000, warmup=200, sets=sets)
    for (metric, unit, digit), figure in zip(COLUMNS, published, strict=True):
        assess(metric, figure, metrics[metric] * unit, digit)


@pytest.mark.statistics
def test_tandem() -> None:
    """The capacities: 32 / (1 + 1 + 0.5) together, min(11 * 2, 1000, 21) apart."""
    for apart, stage, capacity in ((0.0, "all", 12.8), (1.0, "decodes", 21.0)):
        metrics = lanes(text("tandem.sq"), SEEDS, horizon=500, warmup=50, sets={"apart": apart})
        values = metrics[f"stage.{stage}.throughput"]
        reach = CRITICAL * float(values.std(ddof=1)) / math.sqrt(SEEDS)
        assert abs(float(values.mean()) - capacity) <= reach
        assert reach <= 0.015 * capacity  # what it would see


# --------------------------------------------------------------------------- what must hold


@pytest.mark.reference
@pytest.mark.skipif(not reference.AVAILABLE, reason=reference.WHY_NOT)
def test_the_benchmark_times_one_program() -> None:
    """What the reference is given instead of vllm.sq is the same program, and it finds the same run."""
    theirs = (ROOT / "benchmarks" / "vllm.sq").read_text(encoding="utf-8")
    assert meaning(theirs, ROOT) == meaning(text("vllm.sq"), ROOT)
    sets = {"weights": 0.01, "slots": 256.0, "blocks": 20_000.0, "rate": 4.0}
    report = reference.run(theirs, horizon=20, warmup=2, sets=sets).report
    metrics = lanes(text("vllm.sq"), 1, horizon=20, warmup=2, sets=sets)
    assert [metrics[name][0] for name in ("events", "turns", "stage.e.iterations", "pool.kv.preemptions")] == [
        *(report["events"], report["turns"], report["stages"][0]["iterations"], report["pools"][0]["preemptions"])
    ]
    for name in ("ttft", "tpot", "response"):
        assert metrics[f"client.{name}.mean"][0] == pytest.approx(report["client"][name]["mean"], rel=1e-9)


def sglang(**sets: float) -> dict[str, Any]:
    return run(text("sglang.sq"), horizon=500, warmup=50, sets=sets).report


def test_sglang() -> None:
    """Prompts and decodes never share an iteration; a guess that is never too low preempts nobody, and they wait."""
    low, high = sglang(least=0.0), sglang(least=1.0)
    for report in (low, high):
        engine = report["stages"][0]
        assert engine["mixed"] == 0
        assert engine["prefill_only"] + engine["decode_only"] == pytest.approx(engine["utilization"])
    preempted, spared = low["pools"][0], high["pools"][0]
    assert preempted["preemptions"] > 0
    assert spared["preemptions"] == 0
    assert spared["mean_queue"] > 2 * preempted["mean_queue"]


def test_vllm_recomputes_what_was_preempted() -> None:
    """Little memory: requests start over, and all of them still come to their end."""
    sets = {"rate": 4.0, "p": 0.5}
    ample, tight = (
        lanes(text("vllm.sq"), 1, horizon=300, arrivals=300, sets={**sets, "blocks": blocks})
        for blocks in (10_000.0, 600.0)
    )
    assert tight["pool.kv.preemptions"] > 5
    assert ample["pool.kv.preemptions"] == 0
    assert ample["turns"] == tight["turns"]
    assert tight["client.response.mean"] > ample["client.response.mean"]


def test_disaggregated() -> None:
    """What the threshold decides, and that small memories of the decode engines keep leases waiting."""

    def report(**sets: float) -> dict[str, Any]:
        return run(text("disaggregated.sq"), horizon=300, warmup=30, sets=sets).report

    everything, some, few, nothing = (report(threshold=value) for value in (0.0, 512.0, 2_048.0, math.inf))
    shares = [r["observes"]["remote"]["mean"] for r in (everything, some, few, nothing)]
    assert shares[0] == 1
    assert shares[3] == 0
    assert 1 > shares[1] > shares[2] > 0
    assert nothing["observes"]["lease"]["count"] == 0
    tight = report(threshold=0.0, memory=17_600.0)
    assert tight["observes"]["lease"]["mean"] > 3 * everything["observes"]["lease"]["mean"]
    assert tight["client"]["response"]["mean"] > 1.1 * everything["client"]["response"]["mean"]


def test_replica() -> None:
    """With ample memory every turn after the first finds its context; with 6e5 tokens some do not, and wait longer."""
    ample, limited = (
        run(text("replica.sq"), horizon=4_000, warmup=400, sets={"memory": memory}).report for memory in (1e12, 6e5)
    )
    assert ample["observes"]["hit"]["mean"] == 1
    assert ample["pools"][0]["evicted_entries"] == 0
    assert 0.5 < limited["observes"]["hit"]["mean"] < 0.99
    assert limited["client"]["ttft"]["mean"] > ample["client"]["ttft"]["mean"]
    for report in (ample, limited):
        _, batch, conversations = report["pools"]
        assert batch["mean_used"] <= 8
        assert conversations["mean_used"] <= 24

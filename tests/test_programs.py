"""The tutorial programs: the figures that a run of each gives, and agreement with the reference.

Those with engines from chapter 6 on are in test_engine_programs.py.

The expected figures were measured with pyserq 0.1.5, seed 1, at the settings stated; they are
compared at the number of digits written here.
"""

from __future__ import annotations

from typing import Any

import pytest

import reference
from compare import differences
from harness import FOUNDING, ROOT, run

PROGRAMS = ROOT / "programs"


def text(name: str) -> str:
    return (PROGRAMS / name).read_text(encoding="utf-8")


def test_every_program_is_covered() -> None:
    names = sorted(path.name for path in PROGRAMS.glob("*.sq"))
    chapters = ["01-queue.sq", "02-memory.sq", "03-sessions.sq", "04-cache.sq", "05-engine.sq", "06-cliff.sq"]
    engines = ["disaggregated.sq", "replica.sq", "routing.sq", "sglang.sq", "tandem.sq", "vllm.sq"]
    loops = ["eviction_weights.sq", "size_split.sq"]  # test_worked_programs.py
    histories = ["chats.sq", "checkpoints.sq"]  # test_checkpoints.py
    assert names == chapters + sorted(engines + histories + loops)


@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.sq")), ids=lambda path: path.name)
def test_says_what_it_shows(path: object) -> None:
    """Each program opens with a comment."""
    assert text(str(path).rpartition("/")[2]).startswith("// ")


def test_chapter_4_is_the_founding_program() -> None:
    """Under its comment it is what its document prints, letter for letter."""
    comment, use, rest = text("04-cache.sq").partition('use "std/args";')
    assert all(line.startswith("//") for line in comment.splitlines())
    assert use + rest == FOUNDING.read_text(encoding="utf-8")


QUEUE = {
    # rate: mean response; theory 1 / (1 - rate): 2, 5, 10, 20. One run of this length is within its own
    # (wide) interval of theory; test_closed_forms.py holds the mean over seeds against it.
    0.5: "1.978",
    0.8: "4.823",
    0.9: "8.771",
    0.95: "16.622",
}


@pytest.mark.parametrize(("rate", "response"), QUEUE.items())
def test_queue(rate: float, response: str) -> None:
    report = run(text("01-queue.sq"), horizon=100_000, warmup=5_000, sets={"rate": rate}).report
    assert f"{report['observes']['response']['mean']:.3f}" == response
    assert report["observes"]["response"]["mean"] == report["client"]["response"]["mean"]


def test_queue_at_its_default() -> None:
    """158921 events = 79460 arrivals + 79460 jobs + 1 end of warm-up: the queue is empty at the end."""
    report = run(text("01-queue.sq"), horizon=100_000, warmup=5_000).report
    counts = [report[name] for name in ("events", "arrivals", "ended", "turns")]
    assert counts == [158_921, 79_460, 75_464, 75_462]
    row, stage = report["observes"]["response"], report["stages"][0]
    assert (f"{row['mean']:.4f}", f"{row['ci']:.4f}", f"{row['cv2']:.3f}") == ("4.8235", "0.3537", "0.995")
    assert (f"{row['p99']:.2f}", f"{report['observes']['wait']['mean']:.4f}") == ("22.26", "3.8237")
    assert (f"{stage['mean_number']:.3f}", f"{stage['utilization']:.3f}") == ("3.832", "0.794")


MEMORY = {
    # cap: wait for admission, response, rejected. A request for 5 units never fits 4: a quarter is
    # refused (ceil of a uniform on 1..5 is 5 with probability 1/4): 19 803 of 79 460 = 24.9 %.
    4: ("1.2384", "2.2379", 19_803),
    6: ("1.5808", "2.5805", 0),
    10: ("0.0961", "1.0958", 0),
    20: ("0.0006", "1.0026", 0),
}


@pytest.mark.parametrize(("cap", "expected"), MEMORY.items())
def test_memory(cap: int, expected: tuple[str, str, int]) -> None:
    report = run(text("02-memory.sq"), horizon=100_000, warmup=5_000, sets={"cap": cap}).report
    pool, response = report["pools"][0], report["client"]["response"]
    assert (f"{pool['mean_wait']:.4f}", f"{response['mean']:.4f}", pool["rejected"]) == expected


SESSIONS = {
    # Z: response, mean live sessions
    0.5: ("0.191", "1.44"),
    1: ("0.187", "2.41"),
    3: ("0.178", "6.30"),
    10: ("0.180", "19.99"),
}


@pytest.mark.parametrize(("think", "expected"), SESSIONS.items())
def test_sessions(think: float, expected: tuple[str, str]) -> None:
    report = run(text("03-sessions.sq"), horizon=20_000, warmup=2_000, sets={"Z": think}).report
    assert (f"{report['client']['response']['mean']:.3f}", f"{report['mean_live']:.2f}") == expected


def test_sessions_at_their_default() -> None:
    """The document's figure for this chapter is a response of 0.178 s."""
    report = run(text("03-sessions.sq"), horizon=20_000, warmup=2_000).report
    counts = [report[name] for name in ("events", "arrivals", "ended", "turns")]
    assert counts == [97_969, 9_905, 8_905, 43_952]
    row = report["client"]["response"]
    engine, tool = report["stages"]
    assert (f"{row['mean']:.4f}", f"{row['ci']:.4f}") == ("0.1784", "0.0049")
    assert f"{report['observes']['context']['mean']:.0f}" == "4962"
    assert (f"{engine['mean_number']:.3f}", f"{engine['utilization']:.3f}") == ("0.436", "0.330")
    assert f"{tool['mean_number']:.3f}" == "5.859"


@pytest.mark.reference
@pytest.mark.skipif(not reference.AVAILABLE, reason=reference.WHY_NOT)
@pytest.mark.parametrize("name", ["01-queue.sq", "02-memory.sq", "03-sessions.sq"])
def test_agrees_with_the_reference(name: str) -> None:
    """Chapter 4 is compared in test_reference.py, where the rounding of the reference's entries is dealt with."""
    for seed in (1, 2, 3):
        expected = reference.run(text(name), horizon=2_000, warmup=200, seed=seed)
        wrong = differences(expected.report, run(text(name), horizon=2_000, warmup=200, seed=seed).report)
        assert not wrong, "\n".join(wrong)


def test_routing_policies() -> None:
    """Under the same arrivals: staying with the prefix keeps every hit and waits; weighing work against the prefix
    waits least; every policy agrees with the reference."""
    response = {}
    for policy in range(5):
        setting: dict[str, Any] = {"horizon": 2_000, "warmup": 200, "sets": {"policy": float(policy)}}
        ours = run(text("routing.sq"), **setting)
        response[policy] = ours.report["observes"]["response"]["mean"]
        hits = ours.report["observes"]["hit"]["mean"]
        assert (hits == 1.0) == (policy == 0)
        if reference.AVAILABLE:
            assert not differences(reference.run(text("routing.sq"), **setting).report, ours.report)
    assert response[4] < response[3] * 1.1 < response[2] < response[1]
    assert response[3] < response[0]


def test_engine() -> None:
    """Chapter 5: 9.1 million iterations, as measured with the reference (`examples.md` of the specification)."""
    report = run(text("05-engine.sq"), horizon=20_000, warmup=2_000).report
    engine, kv = report["stages"][0], report["pools"][0]
    counts = [report["events"], engine["iterations"], report["turns"], kv["evicted_entries"], kv["evicted_units"]]
    assert counts == [9_160_272, 9_111_287, 43_948, 198, 1_640_352]
    assert f"{report['observes']['hit']['mean']:.4f}" == "0.7932"
    assert [f"{report['client'][name]['mean']:.4f}" for name in ("ttft", "response")] == ["0.0180", "0.0627"]
    assert [f"{engine[name]:.3f}" for name in ("mean_number", "utilization")] == ["0.151", "0.136"]
    assert [f"{kv[name]:.1f}" for name in ("mean_used", "mean_cached")] == ["723.3", "28911.2"]

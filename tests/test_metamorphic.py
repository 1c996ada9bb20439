"""Relations between runs that hold whatever the right numbers are; ours against ours.

Every comparison here is exact: the two runs do the same arithmetic, up to a power of two.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

import sqc
from compare import flatten
from generating import PROFILES, Case, generate
from harness import run
from reference import ReferenceRun

# --------------------------------------------------------------------------- time scaled by k

# Every time and every work is a multiple of the input `k`; sizes and probabilities are not. What is observed under a
# name with `time` is a time, everything else is not.
HEAD = """
use "std/args";
fn main() {
  let k = args.number("k", 1);
"""
PLAIN = """
  stage one : fifo(2);
  stage two : ps(1.5);
  stage three : delay;
  workload { arrive poisson(0.9 / k); turn { set w = ~exp(k); set v = ~h2(0.5 * k, 4); }
    session { turn; tool (~uniform(0, 3 * k)); turn; } }
  server {
    set t0 = now;
    run one (cost(one, w)); run two (cost(two, v)); observe jobs = queue(two); observe left_time = work(two);
    run three (cost(three, 0.25 * k));
    observe response_time = now - t0;
  }
  gauge line = queue(one);
}
"""
CACHE = """
  pool kv { cap 14; evict by (waiting, age > 5 * k ? 0 : 1, size); queue by (waited > 2 * k ? 0 : 1, n); }
  stage one : fifo;
  workload {
    arrive renewal(~uniform(0.5 * k, 2 * k));
    turn { set n = ceil(~exp(2)); set w = ~exp(0.7 * k); }
    session {
      loop { turn; set K = K + n; branch (K > 9) { end; } branch with (0.7) { tool (~exp(4 * k)); } else { end; } }
    }
  }
  server {
    set t0 = now;
    hold kv (cost(kv, K + n)) {
      observe got = cached; observe wait_time = now - t0; run one (cost(one, w));
    } cache (cost(kv, K + n));
  }
}
"""
MEMORY = """
  pool slot { cap 3; }
  pool mem { cap 9; preempt by (n, -admission) requeue tail; }
  stage one : delay;
  stage two : ps(min(present, 2));
  workload { arrive batch(30); turn { set n = ceil(~uniform(0, 4)); set w = ~exp(k); } }
  server {
    set t0 = now;
    hold slot (cost(slot, 1)) { run one (cost(one, 0.5 * k)); } lease slot (~exp(2 * k));
    hold mem (cost(mem, n)) {
      run two (cost(two, w)); grow mem (cost(mem, 2)); run one (cost(one, 0.5 * w)); observe again = computed;
    } cache (cost(mem, 1));
    observe response_time = now - t0;
  }
}
"""
FLOWS = """
  stage a : ps(2);
  stage b : ps(1.25);
  stage c : ps(0.75);
  share maxmin;
  workload { arrive poisson(0.5 / k); turn { set w = ~exp(k); set v = ~exp(0.5 * k); } }
  server {
    set t0 = now;
    fork { run b, c (cost(b, c, v)); observe leg_time = now - t0; }
    run a, b (cost(a, b, w));
    join;
    observe response_time = now - t0;
  }
}
"""
SCALED = {"plain": PLAIN, "cache": CACHE, "memory": MEMORY, "flows": FLOWS}


@pytest.mark.parametrize("k", [2.0**-3, 2.0, 2.0**10])
@pytest.mark.parametrize("name", list(SCALED))
def test_time_scales(name: str, k: float) -> None:
    """In units of 1/k every time is k times as large, to the last bit; nothing else changes."""
    source = HEAD + SCALED[name]
    for number in (1, 2, 3):
        plain = run(source, horizon=60, warmup=5, seed=number)
        scaled = run(source, horizon=60 * k, warmup=5 * k, seed=number, sets={"k": k})
        assert scaled.report["events"] > 80
        for field in ("events", "arrivals", "ended", "turns", "mean_live"):
            assert scaled.report[field] == plain.report[field], field
        assert list(_rows(scaled, 1.0)) == list(_rows(plain, k))
        for observed, samples in plain.samples.items():
            factor = k if "time" in observed or observed == "client.response" else 1.0
            assert scaled.samples[observed] == [(t * k, s, turn, v * factor) for t, s, turn, v in samples], observed
        for gauge, changes in plain.gauges.items():
            assert scaled.gauges[gauge] == [(t * k, v) for t, v in changes], gauge


def _rows(run: ReferenceRun, k: float) -> Iterator[tuple[str, Any]]:
    """Stage and pool rows, times multiplied by k and rates divided by it."""
    for name, value in flatten(run.report).items():
        if name.startswith(("stage.", "pool.")):
            field = name.rpartition(".")[2]
            power = 1 if field in ("mean_wait", "mean_service") else -1 if field == "throughput" else 0
            yield name, value if value is None or isinstance(value, (str, dict)) else value * k**power


# --------------------------------------------------------------------------- what is not used changes nothing

UNUSED = {
    "pool": ("pool spare { cap 3; block 1; evict by (size); preempt lifo; queue by (waited); }", "pool.spare"),
    "pool array": ("pool spare[2] { cap 3; evict lru; }", "pool.spare"),
    "fifo stage": ("stage spare : fifo;", "stage.spare"),
    "ps stage": ("stage spare[2] : ps(2);", "stage.spare"),
}


@pytest.mark.parametrize(("declaration", "row"), UNUSED.values(), ids=list(UNUSED))
@pytest.mark.parametrize("profile", ["pools", "preempt", "lease", "spill"])
def test_unused_resource(profile: str, declaration: str, row: str) -> None:
    """A pool or stage that no statement names gives a row of zeros, first or last, and changes nothing else."""
    case = generate(Random(f"unused {profile}"), profile)
    opening = "fn main() {\n"
    assert case.source.count(opening) == 1
    last = case.source.rindex("}\n")
    expected = _everything(case, case.source, "")
    first = case.source.replace(opening, f"{opening}  {declaration}\n")
    assert _everything(case, first, row) == expected
    assert _everything(case, f"{case.source[:last]}  {declaration}\n{case.source[last:]}", row) == expected


def _everything(case: Case, source: str, without: str) -> list[Any]:
    """All numbers, samples and gauges of all runs of a case, less the rows of one resource."""
    out: list[Any] = []
    for sets in case.sets:
        for seed in case.seeds:
            times = {"horizon": case.horizon, "warmup": case.warmup, "arrivals": case.arrivals}
            made = run(source, files=case.files, seed=seed, sets=sets, **times)
            rows = flatten(made.report)
            out += [{name: rows[name] for name in sorted(rows) if not without or not name.startswith(without)}]
            out += [made.samples, made.gauges]
    return out


# --------------------------------------------------------------------------- order of declarations


def _without_ps(profile: str, count: int) -> list[Case]:
    """The first generated programs of a profile with two or more stages and none that shares its capacity.

    Those with an arrival limit are left out: their runs may end in an error.
    """
    cases = (generate(Random(f"order {profile} {number}"), profile) for number in range(500))
    fit = (case for case in cases if "ps(" not in case.source and len(_stages(case.source)) > 1)
    return list(itertools.islice((case for case in fit if case.arrivals is None), count))


def _ends_well(case: Case) -> bool:
    """Whether no session is left at a `join` for ever."""
    try:
        _everything(case, case.source, "")
    except sqc.RunError as error:
        if error.failure.code == "R121":
            return False
        raise
    return True


def _stages(source: str) -> list[str]:
    return [line for line in source.split("\n") if line.startswith("  stage ")]


@pytest.mark.parametrize("profile", [name for name in PROFILES if name != "flows"])
def test_order_of_stages(profile: str) -> None:
    """`fifo` and `delay` stages may be declared in any order, even where events tie.

    Declaration order decides in which order `ps` stages schedule their finishes at the end of an instant; the others
    schedule a finish where the job starts.
    """
    case = next(case for case in _without_ps(profile, 4) if _ends_well(case))
    lines = case.source.split("\n")
    places = [place for place, line in enumerate(lines) if line.startswith("  stage ")]
    turned = dict(zip(places, reversed([lines[place] for place in places]), strict=True))
    other = "\n".join(turned.get(place, line) for place, line in enumerate(lines))
    assert other != case.source
    assert _everything(case, other, "") == _everything(case, case.source, "")


def test_order_of_gauges_claims_and_definitions() -> None:
    """What only reads the run may stand in any order."""
    readers = [
        "gauge u = used(mem);",
        "gauge line = queued(mem) + queue(svc);",
        "claim quick : at end (largest(resp) < 5);",
        "claim all : at end (count(resp) > 10);",
    ]
    definitions = ["def half(x) { x / 2 }", "def plus(x) { x + 1 }"]
    body = """
  pool mem { cap 6; }
  stage svc : ps(1);
  workload { arrive batch(20); turn { set w = ~exp(1); set n = ceil(~uniform(0, 4)); } }
  server { set t0 = now; hold mem (cost(mem, n)) { run svc (cost(svc, half(plus(w)))); } observe resp = now - t0; }
"""
    one = "\n".join([*definitions, "fn main() {", *readers, body, "}"])
    two = "\n".join([*reversed(definitions), "fn main() {", body, *reversed(readers), "}"])
    case = Case(one, 60.0, 1.0, None, (1, 2, 3))
    assert _everything(case, one, "") == _everything(case, two, "")


# --------------------------------------------------------------------------- a larger cap

# Five sessions at once, each with one entry of 2 units or a hold of 2: they always fit into 10 units, so no request
# waits, and the works do not depend on what was found. The ended leave their entries behind.
LRU = """
use "std/args";
fn main() {
  let C = args.number("C", 10);
  pool kv { cap C; evict lru; }
  stage svc : delay;
  workload {
    arrive closed(5);
    turn { set w = ~exp(1); }
    session { loop { turn; branch with (0.7) { tool (~exp(3)); } else { end; } } }
  }
  server { hold kv (cost(kv, 2)) { observe hit = cached; run svc (cost(svc, w)); } cache (cost(kv, 2)); }
}
"""
CAPS = (10.0, 11.0, 12.0, 14.0, 16.0, 20.0, 40.0, 400.0)


@pytest.mark.parametrize("number", range(1, 9))
def test_larger_cap_never_evicts_more(number: int) -> None:
    """LRU, entries of one size, no waiting, works and timing independent of what is found.

    Then the requests are the same at every cap, and the entries kept at a smaller cap are the latest of those kept at
    a larger one (the inclusion property of LRU, with a room that changes with time): every entry that the larger cap
    evicts was evicted by the smaller before, and a hit at the smaller is a hit at the larger.

    Outside this class it fails: with waiting, a larger cap admits earlier and changes the order of
    requests; with entries of different sizes, dropping one large entry can save several evictions.
    """
    runs = [run(LRU, horizon=300, seed=number, sets={"C": cap}) for cap in CAPS]
    pools = [one.report["pools"][0] for one in runs]
    assert all(row["mean_queue"] == 0 for row in pools)
    assert len({one.report["events"] for one in runs}) == 1
    evicted = [row["evicted_entries"] for row in pools]
    assert evicted == sorted(evicted, reverse=True)
    assert evicted[0] > 50
    assert evicted[-1] == 0
    hits = [[value for *_, value in one.samples["hit"]] for one in runs]
    for smaller, larger in itertools.pairwise(hits):
        assert all(a <= b for a, b in zip(smaller, larger, strict=True))
    assert sum(hits[0]) < sum(hits[-1])


# --------------------------------------------------------------------------- policies that are another one

SAME = {
    "equal queue keys are first in first out": ("queue fifo;", "queue by (0);"),
    "order of joining": ("queue fifo;", "queue by (-waited);"),
    "no policy is fifo and lru": ("", "queue fifo; evict lru; preempt none;"),
    "least recently used": ("evict lru;", "evict by (last);"),
    "equal eviction keys go by release": ("evict lru;", "evict by (3);"),
    "oldest is longest since its release": ("evict lru;", "evict by (-age);"),
    "equal preemption keys take the last admitted": ("preempt lifo;", "preempt by (7);"),
    "last admitted": ("preempt lifo;", "preempt by (-admission);"),
    "head is where the preempted go": ("preempt by (n);", "preempt by (n) requeue head;"),
}
POLICY = """
fn main() {{
  pool mem {{ cap 9; {} }}
  stage svc : delay;
  stage cpu : ps(2);
  workload {{
    arrive poisson(1);
    turn {{ set n = ceil(~uniform(0, 4)); set w = ~exp(0.6); }}
    session {{ turn; set K = n; tool (~exp(3)); turn; }}
  }}
  server {{
    set t0 = now;
    hold mem (cost(mem, n)) {{
      observe got = cached; observe wait = now - t0;
      run svc (cost(svc, w)); {} run cpu (cost(cpu, 0.5));
    }} cache (cost(mem, n));
  }}
}}
"""


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=list(SAME))
def test_policy_is_another(one: str, other: str) -> None:
    growth = "grow mem (cost(mem, 1));" if "preempt" in one else ""
    case = Case("", 80.0, 5.0, None, (1, 2, 3))
    first = _everything(case, POLICY.format(one, growth), "")
    assert first == _everything(case, POLICY.format(other, growth), "")
    rows = [entry for entry in first if "pool.mem.admissions" in entry]
    happened = "preemptions" if growth else "evicted_entries"
    assert len(rows) == 3
    assert all(row["pool.mem.mean_queue"] > 0 and row[f"pool.mem.{happened}"] > 0 for row in rows)

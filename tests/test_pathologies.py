"""Programs that other simulators' users report as endless or wrong: each ends, and what it refuses is counted.

Every run is also compared with the reference, number by number, where the reference ends at all.
"""

from __future__ import annotations

from typing import Any

import pytest

import reference
import sqc
from agreement import compare
from generating import Case
from harness import run
from reference import ReferenceRun


def both(
    source: str, *, horizon: float, warmup: float = 0.0, seed: int = 1, sets: dict[str, float] | None = None
) -> ReferenceRun:
    """Our run, after it was compared with the reference's where there is one."""
    if reference.AVAILABLE:
        case = Case(source, horizon, warmup, None, (seed,), (sets or {},))
        result = compare(case)
        assert not result.lines, "\n".join(result.lines)
        assert not result.unanswered
    return run(source, horizon=horizon, warmup=warmup, seed=seed, sets=sets)


def fails(source: str, *, horizon: float, sets: dict[str, float] | None = None, compared: bool = True) -> sqc.RunError:
    """How our run fails, after the reference's was seen to fail as well."""
    if compared and reference.AVAILABLE:
        with pytest.raises(reference.Refused) as theirs:
            reference.run(source, horizon=horizon, sets=sets)
        assert not theirs.value.compiling
    with pytest.raises(sqc.RunError) as ours:
        run(source, horizon=horizon, sets=sets)
    return ours.value


def pool(made: ReferenceRun, name: str = "mem") -> dict[str, Any]:
    (row,) = [row for row in made.report["pools"] if row["name"] == name]
    return dict(row)


# --------------------------------------------------------------------------- a pool far too small

SMALL = """
use "std/args";
fn main() {{
  let u = args.number("u", 50);
  pool mem {{ cap 4; }}
  stage svc : fifo;
  workload {{ arrive {}; turn {{ set n = u; }} {} }}
  server {{ hold mem (cost(mem, n{})) {{ run svc (cost(svc, 1)); }} }}
}}
"""


def test_every_request_is_refused() -> None:
    """An arrival each time unit up to 100: 100 sessions, 100 rejections, no service."""
    made = both(SMALL.format("renewal(1)", "", ""), horizon=100)
    assert (made.report["arrivals"], made.report["ended"], pool(made)["rejected"]) == (100, 100, 100)
    assert (pool(made)["admissions"], made.report["mean_live"]) == (0, 0)
    assert made.report["client"]["response"]["count"] == 0


def test_a_demand_that_reads_state_waits_for_ever() -> None:
    """It is never refused: 100 sessions wait at the end, and the report says for what."""
    made = both(SMALL.format("renewal(1)", "", " + 0 * used(mem)"), horizon=100)
    assert (made.report["arrivals"], made.report["ended"], pool(made)["rejected"]) == (100, 0, 0)
    assert pool(made)["over_cap"] == {"queue": "mem", "need": 50}


def test_refused_sessions_are_replaced_while_time_passes() -> None:
    """Each of 3 sessions thinks for 1 before its turn: 3 rejections at each of the times 1 .. 100."""
    made = both(SMALL.format("closed(3)", "session { tool (1); turn; }", ""), horizon=100)
    assert pool(made)["rejected"] == made.report["ended"] == 300
    assert made.report["arrivals"] == 303


def test_refused_sessions_are_replaced_in_no_time() -> None:
    """Every replacement is refused at the instant it comes: no instant settles. The reference does not end here."""
    error = fails(SMALL.format("closed(3)", "", ""), horizon=100, compared=False)
    assert error.failure.time == 0
    assert "settle" in error.failure.message


def test_a_pool_without_room() -> None:
    """Cap 0: holds of 0 units pass, in no time; a hold of any unit is refused."""
    source = SMALL.replace("cap 4", "cap 0").format("renewal(1)", "", "")
    nothing = both(source, horizon=20, sets={"u": 0})
    assert (pool(nothing)["admissions"], pool(nothing)["rejected"]) == (20, 0)
    assert pool(both(source, horizon=20, sets={"u": 1e-300}))["rejected"] == 20


# --------------------------------------------------------------------------- growth that can never succeed

GROWTH = """
use "std/args";
fn main() {{
  let extra = args.number("extra", 9);
  pool mem {{ cap 6; preempt {}; }}
  stage svc : delay;
  workload {{ arrive batch(4); turn {{ set d = extra; }} }}
  server {{ hold mem (cost(mem, 2)) {{ {} grow mem (cost(mem, d)); run svc (cost(svc, 1)); }} cache (cost(mem, 1)); }}
}}
"""
RUN = "run svc (cost(svc, 1));"


def test_growth_that_waits_for_ever() -> None:
    """Cap 6 admits three of four; each asks for 9 more and waits. The holders of the pool are all growers: stalled."""
    made = both(GROWTH.format("none", RUN), horizon=50)
    row = pool(made)
    assert (row["admissions"], row["growing_at_end"], row["growing_stalled"]) == (3, 3, True)
    assert (made.report["ended"], made.report["events"]) == (0, 3)


@pytest.mark.parametrize("policy", ["lifo", "by (-admission)", "by (0) requeue tail", "by (admission) requeue tail"])
def test_growth_that_throws_itself_out_for_ever(policy: str) -> None:
    """The grower may be its own victim: it comes back, runs for 1 and fails again, until the horizon."""
    made = both(GROWTH.format(policy, RUN), horizon=200)
    row = pool(made)
    assert row["preemptions"] > 200
    assert row["admissions"] > row["preemptions"]
    assert row["stuck"] > 0
    assert made.report["ended"] == 0


def test_growth_that_throws_itself_out_in_no_time() -> None:
    """Without the run before it, the same happens again and again at time 0."""
    error = fails(GROWTH.format("lifo", ""), horizon=50)
    assert error.failure.time == 0


# --------------------------------------------------------------------------- overload

LOAD = """
fn main() {{
  pool mem {{ cap 2; }}
  stage svc : {};
  workload {{ arrive poisson(4); turn {{ set w = ~exp(1); }} }}
  server {{ set t0 = now; {} observe resp = now - t0; }}
}}
"""


@pytest.mark.parametrize("kind", ["fifo", "ps(1)"])
def test_overload_at_a_stage(kind: str) -> None:
    """Load 4 on one server: about three quarters of all sessions wait at the end, and none is lost."""
    made = both(LOAD.format(kind, "run svc (cost(svc, w));"), horizon=500, warmup=50)
    report, (stage,) = made.report, made.report["stages"]
    waiting = report["arrivals"] - len(_whole(kind, horizon=500).samples["resp"])
    assert 0.7 < waiting / report["arrivals"] < 0.8
    assert stage["utilization"] == pytest.approx(1, abs=1e-9)
    assert report["mean_live"] == pytest.approx(stage["mean_number"], rel=1e-12)


def _whole(kind: str, horizon: float) -> ReferenceRun:
    """The run without a warm-up, so that every end is a sample."""
    return run(LOAD.format(kind, "run svc (cost(svc, w));"), horizon=horizon)


def test_overload_at_a_pool() -> None:
    """Two units, each busy for 1 on average, 4 requests per unit of time: twice the capacity; the queue grows."""
    made = both(LOAD.format("delay", "hold mem (cost(mem, 1)) { run svc (cost(svc, w)); }"), horizon=400)
    row = pool(made)
    assert row["rejected"] == 0
    assert row["mean_used"] == pytest.approx(2, abs=0.02)
    assert row["mean_queue"] + row["mean_holders"] == pytest.approx(made.report["mean_live"], rel=1e-12)
    assert row["mean_queue"] > 300


# --------------------------------------------------------------------------- loops that take no time

ZERO = """
use "std/args";
fn main() {
  let passes = args.number("passes", 900);
  let work = args.number("work", 0);
  stage svc : fifo;
  workload { arrive batch(1); turn { set w = work; set limit = passes; } }
  server { set i = 0; while (i < limit) { run svc (cost(svc, w)); set i = i + 1; } observe done = now; }
}
"""


def test_a_loop_of_zero_work_that_ends() -> None:
    """900 passes at one instant: no job, no event."""
    made = both(ZERO, horizon=10)
    assert (made.report["events"], made.samples["done"]) == (0, [(0, 0, 1, 0)])


@pytest.mark.parametrize("passes", [1100, 1e9, float("inf")])
def test_a_loop_of_zero_work_that_does_not(passes: float) -> None:
    """More than 1000 returns at one instant: the run ends with an error, at that instant."""
    error = fails(ZERO, horizon=10, sets={"passes": passes})
    assert error.failure.time == 0
    assert "settle" in error.failure.message


def test_a_loop_of_little_work() -> None:
    """Works so small that time does not move in a double: from 2^53 on, 1 more is lost. Every pass is an event."""
    source = ZERO.replace("set i = 0;", "run svc (cost(svc, 9007199254740992)); set i = 0;")
    made = both(source, horizon=1e17, sets={"passes": 500, "work": 1})
    assert made.report["events"] == 501
    assert made.samples["done"] == [(2.0**53, 0, 1, 2.0**53)]


# --------------------------------------------------------------------------- a thousand at once

CROWD = """
fn main() {{
  pool mem {{ cap 10; {} }}
  stage svc : {};
  workload {{ arrive batch(1000); turn {{ set n = 1 + serial - 4 * floor(serial / 4); set w = {}; }} }}
  server {{ {} observe at = now; observe who = serial; }}
}}
"""
SERVE = "run svc (cost(svc, w));"
HELD = f"hold mem (cost(mem, n)) {{ {SERVE} }}"


def test_a_thousand_at_a_server() -> None:
    """Service of 1 each: session k ends at k + 1."""
    made = both(CROWD.format("", "fifo", "1", SERVE), horizon=2000)
    assert made.samples["at"] == [(k + 1, k, 1, k + 1) for k in range(1000)]
    assert made.report["events"] == 1000


def test_a_thousand_on_a_delay() -> None:
    made = both(CROWD.format("", "delay", "1", SERVE), horizon=2000)
    assert made.samples["who"] == [(1, k, 1, k) for k in range(1000)]


def test_a_thousand_share() -> None:
    """Equal works on one shared server: all end at 1000, one event each, in the order in which they came."""
    made = both(CROWD.format("", "ps(1)", "1", SERVE), horizon=2000)
    assert [session for _, session, _, _ in made.samples["who"]] == list(range(1000))
    assert made.report["events"] == 1000
    assert {round(time, 6) for time, *_ in made.samples["at"]} == {1000}


@pytest.mark.parametrize("policy", ["", "queue by (n);", "queue by (-n, serial);", "queue by (-waited);"])
@pytest.mark.parametrize("kind", ["delay", "fifo(3)", "ps(2)"])
def test_a_thousand_at_a_pool(policy: str, kind: str) -> None:
    """1 to 4 units each of 10: everyone is admitted once, and everyone ends."""
    made = both(CROWD.format(policy, kind, "1 + floor(2 * n / 3)", HELD), horizon=1e5)
    row = pool(made)
    assert (row["admissions"], row["rejected"], made.report["ended"]) == (1000, 0, 1000)
    assert sorted(session for _, session, _, _ in made.samples["who"]) == list(range(1000))


# --------------------------------------------------------------------------- priorities with equal keys

EQUAL = """
fn main() {{
  pool mem {{ cap 4; queue by ({}); }}
  stage svc : delay;
  workload {{ arrive batch(12); turn {{ set n = 2; set pri = serial - 3 * floor(serial / 3); }} }}
  server {{ hold mem (cost(mem, n)) {{ observe who = serial; run svc (cost(svc, 1)); }} }}
}}
"""


@pytest.mark.parametrize(
    ("keys", "order"),
    [
        ("0", list(range(12))),
        ("n, n * n", list(range(12))),
        ("waited", list(range(12))),  # all joined at one instant
        ("pri", [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]),
        ("-pri", [2, 5, 8, 11, 1, 4, 7, 10, 0, 3, 6, 9]),
    ],
)
def test_equal_keys_go_by_joining(keys: str, order: list[int]) -> None:
    """Two of twelve fit at a time. All are in the queue before the first is admitted, so the keys decide on all."""
    made = both(EQUAL.format(keys), horizon=50)
    assert [value for *_, value in made.samples["who"]] == order


def test_equal_eviction_keys_go_by_release() -> None:
    """Entries of 2 in a pool of 6 by a constant key: the ones released first go first, as with `lru`."""
    source = """
fn main() {{
  pool mem {{ cap 6; evict {}; }}
  stage svc : fifo;
  workload {{ arrive renewal(1); turn {{ set n = 2; }} session {{ turn; tool (2.5 + 3 * ~bernoulli(0.5)); turn; }} }}
  server {{ hold mem (cost(mem, n)) {{ observe got = cached; run svc (cost(svc, 0.25)); }} cache (cost(mem, n)); }}
}}
"""
    runs = [both(source.format(policy), horizon=60) for policy in ("lru", "by (n)", "by (n, 0 * size)")]
    assert runs[0].samples == runs[1].samples == runs[2].samples
    assert all(pool(made)["evicted_entries"] > 10 for made in runs)
    assert {value for *_, value in runs[0].samples["got"]} == {0, 2}


def test_equal_keys_of_indices_go_to_the_smallest() -> None:
    source = """
fn main() {
  stage rep[4] : ps(1);
  workload { arrive batch(6); turn { set w = 1; } }
  server {
    choose j in 4 by (0 * queue(rep[j]), w); observe which = j;
    run rep[j] (cost(rep, w));
    choose j in 0 by (j); observe none = j;
  }
}
"""
    made = both(source, horizon=50)
    assert {value for name in ("which", "none") for *_, value in made.samples[name]} == {0}

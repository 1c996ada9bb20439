"""Runs that break a run-time rule: the lane ends with a code, the statement and the simulated time.

The other lanes of the same call finish with the same numbers as if the bad one were not there.
Every program here is well-formed; whether a run is bad depends on an input, or on its draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import sqc
from harness import compiled
from sqc import ir
from sqc.kernel import RUNTIME_CODES

# Sessions arrive at 1, 2, 3, ... with serials 0, 1, 2, ...; serial 2 breaks the rule number `x`, at 3 or, after a
# service of 0.5, at 3.5. With `x` = 0 no rule is broken. `nan` is 0/0, written so that it is not a constant.
RULES = """
use "std/args";
fn main() {
  let x = args.number("x", 0);
  pool mem { cap 4; }
  stage svc : fifo(4);
  workload {
    arrive renewal(1);
    init { set bad = serial == 2 ? x : 0; set nan = (bad - x) / (bad - x); }
    session { turn; while (bad == 8) { tool (bad == 8 ? 0 : 1); } }
  }
  server {
    run svc (cost(svc, 0.5));
    branch (bad == 1 ? 2 : 0) { set hot = 1; }
    branch (bad == 2 ? nan : 1) { set hot = 0; }
    set left = bad == 3 ? 0.5 : 0;
    while (left) { run svc (cost(svc, 1)); set left = 0; }
    run svc (cost(svc, bad == 4 ? -1 : 0.5));
    run svc (cost(svc, bad == 5 ? nan : 0));
    hold mem (cost(mem, bad == 6 ? -1 : 1)) { set hot = 1; };
    hold mem (cost(mem, bad == 7 ? nan : 1)) { set hot = 0; };
  }
}
"""

ARRIVALS = """
use "std/args";
fn main() {{
  let x = args.number("x", 0);
  stage svc : fifo(4);
  workload {{ arrive {}; }}
  server {{ run svc (cost(svc, 0.5)); }}
}}
"""
RENEWAL, POISSON, CLOSED = map(ARRIVALS.format, ("renewal(1 / (1 - x))", "poisson(1 - 2 * x)", "closed(2 + x / 2)"))


# The same for pools and stages that are arrays, growth, loads, choices and legs.
MORE = """
use "std/args";
fn main() {
  let x = args.number("x", 0);
  pool kv[2] { cap 8; }
  pool mem { cap 8; }
  stage rep[2] : fifo;
  stage svc : delay;
  workload {
    arrive renewal(1);
    init { set bad = serial == 2 ? x : 0; }
  }
  server {
    run rep[bad == 1 ? 2 : 0] (cost(rep, 0.25));
    hold kv[bad == 2 ? 0.5 : 1] (cost(kv, 1)) { set hot = 1; }
    choose j in bad == 3 ? 1.5 : 2 by (queue(rep[j]));
    hold mem (cost(mem, 2)) {
      grow mem (cost(mem, bad == 4 ? -1 : 1));
      load mem (cost(mem, bad == 5 ? -1 : 1));
      load mem (cost(mem, bad == 6 ? 9 : 1));
    };
    fork { run svc (cost(svc, bad == 7 ? 1 : 0.25)); }
    run svc (cost(svc, 0.5));
    branch (bad == 7) { set hot = 2; } else { join; }
    observe number = used(kv[bad == 8 ? 3 : 0]);
  }
}
"""
GIVEN_BACK = """
use "std/args";
fn main() {
  let x = args.number("x", 0);
  pool mem { cap 4; }
  stage svc : delay;
  workload { arrive renewal(1); }
  server {
    hold mem (cost(mem, 1)) { run svc (cost(svc, 0.5)); branch (x == 1) { release mem; } grow mem (cost(mem, 1)); }
  }
}
"""
WAITING = """
use "std/args";
fn main() {
  let x = args.number("x", 0);
  pool mem { cap 2 - x; }
  stage svc : delay;
  workload { arrive batch(1); }
  server { hold mem (cost(mem, 1)) { fork { hold mem (cost(mem, 1)) { run svc (cost(svc, 1)); } } join; } }
}
"""
BLOCK = """
use "std/args";
fn main() {
  let x = args.number("x", 0);
  pool mem { cap 4; block 1 - x; }
  stage svc : fifo;
  workload { arrive renewal(1); }
  server { hold mem (cost(mem, 1)) { run svc (cost(svc, 0.5)); } }
}
"""
SERVERS = """
use "std/args";
fn main() {
  let x = args.number("x", 0);
  stage svc : fifo(1 + x);
  workload { arrive renewal(1); }
  server { run svc (cost(svc, 0.5)); }
}
"""
STEPS = """
use "std/args";
fn main() {
  let x = args.number("x", 0);
  stage eng : step { budget 8; cost x == 0 ? 0.5 : (x == 1 ? 0 : (x == 2 ? -1 : 0 / (x - 3))); }
  workload { arrive renewal(1); }
  server { run eng prefill (cost(eng, 4)); }
}
"""
PREEMPTS = """
use "std/args";
fn main() {
  let x = args.number("x", 0);
  pool kv { cap 10 - x; preempt lifo; }
  stage eng : step { budget 100; cost tokens; memory kv; }
  workload { arrive renewal(1); }
  server { hold kv (cost(kv, 1)) { run eng prefill (cost(eng, 10)) growing kv; } }
}
"""
SHARED = """
use "std/args";
fn main() {
  let x = args.number("x", 0);
  stage a : ps(1 - x);
  stage b : ps(1);
  share maxmin;
  workload { arrive renewal(1); }
  server { run a, b (cost(a, b, 0.5)); }
}
"""


PREFIXES = """
use "std/args";
fn main() {
  let x = args.number("x", 0);
  pool kv { cap 100; }
  pool one { cap 100; history one; slots x == 6 ? 0.5 : 4; retain lru pin root; }
  stage svc : fifo;
  workload { arrive renewal(1); turn { set bad = x; set n = 20; } }
  server {
    hold kv (cost(kv, 20)) prefix (bad == 1 ? 0 / (bad - 1) : 0: bad == 2 ? -1 : 10) { } cache (cost(kv, 10))
    hold one (cost(one, n)) prefix (0: n) {
      checkpoint one (cost(one, bad == 3 ? 21 : bad == 5 ? -1 : 8));
      run svc (cost(svc, 0.25));
      checkpoint one (bad == 4 && cached > 0 ? 4 : 8);
    } cache (cost(one, 0))
  }
}
"""


@dataclass(frozen=True)
class Bad:
    """A program that breaks a rule when its input `x` has this value.

    `says` is a part of the message; the failure's span covers `statement` (None: it has none).
    """

    source: str
    x: float
    code: str
    says: str
    statement: str | None
    time: float
    session: int | None = None


BAD = {
    "guard": Bad(RULES, 1, "R103", "guard", "branch (bad == 1", 3.5, 2),
    "guard that is no number": Bad(RULES, 2, "R103", "guard", "branch (bad == 2", 3.5, 2),
    "guard of a while": Bad(RULES, 3, "R103", "guard", "while (left)", 3.5, 2),
    "negative work": Bad(RULES, 4, "R104", "work", "run svc (cost(svc, bad == 4", 3.5, 2),
    "work that is no number": Bad(RULES, 5, "R104", "work", "run svc (cost(svc, bad == 5", 4.0, 2),
    "negative units": Bad(RULES, 6, "R105", "units", "hold mem (cost(mem, bad == 6", 4.0, 2),
    "units that are no number": Bad(RULES, 7, "R105", "units", "hold mem (cost(mem, bad == 7", 4.0, 2),
    "an instant that does not settle": Bad(RULES, 8, "R101", "settle", None, 4.0, 2),
    "an infinite gap": Bad(RENEWAL, 1, "R106", "gap", "renewal", 0.0),
    "a negative gap": Bad(RENEWAL, 2, "R106", "gap", "renewal", 0.0),
    "a negative rate": Bad(POISSON, 1, "R110", "rate", "poisson", 0.0),
    "a rate of zero": Bad(POISSON, 0.5, "R110", "rate", "poisson", 0.0),
    "a fractional population": Bad(CLOSED, 1, "R111", "whole", "closed", 0.0),
    "too large a population": Bad(CLOSED, 2e6, "R111", "whole", "closed", 0.0),
    "an index past the array": Bad(MORE, 1, "R112", "index", "run rep[", 3.0, 2),
    "an index that is not whole": Bad(MORE, 2, "R112", "index", "hold kv[", 3.25, 2),
    "an index in an expression": Bad(MORE, 8, "R112", "index", "observe number", 3.75, 2),
    "choices that are not whole": Bad(MORE, 3, "R116", "choices", "choose j", 3.25, 2),
    "a negative growth": Bad(MORE, 4, "R113", "amount", "grow mem", 3.25, 2),
    "a negative load": Bad(MORE, 5, "R113", "amount", "load mem (cost(mem, bad == 5", 3.25, 2),
    "a load beyond the allocation": Bad(MORE, 6, "R114", "load", "load mem (cost(mem, bad == 6", 3.25, 2),
    "an end with live legs": Bad(MORE, 7, "R115", "legs", None, 3.75, 2),
    "a growth of what was given back": Bad(GIVEN_BACK, 1, "R125", "given", "grow mem", 1.5, 0),
    "a session and its leg wait for each other": Bad(WAITING, 1, "R121", "wait for each other", "join", 10.0, 0),
    "a block of zero": Bad(BLOCK, 1, "R117", "block", "pool mem", 0.0),
    "half a server": Bad(SERVERS, 0.5, "R119", "servers", "stage svc", 0.0),
    "an iteration that costs nothing": Bad(STEPS, 1, "R122", "cost", "stage eng", 1.0, 0),
    "an iteration that costs less than nothing": Bad(STEPS, 2, "R122", "cost", "stage eng", 1.0, 0),
    "an iteration whose cost is no number": Bad(STEPS, 3, "R122", "cost", "stage eng", 1.0, 0),
    "iterations that take no time": Bad(PREEMPTS, 6, "R123", "no time", "stage eng", 1.0, 0),
    "a key that is no number": Bad(PREFIXES, 1, "R126", "key", "hold kv", 1.0, 0),
    "a negative length": Bad(PREFIXES, 2, "R126", "length", "hold kv", 1.0, 0),
    "a checkpoint beyond the context": Bad(
        PREFIXES, 3, "R127", "checkpoint", "checkpoint one (cost(one, bad == 3", 1.0, 0
    ),
    "a checkpoint before the resume point": Bad(PREFIXES, 4, "R127", "resumed", "checkpoint one (bad == 4", 2.25, 1),
    "a negative checkpoint": Bad(PREFIXES, 5, "R113", "amount", "checkpoint one (cost(one, bad == 3", 1.0, 0),
    "half a slot": Bad(PREFIXES, 6, "R128", "slots", "pool one", 0.0),
    "a shared stage without capacity": Bad(SHARED, 1, "R120", "capacity", None, 0.0),
}


@pytest.mark.parametrize("name", BAD)
def test_the_run_ends_with_its_reason(name: str) -> None:
    bad = BAD[name]
    with pytest.raises(sqc.RunError) as caught:
        compiled(bad.source).run(seed=1, horizon=10, sets={"x": bad.x})
    failure = caught.value.failure
    assert (failure.code, failure.time) == (bad.code, bad.time)
    assert bad.says in failure.message
    if bad.session is not None:
        assert failure.session == bad.session
    if bad.statement is not None:
        assert failure.span is not None
        line = bad.source.split("\n")[failure.span.line - 1]
        assert line[failure.span.col - 1 :].startswith(bad.statement)
    assert bad.code in str(caught.value)
    assert f"at simulated time {bad.time:g}, session {failure.session}, seed 1" in str(caught.value)


def test_a_loop_that_never_waits() -> None:
    """The checker refuses such a program (E508); its IR, which anyone can write, ends the lane."""
    server = "server { loop { run svc (cost(svc, 1)); } }"
    program = sqc.compile(source=f"fn main() {{ stage svc : fifo; workload {{ arrive renewal(1); }} {server} }}")
    (loop,) = program.ir.server
    assert isinstance(loop, ir.Loop)
    endless = replace(program.ir, server=(replace(loop, body=()),))
    with pytest.raises(sqc.RunError) as caught:
        sqc.Program(endless).run(seed=1, horizon=10)
    failure = caught.value.failure
    assert (failure.code, failure.time, failure.session) == ("R101", 1.0, 0)


def test_every_code_is_tested() -> None:
    elsewhere = {"R118": "test_streams", "R199": "test_invariants"}
    here = {bad.code for bad in BAD.values()} | {"R107", "R108", "R109"}
    assert here | set(elsewhere) == set(RUNTIME_CODES) - {"R102"}  # R101 comes first, after a thousand passes
    for code, name in elsewhere.items():
        assert code in Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "source",
    [RULES, RENEWAL, POISSON, CLOSED, MORE, PREFIXES],
    ids=["rules", "renewal", "poisson", "closed", "more", "prefixes"],
)
def test_other_lanes_finish(source: str) -> None:
    """Bad lanes between good ones: the good ones equal a call without bad lanes, bit for bit."""
    cases = [bad for bad in BAD.values() if bad.source == source]
    kernel = compiled(source).kernel()
    x = np.array([value for bad in cases for value in (0.0, bad.x)] + [0.0])
    seeds = np.arange(1, len(x) + 1, dtype=np.uint64)
    mixed = kernel.lanes(seeds, horizon=10, inputs={"x": x})
    clean = kernel.lanes(seeds, horizon=10, inputs={"x": 0.0})
    assert {lane: failure.code for lane, failure in mixed.failures.items()} == {
        2 * number + 1: bad.code for number, bad in enumerate(cases)
    }
    assert not clean.failures
    for metric in kernel.metrics:
        np.testing.assert_array_equal(mixed.metrics[metric][x == 0], clean.metrics[metric][x == 0], err_msg=metric)
        assert np.isnan(mixed.metrics[metric][x != 0]).all()


def test_a_sweep_says_which_seeds_failed_and_why() -> None:
    table = compiled(RULES).sweep(seeds=3, horizon=10, sets={"x": [0, 1]})
    assert [(row["finished"], row["failed"]) for row in table.rows] == [(3, 0), (0, 3)]
    assert [(failure.seed, failure.code, failure.time) for failure in table.failures] == [
        (seed, "R103", 3.5) for seed in (1, 2, 3)
    ]
    for part in ("R103", "guard", "3.5"):
        assert part in str(table)


def test_infinite_work_is_legal() -> None:
    """Session 2 never ends and keeps one of four servers; the others are served.

    With x = 9 its work at the marked statement is 1/0. Arrivals at 1 .. 10, two services of 0.5 each: by
    10.25 serials 0, 1 and 3 .. 8 have ended (serial 8 at 10), so 8 of 10 have. Events: 10 arrivals, 10 first services
    less that of serial 9 (it ends at 10.5), 8 second ones: 27.
    """
    source = RULES.replace("bad == 4 ? -1 : 0.5", "bad == 9 ? 1 / (bad - x) : 0.5")
    report = compiled(source).run(seed=1, horizon=10.25, sets={"x": 9})
    assert (report.arrivals, report.ended, report.events) == (10, 8, 27)


# --------------------------------------------------------------------------- arrival limits

LIMITED = """
fn main() {
  stage svc : fifo;
  workload { arrive renewal(1); }
  server { run svc (cost(svc, 2.5)); }
}
"""


@pytest.mark.parametrize(
    ("horizon", "warmup", "arrivals", "code"),
    [
        # Arrivals at 1, 2, 3, ...; service 2.5 one after another: session k (from 0) ends at 3.5 + 2.5 k.
        (5.0, 0.0, 30, "R107"),  # five have arrived by 5
        (5.0, 0.0, 4, "R108"),  # four have, but only the first has ended
        (50.0, 20.0, 4, "R109"),  # the last of four ends at 11, before the warm-up does
    ],
)
def test_arrival_limits_that_cannot_be_met(horizon: float, warmup: float, arrivals: int, code: str) -> None:
    with pytest.raises(sqc.RunError) as caught:
        compiled(LIMITED).run(seed=1, horizon=horizon, warmup=warmup, arrivals=arrivals)
    assert caught.value.failure.code == code
    assert "session" not in str(caught.value).splitlines()[-1]


def test_arrival_limit_that_is_met() -> None:
    """Four sessions: 4 arrivals + 4 finishes = 8 events, end at 3.5 + 3 * 2.5 = 11, busy from 1 to 11."""
    report = compiled(LIMITED).run(seed=1, horizon=50, arrivals=4)
    assert (report.events, report.end, report.ended) == (8, 11.0, 4)
    assert math.isclose(report.stage("svc").utilization, 10 / 11, rel_tol=1e-12)

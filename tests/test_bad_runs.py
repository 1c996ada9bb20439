"""Runs that break a run-time rule: the lane ends with a code, the statement and the simulated time.

The other lanes of the same call finish with the same numbers as if the bad one were not there.
Every program here is well-formed; whether a run is bad depends on an input or on its draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

import sqc
from harness import compiled


@dataclass(frozen=True)
class Bad:
    """A program that breaks a rule when its input `x` is 1, and is fine when it is 0.

    `code` is the failure's, `says` a part of its message, `statement` the text that its span covers begins
    with (None: the failure has no statement), `time` the simulated time and `session` the serial.
    """

    source: str
    code: str
    says: str
    statement: str | None
    time: float
    session: int | None


def program(server: str, *, session: str = "", arrive: str = "renewal(1)") -> str:
    return f"""
use "std/args";
fn main() {{
  let x = args.number("x", 0);
  pool mem {{ cap 4; }}
  stage svc : fifo(4);
  workload {{
    arrive {arrive};
    {session}
  }}
  server {{
    {server}
  }}
}}
"""


# Sessions arrive at 1, 2, 3, ... with serials 0, 1, 2, ...; serial 2 breaks the rule, at 3 or after a service of 0.5.
BAD = {
    "guard": Bad(
        program("run svc (cost(svc, 0.5)); branch (x * (serial == 2) * 2) { set hot = 1; } else { set hot = 0; }"),
        *("R103", "guard", "branch", 3.5, 2),
    ),
    "guard of a while": Bad(
        program("set left = serial == 2 ? 0.5 * x : 0; while (left) { run svc (cost(svc, 1)); set left = 0; }"),
        *("R103", "guard", "while", 3.0, 2),
    ),
    "guard that is no number": Bad(
        program("branch (x * (serial == 2) > 0 ? (x - 1) / (x - 1) : 0) { set hot = 1; } run svc (cost(svc, 0.5));"),
        *("R103", "guard", "branch", 3.0, 2),
    ),
    "negative work": Bad(
        program("run svc (cost(svc, serial == 2 ? 0.5 - x : 0.5));"),
        *("R104", "work", "run", 3.0, 2),
    ),
    "work that is no number": Bad(
        program("run svc (cost(svc, serial == 2 && x > 0 ? (x - 1) / (x - 1) : 0.5));"),
        *("R104", "work", "run", 3.0, 2),
    ),
    "negative units": Bad(
        program("hold mem (cost(mem, serial == 2 ? 1 - 2 * x : 1)) { run svc (cost(svc, 0.5)); };"),
        *("R105", "units", "hold", 3.0, 2),
    ),
    "units that are no number": Bad(
        program("hold mem (cost(mem, serial == 2 && x > 0 ? (x - 1) / (x - 1) : 1)) { run svc (cost(svc, 0.5)); };"),
        *("R105", "units", "hold", 3.0, 2),
    ),
    "an instant that does not settle": Bad(
        program(
            "run svc (cost(svc, 0.5));",
            session="session { turn; while (serial == 2 && x > 0) { tool (x < 1 ? 1 : 0); } }",
        ),
        *("R101", "settle", None, 3.5, 2),
    ),
    "a first gap of zero": Bad(
        program("run svc (cost(svc, 0.5));", arrive="renewal(1 - x)"),
        *("R106", "gap", "arrive", 0.0, None),
    ),
    "an infinite gap": Bad(
        program("run svc (cost(svc, 0.5));", arrive="renewal(1 / (1 - x))"),
        *("R106", "gap", "arrive", 0.0, None),
    ),
    "a negative rate": Bad(
        program("run svc (cost(svc, 0.5));", arrive="poisson(1 - 2 * x)"),
        *("R106", "", "arrive", 0.0, None),
    ),
    "a fractional population": Bad(
        program("run svc (cost(svc, 0.5));", arrive="closed(1 + x / 2)"),
        *("R110", "whole", "arrive", 0.0, None),
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_the_run_ends_with_its_reason(name: str) -> None:
    bad = BAD[name]
    with pytest.raises(sqc.RunError) as caught:
        compiled(bad.source).run(seed=1, horizon=10, sets={"x": 1})
    failure = caught.value.failure
    assert (failure.code, failure.time) == (bad.code, bad.time)
    assert bad.says in failure.message
    if bad.session is not None:
        assert failure.session == bad.session
    if bad.statement is not None:
        assert failure.span is not None
        line = bad.source.split("\n")[failure.span.line - 1]
        assert line[failure.span.col - 1 :].startswith(bad.statement)
    text = str(caught.value)
    assert bad.code in text
    assert "seed 1" in text


@pytest.mark.parametrize("name", BAD)
def test_other_lanes_finish(name: str) -> None:
    """Six lanes of which the third and the last are bad: the others equal a call without bad lanes, bit for bit."""
    program = compiled(BAD[name].source)
    kernel = program.kernel()
    seeds = np.arange(1, 7, dtype=np.uint64)
    bad = np.array([0.0, 0.0, 1.0, 0.0, 0.0, 1.0])
    mixed = kernel.lanes(seeds, horizon=10, inputs={"x": bad})
    clean = kernel.lanes(seeds, horizon=10, inputs={"x": 0.0})
    assert sorted(mixed.failures) == [2, 5]
    assert not clean.failures
    assert {failure.code for failure in mixed.failures.values()} == {BAD[name].code}
    for metric in kernel.metrics:
        np.testing.assert_array_equal(mixed.metrics[metric][bad == 0], clean.metrics[metric][bad == 0], err_msg=metric)
        assert np.isnan(mixed.metrics[metric][bad == 1]).all()


def test_a_sweep_says_which_seeds_failed_and_why() -> None:
    source = program("run svc (cost(svc, 0.5)); branch (x * (serial == 2) * 2) { set hot = 1; } else { set hot = 0; }")
    table = compiled(source).sweep(seeds=3, horizon=10, sets={"x": [0, 1]})
    text = str(table)
    assert "R103" in text
    good = [row for row in table.json()["points"] if not row["failures"]]
    assert len(good) == 1
    assert good[0]["inputs"] == {"x": 0}


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


def test_arrival_limit_that_is_met() -> None:
    """Four sessions: 4 arrivals + 4 finishes = 8 events, end at 3.5 + 3 * 2.5 = 11, busy from 1 to 11."""
    report = compiled(LIMITED).run(seed=1, horizon=50, arrivals=4)
    assert (report.events, report.end, report.ended) == (8, 11.0, 4)
    assert math.isclose(report.stage("svc").utilization, 10 / 11, rel_tol=1e-12)


def test_infinite_work_is_legal() -> None:
    """Session 1 never ends and keeps its server; with four servers the others are served: 10 arrivals, 8 end by 10.25.

    Arrivals at 1 .. 10, work 0.5 for all but serial 1: serials 0 and 2 .. 8; serial 9 is still being served.
    """
    source = program("run svc (cost(svc, serial == 1 ? 1 / 0 : 0.5));")
    report = compiled(source).run(seed=1, horizon=10.25)
    assert (report.arrivals, report.ended, report.events) == (10, 8, 18)

"""Derivatives of sample paths: which inputs qualify, and both methods against M/M/1 and M/G/1."""

from __future__ import annotations

import json
from typing import Any

import pytest

import sqc
from harness import ROOT
from sqc.cli import main
from sqc.inputs import InputError
from sqc.passes.pathwise import is_smooth, reasons
from sqc.sweeps.student import student_quantile

QUEUES = """
use "std/args";
fn main() {
  let r = args.number("r", 0.8);
  let s = args.number("s", 1);
  stage one : fifo;
  stage two : fifo;
  workload { arrive poisson(r); turn { set w = s * ~exp(1); set v = s * ~uniform(0.5, 1.5); } }
  server {
    set t0 = now;
    branch with (0.5) {
      run one (cost(one, w)); observe mm1 = now - t0 - w;
    } else {
      run two (cost(two, v)); observe mg1 = now - t0 - v; observe late = now - t0 - v > 1;
    }
  }
}
"""
"""Two queues, each with half of the arrivals: M/M/1, and M/G/1 with a uniform law."""

ALARM = 1e-6
"""Of one of the tests below, if there is nothing wrong."""


def slopes(second: float, rate: float, mean: float) -> dict[str, float]:
    """Derivatives of W = l E[S^2] / (2 (1 - l s)), with E[S^2] = `second` s^2, l the rate of one queue.

    Pollaczek and Khinchine's formula; `r` is the rate of both queues together.
    """
    free = 1 - rate * mean
    by_rate = second * mean**2 / (2 * free) + rate * second * mean**3 / (2 * free**2)
    by_mean = rate * second * mean / free + rate**2 * second * mean**2 / (2 * free**2)
    return {"r": by_rate / 2, "s": by_mean}


TRUE = {"mm1": slopes(2.0, 0.4, 1.0), "mg1": slopes(13 / 12, 0.4, 1.0)}


@pytest.fixture(scope="module")
def queues() -> sqc.Program:
    return sqc.compile(source=QUEUES)


def check(found: Any, true: float) -> None:
    """A t-test; what it can detect is a bias of twice `limit` standard errors, with near certainty."""
    limit = student_quantile(1 - ALARM / 2, found.n - 1)
    assert abs(found.mean - true) <= limit * found.standard_error, (found, true)


@pytest.mark.parametrize("queue", TRUE)
def test_differences(queues: sqc.Program, queue: str) -> None:
    """Standard errors are 1 to 2 % here: biases of a fifth and more are detected."""
    found = sqc.gradient(queues, f"observe.{queue}.mean", horizon=8000, warmup=400, seeds=64)()
    for name, true in TRUE[queue].items():
        check(found[name], true)
        assert found[name].standard_error < 0.05 * true


def test_paths(queues: sqc.Program) -> None:
    """On M/G/1 (one kernel is built, which takes its time). Standard errors are 5 %: biases of a half are detected.

    On the same runs, the derivative of a run is what its difference comes to for small steps.
    """
    how: dict[str, Any] = {"horizon": 300, "warmup": 30, "seeds": 32}
    found = sqc.gradient(queues, "observe.mg1.mean", **how, method="pathwise")()
    for name, true in TRUE["mg1"].items():
        check(found[name], true)
    near = sqc.gradient(queues, "observe.mg1.mean", **how, wrt="s", steps={"s": 1e-7})()["s"]
    assert found["s"].mean == pytest.approx(near.mean, rel=1e-4)
    assert found["s"].standard_error == pytest.approx(near.standard_error, rel=1e-3)


HEAD = 'use "std/args"; fn main() { let x = args.number("x", 1);'
LOAD = "workload { arrive poisson(0.5); turn { set w = ~exp(x); } }"
SERVER = "server { run a (cost(a, w)); }"

QUALIFY = {
    "an M/G/1 queue": f"{HEAD} stage a : fifo; {LOAD} {SERVER} }}",
    "a rate": f"{HEAD} stage a : fifo; workload {{ arrive poisson(x); turn {{ set w = 1; }} }} {SERVER} }}",
    "processor sharing": f"{HEAD} stage a : ps(1); {LOAD} {SERVER} }}",
    "two queues, one after the other": f"{HEAD} stage a : fifo; stage b : fifo; {LOAD} "
    "server { run a (cost(a, w)); run b (cost(b, w)); } }",
    "a chance that it does not change": f"{HEAD} stage a : fifo; {LOAD} "
    "server { branch with (0.5) { run a (cost(a, w)); } } }",
    "a loop of delays": f"{HEAD} stage a : delay; workload {{ arrive poisson(1); turn {{ set w = ~exp(x); }} "
    f"session {{ loop {{ turn; branch with (0.5) {{ end; }} }} }} }} {SERVER} }}",
    "nothing": f"{HEAD} stage a : fifo; workload {{ arrive poisson(0.5); turn {{ set w = 1; }} }} {SERVER} }}",
}
ONE = f"{HEAD} stage a : fifo; workload {{ arrive poisson(1); turn {{ set w = "
DO_NOT = {
    "memory": f"{HEAD} pool kv {{ cap x; }} stage a : fifo; {LOAD} "
    "server { hold kv (cost(kv, 1)) { run a (cost(a, w)); } } }",
    "engine": f"{HEAD} stage a : step {{ budget 8; cost x; }} {LOAD} server {{ run a decode (cost(a, 3)); }} }}",
    "forks": f"{HEAD} stage a : fifo; {LOAD} server {{ fork {{ run a (cost(a, w)); }} join; }} }}",
    "number of sessions": f"{HEAD} stage a : delay; workload {{ arrive batch(x); turn {{ set w = 1; }} }} {SERVER} }}",
    "number of servers": f"{HEAD} stage a : fifo(x); {LOAD} {SERVER} }}",
    "`ceil`": f"{ONE} ceil(~exp(x)); }} }} {SERVER} }}",
    "a comparison": f"{ONE} x > 2 ? 1 : 2; }} }} {SERVER} }}",
    "a probability": f"{ONE} ~h2(1, 2 + x); }} }} {SERVER} }}",
    "a count of phases": f"{ONE} ~erlang(x, 1); }} }} {SERVER} }}",
    "a branch depends on it": f"{HEAD} stage a : fifo; {LOAD} server {{ branch (w > 1) {{ run a (cost(a, w)); }} }} }}",
    "or on live state": f"{HEAD} stage a : fifo; {LOAD} "
    "server { branch (queue(a) > 1) { set u = x; } run a (cost(a, w)); } }",
    "a work depends on live": f"{HEAD} stage a : fifo; {LOAD} server {{ run a (cost(a, w + queue(a))); }} }}",
    "overtake": f"{HEAD} stage a : delay; stage b : fifo; {LOAD} "
    "server { run a (cost(a, w)); run b (cost(b, w)); } }",
    "jobs can": f"{ONE} ~exp(x); }} session {{ loop {{ turn; branch with (0.5) {{ end; }} }} }} }} {SERVER} }}",
}


@pytest.mark.parametrize("source", QUALIFY.values(), ids=QUALIFY)
def test_what_qualifies(source: str) -> None:
    assert reasons(sqc.compile(source=source).ir) == {"x": None}


@pytest.mark.parametrize("why", DO_NOT)
def test_what_does_not(why: str) -> None:
    reason = reasons(sqc.compile(source=DO_NOT[why]).ir)["x"]
    assert reason is not None
    assert why in reason


def test_metrics(queues: sqc.Program) -> None:
    """Means of what is as smooth as times; no quantiles, counts or shares."""
    smooth = {name for name in queues.kernel().metrics if is_smooth(queues.ir, name, "s")}
    assert smooth == {"observe.mm1.mean", "observe.mg1.mean", "client.response.mean"}


@pytest.mark.parametrize(
    ("metric", "more", "problem"),
    [
        ("observe.mm1.p99", {}, "observe.mm1.p99 has no pathwise derivative"),
        ("observe.late.mean", {}, "observe.late.mean has no pathwise derivative"),
        ("2 * observe.mm1.mean", {}, "has no pathwise derivative"),
        ("observe.mm1.mean", {"steps": {"s": 0.1}}, "steps are of differences"),
    ],
)
def test_refused(queues: sqc.Program, metric: str, more: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        sqc.gradient(queues, metric, horizon=100, seeds=4, method="pathwise", **more)


def test_an_input_that_does_not_qualify() -> None:
    program = sqc.compile(source=DO_NOT["memory"])
    with pytest.raises(InputError, match="no pathwise derivative along x: the program has memory"):
        sqc.gradient(program, "client.response.mean", horizon=100, seeds=4, method="pathwise")
    with pytest.raises(InputError, match="method exact: differences or pathwise"):
        sqc.gradient(program, "client.response.mean", horizon=100, seeds=4, method="exact")  # type: ignore[call-overload]


def test_the_compiler_says_so(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert main(["compile", "programs/01-queue.sq"]) == 0
    assert "  rate = 0.8: pathwise derivatives\n" in capsys.readouterr().out
    assert main(["compile", "programs/02-memory.sq", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["no_pathwise"]["cap"].startswith("the program has memory")

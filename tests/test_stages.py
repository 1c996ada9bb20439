"""Stages: arrays, estimates, unfinished work, shared capacity, preemption; and the heap beneath them.

The answers of the small programs are worked out by hand in the comment above each test. The larger
ones run against the reference, sample by sample.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import reference
import sqc
from agreement import disagreements
from generating import Case
from harness import run
from sqc_runtime.heap import Heap
from sqc_runtime.machine import MachineCode, bank_cells, lanes_module, object_code
from sqc_runtime.memory import Layout, Memory


def stage_of(result: reference.ReferenceRun, name: str) -> dict[str, Any]:
    (row,) = (row for row in result.report["stages"] if row["name"] == name)
    return dict(row)


def ends(result: reference.ReferenceRun) -> dict[int, float]:
    """When each session ended its job: the times of the samples of `fin`."""
    return {session: time for time, session, _, _ in result.samples["fin"]}


# --------------------------------------------------------------------------- by hand

FLOWS = """
fn main() {{
  stage a : ps(1);
  stage b : ps(3);
  share {share};
  workload {{ arrive batch(2); turn {{ set one = 1; }} }}
  server {{
    branch (serial == 0) {{ run a, b (cost(a, b, 4)); }} else {{ run b (cost(b, 7.5)); }}
    observe fin = one;
  }}
}}
"""


# maxmin: a leaves session 0 a rate of 1, b one of 3/2: a is the tighter, and session 1 gets the other 2 of b. It ends
# at 7.5/2 = 3.75, session 0 at 4. bottleneck: session 1 gets 3/2; at 4, with 6 done, it gets all of b: 1.5/3 more.
# Whatever the rates, b carries 4 + 7.5 of the 15 it could in 5 units of time, a 4 of 5.
@pytest.mark.parametrize(("share", "expected"), [("maxmin", 3.75), ("bottleneck", 4.5)])
def test_shared_capacity(share: str, expected: float) -> None:
    result = run(FLOWS.format(share=share), horizon=5.0)
    assert ends(result) == {0: 4.0, 1: expected}
    assert result.report["events"] == 2
    a, b = stage_of(result, "a"), stage_of(result, "b")
    assert (a["completed"], b["completed"]) == (1, 2)
    assert a["utilization"] == pytest.approx(4 / 5, rel=1e-12)
    assert b["utilization"] == pytest.approx(11.5 / 15, rel=1e-12)
    assert b["mean_service"] == pytest.approx((4 + expected) / 2, rel=1e-12)


# Starts at 2, 4 and 7 (the second job takes 3), ends at 3, 7 and 8. After the third: the gap is 0.99 * 2 + 0.01 * 3 =
# 2.01, the service 0.99 * (0.99 * 1 + 0.01 * 3) + 0.01 * 1 = 1.0198, the wait 0.01 * 1.
def test_estimates() -> None:
    source = """
    fn main() {
      stage s : fifo;
      workload { arrive renewal(2); turn { set w = serial == 1 ? 3 : 1; } }
      server {
        run s (cost(s, w));
        observe rate = est_lambda(s);
        observe load = est_rho(s);
        observe line = est_wait(s);
        observe cost_of = price(s, 3, 2);
      }
    }
    """
    result = run(source, horizon=8.0)
    rate, load, wait = 1 / 2.01, 1.0198 / 2.01, 0.01
    price = 2 + rate * (5**2 - 3**2) / (2 * (1 - load)) + rate * wait * 2 / (1 - load)
    assert [row[3] for row in result.samples["rate"]] == pytest.approx([0, 1 / 2, rate], rel=1e-12)
    assert [row[3] for row in result.samples["load"]] == pytest.approx([0, 1.02 / 2, load], rel=1e-12)
    assert [row[3] for row in result.samples["line"]] == pytest.approx([0, 0, wait], rel=1e-12)
    assert result.samples["cost_of"][2][3] == pytest.approx(price, rel=1e-12)


# At 1 session 0 grows by 2: 1 + 1 + 2 > 3, so session 1 loses its hold, and its job of 5 leaves the server. Session 2,
# which has waited since 0.5, takes it until 3. Session 0 ends at 2, session 1 holds again and waits for the server: 3
# to 8. Its first finish, at 5, is an event all the same: 0.5, 1, 2, 3, 5, 8.
def test_preempted_job_leaves_its_server() -> None:
    source = """
    fn main() {
      pool mem { cap 3; preempt lifo; }
      stage s : fifo;
      stage d : delay;
      workload { arrive batch(3); turn { set one = 1; } }
      server {
        branch (serial == 0) {
          hold mem (cost(mem, 1)) { run d (cost(d, 1)); grow mem (cost(mem, 2)); run d (cost(d, 1)); }
        } else {
          branch (serial == 1) { hold mem (cost(mem, 1)) { run s (cost(s, 5)); } }
          else { run d (cost(d, 0.5)); run s (cost(s, 2)); }
        }
        observe fin = one;
      }
    }
    """
    result = run(source, horizon=9.0)
    assert ends(result) == {0: 2.0, 1: 8.0, 2: 3.0}
    assert result.report["events"] == 6
    row = stage_of(result, "s")
    assert (row["completed"], row["mean_wait"], row["mean_service"]) == (2, 0.75, 3.5)
    assert row["utilization"] == pytest.approx(8 / 9, rel=1e-12)


SERVERS = """
use "std/args";
fn main() {
  let c = args.number("c", 2);
  stage s : fifo(c);
  workload { arrive batch(4); turn { set one = 1; } }
  server { run s (cost(s, 1)); observe fin = one; }
}
"""


# Four jobs of 1: two at a time end at 1 and 2, four at a time at 1.
def test_servers_from_an_input() -> None:
    assert ends(run(SERVERS, horizon=5.0)) == {0: 1.0, 1: 1.0, 2: 2.0, 3: 2.0}
    assert ends(run(SERVERS, horizon=5.0, sets={"c": 4.0})) == {0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0}


@pytest.mark.parametrize("servers", [0.0, 2.5, -1.0])
def test_bad_number_of_servers(servers: float) -> None:
    with pytest.raises(sqc.RunError, match="the number of servers of a stage is no whole number, or less than 1"):
        run(SERVERS, horizon=5.0, sets={"c": servers})


@pytest.mark.parametrize("capacity", [0.0, -1.0])
def test_bad_shared_capacity(capacity: float) -> None:
    source = FLOWS.format(share="maxmin").replace("ps(1)", "ps(u)")
    source = 'use "std/args";' + source.replace("fn main() {", 'fn main() { let u = args.number("u", 1);')
    assert ends(run(source, horizon=5.0)) == {0: 4.0, 1: 3.75}
    with pytest.raises(sqc.RunError, match="the capacity of a stage that runs share is not positive"):
        run(source, horizon=5.0, sets={"u": capacity})


# --------------------------------------------------------------------------- against the reference

PROGRAM = """
fn main() {{
  {stages}
  workload {{ arrive {arrive}; turn {{ set w = {w}; }} }}
  server {{ set t0 = now; {server} observe resp = now - t0; }}
}}
"""

PICK = "set j = ~bernoulli(0.4);"
LINKS = "stage a[2] : ps(7.3); stage z : fifo; stage b[2] : ps(9.1); stage c : ps(11); stage y : ps(4);"
PATHS = """
  set i = ~bernoulli(0.6); set k = ~bernoulli(0.3); set x = floor(~uniform(0, 5));
  observe before = work(a[1]) + 10 * work(b[0]) + 100 * work(c);
  branch (x == 0) { run a[i] (cost(a, w)); } else { branch (x == 1) { run a[i], b[k] (cost(a, b, w)); } else {
  branch (x == 2) { run b[k], c (cost(b, c, w)); } else { branch (x == 3) { run c, b[k], a[i] (cost(a, b, c, w)); }
  else { run y (cost(y, w)); run z (cost(z, 0.05 * w)); } } } }
  observe after = queue(a[i]) + 10 * busy(b[k]) + 100 * est_rho(c);
"""
GROWING = """
  hold mem (cost(mem, w)) {{ {run} grow mem (cost(mem, 2)); {run} observe left = work({read}) + 10 * queue({read});
    grow mem (cost(mem, 3)); {run} }}
"""
MEM = "pool mem { cap 14; preempt by (w) requeue tail; }"


def program(
    stages: str, server: str, w: str = "~exp(1)", arrive: str = "poisson(1.5)", seeds: tuple[int, ...] = (1, 2)
) -> Case:
    text = PROGRAM.format(stages=stages, server=server, w=w, arrive=arrive)
    return Case(text, 200.0, 20.0, None, seeds)


def growing(stage: str, ref: str, work: str) -> Case:
    job = f"{PICK} run {ref} (cost(s, {work}));"
    return program(f"{MEM} stage {stage};", GROWING.format(run=job, read=ref), "ceil(~uniform(0, 6))", "poisson(1)")


CASES = {
    "ps array": program(
        "stage s[3] : ps(min(present, 2) * 0.6);",
        "set j = floor(~uniform(0, 3)); run s[j] (cost(s, w)); observe q = queue(s[j]) + 10 * work(s[1]);",
    ),
    "fifo array": program(
        "stage s[2] : fifo(2); stage d[2] : delay;",
        f"{PICK} observe left = work(s[1]) + work(d[0]); run s[j] (cost(s, 2 * w)); run d[1 - j] (cost(d, w));"
        "observe q = queue(s[j]) + 10 * busy(s[0]) + 100 * queue(d[j]);",
    ),
    "least work": program(
        "stage s[3] : fifo;",
        "choose j in 3 by (work(s[j]), queue(s[j])); run s[j] (cost(s, 1.8 * w)); observe which = j;",
    ),
    "array of one": program(
        "stage s[1] : ps(2); stage f[1] : fifo; stage d[1] : delay;",
        "set j = 0; run s[j] (cost(s, w)); run f[j] (cost(f, 0.5 * w)); run d[j] (cost(d, w)); observe q = work(d[j]);",
    ),
    "capacity draws": program("stage s[2] : ps(~uniform(1, 3));", f"{PICK} run s[j] (cost(s, w));"),
    "estimates": program(
        "stage s : ps(2); stage f : fifo(2); stage d : delay; stage g[2] : fifo;",
        f"{PICK} run s (cost(s, w)); run f (cost(f, w)); run d (cost(d, w)); run g[j] (cost(g, 0.6 * w));"
        "observe of_s = est_lambda(s) + 10 * est_rho(s) + est_wait(s); observe of_f = est_rho(f) + 10 * est_wait(f);"
        "observe of_d = price(d, 0.3, 1.1); observe of_g = price(g[j], 2, w);",
    ),
    "ties": program(
        "stage s[2] : ps(1); stage f[2] : fifo(2);",
        f"{PICK} run s[j] (cost(s, w)); run f[j] (cost(f, 2 * w));"
        "observe q = queue(s[0]) + 10 * queue(f[1]) + 100 * work(f[0]);",
        w="ceil(~exp(1))",
        arrive="closed(9)",
    ),
    "maxmin": program(LINKS + "share maxmin;", PATHS, "~uniform(1, 9)", "poisson(1.8)"),
    "bottleneck": program(LINKS + "share bottleneck;", PATHS, "~uniform(1, 9)", "poisson(1.8)"),
    "maxmin ties": program(LINKS + "share maxmin;", PATHS, "1.1 * ceil(~uniform(0, 3))", "closed(7)"),
    "preempted fifo": growing("s[2] : fifo", "s[j]", "0.1 * w"),
    "preempted fifo(2)": growing("s : fifo(2)", "s", "0.1 * w"),
    "preempted ps": growing("s[2] : ps(2)", "s[j]", "0.2 * w"),
    "preempted delay": growing("s : delay", "s", "0.4 * w"),
    "preempted flows": growing("s[2] : ps(2); stage t : ps(3.1); share maxmin", "s[j], t", "0.2 * w"),
}


@pytest.mark.reference
@pytest.mark.skipif(not reference.AVAILABLE, reason=reference.WHY_NOT)
@pytest.mark.parametrize("name", CASES)
def test_reference(name: str) -> None:
    wrong = disagreements(CASES[name])
    assert not wrong, "\n".join(wrong)


# --------------------------------------------------------------------------- the heap


def outcome(layout: Layout, actions: Any) -> list[float]:
    """What a piece of code yields that runs once on the memory of a lane: `actions(m)` is a list of values."""

    def simulate(m: Memory, *_arguments: Any) -> dict[str, Any]:
        values = {str(k): value.astype(np.float64) for k, value in enumerate(actions(m))}
        zero = m.full(0, np.uint32)
        return {"metrics": values, "status": zero, "error": zero, "time": m.full(0.0, np.float64), "session": m.f(0)}

    made: list[int] = []

    def counted(m: Memory, *arguments: Any) -> dict[str, Any]:
        result = simulate(m, *arguments)
        made.append(len(result["metrics"]))
        return result

    module = lanes_module(layout, counted, 3)
    code = MachineCode(object_code(module), bank_cells(layout), made[0])
    columns = np.zeros((3, 1))
    return [float(v) for v in code(np.array([1], np.uint64), columns, np.zeros(1)).metrics[0]]


@pytest.mark.parametrize("seed", range(3))
def test_heap(seed: int) -> None:
    """Two heaps of a family, random insertions and removals: the order is that of a sorted list."""
    random = Random(seed)
    layout = Layout()
    layout.f("unused")
    heap = Heap(layout, "heap", 16, members=2)
    lists: list[list[tuple[float, float, int]]] = [[], []]
    expected: list[float] = []
    steps: list[tuple[str, int, tuple[float, float, int]]] = []
    for number in range(60):
        i = random.randrange(2)
        entries = lists[i]
        kind = (
            random.choice(["push", "push", "pop", "remove"])
            if 0 < len(entries) < 16
            else "push"
            if not entries
            else "pop"
        )
        entry = (float(random.randrange(6)), float(number), number)
        if kind == "push":
            entries.append(entry)
        else:
            entry = min(entries) if kind == "pop" else random.choice(entries)
            entries.remove(entry)
        steps.append((kind, i, entry))
        expected += [float(entry[2]) if kind == "pop" else -1.0, min(entries)[0] if entries else np.inf, len(entries)]

    def actions(m: Memory) -> list[Any]:
        heap.clear(m)
        values = []
        for kind, i, (time, seq, slot) in steps:
            popped = m.full(-1.0, np.float64)
            if kind == "push":
                heap.push(m, m.full(time, np.float64), m.full(seq, np.float64), m.full(slot, np.uint32), i)
            elif kind == "pop":
                popped = heap.pop(m, i)
            else:
                heap.remove(m, m.full(slot, np.uint32), i)
            values += [popped, heap.time(m, i), heap.count(m, i)]
        return values

    assert outcome(layout, actions) == expected

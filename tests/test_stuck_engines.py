"""Engines that can make no progress: the run ends at its horizon, and the report says what stood still.

Two requests of 5 prompt tokens and 5 more, an iteration takes 1. The expected values are those of pyserq 0.1.4.
"""

from __future__ import annotations

import pytest

from harness import run

PROGRAM = """
use "std/args";
fn main() {
  let budget = args.number("budget", 8);
  let units = args.number("units", 40);
  stage e : step { budget budget; cost 1; memory kv; }
  pool kv { cap units; PREEMPT }
  pool reqs { cap 4; admit via e; }
  workload { arrive batch(2); }
  server {
    hold reqs (cost(reqs, 1)), kv (cost(kv, 2)) {
      run e prefill (cost(e, 5)) growing kv;
      run e decode (cost(e, 5)) growing kv;
    }
  }
}
"""
WAITS, PREEMPTS = PROGRAM.replace("PREEMPT", ""), PROGRAM.replace("PREEMPT", "preempt lifo;")
FIELDS = ("preemptions", "stuck", "growing_at_end", "growing_stalled")


@pytest.mark.parametrize(
    ("source", "budget", "units", "iterations", "idle", "pool"),
    [
        # Nobody is ever admitted, as no budget is left for it.
        pytest.param(WAITS, 0, 40, 0, True, (0, 0, 0, False), id="no budget"),
        # 5 units of 8 are in use after one iteration; the other 2 prompt tokens would need more than the 3 left.
        pytest.param(WAITS, 8, 8, 1, True, (0, 0, 2, True), id="growth that waits for ever"),
        # A few tokens later the same.
        pytest.param(WAITS, 8, 12, 3, True, (0, 0, 2, True), id="growth that waits for ever, later"),
        # A request of 10 tokens never fits 8 units: it starts over for ever, both count as stuck.
        pytest.param(PREEMPTS, 8, 8, 31, False, (12, 2, 0, False), id="growth that preempts for ever"),
        # 12 units are enough for one at a time: the other one starts over until the first has ended.
        pytest.param(PREEMPTS, 8, 12, 12, False, (4, 1, 0, False), id="growth that preempts until there is room"),
    ],
)
def test_what_stands_still(
    source: str, budget: float, units: float, iterations: int, idle: bool, pool: tuple[float, ...]
) -> None:
    report = run(source, horizon=30, sets={"budget": budget, "units": units}).report
    stage, kv = report["stages"][0], report["pools"][0]
    assert report["end"] == 30
    assert (stage["iterations"], stage["idle_with_work"]) == (iterations, idle)
    assert tuple(kv[field] for field in FIELDS) == pool

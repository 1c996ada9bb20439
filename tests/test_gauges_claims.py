"""Gauges and claims, of runs that keep their samples and of lanes that do not."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reference
from sqc.kernel import Kernel
from sqc.lower import compile_text

GAUGES = """
fn main() {
  pool mem { cap inf; }
  stage svc : fifo(2);
  workload { arrive %s; turn { set w = ceil(~uniform(0, 3)); } }
  server { hold mem (cost(mem, w)) { run svc (cost(svc, w)); } }
  gauge jobs = queue(svc);
  gauge room = free(mem);
  gauge share = busy(svc) / queue(svc);
  gauge full = busy(svc) == 2 && queue(svc) > 2;
  gauge constant = 3;
}
"""


@pytest.mark.reference
@pytest.mark.skipif(not reference.AVAILABLE, reason=reference.WHY_NOT)
@pytest.mark.parametrize("arrivals", ["poisson(0.9)", "renewal(1)", "batch(7)", "none"])
@pytest.mark.parametrize(("horizon", "warmup"), [(40.0, 0.0), (40.0, 7.0), (3.0, 1.0)])
def test_gauges(arrivals: str, horizon: float, warmup: float) -> None:
    """Change points from time 0 to the end, and the extremes of what was held for some time after the warm-up.

    Whole-number times: many events at one instant, and events at the warm-up's and at the end.
    `share` is NaN while nobody is there, which is a change at every instant.
    """
    text = GAUGES % arrivals
    expected = reference.run(text, horizon=horizon, warmup=warmup)
    result = Kernel(compile_text(text), samples=True, mode="native").run(1, horizon=horizon, warmup=warmup)
    for name, row in expected.report["gauges"].items():
        changes = result.gauges[name]
        kept = np.column_stack([changes.time, changes.value])
        np.testing.assert_allclose(kept, np.array(expected.gauges[name]), rtol=1e-12, atol=0, err_msg=name)
        for key in ("mean", "min", "max"):
            ours = result.metrics[f"gauge.{name}.{key}"]
            if row[key] is None:
                assert not math.isfinite(ours), (name, key)
            else:
                assert ours == pytest.approx(row[key], rel=1e-12), (name, key)


def test_more_changes_than_there_is_room_for() -> None:
    """A gauge that changes at every event makes the room for samples grow."""
    kernel = Kernel(compile_text(GAUGES % "poisson(0.9)"), samples=True, capacities={"samples": 16}, mode="native")
    result = kernel.run(1, horizon=400.0)
    assert len(result.gauges["jobs"].time) > 256
    assert kernel.capacities["samples"] >= len(result.gauges["jobs"].time)


CLAIMS = """
fn main() {
  stage svc : fifo;
  workload { arrive batch(%d); turn { } }
  server {
    run svc (cost(svc, 1));
    observe place = serial;
    observe back = 2 - serial;
    observe odd = serial == 1 ? 0 / 0 : serial;
  }
  claim total : at end (total(place) == %d);
  claim count : at end (count(place) == %d);
  claim extremes : at end (smallest(place) == 0 && largest(place) == %d);
  claim prefixes : at end (prefix_total(place) == %d);
  claim descending : at end (prefix_total(back) > 0);
  claim late : at end (now >= 1000);
  claim not_a_number : at end (0 / 0);
  claim extremes_of_odd : at end (smallest(odd) == 0 && largest(odd) == %d);
  claim sum_of_odd : at end (total(odd) >= 0);
  claim early given (serial < 3) : at end (1);
  claim all given (serial >= 0) : at end (1);
}
"""


def _claims(n: int) -> str:
    """With n sessions: the values are 0 .. n - 1, their k-th prefix sum is k (k + 1) / 2."""
    prefixes = sum(k * (k + 1) // 2 for k in range(n))
    return CLAIMS % (n, n * (n - 1) // 2, n, n - 1, prefixes, n - 1)


HOLD = {"total", "count", "extremes", "prefixes", "not_a_number", "extremes_of_odd", "all"}


@pytest.mark.parametrize("samples", [False, True])
def test_claims_of_a_drained_run(samples: bool) -> None:
    """5000 values are more than the first room for them; samples before the warm-up count."""
    kernel = Kernel(compile_text(_claims(5000)), samples=samples, mode="native")
    metrics = (
        kernel.run(1, horizon=6000.0, warmup=20.0).metrics if samples else kernel([1], horizon=6000.0, warmup=20.0)
    )
    values = {name: float(np.ravel(metrics[f"claim.{name}.value"])[0]) for name in _names()}
    assert {name for name, value in values.items() if value == 1} == HOLD | {"late"}
    assert {name for name, value in values.items() if value == 0} == set(_names()) - HOLD - {"early", "late"}
    out = {name for name in _names() if np.ravel(metrics[f"claim.{name}.out_of_scope"])[0] == 1}
    assert out == {name for name, value in values.items() if math.isnan(value)} == {"early"}


def test_claims_of_a_run_that_is_cut_off() -> None:
    """Sessions are live at the end: nothing is claimed."""
    metrics = Kernel(compile_text(_claims(10)), mode="native")([1], horizon=5.0)
    assert all(math.isnan(metrics[f"claim.{name}.value"][0]) for name in _names())


def _names() -> list[str]:
    return [claim.name for claim in compile_text(_claims(3)).claims]


@pytest.mark.reference
@pytest.mark.skipif(not reference.AVAILABLE, reason=reference.WHY_NOT)
@pytest.mark.parametrize("n", [1, 4, 60])
def test_claims_against_the_reference(n: int) -> None:
    expected = {row["name"]: row["result"] for row in reference.run(_claims(n), horizon=100.0).report["claims"]}
    metrics = Kernel(compile_text(_claims(n)), mode="native")([1], horizon=100.0)
    for name, result in expected.items():
        value, out = metrics[f"claim.{name}.value"][0], metrics[f"claim.{name}.out_of_scope"][0]
        assert result == ("out_of_scope" if out else "holds" if value else "fails"), name

"""Expressions of metrics, objectives over common seeds, and their derivatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import sqc
from harness import compiled
from sqc.inputs import InputError
from sqc.search.expression import bound, expression

QUEUE = """use "std/args";
def service(law, mean) { law == 0 ? ~exp(mean) : ~h2(mean, 4) }
fn main() {
  let mean = args.number("mean", 0.6);
  let rate = args.number("rate", 1);
  let law = args.number("law", 0);
  let least = args.number("least", 0);
  stage svc : fifo;
  workload { arrive poisson(rate); turn { set w = service(law, mean); } }
  server {
    branch (w >= floor(least)) { run svc (cost(svc, w)); }
    observe squared = w * w;
  }
}
"""
BROKEN = """use "std/args";
fn main() {
  let k = args.number("k", 1);
  stage svc : fifo;
  workload { arrive poisson(1); turn { set w = ~exp(0.5); } }
  server { branch (w > 1 ? k : 1) { run svc (cost(svc, w)); } }
}
"""
#: Little's law makes the mean wait of two time averages, which are unbiased.
WAIT = "(stage.svc.mean_number - stage.svc.utilization) / rate"


def value(text: str, **inputs: float) -> float:
    metrics = {"a.b": np.array([4.0]), "st[0].mean": np.array([3.0]), "C": np.array([7.0])}
    found = expression(text, ["C", "x", "odd name"], list(metrics))
    (number,) = found.values(metrics, {"C": 2.0, "x": 5.0, "odd name": 11.0, **inputs})
    return float(number)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1e-6 * x + a.b", 4.000005),
        ("1 - 2 - 3", -4.0),
        ("2 * 3 + 4 / 2", 8.0),
        ("-2^2", -4.0),
        ("2^3^2", 512.0),
        ("2^-1", 0.5),
        ("min(a.b, x, 3) + max(1, 2)", 5.0),
        ("(1 + 2) * .5", 1.5),
        ("st[0].mean - +1", 2.0),
        ("C", 7.0),  # the metric: an input of the same name has the column's name
        ("input.C", 2.0),
        ("'odd name' + 1", 12.0),
        ("1 / 0", math.nan),
        ("(0 - 1)^0.5", math.nan),
    ],
)
def test_expressions(text: str, expected: float) -> None:
    np.testing.assert_allclose(value(text), expected, rtol=1e-15)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.b +", r"^expression 'a.b \+': not understood at its end$"),
        ("a.b + * 2", "not understood at column 7"),
        ("", "not understood at its end"),
        ("a.c * 2", r"no metric or input a.c \(did you mean a.b\?\)"),
        ("__import__('os')", "not understood at column 11"),
        ("min(1)", "not understood at column 6"),
        ("(" * 150 + "1" + ")" * 150 + "+1" * 150, "more than 100 levels"),
    ],
)
def test_texts_that_are_no_expression(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        value(text)


def test_bounds() -> None:
    """A bound is its excess: how far the side that is to be smaller lies above the other."""
    metrics = {"m": np.array([3.0, 5.0, np.nan])}
    for text, expected in (("m <= 4", [-1.0, 1.0, np.nan]), ("m + 1 >= 2 * C", [0.0, -2.0, np.nan])):
        found = bound(text, ["C"], ["m"]).excess.values(metrics, {"C": 2.0})
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(InputError, match=r"not understood at its end \(write it as A <= B"):
        bound("m", [], ["m"])


def test_an_objective_is_a_mean_over_the_same_seeds() -> None:
    program = compiled(QUEUE)
    f = sqc.objective(program, "rate * client.response.mean^2", horizon=200, warmup=20, seeds="7:10")
    lanes = program.kernel()(np.arange(7, 11, dtype=np.uint64), horizon=200.0, warmup=20.0, mean=0.5)
    per_lane = lanes["client.response.mean"] ** 2
    mean, error = f(mean=0.5)
    assert mean == pytest.approx(per_lane.mean(), rel=1e-12)
    assert error == pytest.approx(per_lane.std(ddof=1) / 2, rel=1e-12)
    # Not the square of the mean: the expression is evaluated run by run.
    assert mean > lanes["client.response.mean"].mean() ** 2
    assert f({"mean": 0.5}) == f({"mean": "1 / 2"}) == f({"mean": 9}, mean=0.5) == f(mean=0.5)
    assert f().n == 4
    assert f().half() == pytest.approx(3.1824463 * f().standard_error, rel=1e-6)


def test_an_objective_refuses() -> None:
    program = compiled(QUEUE)
    with pytest.raises(InputError, match=r"no metric or input client.respons.mean \(did you mean client.response.mean"):
        sqc.objective(program, "client.respons.mean", horizon=10, seeds=2)
    f = sqc.objective(program, "mean_live", horizon=10, seeds=2)
    with pytest.raises(InputError, match=r"unknown input rat \(did you mean rate\?\)"):
        f(rat=1)
    with pytest.raises(sqc.RunError, match="R103"):
        sqc.objective(compiled(BROKEN), "mean_live", horizon=50, seeds=2)(k=2)


def test_undefined_runs_are_left_out() -> None:
    """Nobody reaches the stage: its mean wait is undefined in every run."""
    estimate = sqc.objective(compiled(QUEUE), "stage.svc.mean_wait", horizon=10, seeds=3)(least=1e9)
    assert (estimate.n, math.isnan(estimate.mean), math.isnan(estimate.half())) == (0, True, True)


# --------------------------------------------------------------------------- derivatives

SEEDS = 128
#: The z-tests below: two laws, two inputs. Together they raise a false alarm with probability at most 1e-6.
CRITICAL = float(stats.t.isf(1e-6 / 4 / 2, SEEDS - 1))


@pytest.mark.statistics
@pytest.mark.parametrize(("law", "factor"), [(0, 1.0), (1, 2.5)])
def test_the_derivative_of_the_mean_wait(law: int, factor: float) -> None:
    """M/M/1 and M/G/1 (cv2 = 4) by Pollaczek and Khinchine: W = r s^2 (1 + cv2) / 2 / (1 - r s) at r = 1, s = 0.6.

    With u = 1 - r s = 0.4 and factor (1 + cv2) / 2: dW/ds = factor (2 r s u + r^2 s^2) / u^2 = factor 0.84 / 0.16 =
    factor 5.25, and dW/dr = factor s^2 / u^2 = factor 2.25. Each limit is that of a false-alarm rate of 2.5e-7 plus
    a quarter of a standard error for the bias of the step. A test finds a wrong derivative (a factor of
    two, one for the other) where the limit is below half the value, which is asserted.
    """
    g = sqc.gradient(compiled(QUEUE), WAIT, horizon=5_000, warmup=500, seeds=SEEDS, wrt=["mean", "rate"])
    for name, derivative in g(law=law).items():
        expected = factor * {"mean": 5.25, "rate": 2.25}[name]
        limit = (CRITICAL + 0.25) * derivative.standard_error
        assert abs(derivative.mean - expected) <= limit, (name, derivative, expected)
        assert limit < expected / 2, (name, derivative, expected)
        assert derivative.n == SEEDS


def test_common_seeds_make_differences_quiet() -> None:
    """The same difference of independent runs would have a standard error more than five times larger."""
    program = compiled(QUEUE)
    f = sqc.objective(program, WAIT, horizon=1_000, warmup=100, seeds=32)
    slope = sqc.gradient(program, WAIT, horizon=1_000, warmup=100, seeds=32, wrt="mean", steps={"mean": 0.01})()["mean"]
    assert slope.step == 0.01
    assert slope.standard_error < 0.2 * f().standard_error * math.sqrt(2) / 0.02


def test_a_step_of_an_input_that_is_rounded() -> None:
    """`floor(least)` only changes at whole numbers: steps across which no run changes are not chosen.

    At 1.05 a step of 0.05 or less changes nothing. The wider ones are 0.21 and 0.105, which pass 1: then turns
    with less than 1 s of work skip the stage, so that fewer are served from there up.
    """
    program = compiled(QUEUE)
    g = sqc.gradient(program, "stage.svc.throughput", horizon=1_000, seeds=16, wrt="least")
    slope = g(least=1.05)["least"]
    assert slope.step > 0.05
    assert slope.mean + 5 * slope.standard_error < 0
    flat = g(least=1.5)["least"]
    assert flat.mean == flat.standard_error == 0.0


def test_a_gradient_refuses() -> None:
    program = compiled(QUEUE)
    setting: dict[str, Any] = {"horizon": 10, "seeds": 2}
    with pytest.raises(InputError, match="unknown input rat"):
        sqc.gradient(program, "mean_live", wrt="rat", **setting)
    with pytest.raises(InputError, match="step of rate: 0 must be above 0"):
        sqc.gradient(program, "mean_live", steps={"rate": 0}, **setting)
    with pytest.raises(InputError, match="at least 2 seeds"):
        sqc.gradient(program, "mean_live", horizon=10, seeds=1)
    with pytest.raises(InputError, match="no finite differences along least"):
        sqc.gradient(program, "1 / 0", wrt="least", **setting)(least=1)

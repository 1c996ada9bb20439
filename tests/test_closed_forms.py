"""Queueing theory: means over many seeds against closed forms, by z-tests.

How a check works. Every lane is one run of length T after a warm-up of many relaxation times, so
that a time average of it is an unbiased estimate of the stationary mean. Over n lanes the mean has
the standard error se = sd / sqrt(n), and the check fails if it is more than `CRITICAL` standard
errors from theory. The checks of this file together raise a false alarm with probability at most
1e-6 over the choice of seeds: each has 1e-6 / CHECKS (Bonferroni), two-sided, Student's t with
n - 1 degrees of freedom.

What a check can see. A bias of (CRITICAL + 1.645) se is found with probability 95 %. Each check states
that figure, relative to the expected value, as `detects`, and fails if the achieved one is larger:
a check that cannot see anything does not pass.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from harness import lanes

pytestmark = pytest.mark.statistics

LANES = 400
#: The laws of mean 1 by their number in the program below, with the squared coefficient of variation.
LAWS = {"deterministic": (0, 0.0), "exponential": (1, 1.0), "erlang4": (2, 0.25), "h2": (3, 4.0)}
#: The z-tests of this file: M/G/1, M/G/1-PS and Little's law twice for each law, M/M/3, two closed networks.
CHECKS = 3 * 2 * len(LAWS) + 2 + 3 + 3
FALSE_ALARM = 1e-6
CRITICAL = float(stats.t.isf(FALSE_ALARM / CHECKS / 2, LANES - 1))  # 5.65
POWER = 1.645  # the 95 % quantile of the normal law


@dataclass(frozen=True)
class Check:
    """A metric of a set of lanes, its expected value, and the relative bias that is found."""

    metric: str
    expected: float
    detects: float


def assess(metrics: dict[str, np.ndarray], check: Check) -> None:
    values = metrics[check.metric]
    assert len(values) == LANES
    mean, error = float(values.mean()), float(values.std(ddof=1)) / math.sqrt(LANES)
    visible = (CRITICAL + POWER) * error / check.expected
    told = (
        f"{check.metric}: theory {check.expected:.6g}, mean over {LANES} seeds {mean:.6g}, standard error {error:.2g}, "
        f"z = {(mean - check.expected) / error:+.2f} (limit {CRITICAL:.2f}); finds a bias of {visible:.2%}"
    )
    assert abs(mean - check.expected) <= CRITICAL * error, told
    assert visible <= check.detects, told


# --------------------------------------------------------------------------- single stations

STATIONS = """
use "std/args";
def service(law) { law == 0 ? ~det(1) : (law == 1 ? ~exp(1) : (law == 2 ? ~erlang(4, 1) : ~h2(1, 4))) }
fn main() {
  let law = args.number("law", 0);
  let rate = args.number("rate", 0.6);
  let at = args.number("station", 0);
  stage fifo1 : fifo;
  stage fifo3 : fifo(3);
  stage ps1 : ps(1);
  stage ps2 : ps(min(present, 2));
  stage same : ps(present);
  stage away : delay;
  workload { arrive poisson(rate); turn { set w = service(law); } }
  server {
    branch (at == 0) { run fifo1 (cost(fifo1, w)); }
    branch (at == 1) { run fifo3 (cost(fifo3, w)); }
    branch (at == 2) { run ps1 (cost(ps1, w)); }
    branch (at == 3) { run ps2 (cost(ps2, w)); }
    branch (at == 4) { run same (cost(same, w)); }
    branch (at == 5) { run away (cost(away, w)); }
  }
}
"""
#: One compilation for all stations: the input `station` says which of them a run uses.
KINDS = ("fifo1", "fifo3", "ps1", "ps2", "same", "away")


@functools.cache
def station(kind: str, law: str, rate: float) -> dict[str, np.ndarray]:
    sets = {"station": KINDS.index(kind), "law": LAWS[law][0], "rate": rate}
    return lanes(STATIONS, LANES, horizon=21_000, warmup=1_000, sets=sets)


def single(law: str, metric: str) -> Check:
    """M/G/1 at rho = 0.6, by Pollaczek and Khinchine.

    E N = rho + rho^2 (1 + cv2) / (2 (1 - rho)) with rho^2 / (2 (1 - rho)) = 0.36 / 0.8 = 0.45:
    deterministic 0.6 + 0.45 = 1.05, Erlang-4 0.6 + 0.45 * 1.25 = 1.1625, exponential (M/M/1) 0.6 + 0.9 = 1.5
    = rho / (1 - rho), balanced H2 with cv2 = 4 0.6 + 0.45 * 5 = 2.85. The server is busy a fraction rho.
    """
    cv2 = LAWS[law][1]
    expected = {"mean_number": 0.6 + 0.45 * (1 + cv2), "utilization": 0.6}[metric]
    detects = {"deterministic": 0.01, "erlang4": 0.01, "exponential": 0.02, "h2": 0.04}[law]
    return Check(f"stage.fifo1.{metric}", expected, detects)


@pytest.mark.parametrize("metric", ["mean_number", "utilization"])
@pytest.mark.parametrize("law", LAWS)
def test_mg1(law: str, metric: str) -> None:
    assess(station("fifo1", law, 0.6), single(law, metric))


@pytest.mark.parametrize("metric", ["mean_number", "utilization"])
@pytest.mark.parametrize("law", LAWS)
def test_mg1_ps_is_insensitive(law: str, metric: str) -> None:
    """M/G/1 processor sharing at rho = 0.6: E N = rho / (1 - rho) = 1.5 whatever the law, busy 0.6."""
    expected = {"mean_number": 1.5, "utilization": 0.6}[metric]
    assess(station("ps1", law, 0.6), Check(f"stage.ps1.{metric}", expected, 0.025))


def erlang_c(servers: int, load: float) -> tuple[float, float]:
    """Mean number present and probability that the system is not empty, M/M/c with offered load a.

    p0 = 1 / (sum over k < c of a^k / k! + (a^c / c!) / (1 - a / c)), C = (a^c / c!) / (1 - a / c) p0,
    E N = a + C (a / c) / (1 - a / c).
    """
    rho = load / servers
    tail = load**servers / math.factorial(servers) / (1 - rho)
    empty = 1 / (sum(load**k / math.factorial(k) for k in range(servers)) + tail)
    return load + tail * empty * rho / (1 - rho), 1 - empty


@pytest.mark.parametrize("metric", ["mean_number", "utilization"])
def test_mmc(metric: str) -> None:
    """M/M/3 at a = 2.1: tail = 1.5435 / 0.3 = 5.145, p0 = 1 / (1 + 2.1 + 2.205 + 5.145) = 0.095694,
    C = 0.49234, E N = 2.1 + 0.49234 * 0.7 / 0.3 = 3.24880, not empty 0.904306."""
    number, present = erlang_c(3, 2.1)
    assert (round(number, 4), round(present, 6)) == (3.2488, 0.904306)
    expected = {"mean_number": number, "utilization": present}[metric]
    assess(station("fifo3", "exponential", 2.1), Check(f"stage.fifo3.{metric}", expected, 0.02))


# --------------------------------------------------------------------------- closed networks

REPAIR = """
fn main() {
  stage svc : fifo;
  workload { arrive closed(8); session { turn; tool (~exp(4)); } }
  server { run svc (cost(svc, ~exp(1))); }
}
"""
NETWORK = """
fn main() {
  stage first : fifo;
  stage second : ps(1);
  workload { arrive closed(10); session { turn; tool (~uniform(0, 10)); } }
  server { run first (cost(first, ~exp(0.8))); run second (cost(second, ~h2(0.6, 4))); }
}
"""


def mean_value_analysis(population: int, think: float, demands: tuple[float, ...]) -> tuple[float, list[float]]:
    """Throughput and mean numbers: R_k = D_k (1 + N_k(n - 1)), X = n / (Z + sum R_k), N_k = X R_k."""
    numbers, throughput = [0.0] * len(demands), 0.0
    for n in range(1, population + 1):
        residence = [d * (1 + q) for d, q in zip(demands, numbers, strict=True)]
        throughput = n / (think + sum(residence))
        numbers = [throughput * r for r in residence]
    return throughput, numbers


@functools.cache
def closed(source: str) -> dict[str, np.ndarray]:
    return lanes(source, LANES, horizon=5_500, warmup=500)


@pytest.mark.parametrize("metric", ["stage.svc.mean_number", "stage.tool.mean_number", "stage.svc.throughput"])
def test_machine_repair(metric: str) -> None:
    """M/M/1//8 with service 1 and think 4: the throughput X is also the utilisation, and N = 8 - 4 X."""
    throughput, (number,) = mean_value_analysis(8, 4.0, (1.0,))
    assert math.isclose(number, 8 - 4 * throughput)
    expected = {"stage.svc.mean_number": number, "stage.tool.mean_number": 8 - number}.get(metric, throughput)
    assess(closed(REPAIR), Check(metric, expected, 0.01))


@pytest.mark.parametrize("metric", ["stage.first.mean_number", "stage.second.mean_number", "stage.second.throughput"])
def test_product_form(metric: str) -> None:
    """Ten customers over an exponential FIFO station (0.8), a PS station (0.6, any law) and a delay (5, any law)."""
    throughput, (first, second) = mean_value_analysis(10, 5.0, (0.8, 0.6))
    expected = {"stage.first.mean_number": first, "stage.second.mean_number": second}.get(metric, throughput)
    assess(closed(NETWORK), Check(metric, expected, 0.02))


# --------------------------------------------------------------------------- Little's law


def little(metrics: dict[str, np.ndarray], stage: str) -> np.ndarray:
    """Per lane: mean number minus throughput times mean residence."""
    row = {
        name: metrics[f"stage.{stage}.{name}"] for name in ("mean_number", "throughput", "mean_wait", "mean_service")
    }
    gap: np.ndarray = row["mean_number"] - row["throughput"] * (row["mean_wait"] + row["mean_service"])
    return gap


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kind", ["fifo1", "ps1"])
def test_little_over_a_window(kind: str, law: str) -> None:
    """L = lambda W in the mean; on one run of length T = 20 000 only up to the jobs at its two ends.

    The whole residence of the jobs present at the warm-up counts, that of the jobs present at the end
    does not: a difference of mean 0 and of the order of E(N R) / T, below 20 / 20 000 = 0.1 % of L even for
    H2. Checked for each lane at 50 times that, and for the mean of the lanes as a z-test that finds a gap of 0.002.
    """
    gap = little(station(kind, law, 0.6), kind)
    assert float(np.abs(gap).max()) <= 50 * 20 / 20_000
    error = float(gap.std(ddof=1)) / math.sqrt(LANES)
    assert abs(float(gap.mean())) <= CRITICAL * error, f"mean {gap.mean():.3g}, standard error {error:.3g}"
    assert (CRITICAL + POWER) * error <= 2e-3


@pytest.mark.parametrize("kind", KINDS)
def test_little_is_an_identity_when_all_have_left(kind: str) -> None:
    """With an arrival limit the run ends empty, so the integral of the number present is the sum of the residences.

    Without a warm-up both sides cover the same jobs: L E = done (wait + service), to rounding, on every run.
    """
    sets = {"station": KINDS.index(kind), "law": LAWS["h2"][0], "rate": 0.6}
    metrics = lanes(STATIONS, 50, horizon=1e5, arrivals=500, sets=sets)
    row = {name: metrics[f"stage.{kind}.{name}"] for name in ("completed", "mean_number", "mean_wait", "mean_service")}
    assert set(row["completed"]) == {500}
    residence = row["mean_wait"] + row["mean_service"]
    np.testing.assert_allclose(row["mean_number"] * metrics["end"], 500 * residence, rtol=1e-9)
    np.testing.assert_allclose(metrics["mean_live"], row["mean_number"], rtol=1e-9)
    np.testing.assert_allclose(metrics["client.response.mean"], residence, rtol=1e-9)

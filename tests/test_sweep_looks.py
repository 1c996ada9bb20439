"""Seeds added until an interval is narrow: the levels of the looks, what is asked for, and what is said."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import fakes
from sqc.inputs import InputError
from sqc.program import Program
from sqc.sweeps import Sweep
from sqc.sweeps.looks import Until, nominal_confidence, until
from sqc.sweeps.spread import Spread


@pytest.mark.parametrize(
    ("looks", "bound"), [(1, 1.960), (2, 2.178), (3, 2.289), (4, 2.361), (5, 2.413), (10, 2.555), (20, 2.672)]
)
def test_pocock_s_constants(looks: int, bound: float) -> None:
    """Those of Pocock's table (1977, Table 1, two-sided 0.05) for looks at equal steps."""
    level = nominal_confidence(tuple(range(7, 7 * looks + 1, 7)))
    assert NormalDist().inv_cdf(0.5 + level / 2) == pytest.approx(bound, abs=6e-4)


def test_growing_steps_need_more() -> None:
    """Looks that are further apart agree less, and the more they need; never more than independent ones."""
    equal, growing = nominal_confidence((10, 20, 30, 40)), nominal_confidence((10, 100, 1000, 10_000))
    assert nominal_confidence((40,)) == 0.95 < equal < growing < 1 - (1 - 0.95 ** (1 / 4)) + 1e-9


@pytest.mark.statistics
def test_all_looks_cover_together() -> None:
    """Normal samples, looks at 10, 15, ... 76: some interval misses in 5 % of 20 000 paths; false alarm 1e-4.

    At small numbers of seeds Student's quantile is not exact for all looks together; a bias of 0.5 % is allowed for.
    """
    sizes = Until({}, 76).sizes(10)
    assert sizes == (10, 15, 23, 35, 53, 76)
    level = nominal_confidence(sizes)
    samples = np.random.default_rng(5).standard_normal((20_000, 76))
    missed = np.zeros(len(samples), bool)
    for size in sizes:
        spread = Spread.of(samples[:, :size], level)
        missed |= np.abs(spread.mean) > spread.half
    assert abs(missed.mean() - 0.05) < 0.005 + 3.9 * math.sqrt(0.05 * 0.95 / len(samples))


def test_asked() -> None:
    """A point goes on while a target is missed, stops at the first look that reaches it, and waits for lanes."""
    goal = Until({"x": (0.1, True), "y": (5.0, False)}, 20)
    assert goal.sizes(4) == (4, 6, 9, 14, 20)
    seeds = np.arange(20)
    calm, wild = 10 + 0.01 * (-1.0) ** seeds, 10 + 20 * (-1.0) ** seeds
    late = np.where(seeds < 9, wild, 10 + 1e-9 * seeds)
    lanes = {"x": np.array([calm, wild, calm, calm]), "y": np.array([calm, calm, wild, late])}
    done = np.ones((4, 20), bool)
    assert goal.asked(4, lanes, done).tolist() == [4, 20, 20, 20]
    done[1, 5] = done[2, 11] = False
    assert goal.asked(4, lanes, done).tolist() == [4, 6, 14, 20]
    few = {name: values[:, :4] for name, values in lanes.items()}
    assert goal.asked(4, few, done[:, :4]).tolist() == [4, 6, 6, 6]


def test_a_metric_that_is_0_or_undefined() -> None:
    """0 ± 0 is 1 % of itself; what no lane defines is never known."""
    goal = Until({"x": (0.01, True)}, 8)
    nothing, undefined = np.zeros((1, 8)), np.full((1, 8), np.nan)
    assert goal.asked(4, {"x": nothing}, np.ones((1, 8), bool)).tolist() == [4]
    assert goal.asked(4, {"x": undefined}, np.ones((1, 8), bool)).tolist() == [8]


@pytest.mark.parametrize(
    ("targets", "most", "seeds", "message"),
    [
        ({"event": "1%"}, 9, (1, 2), "until: no metric event (did you mean events?)"),
        ({"events": "x%"}, 9, (1, 2), "until events: 'x' is no number: `x` is not a constant"),
        ({"events": "0%"}, 9, (1, 2), "until events=0%: a half width above 0, or 1% of the mean"),
        ({"events": math.inf}, 9, (1, 2), "until events=inf: a half width above 0, or 1% of the mean"),
        ({"events": 1}, 9, (1,), "until: at least 2 seeds to begin with"),
        ({"events": 1}, 2, (1, 2, 3), "max-seeds 2: below the 3 seeds to begin with"),
        ({"events": 1}, 9, (1, 2**64 - 1), f"seed {2**64 + 6}: must be a whole number from 0 to 2^64 - 1"),
    ],
)
def test_wrong_targets(targets: dict[str, Any], most: int, seeds: tuple[int, ...], message: str) -> None:
    with pytest.raises(InputError) as caught:
        until(targets, most, seeds, ["events", "turns"])
    assert str(caught.value) == message


def swept(monkeypatch: pytest.MonkeyPatch, **options: Any) -> Sweep:
    fakes.install(monkeypatch)
    given: dict[str, Any] = {"seeds": "5,9:11", "horizon": 1, "sets": {"C": [2e5, 6e4]}, "max_seeds": 40}
    return Program(fakes.PROGRAM).sweep(**(given | options))


def test_a_sweep_with_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Further seeds follow the largest; points differ in how many they have; statistics are of those."""
    table = swept(monkeypatch, until={"events": "25%"})
    counts = table.done.sum(axis=1)
    assert counts.tolist() == table.asked.sum(axis=1).tolist() == table.metric("events").n.tolist()
    assert 4 < counts[0] < counts[1] <= 40
    assert table.seeds == (5, 9, 10, 11, *range(12, 12 + counts[1] - 4))
    assert not table.interrupted
    assert table.reached.all()
    spread = table.metric("events")
    assert (spread.half <= 0.25 * spread.mean).all()
    assert table.confidence == nominal_confidence(Until({}, 40).sizes(4)) > 0.98
    lines = str(table).splitlines()
    assert lines[2].split()[:3] == ["C", "seeds", "events"]
    assert lines[-2].startswith("mean ± half width of the 95 % interval over seeds, corrected for repeated looks; ")
    assert lines[-1] == "reached at every point: events ±25%"
    document = table.json()
    assert document["until"] == {
        "targets": {"events": {"half": 0.25, "relative": True}},
        "max_seeds": 40,
        "reached": [True, True],
    }


def test_a_target_that_is_not_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    table = swept(monkeypatch, until={"events": "15%", "turns": 0.1}, max_seeds=8)
    assert table.done.sum(axis=1).tolist() == [8, 8]
    assert not table.reached.any()
    assert str(table).splitlines()[-1] == "not reached with 8 seeds: events ±15%, turns ±0.1 at C=200000, C=60000"
    many = swept(monkeypatch, until={"events": 0.01}, max_seeds=5, sets={"C": range(1, 9)})
    assert str(many).endswith("C=1, C=2, C=3, C=4, C=5 and 3 more")
    alone = swept(monkeypatch, until={"events": 0.01}, max_seeds=5, sets={})
    assert str(alone).endswith("at the only point")

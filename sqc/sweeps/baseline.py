"""Differences to a baseline under common random numbers.

Every point of a sweep has the same seeds, and a lane's random streams depend on its seed alone. So the
difference of two points is taken seed by seed: what the seed alone does to both cancels. The variance
that this saves is that of the difference of two independent runs less that of the paired one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sqc.inputs import InputError, Number, did_you_mean, number
from sqc.sweeps.spread import Floats, Ints, Spread
from sqc.textform import plain, settings

if TYPE_CHECKING:
    from sqc.sweeps.table import Sweep


@dataclass(frozen=True, eq=False)
class Difference:
    """One metric less that of the baseline; every field is an array with one entry per point.

    `spread` is over pairs of lanes that both define the metric; `saved` the share of the variance of
    unpaired differences that pairing saved (NaN where there is none to save).
    """

    spread: Spread
    saved: Floats

    def at(self, point: int) -> dict[str, float]:
        """The statistics of one point by name."""
        numbers = self.spread.at(point)
        return {"mean": numbers["mean"], "half": numbers["half"], "saved": self.saved[point].item(), "n": numbers["n"]}


class Baseline:
    """A sweep's points against those where some inputs have the values `given`.

    Each point is compared with the point that has these values and otherwise its own; `against` is
    that point's number. Raises InputError where a point has no such other.
    """

    def __init__(self, sweep: Sweep, given: Mapping[str, Number]) -> None:
        self.sweep = sweep
        self.given = {name: number(value, f"baseline {name}") for name, value in given.items()}
        names = list(sweep.points[0]) if sweep.points else []
        known = [*names, *sweep.inputs]
        for name, value in self.given.items():
            if name not in known:
                raise InputError(f"baseline: unknown input {name}{did_you_mean(name, known)}")
            if name not in names and sweep.inputs[name] != value:
                raise InputError(f"baseline: no point with {settings({name: value})}")
        places = {tuple(point.values()): place for place, point in reversed(list(enumerate(sweep.points)))}
        self.against: Ints = np.array([self._other(point, places) for point in sweep.points], np.int64)

    def _other(self, point: Mapping[str, float], places: Mapping[tuple[float, ...], int]) -> int:
        wanted = {**point, **{name: value for name, value in self.given.items() if name in point}}
        if tuple(wanted.values()) not in places:
            raise InputError(f"baseline: no point with {settings(wanted)}")
        return places[tuple(wanted.values())]

    @cached_property
    def compared(self) -> Ints:
        """The points that are no baseline themselves."""
        return np.flatnonzero(self.against != np.arange(len(self.against)))

    def metric(self, name: str) -> Difference:
        """The differences of one metric; KeyError if there is none."""
        here = self.sweep.values(name)
        there = here[self.against]
        difference = here - there
        spread = Spread.of(difference, self.sweep.confidence)
        both = ~np.isnan(difference)
        apart = sum(Spread.of(np.where(both, values, np.nan)).sd ** 2 for values in (here, there))
        with np.errstate(all="ignore"):
            saved = np.where(apart > 0, 1 - spread.sd**2 / apart, np.nan)
        return Difference(spread, saved)

    def json(self) -> dict[str, Any]:
        """JSON-ready: for each point that is compared its inputs, those of the other, and every metric."""
        points = self.sweep.points
        every = {name: self.metric(name) for name in self.sweep.lanes}
        document: dict[str, Any] = plain(
            {
                "inputs": self.given,
                "points": [
                    {
                        "inputs": dict(points[place]),
                        "against": dict(points[self.against[place]]),
                        "metrics": {name: difference.at(place) for name, difference in every.items()},
                    }
                    for place in self.compared.tolist()
                ],
            }
        )
        return document

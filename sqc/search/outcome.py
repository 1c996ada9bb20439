"""What a search ends with: the best point, its interval, whether bounds hold, and all that was tried."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sqc.search.objective import Estimate
from sqc.sweeps.experiment import Block
from sqc.sweeps.spread import Floats
from sqc.sweeps.student import student_quantile
from sqc.textform import plain, settings
from sqc.version import VERSION

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONFIDENCE = 0.95


class Tried:
    """A point and what its runs so far gave: the values of the objective, and by how much bounds are exceeded."""

    def __init__(self, number: int, inputs: Mapping[str, float], bounds: int) -> None:
        self.number, self.inputs = number, dict(inputs)
        self.seeds = self.failed = 0
        self._values: Floats = np.zeros(0)
        self._excess: list[Floats] = [np.zeros(0)] * bounds

    def add(self, values: Floats, excess: Sequence[Floats], failed: int) -> None:
        """Further runs, in the order of their seeds; those that failed have NaN everywhere."""
        self._values = np.concatenate([self._values, values])
        self._excess = [np.concatenate(pair) for pair in zip(self._excess, excess, strict=True)]
        self.seeds += len(values)
        self.failed += failed

    @property
    def value(self) -> Estimate:
        """The objective."""
        return Estimate.of(self._values)

    @property
    def excess(self) -> list[Estimate]:
        """Of each bound, by how much it is exceeded (negative: what is left)."""
        return [Estimate.of(each) for each in self._excess]

    def violation(self, margin: float) -> float:
        """By how much the bounds are exceeded in sum, each with so many standard errors on top; inf for a point
        with a failed run or an undefined bound."""
        worst = [each.mean + margin * each.standard_error for each in self.excess]
        if self.failed or any(map(math.isnan, worst)):
            return math.inf
        return sum(max(each, 0.0) for each in worst)

    def holds(self, number: int) -> bool | None:
        """Whether a bound holds at its confidence (one-sided Student interval of the mean); None: undecided."""
        excess = self.excess[number]
        if excess.n < 2:
            return None
        reach = student_quantile(CONFIDENCE, excess.n - 1) * excess.standard_error
        return True if excess.mean + reach <= 0 else False if excess.mean - reach > 0 else None


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of `sqc.optimize`. `str(outcome)` is a summary, `outcome.json()` everything but the runs.

    `inputs` is the best point found, `value` its objective over runs of their own that no choice depended on;
    `tried` are all points in the order in which they were, `blocks` all runs, `fixed` the inputs that did not vary,
    `spent` the number of runs.
    """

    program: str
    minimize: str
    bounds: tuple[str, ...]
    horizon: float
    warmup: float
    over: Mapping[str, tuple[float, float, bool]]
    fixed: Mapping[str, float]
    verdict: Tried
    tried: tuple[Tried, ...]
    blocks: tuple[Block, ...]
    spent: int

    @property
    def inputs(self) -> dict[str, float]:
        """The best point found."""
        return dict(self.verdict.inputs)

    @property
    def value(self) -> Estimate:
        """The objective there."""
        return self.verdict.value

    @property
    def holds(self) -> tuple[bool | None, ...]:
        """Whether each bound holds there with 95 % confidence; None where that is undecided."""
        return tuple(self.verdict.holds(number) for number in range(len(self.bounds)))

    @property
    def proven(self) -> bool:
        """Whether no run of the best point failed and every bound holds there with 95 % confidence."""
        return not self.verdict.failed and self.value.n > 0 and all(self.holds)

    def __str__(self) -> str:
        value, verdict = self.value, self.verdict
        lines = [
            f"best       {settings(self.inputs)}",
            f"minimized  {self.minimize} = {value.mean:.6g} ± {value.half():.2g} (95 %, {value.n} runs of its own)",
        ]
        words = {True: "holds", False: "does not hold", None: "undecided"}
        for text, holds, excess in zip(self.bounds, self.holds, verdict.excess, strict=True):
            lines.append(f"bound      {text}: {words[holds]} (95 %; margin {-excess.mean:.3g} ± {excess.half():.2g})")
        if verdict.failed:
            lines.append(f"failed     {verdict.failed} of {verdict.seeds} runs of the best point")
        broken = sum(tried.failed > 0 for tried in self.tried)
        also = f", {broken} of them with failed runs" if broken else ""
        lines.append(f"tried      {len(self.tried)} points{also}; {self.spent} runs in all")
        return "\n".join(lines)

    def json(self) -> dict[str, Any]:
        """JSON-ready; non-finite numbers are None."""
        document: dict[str, Any] = plain(
            {
                "program": self.program,
                "minimize": self.minimize,
                "horizon": self.horizon,
                "warmup": self.warmup,
                "over": {name: {"low": low, "high": high, "log": log} for name, (low, high, log) in self.over.items()},
                "inputs": dict(self.fixed),
                "best": {**self._row(self.verdict), "proven": self.proven},
                "bounds": [
                    {"bound": text, "holds": holds, "confidence": CONFIDENCE}
                    for text, holds in zip(self.bounds, self.holds, strict=True)
                ],
                "tried": [self._row(tried) for tried in self.tried],
                "spent": self.spent,
                "sqc_version": VERSION,
            }
        )
        return document

    @staticmethod
    def _row(tried: Tried) -> dict[str, Any]:
        def estimate(of: Estimate) -> dict[str, float]:
            return {"mean": of.mean, "half": of.half(), "standard_error": of.standard_error, "n": of.n}

        return {
            "inputs": dict(tried.inputs),
            "runs": tried.seeds,
            "failed": tried.failed,
            "value": estimate(tried.value),
            "excess": [estimate(each) for each in tried.excess],
        }

    def to_parquet(self, path: str | Path) -> None:
        """Write every run, one row each, with the columns of a stored sweep: inputs, `seed`, metrics, `status`,
        `failure`, `point` (the place of the point in `tried`)."""
        from sqc.sweeps.blocks import encode

        points = np.concatenate([block.points for block in self.blocks])
        starts = np.cumsum([0, *map(len, self.blocks)])
        every = Block(
            points,
            np.concatenate([block.seeds for block in self.blocks]),
            {name: np.concatenate([block.metrics[name] for block in self.blocks]) for name in self.blocks[0].metrics},
            {
                int(start) + lane: failed
                for start, block in zip(starts, self.blocks, strict=False)
                for lane, failed in block.failures.items()
            },
        )
        inputs = {name: np.array([tried.inputs[name] for tried in self.tried])[points] for name in self.over}
        inputs |= {name: np.full(len(points), value) for name, value in self.fixed.items()}
        Path(path).write_bytes(encode(every, inputs, ""))

    def plot(self, width: float = 25.0) -> Figure:
        """A picture of what was tried: the objective against each input. `width` in cm; needs matplotlib."""
        from sqc.pictures.tried import tried

        return tried(self, width)

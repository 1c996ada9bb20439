"""A search for the inputs that minimise an expression, with bounds; runs are spent where they matter.

The budget is a number of lanes (runs), spent in four parts:

    look        25 %       new points, 8 seeds each
    aim         35 %       new points where the look was good, 32 seeds each
    leaders     8 x 2.5 %  the best 4 points as far as is known then get further seeds
    verdict     the rest   the best of the leaders, with seeds that nothing before it has seen

All points have the same seeds, in the same order (common random numbers), so they compare well. The verdict's seeds
are fresh: the least of many noisy means is too low, and what is reported must not be.

A point keeps a bound, for the sampler, if it does so with a standard error to spare; as a leader and as the best,
if it does so with 95 % confidence. Where common seeds flatter the points at a bound, further ones show it, and
others lead the next round. Points with a failed run, or without a value, come last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sqc.inputs import InputError, Number, check_names, point, times
from sqc.inputs import seed as checked_seed
from sqc.search.expression import Bound, Expression, bound, expression
from sqc.search.objective import run
from sqc.search.outcome import CONFIDENCE, Outcome, Tried
from sqc.search.sampler import Sampler
from sqc.sweeps.design import sides
from sqc.sweeps.experiment import Block
from sqc.sweeps.student import student_quantile

if TYPE_CHECKING:
    from sqc.kernel import Kernel
    from sqc.program import Program

LOOK, AIM = (0.25, 8), (0.35, 32)
"""Shares of the budget for new points, and their seeds."""
ROUNDS, LEADERS, ROUND = 8, 4, 0.025
"""How often how many of the best share which part of the budget."""
BUDGET, LEAST_BUDGET = 4000, 200
_TOGETHER = 4
"""Points that are asked for at once, so that all cores have work."""


class _Search:
    def __init__(
        self,
        kernel: Kernel,
        fixed: Mapping[str, float],
        minimize: Expression,
        bounds: Sequence[Bound],
        setting: tuple[float, float],
        spent: Callable[[int], None],
    ) -> None:
        self.kernel, self.fixed, self.minimize, self.bounds = kernel, fixed, minimize, bounds
        self.horizon, self.warmup = setting
        self.spent = spent
        self.tried: list[Tried] = []
        self.blocks: list[Block] = []

    def run(self, of: Sequence[Tried], first: int, seeds: int) -> None:
        """Run so many further seeds at each point, from number `first` (they count from 1)."""
        numbers = np.arange(first, first + seeds, dtype=np.uint64)
        places = np.repeat([tried.number for tried in of], seeds)
        inputs = {
            name: np.repeat([{**self.fixed, **tried.inputs}[name] for tried in of], seeds)
            for name in self.kernel.inputs
        }
        lanes = np.tile(numbers, len(of))
        batch = run(self.kernel, lanes, self.horizon, self.warmup, inputs)
        self.blocks.append(Block(places, lanes, batch.metrics, batch.failures))
        values = self.minimize.values(batch.metrics, inputs)
        excess = [each.excess.values(batch.metrics, inputs) for each in self.bounds]
        for k, tried in enumerate(of):
            part = slice(k * seeds, (k + 1) * seeds)
            failed = sum(k * seeds <= lane < (k + 1) * seeds for lane in batch.failures)
            tried.add(values[part], [each[part] for each in excess], failed)
        self.spent(len(lanes))

    def new_points(self, sampler: Sampler, count: int, seeds: int) -> None:
        for start in range(0, count, _TOGETHER):
            size = min(_TOGETHER, count - start)
            fresh = [Tried(len(self.tried) + k, sampler.ask(), len(self.bounds)) for k in range(size)]
            self.tried += fresh
            self.run(fresh, 1, seeds)
            for tried in fresh:
                sampler.tell(tried.value.mean, tried.violation(1.0))


def _best(count: int, of: Iterable[Tried]) -> list[Tried]:
    """The first so many: those that keep all bounds with confidence by value, then the others by violation."""

    def rank(tried: Tried) -> tuple[float, float]:
        if math.isnan(tried.value.mean):
            return math.inf, 0.0
        return tried.violation(student_quantile(CONFIDENCE, tried.seeds - 1)), tried.value.mean

    return sorted(of, key=rank)[:count]


def optimize(
    program: Program,
    minimize: str,
    *,
    over: Mapping[str, str],
    horizon: Number,
    warmup: Number = 0.0,
    subject_to: str | Sequence[str] = (),
    sets: Mapping[str, Number] | None = None,
    budget: int = BUDGET,
    seed: int = 1,
    mode: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Outcome:
    """The inputs in a box at which the mean of an expression is least, as far as `budget` runs tell.

        found = sqc.optimize(program, "1e-6 * C + client.response.mean", over={"C": "1e4:2e5"},
                             subject_to="client.response.p99 <= 0.25", horizon=2e4, warmup=2e3)
        found.inputs, found.value.mean, found.value.half()

    `over` maps inputs to intervals, `"LOW:HIGH"` or `"LOW:HIGHlog"`; `sets` gives other inputs. `subject_to`: bounds
    on means over runs, `EXPRESSION <= EXPRESSION` or `>=`. `seed` decides which points are tried. How the budget is
    spent: see the module. `progress` is called with the number of runs done and of all.

    Raises InputError for wrong arguments and NoOptuna where Optuna is not installed.
    """
    end, start, _ = times(horizon, warmup, None)
    check_names(over, program.inputs)
    if not over:
        raise InputError("optimize: over which inputs? (--over NAME=LOW:HIGH)")
    box = sides(over)
    twice = next((name for name in over if name in (sets or {})), None)
    if twice is not None:
        raise InputError(f"input {twice} is set and searched over")
    fixed = point(sets or {}, program.inputs)
    if budget < LEAST_BUDGET:
        raise InputError(f"budget {budget}: at least {LEAST_BUDGET} runs")
    sampler = Sampler(box, checked_seed(seed))
    kernel = program.kernel(mode=mode)
    names = list(program.inputs)
    wanted = expression(minimize, names, kernel.metrics)
    texts = [subject_to] if isinstance(subject_to, str) else list(subject_to)
    bounds = [bound(text, names, kernel.metrics) for text in texts]

    done = 0

    def spent(lanes: int) -> None:
        nonlocal done
        done += lanes
        if progress is not None:
            progress(done, budget)

    search = _Search(kernel, fixed, wanted, bounds, (end, start), spent)
    for share, seeds in (LOOK, AIM):
        search.new_points(sampler, int(share * budget) // seeds, seeds)
    leaders: dict[int, Tried] = {}
    for _ in range(ROUNDS):
        for tried in _best(LEADERS, search.tried):
            search.run([tried], tried.seeds + 1, max(1, int(ROUND * budget) // LEADERS))
            leaders[tried.number] = tried
    (best,) = _best(1, leaders.values())
    verdict = Tried(best.number, best.inputs, len(bounds))
    unseen = max(tried.seeds for tried in search.tried) + 1
    search.run([verdict], unseen, max(2, budget - done))
    return Outcome(
        program=program.ir.file,
        minimize=minimize,
        bounds=tuple(texts),
        horizon=end,
        warmup=start,
        over=box,
        fixed={name: value for name, value in fixed.items() if name not in over},
        verdict=verdict,
        tried=tuple(search.tried),
        blocks=tuple(search.blocks),
        spent=done,
    )

"""The adapter to Optuna (extra `search`): which points to try next, by ask and tell.

Goal: a search in a box of a few inputs, with bounds, from one seed. Non-goals: noise (whoever tells decides how
many runs a point is worth) and parallel workers.

Optuna's tree-structured Parzen estimator splits what it was told into good and bad by rank alone. So bounds need
no more than an order: a point that keeps them comes before all that do not, among the former the lower value is
first, among the latter the smaller violation. The numbers told have that order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_VIOLATED, _WORST = 1e300, 1e306
"""Above any value: points that break a bound, from here on; ones whose runs fail or define nothing."""
_DIGITS = 6


class NoOptuna(Exception):
    """A search needs Optuna and it is not installed; one line says what to do."""

    def __init__(self) -> None:
        super().__init__("a search needs optuna: python -m pip install 'sqc[search]'")


class Sampler:
    """Points in a box: `sides` has for each input its ends and whether ratios count. `seed` decides all."""

    def __init__(self, sides: Mapping[str, tuple[float, float, bool]], seed: int) -> None:
        try:
            import optuna
        except ModuleNotFoundError as error:
            if error.name != "optuna":
                raise
            raise NoOptuna from None
        self._ends = {name: (min(low, high), max(low, high)) for name, (low, high, _) in sides.items()}
        self._box: dict[str, Any] = {
            name: optuna.distributions.FloatDistribution(*self._ends[name], log=logarithmic)
            for name, (_, _, logarithmic) in sides.items()
        }
        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)  # it would announce the study on stderr
        try:
            self._study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed % 2**32))
        finally:
            optuna.logging.set_verbosity(verbosity)
        self._asked: list[Any] = []

    def ask(self) -> dict[str, float]:
        """The next point, six significant digits each; points are told about in the order in which they were asked."""
        trial = self._study.ask(fixed_distributions=self._box)
        self._asked.append(trial)
        rounded = {name: float(f"{value:.{_DIGITS}g}") for name, value in trial.params.items()}
        return {name: min(max(value, self._ends[name][0]), self._ends[name][1]) for name, value in rounded.items()}

    def tell(self, value: float, violation: float) -> None:
        """What came out at the first point not yet told about: its value, and by how much it breaks bounds (0: not
        at all). A value that is NaN, or an infinite violation, is the worst there is."""
        told = value
        if math.isnan(value) or math.isinf(violation):
            told = _WORST
        elif violation > 0:
            told = _VIOLATED * (1 + min(violation, 1e5))
        self._study.tell(self._asked.pop(0), told)

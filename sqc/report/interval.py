"""Intervals of means from one run: 20 batches of samples, 20 windows of time."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

BATCHES = 20
STUDENT_19 = 2.093  # the 97.5 % quantile of Student's t with 19 degrees of freedom, as the reference rounds it

Array: TypeAlias = NDArray[Any]


def half_width(means: Array) -> float:
    """Half width of the 95 % interval of the mean of `BATCHES` batch means; NaN where one is not finite."""
    if not np.isfinite(means).all():
        return math.nan
    return STUDENT_19 * math.sqrt(float(means.var(ddof=1)) / BATCHES)


def batch_means(values: Array) -> float:
    """Half width of the 95 % interval of the mean from 20 consecutive batches; NaN below 40 values.

    What is left over behind the last whole batch does not count.
    """
    size = len(values) // BATCHES
    if size < 2:
        return math.nan
    with np.errstate(invalid="ignore"):  # of inf and -inf in one batch
        means = values[: BATCHES * size].reshape(BATCHES, size).mean(axis=1)
    return half_width(means)


def window_means(time: Array, value: Array, start: float, end: float) -> Array:
    """Means over 20 equal windows of `[start, end]` of a signal that takes `value` from each `time` on.

    `time` ascends and begins at or before `start`. Each window is summed on its own: differences of
    one long integral would lose digits. A value that is not finite makes its windows so.
    """
    edges = start + (end - start) * np.arange(BATCHES + 1) / BATCHES
    edges[-1] = end
    inside = time[(time > start) & (time < end)]
    cuts = np.union1d(edges, inside)
    held = value[np.searchsorted(time, cuts[:-1], side="right") - 1]
    window = np.searchsorted(edges, cuts[:-1], side="right") - 1
    with np.errstate(invalid="ignore"):  # of inf and -inf in one window
        area = np.bincount(window, weights=held * np.diff(cuts), minlength=BATCHES)
    means: Array = area / np.diff(edges)
    return means

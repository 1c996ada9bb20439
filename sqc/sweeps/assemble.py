"""From blocks of finished lanes, in any order, to the table of the sweep."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqc.sweeps.experiment import Block, Experiment
from sqc.sweeps.looks import CONFIDENCE, nominal_confidence
from sqc.sweeps.spread import Floats, Ints
from sqc.sweeps.table import Sweep
from sqc_runtime.histogram import Pooled, added

_NONE: Pooled = {}


def assemble(experiment: Experiment, metrics: Sequence[str], blocks: Sequence[Block]) -> Sweep:
    """The table of all lanes in these blocks; the rest of the experiment is not done."""
    lanes, done = _filled(experiment, metrics, blocks)
    counts = _asked(experiment, lanes, done)
    width = done.shape[1]
    failures: dict[int, Any] = {}
    for block in blocks:
        flat = block.points * width + experiment.numbers_of(block.seeds)
        failures |= {int(flat[place]): failed for place, failed in block.failures.items()}
    until = experiment.until
    return Sweep.of(
        lanes,
        failures,
        program=experiment.program.file,
        inputs=experiment.inputs,
        points=experiment.points,
        seeds=experiment.seeds_of(np.arange(width)).tolist(),
        horizon=experiment.horizon,
        warmup=experiment.warmup,
        arrivals=experiment.arrivals,
        mode=experiment.mode,
        done=done,
        asked=experiment.asked(counts, width),
        pooled=functools.reduce(added, (block.pooled for block in blocks), _NONE),
        until=until,
        confidence=nominal_confidence(until.sizes(len(experiment.seeds))) if until else CONFIDENCE,
    )


def standing(experiment: Experiment, blocks: Sequence[Block]) -> tuple[NDArray[np.bool_], Ints]:
    """Which lanes are done, [points, seeds], and how many seeds each point is to have, as far as that is known."""
    targets = tuple(experiment.until.targets) if experiment.until else ()
    lanes, done = _filled(experiment, targets, blocks)
    return done, _asked(experiment, lanes, done)


def _filled(
    experiment: Experiment, metrics: Sequence[str], blocks: Sequence[Block]
) -> tuple[dict[str, Floats], NDArray[np.bool_]]:
    """Metrics as arrays [points, seeds] of all lanes that are done, and which those are."""
    places = [(block.points, experiment.numbers_of(block.seeds)) for block in blocks]
    width = max([len(experiment.seeds), *(int(numbers.max(initial=-1)) + 1 for _, numbers in places)])
    shape = (len(experiment.points), width)
    done = np.zeros(shape, bool)
    lanes = {name: np.full(shape, np.nan) for name in metrics}
    for block, place in zip(blocks, places, strict=True):
        done[place] = True
        for name in metrics:
            lanes[name][place] = block.metrics[name]
    return lanes, done


def _asked(experiment: Experiment, lanes: Mapping[str, Floats], done: NDArray[np.bool_]) -> Ints:
    first = len(experiment.seeds)
    if experiment.until is None:
        return np.full(len(experiment.points), first)
    return experiment.until.asked(first, lanes, done)

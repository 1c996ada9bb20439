"""What a sweep is to run, and the blocks of finished lanes that come out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sqc.sweeps.looks import Until
from sqc.sweeps.shards import Shard
from sqc.sweeps.spread import Floats, Ints
from sqc_runtime.histogram import Pooled

if TYPE_CHECKING:
    from sqc import ir


class LaneFailed(Protocol):
    """What the kernel says about a lane that broke a run-time rule."""

    @property
    def code(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def time(self) -> float: ...
    @property
    def session(self) -> int: ...
    @property
    def span(self) -> ir.Span | None: ...


@dataclass(frozen=True, eq=False)
class Experiment:
    """Points times seeds, and the times of each run.

    `inputs` has the default of every input in the order of the program; a point overrides some.
    `seeds` are those that every point has; with `until`, further ones follow the largest. An
    `arrivals` limit of inf is none.
    """

    program: ir.Program
    inputs: Mapping[str, float]
    points: tuple[Mapping[str, float], ...]
    seeds: tuple[int, ...]
    horizon: float
    warmup: float
    arrivals: float
    mode: str
    until: Until | None = None
    skip: bool = True
    """Whether equal iterations of step stages are taken at once (the last digits depend on it)."""
    shard: Shard | None = None
    """The part of the lanes that is run here (None: all); no part of what the sweep is."""

    def whole(self) -> Experiment:
        """The experiment of which this is a part."""
        return replace(self, shard=None)

    def asked(self, counts: Ints, width: int) -> NDArray[np.bool_]:
        """The lanes to run, [points, width], where each point is to have so many seeds."""
        asked: NDArray[np.bool_] = np.arange(width) < counts[:, None]
        return asked if self.shard is None else asked & self.shard.mask(asked.shape)

    def seeds_of(self, numbers: Ints) -> NDArray[np.uint64]:
        """The seeds with these numbers, from 0; past the named ones they go on after the largest."""
        named, count = np.array(self.seeds, np.uint64), len(self.seeds)
        seeds = named[np.minimum(numbers, count - 1)]
        late = numbers >= count
        seeds[late] = named.max() + (numbers[late] - count + 1).astype(np.uint64)
        return seeds

    def numbers_of(self, seeds: NDArray[np.uint64]) -> Ints:
        """Undoes `seeds_of`."""
        named, count = np.array(self.seeds, np.uint64), len(self.seeds)
        order = np.argsort(named)
        near = order[np.minimum(np.searchsorted(named, seeds, sorter=order), count - 1)]
        further = (seeds - named.max() - np.uint64(1)).astype(np.int64) + count
        return np.where(named[near] == seeds, near, further)

    def columns(self, points: Ints) -> dict[str, Floats]:
        """The value of every input for lanes at these points."""
        return {
            name: np.array([point.get(name, default) for point in self.points], np.float64)[points]
            for name, default in self.inputs.items()
        }


@dataclass(frozen=True, eq=False)
class Block:
    """Finished lanes: their points and seeds, metrics as arrays [lanes] (NaN where undefined or failed),
    failures by place in the block, and the histograms of samples by point and row."""

    points: Ints
    seeds: NDArray[np.uint64]
    metrics: Mapping[str, NDArray[Any]]
    failures: Mapping[int, LaneFailed] = field(default_factory=dict)
    pooled: Pooled = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.points)

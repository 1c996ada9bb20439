"""Runs an experiment, block of lanes after block, all through one kernel.

Seeds come in groups, and of each group all points are run before the next: a sweep that ends early has
every point with fewer seeds. With a store each block is written as it is finished, and lanes that are there
are not run again.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sqc.sweeps.assemble import assemble, standing
from sqc.sweeps.experiment import Block, Experiment
from sqc.sweeps.spread import Ints
from sqc.sweeps.table import Sweep, SweepInterrupted

if TYPE_CHECKING:
    from sqc.kernel import Kernel, LaneBatch
    from sqc.sweeps.store import Store

Progress = Callable[[int, int], None]
"""Called with the number of lanes done and of all lanes that are asked for so far."""

LOCAL, RAY = "local", "ray"
"""Engines: what runs the blocks."""
GROUP = 16
"""Seeds of a group: the lanes of one call of a native kernel."""
_MOST = {"native": 1 << 14, "portable": 1 << 12}
"""Lanes of a block, at most."""
_FIRST, _LEAST = GROUP, 4
"""Lanes of the first stored block, and of any."""
_LEAST_SECONDS, _MOST_SECONDS, _SHARE = 2.0, 60.0, 1 / 30
"""What a stored block is to take: a share of the time gone by, within bounds."""


def run(
    experiment: Experiment,
    kernel: Kernel,
    *,
    store: Store | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    block: int | None = None,
    engine: str = LOCAL,
    address: str | None = None,
) -> Sweep:
    """Run what is not in the store yet; the table of all. Ctrl-C raises SweepInterrupted with what is finished.

    `block`: lanes of a block; by default as many as take some seconds. `engine`: "local", or "ray" for the tasks of a
    Ray cluster at `address`.
    """
    metrics = kernel.metrics
    finished: list[Block] = store.finished if store else []
    keep = store.add if store else finished.append
    with contextlib.ExitStack() as connections:
        if engine == RAY:
            from sqc.sweeps import cluster

            ray = connections.enter_context(cluster.connected(address))
            sizes: Iterator[int] = itertools.repeat(block or cluster.BLOCK)
        else:
            sizes = block_sizes(block, experiment.mode, stored=store is not None)
        try:
            while True:
                points, numbers, before = _todo(experiment, finished)
                if not len(points):
                    break
                if store:
                    store.prepare()
                told = None if progress is None else _Told(progress, before, before + len(points))
                pieces = _pieces(points, experiment.seeds_of(numbers), sizes)
                if engine == RAY:
                    made = cluster.blocks(ray, experiment, pieces)
                else:
                    made = _here(experiment, kernel, pieces, threads, told)
                with contextlib.closing(made):
                    for one in made:
                        keep(one)
                        if told:
                            told.kept(len(one), tell=engine == RAY)
        except _Stopped as stop:
            if stop.partial is not None:
                keep(stop.partial)
            raise SweepInterrupted(assemble(experiment, metrics, finished)) from None
        except KeyboardInterrupt:
            raise SweepInterrupted(assemble(experiment, metrics, finished)) from None
    return assemble(experiment, metrics, finished)


class _Stopped(Exception):
    """Ctrl-C within a block; `partial` has the lanes of it that were finished."""

    def __init__(self, partial: Block | None):
        super().__init__()
        self.partial = partial


class _Told:
    """Progress over all blocks."""

    def __init__(self, progress: Progress, before: int, total: int):
        self._progress, self._before, self._total = progress, before, total

    def kept(self, lanes: int, tell: bool) -> None:
        """A block is done; `tell` where nothing was said within it."""
        self._before += lanes
        if tell:
            self.within(0)

    def within(self, lanes: int) -> None:
        """So many lanes of the block that is run now."""
        self._progress(self._before + lanes, self._total)


def _pieces(points: Ints, seeds: NDArray[np.uint64], sizes: Iterator[int]) -> Iterator[tuple[Ints, NDArray[np.uint64]]]:
    """The lanes of one block after the other; a size is asked for when its block is."""
    while len(points):
        size = next(sizes)
        yield points[:size], seeds[:size]
        points, seeds = points[size:], seeds[size:]


def _here(
    experiment: Experiment,
    kernel: Kernel,
    pieces: Iterator[tuple[Ints, NDArray[np.uint64]]],
    threads: int | None,
    told: _Told | None,
) -> Generator[Block]:
    """The blocks, run by this process."""
    from sqc.kernel import Interrupted

    for points, seeds in pieces:
        try:
            batch = kernel.lanes(
                seeds,
                horizon=experiment.horizon,
                warmup=experiment.warmup,
                arrivals=experiment.arrivals,
                inputs=experiment.columns(points),
                threads=threads,
                progress=None if told is None else told.within,
                pool=points,
            )
        except Interrupted as stop:
            raise _Stopped(_part(points, seeds, stop.partial, stop.done) if stop.done.any() else None) from None
        yield Block(points, seeds, batch.metrics, batch.failures, batch.pooled)


def _todo(experiment: Experiment, finished: list[Block]) -> tuple[Ints, Ints, int]:
    """Points and seed numbers of the lanes that are to be run now, in their order; how many are done."""
    done, counts = standing(experiment, finished)
    asked = experiment.asked(counts, max(int(counts.max()), done.shape[1]))
    asked[:, : done.shape[1]] &= ~done
    points, numbers = np.nonzero(asked)
    order = np.lexsort((numbers, points, numbers // GROUP))
    return points[order], numbers[order], int(done.sum())


def block_sizes(block: int | None, mode: str, stored: bool) -> Iterator[int]:
    """Lanes of one block after the other; where blocks are stored, native ones take some seconds each."""
    most = _MOST[mode]
    if block is not None or not stored or mode != "native":
        while True:
            yield block or most
    size, started = _FIRST, time.monotonic()
    while True:
        before = time.monotonic()
        yield size
        now = time.monotonic()
        wanted = min(max(_LEAST_SECONDS, _SHARE * (now - started)), _MOST_SECONDS)
        rate = size / max(now - before, 1e-3)
        size = int(min(max(rate * wanted, _LEAST), 8 * size, most))
        size -= size % GROUP if size > GROUP else 0


def _part(points: Ints, seeds: NDArray[np.uint64], batch: LaneBatch, done: NDArray[np.bool_]) -> Block:
    """The finished lanes of a batch."""
    place = np.cumsum(done) - 1
    return Block(
        points[done],
        seeds[done],
        {name: values[done] for name, values in batch.metrics.items()},
        {int(place[lane]): failed for lane, failed in batch.failures.items()},
        batch.pooled,
    )

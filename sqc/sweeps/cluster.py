"""Blocks of lanes as tasks of a Ray cluster (extra `ray`).

Each worker builds the kernel once and keeps it. Blocks come back as they are finished; one whose worker or node is lost
is run again elsewhere, by Ray. A lane's result depends on neither, so the rows are those of a sweep on one machine.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import logging
import socket
import sys
from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sqc import ir
from sqc.sweeps.experiment import Block, Experiment
from sqc.sweeps.spread import Ints

ATTEMPTS = 5
"""How often a block is run again that was lost with its worker."""
BLOCK = 256
"""Lanes of a task, if nothing else is asked for."""
_AHEAD = 2
"""Tasks in flight for each processor."""

Piece = tuple[Ints, NDArray[np.uint64]]


class ClusterError(Exception):
    """The cluster cannot be used, or lost a block too often. The text is one line."""


class Given(NamedTuple):
    """What a worker must know to run lanes."""

    program: str
    """The IR as JSON."""
    mode: str
    skip: bool
    horizon: float
    warmup: float
    arrivals: float


@contextlib.contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Ray, connected: to `address`, to what the environment names, or to a cluster of this machine's own."""
    if importlib.util.find_spec("ray") is None:
        raise ClusterError('the engine ray needs the package ray: pip install "sqc[ray]"')
    import ray

    mine = not ray.is_initialized()
    with contextlib.redirect_stdout(sys.stderr):  # where Ray says what it has lost; stdout is for the table
        if mine:
            try:
                _knock(address)
                ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
            except (ConnectionError, RuntimeError, ValueError, OSError) as error:
                first = next(iter(str(error).splitlines()), type(error).__name__)
                raise ClusterError(f"no Ray cluster at {address or 'this machine'}: {first}") from None
        try:
            yield ray
        finally:
            if mine:
                ray.shutdown()


def _knock(address: str | None) -> None:
    """Whether somebody answers at HOST:PORT: Ray itself would try for minutes. Raises OSError."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def blocks(ray: Any, experiment: Experiment, pieces: Iterator[Piece]) -> Generator[Block]:
    """The blocks of these lanes, in the order in which they are finished."""
    given = ray.put(
        Given(
            ir.to_json(experiment.program),
            experiment.mode,
            experiment.skip,
            experiment.horizon,
            experiment.warmup,
            experiment.arrivals,
        )
    )
    task = ray.remote(num_cpus=1, max_retries=ATTEMPTS)(_run)
    waiting: dict[Any, Piece] = {}
    more = True
    try:
        while more or waiting:
            room = _AHEAD * max(int(ray.cluster_resources().get("CPU", 1)), 1)
            while more and len(waiting) < room:
                piece = next(pieces, None)
                more = piece is not None
                if piece is not None:
                    waiting[task.remote(given, piece[0], piece[1], experiment.columns(piece[0]))] = piece
            if waiting:
                (ready, *_), _ = ray.wait(list(waiting), num_returns=1)
                points, seeds = waiting.pop(ready)
                yield Block(points, seeds, *_result(ray, ready))
    finally:
        for left in waiting:
            ray.cancel(left, force=True)


def _result(ray: Any, task: Any) -> Any:
    try:
        return ray.get(task)
    except ray.exceptions.RayTaskError as error:
        last = str(error.cause or error).strip().splitlines()[-1]
        raise ClusterError(f"a worker failed: {last}") from None
    except ray.exceptions.RayError as error:
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise ClusterError(f"a block was lost {ATTEMPTS + 1} times: {first}") from None


def _run(given: Given, points: Ints, seeds: NDArray[np.uint64], inputs: dict[str, NDArray[Any]]) -> Any:
    """On a worker: the lanes of one block; metrics, failures, pooled samples."""
    kernel = _kernel(given.program, given.mode, given.skip)
    batch = kernel.lanes(
        np.array(seeds),  # what Ray hands over cannot be written to
        horizon=given.horizon,
        warmup=given.warmup,
        arrivals=given.arrivals,
        inputs={name: np.array(values) for name, values in inputs.items()},
        threads=1,
        pool=np.array(points),
    )
    return dict(batch.metrics), dict(batch.failures), batch.pooled


@functools.lru_cache(maxsize=4)
def _kernel(program: str, mode: str, skip: bool) -> Any:
    from sqc.program import Program

    return Program(ir.from_json(program)).kernel(mode=mode, skip=skip)

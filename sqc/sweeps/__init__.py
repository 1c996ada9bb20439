"""Sweeps: points times seeds as an experiment, its table, its statistics, and its store on disk.

grids, design, pointfile   the points: lists and ranges, space-filling designs, files
experiment                 what is to be run: points, seeds, times, when to stop
runner                     runs it, block of lanes after block
looks                      when the seeds of a point suffice
store, manifest, blocks    a folder that keeps it: what is run, one Parquet file per block
shards                     a sweep in parts, and their merging
cluster                    blocks as the tasks of a Ray cluster
assemble, table            from blocks to the result
spread, student, baseline  its statistics over seeds; paired differences
text, frames               the result as text, for pandas and for xarray
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sqc.sweeps.design import design
from sqc.sweeps.errors import StoreError
from sqc.sweeps.shards import merge as merge_sweeps
from sqc.sweeps.table import Sweep, SweepInterrupted

__all__ = ["StoreError", "Sweep", "SweepInterrupted", "design", "merge_sweeps", "open_sweep", "resume_sweep"]


def open_sweep(path: str | Path) -> Sweep:
    """The sweep that a folder holds, as far as it is finished.

    Raises StoreError, one line, if the folder holds none or a file in it is damaged.
    """
    return Sweep.open(path)


def resume_sweep(
    path: str | Path,
    *,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    block: int | None = None,
    engine: str = "local",
    address: str | None = None,
    cache_dir: Path | None = None,
) -> Sweep:
    """Run what the sweep in a folder still lacks; the program and all else are as stored there.

    The arguments are those of `Program.sweep`; `cache_dir` is that of a program.
    """
    from sqc.program import Program
    from sqc.sweeps.runner import run
    from sqc.sweeps.store import Store

    with Store.resume(Path(path)) as store:
        program = Program(store.experiment.program)
        program.cache_dir = cache_dir
        kernel = program.kernel(mode=store.experiment.mode, skip=store.experiment.skip)
        store.check(store.experiment, kernel.metrics)
        return run(
            store.experiment,
            kernel,
            store=store,
            threads=threads,
            progress=progress,
            block=block,
            engine=engine,
            address=address,
        )

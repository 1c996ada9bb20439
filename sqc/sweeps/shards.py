"""A sweep in parts: one process, or one machine of a batch system, runs the lanes of one shard.

Which shard a lane belongs to depends on its point and its seed's number alone, so the parts can be run anywhere, in any
order, and each can be resumed. A shard's folder is a store whose manifest also says which part it is; `merge` makes the
store of the whole sweep of them.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sqc.inputs import InputError
from sqc.sweeps.errors import StoreError
from sqc.sweeps.spread import Ints

if TYPE_CHECKING:
    from sqc.sweeps.store import Store
    from sqc.sweeps.table import Sweep

_TOGETHER = 16
"""Neighbouring seeds of a point that are run by the same part: the lanes of one call of a native kernel."""


class Shard(NamedTuple):
    """Part number `part` of `of`, counted from 1."""

    part: int
    of: int

    def __str__(self) -> str:
        return f"{self.part}/{self.of}"

    def has(self, points: Ints, numbers: Ints) -> NDArray[np.bool_]:
        """Whether lanes belong to this part: one entry for each point and number of a seed."""
        mine: NDArray[np.bool_] = (points + numbers // _TOGETHER) % self.of == self.part - 1
        return mine

    def mask(self, shape: tuple[int, int]) -> NDArray[np.bool_]:
        """The lanes of this part, [points, seeds]."""
        points, numbers = np.indices(shape)
        return self.has(points, numbers)


def shard(given: str | tuple[int, int]) -> Shard:
    """The part that `2/8`, or a pair, names."""
    if isinstance(given, str):
        found = re.fullmatch(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*", given)
        if found is None:
            raise InputError(f"shard {given}: write I/N, part I of N parts, as 2/8")
        part, of = map(int, found.groups())
    else:
        part, of = given
    if not 1 <= part <= of:
        raise InputError(f"shard {part}/{of}: parts are counted from 1 to their number")
    return Shard(part, of)


def merge(folders: Sequence[str | Path], out: str | Path) -> Sweep:
    """The sweep that shards are the parts of, as a store in the folder `out`; returns its table.

    Raises InputError where the folders are not all the shards of one sweep, each finished; StoreError where one is
    damaged, or `out` is there. Nothing is written then.
    """
    from sqc.sweeps.store import Store

    target = Path(out)
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise StoreError(target, "there already, and not an empty folder")
    stores = [Store.open(Path(folder)) for folder in folders]
    _check(stores)
    first = stores[0]
    target.parent.mkdir(parents=True, exist_ok=True)
    workshop = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        whole = first.experiment.whole()
        with Store.create(workshop, whole, first.metrics) as made:
            for store in sorted(stores, key=_part):
                for block in store.finished:
                    made.add(block)
            table = made.sweep()
        os.replace(workshop, target)
    except BaseException:
        shutil.rmtree(workshop, ignore_errors=True)
        raise
    return table


def _part(store: Store) -> int:
    given = store.experiment.shard
    return given.part if given is not None else 0


def _check(stores: Sequence[Store]) -> None:
    """All parts of one sweep, each once, each finished."""
    if not stores:
        raise InputError("no folders to merge")
    first, seen = stores[0], dict[int, Path]()
    for store in stores:
        part = store.experiment.shard
        if part is None:
            raise InputError(f"{store.folder}: a whole sweep, not a shard of one")
        problem = store.differs(first)
        if problem:
            raise InputError(f"{store.folder}: not of the sweep of {first.folder}: {problem}")
        if part.of != _of(first):
            raise InputError(f"{store.folder}: shard {part}, and {first.folder} is shard {first.experiment.shard}")
        if part.part in seen:
            raise InputError(f"{store.folder}: shard {part}, as {seen[part.part]}")
        seen[part.part] = store.folder
        if store.sweep().interrupted:
            raise InputError(f"{store.folder}: not finished (`sqc sweep {store.folder} --resume` goes on)")
    missing = [str(Shard(part, _of(first))) for part in range(1, _of(first) + 1) if part not in seen]
    if missing:
        raise InputError(f"no shard {', '.join(missing[:5])}{', ...' if len(missing) > 5 else ''}")


def _of(store: Store) -> int:
    given = store.experiment.shard
    assert given is not None
    return given.of

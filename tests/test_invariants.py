"""The debug mode of a kernel: nothing is broken on the corpus, and what is broken is noticed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness import corpus_program
from sqc_runtime.cache import Cache
from sqc_runtime.core import Core
from sqc_runtime.pools import Pool

#: Programs that between them use every policy of a pool, growth, leases, legs and arrays.
PROGRAMS = (
    *("c03_queue_aging", "c05_two_pools", "c06_conversation_slot", "c07_reserve", "c09_grow_lifo", "c11_lease"),
    *("d02_cache_blocks", "d03_evict_by", "d05_reuse", "d09_spill", "e02_cache_routing", "h01_fork_join"),
)
SEEDS = np.arange(1, 9, dtype=np.uint64)
SETTING: dict[str, Any] = {"horizon": 400.0, "warmup": 40.0}


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_hold(name: str) -> None:
    """No lane fails, and every metric is the one of a kernel that does not look."""
    program = corpus_program(name)
    looking = program.kernel(debug=True).lanes(SEEDS, **SETTING)
    assert not looking.failures
    plain = program.kernel().lanes(SEEDS, **SETTING)
    for metric, values in plain.metrics.items():
        assert np.array_equal(looking.metrics[metric], values, equal_nan=True), metric


def always_fits(_self: Pool, m: Any, _units: Any, _i: Any) -> Any:
    return m.full(True, np.bool_)


def still_counted(self: Pool, m: Any, _slot: Any, i: Any) -> None:
    """Who is admitted leaves the queue, but its length does not say so."""
    self._ring.pop(m, i)


def not_subtracted(self: Cache, m: Any, entry: Any, _i: Any) -> Any:
    """An entry leaves the list, and its units are still counted as cached."""
    size, before, after = m.f(self.size + entry), m.u(self._prev + entry), m.u(self._next + entry)
    m.setu(self._next + before, after)
    m.setu(self._prev + after, before)
    return size


def loses_the_slot(_self: Core, _m: Any, _slot: Any) -> None:
    """The slot of an ended session is never free again."""


@pytest.mark.parametrize(
    ("name", "owner", "method", "broken"),
    [
        ("c05_two_pools", Pool, "fits", always_fits),
        ("c01_memory_hol", Pool, "leave_queue", still_counted),
        ("d07_no_drop", Cache, "_unlink", not_subtracted),
        ("a01_fifo_mm1", Core, "release", loses_the_slot),
    ],
)
def test_a_defect_is_noticed(name: str, owner: type, method: str, broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, method, broken)
    batch = (
        corpus_program(name).kernel(debug=True, capacities={"sessions": 1024, "entries": 1024}).lanes(SEEDS, **SETTING)
    )
    assert {failure.code for failure in batch.failures.values()} == {"R199"}
    assert len(batch.failures) == len(SEEDS)

"""The debug mode of a kernel: nothing is broken on the corpus, and what is broken is noticed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness import corpus_program
from sqc.codegen.growth import GREW, Growing
from sqc_runtime.cache import Cache
from sqc_runtime.core import Core
from sqc_runtime.engine import Engine
from sqc_runtime.pools import Pool
from sqc_runtime.stages import Stage

#: Programs that between them use every policy of a pool, growth, leases, legs, arrays and engines.
PROGRAMS = (
    *("c03_queue_aging", "c05_two_pools", "c06_conversation_slot", "c07_reserve", "c09_grow_lifo", "c11_lease"),
    *("d02_cache_blocks", "d03_evict_by", "d05_reuse", "d09_spill", "e02_cache_routing", "h01_fork_join"),
    *("f04_vllm_like", "i04_station_engine"),
)
SEEDS = np.arange(1, 9, dtype=np.uint64)
SETTING: dict[str, Any] = {"horizon": 400.0, "warmup": 40.0}


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_hold(name: str) -> None:
    """No lane fails, and every metric is the one of a kernel that does not look (every iteration is simulated)."""
    program = corpus_program(name)
    looking = program.kernel(debug=True).lanes(SEEDS, **SETTING)
    assert not looking.failures
    plain = program.kernel(skip=False).lanes(SEEDS, **SETTING)
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


JOIN: Any = Engine.join


def still_decodes(self: Engine, m: Any, slot: Any, i: Any) -> None:
    """Who leaves an engine is counted as decoding still."""
    Stage.depart(self, m, slot, i)
    m.setu(self.core.su(slot, self.mode), np.uint32(0))


def comes_first(self: Engine, m: Any, slot: Any, *rest: Any) -> None:
    """The last one to come is placed before all others."""
    JOIN(self, m, slot, *rest[:-1], m.full(-1.0, np.float64))
    m.setf(self.core.sf(slot, self.order), rest[-1])


def is_resident_still(_self: Engine, _m: Any, _i: Any) -> None:
    """Who has left stays in the list."""


def keeps_its_tokens(self: Engine, m: Any, slot: Any, i: Any) -> None:
    """Who is displaced from the batch keeps the tokens that it had got."""
    m.setu(self._batched, np.uint32(0))
    self.batch(m, slot, m.f(self.core.sf(slot, self.tokens)), i)


def grows_for_nothing(self: Growing, m: Any, _name: str, slot: Any, field: Any, amount: Any, _i: Any) -> None:
    """A hold grows, and its pool does not know of it."""
    m.addf(self.context.core.layout.slot("f", slot) + field, amount)
    m.setu(self._found, np.uint32(GREW))


# Each has a program of its own: a program keeps its kernels, the broken ones too.
@pytest.mark.parametrize(
    ("name", "owner", "method", "broken"),
    [
        ("c05_two_pools", Pool, "fits", always_fits),
        ("c01_memory_hol", Pool, "leave_queue", still_counted),
        ("d07_no_drop", Cache, "_unlink", not_subtracted),
        ("a01_fifo_mm1", Core, "release", loses_the_slot),
        ("f02_step_open", Engine, "depart", still_decodes),
        ("f03_admit_via", Engine, "join", comes_first),
        ("f06_serve_by", Engine, "_compact", is_resident_still),
        ("f07_exclusive", Engine, "displace", keeps_its_tokens),
        ("f04_vllm_like", Growing, "_attempt", grows_for_nothing),
    ],
)
def test_a_defect_is_noticed(name: str, owner: type, method: str, broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, method, broken)
    batch = (
        corpus_program(name).kernel(debug=True, capacities={"sessions": 1024, "entries": 1024}).lanes(SEEDS, **SETTING)
    )
    assert {failure.code for failure in batch.failures.values()} == {"R199"}
    assert len(batch.failures) == len(SEEDS)

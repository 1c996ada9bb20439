"""The portable path (the lane program in JAX; what other backends run) agrees with the native one on CPU.

Counters are equal and values agree to 1e-9, for 16 seeds at a short horizon: in lockstep over the lanes
XLA may contract and order arithmetic differently, so the last bits are not promised.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import sqc
from compare import COUNTERS, RELATIVE, agree
from harness import FOUNDING, compiled, corpus_text
from sqc_runtime.histogram import Histogram

SEEDS = np.arange(1, 17, dtype=np.uint64)

#: Six programs that between them use every stage kind, three arrival kinds, sessions, a pool and a cache.
CORPUS_PROGRAMS = {
    "a02_fifo3_erlang": 30.0,
    "a04_ps_capacity": 20.0,
    "a07_closed": 40.0,
    "b03_classes": 40.0,
    "c04_rejection": 40.0,
    "d01_cache_lru": 60.0,
}


@functools.lru_cache(maxsize=1)
def kernels(source: str) -> tuple[sqc.Kernel, sqc.Kernel]:
    """The native kernel and the portable one."""
    program = compiled(source)
    small = {"sessions": 32, "entries": 32}  # less to compile
    return program.kernel(mode="native"), program.kernel(mode="portable", capacities=small)


def compare(source: str, horizon: float, inputs: dict[str, float]) -> None:
    native, portable = kernels(source)
    assert (native.mode, portable.mode) == ("native", "portable")
    times: dict[str, Any] = {"horizon": horizon, "warmup": horizon / 10}
    expected = native.lanes(SEEDS, inputs=inputs, pool=SEEDS % 3, **times)
    actual = portable.lanes(SEEDS, inputs=inputs, pool=SEEDS % 3, **times)
    assert not expected.failures
    assert not actual.failures
    assert float(expected.metrics["events"].min()) >= 10
    wrong = []
    for metric, column in expected.metrics.items():
        exact = metric.rpartition(".")[2] in COUNTERS
        for seed, a, b in zip(SEEDS, column.tolist(), actual.metrics[metric].tolist(), strict=True):
            if not (np.isnan(a) and np.isnan(b)) and not agree(a, b, exact=exact, relative=RELATIVE):
                wrong.append(f"seed {seed} {metric}: native {a!r}, portable {b!r}")
    assert not wrong, "\n".join(wrong[:40])
    assert {group: histograms(rows) for group, rows in expected.pooled.items()} == {
        group: histograms(rows) for group, rows in actual.pooled.items()
    }


def histograms(rows: Mapping[str, Histogram]) -> dict[str, Any]:
    """What both paths agree on of histograms: the counts, and the extremes to 1e-9."""
    return {
        row: (h.first, h.counts.tolist(), pytest.approx(h.least, rel=1e-9), pytest.approx(h.largest, rel=1e-9))
        for row, h in rows.items()
    }


@pytest.mark.parametrize("capacity", [2e5, 1e4])
def test_founding(capacity: float) -> None:
    compare(FOUNDING.read_text(encoding="utf-8"), 40.0, {"C": capacity})


@pytest.mark.parametrize(("name", "horizon"), CORPUS_PROGRAMS.items())
def test_corpus(name: str, horizon: float) -> None:
    compare(corpus_text(name), horizon, {})

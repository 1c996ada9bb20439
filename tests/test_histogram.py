"""Histograms of samples: their buckets, their sums and quantiles, and what kernels pool by groups of lanes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from harness import compiled, corpus_text
from sqc_runtime.histogram import Histogram, added
from sqc_runtime.statistics import BUCKETS, bucket_middles, bucket_number

MM1 = corpus_text("a01_fifo_mm1")
SETTING: dict[str, Any] = {"horizon": 300.0, "warmup": 30.0}
SEEDS = np.arange(1, 41, dtype=np.uint64)


def histogram(values: list[float]) -> Histogram:
    """The histogram of these samples, one after the other."""
    ones = [Histogram(bucket_number(value), np.ones(1, np.int64), value, value) for value in values]
    total = ones[0]
    for one in ones[1:]:
        total = total + one
    return total


def test_buckets() -> None:
    """In the order of the values, under 1 % wide, one for 0 and one for each side's tiniest and largest."""
    values = [-1e9, -5.0, -1e-3, -1e-9, 0.0, 1e-9, 1e-3, 1.0, 1.0077, 1.0079, 5.0, 1e9]
    numbers = [bucket_number(value) for value in values]
    assert numbers == sorted(numbers)
    assert (numbers[0], numbers[-1]) == (0, BUCKETS - 1)
    assert numbers[3] == numbers[4] == numbers[5]  # beyond the tiniest bucket is 0
    assert numbers[7] == numbers[8] < numbers[9]  # 1.0078125 is a boundary
    middles = bucket_middles()
    for value in (-5.0, 1e-3, 1.0, 5.0, 12345.6):
        assert middles[bucket_number(value)] == pytest.approx(value, rel=0.008)


def test_sums_and_quantiles() -> None:
    rng = np.random.default_rng(1)
    values = rng.lognormal(size=2000)
    total = histogram(values.tolist())
    assert (total.count, total.least, total.largest) == (2000, values.min(), values.max())
    for q in (0.0, 0.001, 0.5, 0.9, 0.99, 1.0):
        exact = np.sort(values)[max(math.ceil(q * 2000), 1) - 1]
        assert total.quantile(q) == pytest.approx(exact, rel=0.008)
    assert Histogram.from_json(total.json()).json() == total.json()
    constant = histogram([0.3] * 7)
    assert [constant.quantile(q) for q in (0.0, 0.5, 1.0)] == [0.3] * 3  # the extremes bound the middle of the bucket


def test_sums_by_group() -> None:
    one, two = ({group: {"x": histogram([float(group)])}} for group in (1, 2))
    total = added(added(one, two), {1: {"x": histogram([8.0]), "y": histogram([0.0])}})
    assert {group: {row: h.count for row, h in rows.items()} for group, rows in total.items()} == {
        1: {"x": 2, "y": 1},
        2: {"x": 1},
    }
    assert one[1]["x"].count == 1


def test_pooled_by_groups_of_lanes() -> None:
    """Each group's samples are those of its lanes; a lane's quantile of 0.99 is the kernel's own."""
    kernel = compiled(MM1).kernel()
    plain = kernel.lanes(SEEDS, **SETTING)
    batch = kernel.lanes(SEEDS, pool=SEEDS % 3, **SETTING)
    for name, column in plain.metrics.items():
        np.testing.assert_array_equal(column, batch.metrics[name])
    assert not plain.pooled
    for row in ("observe.wait", "client.response"):
        for group in range(3):
            of = group == SEEDS % 3
            assert batch.pooled[group][row].count == plain.metrics[f"{row}.count"][of].sum()
    for lane, rows in kernel.lanes(SEEDS[:8], pool=np.arange(8), **SETTING).pooled.items():
        for row, found in rows.items():
            assert found.quantile(0.99) == plain.metrics[f"{row}.p99"][lane]


def test_threads_chunks_and_growth_do_not_matter() -> None:
    """Lanes that overflow their first room count once, when they came to their end."""
    program = compiled(MM1)
    expected = program.kernel().lanes(SEEDS, pool=0, **SETTING).pooled[0]
    small = program.kernel(capacities={"sessions": 4})
    for kernel, chunk, threads in ((program.kernel(), 3, 1), (small, 16, 2)):
        found = kernel.lanes(SEEDS, pool=0, chunk=chunk, threads=threads, **SETTING).pooled[0]
        assert {row: h.json() for row, h in found.items()} == {row: h.json() for row, h in expected.items()}


def test_failed_lanes_are_left_out() -> None:
    source = """
    use "std/args";
    fn main() {
      let x = args.number("x", 0);
      stage svc : fifo;
      workload { arrive poisson(1); turn { set w = ~exp(1); } }
      server { run svc (cost(svc, now > 200 ? x : w)); }
    }
    """
    kernel = compiled(source).kernel()
    x = np.where(SEEDS % 4 == 0, -1.0, 1.0)
    batch = kernel.lanes(SEEDS, inputs={"x": x}, pool=0, **SETTING)
    assert sorted(batch.failures) == np.flatnonzero(x < 0).tolist()
    assert batch.pooled[0]["client.response"].count == np.nansum(batch.metrics["client.response.count"])


def test_a_row_without_samples_has_no_histogram() -> None:
    batch = compiled(MM1).kernel().lanes(SEEDS[:2], horizon=1.0, warmup=0.999999, pool=0)
    assert batch.metrics["observe.resp.count"].tolist() == [0, 0]
    assert not batch.pooled[0]

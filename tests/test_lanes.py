"""The result of a lane depends on its seed and inputs alone: the same bits in any company.

Seed 7 is run alone, among 16 and among 1000, in chunks of any length, on one thread or two, with one
CPU device or two, from capacities that must grow and from large ones, and traced into an outer `jit` or `vmap`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import pytest

from harness import FOUNDING, ROOT, compiled, corpus_text

SETTING: dict[str, Any] = {"horizon": 300.0, "warmup": 30.0}
CAPACITY = 2e4

#: Programs with a cache under pressure, shared processors, and a closed population.
PROGRAMS = {
    "founding": (FOUNDING.read_text(encoding="utf-8"), {"C": CAPACITY}),
    "ps": (corpus_text("a04_ps_capacity"), {}),
    "closed": (corpus_text("a07_closed"), {}),
    "rejection": (corpus_text("c04_rejection"), {}),
}


def bits(metrics: Mapping[str, Any], lane: int) -> dict[str, str]:
    """Every metric of one lane as the hexadecimal form of its double; NaN is one value here."""
    return {name: float(np.asarray(column)[lane]).hex() for name, column in metrics.items()}


def alone(name: str, precision: type[np.floating[Any]] = np.float64) -> dict[str, str]:
    source, inputs = PROGRAMS[name]
    kernel = compiled(source).kernel()
    metrics = kernel.lanes(np.array([7], np.uint64), inputs=inputs, **SETTING).metrics
    return bits({metric: column.astype(precision) for metric, column in metrics.items()}, 0)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("count", [16, 1000])
def test_among_others(name: str, count: int) -> None:
    source, inputs = PROGRAMS[name]
    seeds = np.arange(1, count + 1, dtype=np.uint64)
    batch = compiled(source).kernel().lanes(seeds, inputs=inputs, **SETTING)
    assert bits(batch.metrics, 6) == alone(name)


def test_lanes_differ() -> None:
    """Guards the tests of this file: the lanes are not all the same run."""
    source, inputs = PROGRAMS["founding"]
    batch = compiled(source).kernel().lanes(np.arange(1, 17, dtype=np.uint64), inputs=inputs, **SETTING)
    assert len(set(batch.metrics["client.response.mean"].tolist())) == 16


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("chunk", [1, 3, 7, 64])
def test_chunks_and_threads(chunk: int, threads: int) -> None:
    source, inputs = PROGRAMS["founding"]
    seeds = np.arange(1, 21, dtype=np.uint64)
    batch = compiled(source).kernel().lanes(seeds, inputs=inputs, chunk=chunk, threads=threads, **SETTING)
    assert bits(batch.metrics, 6) == alone("founding")


def test_points_and_seeds_side_by_side() -> None:
    """A lane with its own capacity between lanes with others, and the seed 7 twice."""
    source, _ = PROGRAMS["founding"]
    seeds = np.array([7, 7, 3, 7], np.uint64)
    capacities = np.array([1e4, CAPACITY, CAPACITY, 2e5])
    batch = compiled(source).kernel().lanes(seeds, inputs={"C": capacities}, **SETTING)
    assert bits(batch.metrics, 1) == alone("founding")
    assert bits(batch.metrics, 0) != bits(batch.metrics, 1) != bits(batch.metrics, 3)


def test_capacities() -> None:
    """A kernel that starts with room for eight sessions and entries grows and re-runs; one with plenty never does."""
    source, inputs = PROGRAMS["founding"]
    program = compiled(source)
    names = program.kernel().capacities
    seeds = np.arange(5, 9, dtype=np.uint64)
    for room in (8, 512):
        start = {name: room for name in names if name != "samples"}
        kernel = program.kernel(capacities=start)
        assert bits(kernel.lanes(seeds, inputs=inputs, **SETTING).metrics, 2) == alone("founding")


def test_a_kernel_call_is_the_same_lane() -> None:
    source, inputs = PROGRAMS["founding"]
    out = compiled(source).kernel()(np.arange(1, 9, dtype=np.uint64), **SETTING, **inputs)
    assert bits(out, 6) == alone("founding")


def test_inside_jit_and_vmap() -> None:
    """Traced into an outer program: one `jit` over seeds, and a `vmap` over capacities.

    Where the caller has x64 off, the metrics are the same doubles, rounded to float32 at the end.
    """
    source, _ = PROGRAMS["founding"]
    kernel = compiled(source).kernel()
    seeds = np.arange(1, 9, dtype=np.uint64)

    def at(capacity: Any) -> Any:
        return kernel(seeds, **SETTING, C=capacity)

    for wide in (True, False):  # with the caller's x64 on and off
        expected = alone("founding", np.float64 if wide else np.float32)
        with jax.enable_x64(wide):
            assert bits(jax.jit(at)(CAPACITY), 6) == expected
            mapped = jax.vmap(at)(np.array([1e4, CAPACITY], np.float32))
        assert bits({name: column[1] for name, column in mapped.items()}, 6) == expected


@pytest.mark.parametrize("wide", [True, False])
def test_inside_scan_and_map(wide: bool) -> None:
    """A lane for each step of a loop of JAX; times and inputs may be the arrays instead of the seeds."""
    source, inputs = PROGRAMS["founding"]
    kernel = compiled(source).kernel()
    with jax.enable_x64(wide):
        seeds = np.arange(5, 9, dtype=np.uint32)
        _, scanned = jax.lax.scan(lambda count, seed: (count + 1, kernel(seed, **SETTING, **inputs)), 0, seeds)
        mapped = jax.lax.map(lambda seed: kernel(seed, **SETTING, **inputs), seeds)
        spread = jax.jit(lambda end: kernel(7, horizon=end, warmup=30.0, **inputs))(
            np.array([200.0, 300.0], np.float32)
        )
    expected = alone("founding", np.float64 if wide else np.float32)
    for out in (scanned, mapped):
        assert bits({name: column[:, 0] for name, column in out.items()}, 2) == expected
    assert bits(spread, 1) == expected


def test_samples_do_not_change_the_run() -> None:
    """A kernel that keeps every sample gives the same metrics, except the p99 of the histogram."""
    source, inputs = PROGRAMS["founding"]
    kept = compiled(source).kernel(samples=True).run(7, inputs=inputs, **SETTING).metrics
    for name, value in alone("founding").items():
        if not name.endswith(".p99"):
            assert float(kept[name]).hex() == value, name


ON_TWO_DEVICES = """
import json, sys
import jax
jax.config.update("jax_num_cpu_devices", int(sys.argv[1]))
import numpy as np
import sqc
assert len(jax.devices("cpu")) == int(sys.argv[1])
kernel = sqc.compile(sys.argv[2]).kernel()
seeds = np.arange(1, 17, dtype=np.uint64)
batch = kernel.lanes(seeds, inputs={"C": 2e4}, horizon=300.0, warmup=30.0)
mesh, lanes = jax.sharding.Mesh(np.array(jax.devices()), ("lanes",)), jax.sharding.PartitionSpec("lanes")
with jax.enable_x64(True):
    shared = jax.jit(jax.shard_map(
        lambda part: kernel(part, horizon=300.0, warmup=30.0, C=2e4), mesh=mesh, in_specs=lanes, out_specs=lanes,
    ))(seeds.astype(np.uint32))
for name, column in batch.metrics.items():
    np.testing.assert_array_equal(np.asarray(shared[name]), column, err_msg=name)
print(json.dumps({name: float(column[6]).hex() for name, column in batch.metrics.items()}))
"""


@pytest.mark.parametrize("devices", [1, 2])
def test_devices(devices: int) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "runtime")])}
    command = [sys.executable, "-c", ON_TWO_DEVICES, str(devices), str(FOUNDING)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.strip().splitlines()[-1]) == alone("founding")

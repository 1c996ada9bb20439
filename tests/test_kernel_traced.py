"""A kernel inside other people's loops: `jit`, `scan`, `while_loop`, `vmap` and `shard_map`, with x64 on and off.

Warnings are errors here, so a caller without x64 gets none of JAX's about doubles.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from harness import ROOT, compiled
from sqc.kernel import Kernel

QUEUE = """use "std/args";
fn main() {
  let k = args.number("k", 0.5);
  stage svc : fifo;
  workload { arrive poisson(1); turn { set w = ~exp(k); } }
  server { run svc (cost(svc, w)); }
}
"""
SEEDS = np.arange(1, 5, dtype=np.uint64)
#: Exact in float32, so that both precisions run the same lanes.
MEANS = np.array([0.25, 0.5, 0.75], np.float32)


@pytest.fixture(params=[True, False], ids=["x64", "no-x64"])
def wide(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def mean(k: Any) -> Any:
    """What a population optimiser would minimise."""
    return compiled(QUEUE).kernel()(SEEDS, horizon=200.0, warmup=20.0, k=k)["client.response.mean"].mean()


def expected() -> np.ndarray:
    return np.array([mean(float(k)) for k in MEANS])


def close(found: Any, wide: bool) -> None:
    assert found.dtype == (np.float64 if wide else np.float32)
    np.testing.assert_allclose(found, expected(), rtol=1e-13 if wide else 1e-6)


def test_a_population(wide: bool) -> None:
    """`vmap` in `jit`, `vmap` of `vmap`, and `vmap` over one of two arguments give the points one by one."""
    with jax.enable_x64(wide):
        close(jax.vmap(mean)(MEANS), wide)
        close(jax.jit(jax.vmap(jax.vmap(mean)))(MEANS[:, None])[:, 0], wide)
        close(jax.jit(jax.vmap(lambda k, factor: mean(k * factor), in_axes=(0, None)))(MEANS, 1.0), wide)


def test_loops(wide: bool) -> None:
    """In the body of a `scan` whose carry has the caller's precision, in a condition, and in a mapped `scan`."""

    def step(total: Any, k: Any) -> Any:
        value = mean(k)
        return total + value, value

    def falling(k: Any) -> Any:
        return jax.lax.while_loop(lambda k: mean(k) > 0.5, lambda k: k * 0.5, k)

    with jax.enable_x64(wide):
        total, values = jax.jit(lambda ks: jax.lax.scan(step, jnp.zeros(()), ks))(jnp.asarray(MEANS))
        _, both = jax.vmap(lambda ks: jax.lax.scan(step, jnp.zeros(()), ks))(jnp.stack([MEANS, MEANS]))
        ends = jax.jit(jax.vmap(falling))(jnp.asarray(MEANS))
    close(values, wide)
    close(both[1], wide)
    np.testing.assert_allclose(total, expected().sum(), rtol=1e-6)
    # Mean responses are about 0.33, 1 and 3: 0.25 stays, 0.5 and 0.75 are halved until below 0.5.
    assert ends.tolist() == [0.25, 0.25, 0.1875]


@pytest.mark.parametrize("seeds", [jnp.arange(1, 5), np.array([2**63 + 1, 2**64 - 1], np.uint64)])
def test_seeds(seeds: Any, wide: bool) -> None:
    """Seeds as an array of JAX, and ones that need all 64 bits, without x64 too."""
    kernel = compiled(QUEUE).kernel()
    with jax.enable_x64(wide):
        out = jax.jit(lambda k: kernel(seeds, horizon=50.0, k=k)["mean_live"])(0.5)
    np.testing.assert_allclose(out, kernel(np.asarray(seeds), horizon=50.0)["mean_live"], rtol=1e-6)


def test_a_mapped_axis_is_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The batching rule: three points of four seeds are one call of twelve lanes, not three of four."""
    calls = []
    lanes = Kernel.lanes

    def counted(self: Kernel, seeds: Any, **given: Any) -> Any:
        calls.append(len(seeds))
        return lanes(self, seeds, **given)

    compiled(QUEUE).kernel()  # with its machine code, which no call is to make
    monkeypatch.setattr(Kernel, "lanes", counted)
    jax.jit(jax.vmap(mean))(MEANS).block_until_ready()
    assert calls == [12]


SHARED = """
import sys, warnings
import jax
import numpy as np
import sqc
warnings.simplefilter("error")
assert len(jax.devices()) == 2
kernel = sqc.compile(source=sys.argv[1]).kernel()
mesh, points = jax.sharding.Mesh(np.array(jax.devices()), ("points",)), jax.sharding.PartitionSpec("points")
seeds, ks = np.arange(1, 5, dtype=np.uint64), np.array([0.125, 0.25, 0.5, 0.75], np.float32)
mean = lambda k: kernel(seeds, horizon=200.0, k=k)["client.response.mean"].mean()
one_by_one = [mean(float(k)) for k in ks]
parts = jax.vmap(mean), lambda ks: jax.lax.scan(lambda none, k: (none, mean(k)), 0, ks)[1]
for wide in (True, False):
    with jax.enable_x64(wide):
        for part in parts:
            found = jax.jit(jax.shard_map(part, mesh=mesh, in_specs=points, out_specs=points))(ks)
            assert len(found.sharding.device_set) == 2
            assert found.dtype == (np.float64 if wide else np.float32)
            np.testing.assert_allclose(found, one_by_one, rtol=1e-6)
"""


def test_two_devices() -> None:
    """A population shared by two devices, each with its part as lanes or as steps of a `scan`."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "runtime")]),
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
    }
    command = [sys.executable, "-c", SHARED, QUEUE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr

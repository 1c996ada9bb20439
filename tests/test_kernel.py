"""What a kernel refuses, in one line."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import sqc
from harness import compiled
from sqc.kernel import Kernel, KernelError

SOURCE = """use "std/args";
fn main() {
  let k = args.number("k", 3);
  stage svc : fifo;
  workload { arrive poisson(0.5); turn { set w = ~exp(k); } }
  server { run svc (cost(svc, w)); }
}
"""


def test_arguments() -> None:
    kernel = Kernel(sqc.compile(source=SOURCE).ir)
    with pytest.raises(KernelError, match="unknown input 'c'"):
        kernel.lanes([1], horizon=10.0, inputs={"c": 1.0})
    with pytest.raises(KernelError, match="mode is"):
        Kernel(kernel.program, mode="fast")
    with pytest.raises(KernelError, match="unknown capacity"):
        Kernel(kernel.program, capacities={"slots": 3})


@pytest.mark.parametrize(
    "seeds", [-1, 1.5, 2**64, float("nan"), "seven", None, np.array([3, -1]), np.array([0.5]), [1, 2**64]]
)
def test_seeds_that_are_none(seeds: Any) -> None:
    with pytest.raises(KernelError, match=r"^seeds are whole numbers from 0 to 2\^64 - 1$"):
        compiled(SOURCE).kernel()(seeds, horizon=1.0)


def test_every_digit_of_a_seed_counts() -> None:
    """Also in lists that mix small and large ones, which NumPy would make floats."""
    large = [1, 2**64 - 1, 2**63 + 1, 2**53 + 1]
    kernel = compiled(SOURCE).kernel()
    for seeds in (large, tuple(large), np.array(large, np.uint64)):
        out = kernel(seeds, horizon=50.0)
        assert [kernel(seed, horizon=50.0)["mean_live"][0] for seed in large] == list(out["mean_live"])
    assert (
        kernel(np.arange(1.0, 3.0), horizon=50.0)["events"].tolist() == kernel([1, 2], horizon=50.0)["events"].tolist()
    )
    assert kernel([], horizon=50.0)["events"].shape == (0,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": [1.0, np.nan]}, r"input k is not a number \(NaN\)"),
        ({"k": "three"}, "input k is no number"),
        ({"horizon": np.nan}, r"the horizon is not a number \(NaN\)"),
        ({"horizon": [1.0, 0.0]}, "the horizon must be positive and finite"),
        ({"horizon": np.inf}, "the horizon must be positive and finite"),
        ({"warmup": 10.0}, "the warm-up must be at least 0 and less than the horizon"),
        ({"arrivals": 1.5}, "the arrival limit must be a positive whole number"),
        ({"arrivals": 0}, "the arrival limit must be a positive whole number"),
        ({"k": [1.0, 2.0, 3.0]}, "scalars or have one entry per lane"),
        ({"k": [[1.0, 2.0], [1.0, 2.0]]}, "scalars or have one entry per lane"),
        ({"seeds": [[1, 2], [3, 4]]}, "scalars or have one entry per lane"),
    ],
)
def test_wrong_values(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(KernelError, match=message):
        compiled(SOURCE).kernel()(**{"seeds": [1, 2], "horizon": 10.0, **arguments})


def test_no_derivative_is_not_zero() -> None:
    """Machine code has no derivative: asking for one raises, where nothing else would tell."""
    kernel = compiled(SOURCE).kernel()

    def mean(k: Any) -> Any:
        return kernel(7, horizon=50.0, k=k)["mean_live"][0]

    assert jax.jit(mean)(3.0) == np.float32(kernel(7, horizon=50.0)["mean_live"][0])
    for derivative in (jax.grad(mean), jax.jit(jax.grad(mean)), lambda k: jax.jvp(mean, (k,), (1.0,))):
        with pytest.raises(KernelError, match="no derivative"):
            derivative(3.0)


def test_forms() -> None:
    """What is emitted is the code of the path it is a form of."""
    kernel = Kernel(sqc.compile(source=SOURCE).ir)
    assert "define" in kernel.emit("llvm")
    assert "lanes:" in kernel.emit("assembly")
    assert "lambda" in kernel.emit("jaxpr")
    with pytest.raises(KernelError, match="no form 'c'"):
        kernel.emit("c")

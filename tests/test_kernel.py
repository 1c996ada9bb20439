"""What a kernel refuses, in one line."""

from __future__ import annotations

import pytest

import sqc
from sqc.kernel import Kernel, KernelError

SOURCE = """use "std/args";
fn main() {
  let k = args.number("k", 3);
  stage svc : fifo;
  workload { arrive poisson(0.5); turn { set w = ~erlang(k, 1); } }
  server { run svc (cost(svc, w)); }
}
"""


def test_a_construct_that_is_not_executed_is_named() -> None:
    """How many uniforms a turn draws must be known when the kernel is built."""
    kernel = Kernel(sqc.compile(source=SOURCE).ir)
    with pytest.raises(KernelError, match=r"erlang.* is not executed yet"):
        kernel(1, horizon=10.0)


def test_arguments() -> None:
    kernel = Kernel(sqc.compile(source=SOURCE.replace("erlang(k, 1)", "exp(k)")).ir)
    with pytest.raises(KernelError, match="unknown input 'c'"):
        kernel.lanes([1], horizon=10.0, inputs={"c": 1.0})
    with pytest.raises(KernelError, match="mode is"):
        Kernel(kernel.program, mode="fast")
    with pytest.raises(KernelError, match="unknown capacity"):
        Kernel(kernel.program, capacities={"slots": 3})

"""What a kernel refuses, in one line."""

from __future__ import annotations

import pytest

import sqc
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


def test_forms() -> None:
    """What is emitted is the code of the path it is a form of."""
    kernel = Kernel(sqc.compile(source=SOURCE).ir)
    assert "define" in kernel.emit("llvm")
    assert "lanes:" in kernel.emit("assembly")
    assert "lambda" in kernel.emit("jaxpr")
    with pytest.raises(KernelError, match="no form 'c'"):
        kernel.emit("c")

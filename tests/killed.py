"""Stored sweeps whose process is killed: `python killed.py FOLDER KILLS`.

One process builds the kernel; children of it, forked, run the sweep or go on with it and are killed at random moments,
most of them while they read, run or write. At last one ends, and its rows must be those of a sweep that was
never stopped. The random moments are the same at every run; what they hit is not.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import sqc
from sqc.sweeps import Sweep

PROGRAM = """
use "std/args";

fn main() {
  let rate = args.number("rate", 0.5);
  stage svc : fifo;
  workload { arrive poisson(rate); turn { set w = ~exp(1); } }
  server { run svc (cost(svc, w)); }
}
"""
BLOCK = 8


def child(work: Callable[[], object]) -> int:
    """The number of a child process that does this and ends."""
    number = os.fork()
    if number == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return number


def main(folder: Path, kills: int) -> int:
    program = sqc.compile(source=PROGRAM)

    def sweep(out: Path) -> Sweep:
        sets = {"rate": "0.2:0.8:4"}
        return program.sweep(24, horizon=40, sets=sets, threads=1, block=BLOCK, out=out, resume=True)

    whole = sweep(folder / "first")  # all modules are loaded now, and children need none
    started = time.monotonic()
    os.waitpid(child(lambda: sweep(folder / "second")), 0)
    seconds = time.monotonic() - started
    moments = random.Random(20)
    killed, sweeps = 0, 0
    while killed < kills:
        sweeps += 1
        out = folder / f"sweep{sweeps}"
        running = True
        while running:
            number = child(lambda out=out: sweep(out))  # type: ignore[misc]
            if killed < kills:
                time.sleep(moments.uniform(0, 0.6) * seconds)
                os.kill(number, signal.SIGKILL)
            _, status = os.waitpid(number, 0)
            running = os.WIFSIGNALED(status)
            killed += running
            if not running and os.waitstatus_to_exitcode(status) != 0:
                return 1
        compare(Sweep.open(out), whole)
    print(f"{killed} killed, {sweeps} sweeps finished")
    return 0


def compare(found: Sweep, whole: Sweep) -> None:
    assert found.json() == whole.json()
    assert found.done.all()
    for name, values in whole.lanes.items():
        np.testing.assert_array_equal(found.lanes[name], values)
    for point, rows in whole.pooled.items():
        assert {row: h.json() for row, h in rows.items()} == {row: h.json() for row, h in found.pooled[point].items()}


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))

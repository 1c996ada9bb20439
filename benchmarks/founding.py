"""How fast: the reference and sqc side by side, in one run, on the same cores.

    python benchmarks/founding.py            everything, some minutes
    python benchmarks/founding.py --quick    smaller runs
    python benchmarks/founding.py --json     the numbers as JSON, after the tables on standard error

The reference is pyserq 0.1.5.dev90 (extra `bench`); without it the ratios are left out. The exit code
is 1 where the kernel does not run natively.
Times are wall-clock seconds of the whole job, best of the repetitions; compilation and start-up are
listed apart.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from side_by_side import CORES, CORPUS, REFERENCE, ROOT, Job, best, command_line, compare, show

import sqc

FOUNDING = ROOT / "programs" / "04-cache.sq"
MM1 = CORPUS / "a01_fifo_mm1.sq"


def jobs(quick: bool) -> tuple[Job, ...]:
    horizon, warmup = (4_000.0, 400.0) if quick else (20_000.0, 2_000.0)
    seeds = 64 if quick else 128
    return (
        Job("founding, C = 2e5", FOUNDING, {"C": 2e5}, horizon, warmup, seeds, 5.0),
        Job("founding, C = 2e4", FOUNDING, {"C": 2e4}, horizon, warmup, seeds, 5.0),
        Job("M/M/1 (a01)", MM1, {}, 5 * horizon, 5 * warmup, seeds, 4.0),
    )


def speed(quick: bool) -> list[dict[str, Any]]:
    return compare(jobs(quick), 2 if quick else 3)


# --------------------------------------------------------------------------- compilation and start-up


def check_native() -> None:
    """Exit code 1 unless the founding kernel runs as machine code."""
    if sqc.compile(FOUNDING).kernel().mode != "native":
        print("the kernel would run on the portable path, at a fraction of its speed", file=sys.stderr)
        raise SystemExit(1)


COLD = """
import sys, time
import sqc
start = time.perf_counter()
kernel = sqc.compile(sys.argv[1]).kernel()
kernel([1], horizon=10.0)
print(kernel.compile_seconds, time.perf_counter() - start)
"""


def process_seconds(arguments: Sequence[str], environment: Mapping[str, str], repeat: int) -> float:
    def work() -> None:
        subprocess.run(arguments, env=dict(environment), check=True, stdout=subprocess.DEVNULL)

    return best(repeat, work)


def start_up(quick: bool) -> list[dict[str, Any]]:
    repeat = 2 if quick else 5
    run = ["run", str(FOUNDING), "--horizon", "20000", "--warmup", "2000"]
    command = [sys.executable, "-m", "sqc"]
    with tempfile.TemporaryDirectory() as cold:
        environment = {**os.environ, "XDG_CACHE_HOME": cold, "JAX_COMPILATION_CACHE_DIR": f"{cold}/jax"}
        done = subprocess.run(
            [sys.executable, "-c", COLD, str(FOUNDING)], env=environment, check=True, capture_output=True, text=True
        )
        compiling, first_call = map(float, done.stdout.split())
        first = process_seconds([*command, *run], environment, 1)
        warm = process_seconds([*command, *run], environment, repeat)
        check = process_seconds([*command, "check", str(FOUNDING)], environment, repeat)
    return [
        {"what": "kernel compile, cold", "seconds": compiling, "target": 2.0},
        {"what": "program to first result, cold, in process", "seconds": first_call, "target": None},
        {"what": "sqc run, whole process, cold cache", "seconds": first, "target": None},
        {"what": "sqc run, whole process, warm cache", "seconds": warm, "target": 2.5},
        {"what": "sqc check, whole process", "seconds": check, "target": 0.4},
    ]


# --------------------------------------------------------------------------- scaling

#: The founding program with the rate, the think time and the engine's speed as inputs.
LIVE = (
    FOUNDING.read_text(encoding="utf-8")
    .replace("let Lambda = 0.5;\n", "")
    .replace("let Z = 3.0;\n", "")
    .replace("let a = 2e-5;\n", "")
    .replace("let d = 2e-4;\n", "")
    .replace(
        "fn main() {\n",
        "fn main() {\n"
        '  let Lambda = args.number("Lambda", 0.5);\n'
        '  let Z = args.number("Z", 3);\n'
        '  let a = args.number("a", 2e-5);\n'
        '  let d = args.number("d", 2e-4);\n',
    )
)


def timed_lanes(
    kernel: sqc.Kernel, lanes: int, horizon: float, warmup: float, sets: Mapping[str, float], repeat: int
) -> tuple[float, Any]:
    """Seconds of the fastest of `repeat` calls after one that grows what must grow, and the metrics."""
    inputs = {**kernel.inputs, **sets}
    seeds = np.arange(1, lanes + 1, dtype=np.uint64)

    def work() -> Any:
        return kernel.lanes(seeds, horizon=horizon, warmup=warmup, inputs=inputs, threads=CORES)

    batch = work()
    return best(repeat, work), batch.metrics


def scaling(quick: bool) -> list[dict[str, Any]]:
    repeat = 2
    founding = sqc.compile(FOUNDING).kernel()
    rows: list[dict[str, Any]] = []

    def add(what: str, seconds: float, metrics: Mapping[str, Any]) -> None:
        events = float(np.sum(metrics["events"]))
        rows.append(
            {
                "what": what,
                "events": events,
                "live": float(np.mean(metrics["mean_live"])),
                "evicted": float(np.sum(metrics["pool.kv.evicted_entries"])),
                "ns_per_event_and_core": 1e9 * seconds * CORES / events,
            }
        )

    for horizon in (1_000.0, 10_000.0, 100_000.0)[: 2 if quick else 3]:
        add(f"horizon {horizon:g}", *timed_lanes(founding, 2 * CORES, horizon, horizon / 10, {"C": 2e4}, repeat))

    # Live sessions = rate x 4 thinks x think time; the engine is made faster with the rate, so that its load stays.
    live_program = sqc.compile(source=LIVE)
    for rate, think in ((0.5, 3.0), (5.0, 3.0), (5.0, 30.0), (50.0, 30.0)):
        live, scale = 4 * rate * think, rate / 0.5
        lanes = (16 if live < 100 else 1) * CORES
        horizon = max(40 * think, (20_000.0 if quick else 100_000.0) / 10 / rate)
        # Room for twice the mean: what is timed is the cost at this size, not the growth up to it.
        room = 2 ** math.ceil(math.log2(2 * live + 32))
        kernel = live_program.kernel(capacities={"sessions": room, "entries": room})
        for pressure, units in (("ample", 20_000.0), ("tight", 2_500.0)):
            sets = {"Lambda": rate, "Z": think, "a": 2e-5 / scale, "d": 2e-4 / scale, "C": max(units * live, 2e4)}
            seconds, metrics = timed_lanes(kernel, lanes, horizon, horizon / 2, sets, repeat)
            add(f"live sessions {live:.0f}, cache {pressure}", seconds, metrics)

    for lanes in (1, 16, 256, 4096):
        horizon = 20_000.0 if lanes == 1 else max(20_000.0 * 16 / lanes, 100.0 if quick else 500.0)
        add(f"lanes {lanes}", *timed_lanes(founding, lanes, horizon, horizon / 10, {"C": 2e4}, repeat))
    return rows


# --------------------------------------------------------------------------- memory

SWEEP = """
import resource, sys
import sqc
table = sqc.compile(sys.argv[1]).sweep(1000, horizon=float(sys.argv[2]), warmup=float(sys.argv[2]) / 10)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def memory(quick: bool) -> list[dict[str, Any]]:
    horizon = 2_000.0 if quick else 20_000.0
    done = subprocess.run(
        [sys.executable, "-c", SWEEP, str(FOUNDING), str(horizon)], check=True, capture_output=True, text=True
    )
    unit = 1 if sys.platform == "darwin" else 1024
    peak = int(done.stdout.split()[-1]) * unit / 2**20
    return [{"what": f"sweep of 1000 seeds, horizon {horizon:g}", "peak_MiB": peak, "target_MiB": 1000}]


def main() -> int:
    options, console = command_line(__doc__, ("speed", "start_up", "scaling", "memory"))
    check_native()
    parts: dict[str, tuple[str, Callable[[bool], list[dict[str, Any]]]]] = {
        "speed": (f"Speed on {CORES} cores", speed),
        "start_up": ("Compilation and start-up", start_up),
        "scaling": ("Cost per event", scaling),
        "memory": ("Memory", memory),
    }
    results: dict[str, Any] = {"cores": CORES, "reference": REFERENCE, "mode": "native"}
    for name, (title, measure) in parts.items():
        if options.only and name not in options.only:
            continue
        results[name] = measure(options.quick)
        show(console, title, results[name])
    if options.json:
        print(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

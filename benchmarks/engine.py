"""How fast step engines are, in simulated iterations a second.

    python benchmarks/engine.py            all of it, some minutes
    python benchmarks/engine.py --quick    smaller runs
    python benchmarks/engine.py --json     the numbers as JSON, after the table on standard error

Each row is one program on both sides, on the same cores in the same run (see `side_by_side.py`); iterations are counted
and must be equal. sqc takes equal iterations at once where it can; the rows that say "one by one" are without that.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from side_by_side import CORES, REFERENCE, ROOT, Job, command_line, compare, show

CHAPTER_5 = ROOT / "programs" / "05-engine.sq"
VLLM, VLLM_THERE = ROOT / "programs" / "vllm.sq", Path(__file__).with_name("vllm.sq")
#: A large model on the vLLM-like engine, its memory large enough for the contexts of all sessions.
LARGE = {"weights": 0.01, "slots": 256.0, "blocks": 150_000.0}
#: Sessions per second there, and how many requests are resident with them, about.
RESIDENTS = {2.5: 64, 4.0: 130, 5.0: 220}


def jobs(quick: bool) -> list[Job]:
    scale = 0.2 if quick else 1.0
    seeds = 2 * CORES

    def chapter(name: str, sets: dict[str, float], target: float, skip: bool = True) -> Job:
        return Job(name, CHAPTER_5, sets, scale * 4_000, scale * 400, seeds, target, skip=skip)

    return [
        chapter("chapter 5", {}, 30.0),
        chapter("chapter 6, rate 1.9", {"rate": 1.9}, 6.0),
        *(
            Job(
                f"vLLM-like, {count} residents",
                *(VLLM, {**LARGE, "rate": rate}, scale * 1_000, scale * 200, seeds, 8.0),
                theirs=VLLM_THERE,
            )
            for rate, count in RESIDENTS.items()
        ),
        chapter("chapter 5, one by one", {}, 3.0, skip=False),
    ]


def main() -> int:
    options, console = command_line(__doc__)
    rows = compare(jobs(options.quick), 2, "iterations")
    show(console, f"Speed on {CORES} cores", rows)
    if options.json:
        print(json.dumps({"cores": CORES, "reference": REFERENCE, "rows": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Random search for programs on which ours and the reference differ.

    python tests/fuzz.py --minutes 10 [--seed 1] [--flavour whole] [--arrival closed]

Runs on with new programs until the time is up. A program that differs is shrunk (for as long as
`--shrink` says, in seconds) and saved with its runs under tests/corpus/fuzz/, and the differences are printed; exit
code 1 if there was one.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as hypothesis_seed

import reference
from agreement import disagreements
from generate import ARRIVALS, FLAVOURS, Case, cases
from harness import CORPUS, compiled

SAVED = CORPUS / "fuzz"
BATCH = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None, help="of the search; printed, so that it can be repeated")
    parser.add_argument("--shrink", type=float, default=120.0, help="seconds spent on making a failure smaller")
    parser.add_argument("--flavour", choices=FLAVOURS, default=None)
    parser.add_argument("--arrival", choices=ARRIVALS, default=None)
    options = parser.parse_args()
    if not reference.AVAILABLE:
        print(reference.WHY_NOT)
        return 2
    first = options.seed if options.seed is not None else random.SystemRandom().randrange(2**32)
    deadline = time.monotonic() + 60 * options.minutes
    programs = failures = 0
    for number in _batches(first, deadline):
        search = Search(options.flavour, options.arrival, options.shrink, deadline)
        search.run(number)
        programs += search.programs
        if search.worst is not None:
            failures += 1
            print(f"\n{_save(search.worst)}\n" + "\n".join(search.lines), flush=True)
        print(f"search {number}: {programs} programs, {failures} failures", flush=True)
    return 1 if failures else 0


def _batches(first: int, deadline: float) -> Iterator[int]:
    number = first
    while time.monotonic() < deadline:
        yield number
        number += 1


class Search:
    """One batch of programs; keeps the smallest that differs."""

    def __init__(self, flavour: str | None, arrival: str | None, shrink: float, deadline: float) -> None:
        self.strategy = cases(flavour=flavour, arrival=arrival)
        self.shrink = shrink
        self.deadline = deadline
        self.programs = 0
        self.worst: Case | None = None
        self.lines: list[str] = []

    def run(self, number: int) -> None:
        @hypothesis_seed(number)
        @settings(
            max_examples=BATCH,
            deadline=None,
            database=None,
            derandomize=False,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        @given(self.strategy)
        def check(case: Case) -> None:
            if time.monotonic() > self.deadline:
                return  # out of time: accept everything, so that the search ends at once
            self.programs += 1
            compiled.cache_clear()
            lines = disagreements(case)
            if lines:
                if self.worst is None:
                    self.deadline = time.monotonic() + self.shrink
                if self.worst is None or len(case.source) <= len(self.worst.source):
                    self.worst, self.lines = case, lines
                raise AssertionError(lines[0])

        try:
            check()
        except BaseException as error:
            if self.worst is None or isinstance(error, KeyboardInterrupt):
                raise


def _save(case: Case) -> Path:
    """Write the program and its runs; the name is a hash of the text."""
    SAVED.mkdir(exist_ok=True)
    stem = SAVED / f"z_{hashlib.sha256(case.source.encode()).hexdigest()[:10]}"
    stem.with_suffix(".sq").write_text(case.source, encoding="utf-8")
    runs = {key: value for key, value in dataclasses.asdict(case).items() if key != "source"}
    stem.with_suffix(".runs.json").write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")
    return stem.with_suffix(".sq")


if __name__ == "__main__":
    sys.exit(main())

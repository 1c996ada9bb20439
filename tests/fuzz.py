"""Random search for programs on which ours and the reference differ.

    python tests/fuzz.py --minutes 30 [--profile preempt] [--seed 1] [--jobs 2]

Runs on with new programs until the time is up. Program number k of search seed N is the same on
every machine. A program that differs is shrunk (for as long as `--shrink` says, in seconds), its
differences are printed, and it is saved with the reference's report under tests/corpus/found/. A
program on which ours loops or ends its process is one of those. Exit code 1 if there was one.

    --first K --count M    programs K .. K+M-1 only, to see a program again
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import reference
from agreement import Comparison, compare
from found import save
from generating import PROFILES, Case, generate, shrink
from isolated import Died, Hangs, Server, serve

#: Seconds that all runs of one program may take, compilation included.
LIMIT = 120.0
#: Programs compared in one process before it is replaced, so that what it keeps cannot pile up.
RENEW = 200
#: Seconds between two progress lines.
PAUSE = 20.0


@dataclass
class Tally:
    """What the search has done; shared by its jobs."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    programs: int = 0
    runs: int = 0
    refused: int = 0
    unanswered: int = 0
    unsteady: int = 0
    differ: int = 0

    def add(self, result: Comparison) -> None:
        with self.lock:
            self.programs += 1
            self.runs += result.runs
            self.refused += result.refused
            self.unanswered += result.unanswered
            self.unsteady += result.unsteady
            self.differ += bool(result.lines)

    def line(self) -> str:
        return (
            f"{self.programs} programs, {self.runs} runs compared: {self.differ} programs differed, "
            f"{self.refused} runs refused by both, {self.unanswered} not answered by the reference, "
            f"{self.unsteady} where it differs from itself"
        )


def main() -> int:
    options = _options()
    if not reference.AVAILABLE:
        print(reference.WHY_NOT)
        return 2
    first = options.seed if options.seed is not None else random.SystemRandom().randrange(2**32)
    print(f"search seed {first}", flush=True)
    tally = Tally()
    deadline = time.monotonic() + 60 * options.minutes
    last = None if options.count is None else options.first + options.count
    numbers = iter(range(options.first, last)) if last is not None else itertools.count(options.first)
    jobs = [
        threading.Thread(
            target=_job, args=(numbers, first, options.profile, options.shrink, deadline, tally), daemon=True
        )
        for _ in range(options.jobs)
    ]
    for job in jobs:
        job.start()
    while any(job.is_alive() for job in jobs):
        for job in jobs:
            job.join(PAUSE / len(jobs))
        print(tally.line(), flush=True)
    return 1 if tally.differ else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None, help="of the search; printed, so that it can be repeated")
    parser.add_argument("--profile", choices=[*PROFILES, "all"], default="all", help="the constructs to look at")
    parser.add_argument("--jobs", type=int, default=2, help="programs compared at once")
    parser.add_argument("--shrink", type=float, default=120.0, help="seconds spent on making a failure smaller")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=None)
    return parser.parse_args()


def program(seed: int, number: int, profile: str) -> Case:
    """Program `number` of a search; with profile `all` the profiles take turns."""
    names = list(PROFILES) if profile == "all" else [profile]
    return generate(random.Random(f"{seed} {number}"), names[number % len(names)])


def _job(numbers: Iterator[int], seed: int, profile: str, seconds: float, deadline: float, tally: Tally) -> None:
    """Compare program after program in a process of its own."""
    server = Server(__file__, ["--serve"])
    for done in itertools.count(1):
        if time.monotonic() >= deadline:
            break
        with tally.lock:
            number = next(numbers, None)
        if number is None:
            break
        case = program(seed, number, profile)
        result = _ask(server, case)
        tally.add(result)
        if result.lines:
            _report(server, case, number, result, seconds)
        if done % RENEW == 0:
            server.stop()
    server.stop()


def _ask(server: Server, case: Case) -> Comparison:
    try:
        answer = server.ask(case, LIMIT)
    except (Hangs, Died) as error:
        return Comparison([f"{type(error).__name__.lower()}: {error}"], {type(error).__name__}, 1)
    assert isinstance(answer, Comparison)
    return answer


def _report(server: Server, case: Case, number: int, result: Comparison, seconds: float) -> None:
    """Shrink, save and print a program that differs."""
    smaller = shrink(case, lambda candidate: bool(_ask(server, candidate).kinds & result.kinds), seconds)
    lines = _ask(server, smaller).lines or result.lines
    text = "\n".join([f"\nprogram {number}: {save(smaller)}", smaller.source, *lines[:12], ""])
    print(text, flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve(compare)
    else:
        sys.exit(main())

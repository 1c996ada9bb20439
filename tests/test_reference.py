"""Live comparison with the reference simulator (pyserq 0.1.5.dev90): same streams, same runs, exactly.

Counters must be equal, statistics agree to 1e-9, and so must every sample and every change of a
gauge, in order. Where the reference has no wheel the whole file is skipped and says so.
"""

from __future__ import annotations

import zlib
from collections import Counter
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

import reference
from agreement import disagreements
from compare import differences, sample_differences
from generating import PROFILES, Case, cases, generate
from harness import FOUNDING, corpus_text, run
from occurs import occurrences

pytestmark = [
    pytest.mark.reference,
    pytest.mark.skipif(not reference.AVAILABLE, reason=reference.WHY_NOT),
]

FOUNDING_TEXT = FOUNDING.read_text(encoding="utf-8")
EXACT_TEST = "cached >= K;"
TOLERANT_TEST = "cached >= K - 1e-6;"

#: Capacities from no eviction at all to a rejection every few sessions.
CAPACITIES = (2e5, 6e4, 4e4, 3e4, 2e4, 1.5e4, 1e4)

#: Programs of each profile.
PROGRAMS = 11


def test_the_tolerant_program_differs_in_the_test_alone() -> None:
    assert FOUNDING_TEXT.count(EXACT_TEST) == 1


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_founding_program(capacity: float) -> None:
    """30 seeds at each of seven capacities: 210 runs.

    The reference runs the program with `cached >= K - 1e-6`: it keeps the size of a cache entry
    with an error of one unit in the last place in rare cases, and `cached >= K` then reads 0 on a
    full prefix. Ours runs the program as written. Sizes are sums of exponentials: a true difference
    of less than 1e-6 between a prefix and its context does not happen in these runs.
    """
    tolerant = FOUNDING_TEXT.replace(EXACT_TEST, TOLERANT_TEST)
    wrong: list[str] = []
    for number in range(1, 31):
        expected = reference.run(tolerant, horizon=600, warmup=60, seed=number, sets={"C": capacity})
        actual = run(FOUNDING_TEXT, horizon=600, warmup=60, seed=number, sets={"C": capacity})
        lines = differences(expected.report, actual.report)
        for name, samples in expected.samples.items():
            lines += sample_differences(name, samples, actual.samples[name])
        wrong += [f"seed {number}: {line}" for line in lines]
    assert not wrong, "\n".join(wrong[:40])


def test_whole_number_cache() -> None:
    """The corpus program d01 has whole sizes, where the reference's entries are exact: 60 runs as written."""
    sets = tuple({"C": capacity} for capacity in (20_000.0, 4_000.0, 2_000.0, 1_200.0))
    case = Case(corpus_text("d01_cache_lru"), 1_000.0, 100.0, None, tuple(range(11, 26)), sets)
    assert not disagreements(case)


@pytest.mark.parametrize("profile", list(PROFILES))
def test_generated_programs(profile: str) -> None:
    """11 programs of each of 18 profiles, 198 in all, each with three seeds at two settings of its input: 1188 runs."""

    @seed(zlib.crc32(profile.encode()))  # other programs for each test, the same on every run
    @settings(
        max_examples=PROGRAMS, derandomize=False, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(cases(profile))
    def agree(case: Case) -> None:
        wrong = disagreements(case)
        assert not wrong, "\n".join([case.source, f"{case.horizon} {case.warmup} {case.arrivals}", *wrong])

    agree()


# What must happen in at least this share of the programs of a profile: the comparison above says
# nothing about what does not happen. The shares are about half of what was measured with 60 programs.
HAPPENS = {
    "stages": {"stage wait": 0.2},
    "pools": {"pool wait": 0.6, "evict": 0.2, "reject": 0.1, "over cap": 0.05},
    "cache": {"cached": 0.4, "evict": 0.4, "by block": 0.2, "spill": 0.2},
    "evict": {"evict": 0.5, "by block": 0.15, "spill": 0.2},
    "preempt": {"pool wait": 0.6, "preempt": 0.4, "stuck": 0.3, "evict": 0.1},
    "grow": {"growing": 0.3, "evict": 0.1},
    "lease": {"lease ends": 0.4, "evict": 0.2, "reject": 0.1},
    "arrays": {"pool wait": 0.5, "evict": 0.15},
    "forks": {"pool wait": 0.2, "evict": 0.1},
    "state": {"pool wait": 0.5, "evict": 0.2},
    "costs": {"pool wait": 0.6, "cached": 0.2, "evict": 0.2},
    "traces": {"stage wait": 0.25, "evict": 0.1},
    "sessions": {"pool wait": 0.6, "cached": 0.3, "evict": 0.3, "preempt": 0.15},
    "engines": {"iterations": 0.8, "mixed": 0.25, "pool wait": 0.6, "preempt": 0.1, "lease ends": 0.1},
    "stations": {"pool wait": 0.6, "stage wait": 0.2, "cached": 0.2, "evict": 0.2, "iterations": 0.05},
    "spill": {"evict": 0.5, "spill": 0.3, "by block": 0.2},
}


@pytest.mark.parametrize("profile", list(PROFILES))
def test_generated_programs_are_worth_comparing(profile: str) -> None:
    """The reference runs nine in ten to their end, and what the profile is about happens in them."""
    count = 30
    found = [occurrences(generate(Random(f"{profile} {number}"), profile)) for number in range(count)]
    ran = [seen for seen in found if seen is not None]
    assert len(ran) >= 0.8 * count
    counts = Counter(name for seen in ran for name in seen)
    rare = {name: counts[name] for name, share in HAPPENS.get(profile, {}).items() if counts[name] < share * len(ran)}
    assert not rare

"""Live comparison with the reference simulator (pyserq 0.1.5.dev90): same streams, same runs, exactly.

Counters must be equal, statistics agree to 1e-9, and so must every sample, in order. Where the
reference has no wheel the whole file is skipped and says so.
"""

from __future__ import annotations

import itertools
import zlib

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

import reference
from agreement import disagreements
from compare import differences, sample_differences
from generate import ARRIVALS, FLAVOURS, Case, cases
from harness import FOUNDING, corpus_text, run

pytestmark = [
    pytest.mark.reference,
    pytest.mark.skipif(not reference.AVAILABLE, reason=reference.WHY_NOT),
]

FOUNDING_TEXT = FOUNDING.read_text(encoding="utf-8")
EXACT_TEST = "cached >= K;"
TOLERANT_TEST = "cached >= K - 1e-6;"

#: Capacities from no eviction at all to a rejection every few sessions.
CAPACITIES = (2e5, 6e4, 4e4, 3e4, 2e4, 1.5e4, 1e4)


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


@pytest.mark.parametrize(("flavour", "arrival"), list(itertools.product(FLAVOURS, ARRIVALS)))
def test_generated_programs(flavour: str, arrival: str) -> None:
    """Four programs of each kind, 32 in all, each with three seeds at two settings of its inputs: 192 runs."""

    @seed(zlib.crc32(f"{flavour} {arrival}".encode()))  # other programs for each kind, the same on every run
    @settings(max_examples=4, derandomize=False, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(cases(flavour=flavour, arrival=arrival))
    def agree(case: Case) -> None:
        wrong = disagreements(case)
        assert not wrong, "\n".join([case.source, *wrong])

    agree()

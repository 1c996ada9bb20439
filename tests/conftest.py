"""Settings of the whole suite."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

# The same examples on every run: a failure seen once can be seen again. `fuzz.py` is the random search.
settings.register_profile("fixed", derandomize=True, database=None, deadline=None)
settings.load_profile("fixed")

# Subprocesses that the tests start find the packages when the suite runs from a checkout.
os.environ.setdefault("PYTHONHASHSEED", "0")


OPTIMISED = {"test_corpus", "test_founding", "test_kernel", "test_lanes", "test_programs", "test_closed_forms"}
"""Test files that run the code as users get it. The others build many programs and run each for a moment."""


def pytest_collection_finish() -> None:
    """What is loaded by now stays; the collector of cycles need not walk it, nor come as often as it does."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(autouse=True, scope="module")
def quick_code(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SQC_QUICK_CODE", "0" if request.path.stem in OPTIMISED else "1")
        yield

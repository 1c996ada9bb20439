"""Settings of the whole suite."""

from __future__ import annotations

import os

from hypothesis import settings

# The same examples on every run: a failure seen once can be seen again. `fuzz.py` is the random search.
settings.register_profile("fixed", derandomize=True, database=None, deadline=None)
settings.load_profile("fixed")

# Subprocesses that the tests start find the packages when the suite runs from a checkout.
os.environ.setdefault("PYTHONHASHSEED", "0")

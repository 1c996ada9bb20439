"""The lexicographic order of keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .memory import Memory


def precedes(m: Memory, found: Sequence[Any], best: Sequence[Any]) -> Any:
    """Whether keys come strictly before others, lexicographically."""
    before = m.full(False, np.bool_)
    for a, b in reversed(list(zip(found, best, strict=True))):
        before = (a < b) | ((a == b) & before)
    return before

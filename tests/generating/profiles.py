"""Which constructs a generated program may have: every program uses a random half of what its profile allows.

Leaving half of the constructs out of each program keeps them from hiding one another: a program
with every feature at once spends its short run in the first few of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

T = TypeVar("T")

#: The constructs that can be switched, by the names that the coverage table uses.
FEATURES = (
    *("branch", "while", "choose", "arrays", "state", "gauge", "claim", "definition", "estimates", "aggregate"),
    *("hold", "multi", "nested", "block", "evict_by", "queue_by", "reserve", "reserve_held", "reuse", "admission"),
    *("cache", "drop", "spill", "grow", "preempt", "release", "lease", "load", "transfer", "conversation"),
    *("reject", "live_demand", "fork", "flow", "tool_stage", "turns", "zero", "hidden", "trace", "costs"),
    *("session_work", "convgrow", "engine", "station"),
)

_CONTROL = ("branch", "while", "definition", "turns", "zero", "gauge", "state")
_POOLS = ("hold", "multi", "nested", "reserve", "reserve_held", "queue_by", "reject", "live_demand", "admission")
_CACHE = ("hold", "cache", "block", "evict_by", "drop", "reuse", "admission", "spill", "turns", "reserve")


@dataclass(frozen=True)
class Profile:
    """`always` are in every program; of `allowed`, each program has about half."""

    always: tuple[str, ...] = ()
    allowed: tuple[str, ...] = FEATURES

    def features(self, random: Random) -> frozenset[str]:
        return frozenset(self.always) | {name for name in self.allowed if random.randrange(2)}


PROFILES = {
    "any": Profile(("hold",)),
    "stages": Profile((), (*_CONTROL, "tool_stage", "estimates", "arrays", "choose", "aggregate", "claim")),
    "pools": Profile(("hold",), (*_CONTROL, *_POOLS, "arrays", "conversation", "cache", "claim")),
    "cache": Profile(("hold", "cache", "turns"), (*_CONTROL, *_CACHE, "multi", "nested", "queue_by")),
    "evict": Profile(("hold", "cache", "turns", "evict_by"), ("block", "state", "drop", "reuse", "branch", "spill")),
    "preempt": Profile(
        ("hold", "grow", "preempt"),
        ("cache", "turns", "nested", "multi", "queue_by", "load", "branch", "while", "block"),
    ),
    "grow": Profile(
        ("hold", "grow"), ("reserve_held", "reserve", "release", "cache", "turns", "nested", "multi", "branch")
    ),
    "lease": Profile(
        ("hold", "lease"), ("cache", "release", "transfer", "load", "turns", "multi", "nested", "fork", "conversation")
    ),
    "arrays": Profile(
        ("arrays", "hold"), ("choose", "aggregate", "cache", "turns", "state", "estimates", "gauge", "grow")
    ),
    "flows": Profile(("flow",), (*_CONTROL, "arrays", "choose", "hold", "fork")),
    "forks": Profile(("fork",), (*_CONTROL, "hold", "cache", "lease", "multi", "reject", "arrays", "release")),
    "state": Profile(
        ("state", "hold"), ("branch", "while", "choose", "gauge", "queue_by", "evict_by", "live_demand", "cache")
    ),
    "costs": Profile(
        ("costs", "hold", "definition"),
        ("arrays", "grow", "cache", "turns", "multi", "nested", "branch", "hidden", "choose"),
    ),
    "traces": Profile(("trace",), (*_CONTROL, "hold", "cache", "reuse", "drop", "evict_by", "arrays", "session_work")),
    "sessions": Profile(
        ("turns", "session_work", "conversation"),
        (*_CONTROL, "hold", "cache", "convgrow", "tool_stage", "hidden", "choose"),
    ),
    "engines": Profile(
        ("engine",),
        (
            *(
                "arrays",
                "choose",
                "cache",
                "turns",
                "queue_by",
                "evict_by",
                "block",
                "reserve",
                "reserve_held",
                "reuse",
            ),
            *("lease", "gauge", "claim", "state", "branch", "hold", "grow", "release", "estimates", "drop", "fork"),
        ),
    ),
    "stations": Profile(
        ("station",),
        ("arrays", "hidden", "turns", "gauge", "branch", "while", "state", "hold", "fork", "flow", "claim"),
    ),
    "spill": Profile(("hold", "cache", "spill", "turns"), ("block", "evict_by", "drop", "reuse", "state", "branch")),
}


class Pick:
    """Random choices; only whole-number draws, so that any source of randomness serves it equally well."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def one(self, options: Sequence[T]) -> T:
        return options[self.random.randrange(len(options))]

    def some(self, options: Sequence[T], most: int) -> list[T]:
        """One to `most` different ones, in a random order."""
        left = list(options)
        count = self.whole(1, min(most, len(left)))
        return [left.pop(self.random.randrange(len(left))) for _ in range(count)]

    def whole(self, low: int, high: int) -> int:
        return low + self.random.randrange(high - low + 1)

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

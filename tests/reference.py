"""The reference simulator, pyserq, behind one function; absent on platforms without a wheel.

`run` compiles and runs a program text and returns the report as a plain object, with the samples
of every observation. Programs in the tests are written in the dialect that both read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

try:
    import pyserq
except ImportError:  # pragma: no cover - depends on the platform
    pyserq = None

AVAILABLE = pyserq is not None
WHY_NOT = "pyserq 0.1.5.dev90 is not installed (it has wheels for Linux x86-64 and macOS arm64 only)"

#: One sample: (time, session, turn, value).
Sample: TypeAlias = tuple[float, int, int, float]


class Refused(Exception):
    """The reference refused the program or its run failed."""


@dataclass(frozen=True)
class ReferenceRun:
    """One run: the report as JSON, and the samples by name (`client.response` for the client's)."""

    report: dict[str, Any]
    samples: dict[str, list[Sample]] = field(default_factory=dict)


def run(
    source: str,
    *,
    horizon: float,
    warmup: float = 0.0,
    seed: int = 1,
    arrivals: int | None = None,
    sets: Mapping[str, float] | None = None,
) -> ReferenceRun:
    """Compile and run a program text with the reference."""
    texts = {name: repr(float(value)) for name, value in (sets or {}).items()}
    try:
        program = pyserq.compile(
            source=source, horizon=horizon, warmup=warmup, seed=seed, arrivals=arrivals, sets=texts
        )
        report = pyserq.run(program)
    except Exception as error:
        raise Refused(str(error)) from error
    observes = {name: report.observe(name) for name in report.observes}
    observes["client.response"] = report.client["response"]
    return ReferenceRun(json.loads(report.json()), {name: _samples(o) for name, o in observes.items()})


def _samples(observation: Any) -> list[Sample]:
    times, sessions, turns = observation.times, observation.sessions, observation.turns
    return list(zip(times, map(int, sessions), map(int, turns), observation.samples, strict=True))

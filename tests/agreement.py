"""One generated case against the reference: what differs, line by line."""

from __future__ import annotations

from typing import Any

import reference
import sqc
from compare import differences, sample_differences
from generate import Case
from harness import run


def disagreements(case: Case, limit: int = 40) -> list[str]:
    """Lines that differ over all runs of the case; the whole sample lists are compared.

    A run that fails must fail on both sides (the texts of the messages are not compared).
    """
    wrong: list[str] = []
    for sets in case.sets:
        for seed in case.seeds:
            wrong += [f"seed {seed} {sets}: {line}" for line in _one(case, seed, sets)]
            if len(wrong) >= limit:
                return wrong[:limit]
    return wrong


def _one(case: Case, seed: int, sets: dict[str, float]) -> list[str]:
    times: dict[str, Any] = {"horizon": case.horizon, "warmup": case.warmup, "arrivals": case.arrivals}
    refusal: str | None = None
    try:
        expected = reference.run(case.source, seed=seed, sets=sets, **times)
    except reference.Refused as error:
        refusal = str(error)
    try:
        actual = run(case.source, seed=seed, sets=sets, **times)
    except sqc.RunError as error:
        return [] if refusal is not None else [f"only ours fails: {error}"]
    if refusal is not None:
        return [f"only the reference fails: {refusal}"]
    wrong = differences(expected.report, actual.report)
    for name, samples in expected.samples.items():
        wrong += sample_differences(name, samples, actual.samples[name])
    return wrong

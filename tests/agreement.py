"""Runs of ours against the reference's, live or recorded: what differs, line by line."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import reference
import sqc
from compare import change_differences, differences, sample_differences
from generating import Case
from harness import Files, run
from isolated import Hangs
from reference import ReferenceRun
from spellings import unequal_spellings

#: The ways in which a run can go wrong, as `Comparison.kinds` names them.
DIFFERS, OURS_FAILS, THEIRS_FAILS, BREAKS = "differs", "only ours fails", "only the reference fails", "ours breaks"
SPELLING = "a spelling differs"

#: How ours says that a program or its run is wrong.
FAILURES = (sqc.CompileError, sqc.RunError, sqc.InputError)

#: Seconds that one run of the reference may take before its case is left out.
LIMIT = 10.0

#: How often the reference is run again where ours differs. It adds the work of the jobs at a stage up in an order that
#: changes from run to run, so the last bits of `work(s)` do, and with them what a program decides by them.
AGAIN = 12


@dataclass
class Comparison:
    """All runs of a case: `lines` say what differs; `refused` runs ended in an error on both sides.

    `unanswered` runs are those that the reference did not finish in time; ours is not run there. `unsteady` runs are
    those that differ, where the reference differs from itself as well: run again, it ended otherwise.
    """

    lines: list[str] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    runs: int = 0
    refused: int = 0
    unanswered: int = 0
    unsteady: int = 0


def compare(case: Case, limit: int = 40, spellings: bool = True) -> Comparison:
    """Every spelling, if asked for; every seed at every setting: the whole sample lists and gauges are compared.

    A run that fails must fail on both sides; the texts of the messages are not compared. At most
    `limit` lines are listed, and nothing is run after that many.
    """
    result = Comparison(unequal_spellings(case) if spellings else [])
    if result.lines:
        result.kinds.add(SPELLING)
    for sets in case.sets:
        for seed in case.seeds:
            result.runs += 1
            _one(case, seed, sets, result)
            if len(result.lines) >= limit:
                del result.lines[limit:]
                return result
    return result


def disagreements(case: Case) -> list[str]:
    """Lines that differ over all runs of the case, as it is written."""
    return compare(case, spellings=False).lines


def _one(case: Case, seed: int, sets: dict[str, float], result: Comparison) -> None:
    times: dict[str, Any] = {"horizon": case.horizon, "warmup": case.warmup, "arrivals": case.arrivals}
    where = f"seed {seed} {sets}: "
    refusal: str | None = None
    try:
        expected = reference.run(case.source, seed=seed, sets=sets, files=dict(case.files), limit=LIMIT, **times)
    except reference.Refused as error:
        refusal = str(error)
    except Hangs:
        result.unanswered += 1
        return
    try:
        actual = run(case.source, files=case.files, seed=seed, sets=sets, **times)
    except FAILURES as error:
        if refusal is None:
            result.kinds.add(OURS_FAILS)
            result.lines.append(f"{where}{OURS_FAILS}: {error}")
        result.refused += refusal is not None
        return
    except Exception as error:
        result.kinds.add(BREAKS)
        result.lines.append(f"{where}{BREAKS}: {type(error).__name__}: {error}")
        return
    if refusal is not None:
        result.kinds.add(THEIRS_FAILS)
        result.lines.append(f"{where}{THEIRS_FAILS}: {refusal}")
        return
    wrong = differences(expected.report, actual.report)
    for name, samples in expected.samples.items():
        wrong += sample_differences(name, samples, actual.samples[name])
    for name, changes in expected.gauges.items():
        wrong += change_differences(name, changes, actual.gauges[name])
    if wrong and _unsteady(case, seed, sets, expected):
        result.unsteady += 1
    elif wrong:
        result.kinds.add(DIFFERS)
        result.lines += [where + line for line in wrong]


def _unsteady(case: Case, seed: int, sets: dict[str, float], first: ReferenceRun) -> bool:
    """Whether the reference, run again, does not end as it did: then no difference from it says anything."""
    times: dict[str, Any] = {"horizon": case.horizon, "warmup": case.warmup, "arrivals": case.arrivals}
    for _ in range(AGAIN):
        again = reference.run(case.source, seed=seed, sets=sets, files=dict(case.files), limit=LIMIT, **times)
        if again.report != first.report:
            return True
    return False


def recorded_differences(measured: Mapping[str, Any], ours: ReferenceRun) -> list[str]:
    """What differs from a recorded run, an entry of `runs` in a corpus file (its format is in `corpus/README.md`).

    Recorded samples and change points may be the first ones only.
    """
    wrong = differences(measured["report"], ours.report)
    for name, kept in measured.get("samples", {}).items():
        expected = _rows(kept, ("time", "session", "turn", "value"))
        wrong += sample_differences(name, expected, itertools.islice(ours.samples[name], len(expected)))
    for name, points in measured.get("gauge_points", {}).items():
        expected = _rows(points, ("time", "value"))
        wrong += change_differences(name, expected, itertools.islice(ours.gauges[name], len(expected)))
    return wrong


def _rows(columns: Mapping[str, list[float]], names: tuple[str, ...]) -> list[tuple[float, ...]]:
    return list(zip(*(columns[name] for name in names), strict=True))


def replay_differences(source: str, measured: Mapping[str, Any], files: Files = ()) -> list[str]:
    """What differs when a recorded run is made again; one that was refused must be refused."""
    setting = {key: measured[key] for key in ("seed", "horizon", "warmup", "arrivals", "sets")}
    label = f"seed {setting['seed']} {setting['sets']}: "
    try:
        ours = run(source, files=files, **setting)
    except FAILURES as error:
        return [] if "refused" in measured else [f"{label}{OURS_FAILS}: {error}"]
    if "refused" in measured:
        return [f"{label}{THEIRS_FAILS}: {measured['refused']}"]
    return [label + line for line in recorded_differences(measured, ours)]

"""How two reports are compared: one home for the tolerance and for the names of the counters.

A report is the JSON object of a run (header, observes, client, stages, pools). `flatten` turns it
into dotted names, `differences` lists what does not agree. Counters must be equal; every other
number must agree to `RELATIVE` of the expected value. `FLOOR` is an absolute allowance for the one
case where a relative one means nothing: one of the two values is exactly 0 (the variance of equal
values, say, is 0 or a rounding residue, depending on the order of the sums).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

RELATIVE = 1e-9
FLOOR = 1e-12

Value: TypeAlias = float | int | bool | str | None

#: Numbers that count something: equal or wrong.
COUNTERS = frozenset(
    {
        *("horizon", "warmup", "seed", "events", "arrivals", "ended", "turns"),
        *("count", "completed", "iterations", "idle_with_work"),
        *("admissions", "evicted_entries", "preemptions", "spills", "rejected", "stuck"),
        *("over_cap", "growing_at_end", "growing_stalled"),
    }
)

#: Header fields that say who made the report, not what happened in the run.
PROVENANCE = frozenset({"serq_version", "sqc_version", "mode", "version"})


def flatten(report: Mapping[str, Any]) -> dict[str, Value]:
    """Dotted names and values: `events`, `observe.hit.mean`, `stage.engine.utilization`, ..."""
    out: dict[str, Value] = {}
    for name, value in report.items():
        if name in PROVENANCE or isinstance(value, (dict, list)):
            continue
        out[name] = value
    for section, prefix in (("observes", "observe"), ("client", "client")):
        for name, row in report.get(section, {}).items():
            out.update({f"{prefix}.{name}.{field}": value for field, value in row.items()})
    for section, prefix in (("stages", "stage"), ("pools", "pool")):
        for row in report.get(section, []):
            label = row["name"] if row.get("index") is None else f"{row['name']}[{row['index']}]"
            out.update({f"{prefix}.{label}.{f}": v for f, v in row.items() if f not in ("name", "index")})
    return out


def agree(expected: Value, actual: Value, *, exact: bool = False, relative: float = RELATIVE) -> bool:
    """Whether two values of a report agree; `None` (undefined) agrees only with itself."""
    if expected is None or actual is None or isinstance(expected, str) or isinstance(actual, str):
        return expected == actual
    if exact or expected == actual:
        return expected == actual
    if expected == 0 or actual == 0:
        return abs(expected - actual) <= FLOOR
    return math.isclose(expected, actual, rel_tol=relative, abs_tol=0.0)


def differences(expected: Mapping[str, Any], actual: Mapping[str, Any], *, relative: float = RELATIVE) -> list[str]:
    """One line per number of the expected report that the actual one lacks or has otherwise."""
    want, have = flatten(expected), flatten(actual)
    lines = [f"{name}: missing" for name in want if name not in have]
    for name, value in want.items():
        exact = name.rpartition(".")[2] in COUNTERS
        if name in have and not agree(value, have[name], exact=exact, relative=relative):
            lines.append(f"{name}: expected {value!r}, got {have[name]!r}")
    return lines


def sample_differences(
    name: str, expected: Iterable[Sequence[float]], actual: Iterable[Sequence[float]], *, relative: float = RELATIVE
) -> Iterator[str]:
    """The samples (time, session, turn, value) that differ, in order; both must be as long."""
    want, have = list(expected), list(actual)
    if len(want) != len(have):
        yield f"{name}: {len(want)} samples expected, got {len(have)}"
    for number, (a, b) in enumerate(zip(want, have, strict=False)):
        same = a[1] == b[1] and a[2] == b[2]
        if not same or not all(agree(a[k], b[k], relative=relative) for k in (0, 3)):
            yield f"{name}[{number}]: expected {tuple(a)}, got {tuple(b)}"

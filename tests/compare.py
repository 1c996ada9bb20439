"""How two reports are compared: one home for the tolerance and for the names of the counters.

A report is the JSON object of a run (header, observes, client, gauges, claims, stages, pools).
`flatten` turns it into dotted names, `differences` lists what does not agree. Counters must be
equal; every other number must agree to `RELATIVE` of the expected value. `FLOOR` is an absolute
allowance for where a relative one means nothing: the variance of equal values, say, is 0 or some
rounding residue, depending on the order of the sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

RELATIVE = 1e-9
FLOOR = 1e-12

#: A squared coefficient of variation this large says that the mean is 0 but for rounding: it is a number or none.
NO_MEAN = 1e24

#: What a claim says; its note is a text for the reader.
CLAIM_FIELDS = ("kind", "result", "checked", "failures", "first")

Value: TypeAlias = float | int | bool | str | None

#: Numbers that count something: equal or wrong.
COUNTERS = frozenset(
    {
        *("horizon", "warmup", "seed", "events", "arrivals", "ended", "turns"),
        *("count", "completed", "iterations", "idle_with_work", "checked", "failures"),
        *("admissions", "evicted_entries", "preemptions", "spills", "rejected", "stuck"),
        *("growing_at_end", "growing_stalled"),
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
    for section, prefix in (("observes", "observe"), ("client", "client"), ("gauges", "gauge")):
        for name, row in report.get(section, {}).items():
            out.update({f"{prefix}.{name}.{field}": value for field, value in row.items()})
    for row in report.get("claims", []):
        out.update({f"claim.{row['name']}.{field}": row[field] for field in CLAIM_FIELDS})
    for section, prefix in (("stages", "stage"), ("pools", "pool")):
        for row in report.get(section, []):
            label = row["name"] if row.get("index") is None else f"{row['name']}[{row['index']}]"
            for name, value in row.items():
                if isinstance(value, dict):
                    out.update({f"{prefix}.{label}.{name}.{part}": v for part, v in value.items()})
                elif name not in ("name", "index"):
                    out[f"{prefix}.{label}.{name}"] = value
    return out


def agree(expected: Value, actual: Value, *, exact: bool = False, relative: float = RELATIVE) -> bool:
    """Whether two values of a report agree; `None` and NaN (undefined) agree only with themselves."""
    if expected is None or actual is None or isinstance(expected, str) or isinstance(actual, str):
        return expected == actual
    if exact or expected == actual:
        return expected == actual
    if math.isnan(expected) or math.isnan(actual):
        return math.isnan(expected) and math.isnan(actual)
    return math.isclose(expected, actual, rel_tol=relative, abs_tol=FLOOR)


def differences(expected: Mapping[str, Any], actual: Mapping[str, Any], *, relative: float = RELATIVE) -> list[str]:
    """One line per number that only one of the reports has, or that they have otherwise."""
    want, have = flatten(expected), flatten(actual)
    lines = [f"{name}: missing" for name in want if name not in have]
    lines += [f"{name}: not expected" for name in have if name not in want]
    return lines + _unlike(want, have, relative)


def metric_differences(report: Mapping[str, Any], metrics: Mapping[str, Value], names: frozenset[str]) -> list[str]:
    """One line per number of the report, except those called one of `names`, that the metrics of a
    sweep's lane lack or have otherwise."""
    want = {name: value for name, value in flatten(report).items() if name.rpartition(".")[2] not in names}
    lines = [f"{name}: no metric" for name in want if name not in metrics]
    return lines + _unlike(want, metrics, RELATIVE)


def _unlike(want: Mapping[str, Value], have: Mapping[str, Value], relative: float) -> list[str]:
    lines = []
    for name, value in want.items():
        exact = name.rpartition(".")[2] in COUNTERS
        if name.endswith(".cv2") and _about_nothing(value) and _about_nothing(have.get(name, 0.0)):
            continue
        if name in have and not agree(value, have[name], exact=exact, relative=relative):
            lines.append(f"{name}: expected {value!r}, got {have[name]!r}")
    return lines


def _about_nothing(cv2: Value) -> bool:
    return cv2 is None or (isinstance(cv2, float | int) and cv2 > NO_MEAN)


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


def change_differences(
    name: str, expected: Iterable[Sequence[float]], actual: Iterable[Sequence[float]], *, relative: float = RELATIVE
) -> Iterator[str]:
    """The change points (time, value) of a gauge that differ, in order; both must be as long."""
    want, have = list(expected), list(actual)
    if len(want) != len(have):
        yield f"{name}: {len(want)} change points expected, got {len(have)}"
    for number, (a, b) in enumerate(zip(want, have, strict=False)):
        if not all(agree(a[k], b[k], relative=relative) for k in (0, 1)):
            yield f"{name}[{number}]: expected {tuple(a)}, got {tuple(b)}"

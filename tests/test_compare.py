"""The comparison that other tests rest on: it sees every number of a report, each with its tolerance."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from compare import CLAIM_FIELDS, COUNTERS, agree, change_differences, differences, flatten, sample_differences
from harness import corpus_runs

#: Between them they have everything: arrays, names with dots, gauges, claims, a pool asked for more than its cap.
PROGRAMS = ("c12_live_demand", "e04_gauges", "i02_station_pull")


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to every number of a report."""
    if isinstance(node, dict):
        for name, value in node.items():
            yield from places(value, (*path, name))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from places(value, (*path, index))
    elif path[-1] not in ("name", "index", "note"):
        yield path


def changed(report: dict[str, Any], path: tuple[Any, ...], by: float) -> dict[str, Any]:
    """The report with one value changed: larger by a fraction (a counter by 1, what is almost 0 by
    more), or defined where it was not."""
    out = copy.deepcopy(report)
    *way, last = path
    row: Any = out
    for step in way:
        row = row[step]
    value = row[last]
    if isinstance(value, str):
        row[last] = value + "?"
    elif value is None:
        row[last] = 0.5
    else:
        row[last] = value + 1 if last in COUNTERS else value + max(abs(value), 1e-3) * by
    return out


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_number_counts(name: str) -> None:
    report = corpus_runs(name)[0]["report"]
    assert differences(report, report) == []
    found = list(places(report))
    assert len(found) == len(flatten(report))
    for path in found:
        assert len(differences(report, changed(report, path, 2e-9))) == 1, path


@pytest.mark.parametrize("name", PROGRAMS)
def test_rounding_does_not(name: str) -> None:
    report = corpus_runs(name)[0]["report"]
    for path in places(report):
        if path[-1] not in (*COUNTERS, *CLAIM_FIELDS, "queue") and flat(report, path) is not None:
            assert differences(report, changed(report, path, 1e-13)) == [], path


def flat(report: Any, path: tuple[Any, ...]) -> Any:
    """The value at a path."""
    for step in path:
        report = report[step]
    return report


def test_rows_that_only_one_side_has() -> None:
    report = corpus_runs("e04_gauges")[0]["report"]
    shorter = report | {"pools": [], "gauges": {}}
    lines = {line.partition(": ")[2] for line in differences(report, shorter)}
    assert lines == {"missing"}
    assert {line.partition(": ")[2] for line in differences(shorter, report)} == {"not expected"}


def test_values() -> None:
    assert agree(None, None)
    assert not agree(None, 0.0)
    assert not agree(0.0, None)
    assert agree(0, 9e-13)
    assert agree(5.3e-17, 1.1e-16)
    assert not agree(0, 2e-12)
    assert agree(3, 3.0, exact=True)
    assert not agree(1e12, 1e12 + 1, exact=True)


def test_samples_and_changes() -> None:
    samples = [(1.0, 1, 1, 2.0), (2.0, 2, 1, 3.0)]
    assert list(sample_differences("s", samples, samples)) == []
    for other in ((2.1, 2, 1, 3.0), (2.0, 3, 1, 3.0), (2.0, 2, 2, 3.0), (2.0, 2, 1, 3.1)):
        assert len(list(sample_differences("s", samples, [samples[0], other]))) == 1
    assert len(list(sample_differences("s", samples, samples[:1]))) == 1
    changes = [(0.0, 1.0), (2.0, 3.0)]
    assert list(change_differences("g", changes, changes)) == []
    for change in ((2.1, 3.0), (2.0, 3.1)):
        assert len(list(change_differences("g", changes, [changes[0], change]))) == 1
    assert len(list(change_differences("g", changes, changes[:1]))) == 1


def test_variation_about_nothing() -> None:
    """A mean that is 0 but for rounding makes any huge `cv2`, or none; every other one counts."""
    row = {"count": 3, "mean": 1e-17, "cv2": 1e34}
    assert differences({"observes": {"x": row}}, {"observes": {"x": {**row, "mean": 0, "cv2": None}}}) == []
    for wrong in (5.0, 1e20):
        for one, other in ((row, {**row, "cv2": wrong}), ({**row, "cv2": wrong}, {**row, "cv2": None})):
            assert len(differences({"observes": {"x": one}}, {"observes": {"x": other}})) == 1

"""A report as JSON, and as a folder of files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqc.report.rows import statistics
from sqc.textform import plain
from sqc.version import SERQ_VERSION, VERSION

if TYPE_CHECKING:
    from sqc.report.report import Report

HEADER = ("horizon", "end", "warmup", "seed", "events", "arrivals", "ended", "turns", "mean_live")


def document(report: Report) -> dict[str, Any]:
    """JSON-ready objects; non-finite numbers are None, whole ones are ints."""
    claims = {"claims": [asdict(row) for row in report.claims]} if report.claims else {}
    made: dict[str, Any] = plain(
        {
            "serq_version": SERQ_VERSION,
            **{name: getattr(report, name) for name in HEADER},
            "observes": {row.name: statistics(row) for row in report.observes},
            "client": {row.name: statistics(row) for row in report.clients},
            "gauges": {row.name: statistics(row) for row in report.gauges},
            **claims,
            "stages": [asdict(row) for row in report.stages],
            "pools": [asdict(row) for row in report.pools],
            "sqc_version": VERSION,
            "mode": report.mode,
            "inputs": dict(report.inputs),
        }
    )
    return made


def dump(report: Report, directory: str | Path) -> None:
    """Write `report.json` and the CSV files into a folder, which is made if it is missing."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(report.to_json() + "\n", encoding="utf-8")
    for name, content in _files(report):
        (folder / name).write_text(content, encoding="utf-8")


def _files(report: Report) -> Iterator[tuple[str, str]]:
    """Name and content of a CSV file for every row that has samples, and for every gauge."""
    for name, samples in report.samples.items():
        if len(samples):
            yield f"{name}.csv", samples.to_csv()
    for row in report.gauges:
        yield f"gauge.{row.name}.csv", row.changes.to_csv()

"""The text of a report: sections separated by a blank line, numbers with fixed decimals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from sqc.report.interval import BATCHES
from sqc.report.rows import ClaimRow, GaugeRow, PoolRow, SampleRow, StageRow
from sqc.textform import aligned, fixed, shortest

if TYPE_CHECKING:
    from sqc.report.report import Report

Cells: TypeAlias = tuple[str, ...]

GAUGE_HEADER = ("gauge", "mean", "95% CI", "min", "max")
CLAIM_HEADER = ("claim", "kind", "result", "checked", "failures", "first")
STAGE_HEADER = ("stage", "number", "util", "done", "thru", "wait", "service", "iters")
STEP_HEADER = (
    *("stage", "prefill only", "decode only", "mixed", "idle", "decodes"),
    *("decode batch", "decode step", "itl p50", "itl p99"),
)
POOL_HEADER = (
    *("pool", "used", "cached", "queue", "holders", "wait", "admits"),
    *("evict(n)", "evict(u)", "preempt", "spill", "rej", "stuck"),
)


class Section(NamedTuple):
    """A table of the report (without rows: none), and notes, each with the number of rows that stand above it."""

    header: Cells
    rows: list[Cells]
    notes: list[tuple[int, str]]


def text(report: Report) -> str:
    """The whole report."""
    parts = [run_line(report)]
    for header, rows, notes in sections(report):
        lines = aligned(header, rows) if rows else []
        above = len(lines) - len(rows)
        for position, note in reversed(notes):
            lines.insert(above + position, note)
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def sections(report: Report) -> list[Section]:
    """All tables of the report; those without rows and notes are left out."""
    stages, pools = report.stages, report.pools
    clients = [row for row in report.clients if row.count]
    made = [
        _section(_sample_header("observe"), _sample_cells(report.observes, 4))._replace(notes=_observe_notes(report)),
        _section(GAUGE_HEADER, map(_gauge_cells, report.gauges)),
        _section(CLAIM_HEADER, map(_claim_cells, report.claims), _claim_notes(report.claims)),
        _section(_sample_header("client"), _sample_cells(clients, 5)),
        _section(STAGE_HEADER, map(_stage_cells, stages)),
        _section(STEP_HEADER, (_step_cells(row) for row in stages if row.iterations), _step_notes(stages)),
        _section(POOL_HEADER, map(_pool_cells, pools), _pool_notes(pools)),
    ]
    return [section for section in made if section.rows or section.notes]


def _section(header: Cells, rows: Iterable[Cells], notes: Iterable[str] = ()) -> Section:
    """A table with notes below it."""
    cells = list(rows)
    return Section(header, cells, [(len(cells), note) for note in notes])


def _words(name: str) -> str:
    """A name of the JSON as words: `not_evaluated`, `not evaluated`."""
    return name.replace("_", " ")


def run_line(report: Report) -> str:
    """One line that says what was run."""
    return (
        f"run: horizon {shortest(report.horizon)} end {shortest(report.end)} warmup {shortest(report.warmup)}"
        f" seed {report.seed} events {report.events} arrivals {report.arrivals} ended {report.ended}"
        f" turns {report.turns} mean live {fixed(report.mean_live, 3)}"
    )


def _observe_notes(report: Report) -> list[tuple[int, str]]:
    """Below a test that came out 0 every time."""
    return [
        (position, f"note: {row.name} is constant 0 in all {row.count} samples")
        for position, row in enumerate(report.observes, 1)
        if row.name in report.tests and row.count >= 2 * BATCHES and not np.any(row.samples.value)
    ]


def _sample_header(kind: str) -> Cells:
    return (kind, "count", "mean", "95% CI", "cv2", "p99")


def _sample_cells(rows: Sequence[SampleRow], decimals: int) -> list[Cells]:
    return [
        (
            row.name,
            str(row.count),
            fixed(row.mean, decimals),
            "±inf" if row.count < 2 * BATCHES else f"±{fixed(row.ci, decimals)}",
            fixed(row.cv2, 3),
            fixed(row.p99, decimals),
        )
        for row in rows
    ]


def _gauge_cells(row: GaugeRow) -> Cells:
    return (row.name, fixed(row.mean, 4), f"±{fixed(row.ci, 4)}", fixed(row.min, 4), fixed(row.max, 4))


def _claim_cells(row: ClaimRow) -> Cells:
    kind, result = _words(row.kind), _words(row.result)
    return (row.name, kind, result, str(row.checked), str(row.failures), shortest(row.first))


def _claim_notes(rows: Sequence[ClaimRow]) -> list[str]:
    return [f"note: {row.name} is {_words(row.result)}: {row.note}" for row in rows if row.note]


def _stage_cells(row: StageRow) -> Cells:
    return (
        row.label,
        fixed(row.mean_number, 3),
        fixed(row.utilization, 3),
        str(row.completed),
        fixed(row.throughput, 4),
        fixed(row.mean_wait, 4),
        fixed(row.mean_service, 4),
        str(row.iterations),
    )


def _step_cells(row: StageRow) -> Cells:
    idle = 1.0 - row.prefill_only - row.decode_only - row.mixed
    return (
        row.label,
        *(fixed(share, 3) for share in (row.prefill_only, row.decode_only, row.mixed, idle)),
        fixed(row.mean_decodes, 3),
        fixed(row.mean_decode_batch, 3),
        fixed(row.mean_decode_step, 6),
        fixed(row.itl_p50, 6),
        fixed(row.itl_p99, 6),
    )


def _step_notes(rows: Sequence[StageRow]) -> list[str]:
    return [
        f"note: at the end {row.label} is idle with work: its last attempt to start an iteration scheduled nothing"
        for row in rows
        if row.idle_with_work
    ]


def _pool_cells(row: PoolRow) -> Cells:
    return (
        row.label,
        fixed(row.mean_used, 1),
        fixed(row.mean_cached, 1),
        fixed(row.mean_queue, 3),
        fixed(row.mean_holders, 3),
        fixed(row.mean_wait, 4),
        str(row.admissions),
        str(row.evicted_entries),
        fixed(row.evicted_units, 0),
        str(row.preemptions),
        str(row.spills),
        str(row.rejected),
        str(row.stuck),
    )


def _pool_notes(rows: Sequence[PoolRow]) -> list[str]:
    notes = []
    for row in rows:
        if row.over_cap is not None:
            queue, need = row.over_cap.queue, shortest(row.over_cap.need)
            notes.append(
                f"note: at the end the head of the queue of {queue} asks {row.label} for {need}, above its cap"
            )
        if row.growing_stalled:
            notes.append(f"note: at the end every holder of {row.label} waits to grow ({row.growing_at_end})")
        elif row.growing_at_end:
            notes.append(f"note: at the end {row.growing_at_end} of the holders of {row.label} wait to grow")
    return notes

"""The text of a report: sections separated by a blank line, numbers with fixed decimals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

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


def text(report: Report) -> str:
    """The whole report; sections without rows are left out."""
    sections = [
        [_run_line(report)],
        _observe_table(report),
        _table(GAUGE_HEADER, map(_gauge_cells, report.gauges)),
        _table(CLAIM_HEADER, map(_claim_cells, report.claims)) + _claim_notes(report.claims),
        _sample_table("client", [row for row in report.clients if row.count], 5),
        _table(STAGE_HEADER, map(_stage_cells, report.stages)),
        _table(STEP_HEADER, (_step_cells(row) for row in report.stages if row.iterations)) + _step_notes(report.stages),
        _table(POOL_HEADER, map(_pool_cells, report.pools)) + _pool_notes(report.pools),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _table(header: Cells, rows: Iterable[Cells]) -> list[str]:
    cells = list(rows)
    return aligned(header, cells) if cells else []


def _words(name: str) -> str:
    """A name of the JSON as words: `not_evaluated`, `not evaluated`."""
    return name.replace("_", " ")


def _run_line(report: Report) -> str:
    return (
        f"run: horizon {shortest(report.horizon)} end {shortest(report.end)} warmup {shortest(report.warmup)}"
        f" seed {report.seed} events {report.events} arrivals {report.arrivals} ended {report.ended}"
        f" turns {report.turns} mean live {fixed(report.mean_live, 3)}"
    )


def _observe_table(report: Report) -> list[str]:
    """The observes; a test that came out 0 every time is followed by a note."""
    lines = _sample_table("observe", report.observes, 4)
    for position, row in reversed(list(enumerate(report.observes))):
        if row.name in report.tests and row.count >= 2 * BATCHES and not np.any(row.samples.value):
            lines.insert(position + 3, f"note: {row.name} is constant 0 in all {row.count} samples")
    return lines


def _sample_table(kind: str, rows: Sequence[SampleRow], decimals: int) -> list[str]:
    cells = [
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
    return _table((kind, "count", "mean", "95% CI", "cv2", "p99"), cells)


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

"""From what a kernel measured to the rows of a report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sqc.report.interval import Array
from sqc.report.rows import Changes, ClaimRow, GaugeRow, OverCap, PoolRow, SampleRow, Samples, StageRow, label

if TYPE_CHECKING:
    from sqc import ir


class ChangeColumns(Protocol):
    """The change points of a gauge: equally long arrays, in order of time."""

    @property
    def time(self) -> Array: ...
    @property
    def value(self) -> Array: ...


class SampleColumns(ChangeColumns, Protocol):
    """The samples of one row: equally long arrays, in order of execution."""

    @property
    def session(self) -> Array: ...
    @property
    def turn(self) -> Array: ...


class Outcome(Protocol):
    """A finished run as the kernel returns it."""

    @property
    def metrics(self) -> Mapping[str, float]: ...
    @property
    def samples(self) -> Mapping[str, SampleColumns]: ...
    @property
    def gauges(self) -> Mapping[str, ChangeColumns]: ...
    @property
    def mode(self) -> str: ...


_STAGE_FLOATS = ("mean_number", "utilization", "throughput", "mean_wait", "mean_service")
_STAGE_COUNTS = ("completed", "iterations")
_STEP_FLOATS = (
    *("prefill_only", "decode_only", "mixed", "mean_decodes", "mean_decode_batch", "mean_decode_step"),
    *("mean_itl", "itl_p50", "itl_p99"),
)
_POOL_FLOATS = ("mean_used", "mean_cached", "mean_queue", "mean_holders", "mean_wait", "evicted_units")
_POOL_COUNTS = (
    *("admissions", "evicted_entries", "preemptions", "spills", "rejected", "stuck"),
    *("growing_at_end", "growing_stalled"),
)


def sample_row(run: Outcome, kind: str, name: str) -> SampleRow:
    """The row `observe NAME` or `client NAME`."""
    kept = run.samples.get(f"{kind}.{name}")
    if kept is None:
        return SampleRow.of(name, Samples())
    session, turn = kept.session.astype(np.int64), kept.turn.astype(np.int64)
    return SampleRow.of(name, Samples(kept.time, session, turn, kept.value))


def gauge_row(run: Outcome, name: str, start: float, end: float) -> GaugeRow:
    """The row of a gauge over `[start, end]`."""
    mean, least, most = (run.metrics[f"gauge.{name}.{part}"] for part in ("mean", "min", "max"))
    changes = Changes(run.gauges[name].time, run.gauges[name].value)
    return GaugeRow.of(name, changes, mean=mean, least=least, most=most, start=start, end=end)


def claim_row(metrics: Mapping[str, float], declared: ir.Claim, end: float) -> ClaimRow:
    """The row of a claim."""
    name = declared.name
    value, outside, why = (metrics[f"claim.{name}.{part}"] for part in ("value", "out_of_scope", "why"))
    if declared.stage is None:
        return ClaimRow.at_end(name, value, bool(outside), why, end)
    checked, failures, first = (metrics[f"claim.{name}.{part}"] for part in ("checked", "failures", "first"))
    return ClaimRow.of_iterations(name, declared.kind, bool(outside), why, int(checked), int(failures), first)


def stage_rows(metrics: Mapping[str, float], stages: Sequence[ir.Stage]) -> tuple[StageRow, ...]:
    """One row per stage, one per member of an array."""
    rows = []
    for name, index in _members(stages):
        values = _values(metrics, f"stage.{label(name, index)}", _STAGE_FLOATS, _STAGE_COUNTS)
        prefix = f"stage.{label(name, index)}"
        if f"{prefix}.idle_with_work" in metrics:  # a step stage
            values |= _values(metrics, prefix, _STEP_FLOATS, ("idle_with_work",))
            values["idle_with_work"] = bool(values["idle_with_work"])
        rows.append(StageRow(name, index, **values))
    return tuple(rows)


def pool_rows(metrics: Mapping[str, float], pools: Sequence[ir.Pool]) -> tuple[PoolRow, ...]:
    """One row per pool, one per member of an array."""
    members = _members(pools)
    rows = []
    for name, index in members:
        prefix = f"pool.{label(name, index)}"
        values = _values(metrics, prefix, _POOL_FLOATS, _POOL_COUNTS)
        values["growing_stalled"] = bool(values["growing_stalled"])
        number = metrics[f"{prefix}.over_cap_queue"]  # counts the members of all pools in order
        if not math.isnan(number):
            values["over_cap"] = OverCap(label(*members[int(number)]), metrics[f"{prefix}.over_cap_need"])
        rows.append(PoolRow(name, index, **values))
    return tuple(rows)


def _members(declared: Sequence[ir.Stage] | Sequence[ir.Pool]) -> list[tuple[str, int | None]]:
    """Name and index of everything declared; the index is None where there is no array."""
    members: list[tuple[str, int | None]] = []
    for resource in declared:
        indices = [None] if resource.size is None else range(resource.size)
        members += [(resource.name, index) for index in indices]
    return members


def _values(metrics: Mapping[str, float], prefix: str, floats: Sequence[str], counts: Sequence[str]) -> dict[str, Any]:
    values: dict[str, Any] = {name: float(metrics[f"{prefix}.{name}"]) for name in floats}
    return values | {name: int(metrics[f"{prefix}.{name}"]) for name in counts}

"""What one run says, as an object with rows by name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sqc.inputs import did_you_mean
from sqc.report import measured
from sqc.report.document import document, dump
from sqc.report.html import html
from sqc.report.rows import CLIENT_ROWS, ClaimRow, GaugeRow, PoolRow, SampleRow, Samples, StageRow, label
from sqc.report.text import text

if TYPE_CHECKING:
    from sqc import ir

_Named = TypeVar("_Named", SampleRow, GaugeRow, ClaimRow)
_Member = TypeVar("_Member", StageRow, PoolRow)


@dataclass(frozen=True, eq=False)
class Report:
    """What one run says. `str(report)` is the text, `report.json()` the JSON object.

    `horizon`, `end` and `warmup` are times; `end` is below the horizon only if an arrival limit
    ended the run. `events` and `arrivals` count over the whole run, `ended` and `turns` after the
    warm-up; `mean_live` is a time average. `mode` is `native` or `portable`; `inputs` are the
    values the run had.
    """

    horizon: float
    end: float
    warmup: float
    seed: int
    events: int
    arrivals: int
    ended: int
    turns: int
    mean_live: float
    observes: tuple[SampleRow, ...]
    clients: tuple[SampleRow, ...]
    stages: tuple[StageRow, ...]
    pools: tuple[PoolRow, ...]
    mode: str
    inputs: Mapping[str, float]
    gauges: tuple[GaugeRow, ...] = ()
    claims: tuple[ClaimRow, ...] = ()
    tests: frozenset[str] = frozenset()
    """The observes whose every value is a test (0 or 1)."""

    @classmethod
    def of(
        cls,
        program: ir.Program,
        run: measured.Outcome,
        *,
        seed: int,
        horizon: float,
        warmup: float,
        inputs: Mapping[str, float],
    ) -> Report:
        """The report of a finished run of `program`."""
        metrics = run.metrics
        end = metrics["end"]
        return cls(
            horizon=horizon,
            end=end,
            warmup=warmup,
            seed=seed,
            events=int(metrics["events"]),
            arrivals=int(metrics["arrivals"]),
            ended=int(metrics["ended"]),
            turns=int(metrics["turns"]),
            mean_live=metrics["mean_live"],
            observes=tuple(measured.sample_row(run, "observe", declared.name) for declared in program.observes),
            clients=tuple(measured.sample_row(run, "client", name) for name in CLIENT_ROWS),
            gauges=tuple(measured.gauge_row(run, declared.name, warmup, end) for declared in program.gauges),
            claims=tuple(measured.claim_row(metrics, declared, end) for declared in program.claims),
            stages=measured.stage_rows(metrics, program.stages),
            pools=measured.pool_rows(metrics, program.pools),
            mode=run.mode,
            inputs=dict(inputs),
            tests=frozenset(declared.name for declared in program.observes if declared.test),
        )

    def observe(self, name: str) -> SampleRow:
        """The row of `observe NAME`; KeyError if the program has none."""
        return _named(self.observes, name, "observe")

    def client(self, name: str) -> SampleRow:
        """The row `response`, `ttft` or `tpot`."""
        return _named(self.clients, name, "client row")

    def gauge(self, name: str) -> GaugeRow:
        """The row of a gauge; its `changes` are its change points."""
        return _named(self.gauges, name, "gauge")

    def claim(self, name: str) -> ClaimRow:
        """How a claim came out."""
        return _named(self.claims, name, "claim")

    def stage(self, name: str, index: int | None = None) -> StageRow:
        """A stage by name, or a member of an array by name and index (or as `name[i]`)."""
        return _member(self.stages, name, index, "stage")

    def pool(self, name: str, index: int | None = None) -> PoolRow:
        """A pool by name, or a member of an array by name and index (or as `name[i]`)."""
        return _member(self.pools, name, index, "pool")

    @property
    def samples(self) -> dict[str, Samples]:
        """The samples of every row by metric name: `observe.hit`, `client.response`, ..."""
        observes = {f"observe.{row.name}": row.samples for row in self.observes}
        return observes | {f"client.{row.name}": row.samples for row in self.clients}

    def json(self) -> dict[str, Any]:
        """The report as JSON-ready objects; non-finite numbers are None, whole ones are ints."""
        return document(self)

    def to_json(self) -> str:
        """The report as JSON text."""
        return json.dumps(self.json(), indent=1, allow_nan=False)

    def dump(self, directory: str | Path) -> None:
        """Write `report.json`, for every row with samples `observe.NAME.csv` or `client.NAME.csv`,
        and for every gauge its change points, `gauge.NAME.csv`.

        The directory is made if it is missing. Raises OSError where the system does.
        """
        dump(self, directory)

    def __str__(self) -> str:
        return text(self)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return html(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What IPython shows where it has no HTML."""
        printer.text("..." if cycle else str(self))


def _named(rows: Sequence[_Named], name: str, what: str) -> _Named:
    for row in rows:
        if row.name == name:
            return row
    raise KeyError(f"no {what} {name}{did_you_mean(name, (row.name for row in rows))}")


def _member(rows: Sequence[_Member], name: str, index: int | None, what: str) -> _Member:
    wanted = label(name, index)
    for row in rows:
        if row.label == wanted:
            return row
    raise KeyError(f"no {what} {wanted}{did_you_mean(wanted, (row.label for row in rows))}")

"""A block of finished lanes as a Parquet file: one row per lane.

Columns: every input by its name, `seed`, every metric (null where it is undefined or the lane failed),
`status` (`done`, or the code of the failure), `failure` (what there is to say of it, JSON) and `point`, the
number of the lane's point in the manifest. The file's own metadata have the histograms of samples, pooled
over the lanes of each point, and the identity of the sweep.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sqc.sweeps.errors import StoreError
from sqc.sweeps.experiment import Block, LaneFailed
from sqc_runtime.histogram import Histogram, Pooled

if TYPE_CHECKING:
    import pyarrow as pa

    from sqc import ir

DONE = "done"
OWN = ("seed", "status", "failure", "point")
"""Columns that are neither an input nor a metric."""
_IDENTITY, _POOLED = b"sqc.sweep", b"sqc.pooled"
_NAME = re.compile(r"\d{6,}-[0-9a-f]{12}\.parquet")


@dataclass(frozen=True)
class Failed:
    """A failure as it was stored."""

    code: str
    message: str
    time: float
    session: int
    span: ir.Span | None


def input_columns(inputs: Sequence[str], metrics: Sequence[str]) -> dict[str, str]:
    """The column of each input: its name, or `input.NAME` where another column is called so."""
    taken = {*OWN, *metrics}
    return {name: f"input.{name}" if name in taken else name for name in inputs}


def encode(block: Block, inputs: Mapping[str, Any], identity: str) -> bytes:
    """The file of a block; `inputs` has each input's value for every lane."""
    pa, parquet = library()
    names = input_columns(list(inputs), list(block.metrics))
    columns: dict[str, Any] = {names[name]: pa.array(values) for name, values in inputs.items()}
    columns["seed"] = pa.array(np.asarray(block.seeds, np.uint64))
    failures = [block.failures.get(place) for place in range(len(block))]
    failed = np.array([failure is not None for failure in failures])
    for name, values in block.metrics.items():
        numbers = np.asarray(values, np.float64)
        columns[name] = pa.array(numbers, mask=np.isnan(numbers) | failed)
    columns["status"] = pa.array([one.code if one else DONE for one in failures], pa.string())
    columns["failure"] = pa.array([_failure_text(one) if one else None for one in failures], pa.string())
    columns["point"] = pa.array(np.asarray(block.points, np.int32))
    table = pa.table(columns).replace_schema_metadata({_IDENTITY: identity, _POOLED: _pack(block.pooled)})
    buffer = io.BytesIO()
    parquet.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def name_of(number: int, data: bytes) -> str:
    """The name of a block's file: its number, and a digest of its contents that tells whether it is whole."""
    return f"{number:06d}-{_digest(data)}.parquet"


def number_of(path: Path) -> int:
    """The number in the name of a block's file."""
    return int(path.name.partition("-")[0])


def decode(path: Path, metrics: Sequence[str], identity: str) -> Block:
    """The block in a file of the sweep with this identity. Raises StoreError if it is not whole, or another's."""
    if not _NAME.fullmatch(path.name):
        raise StoreError(path, "its name is not that of a block")
    data = path.read_bytes()
    if _digest(data) != path.stem.partition("-")[2]:
        raise StoreError(path, "truncated or damaged; delete it and its lanes are run again by --resume")
    _, parquet = library()
    table = parquet.read_table(io.BytesIO(data), use_threads=False).combine_chunks()
    about = table.schema.metadata or {}
    if about.get(_IDENTITY) != identity.encode():
        raise StoreError(path, "the file belongs to another sweep")
    failures = {
        place: _failed(code, text)
        for place, (code, text) in enumerate(
            zip(table.column("status").to_pylist(), table.column("failure").to_pylist(), strict=True)
        )
        if code != DONE
    }
    return Block(
        points=_numbers(table, "point").astype(np.int64),
        seeds=_numbers(table, "seed").astype(np.uint64),
        metrics={name: _numbers(table, name).astype(np.float64) for name in metrics},
        failures=failures,
        pooled=_unpack(about[_POOLED]),
    )


def _numbers(table: pa.Table, name: str) -> Any:
    return table.column(name).to_numpy()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


def _failure_text(failed: LaneFailed) -> str:
    span = failed.span
    place = [span.line, span.col, span.end_line, span.end_col] if span else None
    return json.dumps(
        {"message": failed.message, "time": float(failed.time), "session": int(failed.session), "place": place}
    )


def _failed(code: str, text: str) -> Failed:
    from sqc import ir

    about = json.loads(text)
    span = ir.Span(*about["place"]) if about["place"] else None
    return Failed(code, about["message"], about["time"], about["session"], span)


def _pack(pooled: Pooled) -> bytes:
    document = {
        str(point): {row: histogram.json() for row, histogram in rows.items()} for point, rows in pooled.items()
    }
    return base64.b64encode(zlib.compress(json.dumps(document, separators=(",", ":")).encode()))


def _unpack(packed: bytes) -> Pooled:
    document = json.loads(zlib.decompress(base64.b64decode(packed)))
    return {
        int(point): {row: Histogram.from_json(given) for row, given in rows.items()} for point, rows in document.items()
    }


def library() -> tuple[Any, Any]:
    """pyarrow, which only stored sweeps need: it takes a third of a second to load."""
    import pyarrow
    from pyarrow import parquet

    return pyarrow, parquet

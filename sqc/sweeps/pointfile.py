"""Points from a file: CSV with a header, or Parquet; one column per input, one row per point."""

from __future__ import annotations

import csv
from pathlib import Path

from sqc.inputs import InputError, number


def read_points(path: Path) -> list[dict[str, float]]:
    """The points in a file, in its order. Raises InputError for a wrong one, OSError for one that cannot be read."""
    return _parquet(path) if path.suffix in (".parquet", ".pq") else _csv(path)


def _csv(path: Path) -> list[dict[str, float]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    except (UnicodeDecodeError, csv.Error):
        raise InputError(f"{path}: no CSV text in UTF-8") from None
    if len(rows) < 2:
        raise InputError(f"{path}: a line with the names of inputs, then a line for each point")
    names = [name.strip() for name in rows[0]]
    _check(path, names)
    points = []
    for place, row in enumerate(rows[1:], 1):
        if len(row) != len(names):
            raise InputError(f"{path}: point {place} has {len(row)} values for {len(names)} inputs")
        cells = zip(names, row, strict=True)
        points.append({name: number(cell.strip(), f"{path}: point {place}, input {name}") for name, cell in cells})
    return points


def _parquet(path: Path) -> list[dict[str, float]]:
    from sqc.sweeps.blocks import library

    arrow, parquet = library()
    with path.open("rb"):  # what is wrong with the file itself is an OSError that names it
        pass
    try:
        table = parquet.read_table(path)
    except (arrow.ArrowException, OSError):
        raise InputError(f"{path}: no Parquet file") from None
    _check(path, table.column_names)
    if not table.num_rows:
        raise InputError(f"{path}: no points")
    points = []
    for place, row in enumerate(table.to_pylist(), 1):
        missing = next((name for name, value in row.items() if value is None), None)
        if missing is not None:
            raise InputError(f"{path}: point {place}, input {missing}: no value")
        points.append({name: number(value, f"{path}: point {place}, input {name}") for name, value in row.items()})
    return points


def _check(path: Path, names: list[str]) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{path}: two columns {twice}")

"""How numbers and tables look in text and in JSON; shared by reports and sweeps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any


def fixed(value: float, decimals: int) -> str:
    """A number with so many decimals; `NaN`, `inf`, and never a negative zero."""
    if math.isnan(value):
        return "NaN"
    text = f"{value:.{decimals}f}"
    return text[1:] if text.startswith("-") and not text.strip("-0.") else text


def shortest(value: float) -> str:
    """The shortest decimal text that reads back as the same number: `20000`, `0.0000001`."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if value == int(value) and abs(value) < 1e21:
        return str(int(value))
    if 1e-7 <= abs(value) < 1e21:
        return format(Decimal(repr(value)), "f")
    return repr(value)


def settings(values: Mapping[str, float]) -> str:
    """Names and values: `C=20000 Z=3`."""
    return " ".join(f"{name}={shortest(value)}" for name, value in values.items())


def plain(value: Any) -> Any:
    """A value as JSON holds it: whole numbers without a point, non-finite numbers as null."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value == int(value) and abs(value) < 1e15 else float(value)
    return value


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """A table as lines: header, a rule of dashes, rows.

    The first `left` columns are left-aligned and the others right-aligned; each column is as wide
    as its widest cell; two spaces stand between columns and no line has trailing blanks.
    """
    widths = [max(len(row[k]) for row in (header, *rows)) for k in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.ljust(w) if k < left else cell.rjust(w) for k, (cell, w) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join(padded).rstrip()

    return [line(header), line(["-" * width for width in widths]), *(line(row) for row in rows)]

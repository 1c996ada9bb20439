"""The points of a sweep: values and ranges of inputs, and every combination of them.

A range is `LOW:HIGH:COUNT`, both ends included, or `LOW:HIGH:COUNTlog` with equal ratios. Its inner
values are rounded, as far as their spacing allows, to six significant digits: what a table prints can be typed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from sqc.inputs import MAX_LANES, InputError, Number, Values, check_names, number

Point: TypeAlias = Mapping[str, float]

_DIGITS = 6
_SLACK = 1e-3
"""By how much of the spacing rounding may move a value."""


def several(value: Values, what: str) -> tuple[float, ...]:
    """One or more numbers: a number, a text with commas and ranges, or an iterable of numbers and such texts."""
    if isinstance(value, str):
        return tuple(itertools.chain.from_iterable(_part(part, what) for part in split_commas(value)))
    if isinstance(value, Iterable):
        numbers = tuple(number(item, what) for item in value)
        if not numbers:
            raise InputError(f"{what}: no value")
        return numbers
    return (number(value, what),)


def split_commas(text: str) -> list[str]:
    """The parts of a text between its commas; commas inside parentheses do not count."""
    parts, depth = [""], 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def _part(text: str, what: str) -> tuple[float, ...]:
    if ":" not in text or "?" in text:  # `a ? b : c` is an expression
        return (number(text, what),)
    ends, _, count = text.rpartition(":")
    logarithmic = count.strip().endswith("log")
    digits = count.strip().removesuffix("log")
    if ":" not in ends or not digits.isdecimal():
        raise InputError(f"{what}: {text} is no range (LOW:HIGH:COUNT, or LOW:HIGH:COUNTlog for equal ratios)")
    low, high = interval(ends, logarithmic, what)
    if int(digits) < 2:
        raise InputError(f"{what}: {text}: a range has at least 2 values")
    if int(digits) > MAX_LANES:
        raise InputError(f"{what}: {text}: more than {MAX_LANES} values")
    shares = [k / (int(digits) - 1) for k in range(int(digits))]
    inner = tidy([between(low, high, share, logarithmic) for share in shares])
    return (low, *inner[1:-1], high)


def interval(text: str, logarithmic: bool, what: str) -> tuple[float, float]:
    """The ends of `LOW:HIGH`: finite, different, and above 0 where they span ratios."""
    parts = text.split(":")
    if len(parts) != 2:
        raise InputError(f"{what}: {text} is no interval LOW:HIGH")
    low, high = (number(part, what) for part in parts)
    if not (math.isfinite(low) and math.isfinite(high)) or low == high:
        raise InputError(f"{what}: {text}: the ends are finite and differ")
    if logarithmic and not (low > 0 and high > 0):
        raise InputError(f"{what}: {text}: equal ratios need ends above 0")
    return low, high


def between(low: float, high: float, share: float, logarithmic: bool) -> float:
    """The value at this share, 0 to 1, of the way from low to high."""
    return low * (high / low) ** share if logarithmic else low + (high - low) * share


def tidy(values: Sequence[float]) -> tuple[float, ...]:
    """Values with fewer digits, where none moves by more than a thousandth of the least distance."""
    gaps = [b - a for a, b in itertools.pairwise(sorted(values)) if b > a]
    for digits in range(_DIGITS, 17):
        rounded = [float(f"{value:.{digits}g}") for value in values]
        if all(abs(a - b) <= _SLACK * min(gaps, default=0.0) for a, b in zip(values, rounded, strict=True)):
            return tuple(rounded)
    return tuple(values)


def grid(sets: Mapping[str, Values], inputs: Iterable[str]) -> list[dict[str, float]]:
    """Every combination of the values in `sets`, the last input varying fastest."""
    check_names(sets, inputs)
    axes = {name: several(values, f"input {name}") for name, values in sets.items()}
    _count(len(axis) for axis in axes.values())
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def combined(
    sets: Mapping[str, Values], given: Sequence[Mapping[str, Number]] | None, inputs: Iterable[str]
) -> list[dict[str, float]]:
    """The points of a grid; with `given` points, each of those with each of the grid."""
    known = list(inputs)
    inner = grid(sets, known)
    if given is None:
        return inner
    if not given:
        raise InputError("points: none given")
    outer = []
    for place, point in enumerate(given, 1):
        check_names(point, known)
        if set(point) != set(given[0]):
            raise InputError(f"points: point {place} does not have the inputs of the first one")
        outer.append({name: number(point[name], f"point {place}, input {name}") for name in given[0]})
    twice = next((name for name in outer[0] if name in sets), None)
    if twice is not None:
        raise InputError(f"input {twice} is set twice: by the points and by itself")
    _count((len(outer), len(inner)))
    return [{**a, **b} for a in outer for b in inner]


def with_baseline(
    points: Sequence[Point], baseline: Mapping[str, Number], inputs: Mapping[str, float]
) -> list[dict[str, float]]:
    """The points, and behind them those that others are compared with and that are not among them."""
    check_names(baseline, inputs)
    there = {name: number(value, f"baseline {name}") for name, value in baseline.items()}
    names = list(dict.fromkeys([*(points[0] if points else ()), *there]))
    full = [{name: point.get(name, inputs[name]) for name in names} for point in points]
    known = {tuple(point.values()) for point in full}
    for point in list(full):
        compared = {**point, **there}
        if tuple(compared.values()) not in known:
            known.add(tuple(compared.values()))
            full.append(compared)
    return full


def _count(sizes: Iterable[int]) -> None:
    total = math.prod(sizes)
    if total > MAX_LANES:
        raise InputError(f"{total} points are more than {MAX_LANES} runs")

"""Arguments of a run, checked: numbers, inputs, seeds, horizon, warm-up, arrival limit.

Everything here is plain Python (no NumPy, no JAX), so a wrong argument is reported at once. Every
error is an `InputError` whose text is one line.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import SupportsFloat, TypeAlias

Number: TypeAlias = SupportsFloat | str
"""A number or the text of a constant expression (`2e4`, `"2 * 1e4"`)."""

Values: TypeAlias = Number | Iterable[Number]
"""One number or several; a text may hold several, separated by commas, and ranges."""

Seeds: TypeAlias = int | str | Iterable[int]
"""How seeds are named: see `seeds`."""

MAX_LANES = 50_000_000
_MAX_SEED = 2**64 - 1


class InputError(ValueError):
    """An argument that cannot be used. The text is one line."""


def brief(value: object) -> str:
    """A value in a message: its text, cut where it is long, in quotes where they are needed to see it."""
    text = _cut(str(value))
    return text if text.strip() and text.isprintable() else repr(text)


def quoted(text: str) -> str:
    """A text in a message: in quotes, cut where it is long."""
    return repr(_cut(text))


def _cut(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` (did you mean X?)` for the nearest known name, or nothing."""
    names = list(known)
    folded = {known_name.casefold(): known_name for known_name in reversed(names)}
    import difflib  # only ever needed once something is wrong

    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.5)
    return f" (did you mean {folded[near[0]]}?)" if near else ""


def number(value: Number, what: str) -> float:
    """A float from a number or from the text of a constant expression; NaN is refused."""
    if isinstance(value, str):
        result = _number_of_text(value, what)
    else:
        try:
            result = float(value)
        except (TypeError, ValueError, OverflowError):
            raise InputError(f"{what}: {brief(value)} is no number") from None
    if math.isnan(result):
        raise InputError(f"{what}: {brief(value)} is not a number (NaN)")
    return result


def _number_of_text(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        pass
    return _constant(text, what)


_LET = "fn main() {{ let value = {}; workload {{ session {{ turn; }} }} server {{ observe result = value; }} }}"


def _constant(text: str, what: str) -> float:
    """The value of a constant expression: whatever `let value = text;` means in a program."""
    from sqc import ir  # here: plain numbers, the usual case, need no compiler
    from sqc.diagnostics import CompileError
    from sqc.lower import compile_text

    # What could end the `let` early, or hide its end in a comment.
    if not text.strip() or any(mark in text for mark in (";", "{", "}", '"', "//", "/*")):
        raise InputError(f"{what}: {quoted(text)} is no number")
    try:
        (observed,) = compile_text(_LET.format(text)).server
    except CompileError as error:
        first = error.diagnostics[0]
        if first.code == "E206":
            raise InputError(f"{what}: {quoted(text)} is not a number (NaN)") from None
        why = "" if first.code == "E104" else f": {first.message}"  # E104 would speak of the `;` after it
        raise InputError(f"{what}: {quoted(text)} is no number{why}") from None
    assert isinstance(observed, ir.Observe)
    assert isinstance(observed.value, ir.Const)
    return observed.value.value


def check_names(sets: Mapping[str, object], inputs: Iterable[str]) -> None:
    """Refuse a name that is no input of the program; the message has the nearest one."""
    known = list(inputs)
    for name in sets:
        if name not in known:
            hint = did_you_mean(name, known) if known else " (the program has no inputs)"
            raise InputError(f"unknown input {brief(name)}{hint}")


def point(sets: Mapping[str, Number], inputs: Mapping[str, float]) -> dict[str, float]:
    """The value of every input: `sets` over the defaults."""
    check_names(sets, inputs)
    return {name: number(sets[name], f"input {name}") if name in sets else inputs[name] for name in inputs}


def assignments(settings: Iterable[str], extra: Sequence[str] = ()) -> dict[str, str]:
    """Input texts by name, from `NAME=VALUE` settings and from what follows `--` (`--NAME VALUE`, `--NAME=VALUE`)."""
    pairs = [_pair(setting, "--set", "VALUE") for setting in settings]
    rest = list(extra)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--") or word == "--":
            raise InputError(f"unexpected {brief(word)} after --: write -- --NAME VALUE")
        name, equals, value = word[2:].partition("=")
        if not name:
            raise InputError(f"{brief(word)} after -- has no name: write -- --NAME VALUE")
        if not equals:
            if not rest:
                raise InputError(f"input {brief(name)} after -- has no value")
            value = rest.pop(0)
        pairs.append((name, value))
    return _once(pairs, "input")


def definitions(settings: Iterable[str]) -> dict[str, str]:
    """Bodies of definitions by name, from `NAME=EXPR` settings."""
    return _once([_pair(setting, "--def", "EXPR") for setting in settings], "definition")


def assigned(settings: Iterable[str], option: str, what: str) -> dict[str, str]:
    """The texts of a repeatable option `NAME=WHAT` by name."""
    return _once([_pair(setting, option, what) for setting in settings], option)


def _pair(setting: str, option: str, what: str) -> tuple[str, str]:
    name, equals, value = setting.partition("=")
    if not equals or not name.strip():
        raise InputError(f"{option} {brief(setting)}: write {option} NAME={what}")
    return name.strip(), value


def _once(pairs: Iterable[tuple[str, str]], what: str) -> dict[str, str]:
    texts: dict[str, str] = {}
    for name, value in pairs:
        if name in texts:
            raise InputError(f"{what} {brief(name)} is set twice")
        texts[name] = value
    return texts


def seed(value: int | str) -> int:
    """One seed: a whole number from 0 to 2^64 - 1."""
    try:
        result = int(value)
        whole = isinstance(value, str) or result == value
    except (TypeError, ValueError, OverflowError):
        whole, result = False, 0
    if not whole or not 0 <= result <= _MAX_SEED:
        raise InputError(f"seed {brief(value)}: must be a whole number from 0 to 2^64 - 1")
    return result


def seeds(spec: Seeds) -> tuple[int, ...]:
    """The seeds that `spec` names.

    A whole number `n`, also as text, means seeds 1 to n. A text with a comma or a colon names
    seeds and ranges, both ends included: `7,9,20:30`, `7:7`. Any other iterable holds the seeds.
    No seed may come twice: intervals over seeds need independent runs.
    """
    if isinstance(spec, str):
        named = _seeds_of_text(spec)
    elif isinstance(spec, Iterable):
        named = [range(value, value + 1) for value in map(seed, spec)]
    else:
        named = [range(1, _count(spec) + 1)]
    total = sum(_length(part) for part in named)
    if total > MAX_LANES:
        raise InputError(f"seeds: {total} seeds are more than {MAX_LANES}")
    result = tuple(itertools.chain.from_iterable(named))
    if not result:
        raise InputError("seeds: none named")
    if len(set(result)) < len(result):
        in_order = sorted(result)
        twice = next(low for low, high in itertools.pairwise(in_order) if low == high)
        raise InputError(f"seeds: seed {twice} is named twice")
    return result


def _count(value: int | str) -> int:
    count = seed(value)
    if count == 0:
        raise InputError("seeds 0: a count of at least 1, or names such as 7,9,20:30")
    return count


def _length(part: range) -> int:
    return part.stop - part.start  # len() refuses ranges past 2^63


def _seeds_of_text(text: str) -> list[range]:
    if "," not in text and ":" not in text:
        return [range(1, _count(text) + 1)]
    parts = []
    for word in text.split(","):
        first, colon, last = word.partition(":")
        if not first.strip() or (colon and not last.strip()):
            raise InputError(f"seeds {brief(text)}: write seeds and ranges with both ends, such as 7,9,20:30")
        low = seed(first)
        high = seed(last) if colon else low
        if high < low:
            raise InputError(f"seeds {brief(word)}: the range is empty")
        parts.append(range(low, high + 1))
    return parts


def seeds_text(named: Sequence[int]) -> str:
    """The shortest text for seeds in this order, with ranges: `7,9,20:30`."""
    parts: list[list[int]] = []
    for value in named:
        if parts and value == parts[-1][1] + 1:
            parts[-1][1] = value
        else:
            parts.append([value, value])
    return ",".join(str(low) if low == high else f"{low}:{high}" for low, high in parts)


def times(horizon: Number, warmup: Number, arrivals: int | None) -> tuple[float, float, float]:
    """Horizon, warm-up and arrival limit, checked; no limit is `inf`."""
    limit = math.inf if arrivals is None else number(arrivals, "arrivals")
    if limit < 1 or (math.isfinite(limit) and limit != int(limit)):
        raise InputError(f"arrivals {brief(arrivals)}: must be a whole number of at least 1")
    end = number(horizon, "horizon")
    start = number(warmup, "warmup")
    if end <= 0:
        raise InputError(f"horizon {brief(horizon)}: must be above 0")
    if math.isinf(end):
        raise InputError(f"horizon {brief(horizon)}: must be finite")
    if start < 0:
        raise InputError(f"warmup {brief(warmup)}: must be at least 0")
    if start >= end:
        raise InputError(f"warmup {brief(warmup)}: must be below the horizon {brief(horizon)}")
    return end, start, limit

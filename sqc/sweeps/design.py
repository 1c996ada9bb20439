"""Space-filling designs: points that cover a box of inputs more evenly than a grid or chance does.

`sobol:64` is a scrambled Sobol sequence (a power of 2), `lhs:40` a Latin hypercube; both from SciPy's `qmc`.
A further number is the seed of the scrambling or of the shuffling: `sobol:64:7`. Values are rounded as those of
ranges are (`grids`), so a design is the same wherever it is made.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqc.inputs import InputError, did_you_mean
from sqc.sweeps.grids import between, interval, tidy

METHODS = ("sobol", "lhs")
MOST_POINTS = 1 << 16


def design(spec: str, over: Mapping[str, str]) -> list[dict[str, float]]:
    """The points of a design `METHOD:COUNT[:SEED]` over intervals `LOW:HIGH` of inputs; `LOW:HIGHlog` for ratios."""
    method, count, seed = _parts(spec)
    if not over:
        raise InputError(f"design {spec}: over which inputs? (--over NAME=LOW:HIGH)")
    box = sides(over)
    from scipy.stats import qmc  # takes a second to load

    if method == "sobol":
        shares = qmc.Sobol(len(box), rng=seed).random_base2(count.bit_length() - 1)
    else:
        shares = qmc.LatinHypercube(len(box), rng=seed).random(count)
    columns = [
        tidy([between(low, high, share, logarithmic) for share in shares[:, axis].tolist()])
        for axis, (low, high, logarithmic) in enumerate(box.values())
    ]
    return [dict(zip(box, values, strict=True)) for values in zip(*columns, strict=True)]


def sides(over: Mapping[str, str]) -> dict[str, tuple[float, float, bool]]:
    """The sides of a box of inputs, `LOW:HIGH` or `LOW:HIGHlog`: both ends, and whether ratios count."""
    box = {}
    for name, text in over.items():
        ends = text.strip()
        logarithmic = ends.endswith("log")
        low, high = interval(ends.removesuffix("log"), logarithmic, f"input {name}")
        box[name] = (low, high, logarithmic)
    return box


def _parts(spec: str) -> tuple[str, int, int]:
    method, *numbers = spec.split(":")
    if method not in METHODS:
        raise InputError(f"design {spec}: no method {method}{did_you_mean(method, METHODS) or ' (sobol or lhs)'}")
    if not 1 <= len(numbers) <= 2 or not all(text.isdecimal() for text in numbers):
        raise InputError(f"design {spec}: write {method}:COUNT or {method}:COUNT:SEED")
    count, seed = int(numbers[0]), int(numbers[1]) if len(numbers) > 1 else 1
    if not 1 <= count <= MOST_POINTS:
        raise InputError(f"design {spec}: from 1 to {MOST_POINTS} points")
    if method == "sobol" and count & (count - 1):
        raise InputError(f"design {spec}: a Sobol design has a power of 2 points ({1 << count.bit_length()})")
    return method, count, seed

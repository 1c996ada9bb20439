"""The manifest of a stored sweep: what is run, as JSON, and what it was begun with.

The part under `sweep` is what the rows depend on; its hash is the identity of the sweep, which every
block carries. The part under `made` says which machine and libraries began it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from typing import Any

from sqc.inputs import seeds as named_seeds
from sqc.inputs import seeds_text
from sqc.ir import IR_VERSION, Program, to_json
from sqc.sweeps.experiment import Experiment
from sqc.sweeps.looks import Until
from sqc.sweeps.shards import shard
from sqc.textform import shortest
from sqc.version import VERSION

FORMAT = "sqc sweep 1"
STREAMS = "ChaCha12 as in serQ 0.1.5"
PRECISION = "float64"
_LIBRARIES = ("numpy", "llvmlite", "jax", "jaxlib", "pyarrow")


def describe(experiment: Experiment, metrics: Sequence[str]) -> dict[str, Any]:
    """What the rows of a sweep depend on, JSON-ready; equal for equal sweeps."""
    until = experiment.until
    seeds = seeds_text(experiment.seeds)
    return {
        "program": {
            "file": experiment.program.file,
            "sha256": _hash(to_json(dataclasses.replace(experiment.program, file="", source=""))),
            "ir_version": IR_VERSION,
            "text": experiment.program.source,
        },
        "horizon": experiment.horizon,
        "warmup": experiment.warmup,
        "arrivals": None if math.isinf(experiment.arrivals) else experiment.arrivals,
        "seeds": seeds if {",", ":"} & set(seeds) else f"{seeds}:{seeds}",  # a lone number would be a count
        "until": until and {"targets": {k: list(v) for k, v in until.targets.items()}, "most": until.most},
        "inputs": _finite(experiment.inputs),
        "points": [_finite(point) for point in experiment.points],
        "metrics": list(metrics),
        "mode": experiment.mode,
        "skip": experiment.skip,
        "precision": PRECISION,
        "streams": STREAMS,
        "sqc_version": VERSION,
    }


def identity(description: Mapping[str, Any]) -> str:
    """The hash of a description; the name and the comments of the program are no part of it."""
    program = {name: description["program"][name] for name in ("sha256", "ir_version")}
    return _hash(json.dumps({**description, "program": program}, sort_keys=True))


def experiment_of(description: Mapping[str, Any], program: Program, part: Sequence[int] | None) -> Experiment:
    """Undoes `describe`; `part` is the shard that the manifest names. Raises LookupError, TypeError or ValueError where
    it is none."""
    arrivals = description["arrivals"]
    return Experiment(
        program=program,
        inputs=_floats(description["inputs"]),
        points=tuple(map(_floats, description["points"])),
        seeds=named_seeds(str(description["seeds"])),
        horizon=float(description["horizon"]),
        warmup=float(description["warmup"]),
        arrivals=math.inf if arrivals is None else float(arrivals),
        mode=str(description["mode"]),
        until=_until(description["until"]),
        skip=bool(description["skip"]),
        shard=None if part is None else shard((int(part[0]), int(part[1]))),
    )


def _until(document: Mapping[str, Any] | None) -> Until | None:
    if document is None:
        return None
    targets = {str(name): (float(half), bool(of)) for name, (half, of) in document["targets"].items()}
    return Until(targets, int(document["most"]))


def difference(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> str | None:
    """The first thing in which two descriptions differ, in words, or None."""
    for name, here in wanted.items():
        there: Any = stored.get(name)
        if name == "program":
            if there["sha256"] != here["sha256"]:
                return "it is of another program"
        elif there != here:
            short = all(isinstance(value, str | int | float | None) for value in (there, here))
            return f"its {name} is {_word(there)}, not {_word(here)}" if short else f"its {name} are others"
    return None


def _word(value: Any) -> str:
    return shortest(value) if isinstance(value, float) else "none" if value is None else str(value)


def surroundings(mode: str) -> dict[str, Any]:
    """The machine and the libraries."""
    versions: dict[str, str | None] = {}
    for name in _LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return {
        "device": device(mode),
        "platform": platform.platform(),
        "python": platform.python_version(),
        **versions,
    }


def device(mode: str) -> str:
    """What the kernels of a mode run on."""
    if mode == "native":
        from sqc_runtime.machine import processor

        return f"{processor()[3]}, {os.cpu_count()} processors"
    import jax

    return f"{jax.devices()[0].device_kind}, {jax.device_count()} devices"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _finite(values: Mapping[str, float]) -> dict[str, float | str]:
    """Numbers as JSON holds them: infinite ones as text."""
    return {name: value if math.isfinite(value) else repr(value) for name, value in values.items()}


def _floats(values: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): float(value) for name, value in values.items()}

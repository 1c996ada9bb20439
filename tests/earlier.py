"""The release before the reference's, pyserq 0.1.4: it reads engines as step stages, `stage NAME : step`.

The reference reads them as devices and engines only. The release lies in a folder of packages that only its own
process reads. Its random streams are the reference's but for one formula: with that one in place of ours, a run of ours
is a run of its, draw for draw. Its report has no client rows, no claims, and no counts of growths that wait.
"""

from __future__ import annotations

import contextlib
import functools
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

import reference
import sqc
from compare import change_differences, differences, sample_differences
from harness import ROOT, run_of
from isolated import Server
from sqc_runtime import streams

VERSION = "0.1.4"
FOLDER = ROOT / ".pytest_cache" / f"pyserq-{VERSION}-{sys.implementation.cache_tag}"


class Unavailable(Exception):
    """The release cannot be had here; one line says why."""


@functools.cache
def server() -> Server:
    """The process of the release. Raises Unavailable."""
    return reference.release(packages(FOLDER))


def packages(folder: Path) -> Path:
    """The folder with the release, installed when first asked for; of processes that ask at once, one makes it."""
    if folder.exists():
        return folder
    folder.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as beside:
        made = Path(beside) / "packages"
        options = ("--quiet", "--no-deps", "--only-binary=:all:", "--retries=1", "--timeout=20")
        command = [sys.executable, "-m", "pip", "install", *options, f"--target={made}", f"pyserq=={VERSION}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            said = done.stderr.strip().splitlines() or ["no word from pip"]
            raise Unavailable(f"pyserq {VERSION} cannot be installed here: {said[-1]}")
        with contextlib.suppress(OSError):  # another process was first
            made.rename(folder)
    return folder


def draw_as_it_does(patch: pytest.MonkeyPatch) -> None:
    """Its substreams, `x = mix(x + G + v)` from the seed on, in every kernel that is built while the patch lasts."""

    def substream(start: Any, *values: Any) -> Any:
        for value in values:
            start = streams.mix(start + streams.GOLDEN + value)
        return start

    patch.setattr(streams, "root", lambda seed: seed)
    patch.setattr(streams, "substream", substream)


def disagreements(
    source: str, *, horizon: float, seeds: Iterable[int] = (1, 2, 3), sets: Mapping[str, float] | None = None
) -> list[str]:
    """Lines that differ between its runs and ours, which must draw as it does; a tenth of the time is warm-up.

    It wants the stage `tool` declared.
    """
    declared = source
    if "tool (" in source and "stage tool" not in source:
        declared = source.replace("  workload {", "  stage tool : delay;\n  workload {", 1)
    program = sqc.compile(source=source)  # anew: no kernel with these streams is left for other tests
    wrong: list[str] = []
    for seed in seeds:
        setting: dict[str, Any] = {"horizon": horizon, "warmup": horizon / 10, "seed": seed, "sets": sets}
        expected = reference.run(declared, server=server(), **setting)
        actual = run_of(program, **setting)
        lines = differences(expected.report, _known(actual.report, expected.report))
        for name, samples in expected.samples.items():
            lines += sample_differences(name, samples, actual.samples[name])
        for name, changes in expected.gauges.items():
            lines += change_differences(name, changes, actual.gauges[name])
        wrong += [f"seed {seed}: {line}" for line in lines]
    return wrong


def _known(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Our report without what its reports do not have."""
    report = {name: part for name, part in ours.items() if name in theirs}
    for kind in ("stages", "pools"):
        rows = zip(ours[kind], theirs[kind], strict=True)
        report[kind] = [{name: value for name, value in mine.items() if name in its} for mine, its in rows]
    return report

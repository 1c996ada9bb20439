"""The reference simulator, pyserq, behind one function; absent on platforms without a wheel.

`run` compiles and runs a program text and returns the report as a plain object, with the samples
of every observation and the change points of every gauge. Programs in the tests are written in the
dialect that both read.

The reference runs in a process of its own (this file, run as a script): some programs make it loop
for ever, and a process can be ended.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from isolated import Server, serve

AVAILABLE = importlib.util.find_spec("pyserq") is not None
WHY_NOT = "pyserq 0.1.5.dev90 is not installed (it has wheels for Linux x86-64 and macOS arm64 only)"

#: Seconds that one run of the reference may take.
LIMIT = 20.0

#: One sample: (time, session, turn, value).
Sample: TypeAlias = tuple[float, int, int, float]

#: One change of a gauge: (time, value); the first is at time 0.
Change: TypeAlias = tuple[float, float]


class Refused(Exception):
    """The reference refused the program (`compiling`), or its run failed."""

    def __init__(self, message: str, compiling: bool = False) -> None:
        super().__init__(message)
        self.compiling = compiling


@dataclass(frozen=True)
class ReferenceRun:
    """One run: the report as JSON, the samples by name (`client.response` for the client's), the gauges' changes."""

    report: dict[str, Any]
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    gauges: dict[str, list[Change]] = field(default_factory=dict)


def run(
    source: str,
    *,
    horizon: float,
    warmup: float = 0.0,
    seed: int = 1,
    arrivals: int | None = None,
    sets: Mapping[str, float] | None = None,
    files: Mapping[str, str] | None = None,
    limit: float = LIMIT,
    server: Server | None = None,
) -> ReferenceRun:
    """Compile and run a program text; `files` lie beside it (a trace). Another release has a `server` of its own.

    Raises Refused, and `isolated.Hangs` after `limit` seconds.
    """
    call = {
        "source": source,
        "files": dict(files or {}),
        "horizon": horizon,
        "warmup": warmup,
        "seed": seed,
        "arrivals": arrivals,
        "sets": {name: repr(float(value)) for name, value in (sets or {}).items()},
    }
    answer = (server or _SERVER).ask(call, limit)
    if "refused" in answer:
        raise Refused(answer["refused"], answer["compiling"])
    return ReferenceRun(json.loads(answer["report"]), answer["samples"], answer["gauges"])


_SERVER = Server(__file__)


def release(folder: Path) -> Server:
    """The process of the release that lies in a folder of packages."""
    return Server(__file__, [str(folder)])


def written(folder: Path, source: str, files: Mapping[str, str]) -> Path:
    """The file of a program whose other files lie beside it, all written into the folder."""
    for name, text in {"program.sq": source, **files}.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder / "program.sq"


def _answer(call: dict[str, Any]) -> dict[str, Any]:
    """What the reference says to one call; runs in its process."""
    import pyserq

    compiling = True
    files = call.pop("files")
    try:
        with tempfile.TemporaryDirectory() as folder:  # a trace is read at the run
            if files:
                call["path"] = written(Path(folder), call.pop("source"), files)
            program = pyserq.compile(**call)
            compiling = False
            report = pyserq.run(program)
    except Exception as error:
        return {"refused": str(error), "compiling": compiling}
    observes = {name: report.observe(name) for name in report.observes}
    if hasattr(report, "client"):
        observes["client.response"] = report.client["response"]
    return {
        "report": report.json(),
        "samples": {name: _samples(observation) for name, observation in observes.items()},
        "gauges": {name: list(zip(gauge.times, gauge.values, strict=True)) for name, gauge in report.gauges.items()},
    }


def _samples(observation: Any) -> list[Sample]:
    times, sessions, turns = observation.times, observation.sessions, observation.turns
    return list(zip(times, map(int, sessions), map(int, turns), observation.samples, strict=True))


if __name__ == "__main__":
    sys.path[:0] = sys.argv[1:]
    serve(_answer)

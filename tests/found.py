"""Programs on which ours and the reference once differed, kept in the corpus folder `found`.

A program is `NAME.sq` with `NAME.json` in the corpus's format (`corpus/README.md`), so that it is
replayed where the reference cannot run; a trace lies beside it, and `files` names it. A run that the
reference refuses has `refused`, its message, in place of the report.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import reference
from generating import Case
from harness import CORPUS

FOUND = CORPUS / "found"

#: Samples and change points kept of one run; a shrunk program rarely has as many.
KEPT = 400


def save(case: Case, folder: Path = FOUND) -> Path:
    """Write the program and what the reference says of its runs; the name is a hash of the text."""
    folder.mkdir(exist_ok=True)
    stem = folder / f"z_{hashlib.sha256(case.source.encode()).hexdigest()[:10]}"
    runs = [measure(case, seed, sets) for sets in case.sets for seed in case.seeds]
    document = {"program": f"{stem.name}.sq", "measured_with": "pyserq 0.1.5.dev90", "runs": runs}
    if case.files:
        document["files"] = [name for name, _ in case.files]
        for name, text in case.files:
            (folder / name).write_text(text, encoding="utf-8")
    stem.with_suffix(".sq").write_text(case.source, encoding="utf-8")
    stem.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return stem.with_suffix(".sq")


def measure(case: Case, seed: int, sets: dict[str, float]) -> dict[str, Any]:
    """One run of the reference as an entry of `runs`."""
    setting = {"horizon": case.horizon, "warmup": case.warmup, "arrivals": case.arrivals, "sets": sets}
    try:
        run = reference.run(case.source, seed=seed, files=dict(case.files), **setting)  # type: ignore[arg-type]
    except reference.Refused as error:
        return {"seed": seed, **setting, "refused": str(error)}
    return {
        "seed": seed,
        **setting,
        "report": run.report,
        "samples": {
            name: dict(
                zip(("time", "session", "turn", "value"), map(list, zip(*kept[:KEPT], strict=True)), strict=True)
            )
            for name, kept in run.samples.items()
            if kept
        },
        "gauge_points": {
            name: dict(zip(("time", "value"), map(list, zip(*points[:KEPT], strict=True)), strict=True))
            for name, points in run.gauges.items()
            if points
        },
    }

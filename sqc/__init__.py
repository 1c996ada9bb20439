"""sqc: a compiler for `.sq` programs. A program becomes a simulation kernel; one call runs many lanes.

    import sqc
    program = sqc.compile("prog.sq")
    report = program.run(seed=1, horizon=2e4, warmup=2e3)
    table = program.sweep(seeds=1000, horizon=2e4, warmup=2e3, sets={"C": [2e5, 6e4]})

Names are loaded when they are first used: `import sqc` and `sqc.compile` need neither NumPy nor JAX.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from sqc.version import VERSION

if TYPE_CHECKING:
    from sqc.artefact import ArtefactError, load
    from sqc.diagnostics import CompileError, Diagnostic
    from sqc.inputs import InputError
    from sqc.kernel import Failure, Kernel
    from sqc.program import Program, RunError, compile  # noqa: A004 - named after what it does, as re.compile is
    from sqc.report import Report
    from sqc.search.gradient import Derivative, Gradient, gradient
    from sqc.search.objective import Estimate, Objective, objective
    from sqc.search.optimize import optimize
    from sqc.search.outcome import Outcome
    from sqc.search.pathwise import Pathwise
    from sqc.sweeps import StoreError, Sweep, SweepInterrupted, merge_sweeps, open_sweep, resume_sweep

__version__ = VERSION

_HOMES = {
    "ArtefactError": "sqc.artefact",
    "CompileError": "sqc.diagnostics",
    "Derivative": "sqc.search.gradient",
    "Diagnostic": "sqc.diagnostics",
    "Estimate": "sqc.search.objective",
    "Failure": "sqc.kernel",
    "Gradient": "sqc.search.gradient",
    "InputError": "sqc.inputs",
    "Kernel": "sqc.kernel",
    "Objective": "sqc.search.objective",
    "Outcome": "sqc.search.outcome",
    "Pathwise": "sqc.search.pathwise",
    "Program": "sqc.program",
    "Report": "sqc.report",
    "RunError": "sqc.program",
    "StoreError": "sqc.sweeps",
    "Sweep": "sqc.sweeps",
    "SweepInterrupted": "sqc.sweeps",
    "compile": "sqc.program",
    "gradient": "sqc.search.gradient",
    "load": "sqc.artefact",
    "merge_sweeps": "sqc.sweeps",
    "objective": "sqc.search.objective",
    "optimize": "sqc.search.optimize",
    "open_sweep": "sqc.sweeps",
    "resume_sweep": "sqc.sweeps",
}

__all__ = [
    "ArtefactError",
    "CompileError",
    "Derivative",
    "Diagnostic",
    "Estimate",
    "Failure",
    "Gradient",
    "InputError",
    "Kernel",
    "Objective",
    "Outcome",
    "Pathwise",
    "Program",
    "Report",
    "RunError",
    "StoreError",
    "Sweep",
    "SweepInterrupted",
    "__version__",
    "compile",
    "gradient",
    "load",
    "merge_sweeps",
    "objective",
    "open_sweep",
    "optimize",
    "resume_sweep",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'sqc' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

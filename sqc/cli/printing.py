"""What commands print on stdout."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqc.textform import plain, shortest
from sqc.version import LANGUAGE, VERSION

if TYPE_CHECKING:
    from sqc.program import Program
    from sqc.sweeps import Sweep
    from sqc.sweeps.text import Extras


def print_json(document: Any) -> None:
    """JSON."""
    print(json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False))


def print_version() -> None:
    """What `sqc --version` says: versions, and where kernels run unless told otherwise."""
    import jax

    from sqc.kernel import best_mode
    from sqc.sweeps.manifest import device

    mode = best_mode()
    print(f"sqc {VERSION}")
    print(f"language {LANGUAGE}")
    print(f"jax {jax.__version__}")
    print(f"device {device(mode)}")
    print(f"mode {mode}")


def print_written(path: str, manifest: dict[str, Any], as_json: bool) -> None:
    """What `sqc compile -o` says about the file of a compiled program."""
    if as_json:
        print_json({"ok": True, "path": path, **{name: manifest[name] for name in _WRITTEN}})
    else:
        print(f"{path}: written, for {' and '.join(manifest['platforms'])}")


_WRITTEN = ("format", "sqc", "ir", "jax", "program", "inputs", "metrics", "capacities", "platforms", "members")


def print_ir(compiled: Program) -> None:
    """The IR as JSON."""
    from sqc.ir import to_json  # here: --help must not load it

    print(to_json(compiled.ir))


def print_summary(summary: dict[str, Any], as_json: bool) -> None:
    """What `sqc check` says about a program without errors."""
    if as_json:
        print_json({"ok": True, **summary})
        return
    print(f"{summary['file']}: ok")
    lines = {
        "inputs": [f"{name} = {shortest(value)}" for name, value in summary["inputs"].items()],
        "arrivals": [summary["arrivals"]],
        "trace": [summary["trace"]] if summary["trace"] else [],
        "stages": [f"{name}: {kind}" for name, kind in summary["stages"].items()],
        "flows": [summary["flows"]] if summary["flows"] else [],
        "pools": [f"{name}: {kind}" for name, kind in summary["pools"].items()],
        "observes": summary["observes"],
        "gauges": summary["gauges"],
        "claims": summary["claims"],
        "attributes": summary["attributes"],
    }
    for title, items in lines.items():
        if items:
            print(f"  {title:<11}{', '.join(items)}")


def print_kernel(compiled: Program, mode: str | None, as_json: bool) -> None:
    """What `sqc compile` says about a kernel."""
    from sqc.passes.pathwise import reasons

    kernel = compiled.kernel(mode=mode)
    rough = reasons(compiled.ir)
    summary = {
        "file": compiled.ir.file,
        "inputs": dict(kernel.inputs),
        "metrics": list(kernel.metrics),
        "capacities": dict(kernel.capacities),
        "mode": kernel.mode,
        "iterates": kernel.iterates,
        "no_pathwise": rough,
        "from_cache": kernel.from_cache,
        "compile_seconds": kernel.compile_seconds,
    }
    if as_json:
        print_json({"ok": True, **plain(summary)})
        return
    made = "from the cache" if kernel.from_cache else "built"
    print(f"{summary['file']}: kernel {made} in {kernel.compile_seconds:.2f} s, mode {kernel.mode}")
    for name, why in kernel.iterates.items():
        print(
            f"step stage {name}: " + (f"every iteration is simulated: {why}" if why else "equal iterations are skipped")
        )
    print("inputs")
    for name, value in kernel.inputs.items():
        why = rough[name]
        print(
            f"  {name} = {shortest(value)}: " + (f"no pathwise derivatives, {why}" if why else "pathwise derivatives")
        )
    print("capacities")
    for name, size in kernel.capacities.items():
        print(f"  {name} = {size}")
    print(f"metrics ({len(kernel.metrics)})")
    for name in kernel.metrics:
        print(f"  {name}")


def print_sweep(table: Sweep, metrics: Sequence[str], extras: Extras, as_json: bool) -> None:
    """The table of a sweep and what else was asked for: JSON, or text for a terminal or a pipe."""
    if as_json:
        print_json(table.json(extras.baseline, extras.quantiles))
    elif sys.stdout.isatty():
        from sqc.cli.terminal import print_tables

        print_tables(table, metrics, shutil.get_terminal_size().columns, extras)
    else:
        from sqc.sweeps.text import text

        print(text(table, metrics, extras=extras))

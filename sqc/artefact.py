"""Compiled programs as files (`.sqk`), which another process runs without the source.

A zip archive: `manifest.json` (versions, inputs, metrics, capacities, platforms, the SHA-256 of every other member),
`ir.json`, and `portable.stablehlo`, the kernel lowered for CPUs and CUDA. The archive's comment is the SHA-256 of
all before it. Machine code for a CPU is made from the IR. The StableHLO is what sweeps and calls of the kernel run in
the portable mode. Made from the IR there too: a lane that needs more capacity, a single run (it keeps its samples),
all where another version of sqc wrote the file or this JAX cannot call it.

The checksums find damage, not forgery: they are no signature. Nothing is unpickled.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqc import ir, irfile
from sqc.diagnostics import CompileError
from sqc.textform import plain
from sqc.version import VERSION

if TYPE_CHECKING:
    import jax.export

    from sqc.export import Export
    from sqc.program import Program

SUFFIX = ".sqk"
FORMAT = 1
_MANIFEST, _IR, _PORTABLE = "manifest.json", "ir.json", "portable.stablehlo"
_DIGEST = 64
"""Characters of a SHA-256."""
_MOST_BYTES = 1 << 30


class ArtefactError(Exception):
    """A file is no compiled program, or none that this version runs. The text is one line and begins with the path."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        super().__init__(f"{path}: {problem}")


@dataclass(frozen=True)
class Artefact:
    """What a file has, verified."""

    manifest: dict[str, Any]
    program: ir.Program
    export: Export


def save(program: Program, path: str | Path) -> dict[str, Any]:
    """Write a compiled program to a file, whole or not at all; returns its manifest. Traces, compiles nothing."""
    import jax

    kernel = program.kernel(mode="portable")
    export = kernel.export()
    members = {_IR: ir.to_json(program.ir).encode(), _PORTABLE: export.module}
    manifest: dict[str, Any] = plain(
        {
            "format": FORMAT,
            "sqc": VERSION,
            "ir": ir.IR_VERSION,
            "jax": jax.__version__,
            "program": program.ir.file,
            "inputs": program.inputs,
            "metrics": list(kernel.metrics),
            "capacities": export.head["capacities"],
            "platforms": export.head["platforms"],
            "portable": export.head,
            "members": {name: _hash(data) for name, data in members.items()},
        }
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_MANIFEST, json.dumps(manifest, indent=1, allow_nan=False))
        for name, data in members.items():
            archive.writestr(name, data)
        archive.comment = b"0" * _DIGEST
    body = file.getvalue()[:-_DIGEST]
    _write(Path(path), body + _hash(body).encode())
    return manifest


def load(path: str | Path) -> Program:
    """The program in a file that `save` wrote. Raises ArtefactError with the reason if it cannot be run here."""
    from sqc.program import Program

    found = read(Path(path))
    made = Program(found.program, found.export if found.manifest["sqc"] == VERSION else None)
    made.skip = bool(found.export.head["skip"])
    return made


def exported(path: str | Path) -> jax.export.Exported:
    """The StableHLO of a file as JAX calls it: `call(seeds, horizon, warmup, arrivals, *inputs)`, arrays [lanes].

    JAX needs x64 on. A lane that overflows a capacity says so in `status`. Raises ArtefactError.
    """
    found = read(Path(path))
    if not found.export.readable():
        raise ArtefactError(
            Path(path), f"its StableHLO is of JAX {found.manifest['jax']}, which this JAX does not call"
        )
    return found.export.exported()


def read(path: Path) -> Artefact:
    """A file's content, every checksum and version verified. Raises ArtefactError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ArtefactError(path, error.strerror or str(error)) from None
    if not data.startswith(b"PK"):
        raise ArtefactError(path, "no compiled program (`sqc compile prog.sq -o prog.sqk` writes one)")
    if _hash(data[:-_DIGEST]).encode() != data[-_DIGEST:]:
        raise ArtefactError(path, "truncated or altered: its checksum is wrong")
    try:
        return _content(path, data)
    except (ValueError, LookupError, TypeError, AttributeError):
        raise ArtefactError(path, "not what sqc writes: its manifest is incomplete") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError):  # RuntimeError: encrypted, unknown compression
        raise ArtefactError(path, "not what sqc writes: the archive cannot be read") from None


def _content(path: Path, data: bytes) -> Artefact:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if sum(info.file_size for info in archive.infolist()) > _MOST_BYTES:
            raise ArtefactError(path, f"larger than {_MOST_BYTES >> 20} MiB")
        manifest = json.loads(archive.read(_MANIFEST))
        for name, here, what in (("format", FORMAT, "format"), ("ir", ir.IR_VERSION, "IR version")):
            if manifest[name] != here:
                by = f"written by sqc {manifest.get('sqc')}"
                raise ArtefactError(path, f"{what} {manifest[name]!r}, {by}; sqc {VERSION} reads {what} {here}")
        if {*manifest["members"]} != {_IR, _PORTABLE} or len(archive.namelist()) != 3:
            raise ArtefactError(path, "its members are not those of its manifest")
        members = {name: archive.read(name) for name in manifest["members"]}
    for name, content in members.items():
        if _hash(content) != manifest["members"][name]:
            raise ArtefactError(path, f"{name} is not that of its manifest: its checksum is wrong")
    try:
        program = irfile.parsed(members[_IR].decode(), path)
    except CompileError as error:
        raise ArtefactError(path, error.diagnostics[0].message) from None
    from sqc.export import FIELDS, Export

    if {*manifest["portable"]} != FIELDS:
        raise KeyError("portable")
    return Artefact(manifest, program, Export(members[_PORTABLE], manifest["portable"]))


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _write(path: Path, data: bytes) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        partial.write_bytes(data)
        os.replace(partial, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise

"""Compiled kernels on disk: a later process takes the machine code and neither traces nor compiles.

One file holds one kernel: a digest, a line of JSON with what is needed beside the machine code, and
the object code. Nothing is unpickled. The name of a file is a hash of all that
the machine code depends on (`place`), so an entry never goes out of date; it is deleted when the
folder outgrows its bound. Whatever is wrong with a file or the folder, the kernel is compiled
instead and nothing is said.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy

import sqc_runtime
from sqc_runtime.machine import processor

from . import ir
from .version import VERSION

if TYPE_CHECKING:
    from .build import About

MOST_BYTES = 512 << 20
"""Bound of a folder of kernels; the ones unused for longest go first."""
_MAGIC = b"sqc kernel 2\n"
_SUFFIX = ".kernel"
_FAST = 1  # zlib level: machine code shrinks to a quarter, in a few hundredths of a second


def place(folder: Path, program: ir.Program, capacities: Mapping[str, int], skip: bool = True) -> Path | None:
    """The file of a kernel, named by a hash of all that its machine code, statements and names depend on.

    None where that cannot be told: the kernel is not kept.
    """
    try:
        parts = {
            "program": ir.to_json(dataclasses.replace(program, file="", source="", trace=None), indent=None),
            "trace": program.trace is not None,
            "capacities": sorted(capacities.items()),
            "skip": skip,
            "sqc": [VERSION, _code(), numpy.__version__],
            "processor": processor(),
        }
    except OSError:
        return None
    return folder / (hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest() + _SUFFIX)


def load(path: Path) -> tuple[About, bytes] | None:
    """The kernel of that place and its object code; None if it is not there, or is not whole."""
    try:
        with path.open("rb") as file:
            if hasattr(os, "getuid") and os.fstat(file.fileno()).st_uid != os.getuid():
                return None  # machine code is taken from nobody else
            about, code = _unpacked(file.read())
        with contextlib.suppress(OSError):
            os.utime(path)  # used now: the bound spares it
        return about, code
    except (OSError, ValueError, LookupError, TypeError, zlib.error):
        return None


def save(path: Path, about: About, code: bytes) -> None:
    """Keep a kernel's object code at that place. Does nothing if the folder cannot be written."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(path, _packed(about, code))
        _bound(path.parent)


def _packed(about: About, code: bytes) -> bytes:
    head = json.dumps(about_json(about)).encode() + b"\n"
    body = head + zlib.compress(code, _FAST)
    return _MAGIC + hashlib.sha256(body).digest() + body


def _unpacked(data: bytes) -> tuple[About, bytes]:
    """Raises ValueError, or what reading wrong JSON can raise, unless the data are whole."""
    start = len(_MAGIC) + hashlib.sha256().digest_size
    body = data[start:]
    if data[:start] != _MAGIC + hashlib.sha256(body).digest():
        raise ValueError("not a kernel, or not all of it")
    head, _, code = body.partition(b"\n")
    return about_of(json.loads(head)), zlib.decompress(code)


def about_json(about: About) -> dict[str, Any]:
    """JSON-ready; `about_of` undoes it."""
    return dataclasses.asdict(about)


def about_of(document: dict[str, Any]) -> About:
    from .build import About

    statements = tuple(ir.Span(**span) if span else None for span in document["statements"])
    return About(**{**document, "statements": statements, "metrics": tuple(document["metrics"])})


def _write(path: Path, data: bytes) -> None:
    """Write under another name, then rename: nobody ever reads half a file."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _bound(folder: Path) -> None:
    """Delete the kernels unused for longest until the rest fit in `MOST_BYTES`."""
    found = []
    for path in folder.glob("*" + _SUFFIX):
        with contextlib.suppress(OSError):  # another process may have deleted it
            status = path.stat()
            found.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= MOST_BYTES:
            break
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size


@functools.cache
def _code() -> str:
    """A hash of the sources that make machine code out of a program."""
    here = Path(__file__).parent
    sources: Sequence[Path] = (
        *sorted((here / "codegen").glob("*.py")),
        *sorted(Path(sqc_runtime.__path__[0]).glob("*.py")),
        *(here / name for name in ("ir.py", "build.py", "stored.py")),
    )
    digest = hashlib.sha256()
    for source in sources:
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    return digest.hexdigest()

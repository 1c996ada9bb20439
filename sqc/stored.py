"""Compiled kernels on disk: a later process takes the machine code and neither traces nor compiles.

One file holds one kernel: a digest, a line of JSON with what is needed beside the machine code, and
the executable as XLA serialises it. Nothing is unpickled. The name of a file is a hash of all that
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
import platform
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
from jax import Array
from jaxlib import version as jaxlib_version
from jaxlib import xla_client
from numpy.typing import NDArray

import sqc_runtime

from . import ir
from .version import VERSION

MOST_BYTES = 512 << 20
"""Bound of a folder of kernels; the ones unused for longest go first."""
_MAGIC = b"sqc kernel 1\n"
_SUFFIX = ".kernel"
_FAST = 1  # zlib level: machine code shrinks to a quarter, in a few hundredths of a second


@dataclass(frozen=True)
class About:
    """What a kernel is besides its machine code."""

    metrics: tuple[str, ...]
    results: tuple[str, ...]
    """Names of the executable's results, in its order."""
    statements: tuple[ir.Span | None, ...]
    """Spans by statement number, as run-time errors report them."""
    rows: Mapping[str, int]
    """The first cell of each row of samples."""


class StoredKernel:
    """A kernel that was read from a file: called with the columns of arguments, it gives named results."""

    def __init__(self, about: About, executable: Any, device: jax.Device):
        self.about = about
        self._executable = executable
        self._device = device

    def __call__(self, arguments: tuple[NDArray[Any], ...]) -> dict[str, Array]:
        placed = [jax.device_put(column, self._device) for column in arguments]
        results = self._executable.execute_sharded(placed).disassemble_into_single_device_arrays()
        return {name: shards[0] for name, shards in zip(self.about.results, results, strict=True)}

    def as_text(self) -> str:
        """The optimised HLO."""
        return "\n\n".join(module.to_string() for module in self._executable.hlo_modules())


def place(folder: Path, program: ir.Program, capacities: Mapping[str, int], mode: str, lanes: int) -> Path | None:
    """The file of a kernel, named by a hash of all that its machine code, statements and names depend on.

    None where that cannot be told: the kernel is not kept.
    """
    try:
        parts = {
            "program": ir.to_json(dataclasses.replace(program, file="", source=""), indent=None),
            "capacities": sorted(capacities.items()),
            "mode": mode,
            "lanes": lanes,
            "sqc": [VERSION, _code()],
            "versions": [jax.__version__, jaxlib_version.__version__, platform.python_version()],
            "flags": os.environ.get("XLA_FLAGS", ""),
            "machine": _machine(),
        }
    except (OSError, AttributeError, RuntimeError):
        return None
    return folder / (hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest() + _SUFFIX)


def load(path: Path) -> StoredKernel | None:
    """The kernel of that place; None if it is not there, or is not whole, or does not load here."""
    try:
        with path.open("rb") as file:
            if hasattr(os, "getuid") and os.fstat(file.fileno()).st_uid != os.getuid():
                return None  # machine code is taken from nobody else
            about, code = _unpacked(file.read())
        with contextlib.suppress(OSError):
            os.utime(path)  # used now: the bound spares it
        device = _device()
        devices = xla_client.DeviceList((device,))
        return StoredKernel(about, device.client.deserialize_executable(code, executable_devices=devices), device)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, zlib.error):
        return None  # RuntimeError: XLA refuses, for example the code of another processor


def save(path: Path, about: About, compiled: jax.stages.Compiled) -> None:
    """Keep a compiled kernel at that place. Does nothing if it cannot be serialised or the folder cannot be written."""
    executable: Any = compiled.runtime_executable()
    try:
        if list(executable.local_devices()) != [_device()]:
            return
        data = _packed(about, executable.serialize())
    except (AttributeError, RuntimeError):
        return
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(path, data)
        _bound(path.parent)


def _packed(about: About, code: bytes) -> bytes:
    head = json.dumps(dataclasses.asdict(about)).encode() + b"\n"
    body = head + zlib.compress(code, _FAST)
    return _MAGIC + hashlib.sha256(body).digest() + body


def _unpacked(data: bytes) -> tuple[About, bytes]:
    """Raises ValueError, or what reading wrong JSON can raise, unless the data are whole."""
    start = len(_MAGIC) + hashlib.sha256().digest_size
    body = data[start:]
    if data[:start] != _MAGIC + hashlib.sha256(body).digest():
        raise ValueError("not a kernel, or not all of it")
    head, _, code = body.partition(b"\n")
    about = json.loads(head)
    spans = tuple(ir.Span(**span) if span else None for span in about["statements"])
    names = {field: tuple(about[field]) for field in ("metrics", "results")}
    return About(**names, statements=spans, rows=about["rows"]), zlib.decompress(code)


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


def _device() -> jax.Device:
    """The device that kernels are compiled for."""
    return jax.devices()[0]


@functools.cache
def _code() -> str:
    """A hash of the sources that make machine code out of a program."""
    here = Path(__file__).parent
    sources: Sequence[Path] = (
        *sorted((here / "codegen").glob("*.py")),
        *sorted(Path(sqc_runtime.__path__[0]).glob("*.py")),
        *(here / name for name in ("ir.py", "kernel.py", "stored.py")),
    )
    digest = hashlib.sha256()
    for source in sources:
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    return digest.hexdigest()


@functools.cache
def _machine() -> list[str]:
    """The device as XLA tells it apart, and the processor with its features."""
    device = _device()
    topology: Any = xla_client.get_topology_for_devices([device])
    return [
        device.platform,
        device.device_kind,
        str(device.client.platform_version),
        str(topology.fingerprint()),
        platform.system(),
        platform.machine(),
        *(_processor() or [platform.processor()]),
    ]


def _processor() -> list[str]:
    """What Linux says of the model and the features of the first processor."""
    wanted = ("model name", "flags", "Features", "CPU part", "isa")
    lines: list[str] = []
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if not line.strip():
                break
            if line.startswith(wanted):
                lines.append(line.strip())
    return lines

"""A sweep on disk: a folder with `manifest.json`, `program.json` (the IR) and the blocks under `lanes/`.

Each file is written under another name, flushed to the disk and renamed: a process that is killed
leaves whole files only, and loses the block in flight. No file is ever written over. One process at a
time adds blocks.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqc.inputs import InputError
from sqc.sweeps import blocks, manifest
from sqc.sweeps.errors import StoreError
from sqc.sweeps.experiment import Block, Experiment

if TYPE_CHECKING:
    from sqc.sweeps.table import Sweep

MANIFEST, PROGRAM, LANES = "manifest.json", "program.json", "lanes"
_PART = ".part"


class Store:
    """The folder of one sweep. `finished` are its blocks in the order in which they were written."""

    def __init__(self, folder: Path, experiment: Experiment, description: Mapping[str, Any]) -> None:
        self.folder = folder
        self.experiment = experiment
        self.metrics: tuple[str, ...] = tuple(description["metrics"])
        self.identity = manifest.identity(description)
        self.finished: list[Block] = []
        self._description = description
        self._next = 0
        self._lock: int | None = None

    # -- making and opening
    @classmethod
    def create(cls, folder: Path, experiment: Experiment, metrics: Sequence[str]) -> Store:
        """A new store, locked. The folder may exist, but must be empty."""
        description = manifest.describe(experiment, metrics)
        made = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        store = cls(folder, experiment, description)
        store._acquire()
        try:
            if (folder / MANIFEST).exists():
                raise InputError(f"{folder}: has a sweep already (--resume goes on with it)")
            others = [path for path in folder.iterdir() if path.name not in (PROGRAM, LANES) and path.suffix != _PART]
            if others or any((folder / LANES).glob("*")):
                raise InputError(f"{folder}: not empty, and no stored sweep")
            from sqc.ir import to_json

            (folder / LANES).mkdir(exist_ok=True)
            (folder / PROGRAM).unlink(missing_ok=True)  # of a process that was killed before it wrote the manifest
            _write(folder / PROGRAM, (to_json(experiment.program) + "\n").encode())
            document = {
                "format": manifest.FORMAT,
                "shard": experiment.shard,
                "sweep": description,
                "made": manifest.surroundings(experiment.mode),
            }
            _write(folder / MANIFEST, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode())
        except BaseException:
            store.close()
            if made:
                _discard(folder)
            raise
        return store

    @classmethod
    def open(cls, folder: Path) -> Store:
        """The store in a folder, with its blocks. Raises StoreError if there is none or it is damaged."""
        store = cls._opened(folder)
        store._load()
        return store

    @classmethod
    def _opened(cls, folder: Path) -> Store:
        """The store in a folder, its blocks not read yet."""
        document = _read_manifest(folder)
        description = document["sweep"]
        try:
            from sqc import irfile
            from sqc.diagnostics import CompileError

            experiment = manifest.experiment_of(description, irfile.read(folder / PROGRAM), document.get("shard"))
            store = cls(folder, experiment, description)
        except CompileError as error:
            raise StoreError(folder / PROGRAM, error.diagnostics[0].message) from None
        except (LookupError, TypeError, ValueError, AttributeError):
            raise StoreError(folder / MANIFEST, "not the manifest of a sweep") from None
        if manifest.describe(experiment, store.metrics)["program"]["sha256"] != description["program"]["sha256"]:
            raise StoreError(folder / PROGRAM, "not the program of the manifest")
        return store

    @classmethod
    def begin(cls, folder: Path, experiment: Experiment, metrics: Sequence[str], resume: bool) -> Store:
        """A new store, or with `resume` the one that is there, if it is of this very experiment."""
        if not resume or not (folder / MANIFEST).exists():
            return cls.create(folder, experiment, metrics)
        store = cls.resume(folder)
        with store._closed_on_failure():
            store.check(experiment, metrics)
        return store

    @classmethod
    def resume(cls, folder: Path) -> Store:
        """The store in a folder, locked, to add blocks to it."""
        store = cls._opened(folder)
        store._acquire()
        with store._closed_on_failure():
            store._load()
        return store

    @contextlib.contextmanager
    def _closed_on_failure(self) -> Iterator[None]:
        """Nobody gets the store if what is done here fails: it is unlocked."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def check(self, experiment: Experiment, metrics: Sequence[str]) -> None:
        """Refuse with an InputError an experiment that is not the stored one."""
        problem = manifest.difference(self._description, manifest.describe(experiment, metrics))
        if not problem and self.experiment.shard != experiment.shard:
            problem = f"its shard is {self.experiment.shard or 'none'}, not {experiment.shard or 'none'}"
        if problem:
            raise InputError(f"{self.folder}: the sweep that is there differs: {problem}")

    def differs(self, other: Store) -> str | None:
        """The first thing in which another store is of another sweep, or None; which shards they are does not count."""
        return manifest.difference(self._description, other._description)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let another process go on."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _acquire(self) -> None:
        try:
            import fcntl
        except ImportError:  # no such locks here
            return
        handle = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise StoreError(self.folder, "another process is at this sweep") from None
            return  # a file system without locks
        self._lock = handle

    # -- blocks
    def _load(self) -> None:
        experiment = self.experiment
        seen: set[tuple[int, int]] = set()
        self.finished = []
        self._next = 0
        for path in sorted((self.folder / LANES).glob("*.parquet")):
            block = blocks.decode(path, self.metrics, self.identity)
            if ((block.points < 0) | (block.points >= len(experiment.points))).any():
                raise StoreError(path, "it has a point that the manifest has not")
            lanes = set(zip(block.points.tolist(), block.seeds.tolist(), strict=True))
            if len(lanes) < len(block) or lanes & seen:
                raise StoreError(path, "it has lanes that are there already")
            seen |= lanes
            self.finished.append(block)
            self._next = max(self._next, blocks.number_of(path) + 1)

    def prepare(self) -> None:
        """Find out whether blocks can be written, before one is run."""
        if not os.access(self.folder / LANES, os.W_OK):
            raise StoreError(self.folder, "cannot be written")

    def add(self, block: Block) -> None:
        """Write a block; once this returns it is on the disk."""
        data = blocks.encode(block, self.experiment.columns(block.points), self.identity)
        _write(self.folder / LANES / blocks.name_of(self._next, data), data, self.folder)
        self._next += 1
        self.finished.append(block)

    def sweep(self) -> Sweep:
        """The table of what is finished."""
        from sqc.sweeps.assemble import assemble

        return assemble(self.experiment, self.metrics, self.finished)


def _read_manifest(folder: Path) -> dict[str, Any]:
    """The document, of this format and with the description of a sweep."""
    path = folder / MANIFEST
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StoreError(folder, "no stored sweep" if folder.is_dir() else "no such folder") from None
    except NotADirectoryError:
        raise StoreError(folder, "not a folder") from None
    except (ValueError, RecursionError):
        raise StoreError(path, "not the manifest of a sweep") from None
    if not isinstance(document, dict) or not isinstance(document.get("sweep"), dict):
        raise StoreError(path, "not the manifest of a sweep")
    if document.get("format") != manifest.FORMAT:
        raise StoreError(path, f"format {document.get('format')}; this sqc reads {manifest.FORMAT}")
    found: dict[str, Any] = document
    return found


def _write(path: Path, data: bytes, workshop: Path | None = None) -> None:
    """A new file, all of it or nothing: written in `workshop` (default: beside), flushed, renamed."""
    part = (workshop or path.parent) / (path.name + _PART)
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        part.rename(path)
        _flush_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise OSError(error.errno, error.strerror, str(path)) from None  # some calls name no file


def _flush_folder(folder: Path) -> None:
    """Make the names in a folder as lasting as its files, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _discard(folder: Path) -> None:
    """Take away a folder that was made in vain."""
    with contextlib.suppress(OSError):
        (folder / PROGRAM).unlink(missing_ok=True)
    for path in (folder / LANES, folder):
        with contextlib.suppress(OSError):
            path.rmdir()

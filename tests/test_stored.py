"""Kernels kept on disk: a second build reads the first one and gives the same bits, and no file can do harm."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fakes
import sqc
from sqc import ir, stored
from sqc.build import About
from sqc.cli import main
from sqc.kernel import Kernel

SOURCE = """use "std/args";
fn main() {
  let work = args.number("work", 1.0);
  stage svc : fifo;
  workload { arrive poisson(0.5); turn { set w = ~exp(1) * work; } }
  server {
    set t0 = now;
    run svc (cost(svc, w));
    observe response = now - t0;
  }
}
"""
PROGRAM = sqc.compile(source=SOURCE).ir
SIZES = {"samples": 256}
SETTING: dict[str, Any] = {"horizon": 200.0, "warmup": 20.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache") / "kernels"


def built(folder: Path, program: ir.Program = PROGRAM) -> Kernel:
    return Kernel(program, samples=True, capacities=SIZES, cache_dir=folder)


@pytest.fixture(scope="module")
def first(folder: Path) -> Kernel:
    """A kernel that was compiled here, and that has filled the folder."""
    kernel = built(folder)
    assert not kernel.from_cache
    return kernel


def outcome(kernel: Kernel, work: float = 1.0) -> tuple[Any, ...]:
    """Everything that a run gives, numbers as bytes."""
    result = kernel.run(3, **SETTING, inputs={"work": work})
    samples = {name: [column.tobytes() for column in vars(rows).values()] for name, rows in result.samples.items()}
    return {name: value.hex() for name, value in result.metrics.items()}, samples, repr(result.failure), result.mode


def test_second_build(first: Kernel, folder: Path) -> None:
    second = built(folder)
    assert second.from_cache
    assert second.metrics == first.metrics
    assert outcome(second) == outcome(first)
    assert second.emit("assembly") == first.emit("assembly")


def test_failures_keep_their_place(first: Kernel, folder: Path) -> None:
    second = built(folder)
    assert outcome(second, -1.0) == outcome(first, -1.0)
    failure = second.run(3, **SETTING, inputs={"work": -1.0}).failure
    assert second.from_cache
    assert failure is not None
    assert failure.span is not None
    assert failure.code == "R104"
    assert SOURCE.splitlines()[failure.span.line - 1].lstrip().startswith("run svc")


def test_what_only_building_gives(first: Kernel, folder: Path) -> None:
    """Text of the code is made anew when it is asked for."""
    second = built(folder)
    assert "define" in second.emit("llvm")
    assert second.emit("llvm") == first.emit("llvm")
    assert second.from_cache


@pytest.mark.usefixtures("first")
def test_another_file_name_hits(folder: Path) -> None:
    assert built(folder, dataclasses.replace(PROGRAM, file="elsewhere.sq", source="")).from_cache


@pytest.mark.usefixtures("first")
def test_what_names_no_folder_has_none() -> None:
    """Whatever other kernels of the process do."""
    assert not Kernel(PROGRAM, samples=True, capacities=SIZES).from_cache


def place(folder: Path, program: ir.Program = PROGRAM, **change: Any) -> Path:
    options: dict[str, Any] = {"capacities": {"sessions": 8}} | change
    path = stored.place(folder, program, **options)
    assert path is not None
    return path


def test_anything_else_misses(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = sqc.compile(source=SOURCE.replace("0.5", "0.25")).ir
    lower = sqc.compile(source="\n" + SOURCE).ir  # its errors are one line further down
    places = [
        place(folder),
        place(folder, other),
        place(folder, lower),
        place(folder, capacities={"sessions": 9}),
    ]
    for function in ("_code", "processor"):
        with monkeypatch.context() as patch:
            patch.setattr(stored, function, lambda: "another")
            places.append(place(folder))
    assert len(set(places)) == len(places)
    assert place(folder) == places[0]


def test_no_sources_no_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the package cannot tell whether it has changed, it keeps nothing."""

    def unreadable() -> str:
        raise FileNotFoundError

    monkeypatch.setattr(stored, "_code", unreadable)
    assert stored.place(folder, PROGRAM, {}) is None


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut": lambda data: data[:-1],
    "head": lambda data: data[:20],
    "flipped": flipped,
    "another format": lambda data: data.replace(b"kernel 2", b"kernel 1", 1),
    "not a kernel": lambda data: bytes(range(256)),
}


@pytest.mark.usefixtures("first")
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_not_used(damage: str, folder: Path, tmp_path: Path) -> None:
    (whole,) = folder.glob("*.kernel")
    assert stored.load(whole) is not None
    damaged = tmp_path / whole.name
    damaged.write_bytes(DAMAGE[damage](whole.read_bytes()))
    assert stored.load(damaged) is None


def test_a_damaged_file_is_written_again(first: Kernel, folder: Path, tmp_path: Path) -> None:
    (whole,) = folder.glob("*.kernel")
    damaged = tmp_path / whole.name
    damaged.write_bytes(whole.read_bytes()[:1000])
    again = built(tmp_path)
    assert not again.from_cache
    assert outcome(again) == outcome(first)
    assert stored.load(damaged) is not None
    assert [path.name for path in tmp_path.iterdir()] == [whole.name]


ABOUT = About(("events",), (None, ir.Span(1, 2, 3, 4)), {"observe.x": 5}, {}, {"f": 6})


def kept(path: Path) -> Path:
    """A file with something that is no code, saved."""
    stored.save(path, ABOUT, b"code")
    return path


def test_a_file_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = kept(tmp_path / "mine.kernel")
    assert stored.load(path) == (ABOUT, b"code")
    monkeypatch.setattr(os, "getuid", lambda: -1)
    assert stored.load(path) is None


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = kept(tmp_path / "file" / "a.kernel")
    assert stored.load(path) is None


def test_the_folder_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels unused for longest go first; other files stay."""
    paths = [kept(tmp_path / f"{name}.kernel") for name in "abc"]
    (tmp_path / "other").touch()
    for age, path in enumerate(paths):
        os.utime(path, (age, age))
    assert stored.load(paths[0]) is not None  # used now
    monkeypatch.setattr(stored, "MOST_BYTES", 3 * paths[0].stat().st_size + 100)
    kept(tmp_path / "d.kernel")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.kernel", "c.kernel", "d.kernel", "other"]


class CachedKernel(fakes.Kernel):
    from_cache = True


def test_the_command_line_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "prog.sq").write_text(SOURCE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    fakes.install(monkeypatch, CachedKernel)
    assert main(["compile", "prog.sq"]) == 0
    assert capsys.readouterr().out.startswith("prog.sq: kernel from the cache in 1.25 s, mode native")

"""Compiled programs as files: they run without their source, and a file that is not whole or not ours is refused."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import sqc
from sqc import artefact
from sqc.build import Options
from sqc.cli import main
from sqc.codegen import lane
from sqc.export import Export

SOURCE = """use "std/args";
fn main() {
  let work = args.number("work", 1.0);
  stage svc : fifo;
  workload { arrive poisson(0.5); turn { set w = ~exp(1) * work; } }
  server { run svc (cost(svc, w)); }
}
"""
RUN = ["--horizon", "200", "--warmup", "20", "--set", "work=0.8", "--json"]
SWEEP = ["--horizon", "50", "--seeds", "3", "--set", "work=0.5,1", "--json"]


def command(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    return subprocess.run([sys.executable, "-m", "sqc", *map(str, words)], capture_output=True, text=True, check=False)


def output(*words: str | Path) -> str:
    """The command line in this process: what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main([*map(str, words)]) == 0
    return out.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `prog.sqk`, and what its source said before it was deleted."""
    folder = tmp_path_factory.mktemp("artefact")
    source = folder / "prog.sq"
    source.write_text(SOURCE, encoding="utf-8")
    for name, words in (("run", RUN), ("sweep", SWEEP)):
        (folder / f"{name}.json").write_text(output(name, source, *words), encoding="utf-8")
    kept = folder / "prog.sqk"
    assert output("compile", source, "-o", kept) == f"{kept}: written, for cpu and cuda\n"
    source.unlink()
    return folder


@pytest.fixture(scope="module")
def file(folder: Path) -> Path:
    return folder / "prog.sqk"


def test_commands_give_the_same_without_the_source(folder: Path, file: Path) -> None:
    for name, words in (("run", RUN), ("sweep", SWEEP)):
        done = command(name, file, *words)
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout) == json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def test_manifest_and_members(file: Path) -> None:
    with zipfile.ZipFile(file) as archive:
        assert archive.namelist() == ["manifest.json", "ir.json", "portable.stablehlo"]
        manifest = json.loads(archive.read("manifest.json"))
    assert manifest["inputs"] == {"work": 1.0}
    assert manifest["platforms"] == ["cpu", "cuda"]
    assert (manifest["sqc"], manifest["jax"]) == (sqc.__version__, jax.__version__)
    assert manifest["metrics"] == list(sqc.compile(source=SOURCE).kernel().metrics)


class Generated(Exception):
    """Code generation was asked for a program."""


def generated(_: Any, capacities: dict[str, int], *__: Any) -> None:
    raise Generated(capacities["sessions"])


def test_portable_mode_calls_the_export(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without code generation as long as the capacities suffice; a lane that overflows them runs again from the IR."""
    program = sqc.load(file)
    seeds = np.arange(1, 4, dtype=np.uint64)
    kernel = program.kernel(mode="portable")
    with monkeypatch.context() as patch:
        patch.setattr(lane, "LaneProgram", generated)
        portable = kernel(seeds, horizon=20.0, work=0.8)
        with pytest.raises(Generated, match="256"):
            kernel(seeds, horizon=200.0, work=100.0)
    native = program.kernel(mode="native")(seeds, horizon=20.0, work=0.8)
    assert set(portable) == set(native)
    for name, column in native.items():
        np.testing.assert_allclose(portable[name], column, rtol=1e-9, atol=1e-12, err_msg=name)


def test_other_capacities_and_options_are_built_from_the_ir(file: Path) -> None:
    export = artefact.read(file).export
    sizes = export.head["capacities"]
    assert export.fits(sizes, Options())
    assert not export.fits({**sizes, "sessions": 2 * sizes["sessions"]}, Options())
    assert not export.fits(sizes, Options(debug=True))
    assert not export.fits(sizes, Options(skip=False))
    newer = Export(export.module, {**export.head, "calling_convention": 1000})
    assert not newer.fits(sizes, Options())


def test_exported_is_a_function_of_jax(file: Path) -> None:
    exported = artefact.exported(file)
    assert exported.platforms == ("cpu", "cuda")
    assert [str(aval) for aval in exported.in_avals] == ["uint64[lanes]", *["float64[lanes]"] * 4]
    assert not exported.has_vjp()
    assert "stablehlo" in exported.mlir_module()


def test_a_compiled_program_has_its_definitions(file: Path) -> None:
    with pytest.raises(sqc.InputError, match="has its workload and definitions"):
        sqc.compile(file, defs={"law": 1.0})


def repacked(data: bytes, change: Callable[[dict[str, Any], dict[str, bytes]], None]) -> bytes:
    """The file with other members and a checksum that fits them."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members.pop("manifest.json"))
    change(manifest, members)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in {"manifest.json": json.dumps(manifest).encode(), **members}.items():
            archive.writestr(name, content)
        archive.comment = b"0" * 64
    body = made.getvalue()[:-64]
    return body + hashlib.sha256(body).hexdigest().encode()


def flipped(data: bytes) -> bytes:
    return data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]


OURS = f"sqc {sqc.__version__}"
WRONG: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda _: b"", "no compiled program"),
    "text": (lambda _: SOURCE.encode(), "no compiled program"),
    "truncated": (lambda data: data[:-100], "truncated or altered"),
    "short": (lambda data: data[:10], "truncated or altered"),
    "flipped": (flipped, "truncated or altered"),
    "format": (lambda data: repacked(data, lambda m, _: m.update(format=99)), f"format 99, written by {OURS}; sqc"),
    "ir": (lambda data: repacked(data, lambda m, _: m.update(ir=1)), f"IR version 1, written by {OURS}; sqc"),
    "member": (
        lambda data: repacked(data, lambda _, f: f.update({"ir.json": b"{}"})),
        "ir.json is not that of its manifest",
    ),
    "more": (lambda data: repacked(data, lambda _, f: f.update(more=b"x")), "members are not those of its manifest"),
    "no zip": (lambda _: b"PK" + hashlib.sha256(b"PK").hexdigest().encode(), "the archive cannot be read"),
    "signature": (
        lambda data: repacked(data, lambda m, _: m["portable"].pop("results")),
        "its manifest is incomplete",
    ),
    "manifest": (lambda data: repacked(data, lambda m, _: m.pop("members")), "its manifest is incomplete"),
}


@pytest.mark.parametrize("case", WRONG)
def test_refused_with_a_reason(case: str, file: Path, tmp_path: Path) -> None:
    change, reason = WRONG[case]
    wrong = tmp_path / "wrong.sqk"
    wrong.write_bytes(change(file.read_bytes()))
    with pytest.raises(sqc.ArtefactError) as refused:
        sqc.load(wrong)
    assert str(refused.value).startswith(f"{wrong}: ")
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_every_flipped_byte_is_noticed(file: Path, tmp_path: Path) -> None:
    data, wrong = bytearray(file.read_bytes()), tmp_path / "wrong.sqk"
    for at in (*range(0, len(data), len(data) // 50), len(data) - 1):
        data[at] ^= 0x20
        wrong.write_bytes(data)
        with pytest.raises(sqc.ArtefactError):
            sqc.load(wrong)
        data[at] ^= 0x20


def test_another_version_of_sqc_builds_from_the_ir(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.sqk"
    other.write_bytes(repacked(file.read_bytes(), lambda manifest, _: manifest.update(sqc="0.0.1")))
    assert sqc.load(file)._export is not None
    assert sqc.load(other)._export is None


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("run missing.sqk --horizon 1", 1, "sqc run: missing.sqk: No such file or directory"),
        ("compile prog.sq -o prog.zip", 2, "sqc compile: --out prog.zip: the name must end in .sqk"),
        ("compile prog.sq -o a.sqk --emit ir", 2, "sqc compile: --out writes a file for every mode; --emit"),
        ("compile prog.sq -o a.sqk --mode native", 2, "sqc compile: --out writes a file for every mode; --mode"),
    ],
)
def test_wrong_usage(words: str, code: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == code
    assert capsys.readouterr().err.startswith(message)

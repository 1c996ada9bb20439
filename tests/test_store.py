"""Stored sweeps: what is in the folder, going on after any end, and everything that is refused."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas
import polars
import pytest
from pyarrow import parquet

import fakes
import sqc
from isolated import Server
from sqc import ir
from sqc.cli import main
from sqc.inputs import InputError
from sqc.program import Program
from sqc.sweeps import StoreError, Sweep, SweepInterrupted, open_sweep, resume_sweep
from sqc.sweeps.runner import block_sizes
from sqc.sweeps.store import Store

Options = dict[str, Any]
SWEPT: Options = {"seeds": 40, "horizon": 100, "warmup": 10, "sets": {"C": [2e5, 6e4]}, "block": 16}


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Program:
    fakes.install(monkeypatch, failing=(7,))
    return Program(fakes.PROGRAM)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "sweep"


@pytest.fixture
def stored(program: Program, folder: Path) -> Sweep:
    """A sweep of two points and forty seeds in five blocks; seed 7 fails."""
    return program.sweep(**SWEPT, out=folder)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def block(folder: Path, number: int) -> Path:
    """The file of a block; its name goes on with a digest."""
    (path,) = (folder / "lanes").glob(f"{number:06d}-*.parquet")
    return path


def same(one: Sweep, other: Sweep) -> None:
    """Two sweeps with the same lanes, failures and pooled samples."""
    assert one.json() == other.json()
    assert one.seeds == other.seeds
    for name, values in one.lanes.items():
        np.testing.assert_array_equal(values, other.lanes[name])
    np.testing.assert_array_equal(one.done, other.done)
    assert histograms(one) == histograms(other)


def histograms(sweep: Sweep) -> dict[int, dict[str, Any]]:
    return {point: {row: h.json() for row, h in rows.items()} for point, rows in sweep.pooled.items()}


# ----------------------------------------------------------------------------- what is stored


@pytest.mark.usefixtures("stored")
def test_a_row_per_lane(folder: Path) -> None:
    files = sorted((folder / "lanes").iterdir())
    assert files == [block(folder, number) for number in range(5)]
    rows = [row for path in files for row in parquet.read_table(path).to_pylist()]
    assert len(rows) == 80
    assert list(rows[0]) == ["C", "think time", "seed", *fakes.METRICS, "status", "failure", "point"]
    for row in rows:
        assert row["C"] == (2e5, 6e4)[row["point"]]
        assert row["think time"] == 3
        assert row["client.ttft.mean"] is None  # undefined
        if row["seed"] == 7:
            assert (row["status"], row["events"]) == ("R201", None)
            assert json.loads(row["failure"])["message"] == fakes.FAILURE.message
        else:
            assert (row["status"], row["failure"]) == ("done", None)
            assert row["events"] == fakes.lane_value("events", row["seed"], row)


def test_other_libraries_read_it_as_it_is(stored: Sweep, folder: Path) -> None:
    mean = stored.metric("events").mean.tolist()
    lanes = folder / "lanes"
    frames = [
        pandas.read_parquet(lanes),
        polars.read_parquet(lanes).to_pandas(),
        polars.read_parquet(lanes / "*.parquet").to_pandas(),
        duckdb.connect().execute(f"from '{lanes}/*.parquet'").df(),
        stored.to_pandas(),
    ]
    for frame in frames:
        by = frame.groupby("C")
        assert by["events"].mean().loc[[2e5, 6e4]].tolist() == pytest.approx(mean, rel=1e-14)
        assert (frame["status"] == "done").sum() == 78
        assert by.size().tolist() == [40, 40]


def test_the_same_when_opened(stored: Sweep, folder: Path) -> None:
    same(open_sweep(folder), stored)
    same(Sweep.open(str(folder)), stored)
    assert [(failure.seed, failure.span) for failure in Sweep.open(folder).failures] == [(7, fakes.SPAN)] * 2


@pytest.mark.usefixtures("stored")
def test_manifest(folder: Path) -> None:
    document = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert document["format"] == "sqc sweep 1"
    sweep = document["sweep"]
    assert sweep["program"]["text"] == fakes.SOURCE
    assert sweep["program"]["ir_version"] == ir.IR_VERSION
    assert (sweep["seeds"], sweep["points"]) == ("1:40", [{"C": 2e5}, {"C": 6e4}])
    assert (sweep["horizon"], sweep["warmup"], sweep["arrivals"]) == (100, 10, None)
    assert (sweep["mode"], sweep["precision"], sweep["sqc_version"]) == ("native", "float64", sqc.__version__)
    assert "ChaCha12" in sweep["streams"]
    assert {"device", "python", "numpy", "jax", "llvmlite", "pyarrow", "platform"} <= set(document["made"])
    assert ir.from_json((folder / "program.json").read_text(encoding="utf-8")) == fakes.PROGRAM


def test_values_that_json_and_columns_have_no_room_for(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """An infinite input, the largest seed, an arrival limit, inputs called like other columns."""
    fakes.install(monkeypatch)
    inputs = (*fakes.PROGRAM.inputs, ir.InputDecl("seed", 1.0, "S"), ir.InputDecl("events", 2.0, "E"))
    program = Program(replace(fakes.PROGRAM, inputs=inputs))
    seeds = (2**64 - 1, 3)
    swept = program.sweep(seeds, horizon=1, arrivals=5, sets={"C": ["inf"], "seed": [8, 9]}, out=folder)
    same(Sweep.open(folder), swept)
    assert Sweep.open(folder).seeds == seeds
    assert Sweep.open(folder).arrivals == 5
    row = parquet.read_table(block(folder, 0)).to_pylist()[0]
    assert (row["C"], row["input.seed"], row["input.events"], row["seed"]) == (np.inf, 8, 2, 2**64 - 1)
    assert set(swept.to_xarray().dims) == {"C", "input.seed", "seed"}


# ----------------------------------------------------------------------------- going on


@pytest.mark.parametrize("lost", [(0,), (1, 3), (0, 1, 2, 3, 4)])
def test_lost_blocks_are_run_again(stored: Sweep, folder: Path, lost: tuple[int, ...]) -> None:
    for number in lost:
        block(folder, number).unlink()
    before = contents(folder)
    partial = Sweep.open(folder)
    assert partial.interrupted
    assert int(partial.done.sum()) == 80 - 16 * len(lost)
    assert str(partial).endswith(f"unfinished: {80 - 16 * len(lost)} of 80 runs are done")
    same(resume_sweep(folder), stored)
    same(Sweep.open(folder), stored)
    assert contents(folder).items() >= before.items()


def test_a_finished_sweep_is_not_run_again(stored: Sweep, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(folder)

    def lanes(*_: Any, **__: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(fakes.Kernel, "lanes", lanes)
    same(resume_sweep(folder), stored)
    same(Program(fakes.PROGRAM).sweep(**SWEPT, out=folder, resume=True), stored)
    assert contents(folder) == before


def test_ctrl_c_keeps_what_is_finished(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """The half block in which it came is kept too, and its pooled samples with it."""
    fakes.install(monkeypatch, fakes.InterruptedKernel)
    with pytest.raises(SweepInterrupted) as caught:
        Program(fakes.PROGRAM).sweep(**SWEPT, out=folder)
    assert int(caught.value.partial.done.sum()) == 8
    same(Sweep.open(folder), caught.value.partial)
    fakes.install(monkeypatch)
    whole = Program(fakes.PROGRAM).sweep(**SWEPT)
    same(resume_sweep(folder, block=32), whole)


def test_resume_begins_where_there_is_nothing(program: Program, folder: Path, stored: Sweep) -> None:
    same(program.sweep(**SWEPT, out=folder.with_name("other"), resume=True), stored)


def test_until_goes_on_alike(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Which seeds are asked for follows from the rows alone."""
    fakes.install(monkeypatch)
    options: Options = {"seeds": 4, "horizon": 1, "until": {"events": "15%"}, "max_seeds": 60, "block": 5}
    program = Program(fakes.PROGRAM)
    whole = program.sweep(**options, sets={"C": [2e5, 6e4]}, out=folder)
    assert whole.done.sum(axis=1).tolist() == whole.asked.sum(axis=1).tolist()
    assert 4 < whole.asked[0].sum() < whole.asked[1].sum() <= 60
    for path in sorted((folder / "lanes").iterdir())[2::2]:
        path.unlink()
    same(resume_sweep(folder), whole)


KILLED = Path(__file__).with_name("killed.py")


def test_killed_at_random_moments(tmp_path: Path) -> None:
    """Thirty real processes, killed by SIGKILL; then the rows are those of a sweep that was never stopped."""
    done = subprocess.run(
        [sys.executable, KILLED, str(tmp_path), "30"], capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("30 killed, ")


# ----------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"horizon": 200}, "its horizon is 100, not 200"),
        ({"warmup": 0}, "its warmup is 10, not 0"),
        ({"arrivals": 3}, "its arrivals is none, not 3"),
        ({"seeds": 41}, "its seeds is 1:40, not 1:41"),
        ({"sets": {"C": [2e5, 6e4, 1]}}, "its points are others"),
        ({"until": {"events": 1}}, "its until are others"),
    ],
)
@pytest.mark.usefixtures("stored")
def test_another_sweep(program: Program, folder: Path, changed: Options, problem: str) -> None:
    before = contents(folder)
    with pytest.raises(InputError) as caught:
        program.sweep(**(SWEPT | changed), out=folder, resume=True)
    assert str(caught.value) == f"{folder}: the sweep that is there differs: {problem}"
    with pytest.raises(InputError) as caught:
        program.sweep(**SWEPT, out=folder)
    assert str(caught.value) == f"{folder}: has a sweep already (--resume goes on with it)"
    assert contents(folder) == before


def test_another_program(stored: Sweep, folder: Path) -> None:
    """Its comments and the name of its file may change, what it does may not."""
    renamed = Program(replace(fakes.PROGRAM, file="other.sq", source="// a comment"))
    same(replace(renamed.sweep(**SWEPT, out=folder, resume=True), program=stored.program), stored)
    with pytest.raises(InputError, match="it is of another program"):
        Program(replace(fakes.PROGRAM, arrival=ir.Poisson(ir.Const(0.6)))).sweep(**SWEPT, out=folder, resume=True)


@pytest.mark.usefixtures("stored")
def test_another_version(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqc.sweeps.manifest.VERSION", "0.0.9")
    assert not Sweep.open(folder).interrupted
    with pytest.raises(InputError, match=r"its sqc_version is .*, not 0\.0\.9"):
        resume_sweep(folder)


def truncated(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flipped(data: bytes) -> bytes:
    """One bit of a page of data."""
    return data[:200] + bytes([data[200] ^ 4]) + data[201:]


def without_its_end(data: bytes) -> bytes:
    return data[:-1]


@pytest.mark.parametrize("damage", [truncated, flipped, without_its_end, lambda _: b"", lambda _: b"PAR1" * 4])
def test_damaged_blocks(stored: Sweep, folder: Path, damage: Callable[[bytes], bytes]) -> None:
    path = block(folder, 2)
    path.write_bytes(damage(path.read_bytes()))
    before = contents(folder)
    for use in (open_sweep, resume_sweep):
        with pytest.raises(StoreError) as caught:
            use(folder)
        assert str(caught.value) == f"{path}: truncated or damaged; delete it and its lanes are run again by --resume"
    assert contents(folder) == before
    path.unlink()
    same(resume_sweep(folder), stored)


@pytest.mark.usefixtures("stored")
def test_blocks_that_do_not_belong(program: Program, folder: Path) -> None:
    other = folder.with_name("other")
    program.sweep(**(SWEPT | {"horizon": 50}), out=other)
    foreign, twice = block(other, 0), block(folder, 1)
    for source, name, problem in (
        (foreign, foreign.name, "the file belongs to another sweep"),
        (twice, twice.name.replace("000001", "000009"), "it has lanes that are there already"),
        (twice, "mine.parquet", "its name is not that of a block"),
    ):
        added = folder / "lanes" / name
        added.write_bytes(source.read_bytes())
        with pytest.raises(StoreError) as caught:
            Sweep.open(folder)
        assert str(caught.value) == f"{added}: {problem}"
        added.unlink()


@pytest.mark.usefixtures("stored")
def test_damaged_manifests(folder: Path) -> None:
    manifest, text = folder / "manifest.json", (folder / "manifest.json").read_text(encoding="utf-8")
    document = json.loads(text)
    without_points = {name: value for name, value in document["sweep"].items() if name != "points"}
    for wrong, problem in (
        (text[:500], "not the manifest of a sweep"),
        ("[]", "not the manifest of a sweep"),
        (json.dumps(document | {"format": "sqc sweep 9"}), "format sqc sweep 9; this sqc reads sqc sweep 1"),
        (json.dumps(document | {"sweep": without_points}), "not the manifest of a sweep"),
        (json.dumps(document | {"sweep": document["sweep"] | {"until": 3}}), "not the manifest of a sweep"),
    ):
        manifest.write_text(wrong, encoding="utf-8")
        with pytest.raises(StoreError) as caught:
            Sweep.open(folder)
        assert str(caught.value) == f"{manifest}: {problem}"
    manifest.write_text(json.dumps(document | {"sweep": document["sweep"] | {"horizon": 99}}), encoding="utf-8")
    with pytest.raises(StoreError, match="the file belongs to another sweep"):
        Sweep.open(folder)


@pytest.mark.usefixtures("stored")
def test_a_changed_program_file(folder: Path) -> None:
    path = folder / "program.json"
    path.write_text(path.read_text(encoding="utf-8").replace("0.5", "0.25"), encoding="utf-8")
    with pytest.raises(StoreError) as caught:
        Sweep.open(folder)
    assert str(caught.value) == f"{path}: not the program of the manifest"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(StoreError, match=r"program\.json: the file is not the IR of a program: not JSON"):
        Sweep.open(folder)


def test_folders_that_are_no_store(program: Program, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, problem in (("nowhere", "no such folder"), ("file", "not a folder"), (".", "no stored sweep")):
        with pytest.raises(StoreError) as caught:
            Sweep.open(tmp_path / name)
        assert str(caught.value) == f"{tmp_path / name}: {problem}"
    with pytest.raises(InputError, match="not empty, and no stored sweep"):
        program.sweep(**SWEPT, out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_a_killed_process_left_is_no_hindrance(program: Program, folder: Path, stored: Sweep) -> None:
    """Killed before the manifest was there, or while a block was written."""
    other = folder.with_name("other")
    (other / "lanes").mkdir(parents=True)
    for name in ("program.json", "manifest.json.part", "program.json.part"):
        (other / name).write_text("half", encoding="utf-8")
    same(program.sweep(**SWEPT, out=other), stored)
    block(other, 4).unlink()
    (other / "000004-0123456789ab.parquet.part").write_bytes(b"half")
    same(resume_sweep(other), stored)


def test_one_process_at_a_time(stored: Sweep, folder: Path) -> None:
    with Store.resume(folder), pytest.raises(StoreError) as caught:
        resume_sweep(folder)
    assert str(caught.value) == f"{folder}: another process is at this sweep"
    same(resume_sweep(folder), stored)


# ----------------------------------------------------------------------------- troubles of the disk

TROUBLED = Server(str(Path(__file__).with_name("troubled.py")))


def in_trouble(trouble: str, *words: str) -> tuple[int, str]:
    """Exit code and stderr of `sqc sweep` on a disk that is read-only, or has room for so many bytes a file."""
    code, said = TROUBLED.ask((trouble, list(words)), 60)
    return code, said


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter, with a program in it."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        (path / "prog.sq").write_text("a program", encoding="utf-8")
        yield path


def test_a_disk_that_is_full(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole blocks stay, the one without room leaves nothing, and with room the sweep goes on."""
    target = open_folder / "sweep"
    words = [str(open_folder / "prog.sq"), "--seeds", "40", "--horizon", "9", "--block", "16", "--out", str(target)]
    assert in_trouble("2000", *words) == (1, f"sqc sweep: {target / 'program.json'}: File too large\n")
    assert not target.exists()
    code, said = in_trouble("12000", *words)
    assert code == 1
    assert re.fullmatch(rf"sqc sweep: {target}/lanes/000000-\w+\.parquet: File too large\n", said)
    assert sorted(contents(target)) == ["manifest.json", "program.json"]
    fakes.install(monkeypatch)
    assert main(["sweep", str(target), "--resume", "--block", "16"]) == 0
    assert len(list((target / "lanes").iterdir())) == 3


def test_a_folder_that_cannot_be_written(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = open_folder / "sweep"
    words = [str(open_folder / "prog.sq"), "--seeds", "4", "--horizon", "9", "--out", str(target)]
    assert in_trouble("read-only", *words) == (1, f"sqc sweep: {target}: Permission denied\n")
    fakes.install(monkeypatch)
    Program(fakes.PROGRAM).sweep(**SWEPT, out=target)
    assert in_trouble("read-only", str(target), "--resume") == (0, "")  # there is nothing to write
    block(target, 2).unlink()
    before = contents(target)
    assert in_trouble("read-only", str(target), "--resume") == (1, f"sqc sweep: {target}: cannot be written\n")
    assert contents(target) == before


# ----------------------------------------------------------------------------- the command line


def test_commands(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fakes.install(monkeypatch)
    fakes.install_front_end(monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    Path("prog.sq").write_text("a program", encoding="utf-8")

    def sqc_(line: str) -> tuple[int, str, str]:
        code = main(line.split())
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    swept = sqc_("sweep prog.sq --seeds 3 --horizon 10 --set C=2e5,6e4 --out kept --metric events")
    assert swept[0] == 0
    assert sqc_("show kept --metric events") == swept
    assert sqc_("sweep kept --resume --metric events") == swept
    assert sqc_("sweep prog.sq --seeds 3 --horizon 10 --set C=2e5,6e4 --out kept --resume --metric events") == swept
    assert json.loads(sqc_("show kept --json")[1])["points"][1]["inputs"] == {"C": 6e4}
    sqc_("show kept --csv table.csv")
    assert Path("table.csv").read_text(encoding="utf-8") == Sweep.open("kept").to_csv()
    for line, message in (
        ("sweep kept", "sqc sweep: kept is a folder: --resume goes on with a sweep, `sqc show kept` prints it"),
        ("sweep kept --resume --seeds 4", "sqc sweep: --seeds: the sweep in kept has its own"),
        ("sweep kept --resume --set C=1", "sqc sweep: --set: the sweep in kept has its own"),
        ("sweep kept --resume -- --C 1", "sqc sweep: inputs after -- are for run and sweep"),
        (
            "sweep prog.sq --resume --seeds 4 --horizon 1",
            "sqc sweep: --resume goes with --out, or with the folder of a sweep",
        ),
        (
            "sweep prog.sq --seeds 3 --horizon 10 --out kept",
            "sqc sweep: kept: has a sweep already (--resume goes on with it)",
        ),
        ("show kept --metric evens", "sqc show: no metric evens (did you mean events?)"),
    ):
        assert sqc_(line) == (2, "", f"{message}\n")
    assert sqc_("show prog.sq") == (1, "", "sqc show: prog.sq: not a folder\n")
    path = block(Path("kept"), 0)
    path.write_bytes(b"")
    said = "truncated or damaged; delete it and its lanes are run again by --resume"
    for line in ("show kept", "sweep kept --resume"):
        assert sqc_(line) == (1, "", f"sqc {line.split()[0]}: {path}: {said}\n")


def test_interrupted_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fakes.install(monkeypatch, fakes.InterruptedKernel)
    fakes.install_front_end(monkeypatch)
    monkeypatch.chdir(tmp_path)
    Path("prog.sq").write_text("a program", encoding="utf-8")
    assert main(["sweep", "prog.sq", "--seeds", "8", "--horizon", "10", "--out", "kept"]) == 130
    captured = capsys.readouterr()
    assert captured.out.splitlines()[-1] == "unfinished: 4 of 8 runs are done"
    assert captured.err == "sqc sweep: interrupted; `sqc sweep kept --resume` goes on\n"


# ----------------------------------------------------------------------------- in parts


def parts(program: Program, tmp_path: Path, count: int, **changed: Any) -> list[Path]:
    """The folders of all parts of the sweep."""
    folders = [tmp_path / f"part{number}" for number in range(1, count + 1)]
    for number, folder in enumerate(folders, 1):
        program.sweep(**{**SWEPT, **changed}, out=folder, shard=(number, count))
    return folders


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_parts_are_the_whole(program: Program, tmp_path: Path, stored: Sweep, folder: Path, count: int) -> None:
    """Merged in any order, the rows, failures and pooled samples are those of a sweep that was run as one."""
    folders = parts(program, tmp_path, count)
    assert sum(int(Sweep.open(part).done.sum()) for part in folders) == int(stored.done.sum())
    assert not any(Sweep.open(part).interrupted for part in folders)
    merged = sqc.merge_sweeps(folders[::-1], tmp_path / "merged")
    same(merged, stored)
    same(Sweep.open(tmp_path / "merged"), stored)
    rows = [
        polars.read_parquet(where / "lanes/*.parquet").sort("point", "seed") for where in (folder, tmp_path / "merged")
    ]
    assert rows[0].equals(rows[1])
    same(resume_sweep(tmp_path / "merged"), stored)


def test_a_part_goes_on(program: Program, tmp_path: Path) -> None:
    (part,) = [program.sweep(**SWEPT, out=tmp_path / "part", shard="2/3")]
    block(tmp_path / "part", 0).unlink()
    assert Sweep.open(tmp_path / "part").interrupted
    same(resume_sweep(tmp_path / "part"), part)
    with pytest.raises(InputError, match="its shard is 2/3, not 1/3"):
        program.sweep(**SWEPT, out=tmp_path / "part", shard="1/3", resume=True)
    with pytest.raises(InputError, match="its shard is 2/3, not none"):
        program.sweep(**SWEPT, out=tmp_path / "part", resume=True)


@pytest.mark.usefixtures("stored")
def test_what_is_not_merged(program: Program, tmp_path: Path, folder: Path) -> None:
    """A clear line, and nothing is written."""
    one, two, three = parts(program, tmp_path, 3)
    (other, *_) = parts(program, tmp_path / "other", 3, horizon=90)
    (half, *_) = parts(program, tmp_path / "half", 2)
    before = contents(tmp_path)
    for folders, problem in (
        ([one, two], "no shard 3/3"),
        ([one, two, two, three], "part2: shard 2/3, as .*part2"),
        ([one, two, three, folder], "sweep: a whole sweep, not a shard of one"),
        ([one, other, three], "not of the sweep of .*part1: its horizon is 90, not 100"),
        ([one, half, three], "part1: shard 1/2, and .*part1 is shard 1/3"),
        ([], "no folders"),
    ):
        with pytest.raises(InputError, match=problem):
            sqc.merge_sweeps(folders, tmp_path / "merged")
    with pytest.raises(StoreError, match="there already, and not an empty folder"):
        sqc.merge_sweeps([one, two, three], folder)
    assert contents(tmp_path) == before
    block(two, 0).unlink()
    with pytest.raises(InputError, match="part2: not finished"):
        sqc.merge_sweeps([one, two, three], tmp_path / "merged")
    block(three, 0).write_bytes(b"")
    with pytest.raises(StoreError, match="truncated or damaged"):
        sqc.merge_sweeps([one, two, three], tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_a_merge_that_fails_leaves_nothing(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = parts(program, tmp_path, 2)
    before = contents(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Store, "add", full)
    with pytest.raises(OSError, match="No space left"):
        sqc.merge_sweeps(folders, tmp_path / "merged")
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("given", "problem"),
    [("3/2", "counted from 1"), ("0/2", "counted from 1"), ("half", "write I/N"), ("1/-2", "write I/N")],
)
def test_no_such_part(program: Program, folder: Path, given: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        program.sweep(**SWEPT, out=folder, shard=given)
    assert not folder.exists()


def test_merge_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fakes.install(monkeypatch)
    fakes.install_front_end(monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    Path("prog.sq").write_text("a program", encoding="utf-8")

    def sqc_(line: str) -> tuple[int, str, str]:
        code = main(line.split())
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    swept = "sweep prog.sq --seeds 20 --horizon 10 --set C=2e5,6e4 --metric events"
    for number in (1, 2):
        assert sqc_(f"{swept} --shard {number}/2 --out part{number}")[0] == 0
    assert sqc_("merge part1 part2 -o whole --metric events") == sqc_(f"{swept} --out one")
    for line, said in (
        (
            f"{swept} --shard 1/2",
            "sweep: --shard goes with --out, and without --until, which looks at all seeds of a point",
        ),
        (f"{swept} --shard 3/2 --out x", "sweep: shard 3/2: parts are counted from 1 to their number"),
        ("sweep part1 --resume --shard 1/2", "sweep: --shard: the sweep in part1 has its own"),
        ("merge part1 -o x", "merge: no shard 2/2"),
    ):
        assert sqc_(line) == (2, "", f"sqc {said}\n")
    assert sqc_("merge part1 part2 -o whole") == (1, "", "sqc merge: whole: there already, and not an empty folder\n")


# ----------------------------------------------------------------------------- the length of blocks


def test_blocks_take_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seconds at first, more as the sweep goes on, a minute at most; each at most eight times the one before."""
    now = 0.0
    monkeypatch.setattr("sqc.sweeps.runner.time.monotonic", lambda: now)

    def blocks(seconds_per_lane: float, count: int) -> list[int]:
        nonlocal now
        sizes, made = block_sizes(None, "native", stored=True), []
        for _ in range(count):
            made.append(next(sizes))
            now += made[-1] * seconds_per_lane
        return made

    assert blocks(1e-3, 5) == [16, 128, 1024, 2000, 2000]
    assert blocks(1e-6, 6) == [16, 128, 1024, 8192, 16384, 16384]
    slow = blocks(2.0, 400)
    assert slow[:3] == [16, 4, 4]
    assert slow[-1] == 30 - 30 % 16
    assert set(itertools.islice(block_sizes(7, "native", stored=True), 3)) == {7}
    assert next(block_sizes(None, "portable", stored=True)) == 4096
    assert next(block_sizes(None, "native", stored=False)) == 16384

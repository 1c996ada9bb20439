"""The commands `draw`, `trace` and `plot`: files, exit codes, and one line for what is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import sqc
from sqc.cli import main
from sqc.pictures import timelines

CaptureFixture = pytest.CaptureFixture[str]
PROGRAM = """
use "std/args";
fn main() {
  let C = args.number("C", 3);
  pool mem { cap C; }
  stage svc : fifo;
  workload { arrive poisson(0.7); turn { set w = ~exp(1); } }
  server { hold mem (cost(mem, 1)) { run svc (cost(svc, w)); } }
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program and a stored sweep of it."""
    folder = tmp_path_factory.mktemp("pictures")
    (folder / "prog.sq").write_text(PROGRAM, encoding="utf-8")
    sqc.compile(folder / "prog.sq").sweep(3, horizon=50, sets={"C": [1, 2, 4]}, out=folder / "sweep")
    return folder


@pytest.fixture(autouse=True)
def _there(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.chdir(tmp_path)
    for name in ("prog.sq", "sweep"):
        (tmp_path / name).symlink_to(folder / name)


def sqc_(capsys: CaptureFixture, line: str) -> tuple[int, str, str]:
    code = main(line.split())
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(
    ("line", "magic"),
    [
        ("draw prog.sq -o picture.svg", b"<?xml"),
        ("trace prog.sq --seed 2 --until 30 --set C=2 --only mem -o picture.png", b"\x89PNG"),
        ("plot sweep --x C --y client.response.mean --width 8 -o picture.PDF", b"%PDF"),
    ],
)
def test_pictures(capsys: CaptureFixture, line: str, magic: bytes) -> None:
    assert sqc_(capsys, line) == (0, "", "")
    assert Path(line.split()[-1]).read_bytes().startswith(magic)


def test_numbers_of_a_run(capsys: CaptureFixture) -> None:
    assert sqc_(capsys, "trace prog.sq --until 30 --csv run.csv -- --C 2") == (0, "", "")
    header, first, *_ = Path("run.csv").read_text(encoding="utf-8").splitlines()
    assert header.startswith("time,pool.mem.used,pool.mem.cached,")
    assert dict(zip(header.split(","), first.split(","), strict=True))["pool.mem.cap"] == "2"


def test_panels_that_are_not_drawn_are_told(capsys: CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timelines, "MOST_PANELS", 1)
    expected = "run.png: 1 panels, 1 more are not drawn (--only NAME chooses)\n"
    assert sqc_(capsys, "trace prog.sq --until 1 -o run.png") == (0, expected, "")


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("draw prog.sq", 2, "sqc draw: missing option '--out' / '-o'"),
        (
            "draw prog.sq -o a.pgn",
            2,
            "sqc draw: a.pgn: .pgn is no picture's suffix (did you mean .png?); there are .png, .svg, .pdf",
        ),
        ("draw prog.sq -o a", 2, "sqc draw: a: no suffix; there are .png, .svg, .pdf"),
        ("draw prog.sq -o no/a.png", 2, "sqc draw: no/a.png: there is no folder no"),
        ("draw prog.sq -o a.png --width 1", 2, "sqc draw: width 1: must be from 4 to 200 cm"),
        ("draw prog.sq -o a.png --width x", 2, "sqc draw: width: 'x' is no number: `x` is not a constant"),
        ("draw prog.sq -o a.png -- --C 2", 2, "sqc draw: inputs after -- are for run and sweep"),
        ("draw none.sq -o a.png", 1, "none.sq: error[E108]: cannot read the file: No such file or directory"),
        ("trace prog.sq -o a.png", 2, "sqc trace: missing option '--until'"),
        (
            "trace prog.sq --until 9",
            2,
            "sqc trace: nothing to write: -o FILE draws a picture, --csv FILE writes the numbers",
        ),
        ("trace prog.sq --until 0 -o a.png", 2, "sqc trace: until 0: must be above 0 and finite"),
        (
            "trace prog.sq --until 9 -o a.gif",
            2,
            "sqc trace: a.gif: .gif is no picture's suffix (did you mean .svg?); there are .png, .svg, .pdf",
        ),
        ("trace prog.sq --until 9 --set D=1 -o a.png", 2, "sqc trace: unknown input D"),
        (
            "trace prog.sq --until 9 --C 2 -o a.png",
            2,
            "sqc trace: no such option --C (an input of the program is given as --set C=VALUE or as -- --C VALUE)",
        ),
        (
            "trace prog.sq --until 9 --only men -o a.png",
            2,
            "sqc trace: no pool, stage or gauge men (did you mean mem?)",
        ),
        ("plot none --y events -o a.png", 1, "sqc plot: none: no such folder"),
        ("plot . --y events -o a.png", 1, "sqc plot: .: no stored sweep"),
        ("plot sweep --y event -o a.png", 2, "sqc plot: no metric event (did you mean events?)"),
        ("plot sweep --y events --x D -o a.png", 2, "sqc plot: unknown input D"),
        (
            "plot sweep --y events --kind bar -o a.png",
            2,
            "sqc plot: --kind bar: no such choice (one of line, dist, heat, scatter)",
        ),
        ("plot sweep --y events --log c -o a.png", 2, "sqc plot: --log c: no such choice (one of none, x, y, xy)"),
        (
            "plot sweep --y events --kind dist --set C=3 -o a.png",
            2,
            "sqc plot: input C: no point has 3; there are 1, 2, 4",
        ),
    ],
)
def test_wrong_usage(capsys: CaptureFixture, line: str, code: int, message: str) -> None:
    """One line, and no file."""
    assert sqc_(capsys, line) == (code, "", f"{message}\n")
    assert not list(Path().glob("a*"))


@pytest.mark.parametrize("line", ["draw prog.sq", "trace prog.sq --until 9", "plot sweep --y events"])
def test_without_matplotlib(capsys: CaptureFixture, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    command = line.split()[0]
    expected = f"sqc {command}: pictures need matplotlib: python -m pip install 'sqc[plot]'\n"
    assert sqc_(capsys, f"{line} -o a.png") == (1, "", expected)


def test_numbers_need_no_matplotlib(capsys: CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert sqc_(capsys, "trace prog.sq --until 9 --csv a.csv") == (0, "", "")


@pytest.mark.parametrize("command", ["draw", "trace", "plot"])
def test_help(capsys: CaptureFixture, command: str) -> None:
    code, out, err = sqc_(capsys, f"{command} --help")
    assert (code, err) == (0, "")
    assert f"Example:\n    sqc {command} " in out


def test_help_loads_no_numerics() -> None:
    program = (
        "import sys; from sqc.cli import main; code = main(['trace', '--help']);"
        "heavy = {'jax', 'numpy', 'matplotlib'} & set(sys.modules); sys.exit(code or (f'{heavy}' if heavy else 0))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

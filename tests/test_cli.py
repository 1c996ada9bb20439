"""The command line: what it prints, its exit codes, wrong usage, start-up."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fakes
import sqc
from harness import CORPUS, FOUNDING
from sqc import ir
from sqc.cli import main

COMMANDS = ("check", "ir", "compile", "run", "sweep", "show")
CaptureFixture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _stand_ins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fakes.install(monkeypatch, failing=(13,))
    fakes.install_front_end(monkeypatch)
    (tmp_path / "prog.sq").write_text("a program", encoding="utf-8")
    (tmp_path / "bad.sq").write_text("wrong x", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def sqc_(capsys: CaptureFixture, line: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command line; words are separated by blanks, `_` is a blank in a word."""
    code = main([word.replace("_", " ") for word in line.split()])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


# ----------------------------------------------------------------------------- what commands print


def test_check(capsys: CaptureFixture) -> None:
    assert sqc_(capsys, "check prog.sq") == (
        0,
        "prog.sq: ok\n"
        "  inputs     C = 200000, think time = 3\n"
        "  arrivals   poisson\n"
        "  stages     engine: fifo, tool: delay\n"
        "  pools      kv: lru\n"
        "  observes   hit\n"
        "  attributes K, warm\n",
        "",
    )
    code, out, err = sqc_(capsys, "check prog.sq --json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "ok": True,
        "file": "prog.sq",
        "inputs": {"C": 2e5, "think time": 3},
        "arrivals": "poisson",
        "trace": None,
        "stages": {"engine": "fifo", "tool": "delay"},
        "flows": None,
        "pools": {"kv": "lru"},
        "observes": ["hit"],
        "gauges": [],
        "claims": [],
        "attributes": ["K", "warm"],
    }


def test_check_of_a_program_with_everything(capsys: CaptureFixture) -> None:
    trace = ir.Trace(True, (0, 2, 3), ((1.0, 2.0, 3.0, 0.0), (1.0, 2.0, 3.0, 0.0), (4.0, 5.0, 6.0, 1.0)))
    program = replace(fakes.WIDE, share="maxmin", trace=trace)
    Path("x.json").write_text(ir.to_json(program), encoding="utf-8")
    code, out, err = sqc_(capsys, "check x.json")
    assert (code, err) == (0, "")
    assert out == (
        "prog.sq: ok\n"
        "  inputs     C = 200000, think time = 3\n"
        "  arrivals   poisson\n"
        "  trace      ordered, 2 sessions, 3 turns\n"
        "  stages     P: fifo[2], one: ps[1]\n"
        "  flows      maxmin\n"
        "  pools      P.kv: lru[2], slot: lru\n"
        "  observes   hit\n"
        "  gauges     line\n"
        "  claims     sure, wrong, open, outside\n"
        "  attributes K, warm\n"
    )


def test_a_wrong_program(capsys: CaptureFixture) -> None:
    rendered = "bad.sq:1:1: error[E201]: unknown name `x`\n  1 | wrong x\n    | ^^^^^\n  help: is it y?\n"
    assert sqc_(capsys, "check bad.sq") == (1, "", rendered + "\nbad.sq: error[E201]: unknown name `x`\n")
    for command in ("check bad.sq", "run bad.sq --horizon 1", "sweep bad.sq --horizon 1 --seeds 2", "compile bad.sq"):
        code, out, err = sqc_(capsys, f"{command} --json")
        assert (code, err) == (1, "")
        first, second = json.loads(out)["diagnostics"]
        assert first == {
            "code": "E201",
            "severity": "error",
            "message": "unknown name `x`",
            "file": "bad.sq",
            "line": 1,
            "col": 1,
            "end_line": 1,
            "end_col": 6,
            "help": "is it y?",
            "notes": [],
        }
        assert (second["line"], second["help"]) == (None, None)


def test_ir_is_a_program(capsys: CaptureFixture, tmp_path: Path) -> None:
    code, out, _ = sqc_(capsys, "ir prog.sq")
    assert code == 0
    assert ir.from_json(out).inputs == fakes.PROGRAM.inputs
    (tmp_path / "prog.json").write_text(out, encoding="utf-8")
    assert sqc_(capsys, "compile prog.sq --emit ir")[1] == out
    assert sqc_(capsys, "run prog.json --horizon 5") == sqc_(capsys, "run prog.sq --horizon 5")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"{}",
            "error[E109]: the file is not the IR of a program: not an IR file: "
            "no object with node 'Program' at the top",
        ),
        (
            json.dumps({"node": "Program", "version": ir.IR_VERSION}).encode(),
            "error[E109]: the file is not the IR of a program: Program in program has no field 'inputs'",
        ),
        (
            b"1" * 5000,
            "error[E109]: the file is not the IR of a program: not JSON: "
            "Exceeds the limit (4300 digits) for integer string conversion: value has 5000 digits; "
            "use sys.set_int_max_str_digits() to increase the limit",
        ),
        (b"\xff\xfe", "error[E107]: the file is not a text in UTF-8"),
        (None, "error[E108]: the file cannot be read: No such file or directory"),
    ],
)
def test_a_wrong_ir_file(capsys: CaptureFixture, tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "x.json").write_bytes(content)
    assert sqc_(capsys, "run x.json --horizon 1") == (1, "", f"x.json: {message}\n")


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("inputs", 5, "program.inputs is no list"),
        ("stages", [{"node": "Delay"}], "program.stages[0] is Delay, not Stage"),
        ("arrival", None, "program.arrival is NoneType, not Poisson or Renewal or Closed or Batch or NoArrivals"),
        ("attributes", ["K", 1], "program.attributes[1] is int, not str"),
        (
            "arrival",
            {"node": "Poisson", "rate": {"node": "Neg"}, "span": None},
            "unknown node 'Neg' in program.arrival.rate",
        ),
    ],
)
def test_a_damaged_ir_file(capsys: CaptureFixture, tmp_path: Path, field: str, value: Any, problem: str) -> None:
    document = json.loads(ir.to_json(fakes.PROGRAM)) | {field: value}
    (tmp_path / "x.json").write_text(json.dumps(document), encoding="utf-8")
    message = f"x.json: error[E109]: the file is not the IR of a program: {problem}\n"
    assert sqc_(capsys, "check x.json") == (1, "", message)


def test_a_deeply_nested_ir_file(capsys: CaptureFixture, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[" * 100_000, encoding="utf-8")
    code, out, err = sqc_(capsys, "check x.json")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("x.json: error[E109]: the file is not the IR of a program: not JSON: maximum recursion depth")


def test_a_program_on_standard_input(capsys: CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a program"), encoding="ascii"))
    code, out, _ = sqc_(capsys, "check -")
    assert (code, out.splitlines()[0]) == (0, "<program>: ok")


def test_compile(capsys: CaptureFixture) -> None:
    code, out, err = sqc_(capsys, "compile prog.sq")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[:7] == [
        "prog.sq: kernel built in 1.25 s, mode native",
        *("inputs", "  C = 200000: pathwise derivatives", "  think time = 3: pathwise derivatives"),
        *("capacities", "  sessions = 64", "  kv.entries = 32"),
    ]
    assert lines[7:9] == [f"metrics ({len(fakes.METRICS)})", "  events"]
    document = json.loads(sqc_(capsys, "compile prog.sq --json --mode portable")[1])
    assert (document["mode"], document["metrics"]) == ("portable", list(fakes.METRICS))
    assert sqc_(capsys, "compile prog.sq --emit hlo") == (0, "module as hlo\n", "")


def test_run(capsys: CaptureFixture) -> None:
    code, out, err = sqc_(capsys, "run prog.sq --horizon 2e4 --warmup 2e3 --seed 3 --set C=2e4")
    assert (code, err) == (0, "")
    assert out.startswith("run: horizon 20000 end 20000 warmup 2000 seed 3 events ")
    document = json.loads(
        sqc_(capsys, "run prog.sq --horizon 10 --json --arrivals 5 --set C=2e4 --set think_time=1")[1]
    )
    assert document["inputs"] == {"C": 20000, "think time": 1}


@pytest.mark.parametrize(
    "line", ["--set C=2e4 --set think_time=1", "-- --C 2e4 --think_time=1", "--set C=2e4 -- --think_time 1"]
)
def test_inputs_after_two_dashes(capsys: CaptureFixture, line: str) -> None:
    document = json.loads(sqc_(capsys, f"run prog.sq --horizon 10 --json {line}")[1])
    assert document["inputs"] == {"C": 20000, "think time": 1}


def test_run_dumps(capsys: CaptureFixture, tmp_path: Path) -> None:
    code, out, _ = sqc_(capsys, "run prog.sq --horizon 10 --json --dump out")
    assert code == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *("report.json", "observe.hit.csv", "client.response.csv")
    }
    assert json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8")) == json.loads(out)


def test_a_run_that_fails(capsys: CaptureFixture) -> None:
    code, out, err = sqc_(capsys, "run prog.sq --horizon 10 --seed 13")
    assert (code, out) == (1, "")
    assert err.splitlines()[0] == "prog.sq:3:4: error[R201]: the guard is 0.5, neither 0 nor 1"
    assert err.splitlines()[-1] == "  note: at simulated time 12.25, session 4, seed 13"
    code, out, err = sqc_(capsys, "run prog.sq --horizon 10 --seed 13 --json")
    assert (code, err) == (1, "")
    assert json.loads(out)["failure"] == {
        "code": "R201",
        "message": fakes.FAILURE.message,
        "file": "prog.sq",
        "line": 3,
        "col": 4,
        "time": 12.25,
        "session": 4,
        "seed": 13,
    }


def test_sweep(capsys: CaptureFixture, tmp_path: Path) -> None:
    line = "sweep prog.sq --seeds 3 --horizon 10 --set C=2e5,6e4 --set think_time=1,3"
    table = sqc.compile("prog.sq").sweep(seeds=3, horizon=10, sets={"C": [2e5, 6e4], "think time": [1, 3]})
    assert sqc_(capsys, line) == (0, f"{table}\n", "")
    assert sqc_(capsys, f"{line} --json") == (0, table.to_json() + "\n", "")
    assert sqc_(capsys, f"{line} --metric events --metric *.rejected")[1] == table.text(["events", "*.rejected"]) + "\n"
    assert sqc_(capsys, f"{line} --csv table.csv")[0] == 0
    assert (tmp_path / "table.csv").read_text(encoding="utf-8") == table.to_csv()


def test_sweep_with_failures(capsys: CaptureFixture) -> None:
    code, out, err = sqc_(capsys, "sweep prog.sq --seeds 12:14 --horizon 10")
    assert (code, err) == (1, "")
    assert "1 of 3 runs failed and are left out:\n  seed 13: R201: " in out


def test_sweep_interrupted(capsys: CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch, fakes.InterruptedKernel)
    code, out, err = sqc_(capsys, "sweep prog.sq --seeds 4 --horizon 10")
    assert code == 130
    assert out.splitlines()[-1] == "unfinished: 2 of 4 runs are done"
    assert err == "sqc sweep: interrupted; the table has what was finished\n"


def test_sweep_on_a_terminal(capsys: CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    code, out, _ = sqc_(capsys, "sweep prog.sq --seeds 3 --horizon 10 --set C=2e5,6e4")
    assert code == 0
    lines = re.sub(r"\x1b\[[0-9;]*m", "", out).splitlines()  # without colours
    assert lines[0] == "sweep: horizon 10 warmup 0 seeds 1:3 points 2 runs 6 mode native think time=3"
    assert lines[2].split() == ["C", "seeds", "observe.hit.mean", "client.response.mean"]
    assert lines[3].split()[:2] == ["200000", "3"]


# ----------------------------------------------------------------------------- wrong usage


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("run prog.sq --horizon 1 --sed 1", "sqc run: no such option --sed (did you mean --seed?)"),
        (
            "run prog.sq --horizon 1 --C 2e4",
            "sqc run: no such option --C (an input of the program is given as --set C=VALUE or as -- --C VALUE)",
        ),
        ("run prog.sq", "sqc run: missing option '--horizon'"),
        ("run --horizon 1", "sqc run: missing argument 'PROGRAM'"),
        ("run prog.sq other.sq --horizon 1", "sqc run: got unexpected extra argument(s) (other.sq)"),
        ("sweep prog.sq --horizon 1", "sqc sweep: missing option '--seeds'"),
        ("rum prog.sq", "sqc: no such command 'rum'. Did you mean 'run'?"),
        ("run prog.sq --horizon 0", "sqc run: horizon 0: must be above 0"),
        ("run prog.sq --horizon nan", "sqc run: horizon: nan is not a number (NaN)"),
        ("run prog.sq --horizon inf", "sqc run: horizon inf: must be finite"),
        ("run prog.sq --horizon 1 --warmup 1", "sqc run: warmup 1: must be below the horizon 1"),
        ("run prog.sq --horizon 1 --warmup -1", "sqc run: warmup -1: must be at least 0"),
        ("run prog.sq --horizon 1 --arrivals 0", "sqc run: arrivals 0: must be a whole number of at least 1"),
        ("run prog.sq --horizon 1 --seed 1.5", "sqc run: seed 1.5: must be a whole number from 0 to 2^64 - 1"),
        ("run prog.sq --horizon 1 --set c=1", "sqc run: unknown input c (did you mean C?)"),
        ("run prog.sq --horizon 1 --set C=nan", "sqc run: input C: nan is not a number (NaN)"),
        ("run prog.sq --horizon 1 --set C", "sqc run: --set C: write --set NAME=VALUE"),
        ("run prog.sq --horizon 1 -- --thinktime 1", "sqc run: unknown input thinktime (did you mean think time?)"),
        ("run prog.sq --horizon 1 --set C=1 -- --C 1", "sqc run: input C is set twice"),
        ("run prog.sq --horizon 1 --mode nativ", "sqc run: --mode nativ: no such choice (did you mean native?)"),
        ("sweep prog.sq --seeds x --horizon 1", "sqc sweep: seed x: must be a whole number from 0 to 2^64 - 1"),
        ("sweep prog.sq --seeds 1 --horizon 1 --metric evens", "sqc sweep: no metric evens (did you mean events?)"),
        (
            "compile prog.sq --emit x",
            "sqc compile: --emit x: no such choice (one of ir, llvm, assembly, jaxpr, stablehlo, hlo)",
        ),
        ("check prog.sq -- --C 1", "sqc check: inputs after -- are for run and sweep"),
        ("run prog.sq --horizon 1 --dump=", "sqc run: --dump: the name of a folder is missing"),
    ],
)
def test_wrong_usage_is_one_line(capsys: CaptureFixture, line: str, message: str) -> None:
    assert sqc_(capsys, line) == (2, "", f"{message}\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("check missing.sq", "missing.sq: error[E108]: No such file or directory"),
        ("run prog.sq --horizon 1 --dump prog.sq/x", "sqc run: prog.sq/x: Not a directory"),
        (
            "sweep prog.sq --seeds 1 --horizon 1 --csv no/table.csv",
            "sqc sweep: no/table.csv: No such file or directory",
        ),
    ],
)
def test_files_that_fail(capsys: CaptureFixture, line: str, message: str) -> None:
    code, _, err = sqc_(capsys, line)
    assert (code, err) == (1, f"{message}\n")


class BrokenKernel(fakes.Kernel):
    def run(self, *_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("two\nlines")


def test_internal_errors_are_one_line(capsys: CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch, BrokenKernel)
    line = "sqc: internal error: ZeroDivisionError: two lines (--debug shows where)\n"
    assert sqc_(capsys, "run prog.sq --horizon 1") == (1, "", line)
    with pytest.raises(ZeroDivisionError):
        sqc_(capsys, "--debug run prog.sq --horizon 1")


class RefusingKernel(fakes.Kernel):
    def run(self, *_: Any, **__: Any) -> Any:
        raise fakes.KernelError("more than 16777216 sessions are needed")


def test_a_kernel_that_refuses(capsys: CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch, RefusingKernel)
    assert sqc_(capsys, "run prog.sq --horizon 1") == (1, "", "sqc run: more than 16777216 sessions are needed\n")


def test_kernels_are_kept_in_the_user_s_cache(capsys: CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "caches")
    sqc_(capsys, "run prog.sq --horizon 1")
    assert fakes.kept_in == [str(Path("caches/sqc/kernels"))]
    monkeypatch.setenv("XDG_CACHE_HOME", "prog.sq")  # no folder: nothing is kept, nothing is said
    assert sqc_(capsys, "run prog.sq --horizon 1")[2] == ""
    monkeypatch.setenv("XDG_CACHE_HOME", "caches")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "elsewhere")
    sqc_(capsys, "run prog.sq --horizon 1")
    assert len(fakes.kept_in) == 1


class StoppedKernel(fakes.Kernel):
    def run(self, *_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt


def test_interrupted_run(capsys: CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch, StoppedKernel)
    code, out, err = sqc_(capsys, "run prog.sq --horizon 1")
    assert (code, out, err.strip()) == (130, "", "sqc run: interrupted")


# ----------------------------------------------------------------------------- help and start-up


def test_help(capsys: CaptureFixture) -> None:
    code, out, err = sqc_(capsys, "")
    assert (code, err) == (0, "")
    assert all(command in out for command in COMMANDS)
    for command in COMMANDS:
        code, out, err = sqc_(capsys, f"{command} --help")
        assert (code, err) == (0, "")
        assert f"Example:\n    sqc {command} " in out


def test_public_names() -> None:
    assert all(getattr(sqc, name) is not None for name in sqc.__all__)
    assert set(sqc.__all__) <= set(dir(sqc))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = sqc.nothing


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["run", "--help"],
        ["check", str(FOUNDING)],
        ["ir", str(FOUNDING)],
        ["fmt", str(FOUNDING)],
    ],
)
def test_light_commands_load_no_numerics(arguments: list[str]) -> None:
    """A fresh process, the real front end: neither JAX nor NumPy nor rich is imported."""
    program = (
        "import sys; from sqc.cli import main; code = main(sys.argv[1:]);"
        "heavy = {'jax', 'numpy', 'rich'} & set(sys.modules); sys.exit(code or (f'imported {heavy}' if heavy else 0))"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


SH = f'"{sys.executable}" -m sqc'


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("--help > /dev/full", 1, "sqc: No space left on device"),
        ("check good.sq > /dev/full", 1, "sqc check: No space left on device"),
        ("--help >&-", 1, "sqc: Bad file descriptor"),
        ("check good.sq >&-", 1, "sqc check: Bad file descriptor"),
        ("check - <&-", 1, "sqc check: Bad file descriptor"),
        ("fmt - <&-", 1, "sqc fmt: Bad file descriptor"),
        ("run good.sq --horizon 0 <&- >&-", 2, "sqc run: horizon 0: must be above 0"),
        ("check missing.sq 2>&-", 1, ""),
        ("check - < noise.sq", 1, "<stdin>: error[E107]: contains NUL bytes: this is no text file"),
    ],
)
def test_streams_that_are_closed_or_full(line: str, code: int, message: str, tmp_path: Path) -> None:
    """Processes of a shell: one line and an exit code."""
    (tmp_path / "good.sq").write_text("fn main() { workload { } server { } }", encoding="utf-8")
    (tmp_path / "noise.sq").write_bytes(bytes(range(256)))
    done = subprocess.run(f"{SH} {line}", shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (code, "", message)


def test_module_is_the_command_line() -> None:
    done = subprocess.run([sys.executable, "-m", "sqc", "--version"], capture_output=True, text=True, check=False)
    first, *rest = done.stdout.splitlines()
    assert (done.returncode, first) == (0, f"sqc {sqc.__version__}")
    assert [line.split()[0] for line in rest] == ["language", "jax", "device", "mode"]


def test_founding_report_as_a_process(tmp_path: Path) -> None:
    """The whole way, nothing replaced: the published report, byte for byte."""
    words = [sys.executable, "-m", "sqc", "run", str(FOUNDING), "--horizon", "20000", "--warmup", "2000"]
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, encoding="utf-8")
    expected = (CORPUS / "founding_report.txt").read_text(encoding="utf-8")
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")

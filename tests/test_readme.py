"""What the README shows is what one gets: its report, its program, its diagnostics, its snippets, its options."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import sqc
from documents import blocks
from harness import CORPUS, ROOT
from sqc.cli import main
from sqc.lower import compile_text

BLOCKS = blocks(ROOT / "README.md")


def block(part: str) -> str:
    """The one block with a part."""
    (found,) = [text for _, text in BLOCKS if part in text]
    return str(found)


def test_the_report() -> None:
    """That of the command above it, which `test_cli.py` runs."""
    assert block("run: horizon 20000") == (CORPUS / "founding_report.txt").read_text(encoding="utf-8")
    assert block("pip install . &&").endswith("sqc run programs/04-cache.sq --horizon 20000 --warmup 2000 --seed 1\n")


def test_the_program() -> None:
    report = sqc.compile(source=block("fn main()")).run(seed=1, horizon=200, sets={"C": 20})
    assert report.observe("response").count == report.ended > 100


def test_the_diagnostics() -> None:
    """Of the program with the two lines that the message shows."""
    shown = block("error[E201]")
    lines = block("fn main()").splitlines()[:3] + [""] * 6
    for number, line in re.findall(r"^ +(\d+) \| (.*\w.*)$", shown, re.MULTILINE):
        lines[int(number) - 1] = line
    lines[1:5] = [
        "fn main() {",
        "  pool mem { cap 9; } stage svc : fifo;",
        "  workload { arrive poisson(1); turn { set n = ~exp(1); } }",
        "  server {",
    ]
    lines[7:] = ["  }", "}"]
    with pytest.raises(sqc.CompileError) as caught:
        compile_text("\n".join(lines), "wrong.sq")
    assert f"{caught.value}\n" == shown


def test_the_snippets(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python blocks, one after the other, over shorter runs of fewer seeds."""
    monkeypatch.chdir(ROOT)
    code = "\n".join(text for language, text in BLOCKS if language == "python")
    for long, short in (("2e4, warmup=2e3", "200, warmup=20"), ("seeds=1000", "seeds=10"), ("1001", "11")):
        assert long in code
        code = code.replace(long, short)
    exec(compile(code, "README.md", "exec"), {})
    out = capsys.readouterr().out
    assert "sweep: horizon 200 warmup 20 seeds 1:10 points 2 runs 20" in out


COMMANDS = [
    line.split("#")[0].split(" > ")[0].strip()
    for language, text in BLOCKS
    if language == "bash"
    for line in text.splitlines()
    if line.startswith("sqc ")
]


def test_the_commands(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of the tour, one after the other, over shorter runs: each prints something or writes a picture."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "programs").symlink_to(ROOT / "programs")
    shorter = {
        "--horizon 20000 --warmup 2000": "--horizon 20 --warmup 2",
        "--seeds 1000": "--seeds 10",
        "--seeds 200": "--seeds 4",
        "--until 200": "--until 20",
    }
    for command in COMMANDS:
        for long, short in shorter.items():
            command = command.replace(long, short)
        words = shlex.split(command)
        assert main(words[1:]) == 0, command
        captured = capsys.readouterr()
        picture = words[words.index("-o") + 1] if "-o" in words else None
        assert captured.out or (picture is not None and (tmp_path / picture).stat().st_size), command
        assert captured.err == "", command

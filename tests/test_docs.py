"""The documentation: each command and snippet prints what its page shows, and the reference is that of the program."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sqc
from documents import DOCS, PAGES, blocks, shown
from harness import ROOT, corpus_program
from sqc.check.language import CONTEXT, DISTRIBUTIONS, FUNCTIONS, OBSERVABLES, TOTALS
from sqc.cli import main
from sqc.codegen.errors import ERRORS
from sqc.diagnostics import CODES
from sqc.lower import compile_text

WITH_OUTPUT = [page for page in PAGES if shown(page)]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("page", WITH_OUTPUT, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_output(
    page: Path, cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks of a page, one after the other, in a folder that has the programs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    (tmp_path / "programs").symlink_to(ROOT / "programs")
    names: dict[str, Any] = {}
    for language, text, output in shown(page):
        if language == "python":
            exec(compile(text, page.name, "exec"), names)
        else:
            words = shlex.split(text)
            assert words[0] == "sqc"
            assert main(words[1:]) == 0, text
        printed = capsys.readouterr()
        assert (printed.out.rstrip(), printed.err) == (output.rstrip(), ""), text


def test_every_chapter_has_its_page() -> None:
    """And every block is a command, a snippet or the output of one, so that none goes unchecked."""
    assert [page.stem for page in sorted((DOCS / "tutorial").glob("*.md"))] == [
        program.stem for program in sorted((ROOT / "programs").glob("0*.sq"))
    ]
    assert {language for page in PAGES for language, _ in blocks(page)} <= {"bash", "python", "text"}


@pytest.fixture(scope="module")
def generated() -> ModuleType:
    """The hook, loaded from its file as mkdocs does."""
    spec = importlib.util.spec_from_file_location("generated", DOCS / "generated.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_has_every_command(generated: ModuleType) -> None:
    text = generated.on_page_markdown((DOCS / "reference/commands.md").read_text(encoding="utf-8"))
    for name in ("check", "ir", "compile", "run", "fmt", "draw", "trace", "plot", "sweep", "show", "merge", "optimize"):
        assert f"\n## sqc {name}\n" in text
        assert f"Usage: sqc {name} " in text
    assert "--horizon TIME" in text
    assert "<!--" not in text


def test_the_reference_has_every_name_of_python(generated: ModuleType) -> None:
    text = generated.on_page_markdown((DOCS / "reference/python.md").read_text(encoding="utf-8"))
    for name in sqc.__all__:
        assert name.startswith("_") or f"\n## {name}\n" in text
    for name in ("Program.run", "Program.sweep", "Sweep.to_xarray", "Report.observe", "Kernel.lanes"):
        assert f"\n### {name}\n" in text
    assert "horizon" in text
    assert "<!--" not in text


def test_the_reference_has_every_error(generated: ModuleType) -> None:
    text = generated.on_page_markdown((DOCS / "reference/errors.md").read_text(encoding="utf-8"))
    for code, meaning in [*CODES.items(), *ERRORS]:
        assert f"\n| `{code}` | {meaning} |" in text
    assert "<!--" not in text


@pytest.mark.parametrize("name", ["f04_vllm_like", "e04_gauges", "e02_cache_routing"])
def test_the_report_has_its_page(name: str) -> None:
    """Every metric's family and field."""
    page = (DOCS / "reference" / "report.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"`(\w+)`", page))
    sections = set(re.findall(r"`(\w+)\.NAME`", page))
    metrics = corpus_program(name).kernel().metrics
    assert {metric.partition(".")[0] for metric in metrics if "." in metric} <= sections
    assert {metric.rpartition(".")[2] for metric in metrics} <= shown


def test_the_language_has_its_page() -> None:
    """Every keyword of the grammar, function, distribution, observable and context variable stands on it as code."""
    page = (DOCS / "reference" / "language.md").read_text(encoding="utf-8")
    fenced = re.findall(r"^```text\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    inline = re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```$", "", page, flags=re.DOTALL | re.MULTILINE))
    shown = set(re.findall(r"\w+(?:\.\w+)?", " ".join([*fenced, *inline])))
    grammar = (ROOT / "sqc" / "syntax" / "grammar.lark").read_text(encoding="utf-8")
    keywords = set(re.findall(r'"(\w+)"', re.sub(r"//.*", "", grammar)))
    assert len(keywords) > 100
    assert not keywords - shown
    assert not {*FUNCTIONS, *OBSERVABLES, *TOTALS, *DISTRIBUTIONS, *CONTEXT} - shown


def test_the_examples_of_the_language_are_right() -> None:
    """The program, the engine and the claims of the page, in a program where they need one."""
    page = (DOCS / "reference" / "language.md").read_text(encoding="utf-8")
    fenced = re.findall(r"^```text\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (whole,) = (text for text in fenced if "fn main" in text)
    (engine,) = (text for text in fenced if text.startswith("device"))
    (claims,) = (text for text in fenced if text.startswith("gauge"))
    load = "workload { arrive poisson(1); init { set length = 1; } }"
    compile_text(whole)
    compile_text(f"fn main() {{ {engine} {load} server {{ run vllm decode (cost(vllm, 1)); }} }}")
    served = "server { run engine (cost(engine, 1)); observe wait = now; }"
    compile_text(f"fn main() {{ stage engine : fifo; {load} {served} {claims} }}")

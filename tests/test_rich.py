"""Sweeps and reports in a notebook: the words of their text in tables, what is amiss marked, every text escaped."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

import fakes
from sqc import ir
from sqc.htmlform import AMISS
from sqc.program import Program


class Tables(HTMLParser):
    """The cells of the tables of an HTML text, the lines outside them, and what is marked as amiss."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.lines: list[str] = []
        self.amiss: list[str] = []
        self.open: list[tuple[str, bool]] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert {name for name, _ in attrs} <= {"style", "scope"}
        if tag == "wbr":
            return
        marked = AMISS in str(dict(attrs).get("style"))
        self.open.append((tag, marked))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        elif tag == "div":
            self.lines.append("")
        if marked:
            self.amiss.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        within = [tag for tag, _ in self.open]
        if "td" in within or "th" in within:
            self.tables[-1][-1][-1] += data
        else:
            self.lines[-1] += data
        if any(marked for _, marked in self.open):
            self.amiss[-1] += data


def same_words(shown: Tables, text: str) -> None:
    """But for the rules under headers."""
    cells = [cell for table in shown.tables for row in table for cell in row]
    words = [word for word in text.split() if not re.fullmatch("-+", word)]
    assert sorted(" ".join([*cells, *shown.lines]).split()) == sorted(words)


def test_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of three seeds fail at both points."""
    fakes.install(monkeypatch, failing=(2, 3))
    sweep = Program(fakes.PROGRAM).sweep(seeds=3, horizon=100, warmup=10, sets={"C": [2e5, 6e4]})
    shown = Tables(sweep._repr_html_())
    same_words(shown, str(sweep))
    (table,) = shown.tables
    assert [row[:3] for row in table] == [["C", "seeds", "failed"], ["200000", "1", "2"], ["60000", "1", "2"]]
    assert table[0] == str(sweep).splitlines()[2].split()
    assert shown.amiss[:3] == ["2", "2", "4 of 6 runs failed and are left out:"]
    assert len(shown.amiss) == 7


def test_sweep_without_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch)
    shown = Tables(Program(fakes.WIDE).sweep(seeds=3, horizon=100, sets={"C": [2e5, 6e4]})._repr_html_())
    assert shown.tables[0][0][:2] == ["C", "seeds"]
    assert "failed" not in shown.tables[0][0]
    assert shown.amiss == []


def test_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """With rows and notes of every kind."""
    fakes.install(monkeypatch)
    report = Program(fakes.WIDE).run(seed=2, horizon=10, warmup=1)
    shown = Tables(report._repr_html_())
    same_words(shown, str(report))
    assert [table[0][0] for table in shown.tables] == ["observe", "gauge", "claim", "client", "stage", "stage", "pool"]
    notes = [line for line in str(report).splitlines() if line.startswith("note: ")]
    assert [line for line in shown.lines if line.startswith("note: ")] == notes
    assert len(notes) > 3


def test_texts_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of inputs are any text."""
    fakes.install(monkeypatch)
    name = '<b title="x">&amp;'
    program = Program(replace(fakes.PROGRAM, inputs=(*fakes.PROGRAM.inputs, ir.InputDecl(name, 1.0, "x"))))
    sweep = program.sweep(seeds=2, horizon=10, sets={name: [1, 2]})
    shown = Tables(sweep._repr_html_())
    assert shown.tables[0][0][0] == name
    same_words(shown, str(sweep))


def test_nothing_is_loaded_from_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch)
    program = Program(fakes.WIDE)
    for shown in (program.run(horizon=10), program.sweep(seeds=2, horizon=10)):
        assert not re.search(r"url\(|src=|href=|<script|<style|<link", shown._repr_html_())


class Printer:
    """What IPython hands to `_repr_pretty_`."""

    def __init__(self) -> None:
        self.printed = ""

    def text(self, text: str) -> None:
        self.printed += text


def test_where_there_is_no_html(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch)
    program = Program(fakes.PROGRAM)
    for shown in (program.run(horizon=10), program.sweep(seeds=2, horizon=10)):
        printer = Printer()
        shown._repr_pretty_(printer, cycle=False)
        assert printer.printed == str(shown)

"""The editor grammar: what the compiler reads as a keyword is coloured as one, and nothing else is."""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from harness import CORPUS, ROOT
from sqc.check.language import BUILT_IN, CALLABLE, CONTEXT, DISTRIBUTIONS
from sqc.diagnostics import Reporter, Source
from sqc.syntax import tables, tokens
from sqc.syntax.parse import classified
from textmate import Grammar

EDITORS = ROOT / "editors"
PROGRAMS = sorted([*(ROOT / "programs").glob("*.sq"), *CORPUS.rglob("*.sq")])
WORDS = {text: terminal for text, terminal in tables.tables().literals.items() if text[0].isalpha()}
KEYWORD = ("keyword.control.", "keyword.other.", "storage.", "support.function.")
COMMENT = re.compile(r'"[^"\n]*"|(//[^\n]*|/\*.*?\*/)', re.DOTALL)


@pytest.fixture(scope="module")
def grammar() -> Grammar:
    return Grammar(EDITORS / "sq.tmLanguage.json")


def wrong(grammar: Grammar, text: str) -> Iterator[tuple[str, str, set[str]]]:
    """The tokens of a text whose scope is not what the compiler takes them for."""
    scopes = grammar.scopes(text)
    for terminal, token in classified(Source("prog.sq", text), Reporter()):
        found = set(scopes[token.start : token.end])
        if token.kind != tokens.WORD:
            wanted: tuple[str, ...] = {tokens.NUMBER: ("constant.numeric.",), tokens.STRING: ("string.",)}.get(
                token.kind, ("punctuation.", "keyword.operator.")
            )
        elif terminal == "NAME":
            wanted = ("variable.", "entity.name.", "support.")
        else:
            wanted = KEYWORD
        if token.text and not all(scope.startswith(wanted) for scope in found):
            yield terminal, token.text, found


def test_programs(grammar: Grammar) -> None:
    """Every token of every program has the scope of its kind, every character of a comment that of comments, and
    nothing that is not blank is left over."""
    assert len(PROGRAMS) > 80
    for program in PROGRAMS:
        text = program.read_text(encoding="utf-8")
        assert not list(wrong(grammar, text)), program
        scopes = grammar.scopes(text)
        comments = [range(*found.span(1)) for found in COMMENT.finditer(text) if found[1]]
        inside = {place for comment in comments for place in comment}
        for place, (char, scope) in enumerate(zip(text, scopes, strict=True)):
            if char not in " \n":
                assert scope.startswith("comment." if place in inside else ("k", "s", "v", "e", "p", "c")), text[place:]
                assert scope.startswith("comment.") == (place in inside), text[place : place + 40]


SIGNS = {
    "NAME": "x", "NUMBER": "1e-3", "STRING": '"lib"', "OR": "||", "AND": "&&", "COMPARISON": "<", "PLUS": "+",
    "MINUS": "-", "FACTOR": "*", "NOT": "!", "POWER": "^",
}  # fmt: skip


@cache
def rules() -> list[tuple[str, tuple[str, ...]]]:
    """The rules of the compiler's grammar: what each makes, and of which symbols."""
    from lark import Lark

    path = Path(tables.__file__).with_name("grammar.lark")
    made: Any = Lark(path.read_text(encoding="utf-8"), parser="lalr", lexer="basic").rules
    return [(str(rule.origin.name), tuple(str(symbol.name) for symbol in rule.expansion)) for rule in made]


def sentences() -> Iterator[str]:
    """For each rule a short program that has it."""
    texts = {terminal: text for text, terminal in tables.tables().literals.items()} | SIGNS
    shortest: dict[str, list[str]] = {terminal: [text] for terminal, text in texts.items()}
    changed = True
    while changed:
        changed = False
        for origin, expansion in rules():
            if all(symbol in shortest for symbol in expansion):
                words = [word for symbol in expansion for word in shortest[symbol]]
                if origin not in shortest or len(words) < len(shortest[origin]):
                    shortest[origin], changed = words, True
    # Around each symbol the shortest rest of a program: words before it, words after it.
    around: dict[str, tuple[list[str], list[str]]] = {}
    waiting: list[tuple[int, str, list[str], list[str]]] = [(0, "start", [], [])]
    while waiting:
        _, origin, before, after = heapq.heappop(waiting)
        if origin in around:
            continue
        around[origin] = before, after
        for made, expansion in rules():
            for place, symbol in enumerate(expansion if made == origin else ()):
                if symbol not in texts:
                    left = before + [word for other in expansion[:place] for word in shortest[other]]
                    right = [word for other in expansion[place + 1 :] for word in shortest[other]] + after
                    heapq.heappush(waiting, (len(left) + len(right), symbol, left, right))
    for origin, expansion in rules():
        before, after = around[origin]
        yield written([*before, *(word for symbol in expansion for word in shortest[symbol]), *after])


def written(words: list[str]) -> str:
    """Words as people space them: a line per statement, and no space where a call begins."""
    text = " ".join(words)
    text = re.sub(r" ([;,).\]])", r"\1", text)
    text = re.sub(r"([(.~\[]) ", r"\1", text)
    text = re.sub(r"\bx ([(\[])", r"x\1", text)
    return re.sub(r"([;{}]) ", r"\1\n", text)


def test_every_rule_of_the_language(grammar: Grammar) -> None:
    """And so every keyword: each stands in one of these programs."""
    seen: set[str] = set()
    for text in sentences():
        assert not list(wrong(grammar, text)), text
        seen.update(terminal for terminal, _ in classified(Source("prog.sq", text), Reporter()))
    assert seen >= set(WORDS.values())


@pytest.mark.parametrize(
    ("scope", "before", "words", "after"),
    [
        ("support.function.sq", "x = ", CALLABLE, "(y)"),
        ("support.function.distribution.sq", "x = ~", DISTRIBUTIONS, "(1)"),
        ("support.variable.sq", "x = ", {*CONTEXT, *BUILT_IN}, " + 1"),
    ],
)
def test_words_that_the_language_supplies(
    grammar: Grammar, scope: str, before: str, words: set[str], after: str
) -> None:
    """These have the scope, and no other word has it."""

    def scoped(word: str) -> set[str]:
        """The scopes of a word, without those of points."""
        found = grammar.scopes(before + word + after)[len(before) : len(before + word)]
        return {each for char, each in zip(word, found, strict=True) if char != "."}

    assert {word for word in words if scoped(word) != {scope}} == set()
    others = {word for rule in grammar.rules for word in re.findall(r"[a-z_][a-z0-9_]+", rule.match.pattern)}
    assert {word for word in others - set(words) if scoped(word) == {scope}} == set()


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("// set x = 1", "comment.line.double-slash.sq"),
        ('/* two\n lines, with "quotes" */', "comment.block.sq"),
        ('"no // comment"', "string.quoted.double.sq"),
        ('"without an end; set x = 1', "invalid.illegal.unclosed-string.sq"),
        *((number, "constant.numeric.sq") for number in ("12", "1_000", ".5", "3.", "2e-5", "1.5E+1_0")),
    ],
)
def test_one_thing(grammar: Grammar, text: str, scope: str) -> None:
    """It has its scope to its end, and no further."""
    scopes = grammar.scopes(f"{text}\n;")
    assert {each for char, each in zip(text, scopes, strict=False) if char != "\n"} == {scope}
    assert scopes[-1] == "punctuation.separator.sq"


def test_the_extension_of_vs_code() -> None:
    """It has this grammar, copied when it is packaged, and the brackets and comments of the language."""
    package = json.loads((EDITORS / "vscode" / "package.json").read_text(encoding="utf-8"))
    (language,), (colours,) = package["contributes"]["languages"], package["contributes"]["grammars"]
    grammar = json.loads((EDITORS / "sq.tmLanguage.json").read_text(encoding="utf-8"))
    assert (colours["language"], colours["scopeName"]) == (language["id"], grammar["scopeName"])
    assert language["extensions"] == [f".{extension}" for extension in grammar["fileTypes"]]
    assert f"'../sq.tmLanguage.json', '{Path(colours['path']).name}'" in package["scripts"]["vscode:prepublish"]
    settings = json.loads((EDITORS / "vscode" / language["configuration"]).read_text(encoding="utf-8"))
    assert settings["comments"] == {"lineComment": "//", "blockComment": ["/*", "*/"]}
    assert settings["brackets"] == [["{", "}"], ["(", ")"], ["[", "]"]]
    for pattern in settings["indentationRules"].values():
        re.compile(pattern)

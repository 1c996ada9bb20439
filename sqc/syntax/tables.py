"""The LALR tables of the grammar: built by lark, kept as plain data, cached.

Building takes about half a second and importing lark a tenth; a command should take less than
that in all. So the tables are turned into plain tuples and dictionaries and written with
`marshal` where Python writes bytecode (or, where it may not, into the user's cache directory),
under a name that changes with the grammar, this file and Python. Whoever can write there can
write bytecode too, so reading it back trusts nobody new. Without any place to write, the tables
are built each time.
"""

from __future__ import annotations

import contextlib
import importlib.util
import marshal
import os
import sys
import zlib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

_GRAMMAR = Path(__file__).with_name("grammar.lark")


class Rule(NamedTuple):
    """How to reduce: pop `size` values, keep some of them, build.

    `keep` lists (index, splice, nones before) of the values that become children; `nones` more
    absent parts follow; with `forward` a single child stands for the rule.
    """

    origin: str
    build: str
    size: int
    keep: tuple[tuple[int, bool, int], ...]
    nones: int
    forward: bool


class Tables(NamedTuple):
    """`actions[state][terminal]` is a state to shift to (>= 0) or `~rule` to reduce (< 0)."""

    actions: tuple[dict[str, int], ...]
    gotos: tuple[dict[str, int], ...]
    rules: tuple[Rule, ...]
    literals: dict[str, str]  # the text of a keyword or sign -> its terminal
    start: int
    end: int


@cache
def tables() -> Tables:
    """The tables, from the cache or built."""
    grammar = _GRAMMAR.read_bytes()
    key = zlib.crc32(b"\0".join((grammar, Path(__file__).read_bytes(), sys.version.encode())))
    name = f"sqc-grammar-{key:08x}.tables"
    places = _cache_directories()
    for directory in places:
        with contextlib.suppress(OSError, ValueError, EOFError, TypeError):
            return _unpack(marshal.loads((directory / name).read_bytes()))
    made = _build(grammar.decode())
    data = marshal.dumps(_pack(made))
    for directory in places[sys.dont_write_bytecode :]:
        with contextlib.suppress(OSError):
            _write(directory / name, data)
            break
    return made


def _cache_directories() -> list[Path]:
    bytecode = Path(importlib.util.cache_from_source(str(_GRAMMAR))).parent
    user = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return [bytecode] if user.startswith("~") else [bytecode, Path(user) / "sqc"]  # ~: there is no home


def _write(path: Path, data: bytes) -> None:
    """Write so that a reader sees all or nothing."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_bytes(data)
    os.replace(partial, path)


def _pack(made: Tables) -> tuple[Any, ...]:
    return (*made[:2], tuple(map(tuple, made.rules)), *made[3:])


def _unpack(data: Any) -> Tables:
    actions, gotos, rules, literals, start, end = data
    return Tables(actions, gotos, tuple(Rule(*r) for r in rules), literals, start, end)


def _build(grammar: str) -> Tables:
    from lark import Lark
    from lark.parsers.lalr_analysis import Shift

    lark = Lark(grammar, parser="lalr", lexer="basic", maybe_placeholders=True)
    table: Any = lark.parser.parser._parse_table
    numbers = {rule: n for n, rule in enumerate(lark.rules)}
    terminals = {t.name for t in lark.terminals} | {"$END"} | set(lark.ignore_tokens)
    actions: list[dict[str, int]] = []
    gotos: list[dict[str, int]] = []
    for state in range(len(table.states)):
        row: dict[str, int] = {}
        jumps: dict[str, int] = {}
        for symbol, (action, target) in table.states[state].items():
            if action is not Shift:
                row[symbol] = ~numbers[target]
            elif symbol in terminals or symbol.isupper():
                row[symbol] = target
            else:
                jumps[symbol] = target
        actions.append(row)
        gotos.append(jumps)
    literals = {t.pattern.value: t.name for t in lark.terminals}
    rules = tuple(_rule(rule) for rule in lark.rules)
    return Tables(tuple(actions), tuple(gotos), rules, literals, table.start_states["start"], table.end_states["start"])


def _rule(rule: Any) -> Rule:
    """lark's own rules of tree building (filtered words, splices, absent parts) as data."""
    marks = "".join("1" if absent else "0" for absent in rule.options.empty_indices)
    absent = [len(ones) for ones in marks.split("0")] if marks else [0] * (len(rule.expansion) + 1)
    keep = []
    nones = 0
    for i, symbol in enumerate(rule.expansion):
        nones += absent[i]
        if rule.options.keep_all_tokens or not (symbol.is_term and symbol.filter_out):
            keep.append((i, not symbol.is_term and symbol.name.startswith("_"), nones))
            nones = 0
    forward = bool(rule.options.expand1) and not rule.alias
    build = rule.alias or str(rule.origin.name)
    return Rule(str(rule.origin.name), str(build), len(rule.expansion), tuple(keep), nones + absent[-1], forward)

"""Text to tokens. Words are not classified here: the parser decides by context (parse.py)."""

from __future__ import annotations

import re
from typing import NamedTuple

from sqc.diagnostics import Note, Place, Reporter, Source

MAX_NESTING = 200  # brackets of all kinds inside each other
MAX_TOKENS = 250_000
MAX_LEXICAL_ERRORS = 20

WORD, NUMBER, STRING, BAD, END = "WORD", "NUMBER", "STRING", "BAD", "$END"

_TOKEN = re.compile(
    r"""
    (?P<skip> [ \t\r\n\f\ufeff]+ | //[^\n]* | /\*.*?\*/ )
  | (?P<word> [A-Za-z_][A-Za-z0-9_]* )
  | (?P<number> (?: [0-9][0-9_]* (?:\.[0-9_]*)? | \.[0-9][0-9_]* ) (?:[eE][+-]?[0-9][0-9_]*)? )
  | (?P<string> "[^"\n]*" )
  | (?P<open> /\* | " )
  | (?P<op> && | \|\| | [<>=!]= | [-+*/^!<>=(){}\[\],;:.?~] )
  | (?P<bad> [^\sA-Za-z0-9_"(){}\[\],;]+ | . )
    """,
    re.VERBOSE | re.DOTALL,
)

# Operators that the grammar declares as classes; all other signs are terminals of their own.
_CLASSES = {
    "||": "OR", "&&": "AND", "<": "COMPARISON", "<=": "COMPARISON", ">": "COMPARISON", ">=": "COMPARISON",
    "==": "COMPARISON", "!=": "COMPARISON", "+": "PLUS", "-": "MINUS", "*": "FACTOR", "/": "FACTOR", "!": "NOT",
    "^": "POWER",
}  # fmt: skip

_CHARACTER_HELP = {
    "#": "comments are written // ... or /* ... */",
    "%": "there is no `%`: write x - n * floor(x / n)",
    "&": "`&&` is the logical and",
    "|": "`||` is the logical or",
    "'": 'texts are written "..."',
}


class Token(NamedTuple):
    """`kind` is WORD, NUMBER, STRING, BAD, END, a class of operators, or the sign itself."""

    kind: str
    text: str
    start: int
    end: int


def tokenize(source: Source, reporter: Reporter) -> list[Token]:
    """All tokens and the end. What is no token is reported and becomes a BAD token."""
    tokens: list[Token] = []
    errors = depth = 0
    for match in _TOKEN.finditer(source.text):
        group = match.lastgroup
        if group == "skip":
            continue
        text, start, end = match.group(), match.start(), match.end()
        if len(tokens) >= MAX_TOKENS:
            message = f"more than {MAX_TOKENS} words and signs: this is no program"
            reporter.fatal("E106", message, Place(source, start, end))
        if group == "word":
            tokens.append(Token(WORD, text, start, end))
        elif group == "op":
            tokens.append(Token(_CLASSES.get(text, text), text, start, end))
            if text in "([{":
                depth += 1
                if depth > MAX_NESTING:
                    message = f"more than {MAX_NESTING} brackets inside each other"
                    reporter.fatal("E105", message, Place(source, start, end))
            elif text in ")]}":
                depth = max(depth - 1, 0)
        elif group == "string":
            tokens.append(Token(STRING, text, start, end))
        elif group == "number" and _ends_cleanly(source.text, end):
            tokens.append(Token(NUMBER, text, start, end))
        else:
            errors += 1
            assert group is not None
            token = _complain(source, reporter, group, start, end)
            tokens.append(token)
            if errors >= MAX_LEXICAL_ERRORS:
                raise reporter.failure()
            if group == "open" and text != '"':
                break  # everything after an open comment is in it
    at = len(source.text)
    tokens.append(Token(END, "", at, at))
    return tokens


def number(text: str) -> float:
    """The value of a NUMBER token."""
    return float(text.replace("_", ""))


def _ends_cleanly(text: str, end: int) -> bool:
    return not (end < len(text) and (text[end].isalnum() or text[end] in "_."))


def _complain(source: Source, reporter: Reporter, group: str, start: int, end: int) -> Token:
    place = Place(source, start, end)
    text = place.text
    if group == "number":
        while end < len(source.text) and (source.text[end].isalnum() or source.text[end] in "_."):
            end += 1
        place = Place(source, start, end)
        reporter.error("E103", f"`{place.text}` is not a number", place, "numbers look like 12, 1_000, .5 or 2e-5")
    elif group == "open":
        what = "text" if text == '"' else "comment"
        reporter.error("E102", f"{what} without an end", place, notes=[Note("it must end on its line")] * (text == '"'))
    else:
        shown = text if text.isprintable() else " ".join(f"U+{ord(c):04X}" for c in text[:4])
        reporter.error("E101", f"unexpected character `{shown[:20]}`", place, _CHARACTER_HELP.get(text[0]))
    return Token(BAD, text, start, end)

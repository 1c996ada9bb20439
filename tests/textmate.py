"""A small reader of TextMate grammars: rules that match, rules from `begin` to `end` with nothing inside, includes.

The expressions must be of the part of Oniguruma's syntax that Python's `re` shares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Rule(NamedTuple):
    """What begins it, the scope of the whole (may be empty), scopes of groups, what ends it (None: it is one match)."""

    match: re.Pattern[str]
    scope: str
    groups: dict[int, str]
    end: re.Pattern[str] | None


class Grammar:
    """A grammar read from its file; a wrong expression is an error, and so is a key that this reader does not know."""

    def __init__(self, path: Path) -> None:
        self.document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        self.rules = list(self._read(self.document["patterns"]))

    def _read(self, patterns: list[dict[str, Any]]) -> Iterator[Rule]:
        for entry in patterns:
            if "include" in entry:
                yield from self._read(self.document["repository"][entry["include"].removeprefix("#")]["patterns"])
                continue
            assert entry.keys() <= {"comment", "name", "match", "captures", "begin", "end"}, entry
            groups = {int(number): group["name"] for number, group in entry.get("captures", {}).items()}
            end = re.compile(entry["end"]) if "end" in entry else None
            yield Rule(re.compile(entry["begin" if end else "match"]), entry.get("name", ""), groups, end)

    def scopes(self, text: str) -> list[str]:
        """The innermost scope of every character, empty where it has none; line by line, as editors do."""
        found: list[str] = []
        inside: Rule | None = None
        for line in text.splitlines(keepends=True):
            row = [""] * len(line)
            inside = self._line(line, row, inside)
            found += row
        return found

    def _line(self, line: str, row: list[str], inside: Rule | None) -> Rule | None:
        """Fills the row; the rule that has not ended at the end of the line."""
        at = 0
        ahead = [rule.match.search(line) for rule in self.rules]
        while at < len(line):
            if inside is not None:
                assert inside.end is not None
                ended = inside.end.search(line, at)
                stop = ended.end() if ended else len(line)
                row[at:stop] = [inside.scope] * (stop - at)
                at, inside = stop, None if ended else inside
                continue
            ahead = [
                found if found is None or found.start() >= at else rule.match.search(line, at)
                for rule, found in zip(self.rules, ahead, strict=True)
            ]
            # The leftmost comes next; of several the first in the grammar.
            nearest = min(((found.start(), place) for place, found in enumerate(ahead) if found), default=None)
            if nearest is None:
                break
            rule, found = self.rules[nearest[1]], ahead[nearest[1]]
            assert found is not None
            row[found.start() : found.end()] = [rule.scope] * len(found.group())
            for group, scope in rule.groups.items():
                row[found.start(group) : found.end(group)] = [scope] * len(found.group(group))
            at = found.end()
            inside = rule if rule.end else None
        return inside

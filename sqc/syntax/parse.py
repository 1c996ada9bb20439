"""Tokens to tree: the LALR machine, words by context, and recovery.

Words are not reserved. At each token the parser looks whether the keyword of that spelling may
stand here; if not, the word is a name. So an attribute may be called `size` or `cap`.

After an error the machine reports what it expected, forgets the broken statement and goes on at
the next one, so that all errors of a text come at once.
"""

from __future__ import annotations

from typing import Any, NoReturn

from sqc.diagnostics import Note, Place, Reporter, Source, nearest
from sqc.syntax import tokens as lex
from sqc.syntax.build import BUILD, Word
from sqc.syntax.expected import describe, phrase
from sqc.syntax.tables import Tables, tables
from sqc.syntax.tokens import Token
from sqc.syntax.tree import File, Name, Num, Text

MAX_DEPTH = 200  # levels of the tree: later phases recurse over it
MAX_STACK = 16 * MAX_DEPTH  # symbols that wait for their rule to end: no level has more than 16
MAX_ERRORS = 20

# What lists are made of: after an error, parsing goes on in the innermost list of these.
_LISTS = ("statement", "poolopt", "stepopt", "iter", "witem", "_item", "_top", "devopt", "engopt", "sched", "qitem")


def parse(source: Source, reporter: Reporter) -> File:
    """The tree of a text. Errors go to the reporter; they are raised at the end of the text."""
    parser = _Parser(source, lex.tokenize(source, reporter), reporter)
    made = parser.run()
    reporter.stop_if_any()
    return made


def classified(source: Source, reporter: Reporter) -> list[tuple[str, Token]]:
    """The tokens of a text, each with the terminal that it is where it stands (`NAME`, or the keyword's).

    Errors are those of `parse`.
    """
    parser = _Parser(source, lex.tokenize(source, reporter), reporter)
    parser.run()
    reporter.stop_if_any()
    return parser.fed


class _Parser:
    def __init__(self, source: Source, tokens: list[Token], reporter: Reporter) -> None:
        self.source = source
        self.tokens = tokens
        self.reporter = reporter
        self.tables: Tables = tables()
        self.states: list[int] = [self.tables.start]
        self.values: list[Any] = []
        self.spans: list[tuple[int, int]] = []
        self.depths: list[int] = []
        self.fed: list[tuple[str, Token]] = []
        self.errors = 0

    def run(self) -> File:
        at = 0
        while True:
            token = self.tokens[at]
            terminal = self.terminal(token, self.states)
            if terminal is None:
                at = self.recover(at)
            elif self.feed(terminal, token):
                made = self.values[-1]
                assert isinstance(made, File)
                return made
            else:
                at += 1

    # ----------------------------------------------------------------- the machine

    def terminal(self, token: Token, states: list[int]) -> str | None:
        """What a token is in a state: a keyword if one may stand here, else a name or sign."""
        literal = self.tables.literals.get(token.text)
        if literal is not None and token.kind != lex.STRING and self.fits(states, literal):
            return literal
        kind = "NAME" if token.kind == lex.WORD else token.kind
        return kind if self.fits(states, kind) else None

    def fits(self, states: list[int], terminal: str) -> bool:
        """May a terminal come next? A reduction in the table is only a promise: it is tried out."""
        action = self.tables.actions[states[-1]].get(terminal)
        return action is not None and (action >= 0 or self.tried(states, terminal) is not None)

    def after(self, states: list[int], terminal: str) -> list[int] | None:
        """The states after a terminal, or None if it cannot come next."""
        found = self.tried(states, terminal)
        return None if found is None else states[: found[0]] + found[1]

    def tried(self, states: list[int], terminal: str) -> tuple[int, list[int]] | None:
        """Reduce and shift without touching the states: how many of them stay, and what follows."""
        stay, new = len(states), list[int]()
        while True:
            state = new[-1] if new else states[stay - 1]
            action = self.tables.actions[state].get(terminal)
            if action is None:
                return None
            if action >= 0:
                return stay, [*new, action]
            rule = self.tables.rules[~action]
            popped = min(rule.size, len(new))
            del new[len(new) - popped :]
            stay -= rule.size - popped
            new.append(self.tables.gotos[new[-1] if new else states[stay - 1]][rule.origin])
            if terminal == lex.END and new[-1] == self.tables.end:
                return stay, new

    def feed(self, terminal: str, token: Token) -> bool:
        """Shift one token after the reductions it calls for; True at the end of the text."""
        actions, gotos, rules = self.tables.actions, self.tables.gotos, self.tables.rules
        while True:
            action = actions[self.states[-1]][terminal]
            if action >= 0:
                if len(self.states) > MAX_STACK:
                    self.too_deep(token.start)
                self.states.append(action)
                self.values.append(self.value(terminal, token))
                self.spans.append((token.start, token.end))
                self.depths.append(0)
                self.fed.append((terminal, token))
                return False
            rule = rules[~action]
            self.reduce(rule)
            self.states.append(gotos[self.states[-1]][rule.origin])
            if terminal == lex.END and self.states[-1] == self.tables.end:
                return True

    def value(self, terminal: str, token: Token) -> Any:
        place = Place(self.source, token.start, token.end)
        if terminal == "NAME":
            return Name(place, token.text)
        if terminal == lex.NUMBER:
            return Num(place, lex.number(token.text))
        if terminal == lex.STRING:
            return Text(place, token.text[1:-1])
        return Word(place, token.text)

    def reduce(self, rule: Any) -> None:
        first = len(self.values) - rule.size
        values, spans, depths = self.values[first:], self.spans[first:], self.depths[first:]
        del self.values[first:], self.spans[first:], self.depths[first:]
        del self.states[len(self.states) - rule.size :]
        helper = rule.build.startswith("_")
        keep = rule.keep
        children: list[Any] = []
        if helper and keep and keep[0] == (0, True, 0):  # a list that grows: extend it in place
            children, keep = values[0], keep[1:]
        for i, splice, nones in keep:
            children.extend([None] * nones)
            children.extend(values[i]) if splice else children.append(values[i])
        children.extend([None] * rule.nones)
        last = self.spans[-1][1] if self.spans else 0
        span = (spans[0][0], spans[-1][1]) if spans else (last, last)
        depth = max(depths, default=0)
        made: Any
        if helper:
            made = children
        elif rule.forward and len(children) == 1:
            made = children[0]
        else:
            depth += 1
            place = Place(self.source, *span)
            if depth > MAX_DEPTH:
                self.too_deep(span[0])
            made = BUILD[rule.build](place, *children)
        self.values.append(made)
        self.spans.append(span)
        self.depths.append(depth)

    def too_deep(self, at: int) -> NoReturn:
        self.reporter.fatal("E105", f"more than {MAX_DEPTH} levels of nesting", Place(self.source, at, at + 1))

    # ----------------------------------------------------------------- recovery

    def recover(self, at: int) -> int:
        """Report the token that cannot stand here; the token with which to go on."""
        token = self.tokens[at]
        if token.kind == lex.BAD:  # reported by the lexer
            return self.skip(at)
        expected = {t for t in self.tables.actions[self.states[-1]] if self.fits(self.states, t)}
        if "SEMICOLON" in expected:
            after = self.after(self.states, "SEMICOLON")
            if after is not None and self.terminal(token, after) is not None and self.begins(at, after):
                last = self.tokens[at - 1]
                place = Place(self.source, last.end, last.end + 1)
                self.report("expected `;` after this statement", place)
                self.feed("SEMICOLON", Token("SEMICOLON", ";", last.end, last.end))
                return at
        if not self.unknown_word(at):
            self.unexpected(token, expected)
        if token.kind == lex.END:
            self.give_up()
        return self.skip(at)

    def begins(self, at: int, states: list[int]) -> bool:
        """Does this token look like the begin of what follows a missing semicolon?"""
        token = self.tokens[at]
        keyword = self.terminal(token, states) not in (None, "NAME", lex.NUMBER)
        newline = "\n" in self.source.text[self.tokens[at - 1].end : token.start]
        return (keyword and (newline or token.text == "}" or token.kind == lex.WORD)) or newline

    def unknown_word(self, at: int) -> bool:
        """Report a word that begins a statement or declaration but is none of the language's."""
        word = self.tokens[at - 1]
        lists = [x for x in ("statement", "_item") if len(self.states) > 1 and x in self.tables.gotos[self.states[-2]]]
        if at == 0 or word.kind != lex.WORD or not lists or self.terminal(word, self.states[:-1]) != "NAME":
            return False
        what = "statement" if "statement" in lists else "declaration"
        known = [
            t for t, terminal in self.tables.literals.items() if t.isalpha() and self.fits(self.states[:-1], terminal)
        ]
        place = Place(self.source, word.start, word.end)
        self.report(f"unknown {what} `{word.text[:30]}`", place, nearest(word.text, known))
        return True

    def unexpected(self, token: Token, expected: set[str]) -> None:
        place = Place(self.source, token.start, max(token.end, token.start + 1))
        notes = []
        if token.kind == lex.END:
            place = Place(self.source, *self.spans[-1]) if self.spans else place
            place = place._replace(start=max(place.start, place.end - 1)) if self.spans else place
            opened = self.unclosed(len(self.tokens))
            if opened is not None:
                notes.append(Note("this bracket is not closed", opened))
        advice = describe(token.text, expected, self.previous(token))
        if advice is None and token.kind == lex.WORD:
            words = {text for text, t in self.tables.literals.items() if t in expected and text[0].isalpha()}
            advice = nearest(token.text, words)
        found = f"`{token.text[:30]}`" if token.text else "the end of the text"
        self.report(f"expected {phrase(expected, self.tables.literals)}, found {found}", place, advice, notes)

    def previous(self, token: Token) -> str:
        at = self.tokens.index(token)
        return self.tokens[at - 1].text if at else ""

    def unclosed(self, upto: int) -> Place | None:
        """The innermost bracket that is open before a token."""
        opened: list[Token] = []
        for token in self.tokens[:upto]:
            if token.kind in ("(", "[", "{"):
                opened.append(token)
            elif token.kind in (")", "]", "}") and opened:
                opened.pop()
        return Place(self.source, opened[-1].start, opened[-1].end) if opened else None

    def report(self, message: str, place: Place, advice: str | None = None, notes: Any = ()) -> None:
        self.reporter.error("E104", message, place, advice, notes)
        self.errors += 1
        if self.errors >= MAX_ERRORS:
            self.give_up()

    def give_up(self) -> NoReturn:
        raise self.reporter.failure()

    def skip(self, at: int) -> int:
        """Leave the broken statement: back to a list that can go on, forward to where it does."""
        lists = [n for n, state in enumerate(self.states) if any(x in self.tables.gotos[state] for x in _LISTS)]
        for n in reversed(lists):  # the token may begin the next element of this or an outer list
            if self.tokens[at].kind == lex.WORD and self.keyword(at, self.states[: n + 1]) and n < len(self.states) - 1:
                self.back_to(n)
                return at
        self.back_to(lists[-1])
        at = self.past_block(at) if self.tokens[at].kind == "{" else at + (self.tokens[at].kind not in ("}", lex.END))
        while True:
            token = self.tokens[at]
            if token.kind == lex.END:
                return at if self.terminal(token, self.states) else self.give_up()
            if token.kind == ";":
                return at + 1
            if token.kind == "}":
                return at if self.terminal(token, self.states) else at + 1
            if token.kind == "{":
                at = self.past_block(at)
                if self.tokens[at].text not in ("else", "cache", "lease", ";"):
                    return at
                continue
            if self.keyword(at, self.states) and "\n" in self.source.text[self.tokens[at - 1].end : token.start]:
                return at
            at += 1

    def keyword(self, at: int, states: list[int]) -> bool:
        token = self.tokens[at]
        return token.kind == lex.WORD and self.terminal(token, states) not in (None, "NAME")

    def back_to(self, n: int) -> None:
        del self.states[n + 1 :], self.values[n:], self.spans[n:], self.depths[n:]

    def past_block(self, at: int) -> int:
        """The token after the block that opens at a token."""
        depth = 0
        while self.tokens[at].kind != lex.END:
            depth += (self.tokens[at].kind == "{") - (self.tokens[at].kind == "}")
            at += 1
            if depth == 0:
                break
        return at

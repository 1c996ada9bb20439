"""What the parser says it expected, in words for people."""

from __future__ import annotations

_EXPRESSION = {"NAME", "NUMBER", "LPAR", "MINUS", "NOT", "TILDE"}
_GROUPS: tuple[tuple[frozenset[str], str], ...] = tuple(
    (frozenset(terminals.split()), text)
    for terminals, text in (
        ("ARRIVE TRACE INIT SESSION HIDDEN", "`arrive`, `init`, `turn`, `session`, `trace`, `hidden`"),
        ("SET OBSERVE BRANCH LOOP WHILE HOLD RUN", "a statement"),
        ("POOL STAGE WORKLOAD SERVER GAUGE CLAIM", "a declaration"),
        ("CAP BLOCK EVICT PREEMPT", "a pool option (`cap`, `block`, `evict`, `preempt`, `queue`, ...)"),
        ("ADVANCE EXCLUSIVE ADMIT", "a schedule's statement (`advance`, `admit`, `exclusive`, `branch`, `set`)"),
        ("EXECUTE SCHEDULE", "a part of an engine (`NAME cap`, `tokens cap`, `schedule`, `execute`, ...)"),
        ("BUDGET COST CHUNK MEMORY", "a step option (`budget`, `cost`, `chunk`, `memory`, `serve`, ...)"),
        ("PLUS MINUS FACTOR", "an operator"),
        ("PLUS MINUS", "an operator"),
        ("POWER", ""),
    )
)
_ALSO = {
    "a statement": "TURN END IF SIZE COST _COST_WORD CHOOSE GROW LOAD DROP RELEASE PREFILL DECODE TOOL TRANSFER FORK"
    " JOIN MARK NAME",
    "a schedule's statement (`advance`, `admit`, `exclusive`, `branch`, `set`)": "BRANCH IF SET LET",
    "a part of an engine (`NAME cap`, `tokens cap`, `schedule`, `execute`, ...)": "NAME STATE GRANULE",
    "a declaration": "USE LET DEF SHARE DEVICE ENGINE QUEUE NAME",
    "an operator": "OR AND COMPARISON QMARK POWER",
}
_NAMES = {"NAME": "a name", "NUMBER": "a number", "STRING": 'a text "..."', "$END": "the end of the text"}


# What the other spelling of a step stage calls the parts of an engine.
_IN_ENGINES = {
    "budget": "an engine writes tokens cap N;",
    "cost": "an engine writes execute (T);",
    "chunk": "an engine writes `each at most (c)` in its schedule",
    "memory": "the memory of an engine is the pool on its device",
}


def phrase(expected: set[str], literals: dict[str, str]) -> str:
    """A set of terminals as a phrase: "an operator or `;`"."""
    rest = set(expected)
    parts: list[str] = []
    if rest >= _EXPRESSION:
        rest -= _EXPRESSION | {"MAX", "MIN", "SUM", "STRING"}
        parts.append("an expression")
    for group, text in _GROUPS:
        if rest >= group:
            rest -= group | set(_ALSO.get(text, "").split())
            if text.startswith("`arrive"):
                rest.discard("TURN")
                rest.discard("REQUEST")
            if text:
                parts.append(text)
    spelled = {terminal: f"`{text}`" for text, terminal in literals.items()}
    last = [_NAMES.get(t) or spelled.get(t, t.lower()) for t in sorted(rest, key=lambda t: (t not in _NAMES, t))]
    words = list(dict.fromkeys(parts + last))
    if len(words) > 6:
        words = [*words[:5], "..."]
        return ", ".join(words)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}" if words else "nothing more"


def describe(found: str, expected: set[str], before: str) -> str | None:
    """Advice for the mistakes that people make."""
    if "CAP" in expected and before in _IN_ENGINES:
        return _IN_ENGINES[before]
    if found == "serve" and "ADVANCE" in expected:
        return "a schedule writes advance running"
    operator_expected = {"PLUS", "MINUS"} <= expected
    if found == "=" and operator_expected:
        return "compare with `==`"
    if found in ("<", "<=", ">", ">=", "==", "!=") and operator_expected:
        return "comparisons do not chain: join two with `&&`"
    if found == "+" and "MINUS" in expected:
        return "there is no unary plus"
    if before == "else" and found in ("branch", "if"):
        return "there is no `else if`: write else { branch (...) { ... } }"
    if found == "{" and "LPAR" in expected and before in ("branch", "while", "if"):
        return "the condition stands in parentheses"
    if found in ("true", "false") and "NAME" not in expected:
        return "truth values are the numbers 1 and 0"
    return None

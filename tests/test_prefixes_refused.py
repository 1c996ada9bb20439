"""Bad uses of shared prefixes and checkpoints: each has its diagnostic."""

from __future__ import annotations

import pytest

from wrong import findings, outcome, program

POOL = "pool kv { cap 90; }"
ONE = "pool one { cap 90; history one; slots 2; retain lru pin root; }"


def hold(prefix: str, rest: str = "cache (cost(kv, 30))", body: str = "run s (cost(s, w));", pool: str = "kv") -> str:
    return f"hold {pool} (cost({pool}, 40)) prefix ({prefix}) {{ {body} }} {rest}"


def alone(body: str = "", cache: str = "cache (cost(one, 0))") -> str:
    return f"hold one (cost(one, 40)) prefix (0: 10, serial: 30) {{ run s (cost(s, w)); {body} }} {cache}"


# code, the program, the text under the caret, a part of the message
CASES: list[tuple[str, str, str, str]] = [
    ("E402", program(POOL, hold("~exp(1): 30")), "~exp(1)", "a prefix key may not draw"),
    ("E402", program(POOL, hold("0: ~exp(1)")), "~exp(1)", "a prefix length may not draw"),
    ("E403", program(POOL, hold("used(kv): 30")), "used(kv)", "a prefix key may not read live state"),
    ("E403", program(POOL, hold("0: free(kv)")), "free(kv)", "a prefix length may not read live state"),
    ("E403", program(POOL, hold("now: 30")), "now", "a prefix key may not read `now`"),
    ("E303", program(POOL, hold("cost(kv, 1): 30")), "cost(kv, 1)", "plain number"),
    ("E305", program(POOL, hold("0: 0 - 1")), "0 - 1", "at least 0"),
    ("E405", program(POOL, f"set k = used(kv); {hold('k: 30')}"), "k", "read from live state before"),
    ("E801", program(POOL, hold("0: 30", "")), "0: 30", "without a `cache` clause"),
    (
        "E801",
        program(ONE, "hold one (cost(one, 40)) { run s (cost(s, w)); }"),
        "hold one (cost(one, 40))",
        "has a `cache` clause",
    ),
    ("E802", program(POOL, hold("0: computed")), "computed", "which admissions set"),
    ("E803", program(POOL, hold("0: 30", "cache (cost(kv, 30)) lease kv (1)")), "lease kv (1)", "cannot be leased"),
    (
        "E803",
        program("pool aux { } pool kv { cap 90; spill aux via s (1) when (1); }", hold("0: 30", body="")),
        "0: 30",
        "no one owner",
    ),
    (
        "E803",
        program("pool aux { spill kv via s (1) when (1); } pool kv { cap 90; }", hold("0: 30", body="")),
        "0: 30",
        "no one owner",
    ),
    (
        "E804",
        program(POOL, f"set c = cachedin(kv); {hold('0: 30')} {hold('1: 30')}"),
        "cachedin(kv)",
        "name different ones",
    ),
    ("E805", program("pool kv { cap 90; slots 3; }"), "slots", "for a pool with one history"),
    ("E805", program("pool kv { cap 90; retain fifo; }"), "retain", "for a pool with one history"),
    ("E805", program("pool kv { cap 90; history one; retain fifo; }"), "kv", "no `slots`"),
    ("E805", program("pool kv { cap 90; block 8; history one; slots 2; }"), "block", "for pools with many entries"),
    ("E805", program("pool kv { cap 90; history one; slots 2; evict lru; }"), "evict", "for pools with many entries"),
    ("E805", program(ONE, f"{alone()} drop one;"), "drop", "no session's own"),
    ("E205", program("pool kv { history one; slots w; }"), "w", "not a constant"),
    ("E305", program("pool kv { history one; slots 1.5; }"), "1.5", "whole number"),
    ("E510", program("pool kv { history one; slots 2; retain fifo; retain lru pin root; }"), "retain", "given twice"),
    ("E806", program(POOL, hold("0: 30", body="checkpoint kv (3);")), "checkpoint", "at the end of a hold"),
    ("E408", program(ONE, f"{alone()} checkpoint one (3);"), "checkpoint", "outside a hold"),
    ("E306", program(ONE, alone("checkpoint one (41);")), "41", "beyond the context of 40"),
    ("E305", program(ONE, alone("checkpoint one (0 - 1);")), "0 - 1", "at least 0"),
    ("E807", program(ONE, alone(alone())), "one", "which the hold around this one has"),
]


@pytest.mark.parametrize(("code", "text", "under", "message"), CASES)
def test_code(code: str, text: str, under: str, message: str) -> None:
    (found,) = findings(text)
    assert found.code == code
    assert message in found.message
    assert found.span is not None
    assert found.source_line[found.span.col - 1 : found.span.end_col - 1] == under
    assert found.help


def test_hidden_attributes_are_no_keys() -> None:
    workload = "workload { arrive poisson(1); turn { set w = 1; set secret = 2; } hidden secret; }"
    assert outcome(program(POOL, hold("secret: 30"), workload)) == ["E406"]


@pytest.mark.parametrize(
    ("items", "server"),
    [
        (POOL, hold("w > 1 ? 3 : 4: 10, floor(serial / 2): 20")),
        (POOL, f"{hold('0: 10')} hold kv (cost(kv, 40)) {{ run s (cost(s, w)); }} cache (cost(kv, 40))"),
        (POOL, f"set c = cachedin(kv); {hold('0: 30')} {hold('0: 30')}"),
        (POOL, hold("k: 30", "at admission (k = w) {} cache (cost(kv, 3))").replace("{ run s (cost(s, w)); } ", "")),
        (ONE, alone("checkpoint one (40); grow one (cost(one, 8)); checkpoint one (48);")),
        ("pool one[2] { history one; slots 1; }", alone("checkpoint one[1] (3);").replace("one (cost", "one[1] (cost")),
    ],
)
def test_what_is_right(items: str, server: str) -> None:
    assert outcome(program(items, server)) == []

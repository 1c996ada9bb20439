"""Rules of the language, one by one: what each refuses, and what it lets pass."""

from __future__ import annotations

import pytest

from wrong import WORKLOAD, outcome, program

POOLS = "pool a { cap 9; } pool b { cap 9; } pool c[2] { cap 9; }"
RUN = "run s (cost(s, w));"
HIDDEN = "workload { arrive poisson(1); hidden w; turn { set w = ~exp(1); set v = 1; } }"


def session(body: str) -> str:
    return f"workload {{ arrive poisson(1); turn {{ set w = ~exp(1); }} session {{ {body} }} }}"


@pytest.mark.parametrize(
    ("server", "codes"),
    [
        # read where the scheduler decides
        ("hold a (cost(a, w)) { run s (cost(s, w)); }", ["E406"]),
        ("run s (cost(s, w)); hold a (cost(a, w)) { }", ["E406"]),
        ("hold a (cost(a, 1)) reserve (cost(a, w)) { run s (cost(s, w)); }", ["E406"]),
        ("hold a (cost(a, 1)) reuse (cost(a, w)) { run s (cost(s, w)); } cache (cost(a, 1));", ["E406"]),
        ("hold a (cost(a, x)) at admission (x = w) { run s (cost(s, w)); }", ["E406"]),
        # read where it steers nothing
        ("observe o = w; run s (cost(s, w));", []),
        ("hold a (cost(a, 1)) { run s (cost(s, w)); } cache (cost(a, w));", []),
        ("hold a (cost(a, 1)) at admission (x = w) { run s (cost(s, w)); } cache (cost(a, x));", []),
        # steering before and after the run that reveals it
        ("branch (w > 1) { observe o = 1; } run s (cost(s, w));", ["E406"]),
        ("run s (cost(s, w)); branch (w > 1) { observe o = 1; }", []),
        ("run s (cost(s, v)); branch (w > 1) { observe o = 1; }", ["E406"]),
        ("while (w > 9) { run s (cost(s, w)); }", ["E406"]),
        ("choose j in 2 by (w); run s (cost(s, w));", ["E406"]),
        ("drop c[w]; run s (cost(s, w));", ["E406"]),
        ("hold a (cost(a, 1)) { grow a (cost(a, w)); run s (cost(s, w)); }", ["E406"]),
        ("hold a (cost(a, 1)) { run s (cost(s, w)); grow a (cost(a, w)); }", []),
        ("hold a (cost(a, 9)) { load a (cost(a, w)); run s (cost(s, w)); }", ["E406"]),
        # copies carry it along
        ("set y = 2 * w; branch (y > 1) { observe o = 1; } run s (cost(s, w));", ["E406"]),
        ("set y = 2 * w; run s (cost(s, y)); branch (w > 1) { observe o = 1; }", []),
        ("set y = w; set y = 0; branch (y) { observe o = 1; } run s (cost(s, w));", []),
        ("set y = w; hold a (cost(a, y)) { run s (cost(s, w)); }", ["E406"]),
        ("run s (cost(s, w)); set y = w; hold a (cost(a, y)) { }", []),
        # paths: revealed only if on all of them
        ("branch (v) { run s (cost(s, w)); } branch (w > 1) { observe o = 1; }", ["E406"]),
        ("branch (v) { run s (cost(s, w)); } else { run s (cost(s, w)); } branch (w > 1) { observe o = 1; }", []),
        ("set i = 0; while (i < 3) { branch (y) { } run s (cost(s, v)); set y = w; set i = i + 1; }", ["E406"]),
        ("fork { run s (cost(s, w)); } branch (w > 1) { observe o = 1; } join;", ["E406"]),
        # ... and by all arms of its work
        ("run s (cost(s, v ? w : 1)); branch (w > 1) { observe o = 1; }", ["E406"]),
        ("run s (cost(s, v ? w : 2 * w)); branch (w > 1) { observe o = 1; }", []),
        ("run s (cost(s, v && w)); branch (w > 1) { observe o = 1; }", ["E406"]),
        ("run s (cost(s, w && v)); branch (w > 1) { observe o = 1; }", []),
        ("set y = v ? w : 1; run s (cost(s, y)); branch (w > 1) { observe o = 1; }", ["E406"]),
        ("set y = w; branch (v) { set y = 1; } run s (cost(s, y)); branch (w > 1) { observe o = 1; }", ["E406"]),
        ("branch (v) { set y = w; } else { set y = -w; } run s (cost(s, y)); branch (w > 1) { observe o = 1; }", []),
    ],
)
def test_hidden_attributes_steer_nothing(server: str, codes: list[str]) -> None:
    assert outcome(program(POOLS, server, HIDDEN)) == codes


def test_hidden_attributes_in_keys_and_copies_in_marks() -> None:
    for option in ("queue by (w)", "evict by (w)", "preempt by (w)", "spill a via s (w) when (1)"):
        assert outcome(program(f"{POOLS} pool k {{ {option}; }}", RUN, HIDDEN)) == ["E406"]
    copied = "workload { hidden w; init { set w = 1; set v = w; } }"
    assert outcome(program(POOLS, f"branch (v > 1) {{ observe o = 1; }} {RUN}", copied)) == ["E406"]
    assert outcome(program(server=RUN, workload="workload { hidden q; turn { set w = 1; } }")) == ["E201"]
    assert outcome(program(server=RUN, workload="workload { hidden cached; turn { set w = 1; } }")) == ["E407"]


@pytest.mark.parametrize(
    ("server", "codes"),
    [
        ("set u = used(a); hold a (cost(a, u)) { }", ["E405"]),
        ("set u = used(a) > 3 ? 1 : 2; hold a (cost(a, 1)) reserve (cost(a, u)) { }", ["E405"]),
        ("set u = used(a); hold a (cost(a, 1)) { } cache (cost(a, u));", ["E405"]),
        ("hold a (cost(a, 1)) { set u = used(a); } cache (cost(a, u));", []),
        ("set u = used(a); hold a (cost(a, x)) at admission (x = u) { }", ["E405"]),
        ("Cost u = cost(a, est_wait(s)); hold a (u) { }", ["E405"]),
        ("Cost u = { a: used(a) }; hold a (u.a) { }", ["E405"]),
        ("set u = 1; branch (w > 1) { set u = used(a); } hold a (cost(a, u)) { }", ["E405"]),
        ("set u = used(a); set u = 1; hold a (cost(a, u)) { }", []),
        ("hold a (cost(a, u)) { } set u = used(a);", []),
        ("set u = now; hold a (cost(a, u)) { }", []),
        ("set u = used(a); hold c[u > 3] (cost(c, 1)) { }", []),
        ("hold a (cost(a, x)) at admission (x = used(a)) { }", []),
    ],
)
def test_stale_values_in_headers(server: str, codes: list[str]) -> None:
    assert outcome(program(POOLS, f"{server} {RUN}")) == codes


def test_values_go_stale_from_turn_to_turn() -> None:
    server = f"hold a (cost(a, u)) {{ }} set u = used(a); {RUN}"
    assert outcome(program(POOLS, server, session("turn;"))) == []
    assert outcome(program(POOLS, server, session("turn; turn;"))) == ["E405"]
    assert outcome(program(POOLS, server, session("loop { turn; }"))) == ["E405"]


@pytest.mark.parametrize(
    ("server", "codes"),
    [
        ("observe o = cached;", []),
        ("hold a (cost(a, 1)) { observe o = cached; } cache (cost(a, 1));", []),
        ("hold a (cost(a, 1)) { observe o = cached; hold b (cost(b, 1)) { } } cache (cost(a, 1));", []),
        ("hold a (cost(a, 1)) { hold b (cost(b, 1)) { observe o = cached; } cache (cost(b, 1)); }", []),
        ("hold a (cost(a, 1)) { hold b (cost(b, 1)) { observe o = cached; } } cache (cost(a, 1));", ["E404"]),
        ("hold a (cost(a, 1)) { hold b (cost(b, cached)) { } }", ["E404"]),
        ("hold a (cost(a, cached)) { } cache (cost(a, 1));", []),
        ("hold a (cost(a, 1)) { branch (w > 1) { hold b (cost(b, 1)) { } } observe o = cached; } cache (cost(a, 1));",
         ["E411"]),
        ("hold a (cost(a, 1)) { hold b (cost(b, 1)) { } } cache (cost(a, cached));", []),
        ("hold a (cost(a, 1)) reuse (cost(a, 1)) { }", ["E511"]),
    ],
)  # fmt: skip
def test_cached(server: str, codes: list[str]) -> None:
    assert outcome(program(POOLS, f"{server} {RUN}")) == codes


def test_cached_in_a_hold_of_the_session() -> None:
    held = session("hold a (cost(a, 1)) { turn; }")
    assert outcome(program(POOLS, f"observe o = cached; {RUN}", held)) == ["E404"]
    after = session("hold a (cost(a, 1)) { turn; observe o = cached; } cache (cost(a, 1));")
    assert outcome(program(POOLS, f"hold b (cost(b, 1)) {{ {RUN} }}", after)) == ["E411"]


@pytest.mark.parametrize(
    ("server", "codes"),
    [
        ("load a (cost(a, 1));", ["E408"]),
        ("release a;", ["E408"]),
        ("hold b (cost(b, 1)) { grow a (cost(a, 1)); }", ["E408"]),
        ("hold a (cost(a, 1)) { hold b (cost(b, 1)) { grow a (cost(a, 1)); } }", []),
        ("hold c[0] (cost(c, 1)) { grow c[1] (cost(c, 1)); }", ["E408"]),
        ("hold c[0] (cost(c, 1)) { grow c[1 - 1] (cost(c, 1)); }", []),
        ("set j = 1; set i = 1; hold c[j] (cost(c, 1)) { grow c[i] (cost(c, 1)); }", ["E408"]),
        ("set j = 1; hold c[j] (cost(c, 1)) { grow c[j] (cost(c, 1)); release c[j]; }", []),
        ("hold a (cost(a, 1)) { fork { grow a (cost(a, 1)); } join; }", ["E408"]),
        ("release a; hold a (cost(a, 1)) { } lease a (3);", []),
        ("hold c[0] (cost(c, 1)) { } lease c[1] (3);", ["E409"]),
        ("hold c[0] (cost(c, 1)), c[1] (cost(c, 1)) { }", []),
        ("hold c[0] (cost(c, 1)), c[0] (cost(c, 1)) { }", ["E515"]),
        ("hold a (cost(a, 1)) { hold a (cost(a, 1)) { } }", []),
    ],
)
def test_what_acts_on_holds(server: str, codes: list[str]) -> None:
    assert outcome(program(POOLS, f"{server} {RUN}")) == codes


def test_the_server_acts_on_a_hold_of_the_session() -> None:
    assert outcome(program(POOLS, f"release a; {RUN}", session("hold a (cost(a, 1)) { turn; }"))) == []
    assert outcome(program(POOLS, f"release a; {RUN}", session("hold a (cost(a, 1)) { turn; } turn;"))) == ["E408"]


@pytest.mark.parametrize(
    ("server", "codes"),
    [
        ("hold a (cost(a, y)) at admission (x = w, y = x + 1) { observe o = y; }", []),
        ("hold a (cost(a, y)) at admission (y = x, x = w) { }", ["E201"]),
        ("hold a (cost(a, x)) at admission (x = w) { } observe o = x;", ["E201"]),
        ("hold c[x] (cost(c, 1)) at admission (x = 1) { }", ["E201"]),
        ("hold a (cost(a, x)) at admission (x = w, x = 2) { }", ["E204"]),
        ("set x = 1; hold a (cost(a, x)) at admission (x = w) { }", ["E204"]),
        ("hold a (cost(a, x)) at admission (x = w) { set x = 3; }", ["E204"]),
        ("hold a (cost(a, x)) at admission (x = w) { } hold b (cost(b, x)) at admission (x = 2) { }", []),
        ("hold a (cost(a, x)) at admission (x = now) { observe o = x; }", ["E410"]),
        ("hold a (cost(a, y)) at admission (x = used(a), y = x) { observe o = y; }", ["E410"]),
        ("hold a (cost(a, 1)) at admission (x = cached) { observe o = x; } cache (cost(a, 1));", ["E410"]),
        ("hold a (cost(a, 1)) at admission (x = used(a)) { } cache (cost(a, x));", []),
        ("hold a (cost(a, x)) at admission (x = ~exp(1)) { }", ["E402"]),
    ],
)
def test_bindings(server: str, codes: list[str]) -> None:
    assert outcome(program(POOLS, f"{server} {RUN}")) == codes


LINKS = "stage l : ps(2); stage m : ps(3); stage n[2] : ps(1);"


@pytest.mark.parametrize(
    ("items", "server", "codes"),
    [
        ("share maxmin;", "run l, m, n[1] (cost(l, m, n, w));", []),
        ("", "run l, m (cost(l, m, w));", ["E514"]),
        ("share maxmin;", "", ["E514"]),
        ("share maxmin; share bottleneck;", "run l, m (cost(l, m, w));", ["E504"]),
        ("share maxmin; stage d : delay;", "run l, d (cost(l, d, w));", ["E310"]),
        ("share maxmin; stage d : ps(min(present, 2));", "run l, d (cost(l, d, w));", ["E310"]),
        ("share maxmin; stage d : ps(0);", "run l, d (cost(l, d, w));", ["E310"]),
        ('share maxmin; let k = args.number("k", 1); stage d : ps(k);', "run l, d (cost(l, d, w));", []),
        ("share maxmin;", "run n[0], n[1] (cost(n, w));", ["E515"]),
        ("share maxmin;", "run l, m (cost(l, w));", ["E302"]),
    ],
)
def test_runs_over_several_stages(items: str, server: str, codes: list[str]) -> None:
    assert outcome(program(LINKS + items, f"{server} {RUN}", top='use "std/args";')) == codes


@pytest.mark.parametrize(
    ("body", "server", "codes"),
    [
        ("fork { turn; } join; turn;", "", ["E509"]),
        ("turn; fork { end; } join;", "", ["E509"]),
        ("turn;", f"fork {{ fork {{ {RUN} }} }} join;", ["E509"]),
        ("turn;", f"fork {{ {RUN} join; }} join;", ["E509"]),
        ("turn; fork { tool (1); } join;", "", []),
        ("turn; join;", "", ["E512"]),
    ],
)
def test_legs(body: str, server: str, codes: list[str]) -> None:
    assert outcome(program(server=f"{server} {RUN}", workload=session(body))) == codes


@pytest.mark.parametrize(
    ("body", "server", "codes"),
    [
        ("loop { turn; }", RUN, []),
        ("loop { turn; }", "observe o = 1;", ["E508"]),
        ("loop { turn; tool (~exp(1)); }", "observe o = 1;", []),
        ("loop { turn; tool (2 - 2); }", "observe o = 1;", ["E508"]),
        ("loop { turn; branch (turn_no > 2) { end; } else { tool (1); } }", "observe o = 1;", []),
        ("turn;", "while (queue(s) > 3) { observe o = 1; }", ["E508"]),
        ("turn;", "loop { while (w > 1) { run s (cost(s, w)); } }", ["E508"]),
        ("turn;", "loop { hold a (cost(a, 1)) { run s (cost(s, w)); } }", []),
        ("turn;", "loop { hold a (cost(a, 1)) { grow a (cost(a, 1)); } }", ["E508"]),
        ("turn; loop { fork { tool (1); } join; }", RUN, ["E508"]),
    ],
)
def test_loops_let_time_pass(body: str, server: str, codes: list[str]) -> None:
    assert outcome(program(POOLS, server, session(body))) == codes


@pytest.mark.parametrize(
    ("items", "codes"),
    [
        ("pool p[0] { }", ["E208"]),
        ("pool p[10001] { }", ["E208"]),
        ("pool p[n] { } let n = 2;", ["E205"]),
        ("let n = 2; pool p[n + 1] { } gauge g = used(p[n]);", []),
        ("pool p[2] { } gauge g = used(p[2]);", ["E209"]),
        ("pool p[2] { } gauge g = used(p[0.5]);", ["E209"]),
        ("pool p[2] { } gauge g = used(p[queue(s) > 1]);", ["E403"]),
        ('let n = args.number("n", 2); pool p[n] { }', ["E205"]),
        ("pool p { } gauge g = used(p[0]);", []),
        ("gauge g = work(s);", ["E403"]),
        ("gauge g = now;", ["E403"]),
        ("gauge g = ~exp(1);", ["E402"]),
        ("gauge g = queue(s); gauge h = g;", ["E201"]),
        ("gauge g = count(o);", ["E401"]),
        ("claim good : at end (count(o) > 1 && now > 0);", []),
        ("claim good : at end (queue(s) == 0);", ["E403"]),
        ("claim good : at end (w > 0);", ["E403"]),
        ("claim good : at end (count(nothing) > 0);", ["E201"]),
        ("claim good given (w > 0) : at end (total(o) > 1);", []),
        ("claim good given (used(a) > 0) : at end (total(o) > 1);", ["E403"]),
        ("claim good given (now > 0) : at end (total(o) > 1);", ["E403"]),
        ("pool p { spill a via s (1) when (1); spill a via s (2) when (1); }", ["E510"]),
        ("pool p { spill p via s (1) when (1); }", ["E515"]),
        ("pool p { spill nothing via s (1) when (1); }", ["E201"]),
        ("pool p { spill c[1] via s (~exp(size)) when (age > 1); }", []),
        ("pool p { spill c[used(a)] via s (1) when (1); }", ["E205"]),
        ("pool p { evict by (~exp(1)); }", []),
        ("pool p { queue by (~exp(1)); }", ["E402"]),
        ("pool p { queue by (waited, now, used(a), w); }", []),
        ("pool p { queue by (age); }", ["E401"]),
        ("pool p { evict by (waited); }", ["E401"]),
        ("pool p { preempt by (position, decoding, admission, w) requeue tail; }", []),
        ("pool p { preempt by (size); }", ["E401"]),
        ("pool p { preempt by (w, computed > 3); }", ["E403"]),
        ("pool p { queue by (computed); evict by (computed, -cached); }", []),
        ("stage q : ps(present * ~exp(1) + queue(s));", []),
        ("stage q : ps(w);", ["E403"]),
        ("stage q : fifo(2.5);", ["E305"]),
        ('let k = args.number("k", 2); stage q : fifo(k);', []),
    ],
)
def test_declarations(items: str, codes: list[str]) -> None:
    assert outcome(program(POOLS + items, f"observe o = w; {RUN}", top='use "std/args";')) == codes


@pytest.mark.parametrize(
    ("server", "workload", "codes"),
    [
        ("Cost k = 3; run s (cost(s, w));", "", ["E301"]),
        ("Cost k = { a: 3, a: 4 }; run s (cost(s, w));", "", ["E204"]),
        ("Cost k = { nothing: 3 }; run s (cost(s, w));", "", ["E201"]),
        ("Cost k = { a: cost(a, 3) }; run s (cost(s, w));", "", ["E303"]),
        ("Cost k = { a: 3 }; Cost k = { b: 4 }; run s (cost(s, w));", "", ["E204"]),
        ("Cost k = { a: 3, s: w }; hold a (k.a) { run s (k.s); }", "", []),
        ("Cost k = cost(a, b, 3); hold a (k) { } run s (cost(s, w));", "", ["E302"]),
        ("hold a (cost(a, 1)), b (cost(b, 1)) { run s (cost(s, w)); } cache (cost(a, b, 1));", "", []),
        ("hold c[1] (cost(c[0], 1)) { run s (cost(s, w)); }", "", []),
        ("Size z = 3; run s (cost(s, w));", "", ["E509"]),
        (RUN, "workload { turn { Cost w = cost(a, 1); } }", ["E509"]),
        (RUN, "workload { turn { set w = 1; set c = cost(a, 1); } }", ["E204"]),
        (RUN, "workload { turn { set w = 1; set k = cost(a, 1); } }", ["E309"]),
        (RUN, "workload { turn { Size w = cost(b, 1); } }", ["E303"]),
        (RUN, session("Cost k = cost(b, 2); hold b (k) { turn; }"), []),
        (f"hold b (cost(b, 1)) {{ {RUN} }}", session("hold b (cost(b, 1)) { turn; }"), ["E309"]),
        (RUN, session("turn; run s (cost(s, 1));"), ["E509"]),
        (RUN, "workload { turn { set w = 1; set turn_no = 7; } }", []),
        (RUN, "workload { turn { set w = 1; set cached = 7; } }", ["E407"]),
        (f"set turn_no = 7; {RUN}", "", ["E407"]),
    ],
)
def test_costs_and_owners(server: str, workload: str, codes: list[str]) -> None:
    assert outcome(program(POOLS, server, workload or WORKLOAD))[:1] == codes


@pytest.mark.parametrize(
    ("server", "codes"),
    [
        ("choose j in 2 by (used(c[j]), w); hold c[j] (cost(c, 1)) { }", []),
        ("choose j in 1.5 by (w);", ["E305"]),
        ("choose j in inf by (w);", ["E305"]),
        ("choose j in 0 - 1 by (w);", ["E305"]),
        ("choose w in 2 by (1);", ["E407"]),
        ("set j = 1; hold a[j] (cost(a, 1)) { }", ["E211"]),
        ("hold c (cost(c, 1)) { }", ["E210"]),
        ("tool (1);", ["E201"]),
        ("hold a (cost(a, 1)) { } lease a (inf); hold b (cost(b, 2)) { transfer (1) from a to b (2); }", ["E201"]),
        ("hold a (cost(a, 1)) { } lease a (inf); hold b (cost(b, 2)) { transfer on s (1) from a to b (2); }", []),
        ("hold a (cost(a, 1)) { } lease a (inf); transfer on s (1) from a to b (2);", ["E408"]),
        ("hold b (cost(b, 2)) { transfer on s (1) from a to b (2); }", ["E408"]),
        ("hold c[waited] (cost(c, 1)) { }", ["E401"]),
    ],
)
def test_members_and_services(server: str, codes: list[str]) -> None:
    assert outcome(program(POOLS, f"{server} {RUN}")) == codes

"""One test per diagnostic code, and what a diagnostic looks like to the reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqc.advice import HELPS
from sqc.diagnostics import CODES, CompileError, Diagnostic, render
from sqc.lower import compile_file, compile_text
from sqc.syntax.files import MAX_BYTES

WORKLOAD = "workload { arrive poisson(1); turn { set w = ~exp(1); } }"
SERVER = "server { run s (cost(s, w)); }"


def program(items: str = "", server: str = "run s (cost(s, w));", workload: str = WORKLOAD, top: str = "") -> str:
    """A program around the part that a test is about, on lines of their own."""
    return f"{top}\nfn main() {{\n{items}\nstage s : fifo;\n{workload}\nserver {{\n{server}\n}}\n}}\n"


def findings(text: str) -> tuple[Diagnostic, ...]:
    with pytest.raises(CompileError) as caught:
        compile_text(text, "prog.sq")
    return caught.value.diagnostics


# code, the program, the text under the caret, a part of the message
CASES: list[tuple[str, str, str, str]] = [
    ("E101", program(server="run s (cost(s, 7 % 2));"), "%", "unexpected character"),
    ("E102", program() + "/* no end", "/*", "comment without an end"),
    ("E103", program("let a = 12ab;"), "12ab", "not a number"),
    ("E104", program(server="set x = ;"), ";", "expected an expression, found `;`"),
    ("E105", program(server="set x = " + "(" * 300 + "1" + ")" * 300 + ";"), "(", "brackets"),
    ("E201", program(server="set x = ww;"), "ww", "unknown name `ww`"),
    ("E202", program(server="set x = flor(w);"), "flor", "unknown function `flor`"),
    ("E203", program(server="set x = max(w);"), "max(w)", "`max` takes 2 arguments, got 1"),
    ("E204", program("pool w { cap 1; }"), "w", "`w` is a pool: it cannot also be an attribute"),
    ("E205", program("let a = w;"), "w", "not a constant"),
    ("E206", program("let a = 0 / 0;"), "0 / 0", "not a number"),
    ("E207", program('let a = args.number("a", 1);'), 'args.number("a", 1)', "not available"),
    ("E208", program("pool kv[1.5] { cap 1; }"), "1.5", "whole number"),
    ("E209", program("pool kv[2] { cap 1; }", "set x = used(kv[2]);"), "2", "out of range"),
    ("E210", program("pool kv[2] { cap 1; }", "set x = used(kv);"), "kv", "needs an index"),
    ("E211", program(server="set x = s;"), "s", "`s` is a stage, not a number"),
    ("E212", program(server="setup(1);"), "setup", "unknown statement `setup`"),
    ("E213", program(server="set x = f(1);", top="def f(x) { f(x) }"), "f", "uses itself"),
    ("E214", program(server="set x = f(~exp(1));", top="def f(x) { x + x }"), "~exp(1)", "draws"),
    (
        "E215",
        program(
            server="set x = f30(1);",
            top="def f0(x) { x + x } " + " ".join(f"def f{i}(x) {{ f{i - 1}(x) + f{i - 1}(x) }}" for i in range(1, 31)),
        ),
        "f12(x)",
        "expand",
    ),
    ("E216", program(top='use "std/nothing";'), '"std/nothing"', "there is no"),
    ("E217", program(server="set x = ~expo(1);"), "expo", "unknown distribution"),
    ("E301", program("pool kv { cap 9; }", "hold kv (w) { run s (cost(s, w)); }"), "w", "plain number"),
    (
        "E302",
        program("pool kv { cap 9; }", "hold kv (cost(s, w)) { run s (cost(s, w)); }"),
        "cost(s, w)",
        "cost of `kv`",
    ),
    ("E303", program(server="run s (cost(s, w) + 1);"), "cost(s, w) + 1", "do not mix"),
    ("E304", program(server="set c = cost(s, w); set c = 1;"), "1", "cannot become"),
    ("E305", program(server="run s (cost(s, -1));"), "cost(s, -1)", "at least 0"),
    ("E306", program("pool kv { cap 9; }", "hold kv (cost(kv, 10)) { }"), "cost(kv, 10)", "more than its cap of 9"),
    ("E307", program(server="branch (0.3) { set x = 1; }"), "0.3", "guard"),
    ("E308", program(server="run s prefill (cost(s, w));"), "s", "step stages"),
    (
        "E309",
        program(workload="workload { arrive poisson(1); turn { set w = 1; set c = cost(s, w); } }"),
        "cost(s, w)",
        "the server uses it",
    ),
    (
        "E310",
        program("stage t : fifo; share maxmin; stage u : ps(2);", "run u, t (cost(u, t, w));"),
        "t",
        "no ps(c) with a constant c above 0",
    ),
    ("E401", program(server="set x = present;"), "present", "the capacity of a ps stage"),
    ("E402", program("pool kv { cap 9; }", "hold kv (cost(kv, ~exp(1))) { }"), "~exp(1)", "may not draw"),
    ("E403", program("gauge g = w;"), "w", "has no session"),
    ("E404", program("pool kv { cap 9; }", "hold kv (cost(kv, 1)) { set x = cached; }"), "cached", "always 0"),
    (
        "E405",
        program("pool kv { cap 9; }", "set u = used(kv); hold kv (cost(kv, u)) { }"),
        "u",
        "may be out of date",
    ),
    (
        "E406",
        program(
            "pool kv { cap 9; }",
            "hold kv (cost(kv, w)) { }",
            "workload { arrive poisson(1); hidden w; turn { set w = ~exp(1); } }",
        ),
        "w",
        "`w` is hidden",
    ),
    ("E407", program(server="set w = 1;"), "w", "the workload's"),
    ("E408", program("pool kv { cap 9; }", "grow kv (cost(kv, 1));"), "grow", "outside a hold"),
    (
        "E409",
        program("pool a { } pool b { }", "hold a (cost(a, 1)) { run s (cost(s, w)); } lease b (3);"),
        "b",
        "which the hold does not take",
    ),
    (
        "E410",
        program("pool a { }", "hold a (cost(a, x)) at admission (x = used(a)) { set y = x; run s (cost(s, w)); }"),
        "x",
        "depends on `used(a)`",
    ),
    (
        "E411",
        program(
            "pool a { } pool b { }",
            "hold a (cost(a, 1)) { hold b (cost(b, 1)) { run s (cost(s, w)); } set y = cached; } cache (cost(a, 1));",
        ),
        "cached",
        "of another hold",
    ),
    ("E501", "let a = 1;\n", "l", "no `fn main"),
    ("E502", f"fn main() {{ stage s : fifo; {SERVER} }}", "fn main", "no `workload"),
    ("E503", f"fn main() {{ stage s : fifo; {WORKLOAD} }}", "fn main", "no `server"),
    ("E504", program() + "fn main() { }", "fn", "declared twice"),
    (
        "E505",
        program(workload="workload { arrive poisson(1); session { end; } }", server="set x = 1;"),
        "{",
        "no `turn;`",
    ),
    ("E506", program(server="turn;"), "turn", "the session's"),
    ("E507", program(server="end;"), "end", "the session's"),
    ("E508", program(server="loop { set x = 1; }"), "loop", "letting time pass"),
    ("E509", program(workload="workload { turn { set w = 1; drop kv; } }", items="pool kv { }"), "drop", "may only"),
    ("E510", program("pool kv { cap 9; cap 8; }"), "cap", "given twice"),
    ("E511", program("stage e : step { budget 8; }"), "e", "no `cost`"),
    ("E512", program(server="run s (cost(s, w)); join;"), "join", "waits for nothing"),
    ("E513", program(server="fork { run s (cost(s, w)); }"), "fork", "never joins"),
    ("E514", program("stage t : ps(1); stage u : ps(2);", "run t, u (cost(t, u, w));"), "u", "how they are shared"),
    ("E515", program("pool a { }", "hold a (cost(a, 1)), a (cost(a, 1)) { run s (cost(s, w)); }"), "a", "`a` twice"),
    (
        "E516",
        program("pool a { preempt lifo; }", "hold a (cost(a, 1)) { fork { run s (cost(s, w)); } join; }"),
        "fork",
        "may be preempted",
    ),
]


@pytest.mark.parametrize(("code", "text", "under", "message"), CASES, ids=[case[0] for case in CASES])
def test_code(code: str, text: str, under: str, message: str) -> None:
    found = findings(text)
    assert [d.code for d in found] == [code]
    (diagnostic,) = found
    assert message in diagnostic.message
    assert diagnostic.file == "prog.sq"
    assert diagnostic.span is not None
    line = diagnostic.source_line
    assert text.splitlines()[diagnostic.span.line - 1] == line
    assert line[diagnostic.span.col - 1 : diagnostic.span.end_col - 1] == under
    if code[1] in "2345":  # what the program says wrongly: there is something to do about it
        assert diagnostic.help


def test_file_too_large() -> None:
    (found,) = findings("x" * (MAX_BYTES + 1))
    assert found.code == "E106"


def test_nul_characters() -> None:
    (found,) = findings("fn main() { \0 }")
    assert found.code == "E107"


@pytest.mark.parametrize(
    ("code", "data"),
    [
        ("E106", b"let a = 1;\n" * 1_000_000),
        ("E107", bytes(range(256)) * 100),
        ("E107", "let a = 1; // \u00e9".encode("latin-1")),
        ("E109", None),
        ("E108", None),
    ],
)
def test_file(code: str, data: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "prog.sq"
    if code == "E109":
        path = tmp_path / "prog.json"
        path.write_text('{"node": "Program", "version": 99}')
    elif data is not None:
        path.write_bytes(data)
    with pytest.raises(CompileError) as caught:
        compile_file(path)
    (found,) = caught.value.diagnostics
    assert found.code == code
    assert found.file == str(path)
    assert "\n" not in render(found)


def test_a_byte_order_mark_is_no_column(tmp_path: Path) -> None:
    (tmp_path / "prog.sq").write_bytes(b"\xef\xbb\xbffn main( { }")
    with pytest.raises(CompileError) as caught:
        compile_file(tmp_path / "prog.sq")
    (found,) = caught.value.diagnostics
    assert (found.span and found.span.col, found.source_line) == (10, "fn main( { }")


def test_directory(tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        compile_file(tmp_path)
    assert [d.code for d in caught.value.diagnostics] == ["E108"]


def test_every_code_is_tested() -> None:
    files = {"E106", "E107", "E108", "E109", "E110"}
    own = {code for code in CODES if code[:2] in ("E6", "E7")}  # stations and engines have tests of their own
    assert {case[0] for case in CASES} | files | own == set(CODES)


def test_advice_is_for_codes_that_exist() -> None:
    assert set(HELPS) <= set(CODES)


GOLDEN: list[tuple[str, str]] = [
    (
        program(server="set x = ww + 1;"),
        """\
prog.sq:7:9: error[E201]: unknown name `ww`
  7 | set x = ww + 1;
    |         ^^
  help: did you mean `w`?""",
    ),
    (
        program("let rate = 2;", "set x = raet;"),
        """\
prog.sq:7:9: error[E201]: unknown name `raet`
  7 | set x = raet;
    |         ^^^^
  help: did you mean `rate`?""",
    ),
    (
        program(server="set w = 2;"),
        """\
prog.sq:7:5: error[E407]: the server cannot set `w`: it is the workload's
  7 | set w = 2;
    |     ^
  help: use another name in the server
  note: the workload sets it here (prog.sq:5:42)
  5 | workload { arrive poisson(1); turn { set w = ~exp(1); } }
    |                                          ^""",
    ),
    (
        program("pool kv { cap 9; }", "hold kv (w) { run s (cost(s, w)); }"),
        """\
prog.sq:7:10: error[E301]: this needs a cost of `kv`: it is a plain number
  7 | hold kv (w) { run s (cost(s, w)); }
    |          ^
  help: write cost(kv, w)""",
    ),
    (
        program("pool kv { cap 9; }", "hold kv (cost(kv, 10)) { }"),
        """\
prog.sq:7:10: error[E306]: this asks for 10 units of `kv`, more than its cap of 9
  7 | hold kv (cost(kv, 10)) { }
    |          ^^^^^^^^^^^^
  help: such a request could never be admitted: raise the cap or ask for less
  note: the capacity is declared here (prog.sq:3:11)
  3 | pool kv { cap 9; }
    |           ^^^^^^""",
    ),
    (
        program(server="branch (0.25) { set x = 1; }"),
        """\
prog.sq:7:9: error[E307]: a guard is 0 or 1, and this is always 0.25
  7 | branch (0.25) { set x = 1; }
    |         ^^^^
  help: a probability is written: branch with (0.25)""",
    ),
    (
        program(server="set x = 1 < 2 < 3;"),
        """\
prog.sq:7:15: error[E104]: expected an operator or `;`, found `<`
  7 | set x = 1 < 2 < 3;
    |               ^
  help: comparisons do not chain: join two with `&&`""",
    ),
    (
        program(server="set x = 1\nset y = 2;"),
        """\
prog.sq:7:10: error[E104]: expected `;` after this statement
  7 | set x = 1
    |          ^""",
    ),
    (
        program(server="sett x = 1;"),
        """\
prog.sq:7:1: error[E104]: unknown statement `sett`
  7 | sett x = 1;
    | ^^^^
  help: did you mean `set`?""",
    ),
    (
        program("# a comment"),
        """\
prog.sq:3:1: error[E101]: unexpected character `#`
  3 | # a comment
    | ^
  help: comments are written // ... or /* ... */""",
    ),
    (
        program(server="set x = f(1);", top="def f(x) { x * rat }"),
        """\
prog.sq:1:16: error[E201]: unknown name `rat`
  1 | def f(x) { x * rat }
    |                ^^^
  help: names are constants (`let`), attributes (`set`), pools, stages and what the language supplies
  note: in this use of the definition (prog.sq:7:9)
  7 | set x = f(1);
    |         ^^^^""",
    ),
    (
        "fn main() {\n  stage s : fifo;\n",
        """\
prog.sq:2:17: error[E104]: expected a declaration or `}`, found the end of the text
  2 |   stage s : fifo;
    |                 ^
  note: this bracket is not closed (prog.sq:1:11)
  1 | fn main() {
    |           ^""",
    ),
]


@pytest.mark.parametrize(("text", "expected"), GOLDEN)
def test_rendering(text: str, expected: str) -> None:
    (found,) = findings(text)
    assert render(found) == expected


@pytest.mark.parametrize(
    ("server", "message", "help"),
    [
        ("while (0.25) { run s (cost(s, w)); }", "always 0.25", "a probability is written: while (~bernoulli(0.25))"),
        (
            "hold kv (cost(kv, 6)) { run s (cost(s, w)); }",
            "this asks for 6 units (8 in whole blocks) of `kv`, more than its cap of 7",
            "such a request could never be admitted: raise the cap or ask for less",
        ),
    ],
)
def test_what_is_wrong_and_what_to_do(server: str, message: str, help: str) -> None:
    (found,) = findings(program("pool kv { cap 7; block 4; }", server))
    assert message in found.message
    assert found.help == help


def test_all_errors_of_the_text_at_once() -> None:
    text = """\
use "std/args"
let a = 1 + ;
fn main() {
  pool kv { cap 5 evict lru; }
  stage s : fifoo;
  workload {
    arrive poisson(1);
    turn { set w = ~exp(1) set z = 3; set y = + 1; }
  }
  server {
    set x = (3 + 4;
    run s (cost(s, 1));
    branch x > 1 { observe a = 1; }
    set y = 1 $ 2;
  }
}
"""
    found = findings(text)
    assert {d.code for d in found} == {"E101", "E104"}
    assert [d.span.line for d in found if d.span] == [1, 2, 4, 5, 8, 8, 11, 13, 14]


def test_all_errors_of_the_names_at_once() -> None:
    found = findings(program("let a = b; pool kv { cap c; }", "set x = y; run t (cost(t, w)); drop q; set z = max(1);"))
    assert [d.code for d in found] == ["E205", "E205", "E201", "E201", "E201", "E201", "E203"]


def test_one_mistake_one_finding() -> None:
    """A wrong constant is not reported again where it is used."""
    found = findings(program("let a = nothing; let b = 2 * a;", "set x = a + b; set y = x; run s (cost(s, b));"))
    assert [d.code for d in found] == ["E205"]


def test_a_mistake_in_a_definition_counts_once() -> None:
    found = findings(program(server="set x = f(1) + f(2); set y = f(3);", top="def f(x) { x + oops }"))
    assert [d.code for d in found] == ["E201"]


def test_long_lines_are_cut() -> None:
    (found,) = findings(program(server=f"set x = {'1 + ' * 150} oops;"))
    assert max(map(len, render(found).splitlines())) < 200
    assert "^^^^" in render(found)


# --------------------------------------------------------------------------- rules, one by one

POOLS = "pool a { cap 9; } pool b { cap 9; } pool c[2] { cap 9; }"
RUN = "run s (cost(s, w));"
HIDDEN = "workload { arrive poisson(1); hidden w; turn { set w = ~exp(1); set v = 1; } }"


def outcome(text: str) -> list[str]:
    """The codes of a program's findings."""
    try:
        compile_text(text, "prog.sq")
    except CompileError as error:
        return [d.code for d in error.diagnostics]
    return []


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


# --------------------------------------------------------------------------- traces

HEADER = "session,turn,new,out,think\n"


def traced(path: Path, data: str | bytes, name: str = "t.csv") -> list[Diagnostic]:
    """The findings of a program that replays a trace with this content."""
    (path / "t.csv").write_bytes(data.encode() if isinstance(data, str) else data)
    workload = f'workload {{ arrive poisson(1); trace "{name}"; }}'
    (path / "prog.sq").write_text(program(server="run s (cost(s, new));", workload=workload))
    try:
        compile_file(path / "prog.sq")
    except CompileError as error:
        return list(error.diagnostics)
    return []


@pytest.mark.parametrize(
    ("data", "line", "under", "message"),
    [
        ("1,1,2,3\n", 2, "1,1,2,3", "5 or 6 fields, found 4"),
        ("1,1,2,3,4,5,6\n", 2, "1,1,2,3,4,5,6", "5 or 6 fields, found 7"),
        ("1,1,2,3,4\n\n# no\n1,1,x,3,4\n", 5, "x", "`x` in the column new"),
        ("1,1,2, 3,4\n", 2, " 3", "`" + " 3` in the column out"),
        ("1,1,2,3,4,\n", 2, "", "the column forced is empty"),
        ("a,1,2,3,4\n", 2, "a", "`a` in the column session"),
        ("1,1,2,3,nan\n", 2, "nan", "`nan` in the column think"),
        ("1,1,2,1e999,4\r\n", 2, "1e999", "out of range"),
    ],
)
def test_rows_of_a_trace(data: str, line: int, under: str, message: str, tmp_path: Path) -> None:
    (found,) = traced(tmp_path, HEADER + data)
    assert (found.code, Path(found.file).name) == ("E110", "t.csv")
    assert message in found.message
    assert found.help
    assert found.span is not None
    assert found.span.line == line
    assert found.source_line[found.span.col - 1 : found.span.end_col - 1] == under


def test_traces_that_are_none(tmp_path: Path) -> None:
    cases: list[tuple[bytes, str, str]] = [
        (HEADER.encode(), "t.csv", "E110"),
        (b"1,1,2,3,\xff\n", "t.csv", "E107"),
        (b"", "missing.csv", "E108"),
        (b"", ".", "E108"),
    ]
    for data, name, code in cases:
        (found,) = traced(tmp_path, data, name)
        assert (found.code, Path(found.file).name) == (code, "prog.sq")


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no /dev/zero here")
def test_a_trace_without_an_end(tmp_path: Path) -> None:
    (found,) = traced(tmp_path, "", "/dev/zero")
    assert (found.code, found.message) == ("E106", "the trace is larger than 200 MB")


def test_all_wrong_rows_at_once(tmp_path: Path) -> None:
    found = traced(tmp_path, "1,1,x,3,4\n1,1,1,1,1\n1,1\n")
    assert [d.span.line for d in found if d.span] == [1, 3]
    assert len(traced(tmp_path, "nonsense\n" * 1000)) == 20

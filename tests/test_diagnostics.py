"""One test per diagnostic code, and what a diagnostic looks like to the reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqc.advice import HELPS
from sqc.diagnostics import CODES, CompileError, render
from sqc.lower import compile_file
from sqc.syntax.files import MAX_BYTES
from wrong import SERVER, WORKLOAD, findings, program

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
    own = {code for code in CODES if code[:2] in ("E6", "E7", "E8")}  # these have tests of their own
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

"""Definitions: what they may do, files of them, bodies given from outside, a workload in a file of its own."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

import sqc
from sqc import ir
from sqc.cli import main
from sqc.diagnostics import CompileError, Diagnostic, render
from sqc.inputs import InputError
from sqc.lower import compile_file, compile_text

CaptureFixture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def files(**texts: str) -> None:
    """Write files: `lib__a` is the file lib/a.sq."""
    for name, text in texts.items():
        path = Path(name.replace("__", "/") + ".sq")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def findings(path: str = "main.sq", workload: str | None = None) -> tuple[Diagnostic, ...]:
    with pytest.raises(CompileError) as caught:
        compile_file(path, workload=Path(workload) if workload else None)
    return caught.value.diagnostics


def main_of(value: str, top: str = "", items: str = "", server: str = "") -> str:
    """A program that observes a value."""
    return (
        f"{top}\nfn main() {{ {items} stage s : fifo; workload {{ arrive poisson(1); turn {{ set w = ~exp(1); }} }} "
        f"server {{ {server} run s (cost(s, w)); observe o = {value}; }} }}\n"
    )


def observed(program: ir.Program) -> ir.Expr:
    """The value of the observation."""
    last = program.server[-1]
    assert isinstance(last, ir.Observe)
    return last.value


def value_of(text: str, defs: Mapping[str, str] | None = None) -> ir.Expr:
    return observed(compile_text(text, "main.sq", defs=defs))


def bare(program: ir.Program) -> str:
    """The IR without its text and spans."""
    text = ir.to_json(dataclasses.replace(program, file="", source=""))
    return re.sub(r'"span": (null|\{[^{}]*\})', '"span": null', text)


# --------------------------------------------------------------------------- definitions


def test_definitions_are_textual() -> None:
    """Arguments stay whole: twice(1 + 2) is (1 + 2) * 2."""
    assert value_of(main_of("twice(w + 2)", "def twice(x) { x * 2 }")) == ir.Binary(
        "*", ir.Binary("+", ir.Attr("w"), ir.Const(2.0)), ir.Const(2.0)
    )


def test_statement_definitions_take_stages() -> None:
    text = main_of("now - t0", "def timed(s, x) { set t0 = now; run s (cost(s, x)); }", server="timed(s, w * 2);")
    names = [type(s).__name__ for s in compile_text(text).server]
    assert names == ["Set", "Run", "Run", "Observe"]


@pytest.mark.parametrize(
    ("text", "code", "under", "message"),
    [
        (main_of("f(~exp(1))", "def f(x) { x + x }"), "E214", "~exp(1)", "draws"),
        (main_of("1", "def f(x) { set y = 2; observe q = x; }", server="set y = 1; f(y);"), "E214", "y", "assigns"),
        (
            main_of("1", "def f(x) { choose y in 2 by (y); observe q = x; }", server="set y = 1; f(y);"),
            "E214",
            "y",
            "assigns",
        ),
        (
            main_of(
                "1",
                "def f(x) { hold p (cost(p, z)) at admission (z = 1) { observe q = x; } }",
                "pool p { cap 4; }",
                "f(z);",
            ),
            "E214",
            "z",
            "assigns",
        ),
        (main_of("1", "def f(x) { observe q = x; }", server="f(now);"), "E214", "now", "changes"),
        (main_of("1", "def f(x) { observe q = x; }", server="f(queue(s));"), "E214", "queue(s)", "changes"),
        (main_of("f(1)", "def f(x) { f(x) }"), "E213", "f", "uses itself"),
        (main_of("g(1)", "def g(x) { f(x) } def f(x) { g(x) }"), "E213", "f", "uses itself"),
        (main_of("g(1)", "def g(x) { f(x) } def f(x) { x }"), "E212", "f", "defined later"),
        (main_of("f(1)", "def f(x) { x } def f(x) { 2 }"), "E204", "f", "defined twice"),
        (main_of("1", "def f(x) { set x = 2; }", server="f(1);"), "E204", "x", "is a parameter"),
        (main_of("1", "def f(x) { observe x = 2; }", server="f(1);"), "E204", "x", "is a parameter"),
        (main_of("f(1, 2)", "def f(x, x) { x }"), "E204", "x", "declared twice"),
        (main_of("f(1)", "def f(now) { now }"), "E204", "now", "the language supplies"),
        (main_of("exp(1)", "def exp(x) { x }"), "E204", "exp", "a word of the language"),
    ],
)
def test_what_definitions_may_not_do(text: str, code: str, under: str, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_text(text)
    (found,) = caught.value.diagnostics
    assert found.code == code
    assert message in found.message
    assert found.span is not None
    assert found.source_line[found.span.col - 1 : found.span.end_col - 1] == under


def test_an_expression_definition_may_read_the_clock_through_its_argument() -> None:
    assert value_of(main_of("f(now)", "def f(x) { x + x }")) == ir.Binary("+", ir.Now(), ir.Now())


def test_a_draw_that_is_read_once_or_not_at_all() -> None:
    assert value_of(main_of("f(~exp(2))", "def f(x) { x + 1 }")) == ir.Binary(
        "+", ir.Draw("exp", (ir.Const(2.0),)), ir.Const(1.0)
    )
    assert value_of(main_of("f(~exp(2))", "def f(x) { 1 }")) == ir.Const(1.0)


# --------------------------------------------------------------------------- files of definitions


def test_use_is_relative_to_the_file_that_says_it() -> None:
    files(
        main=main_of("f(w)", 'use "lib/a.sq";'),
        lib__a='use "b.sq"; def f(x) { g(x) + c }',
        lib__b="let c = 5; def g(x) { x * 3 }",
    )
    assert observed(compile_file("main.sq")) == ir.Binary(
        "+", ir.Binary("*", ir.Attr("w"), ir.Const(3.0)), ir.Const(5.0)
    )


def test_use_without_the_ending() -> None:
    files(main=main_of("f(w)", 'use "a";'), a="def f(x) { x }")
    assert observed(compile_file("main.sq")) == ir.Attr("w")


def test_use_inside_main() -> None:
    files(main=main_of("f(w)", items='use "a.sq";'), a="def f(x) { x }")
    assert observed(compile_file("main.sq")) == ir.Attr("w")


def test_a_file_is_read_once_however_often_it_is_used() -> None:
    files(
        main=main_of("f(w) + g(w)", 'use "a.sq"; use "b.sq"; use "./c.sq";'),
        a='use "c.sq"; def f(x) { h(x) }',
        b='use "c.sq"; def g(x) { h(x) }',
        c="def h(x) { x }",
    )
    assert observed(compile_file("main.sq")) == ir.Binary("+", ir.Attr("w"), ir.Attr("w"))


def test_definitions_of_a_file_come_where_it_is_used() -> None:
    files(main=main_of("g(w)", 'def g(x) { f(x) } use "a.sq";'), a="def f(x) { x }")
    (found,) = findings()
    assert (found.code, found.file) == ("E212", "main.sq")
    files(main=main_of("g(w)", 'use "a.sq"; def g(x) { f(x) }'))
    assert observed(compile_file("main.sq")) == ir.Attr("w")


@pytest.mark.parametrize(
    ("texts", "message", "notes"),
    [
        ({"a": 'use "a.sq"; def f(x) { x }'}, "`a.sq` uses itself", []),
        (
            {"a": 'use "b.sq"; def f(x) { x }', "b": 'use "a.sq";'},
            "`a.sq` uses itself",
            ["the circle is a.sq -> b.sq -> a.sq", "the file is used here"],
        ),
        ({"a": 'use "main.sq"; def f(x) { x }'}, "`main.sq` uses itself", []),
    ],
)
def test_circles(texts: dict[str, str], message: str, notes: list[str]) -> None:
    files(main=main_of("f(w)", 'use "a.sq";'), **texts)
    (found,) = findings()
    assert (found.code, found.message) == ("E216", message)
    assert [n.message for n in found.notes][: len(notes)] == notes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fn main() { }", "may not contain `fn main`"),
        ("workload { }", "may not contain `workload`"),
    ],
)
def test_a_file_of_definitions_has_nothing_else(text: str, message: str) -> None:
    files(main=main_of("1", 'use "a.sq";'), a=text)
    (found,) = findings()
    assert (found.code, found.file) == ("E216", "a.sq")
    assert message in found.message


def test_a_file_that_is_not_there() -> None:
    files(main=main_of("1", 'use "nothing.sq";'))
    (found,) = findings()
    assert (found.code, found.file) == ("E216", "main.sq")
    assert found.message == "cannot read the file: No such file or directory"
    assert found.help == "a path is relative to the file that uses it"


@pytest.mark.parametrize(
    ("name", "message"), [("a" * 5000, "File name too long"), ("loop", "Too many levels of symbolic links")]
)
def test_a_file_that_cannot_be(name: str, message: str) -> None:
    Path("loop.sq").symlink_to("loop.sq")
    files(main=main_of("1", f'use "{name}.sq";'))
    (found,) = findings()
    assert (found.code, found.message) == ("E216", f"cannot read the file: {message}")


GOLDEN = [
    (  # the text of the library
        {"a": "def f(x) { x + }"},
        """\
a.sq:1:16: error[E104]: expected an expression, found `}`
  1 | def f(x) { x + }
    |                ^
  note: the file is used here (main.sq:1:5)
  1 | use "a.sq";
    |     ^^^^^^""",
    ),
    (  # a mistake in a body, found where it is expanded
        {"a": "def f(x) { x + oops }"},
        """\
a.sq:1:16: error[E201]: unknown name `oops`
  1 | def f(x) { x + oops }
    |                ^^^^
  help: names are constants (`let`), attributes (`set`), pools, stages and what the language supplies
  note: in this use of the definition (main.sq:2:130)""",
    ),
    (  # a mistake of the definition itself, in a file used by the used one
        {"a": 'use "b.sq"; def f(x) { x }', "b": "def g(x, x) { x }"},
        """\
b.sq:1:10: error[E204]: the parameter `x` is declared twice
  1 | def g(x, x) { x }
    |          ^
  help: use another name for one of them
  note: the file is used here (a.sq:1:5)
  1 | use "b.sq"; def f(x) { x }
    |     ^^^^^^""",
    ),
    (
        {"a": "def f(x) { 1 + x }"},
        """\
main.sq:2:132: error[E201]: unknown name `oops`
  2 | fn main() {""",
    ),
]


@pytest.mark.parametrize(("texts", "expected"), GOLDEN)
def test_errors_show_the_library_and_the_use(texts: dict[str, str], expected: str) -> None:
    argument = "oops" if "1 + x" in texts["a"] else "w"
    files(main=main_of(f"f({argument})", 'use "a.sq";'), **texts)
    (found,) = findings()
    assert render(found).startswith(expected)


def test_a_run_time_error_in_a_library_is_shown_at_its_use() -> None:
    """Statements of a library have the place of their use in the program's text."""
    files(main=main_of("1", 'use "a.sq";', server="go(w);"), a="def go(x) { set y = x; }")
    program = compile_file("main.sq")
    span = next(s.span for s in program.server if isinstance(s, ir.Set))
    assert span is not None
    line = program.source.splitlines()[span.line - 1]
    assert line[span.col - 1 : span.end_col - 1] == "go(w);"


# --------------------------------------------------------------------------- bodies from outside

LAW = main_of("law(3)", "let k = 7; def half(x) { x / 2 } def law(mean) { ~exp(mean) }")


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("4", ir.Const(4.0)),
        ("2 * 3 + 1", ir.Const(7.0)),
        ("mean", ir.Const(3.0)),
        ("~det(mean)", ir.Draw("det", (ir.Const(3.0),))),
        ("half(mean) + k", ir.Const(8.5)),
        ("w", ir.Attr("w")),
        ("4 // as before", ir.Const(4.0)),
    ],
)
def test_override(body: str, value: ir.Expr) -> None:
    """A new body may read what the old one could: parameters, constants, earlier definitions, attributes."""
    assert value_of(LAW, {"law": body}) == value


def test_override_of_a_library() -> None:
    files(main=main_of("f(w)", 'use "a.sq";'), a="def f(x) { x }")
    assert observed(compile_file("main.sq", defs={"f": "2"})) == ir.Const(2.0)


def test_override_from_python() -> None:
    program = sqc.compile(source=LAW, defs={"law": 2.5, "half": "x"})
    assert observed(program.ir) == ir.Const(2.5)


@pytest.mark.parametrize(
    ("defs", "message"),
    [
        ({"lav": "1"}, "unknown definition lav (did you mean law?)"),
        ({"k": "1"}, "unknown definition k"),
        ({"go": "1"}, "definition go: it is statements; only an expression can be replaced"),
        ({"law": ""}, "definition law: '' is no expression"),
        ({"law": "4 +"}, "definition law: '4 +' is no expression: expected an expression, found the end of the text"),
        ({"law": "{ 4 }"}, "definition law: '{ 4 }' is no expression: expected"),
        ({"law": "1 } def x() { 2"}, "definition law: '1 } def x() { 2' is no expression"),
        ({"law": "set a = 1;"}, "definition law: 'set a = 1;' is no expression"),
    ],
)
def test_wrong_overrides(defs: dict[str, str], message: str) -> None:
    text = LAW.replace("fn main", "def go() { set a = 1; } fn main")
    with pytest.raises(InputError) as caught:
        sqc.compile(source=text, defs=defs)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_mistake_in_an_override_shows_the_definition() -> None:
    with pytest.raises(CompileError) as caught:
        value_of(LAW, {"law": "mean + oops"})
    (found,) = caught.value.diagnostics
    assert (found.code, found.file) == ("E201", "--def")
    assert found.source_line == "def law(mean) { mean + oops"


# --------------------------------------------------------------------------- a workload in a file of its own

WORKLOAD = "workload { arrive poisson(rate); turn { set w = law(2); } session { turn; turn; } }"
WHOLE = f"""
use "std/args";
def law(mean) {{ ~exp(mean) }}
fn main() {{
  let rate = args.number("rate", 0.5);
  pool kv {{ cap 9; }}
  stage s : fifo;
  {WORKLOAD}
  server {{ hold kv (cost(kv, 1)) {{ run s (cost(s, w)); }} observe o = w; }}
}}
"""
MODEL = (
    WHOLE.replace(WORKLOAD, "").replace('  let rate = args.number("rate", 0.5);\n', "").replace('use "std/args";', "")
)
LOAD = f'use "std/args";\nlet rate = args.number("rate", 0.5);\n{WORKLOAD}\n'


def test_a_workload_of_its_own_is_the_same_program() -> None:
    files(model=MODEL, load=LOAD)
    made = compile_file("model.sq", workload=Path("load.sq"))
    assert bare(made) == bare(compile_text(WHOLE))
    assert [declared.name for declared in made.inputs] == ["rate"]


def test_a_workload_of_its_own_uses_files_beside_it() -> None:
    files(
        model=MODEL.replace("def law(mean) { ~exp(mean) }", ""),
        loads__load=f'use "laws.sq";\nlet rate = 1;\n{WORKLOAD}',
        loads__laws="def law(mean) { ~det(mean) }",
    )
    (mark,) = compile_file("model.sq", workload=Path("loads/load.sq")).turn
    assert isinstance(mark, ir.Set)
    assert mark.value == ir.Draw("det", (ir.Const(2.0),))


def test_statements_of_a_workload_file_have_no_place_in_the_program() -> None:
    files(model=MODEL, load=LOAD)
    made = compile_file("model.sq", workload=Path("load.sq"))
    assert [s.span for s in (*made.turn, *made.session)] == [None, None, None]
    assert all(s.span is not None for s in made.server)


def test_a_workload_from_python() -> None:
    files(model=MODEL, load=LOAD)
    assert sqc.compile("model.sq", workload="load.sq", defs={"law": "mean"}).inputs == {"rate": 0.5}
    assert sqc.compile(source=MODEL, workload="load.sq").inputs == {"rate": 0.5}


def test_without_a_workload() -> None:
    files(model=MODEL)
    (found,) = findings("model.sq")
    assert found.code == "E502"
    assert found.help is not None
    assert "--workload FILE" in found.help


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("let a = 1;", "E502", "this file has no `workload { ... }`"),
        ("", "E502", "this file has no `workload { ... }`"),
        (LOAD + "workload { }", "E504", "`workload` is declared twice"),
        (LOAD + "fn main() { }", "E216", "a workload's file may not contain `fn main`"),
        (LOAD + "let cap = 4;", "E204", "`cap` is a constant of the program: its workload cannot change it"),
        (LOAD.replace("arrive", "arive"), "E104", "expected `arrive`"),
        (LOAD.replace("law(2)", "lav(2)"), "E202", "unknown function `lav`"),
        (LOAD.replace("set w", "set kv"), "E204", "`kv` is a pool: it cannot also be an attribute"),
    ],
)
def test_wrong_workload_files(text: str, code: str, message: str) -> None:
    files(model=MODEL.replace("cap 9", "cap cap").replace("pool kv", "let cap = 9; pool kv"), load=text)
    found = findings("model.sq", "load.sq")[0]
    assert (found.code, found.file) == (code, "load.sq")
    assert found.message.startswith(message)


def test_a_program_with_two_workloads() -> None:
    files(model=WHOLE.replace("rate", "fast"), load=LOAD)
    (found,) = findings("model.sq", "load.sq")
    assert (found.code, found.message) == ("E504", "`workload` is declared twice")


def test_a_workload_at_the_top_of_a_program() -> None:
    files(load=LOAD)
    (found,) = findings("load.sq")
    assert (found.code, found.help) == ("E502", "name that file: --workload FILE")


# --------------------------------------------------------------------------- the command line


def command(capsys: CaptureFixture, *words: str) -> tuple[int, str, str]:
    code = main(list(words))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_command_line(capsys: CaptureFixture) -> None:
    files(model=MODEL, load=LOAD)
    code, out, err = command(capsys, "check", "model.sq", "--workload", "load.sq")
    assert (code, err) == (0, "")
    assert "inputs     rate = 0.5" in out
    words = ("ir", "model.sq", "--workload", "load.sq", "--def", "law=2 * mean")
    code, out, err = command(capsys, *words)
    assert (code, err) == (0, "")
    assert json.loads(out)["turn"][0]["value"] == {"node": "Const", "value": 4.0}


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--def", "law"], 2, "sqc check: --def law: write --def NAME=EXPR\n"),
        (["--def", "law=1", "--def", "law=2"], 2, "sqc check: definition law is set twice\n"),
        (["--def", "lav=1"], 2, "sqc check: unknown definition lav (did you mean law?)\n"),
        (["--def", "law="], 2, "sqc check: definition law: '' is no expression\n"),
        (["--workload", "nothing.sq"], 1, "nothing.sq: error[E108]: cannot read the file: No such file or directory\n"),
    ],
)
def test_wrong_usage(capsys: CaptureFixture, words: list[str], code: int, text: str) -> None:
    files(whole=WHOLE)
    assert command(capsys, "check", "whole.sq", *words) == (code, "", text)


def test_an_ir_takes_neither(capsys: CaptureFixture) -> None:
    files(whole=WHOLE, load=LOAD)
    Path("whole.json").write_text(command(capsys, "ir", "whole.sq")[1], encoding="utf-8")
    for words in (("--def", "law=1"), ("--workload", "load.sq")):
        code, _, err = command(capsys, "check", "whole.json", *words)
        assert code == 2
        assert err == "sqc check: whole.json: an IR has its workload and definitions; give the program's text\n"

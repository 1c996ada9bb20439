"""The formatter: what it prints, what it never changes, and the command `sqc fmt`."""

from __future__ import annotations

import io
import os
import re
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sqc.format.text
from spellings import meaning
from sqc.cli import main
from sqc.diagnostics import Reporter, Source
from sqc.format import format_text
from sqc.format.document import CUT, END, LINE, Group, Nest, Trail, Verbatim, rows
from sqc.syntax.tokens import tokenize

TESTS = Path(__file__).parent
PROGRAMS = sorted((TESTS.parent / "programs").glob("*.sq"))
CORPUS = [*sorted((TESTS / "corpus").glob("*.sq")), *PROGRAMS]
FOUNDING = TESTS / "corpus" / "04-cache.sq"
CaptureFixture = pytest.CaptureFixture[str]

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
IDS = [path.stem for path in CORPUS]


def words(text: str) -> list[str]:
    return [token.text for token in tokenize(Source("prog.sq", text), Reporter())]


def comments(text: str) -> list[str]:
    """The words of all comments; the corpus has no texts with `//` or `/*`."""
    return " ".join(COMMENT.findall(text)).split()


def joined(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


def server(*lines: str) -> str:
    """Statements in a program, as the formatter prints them."""
    return joined("fn main() {", "  server {", *(f"    {line}" if line else "" for line in lines), "  }", "}")


def statements(text: str) -> str:
    return "fn main(){\nserver{\n" + text + "\n}\n}"


# ----------------------------------------------------------------------------- the style


@pytest.mark.parametrize("path", [FOUNDING, *PROGRAMS], ids=lambda path: path.stem)
def test_founding_style(path: Path) -> None:
    """The founding program and ours are what the formatter makes of them."""
    text = path.read_text(encoding="utf-8")
    assert format_text(text) == text


def test_founding_program_out_of_any_layout() -> None:
    """With all blanks gone wrong it comes out as it was, except for what only the layout says:
    blank lines, which comments have a line of their own, and which blocks were on one line."""
    founding = FOUNDING.read_text(encoding="utf-8")
    squeezed = "\n".join(words(founding)[:-1])
    lines = [line for line in founding.splitlines() if line and not line.lstrip().startswith("//")]
    assert founding.count("// KV pool") == 1
    expected = "\n".join(line.split("  //")[0].rstrip() for line in lines)
    made = re.sub(r"\{\n\s+([^{}\n]*;)\n\s+\}", r"{ \1 }", format_text(squeezed))
    short = [
        ("pool kv {\n    cap C;\n    evict lru;\n  }", "pool kv { cap C; evict lru; }"),
        ("{\n          drop kv;\n          end;\n        }", "{ drop kv; end; }"),
    ]
    for long, oneline in short:
        assert long in made
        made = made.replace(long, oneline)
    assert made == expected + "\n"


GOLDEN = {
    "blanks": (
        'use"std/args" ;let a=- 2^ -b ;let c=( 1+2 )*x [ 3 ];def f( k ){2e-4*k}',
        joined('use "std/args";', "let a = -2^-b;", "let c = (1 + 2) * x[3];", "def f(k) { 2e-4 * k }"),
    ),
    "numbers and names as written": (
        "let a=1_000;let b=.5;let c=5.;let d=2E+5;let while=1;",
        joined("let a = 1_000;", "let b = .5;", "let c = 5.;", "let d = 2E+5;", "let while = 1;"),
    ),
    "operators": (
        statements("set a=!x&&-y<=~exp( 1 )||b!=c?d:-e;set z=a- -b-(-c);"),
        server("set a = !x && -y <= ~exp(1) || b != c ? d : -e;", "set z = a - -b - (-c);"),
    ),
    "brackets after words": (
        statements(
            "run a[i],b(w);hold kv[0](cost(kv,1)),m(cost(m,2))reserve(cost(m,3)){run(x);}cache(cost(kv,1))lease kv(2);"
            "tool(z);tool f(z);tool[2](z);prefill on e(n);decode on e(f(n))growing kv;f(1,2);g.route();P[i].go(w);"
            "D.go(n)from P[i]to kv(m);transfer on L,M(x)from P to kv(n);choose j in floor(x)by(j,k(1));"
            "set m=max k in 2(used(kv[k]))+sum k in(n+1)(k)+min(a,b);while(x){turn;}branch with(p){end;}"
        ),
        server(
            "run a[i], b (w);",
            "hold kv[0] (cost(kv, 1)), m (cost(m, 2)) reserve (cost(m, 3)) {",
            "  run (x);",
            "} cache (cost(kv, 1)) lease kv (2);",
            "tool (z);",
            "tool f(z);",
            "tool[2] (z);",
            "prefill on e (n);",
            "decode on e (f(n)) growing kv;",
            "f(1, 2);",
            "g.route();",
            "P[i].go (w);",
            "D.go (n) from P[i] to kv (m);",
            "transfer on L, M (x) from P to kv (n);",
            "choose j in floor(x) by (j, k(1));",
            "set m = max k in 2 (used(kv[k])) + sum k in (n + 1) (k) + min(a, b);",
            "while (x) { turn; }",
            "branch with (p) { end; }",
        ),
    ),
    "declarations": (
        "fn main(){pool kv[2]{cap max(a,b);evict by(waiting,-size);spill d via l(1)when(size>2);}stage s[2]:fifo(3);"
        "stage e:step{budget 2;cost f(tokens);serve only(p)by(k);};claim q given(a<b):every iteration of e(x);"
        "queue P[2]:prefill,decode{serve ps(2)latency 1;go(n)from Q{mark m;}route{mark m;}}k.pull(P,Q,latency=2);}",
        joined(
            "fn main() {",
            "  pool kv[2] { cap max(a, b); evict by (waiting, -size); spill d via l (1) when (size > 2); }",
            "  stage s[2] : fifo(3);",
            "  stage e : step { budget 2; cost f(tokens); serve only (p) by (k); };",
            "  claim q given (a < b) : every iteration of e (x);",
            "  queue P[2] : prefill, decode {",
            "    serve ps(2) latency 1;",
            "    go (n) from Q { mark m; }",
            "    route { mark m; }",
            "  }",
            "  k.pull (P, Q, latency = 2);",
            "}",
        ),
    ),
    "records": (
        statements("Cost c={s:a>1?b:c,kv:e2};"),
        server("Cost c = { s: a > 1 ? b : c, kv: e2 };"),
    ),
    "no semicolon after a hold": (
        statements("hold kv(1){turn;}cache(2)set x=1;hold kv(1){turn;}\nlease kv[0](2)\nset y=1;"),
        server(
            "hold kv (1) { turn; } cache (2)",
            "set x = 1;",
            "hold kv (1) { turn; } lease kv[0] (2)",
            "set y = 1;",
        ),
    ),
    "names that look like clauses": (
        statements("branch(x){turn;}cache(1);branch(x){turn;}lease(1);"),
        server("branch (x) { turn; }", "cache(1);", "branch (x) { turn; }", "lease(1);"),
    ),
    "blank lines": (
        "\n\nlet a=1;\n\n\n\n// c\n\n\nfn main(){\n\n\nlet b=2;\nlet c=3;\n\nlet d=4;\n\n}\n\n",
        joined(
            *("let a = 1;", "", "// c", "", "fn main() {", "  let b = 2;", "  let c = 3;", "", "  let d = 4;", "}"),
        ),
    ),
    "comments stand where they stood": (
        "/* a */ let a=1;//one\nlet b=/* two */2/*three*/;/*four*/ // five\n//six\n\n"
        "/*seven*/\nfn main(){//eight\n//nine\n}//ten",
        joined(
            "/* a */ let a = 1;                        //one",
            "let b = /* two */ 2 /*three*/;            /*four*/ // five",
            "//six",
            "",
            "/*seven*/",
            "fn main() {                               //eight",
            "  //nine",
            "}                                         //ten",
        ),
    ),
    "comments between the parts of a statement": (
        statements("set x=a// first\n+b// second\n;branch(x){turn;}// else\nelse{turn;// here\n}\n// end\n"),
        server(
            "set x = a                             // first",
            "  + b                                 // second",
            "  ;",
            "branch (x) { turn; }                  // else",
            "else {",
            "  turn;                               // here",
            "}",
            "// end",
        ),
    ),
    "comments of several lines move with their code": (
        "fn main(){\n/* a\n   b\n\n c */\n      /* d\n         e */\nlet x=1; /* f\n g */\n}",
        joined(
            *("fn main() {", "  /* a", "     b", "", "   c */", "  /* d", "     e */"),
            *("  let x = 1;                              /* f", " g */", "}"),
        ),
    ),
    "comments at the ends of long lines": (
        "let aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa=1;//a\nlet b=1;//b\n\nlet c=1;//c\n"
        "let ddddddddddddddddddddddddddddddddddddddddddddddddddddddddd=1;//d\n",
        joined(
            "let aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa = 1;  //a",
            f"let b = 1;{' ' * 45}//b",
            "",
            "let c = 1;                                //c",
            "let ddddddddddddddddddddddddddddddddddddddddddddddddddddddddd = 1;  //d",
        ),
    ),
    "blocks on one line stay there": (
        statements("branch(x){turn;}else{end;}branch(x){turn;\n}else{end;}loop{\n}fork{turn;turn;}"),
        server(
            "branch (x) { turn; } else { end; }",
            *("branch (x) {", "  turn;", "} else { end; }"),
            "loop {}",
            "fork { turn; turn; }",
        ),
    ),
    "blocks that do not fit": (
        statements(
            "branch(aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa){observe bbbbbbbbbbbbbbbbbbbbbbb=1;}"
            "else{loop{observe ccccccc=1;}}"
        ),
        server(
            "branch (aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa) {",
            "  observe bbbbbbbbbbbbbbbbbbbbbbb = 1;",
            "} else {",
            "  loop { observe ccccccc = 1; }",
            "}",
        ),
    ),
    "long headers": (
        statements(
            "hold reqs(cost(reqs,1)),kv(cost(kv,min(known,hit+budget_left(e))))"
            "at admission(hit=min(cachedin(kv),1)){turn;}"
            "hold aaaaaaaaaaaaaaaaaaaaaaa(cost(aaaaaaaaaaaaaaaaaaaaaaa,1)),"
            "bbbbbbbbbbbbbbbbbbbbbbbbb(cost(bbbbbbbbbbb,1)){turn;}"
        ),
        server(
            "hold reqs (cost(reqs, 1)), kv (cost(kv, min(known, hit + budget_left(e))))",
            "    at admission (hit = min(cachedin(kv), 1)) {",
            "  turn;",
            "}",
            "hold aaaaaaaaaaaaaaaaaaaaaaa (cost(aaaaaaaaaaaaaaaaaaaaaaa, 1)),",
            "    bbbbbbbbbbbbbbbbbbbbbbbbb (cost(bbbbbbbbbbb, 1)) {",
            "  turn;",
            "}",
        ),
    ),
    "long expressions": (
        statements(
            "set x=aaaaaaaaaaaaaaaaaaaaaaaaa"
            "+bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb*cccccccccccccccccccccccccc-dddddddddddddddd;"
            "choose j in R by(aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
            "+(j==at?0:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb),j==at?0:1);"
        ),
        server(
            "set x = aaaaaaaaaaaaaaaaaaaaaaaaa",
            "  + bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb * cccccccccccccccccccccccccc",
            "  - dddddddddddddddd;",
            "choose j in R by (",
            "  aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa + (j == at ? 0 : bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb),",
            "  j == at ? 0 : 1);",
        ),
    ),
    "nothing": ("", ""),
    "only comments": ("\n\n//a\n\n\n/* b */ // c", "//a\n\n/* b */ // c\n"),
    "a byte order mark": ("\ufefflet a=1;", "let a = 1;\n"),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str) -> None:
    text, expected = GOLDEN[name]
    assert format_text(text) == expected
    assert format_text(expected) == expected


def test_line_ends_are_those_of_the_first_line() -> None:
    assert format_text("let a=1;\r\nlet b=2;\n/* c\r\n d */ ") == "let a = 1;\r\nlet b = 2;\r\n/* c\r\n d */\r\n"
    assert format_text("let a=1;//b\nlet b=2;\r\n") == f"let a = 1;{' ' * 32}//b\nlet b = 2;\n"


def test_deep_nesting() -> None:
    inner = "(" * 190 + "1" + ")" * 190
    assert format_text(f"let x={inner};") == f"let x = {inner};\n"
    made = format_text(statements("loop{" * 90 + "turn;" + "}" * 90))
    assert made.count("loop {") == 90
    assert format_text(made) == made


# ----------------------------------------------------------------------------- the other spelling


@pytest.mark.parametrize(
    ("seed", "other"),
    [
        ("branch (x) { turn; }", "if (x) { turn; }"),
        ("branch with (p) { turn; } else { end; }", "if (~bernoulli(p)) { turn; } else { end; }"),
        ("branch with ((p)) { turn; }", "if (~bernoulli((p))) { turn; }"),
        ("branch (~bernoulli(p) && x) { turn; }", "if (~bernoulli(p) && x) { turn; }"),
        ("branch (x) { branch with (f(1) + 2) { turn; } }", "if (x) { if (~bernoulli(f(1) + 2)) { turn; } }"),
        ("branch with (/* a */ p /* b */) { turn; }", "if (~bernoulli(/* a */ p /* b */)) { turn; }"),
    ],
)
def test_spellings(seed: str, other: str) -> None:
    seed, other = server(seed), server(other)
    assert format_text(seed, spelling="if") == other
    assert format_text(other, spelling="seed") == seed
    for text in (seed, other):
        assert format_text(text) == text  # left alone unless asked for
    assert format_text(seed, spelling="seed") == seed
    assert format_text(other, spelling="if") == other


def test_comments_survive_what_a_spelling_leaves_out() -> None:
    text = statements(
        "if/*a*/(/*b*/~/*c*/bernoulli/*d*/(/*e*/p/*f*/)/*g*/)/*h*/{turn;}\nif(~ // i\nbernoulli(p)){turn;}"
    )
    made = format_text(text, spelling="seed")
    assert comments(made) == [*(f"/*{letter}*/" for letter in "abcdefgh"), "//", "i"]
    assert words(made) == words(statements("branch with(p){turn;}branch with(p){turn;}"))
    text = statements("branch/*a*/with/*b*/(/*c*/p)// d\n{turn;}")
    made = format_text(text, spelling="if")
    assert comments(made) == ["/*a*/", "/*b*/", "/*c*/", "//", "d"]
    assert words(made) == words(statements("if(~bernoulli(p)){turn;}"))


def test_where_the_language_has_one_spelling() -> None:
    """An iteration's body knows no `if`, a schedule no `branch with`."""
    step = "fn main() { stage e : step { cost 1; iteration { branch (x) { serve; } else { admit; } } } }\n"
    assert format_text(step, spelling="if") == step
    schedule = "fn main() {{ engine e on g {{ schedule {{ {} ({}) {{ advance running; }} }} }} }}\n"
    assert format_text(schedule.format("branch", "x"), spelling="if") == schedule.format("if", "x")
    draw = "~bernoulli(p)"
    assert format_text(schedule.format("if", draw), spelling="seed") == schedule.format("branch", draw)


# ----------------------------------------------------------------------------- what never changes


@pytest.mark.parametrize("path", CORPUS, ids=IDS)
def test_programs_keep_their_words_and_meaning(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    made = format_text(text)
    assert format_text(made) == made
    assert words(made) == words(text)
    assert comments(made) == comments(text)
    assert max(map(len, COMMENT.sub("", made).split("\n"))) <= 100
    assert meaning(made, path.parent) == meaning(text, path.parent)


@pytest.mark.parametrize("path", CORPUS, ids=IDS)
def test_programs_in_the_other_spelling(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    other = format_text(text, spelling="if")
    assert format_text(other, spelling="if") == other
    assert " with (" not in COMMENT.sub("", other)
    assert meaning(other, path.parent) == meaning(text, path.parent)
    seed = format_text(other, spelling="seed")
    assert words(seed) == words(text)
    assert comments(seed) == comments(other) == comments(text)


GAPS = (
    *("", " ", "   ", "\n", "\n\n", "\n\n\n\t", "\r\n", " // c\n", "// d\n\n", "/* e */", " /* f */ ", "\n/* g */\n"),
    *("/* h\n   i */", "\n  // j\n", "\n /* k\n    l\n */ /* m */ // n  \n", " //\n", "\n\n// o\n\n\n// p\n", "/**/"),
)
TOKENS = {path.stem: words(path.read_text(encoding="utf-8"))[:-1] for path in CORPUS}


def spaced(tokens: list[str], usual: str, gaps: list[tuple[int, str]]) -> str:
    """Tokens with a usual gap between them, and others before some; the last is before the end."""
    between = [usual] * (len(tokens) + 1)
    for at, gap in gaps:
        between[at % len(between)] += gap
    made = ""
    for gap, token in zip(between, [*tokens, ""], strict=True):
        # no gap only where two tokens stay two, and no division that begins a comment
        apart = made and token and not (made[-1] in "()[]{},;" or token[0] in "()[]{},;")
        made += (" " if apart and gap[:1] in ("", "/") else "") + gap + token
    return made


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(sorted(TOKENS)),
    st.sampled_from(["", " ", "\n"]),
    st.lists(st.tuples(st.integers(0, 500), st.sampled_from(GAPS)), max_size=60),
    st.sampled_from(["seed", "if"]),
)
@example("04-cache", "", [(0, "// a"), (0, "\n\n")], "if")
@example("04-cache", " ", [(len(TOKENS["04-cache"]), "/* the end */")], "seed")
def test_any_layout(name: str, usual: str, gaps: list[tuple[int, str]], spelling: str) -> None:
    tokens = TOKENS[name]
    text = spaced(tokens, usual, gaps)
    made = format_text(text)
    assert words(made)[:-1] == tokens
    assert comments(made) == comments(text)
    assert format_text(made) == made
    lines = made.split("\r\n" if "\r" in made else "\n")
    assert lines.pop() == ""
    assert lines[0]
    assert lines[-1]
    assert all(line == line.rstrip() for line in lines)
    other = format_text(text, spelling=spelling)
    assert format_text(other) == other
    # Not the same lines: a block that is broken for the width of `branch` stays broken where `if` would fit.
    assert words(format_text(made, spelling=spelling)) == words(other)
    assert comments(other) == comments(text)


def test_a_formatter_gone_wrong_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is printed is read again, and must be the program that was there."""
    for wrong in ("let a = 2;\n", "let a = 1;\nlet b = 1;\n", "let a = 1;  // b\n"):
        monkeypatch.setattr(sqc.format.text, "_text", lambda _, wrong=wrong: wrong)
        with pytest.raises(AssertionError, match="would have changed the program"):
            format_text("let a=1; // c")


# ----------------------------------------------------------------------------- documents


def printed(width: int, *parts: Any) -> list[str]:
    return [row.code for row in rows(Nest(parts), width)]


def test_a_group_is_on_one_line_or_ends_all_of_its_lines() -> None:
    inner = Group(["c", LINE, "d"])
    group = Group(["a", Nest([LINE, "b", LINE, inner], 2)])
    assert printed(7, group) == ["a b c d"]
    assert printed(6, group) == ["a", "  b", "  c d"]
    assert printed(4, group) == ["a", "  b", "  c", "  d"]
    assert printed(4, Group(["a(", CUT, "b)"]), ";") == ["a(", "b);"]  # what follows must fit too
    assert printed(4, Group(["a(", CUT, "b"]), Group([LINE, ";"], broken=True)) == ["a(b", ";"]


def test_line_ends_break_what_they_are_in() -> None:
    assert printed(80, Group(["a", LINE, "b", Trail("// c"), END])) == ["a b"]
    assert printed(80, Group(["a", LINE, Nest(["b", END]), "c"])) == ["a", "b", "c"]
    assert printed(80, Group(["a", LINE, Group(["b", END]), LINE, "c"])) == ["a", "b", "c"]
    assert printed(80, " ", "a", " ", END, " ", END, "b") == ["a", "b"]


def test_comments_of_several_lines() -> None:
    comment = "/* a\n   b\n\nc */"
    assert printed(80, Nest([Verbatim(comment, 0)], 4)) == ["    /* a\n       b\n\n    c */"]
    assert printed(80, Nest([Verbatim(comment, 6)], 4)) == ["    /* a\n b\n\nc */"]
    assert printed(80, Nest([Verbatim(comment)], 4)) == ["    /* a\n   b\n\nc */"]


# ----------------------------------------------------------------------------- the command


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("messy.sq").write_bytes(MESSY)
    Path("tidy.sq").write_bytes(TIDY)
    Path("wrong.sq").write_bytes(b"let a=;\n")


MESSY, TIDY = b"let  a=1; // \xc3\xa4\n", b"let a = 1;                                // \xc3\xa4\n"
WRONG = "wrong.sq:1:7: error[E104]: expected an expression, found `;`\n  1 | let a=;\n    |       ^\n"


def fmt(capsys: CaptureFixture, line: str) -> tuple[int, str, str]:
    code = main(["fmt", *line.split()])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def contents() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path().iterdir()}


def test_a_file_to_stdout(capsys: CaptureFixture) -> None:
    before = contents()
    assert fmt(capsys, "messy.sq") == (0, TIDY.decode(), "")
    assert fmt(capsys, "tidy.sq") == (0, TIDY.decode(), "")
    assert contents() == before


def test_stdin_to_stdout(capsys: CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    def given_(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="ascii"))

    given_(MESSY)
    assert fmt(capsys, "-") == (0, TIDY.decode(), "")
    given_(MESSY)
    assert fmt(capsys, "- --check") == (1, "<stdin>: would change\n", "")
    given_(b"\xff")
    code, out, err = fmt(capsys, "-")
    assert (code, out, err) == (1, "", "<stdin>: error[E107]: not UTF-8 text: byte 0xff at offset 0\n")


def test_bytes_reach_stdout_whatever_its_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    bytes_ = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(bytes_, encoding="ascii", newline="\r\n"))
    assert main(["fmt", "messy.sq"]) == 0
    assert bytes_.getvalue() == TIDY


def test_write(capsys: CaptureFixture) -> None:
    assert fmt(capsys, "--write messy.sq tidy.sq messy.sq") == (0, "messy.sq: rewritten\n", "")
    assert contents() == {"messy.sq": TIDY, "tidy.sq": TIDY, "wrong.sq": b"let a=;\n"}
    assert fmt(capsys, "-w messy.sq tidy.sq") == (0, "", "")


def test_write_keeps_mode_link_and_line_ends(capsys: CaptureFixture, tmp_path: Path) -> None:
    os.chmod("messy.sq", 0o640)
    os.mkdir("links")
    os.symlink(tmp_path / "messy.sq", "links/link.sq")
    Path("messy.sq").write_bytes(MESSY.replace(b"\n", b"\r\n"))
    assert fmt(capsys, "--write links/link.sq") == (0, "links/link.sq: rewritten\n", "")
    assert Path("links/link.sq").is_symlink()
    assert Path("messy.sq").read_bytes() == TIDY.replace(b"\n", b"\r\n")
    assert stat.S_IMODE(os.stat("messy.sq").st_mode) == 0o640


def test_a_spelling_on_the_command_line(capsys: CaptureFixture) -> None:
    Path("spelled.sq").write_text(server("branch with (p) { turn; }"), encoding="utf-8")
    assert fmt(capsys, "--to if spelled.sq") == (0, server("if (~bernoulli(p)) { turn; }"), "")
    assert fmt(capsys, "--to seed --check spelled.sq") == (0, "", "")
    assert fmt(capsys, "--to if --check spelled.sq") == (1, "spelled.sq: would change\n", "")


def test_check(capsys: CaptureFixture) -> None:
    before = contents()
    assert fmt(capsys, "--check tidy.sq") == (0, "", "")
    assert fmt(capsys, "--check messy.sq tidy.sq") == (1, "messy.sq: would change\n", "")
    assert contents() == before


def test_diff(capsys: CaptureFixture) -> None:
    before = contents()
    diff = f"--- messy.sq\n+++ messy.sq (formatted)\n@@ -1 +1 @@\n-{MESSY.decode()}+{TIDY.decode()}"
    assert fmt(capsys, "--diff messy.sq tidy.sq") == (0, diff, "")
    assert fmt(capsys, "--diff --check messy.sq") == (1, diff, "")
    assert contents() == before
    Path("messy.sq").write_bytes(TIDY.rstrip(b"\n"))
    assert "\\ No newline at end of file\n" in fmt(capsys, "--diff messy.sq")[1]


def test_one_wrong_text_and_no_file_is_touched(capsys: CaptureFixture) -> None:
    before = contents()
    missing = "missing.sq: error[E108]: cannot read the file: No such file or directory\n"
    assert fmt(capsys, "--write messy.sq wrong.sq missing.sq") == (1, "", f"{WRONG}\n{missing}")
    assert fmt(capsys, "wrong.sq") == (1, "", WRONG)
    assert contents() == before


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        (".", None, "E108]: cannot read the file: Is a directory"),
        ("x.sq", b"a\0b", "E107]: contains NUL bytes: this is no text file"),
        ("x.sq", b"let a=1;\xff", "E107]: not UTF-8 text: byte 0xff at offset 8"),
    ],
)
def test_files_that_cannot_be_read(capsys: CaptureFixture, path: str, content: bytes | None, message: str) -> None:
    if content is not None:
        Path(path).write_bytes(content)
    assert fmt(capsys, f"--write {path}") == (1, "", f"{path}: error[{message}\n")


def test_a_rewrite_that_fails_leaves_the_file(capsys: CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "elsewhere")

    monkeypatch.setattr(os, "replace", full)
    assert fmt(capsys, "--write messy.sq") == (1, "", "sqc fmt: messy.sq: No space left on device\n")
    assert contents() == before
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert fmt(capsys, "--write messy.sq") == (1, "", "sqc fmt: messy.sq: Permission denied\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "missing argument 'FILE...'"),
        ("messy.sq tidy.sq", "several files: use --write, --check or --diff"),
        ("--write -", "--write: there is no file to rewrite for -"),
        ("--check - -", "- is given twice"),
        ("--write --check messy.sq", "--write goes with neither --check nor --diff"),
        ("--to sed messy.sq", "--to sed: no such choice (did you mean seed?)"),
        ("messy.sq -- --C 1", "inputs after -- are for run and sweep"),
    ],
)
def test_wrong_usage(capsys: CaptureFixture, line: str, message: str) -> None:
    assert fmt(capsys, line) == (2, "", f"sqc fmt: {message}\n")


def test_help(capsys: CaptureFixture) -> None:
    code, out, _ = fmt(capsys, "--help")
    assert code == 0
    assert "Example:\n    sqc fmt " in out
    assert all(option in out for option in ("--to", "--write", "--check", "--diff", "CRLF"))

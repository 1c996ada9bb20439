"""The text: the whole language parses, words are not reserved, and no input breaks the parser."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqc.diagnostics import CompileError, Reporter, Source
from sqc.lower import compile_text
from sqc.syntax import tables, tree
from sqc.syntax.parse import parse

CORPUS = sorted((Path(__file__).parent / "corpus").rglob("*.sq"))


def tree_of(text: str) -> tree.File:
    return parse(Source("prog.sq", text), Reporter())


def expression(text: str) -> tree.Expr:
    (item,) = tree_of(f"let x = {text};").items
    assert isinstance(item, tree.Let)
    return item.value


def shape(node: tree.Node) -> str:
    """An expression with all its brackets."""
    match node:
        case tree.Num(value=value):
            return f"{value:g}"
        case tree.Name(id=name):
            return name
        case tree.Unary(op=op, x=x):
            return f"({op}{shape(x)})"
        case tree.Binary(op=op, x=x, y=y):
            return f"({shape(x)}{op}{shape(y)})"
        case tree.Cond(test=test, then=then, other=other):
            return f"({shape(test)}?{shape(then)}:{shape(other)})"
    return node.place.text


@pytest.mark.parametrize("path", CORPUS, ids=[p.stem for p in CORPUS])
def test_corpus_parses(path: Path) -> None:
    assert tree_of(path.read_text(encoding="utf-8")).items


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-2^2", "(-(2^2))"),
        ("2^3^2", "(2^(3^2))"),
        ("2^-1", "(2^(-1))"),
        ("1-2-3", "((1-2)-3)"),
        ("1+2*3/4", "(1+((2*3)/4))"),
        ("a<b+1&&!c==d||e", "(((a<(b+1))&&((!c)==d))||e)"),
        ("a?b:c?d:e", "(a?b:(c?d:e))"),
        ("a||b?c+1:d", "((a||b)?(c+1):d)"),
        ("--a", "(-(-a))"),
        ("(a+b)*c", "((a+b)*c)"),
    ],
)
def test_precedence(text: str, expected: str) -> None:
    assert shape(expression(text)) == expected


@pytest.mark.parametrize(
    ("text", "value"), [("12", 12), ("1_000", 1000), (".5", 0.5), ("5.", 5), ("2e-5", 2e-5), ("1_0.2_5E+1", 102.5)]
)
def test_numbers(text: str, value: float) -> None:
    number = expression(text)
    assert isinstance(number, tree.Num)
    assert number.value == value


def test_comments() -> None:
    (item,) = tree_of("// one\nlet /* two\n lines */ a = 1; // end").items
    assert isinstance(item, tree.Let)


def test_words_are_not_reserved() -> None:
    """Every keyword may name an attribute where the keyword itself cannot stand."""
    words = [w for w in tables.tables().literals if w.isalpha()]
    assert len(words) > 80
    for word in words:
        if word in ("max", "min", "sum"):  # these begin an expression
            continue
        text = f"fn main() {{ workload {{ turn {{ set {word} = 1; }} }} server {{ observe o = {word} + 1; }} }}"
        assert tree_of(text).items


def test_aggregates_and_functions() -> None:
    assert isinstance(expression("max k in 3 (k + 1)"), tree.Aggregate)
    assert isinstance(expression("max(a, b)"), tree.Call)
    assert isinstance(expression("sum k in (2 * n) (k)"), tree.Aggregate)
    assert isinstance(expression("used(kv[j + 1])"), tree.Call)


def test_if_is_branch() -> None:
    for word in ("if", "branch"):
        (main,) = tree_of(f"fn main() {{ server {{ {word} (a) {{ }} else {{ }} }} }}").items
        assert isinstance(main, tree.Main)
        (server,) = main.items
        assert isinstance(server, tree.Server)
        assert isinstance(server.body.body[0], tree.Branch)


def test_places_are_exact() -> None:
    text = "fn main() {\n  server { hold kv (cost(kv, 1))\n    { drop kv; } cache (2); }\n}"
    for node in tree.walk(tree_of(text)):
        if isinstance(node, tree.Drop):
            assert node.place.text == "drop kv;"
        if isinstance(node, tree.Hold):
            assert node.header.text == "hold kv (cost(kv, 1))"
            assert (node.place.span.line, node.place.span.col, node.place.span.end_line) == (2, 12, 3)


def test_every_option_parses() -> None:
    tree_of("""
fn main() {
  pool kv[2] {
    cap 5; block 2; evict by (size, -age); preempt by (position) requeue tail; queue by (waited); admit via e;
    reserve held; spill disk via link (size) when (size > 1);
  }
  stage e : step {
    budget 8; cost 1; chunk 2; memory kv; granule 4; state r = 0;
    serve only (decoding) by (remaining, admission);
    iteration { serve only (1) decode first; admit while (!preempted); branch (r) { admit; } else { set r = 1; } }
  }
  stage x : step { cost 1; serve exclusive prefill; };
  stage f[3] : fifo(2);
  share bottleneck;
  gauge g = used(kv[0]);
  claim c given (a > 1) : every iteration of e (tokens > 0);
  claim d : at end (total(o) > 1);
  workload {
    arrive none; trace "t.csv" ordered; hidden a, b; init { } turn { Size z = 1; }
    session { turn; while (more) { tool on f[0] (1); prefill [1] (2); decode (3) growing kv[0]; turn; } end; }
  }
  server {
    Cost c = { kv: 1, f: 2 };
    choose j in 2 by (queue(f[j]), j);
    hold kv[j] (c.kv) reserve (cost(kv, 2)), kv[1] (cost(kv, 1)) reuse (cost(kv, 1)) at admission (x = 1, y = x) {
      run e prefill (cost(e, 1)) growing kv[j];
      grow kv[j] (cost(kv, 1)); load kv[j] (cost(kv, 1)); release kv[j]; drop kv[1];
    } cache (cost(kv, 1)) lease kv[j] (inf);
    transfer on f[0], f[1] (3) from kv[0] to kv[1] (4);
    transfer [0] 3 from kv[0] to kv[1] (4);
    run f[0], f[1] (cost(f, 3));
    fork { loop { end; } } join;
  }
}
""")


def test_devices_and_engines_parse() -> None:
    device, engine, kv, reqs, both = items_of("""
  device gpu { compute (t) = 0.004 * t; kv cap 120; }
  engine e[2] on gpu {
    reqs cap 6; tokens cap 32; granule 4; state just = 0;
    schedule {
      let c = 4;
      branch (just == 0 || running.count == 0) { admit waiting only (1) while (running.preempted == 0); }
      advance running only (decoding) by (remaining) each at most (6);
      exclusive prefill each at most (c);
      set just = waiting.admitted > 0;
    }
    execute (compute(batch.tokens));
  }
  pool kv on gpu { block 4; }
  pool reqs on e { queue fifo; }
  pool both on e.gpu { }
""")
    assert isinstance(device, tree.Device)
    assert [type(part) for part in device.parts] == [tree.TimeResource, tree.Capacity]
    assert isinstance(engine, tree.Engine)
    assert engine.name is not None
    assert (engine.name.id, engine.device.id) == ("e", "gpu")
    parts = [part.word if isinstance(part, tree.Option) else part.name.id for part in engine.parts]
    assert parts == ["reqs", "tokens", "granule", "state", "schedule", "execute"]
    (schedule,) = (part for part in engine.parts if isinstance(part, tree.Option) and part.word == "schedule")
    kinds = (tree.StepLet, tree.StepBranch, tree.StepServe, tree.StepExclusive, tree.StepSet)
    assert tuple(type(statement) for statement in schedule.values) == kinds
    owners = [
        (pool.on.engine.id if pool.on.engine else None, pool.on.owner.id)
        for pool in (kv, reqs, both)
        if isinstance(pool, tree.Pool) and pool.on
    ]
    assert owners == [(None, "gpu"), (None, "e"), ("e", "gpu")]


def test_engines_of_stations_parse() -> None:
    (queue,) = items_of("queue E : prefill { device g { } engine on g { tokens cap 3; } pool kv on E.g { } }")
    assert isinstance(queue, tree.Queue)
    assert [type(item) for item in queue.items] == [tree.Device, tree.Engine, tree.Pool]
    assert isinstance(queue.items[1], tree.Engine)
    assert queue.items[1].name is None


def items_of(text: str) -> tuple[tree.Node, ...]:
    """The declarations of `fn main() { text }`."""
    (main,) = tree_of(f"fn main() {{ {text} }}").items
    assert isinstance(main, tree.Main)
    return main.items


def test_stations_parse() -> None:
    (queue,) = items_of("""
queue P[2] : prefill, decode {
  pool kv { cap 5; }
  nic ps(3);
  serve fifo(2) latency 0.5;
  prefill (x) { run (cost(P, x)); mark done; }
  decode (x) from Q { transfer (x) from Q to kv (x); transfer on L[1], M (x) from Q to kv (x); }
  route { }
}""")
    assert isinstance(queue, tree.Queue)
    assert [role.id for role in queue.roles] == ["prefill", "decode"]
    assert [type(item).__name__ for item in queue.items] == ["Pool", "Nic", "StationStage", "Entry", "Entry", "Entry"]
    entries = [item for item in queue.items if isinstance(item, tree.Entry)]
    assert [entry.source.id if entry.source else None for entry in entries] == [None, "Q", None]
    assert [len(entry.params) for entry in entries] == [1, 1, 0]
    assert [type(s).__name__ for s in entries[0].body.body] == ["RunOwn", "Mark"]


def test_calls_of_entries_parse() -> None:
    (server,) = items_of(
        "server { gw.route(); P[i].prefill (n); D.decode (n) from P[i + 1]; L.transfer (n) from P to kv (m); }"
    )
    assert isinstance(server, tree.Server)
    calls = server.body.body
    assert [tree.dotted(c.callee) for c in calls if isinstance(c, tree.EntryCall)] == [
        "gw.route", "P[...].prefill", "D.decode", "L.transfer",
    ]  # fmt: skip
    assert [c.source is not None for c in calls if isinstance(c, tree.EntryCall)] == [False, False, True, True]
    member = calls[1].callee  # type: ignore[union-attr]
    assert isinstance(member, tree.Member)
    assert member.base.place.text == "P[i]"


def test_both_spellings_of_a_relation_parse_alike() -> None:
    later, earlier = items_of("kvt.nixl_pull (P, D, latency = 0.1); D pull P latency 0.1 share maxmin;")
    assert isinstance(later, tree.Relation)
    assert isinstance(earlier, tree.Relation)
    assert [shape(s) for s in later.stations] == [shape(s) for s in earlier.stations] == ["P", "D"]
    assert [(o.name.id, shape(o.value)) for o in later.options] == [("latency", "0.1")]
    assert [(o.name.id, shape(o.value)) for o in earlier.options] == [("latency", "0.1")]
    assert (later.share, earlier.share) == (None, "maxmin")


def test_a_workload_may_stand_alone() -> None:
    use, let, workload = tree_of('use "a.sq"; let r = 2; workload { request gw; arrive poisson(r); }').items
    assert (type(use), type(let)) == (tree.Use, tree.Let)
    assert isinstance(workload, tree.Workload)
    assert isinstance(workload.items[0], tree.Request)


SPELLINGS = {
    "branch (w > 1) { set a = 1; } else { set a = 2; }": "if (w > 1) { set a = 1; } else { set a = 2; }",
    "branch with (0.3) { set a = 1; }": "if (~bernoulli(0.3)) { set a = 1; }",
    "branch (~bernoulli(0.3)) { set a = 1; }": "if (~bernoulli(0.3)) { set a = 1; }",
    "branch (w > 1) { } else { branch (w > 0) { set a = 2; } }": "if (w > 1) { } else { if (w > 0) { set a = 2; } }",
}


@pytest.mark.parametrize("written", SPELLINGS)
def test_spellings_mean_the_same(written: str) -> None:
    """The founding dialect and the next release's come out as one program."""
    text = "fn main() {{ workload {{ arrive poisson(1); turn {{ set w = 1; }} }} server {{ {} }} }}"
    founding, later = (compile_text(text.format(s)).server for s in (written, SPELLINGS[written]))
    assert [repr(bare(s)) for s in founding] == [repr(bare(s)) for s in later]


def bare(node: object) -> object:
    """An IR node without its spans."""
    if isinstance(node, tuple):
        return tuple(map(bare, node))
    if not dataclasses.is_dataclass(node):
        return node
    fields = ((f.name, bare(getattr(node, f.name))) for f in dataclasses.fields(node) if f.name != "span")
    return (type(node).__name__, *fields)


def test_there_is_no_else_if() -> None:
    for word in ("if", "branch"):
        with pytest.raises(CompileError) as caught:
            tree_of(f"fn main() {{ server {{ {word} (a) {{ }} else {word} (b) {{ }} }} }}")
        assert "there is no `else if`" in str(caught.value)


DEPTH = 100_000


@pytest.mark.parametrize(
    "expression",
    [
        "(" * DEPTH + "1" + ")" * DEPTH,
        "-" * DEPTH + "1",
        "1+" * DEPTH + "1",
        "1^" * DEPTH + "1",
        "1?1:" * (DEPTH // 3) + "1",
    ],
    ids=["parentheses", "minus", "plus", "power", "choice"],
)
def test_deep_expressions(expression: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_text(f"let x = {expression};")
    assert [d.code for d in caught.value.diagnostics] == ["E105"]


def test_deep_blocks() -> None:
    with pytest.raises(CompileError) as caught:
        compile_text("fn main() { server { " + "loop { " * DEPTH + "} " * DEPTH + "} }")
    assert [d.code for d in caught.value.diagnostics] == ["E105"]


def test_deep_definitions() -> None:
    chain = " ".join(f"def f{i}(x) {{ 1 + f{i - 1}(x) }}" for i in range(1, 300))
    with pytest.raises(CompileError) as caught:
        compile_text(f"def f0(x) {{ x }} {chain} fn main() {{ workload {{ }} server {{ }} }}")
    assert "E105" in {d.code for d in caught.value.diagnostics}


def test_nesting_within_the_limit() -> None:
    tree_of(f"let x = {'(' * 190}1{')' * 190};")
    tree_of(f"let x = {'1 + ' * 190}1;")


@pytest.mark.parametrize(
    "text",
    ["foo ( ; ] 1 } " * 20_000, "$%&" * 300_000, "{" * 199, ";" * 100_000, "fn main() { /* " + "x" * 900_000],
    ids=["tokens", "signs", "braces", "semicolons", "comment"],
)
def test_garbage_is_refused_quickly(text: str) -> None:
    start = time.perf_counter()
    with pytest.raises(CompileError) as caught:
        compile_text(text)
    assert 1 <= len(caught.value.diagnostics) <= 21
    assert time.perf_counter() - start < 15


def never_crashes(text: str) -> None:
    """A program or findings that can be shown, whatever the text."""
    with contextlib.suppress(CompileError):
        try:
            compile_text(text)
        except CompileError as error:
            str(error)
            raise


_WORDS = (
    'fn main ( ) { } [ ] ; , = == + - * ^ ~ ? : . " // /* */ let def use pool stage server workload turn set hold kv '
    "x 1 2.5 1e cost branch else loop run cap fifo arrive poisson session end \n # é"
)
_PIECES = st.sampled_from(_WORDS.split(" "))


@settings(max_examples=200)
@given(st.lists(_PIECES, max_size=40))
def test_random_texts_never_crash(pieces: list[str]) -> None:
    never_crashes(" ".join(pieces))


@settings(max_examples=60)
@given(st.data())
def test_damaged_programs_never_crash(data: st.DataObject) -> None:
    """Deleting or doubling a part of a real program gives findings or a program, nothing else."""
    text = data.draw(st.sampled_from(CORPUS)).read_text(encoding="utf-8")
    at = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(1, 30))
    damaged = data.draw(
        st.sampled_from([text[:at] + text[at + length :], text[:at] + text[at : at + length] + text[at:]])
    )
    never_crashes(damaged)


def test_tables_are_cached(tmp_path: Path) -> None:
    """The second process reads what the first has built, and needs no lark for it."""
    script = (
        "import sys; from sqc.syntax.tables import tables; t = tables(); print(len(t.rules), 'lark' in sys.modules)"
    )
    environment = dict(os.environ, PYTHONPYCACHEPREFIX=str(tmp_path), XDG_CACHE_HOME=str(tmp_path))
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    runs = [
        subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    built, loaded = (run.stdout.split() for run in runs)
    assert built[0] == loaded[0]
    assert (built[1], loaded[1]) == ("True", "False")


def test_a_damaged_cache_is_rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_cache_directories", lambda: [tmp_path, tmp_path])
    built = tables.tables.__wrapped__()
    (cached,) = tmp_path.iterdir()
    cached.write_bytes(b"damage")
    again = tables.tables.__wrapped__()
    assert (again.rules, again.literals, len(again.actions)) == (built.rules, built.literals, len(built.actions))


def test_the_front_end_imports_no_jax() -> None:
    script = "import sys, sqc.lower; print([m for m in ('jax', 'numpy', 'lark', 'difflib') if m in sys.modules])"
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"

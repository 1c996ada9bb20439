"""Tree to IR: what each construct becomes, which programs are refused, and constant folding."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqc import ir
from sqc.diagnostics import CompileError
from sqc.lower import compile_file, compile_text
from sqc.passes import fold

CORPUS = Path(__file__).parent / "corpus"
EXECUTED = sorted(path for start in ("04-", *"abcdegh") for path in CORPUS.glob(f"{start}*.sq"))
STEPS = sorted(path for path in CORPUS.rglob("f*.sq"))  # step stages, in either spelling


def program(
    server: str = "run s (cost(s, 1));",
    items: str = "",
    workload: str = "arrive poisson(1);",
    top: str = 'use "std/args";',
) -> ir.Program:
    return compile_text(
        f"{top} fn main() {{ {items} stage s : fifo; workload {{ {workload} }} server {{ {server} }} }}"
    )


def value(expression: str, items: str = "", top: str = 'use "std/args";') -> ir.Expr:
    (observe,) = program(f"observe o = {expression};", items, top=top).server
    assert isinstance(observe, ir.Observe)
    return observe.value


def number(expression: str) -> float:
    made = value(expression)
    assert isinstance(made, ir.Const)
    return made.value


@pytest.mark.parametrize("path", EXECUTED, ids=[p.stem for p in EXECUTED])
def test_executed_programs(path: Path) -> None:
    made = compile_file(path)
    assert ir.from_json(ir.to_json(made)) == made
    assert made.file == str(path)


def test_the_corpus_is_there() -> None:
    """10 a, 5 b, 15 c, 9 d, 4 e, 2 g, 3 h and the founding program: 49; 16 f."""
    assert len(EXECUTED) == 49
    assert len(STEPS) >= 16


def test_the_founding_program() -> None:
    made = compile_file(CORPUS / "04-cache.sq")
    assert made.inputs[0].name == "C"
    assert made.inputs[0].default == 2e5
    assert made.attributes == ("K", "n", "o", "warm")
    assert [(s.name, s.kind) for s in made.stages] == [("engine", ir.Fifo()), ("tool", ir.Delay())]
    assert [p.cap for p in made.pools] == [ir.Input("C")]
    assert isinstance(made.arrival, ir.Poisson)
    assert made.arrival.rate == ir.Const(0.5)
    assert made.observes == (ir.ObserveDecl("hit", test=False),)
    hold, branch = made.server
    assert isinstance(hold, ir.Hold)
    (part,) = hold.parts
    assert part.units == part.refusable == hold.cache
    assert isinstance(branch, ir.Branch)


# --------------------------------------------------------------------------- constants and inputs


def test_constants_over_inputs_stay_expressions() -> None:
    made = value("D", 'let C = args.number("cap", 2e5); let D = 2 * C + 3 * 4;')
    assert made == ir.Binary("+", ir.Binary("*", ir.Const(2.0), ir.Input("cap")), ir.Const(12.0))


def test_constants_in_order() -> None:
    assert value("a", "let a = 1; let b = a + 1; let a = b * 10;") == ir.Const(20.0)


def test_input_declarations() -> None:
    made = program(items='let half = 1 / 2; let P = args.number("p", half);')
    (declared,) = made.inputs
    assert (declared.name, declared.default, declared.let) == ("p", 0.5, "P")


def test_arrivals() -> None:
    kinds = {
        "arrive poisson(2);": ir.Poisson,
        "arrive renewal(~exp(1));": ir.Renewal,
        "arrive closed(3);": ir.Closed,
        "arrive batch(3);": ir.Batch,
        "arrive none;": ir.NoArrivals,
        "": ir.NoArrivals,
    }
    for text, kind in kinds.items():
        assert isinstance(program(workload=text).arrival, kind)


def test_stages() -> None:
    made = program(items="stage a : fifo(3); stage b : ps(min(present, 2)); stage c : delay;")
    assert [s.kind for s in made.stages] == [
        ir.Fifo(ir.Const(3.0)),
        ir.Ps(ir.Binary("min", ir.Context("present"), ir.Const(2.0))),
        ir.Delay(),
        ir.Fifo(),
    ]


# --------------------------------------------------------------------------- statements


def test_default_session_is_one_turn() -> None:
    assert program().session == (ir.Turn(),)


def test_implicit_tool_stage_is_last() -> None:
    made = program(workload="session { turn; tool (3); }", items="stage z : delay;")
    assert [s.name for s in made.stages] == ["z", "s", "tool"]
    run = made.session[1]
    assert isinstance(run, ir.Run)
    assert (run.stage, run.work) == (ir.Ref("tool"), ir.Const(3.0))


def test_declared_tool_stage_is_used() -> None:
    made = program(workload="session { turn; tool (3); }", items="stage tool : fifo;")
    assert [(s.name, s.kind) for s in made.stages] == [("tool", ir.Fifo()), ("s", ir.Fifo())]


def test_services_run_on_their_stages() -> None:
    made = program("prefill (1); decode on s (2);", items="stage prefill : fifo;")
    assert [(r.stage, r.work) for r in made.server if isinstance(r, ir.Run)] == [
        (ir.Ref("prefill"), ir.Const(1.0)),
        (ir.Ref("s"), ir.Const(2.0)),
    ]


def test_branch_with_draws() -> None:
    (branch,) = program("branch with (0.3) { observe o = 1; }").server
    assert isinstance(branch, ir.Branch)
    assert branch.guard == ir.Draw("bernoulli", (ir.Const(0.3),))
    (other,) = program("if (now > 1) { observe o = 1; } else { observe o = 2; }").server
    assert isinstance(other, ir.Branch)
    assert len(other.other) == 1


def test_demands_that_read_live_state_are_never_refused() -> None:
    made = program("hold kv (cost(kv, 1 + used(kv))) { } hold kv (cost(kv, serial)) { }", items="pool kv { }")
    first, second = made.server
    assert isinstance(first, ir.Hold)
    assert isinstance(second, ir.Hold)
    assert first.parts[0].refusable is None
    assert second.parts[0].refusable == second.parts[0].units == ir.Attr("serial")
    assert made.pools[0].cap == ir.Const(math.inf)


def test_records_become_attributes() -> None:
    made = program("Cost c = { kv: 2, s: serial }; hold kv (c.kv) { run s (c.s); }", items="pool kv { cap 9; }")
    assert made.attributes == ("c.kv", "c.s")
    assert [s.name for s in made.server if isinstance(s, ir.Set)] == ["c.kv", "c.s"]
    hold = made.server[-1]
    assert isinstance(hold, ir.Hold)
    assert hold.parts[0].units == ir.Attr("c.kv")


def test_sizes_and_costs_are_sets() -> None:
    made = program("Cost c = cost(s, z); run s (c);", workload="turn { Size z = 3; }")
    assert made.attributes == ("z", "c")


@pytest.mark.parametrize(
    ("expression", "test"),
    [("now > 1", True), ("!now", True), ("now && 1", True), ("now + 1", False), ("now > 1 ? 1 : 0", False)],
)
def test_tests_are_marked(expression: str, test: bool) -> None:
    assert program(f"observe o = {expression};").observes == (ir.ObserveDecl("o", test),)


def test_observes_in_order_of_the_text() -> None:
    made = program("observe b = 1; observe a = 2; observe b = 3;", workload="turn { observe z = 1; }")
    assert [o.name for o in made.observes] == ["z", "b", "a"]


def test_spans() -> None:
    made = compile_text("fn main() {\n stage s : fifo;\n workload { }\n server {\n  run s (cost(s, 1));\n }\n}\n")
    assert made.server[0].span == ir.Span(5, 3, 5, 22)


# --------------------------------------------------------------------------- definitions


def test_definitions_are_textual() -> None:
    top = "def twice(x) { x + x } def four(x) { twice(twice(x)) }"
    x = ir.Attr("serial")
    two = ir.Binary("+", x, x)
    assert value("four(serial)", top=top) == ir.Binary("+", two, two)


def test_arguments_are_whole() -> None:
    """An argument is one operand, as if in parentheses."""
    assert value("f(1 + 2)", top="def f(x) { x * 10 }") == ir.Const(30.0)


def test_statement_definitions() -> None:
    made = program("serve(s, 2); serve(s, 3);", top="def serve(p, w) { observe o = queue(p); run p (cost(p, w)); }")
    assert [type(s).__name__ for s in made.server] == ["Observe", "Run", "Observe", "Run"]
    first = made.server[0]
    assert isinstance(first, ir.Observe)
    assert first.value == ir.Read("queue", ir.Ref("s"))


def test_files_of_definitions(tmp_path: Path) -> None:
    (tmp_path / "lib.sq").write_text("let scale = 3;\ndef f(x) { scale * x }\ndef g(p) { run p (cost(p, f(2))); }\n")
    path = tmp_path / "prog.sq"
    path.write_text('use "lib.sq";\nfn main() {\n stage s : fifo;\n workload { }\n server {\n  g(s);\n }\n}\n')
    (run,) = compile_file(path).server
    assert isinstance(run, ir.Run)
    assert run.work == ir.Const(6.0)
    assert run.span is not None
    assert run.span.line == 6  # the use in the program, not the line of another file


def test_errors_in_files_of_definitions(tmp_path: Path) -> None:
    (tmp_path / "lib.sq").write_text("def f(x) { x + }\n")
    path = tmp_path / "prog.sq"
    path.write_text('use "lib.sq"; use "missing.sq"; fn main() { workload { } server { } }')
    with pytest.raises(CompileError) as caught:
        compile_file(path)
    assert [(d.code, Path(d.file).name) for d in caught.value.diagnostics] == [("E104", "lib.sq"), ("E216", "prog.sq")]


def test_aggregates_are_written_out() -> None:
    x = ir.Attr("serial")
    assert value("sum k in 3 (k * 10)") == ir.Const(30.0)
    assert value("max k in 2 (serial + k)") == ir.Binary(
        "max", ir.Binary("+", x, ir.Const(0.0)), ir.Binary("+", x, ir.Const(1.0))
    )


# --------------------------------------------------------------------------- folding


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1 / 0", math.inf),
        ("-1 / 0", -math.inf),
        ("2 ^ 3 ^ 2", 512),
        ("-2 ^ 2", -4),
        ("0 ^ -1", math.inf),
        ("10 ^ 400", math.inf),
        ("exp(1000)", math.inf),
        ("ln(0)", -math.inf),
        ("floor(-1.5) + ceil(1.2)", 0),
        ("min(3, 2) + max(1, 5)", 7),
        ("1 < 2 && 3 != 3 || !0", 1),
        ("inf > 1 ? 4 : 5", 4),
        ("abs(-3) * sqrt(16)", 12),
    ],
)
def test_folding(expression: str, expected: float) -> None:
    assert number(expression) == expected


def test_not_a_number_folds() -> None:
    assert math.isnan(number("0 / 0"))
    assert math.isnan(number("sqrt(-1)"))
    assert math.isnan(number("(-8) ^ 0.5"))


def test_draws_that_can_happen_stay() -> None:
    assert value("~det(2) * 0") == ir.Binary("*", ir.Draw("det", (ir.Const(2.0),)), ir.Const(0.0))
    assert value("1 ? 5 : ~exp(1)") == ir.Const(5.0)
    assert value("0 && ~bernoulli(0.5)") == ir.Const(0.0)
    assert value("~bernoulli(0.5) && 0") == ir.Lazy("&&", ir.Draw("bernoulli", (ir.Const(0.5),)), ir.Const(0.0))


@given(st.floats(), st.floats())
def test_folding_never_fails(x: float, y: float) -> None:
    for op in ir.BINARY_OPS + ir.LAZY_OPS:
        assert isinstance(fold.binary(op, x, y), float)
    for op in ir.UNARY_OPS:
        assert isinstance(fold.unary(op, x), float)


def test_ir_files_are_read(tmp_path: Path) -> None:
    made = program()
    path = tmp_path / "prog.json"
    path.write_text(ir.to_json(made))
    assert compile_file(path) == made


# --------------------------------------------------------------------------- pools and holds

POOLS = "pool a { cap 9; } pool b { cap 9; block 4; } pool c[2] { cap 9; } stage t[2] : ps(3);"


def statements(server: str, items: str = POOLS, workload: str = "turn { set w = 1; }") -> tuple[ir.Stmt, ...]:
    return program(server, items, workload).server


def hold(server: str) -> ir.Hold:
    made = statements(server)[-1]
    assert isinstance(made, ir.Hold)
    return made


W = ir.Attr("w")
A, B = ir.Ref("a"), ir.Ref("b")


def c(index: float) -> ir.Ref:
    return ir.Ref("c", ir.Const(index))


def test_pool_options() -> None:
    made = program(
        items="""let B = args.number("b", 8);
        pool kv { cap 4 * B; block B; evict by (waiting, -age); queue by (waited, w); reserve held;
                  preempt by (-admission, position) requeue tail; spill disk via s (size) when (w > 1); }
        pool disk { preempt lifo; }
        pool kept { preempt by (w); }""",
        workload="turn { set w = 1; }",
    )
    kv, disk, kept = made.pools
    assert (kv.cap, kv.block) == (ir.Binary("*", ir.Const(4.0), ir.Input("b")), ir.Input("b"))
    assert kv.evict == (ir.Context("waiting"), ir.Unary("neg", ir.Context("age")))
    assert kv.queue == (ir.Context("waited"), W)
    assert (kv.preempt, kv.requeue, kv.reserve_held) == ("by", "tail", True)
    assert kv.preempt_keys == (ir.Unary("neg", ir.Context("admission")), ir.Context("position"))
    assert kv.spill == ir.Spill(ir.Ref("disk"), ir.Ref("s"), ir.Context("size"), ir.Binary(">", W, ir.Const(1.0)))
    assert (disk.cap, disk.block, disk.preempt, disk.evict, disk.queue) == (ir.Const(math.inf), None, "lifo", (), ())
    assert (kept.preempt, kept.requeue, kept.reserve_held, kept.spill) == ("by", "head", False, None)


def test_arrays() -> None:
    made = program(
        "choose j in 2 by (queue(t[j]), w); run t[j] (cost(t, w)); drop c[1 - 1];", POOLS, "turn { set w = 1; }"
    )
    assert [(p.name, p.size) for p in made.pools] == [("a", None), ("b", None), ("c", 2)]
    assert [(s.name, s.size) for s in made.stages] == [("t", 2), ("s", None)]
    j = ir.Ref("t", ir.Attr("j"))
    choose, run, drop = made.server
    assert choose == ir.Choose("j", ir.Const(2.0), (ir.Read("queue", j), W), choose.span)
    assert isinstance(run, ir.Run)
    assert run.stage == j
    assert isinstance(drop, ir.Drop)
    assert drop.pool == c(0)
    assert made.attributes == ("w", "j")


def test_a_single_resource_may_be_indexed_by_0() -> None:
    (drop,) = statements("drop a[0];")
    assert isinstance(drop, ir.Drop)
    assert drop.pool == A


def test_an_array_of_one_is_an_array() -> None:
    made = program("observe o = used(k[0]);", "pool k[1] { }")
    assert made.pools[0].size == 1
    assert made.server[0] == ir.Observe("o", ir.Read("used", ir.Ref("k", ir.Const(0.0))), made.server[0].span)


def test_observables() -> None:
    kinds = [*("queue", "busy", "work", "est_lambda", "est_rho", "est_wait")]
    for kind in kinds:
        assert value(f"{kind}(s)") == ir.Read(kind, ir.Ref("s"))
    for kind in ("used", "free", "cachedin", "holders", "queued"):
        assert value(f"{kind}(c[1])", POOLS) == ir.Read(kind, c(1))
    assert value("price(s, 1, serial)") == ir.Price(ir.Ref("s"), ir.Const(1.0), ir.Attr("serial"))
    assert value("blocksize(b)", POOLS) == ir.Const(4.0)


def test_a_hold_of_several_pools() -> None:
    made = hold(
        "hold a (cost(a, w)) reserve (cost(a, 2 * w)), c[1] (cost(c, 3)) reuse (cost(a, c, 2)) { }"
        " cache (cost(a, c, w)) lease c[1] (w + 1);"
    )
    double = ir.Binary("*", ir.Const(2.0), W)
    assert made.parts == (
        ir.Part(A, W, double, ir.Binary("max", W, double)),
        ir.Part(c(1), ir.Const(3.0), None, ir.Const(3.0)),
    )
    assert (made.reuse, made.cache) == (ir.Const(2.0), W)
    assert made.lease == ir.Lease(1, ir.Binary("+", W, ir.Const(1.0)))


@pytest.mark.parametrize(
    ("units", "reserve", "refusable"),
    [
        ("5", "7", ir.Const(7.0)),
        ("w", "used(a)", W),
        ("now", "w", W),
        ("now", "free(a)", None),
        ("price(s, 1, 1)", "work(s)", None),
        ("cached", "1 + queue(s)", ir.Attr("cached")),
    ],
)
def test_what_rejection_looks_at(units: str, reserve: str, refusable: ir.Expr | None) -> None:
    made = hold(f"hold a (cost(a, {units})) reserve (cost(a, {reserve})) {{ }} cache (cost(a, 1));")
    assert made.parts[0].refusable == refusable


def test_bindings_are_substituted() -> None:
    made = program(
        "hold a (cost(a, y)) reuse (cost(a, x)) at admission (x = used(a), y = x + w) { run s (cost(s, 1)); }"
        " cache (cost(a, x)) lease a (y);",
        POOLS,
        "turn { set w = 1; }",
    )
    (held,) = made.server
    assert isinstance(held, ir.Hold)
    used = ir.Read("used", A)
    both = ir.Binary("+", used, W)
    assert held.parts == (ir.Part(A, both, None, None),)
    assert (held.reuse, held.cache, held.lease) == (used, used, ir.Lease(0, both))
    assert [type(s) for s in held.body] == [ir.Run]
    assert made.attributes == ("w",)


def test_bindings_that_the_body_reads_are_set_there() -> None:
    made = program(
        "hold a (cost(a, y)) at admission (x = w, y = x + 1) { branch (w) { observe o = y; } } ",
        POOLS,
        "turn { set w = 1; }",
    )
    (held,) = made.server
    assert isinstance(held, ir.Hold)
    opening = held.body[0]
    assert opening == ir.Set("y", ir.Binary("+", W, ir.Const(1.0)), opening.span)
    assert made.attributes == ("w", "y")


def test_statements_on_pools() -> None:
    (held,) = statements(
        "hold a (cost(a, 1)) { grow a (cost(a, w)); load a (cost(a, 1)); release a; hold a (cost(a, 1)) { } }"
    )
    assert isinstance(held, ir.Hold)
    grow, load, release, inner = held.body
    assert grow == ir.Grow(A, W, grow.span)
    assert load == ir.Load(A, ir.Const(1.0), load.span)
    assert release == ir.Release(A, release.span)
    assert isinstance(inner, ir.Hold)


def test_transfer_is_run_load_release() -> None:
    source = "hold a (cost(a, 1)) { } lease a (inf); hold b (cost(b, 3)) { transfer [1] w from a to b (2); }"
    made = program(source, f"{POOLS} stage link[2] : fifo;", "turn { set w = 1; }").server[-1]
    assert isinstance(made, ir.Hold)
    run, load, release = made.body
    assert run == ir.Run(ir.Ref("link", ir.Const(1.0)), W, run.span)
    assert load == ir.Load(B, ir.Const(2.0), run.span)
    assert release == ir.Release(A, run.span)


def test_a_transfer_over_several_stages_is_a_flow() -> None:
    source = "hold a (cost(a, 1)) { } lease a (inf); hold b (cost(b, 3)) { transfer on x, t[0] w from a to b (2); }"
    made = program(source, f"{POOLS} stage x : ps(1); share bottleneck;", "turn { set w = 1; }")
    held = made.server[-1]
    assert isinstance(held, ir.Hold)
    flow = held.body[0]
    assert flow == ir.Flow((ir.Ref("x"), ir.Ref("t", ir.Const(0.0))), W, flow.span)
    assert made.share == "bottleneck"


def test_legs_and_joins() -> None:
    fork, join = statements("fork { run s (cost(s, w)); } join;")
    assert isinstance(fork, ir.Fork)
    assert [type(s) for s in fork.body] == [ir.Run]
    assert isinstance(join, ir.Join)


def test_the_session_may_hold() -> None:
    made = program(items=POOLS, workload="session { hold a (cost(a, 1)) { turn; } }")
    (held,) = made.session
    assert isinstance(held, ir.Hold)
    assert [type(s) for s in held.body] == [ir.Turn]


# --------------------------------------------------------------------------- gauges, claims, traces


def test_gauges_and_claims() -> None:
    made = program(
        "observe o = w; run s (cost(s, w));",
        f"{POOLS} gauge g = used(c[0]) - free(a); claim k given (w > 1) : at end (largest(o) < 5);",
        "turn { set w = 1; }",
    )
    (gauge,) = made.gauges
    assert (gauge.name, gauge.value) == ("g", ir.Binary("-", ir.Read("used", c(0)), ir.Read("free", A)))
    (claim,) = made.claims
    assert claim.name == "k"
    assert claim.value == ir.Binary("<", ir.Total("largest", "o"), ir.Const(5.0))
    assert claim.given == ir.Binary(">", W, ir.Const(1.0))


def test_traces(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "session,turn,new,out,think\r\n# a comment\r\n7,0,1,2,-.5\r\n\r\n7.0,1,3,4,5,1\r\n8,x,1e1,0,0\r\n7,2,6,6,6"
    )
    path = tmp_path / "prog.sq"
    text = (
        'trace "t.csv" ordered; turn { set w = new + forced; } session { turn; while (more) { tool (think); turn; } }'
    )
    path.write_text(f"fn main() {{ stage s : fifo; workload {{ {text} }} server {{ run s (cost(s, w)); }} }}")
    made = compile_file(path)
    assert made.trace == ir.Trace(
        True, (0, 2, 3, 4), ((1.0, 2.0, -0.5, 0.0), (3.0, 4.0, 5.0, 1.0), (10.0, 0.0, 0.0, 0.0), (6.0, 6.0, 6.0, 0.0))
    )
    assert made.attributes == ("new", "out", "think", "more", "forced", "w")
    assert ir.from_json(ir.to_json(made)) == made


def test_attributes_of_the_language_are_not_listed() -> None:
    made = program(workload="turn { set turn_no = 7; set w = 1; }")
    assert made.attributes == ("w",)

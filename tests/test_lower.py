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
EXECUTED = sorted(
    path
    for pattern in ("04-*", "a*", "b*", "c01*", "c04*", "c12*", "d01*", "d07*")
    for path in CORPUS.glob(f"{pattern}.sq")
)
REFUSED = sorted(set(CORPUS.rglob("*.sq")) - set(EXECUTED))


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


@pytest.mark.parametrize("path", REFUSED, ids=[p.stem for p in REFUSED])
def test_other_programs_are_valid_but_not_executed(path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        compile_file(path)
    assert [d.code for d in caught.value.diagnostics] == ["E901"]


def test_the_founding_program() -> None:
    made = compile_file(CORPUS / "04-cache.sq")
    assert made.inputs[0].name == "C"
    assert made.inputs[0].default == 2e5
    assert made.attributes == ("K", "n", "o", "warm")
    assert [(s.name, s.kind) for s in made.stages] == [("engine", ir.Fifo(1)), ("tool", ir.Delay())]
    assert [p.cap for p in made.pools] == [ir.Input("C")]
    assert isinstance(made.arrival, ir.Poisson)
    assert made.arrival.rate == ir.Const(0.5)
    assert made.observes == (ir.ObserveDecl("hit", test=False),)
    hold, branch = made.server
    assert isinstance(hold, ir.Hold)
    assert hold.units == hold.refusable == hold.cache
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
        ir.Fifo(3),
        ir.Ps(ir.Binary("min", ir.Present(), ir.Const(2.0))),  # type: ignore[arg-type]
        ir.Delay(),
        ir.Fifo(1),
    ]


# --------------------------------------------------------------------------- statements


def test_default_session_is_one_turn() -> None:
    assert program().session == (ir.Turn(),)


def test_implicit_tool_stage_is_last() -> None:
    made = program(workload="session { turn; tool (3); }", items="stage z : delay;")
    assert [s.name for s in made.stages] == ["z", "s", "tool"]
    run = made.session[1]
    assert isinstance(run, ir.Run)
    assert (run.stage, run.work) == ("tool", ir.Const(3.0))


def test_declared_tool_stage_is_used() -> None:
    made = program(workload="session { turn; tool (3); }", items="stage tool : fifo;")
    assert [(s.name, s.kind) for s in made.stages] == [("tool", ir.Fifo(1)), ("s", ir.Fifo(1))]


def test_services_run_on_their_stages() -> None:
    made = program("prefill (1); decode on s (2);", items="stage prefill : fifo;")
    assert [(r.stage, r.work) for r in made.server if isinstance(r, ir.Run)] == [
        ("prefill", ir.Const(1.0)),
        ("s", ir.Const(2.0)),
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
    assert first.refusable is None
    assert second.refusable == second.units == ir.Attr("serial")
    assert made.pools[0].cap == ir.Const(math.inf)


def test_records_become_attributes() -> None:
    made = program("Cost c = { kv: 2, s: serial }; hold kv (c.kv) { run s (c.s); }", items="pool kv { cap 9; }")
    assert made.attributes == ("c.kv", "c.s")
    assert [s.name for s in made.server if isinstance(s, ir.Set)] == ["c.kv", "c.s"]
    hold = made.server[-1]
    assert isinstance(hold, ir.Hold)
    assert hold.units == ir.Attr("c.kv")


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
    assert first.value == ir.Read("queue", "s")


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

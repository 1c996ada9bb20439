"""Step stages to IR, in both spellings: `stage : step { ... }`, and devices, engines and pools on them."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest

import reference
from engine_texts import RUNS, SCHEDULE, engine, step
from harness import CORPUS
from sqc import ir, irfile
from sqc.check.language import CONTEXT, ENGINE_NAMES
from sqc.diagnostics import CompileError
from sqc.lower import compile_file, compile_text
from sqc.passes.fold import fold
from wrong import findings

STEPS = sorted(CORPUS.glob("f*.sq"))
TWINS = sorted((CORPUS / "engine").glob("*.sq"))
STATION = CORPUS / "i04_station_engine.sq"
ALL = [*STEPS, *TWINS, STATION]


def of_file(path: Path) -> ir.Program:
    return compile_file(path)


def of_text(text: str) -> ir.Program:
    return compile_text(text, "prog.sq")


def kind(text: str) -> ir.Step:
    """What the stage `e` of a program is."""
    (found,) = (stage.kind for stage in of_text(text).stages if stage.name == "e")
    assert isinstance(found, ir.Step)
    return found


def bare(node: Any) -> Any:
    """Without spans, and without the text."""
    if isinstance(node, tuple):
        return tuple(map(bare, node))
    if not dataclasses.is_dataclass(node) or isinstance(node, type):
        return node
    fields = {f.name: bare(getattr(node, f.name)) for f in dataclasses.fields(node) if f.name not in ("file", "source")}
    return type(node)(**{name: None if isinstance(value, ir.Span) else value for name, value in fields.items()})


UNDISTURBED = ir.Unary("not", ir.Context("preempted"))
DEFAULT = (ir.Serve(), ir.Admit(test=UNDISTURBED))

# --------------------------------------------------------------------------- the corpus


def test_the_corpus_is_there() -> None:
    assert len(STEPS) == 16
    assert len(TWINS) == 10


@pytest.mark.parametrize("path", ALL, ids=lambda path: "-".join(path.parts[-2:]))
def test_programs_with_steps(path: Path, tmp_path: Path) -> None:
    """Lowered, folded, to JSON and back."""
    made = of_file(path)
    assert fold(made) == made
    assert ir.from_json(ir.to_json(made)) == made
    (tmp_path / "program.json").write_text(ir.to_json(made), encoding="utf-8")
    assert irfile.read(tmp_path / "program.json") == made
    assert any(isinstance(stage.kind, ir.Step) for stage in made.stages)


@pytest.mark.parametrize("path", TWINS, ids=lambda path: path.stem)
def test_twins_are_equal(path: Path) -> None:
    assert bare(of_file(path)) == bare(of_file(CORPUS / path.name))


def test_the_engine_of_a_station() -> None:
    made = of_file(STATION)
    kv, reqs = made.pools
    assert (kv.name, kv.size, kv.cap, kv.block, kv.preempt) == ("E.kv", 2, ir.Const(320.0), ir.Const(16.0), "lifo")
    assert (reqs.name, reqs.size, reqs.cap) == ("E.reqs", 2, ir.Const(4.0))
    assert (kv.admit_via, reqs.admit_via) == (None, ir.Ref("E"))  # member for member
    (stage,) = made.stages
    assert (stage.name, stage.size) == ("E", 2)
    assert isinstance(stage.kind, ir.Step)
    assert stage.kind.memory == ir.Ref("E.kv")
    assert stage.kind.body == DEFAULT
    runs = [node for node in ir.walk(made.server) if isinstance(node, ir.Run)]
    mine = ir.Ref("E", ir.Attr("k"))
    assert [(r.stage, r.mode, r.growing) for r in runs] == [
        (mine, "prefill", ir.Ref("E.kv", ir.Attr("k"))),
        (mine, "decode", ir.Ref("E.kv", ir.Attr("k"))),
    ]
    assert ir.Read("budget_left", mine) in set(ir.walk(made.server))


# --------------------------------------------------------------------------- one stage


def test_defaults() -> None:
    assert kind(step("cost 1;")) == ir.Step(ir.Const(math.inf), ir.Const(1.0), DEFAULT)


def test_options() -> None:
    made = kind(step("budget 8; cost 1; chunk decoders + 1; granule 4; memory kv;", "pool kv { cap 9; }"))
    assert made.chunk == ir.Binary("+", ir.Context("decoders"), ir.Const(1.0))
    assert (made.granule, made.memory) == (ir.Const(4.0), ir.Ref("kv"))
    assert kind(step("cost 1; chunk inf;")).chunk == ir.Const(0.0)  # no cap has one form


DECODING, REMAINING = ir.Context("decoding"), ir.Context("remaining")
DECODES_FIRST = (ir.Cond(DECODING, ir.Const(0.0), ir.Const(1.0)),)


@pytest.mark.parametrize(
    ("rule", "body"),
    [
        ("serve;", DEFAULT),
        ("serve admission;", DEFAULT),
        ("serve by (-remaining);", (ir.Serve((ir.Unary("neg", REMAINING),)), DEFAULT[1])),
        ("serve decode first;", (ir.Serve(DECODES_FIRST), DEFAULT[1])),
        ("serve only (decoding);", (ir.Serve((), DECODING), ir.Admit(DECODING, UNDISTURBED))),
        (
            "serve only (decoding) by (remaining);",
            (ir.Serve((REMAINING,), DECODING), ir.Admit(DECODING, UNDISTURBED)),
        ),
        ("serve exclusive prefill;", (ir.ServeExclusive(),)),
        ("iteration { serve; admit; }", (ir.Serve(), ir.Admit())),
        ("serve by (remaining); iteration { serve; admit; }", (ir.Serve((REMAINING,)), ir.Admit())),
        ("serve by (remaining); iteration { serve admission; }", (ir.Serve(),)),
        (
            "iteration { admit only (decoding) while (residents < 3); }",
            (ir.Admit(DECODING, ir.Binary("<", ir.Context("residents"), ir.Const(3.0))),),
        ),
    ],
)
def test_serving_rules(rule: str, body: tuple[ir.StepStmt, ...]) -> None:
    assert kind(step(f"cost 1; {rule}")).body == body


@pytest.mark.parametrize(
    ("schedule", "body"),
    [
        (SCHEDULE, DEFAULT),
        ("advance running; admit waiting while (!running.preempted);", DEFAULT),
        ("advance running admission; admit waiting;", (ir.Serve(), ir.Admit())),
        ("advance running decode first;", (ir.Serve(DECODES_FIRST),)),
        ("advance running only (decoding) by (remaining);", (ir.Serve((REMAINING,), DECODING),)),
        ("admit waiting only (decoding);", (ir.Admit(DECODING),)),
        ("exclusive prefill; admit waiting while (running.preempted == 0);", (ir.ServeExclusive(),)),
        ("exclusive prefill; admit waiting while (!running.preempted);", (ir.ServeExclusive(),)),
    ],
)
def test_schedules(schedule: str, body: tuple[ir.StepStmt, ...]) -> None:
    assert kind(engine(schedule)).body == body


def test_bodies_with_registers() -> None:
    body = (
        ir.StepBranch(
            ir.Binary("==", ir.Context("just"), ir.Const(0.0)),
            (ir.Admit(),),
            (ir.Serve(), ir.StepSet("just", ir.Const(2.0))),
        ),
        ir.StepSet("just", ir.Binary(">", ir.Context("admitted"), ir.Const(0.0))),
    )
    written = "branch (just == 0) {{ {} }} else {{ {} set just = 2; }} set just = {} > 0;"
    first = step(
        f"cost 1 + just; state just = 1 + 1; iteration {{ {written.format('admit;', 'serve;', 'admitted')} }}",
        "gauge g = just; claim c : every iteration of e (just < 3); claim d : at end (just < 3);",
    )
    second = engine(
        written.format("admit waiting;", "advance running;", "waiting.admitted"), "1 + just", "state just = 2;"
    )
    for text in (first, second):
        made = kind(text)
        assert made.body == body
        assert made.registers == (("just", ir.Const(2.0)),)
        assert made.cost == ir.Binary("+", ir.Const(1.0), ir.Context("just"))
    program = of_text(first)
    assert program.gauges[0].value == ir.Context("just")
    assert [ir.Context("just") in set(ir.walk(claim)) for claim in program.claims] == [True, True]


def test_where_registers_are_read() -> None:
    """By the pools that the stage admits to, and the headers of holds that wait in their queues."""
    items = "pool kv { cap 9; } pool q { cap 9; admit via e; queue by (just); }"
    body = "cost 1; state just = 0; iteration { serve; admit; set just = 1; }"
    made = of_text(step(body, items, f"hold q (cost(q, just)), kv (cost(kv, just)) {{ {RUNS} }}"))
    (hold,) = made.server
    assert isinstance(hold, ir.Hold)
    assert [part.units for part in hold.parts] == [ir.Context("just"), ir.Context("just")]
    assert made.pools[1].queue == (ir.Context("just"),)


def test_lets_of_a_schedule() -> None:
    """Read in `each at most` they are written out; elsewhere they are read as the iteration starts."""
    capped = kind(engine("let b = 4; let c = b + 2; advance running each at most (c);"))
    assert (capped.chunk, capped.body) == (ir.Const(6.0), (ir.Serve(),))
    read = kind(engine("let a = 9; let b = running.count; let c = b + 2; advance running only (c > 3);"))
    assert [type(s) for s in read.body] == [ir.StepLet, ir.StepLet, ir.Serve]
    b, c, serve = read.body
    assert isinstance(b, ir.StepLet)
    assert isinstance(c, ir.StepLet)
    assert b.value == ir.Context("residents")
    assert c.value == ir.Binary("+", ir.Context(b.name), ir.Const(2.0))
    assert serve == ir.Serve((), ir.Binary(">", ir.Context(c.name), ir.Const(3.0)))


def test_a_let_that_nothing_reads_is_checked() -> None:
    assert kind(engine("let a = running.count; advance running;")).body == (ir.Serve(),)
    assert [d.code for d in findings(engine("let a = runing; advance running;"))] == ["E201"]


def test_a_let_is_no_attribute() -> None:
    made = of_text(engine("let n = 4; advance running only (n > 3);", server="set n = 7; run e decode (cost(e, n));"))
    run = made.server[1]
    assert isinstance(run, ir.Run)
    assert run.work == ir.Attr("n")


@pytest.mark.parametrize(
    ("each", "chunk"),
    [
        ("6", ir.Const(6.0)),
        ("inf", ir.Const(0.0)),
        ("max(1, running.count)", ir.Binary("max", ir.Const(1.0), ir.Context("residents"))),
        (
            "running.decoding > 2 ? 4 : inf",
            ir.Cond(ir.Binary(">", ir.Context("decoders"), ir.Const(2.0)), ir.Const(4.0), ir.Const(math.inf)),
        ),
    ],
)
def test_each_at_most(each: str, chunk: ir.Expr) -> None:
    schedule = f"advance running each at most ({each}); admit waiting each at most ({each});"
    assert kind(engine(schedule)).chunk == chunk
    exclusive = (
        f"exclusive prefill each at most ({each}); admit waiting while (!running.preempted) each at most ({each});"
    )
    assert kind(engine(exclusive)).chunk == chunk


def test_names_of_engines() -> None:
    """Every name that an engine has for a variable of its iterations is one of the IR's."""
    assert set(ENGINE_NAMES) == {name for name in CONTEXT if "." in name}
    assert set(ENGINE_NAMES.values()) <= set(ir.CONTEXT)
    for name in ("running.count", "waiting.count", *(n for n in ENGINE_NAMES if n.startswith("batch."))):
        assert kind(engine(execute=f"1 + {name}")).cost == ir.Binary("+", ir.Const(1.0), ir.Context(ENGINE_NAMES[name]))
    for name in (n for n in ENGINE_NAMES if not n.startswith("batch.") or n in ("batch.tokens", "batch.prefilled")):
        (admit,) = kind(engine(f"admit waiting while ({name} < 3);")).body
        assert admit == ir.Admit(test=ir.Binary("<", ir.Context(ENGINE_NAMES[name]), ir.Const(3.0)))


def test_times_of_a_device() -> None:
    """Definitions of the device, in any order, with the program's definitions and constants."""
    device = "slow (x) = 2 * fast(x); fast (x) = c * twice(x); both (x, y) = max(slow(x), y);"
    made = kind(engine(execute="both(batch.tokens, 9)", device=device, items="let c = 3; def twice(x) { x + x }"))
    tokens = ir.Context("tokens")
    fast = ir.Binary("*", ir.Const(3.0), ir.Binary("+", tokens, tokens))
    assert made.cost == ir.Binary("max", ir.Binary("*", ir.Const(2.0), fast), ir.Const(9.0))


def test_times_of_two_devices() -> None:
    """Each engine's `execute` has the times of its own device."""
    other = "device b { f (x) = 5 * x; } engine g on b { tokens cap 1; schedule { advance running; } execute (f(1)); }"
    made = of_text(engine(execute="f(1)", device="f (x) = 3 * x;", items=other))
    assert [stage.kind.cost for stage in made.stages if isinstance(stage.kind, ir.Step)] == [
        ir.Const(3.0),
        ir.Const(5.0),
    ]


# --------------------------------------------------------------------------- pools and runs


def test_pools_on_devices_and_engines() -> None:
    items = "pool kv on {} {{ block 2; }} pool r on e {{ }}"
    on_device = of_text(engine(device="kv cap 9;", parts="r cap 4;", items=items.format("d")))
    by_engine = of_text(engine(device="kv cap 9;", parts="r cap 4;", items=items.format("e.d")))
    for made, via in ((on_device, None), (by_engine, ir.Ref("e"))):
        kv, r = made.pools
        assert (kv.cap, kv.block, kv.size, kv.admit_via) == (ir.Const(9.0), ir.Const(2.0), None, via)
        assert (r.cap, r.size, r.admit_via) == (ir.Const(4.0), None, ir.Ref("e"))
        assert isinstance(made.stages[0].kind, ir.Step)
        assert made.stages[0].kind.memory == ir.Ref("kv")


def test_families() -> None:
    """Pools and engines are families as their device; member for member."""
    items = "pool kv on d { } pool r on e { }"
    server = "run e[1] decode (cost(e, 1));"
    made = of_text(engine(device="kv cap 9;", parts="r cap 4;", items=items, size="[2]", server=server))
    assert [(p.name, p.size, p.admit_via) for p in made.pools] == [("kv", 2, None), ("r", 2, ir.Ref("e"))]
    (stage,) = made.stages
    assert stage.size == 2
    assert isinstance(stage.kind, ir.Step)
    assert stage.kind.memory == ir.Ref("kv")


def test_several_queues_of_one_engine() -> None:
    made = of_text(engine(parts="r[3] cap 4;", items="pool r on e { }"))
    assert [(p.size, p.admit_via) for p in made.pools] == [(3, ir.Ref("e"))]


def test_one_for_all_or_member_for_member() -> None:
    server = "run e[0] decode (cost(e, 1));"
    single = kind(step("cost 1; memory kv;", "pool kv { cap 9; }", server, "[2]"))
    assert single.memory == ir.Ref("kv")
    family = of_text(step("cost 1; memory kv;", "pool kv[2] { cap 9; admit via e; }", server, "[2]"))
    assert family.pools[0].admit_via == ir.Ref("e")
    member = of_text(step("cost 1; memory kv[1];", "pool kv[2] { cap 9; } pool q { admit via e[0]; }", server, "[2]"))
    assert member.pools[1].admit_via == ir.Ref("e", ir.Const(0.0))
    kept = member.stages[0].kind
    assert isinstance(kept, ir.Step)
    assert kept.memory == ir.Ref("kv", ir.Const(1.0))


@pytest.mark.parametrize(
    "statement",
    ["run e prefill (cost(e, 3));", "prefill (3);", "prefill on e (3);"],
)
def test_prefills(statement: str) -> None:
    for text in (step(server=statement), engine(server=statement)):
        (run,) = of_text(text).server
        assert bare(run) == ir.Run(ir.Ref("e"), ir.Const(3.0), mode="prefill")


def test_growing_runs() -> None:
    server = "hold kv (cost(kv, 1)) { run e prefill (cost(e, 3)) growing kv; decode (2) growing kv; }"
    (hold,) = of_text(step(items="pool kv { cap 9; }", server=server)).server
    assert isinstance(hold, ir.Hold)
    assert [bare(s) for s in hold.body] == [
        ir.Run(ir.Ref("e"), ir.Const(3.0), mode="prefill", growing=ir.Ref("kv")),
        ir.Run(ir.Ref("e"), ir.Const(2.0), mode="decode", growing=ir.Ref("kv")),
    ]


def test_a_stage_of_the_words_own_name_comes_first() -> None:
    (run,) = of_text(step(items="stage prefill : fifo;", server="prefill (3);")).server
    assert bare(run) == ir.Run(ir.Ref("prefill"), ir.Const(3.0))


def test_members_by_service_statement() -> None:
    (run,) = of_text(step(server="decode [1] (3);", size="[2]")).server
    assert bare(run) == ir.Run(ir.Ref("e", ir.Const(1.0)), ir.Const(3.0), mode="decode")


def test_claims_over_iterations() -> None:
    items = (
        "claim a given (serial < 9) : every iteration of e (tokens <= demand + served);"
        "claim b : some iteration of e (residents < 2);"
    )
    first, second = of_text(step(items=items)).claims
    assert (first.kind, first.stage, first.given) == (
        "every_iteration",
        ir.Ref("e"),
        ir.Binary("<", ir.Attr("serial"), ir.Const(9.0)),
    )
    assert (second.kind, second.stage) == ("some_iteration", ir.Ref("e"))
    member = of_text(step(items="claim b : some iteration of e[1] (tokens < 2);", size="[2]", server="decode [0] (1);"))
    assert member.claims[0].stage == ir.Ref("e", ir.Const(1.0))


# --------------------------------------------------------------------------- stations

DEVICE = "device gpu { kv cap 320; }"
OWN = "engine on gpu { reqs cap 4; tokens cap 32; schedule { advance running; } execute (0.01 * batch.tokens); }"
POOLS = "pool kv on gpu { block 16; } pool reqs on E { }"
ENTRY = "prefill (x) { hold reqs (cost(reqs, 1)), kv (cost(kv, x)) { run E prefill (cost(E, x)); mark seen; } }"


def station(inside: str, head: str = "queue E : prefill", call: str = "E.prefill (n);", items: str = "") -> str:
    return (
        f"fn main() {{ {head} {{ {inside} }}\n{items}\n"
        f"workload {{ arrive batch(2); turn {{ set n = 3; }} }} server {{ {call} }} }}"
    )


def test_a_single_station() -> None:
    made = of_text(station(f"pool z {{ cap 1; }} {DEVICE} {OWN} {POOLS} {ENTRY}"))
    assert [(p.name, p.size) for p in made.pools] == [("E.z", None), ("E.kv", None), ("E.reqs", None)]
    assert [p.admit_via for p in made.pools] == [None, None, ir.Ref("E")]
    assert [(s.name, s.size) for s in made.stages] == [("E", None)]


def test_pools_of_a_station_by_its_engine() -> None:
    made = of_text(station(f"{DEVICE} {OWN} {POOLS.replace('on gpu', 'on E.gpu')} {ENTRY}"))
    assert made.pools[0].admit_via == ir.Ref("E")
    assert isinstance(made.stages[0].kind, ir.Step)
    assert made.stages[0].kind.memory == ir.Ref("E.kv")


def test_an_engine_reads_the_pools_above_it() -> None:
    inside = f"{DEVICE} pool kv on gpu {{ }} {OWN.replace('0.01 *', 'used(kv) +')} pool reqs on E {{ }} {ENTRY}"
    made = of_text(station(inside))
    assert isinstance(made.stages[0].kind, ir.Step)
    assert ir.Read("used", ir.Ref("E.kv")) in set(ir.walk(made.stages[0].kind.cost))


def test_registers_of_a_station() -> None:
    """Under a long name, which a claim and a gauge may read."""
    own = OWN.replace("tokens cap 32;", "tokens cap 32; state g = 0;").replace(
        "running; }", "running; set g = g + 1; }"
    )
    items = "claim c : every iteration of E (E.g < 9); gauge h = E.g;"
    made = of_text(station(f"{DEVICE} {own} {POOLS} {ENTRY}", items=items))
    assert isinstance(made.stages[0].kind, ir.Step)
    assert made.stages[0].kind.registers == (("E.g", ir.Const(0.0)),)
    assert made.stages[0].kind.body[-1] == ir.StepSet("E.g", ir.Binary("+", ir.Context("E.g"), ir.Const(1.0)))
    assert made.gauges[0].value == ir.Context("E.g")


def test_two_stations_with_devices_of_one_name() -> None:
    timed = f"{DEVICE} {OWN.replace('0.01', 'f(2)')} {POOLS} {ENTRY}"
    first = timed.replace("{ kv", "{ f (x) = 2 * x; kv")
    other = timed.replace("{ kv", "{ f (x) = x; kv").replace("E", "F")
    made = of_text(station(first, items=f"queue F : prefill {{ {other} }}"))
    costs = [stage.kind.cost for stage in made.stages if isinstance(stage.kind, ir.Step)]
    assert [ir.Const(value) in set(ir.walk(cost)) for cost, value in zip(costs, (4.0, 2.0), strict=True)] == [
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("code", "text", "message"),
    [
        ("E603", station(f"{DEVICE} {OWN.replace('engine on', 'engine X on')} {POOLS} {ENTRY}"), "is called `E`"),
        ("E603", station(f"{OWN} {DEVICE} {POOLS} {ENTRY}"), "no device `gpu` above"),
        ("E603", station(f"{DEVICE} device b {{ }} {OWN} {OWN} {POOLS} {ENTRY}"), "given twice"),
        ("E603", station(f"{DEVICE} {OWN} {POOLS} serve fifo; {ENTRY}"), "given twice"),
        ("E603", station(f"serve fifo; {DEVICE} {OWN} {POOLS} {ENTRY}"), "stands below the stage"),
        (
            "E603",
            station(f"{DEVICE} {OWN} pool kv on gpu {{ }} {ENTRY} pool reqs on E {{ }}"),
            "this pool stands below",
        ),
        ("E603", station(f"{DEVICE} {ENTRY} {OWN} {POOLS}"), "the engine stands below an entry"),
        ("E603", station(f"{POOLS} {DEVICE} {OWN} {ENTRY}"), "`gpu` is no device or engine"),
        ("E603", station(f"{DEVICE} {OWN} {POOLS} pool z {{ }} {ENTRY}"), "stands below the stage"),
        ("E603", station(f"{DEVICE.replace('gpu', 'gpu[2]')} {OWN} {POOLS} {ENTRY}"), "of its own"),
        ("E603", station(f"{DEVICE} {OWN.replace('reqs cap', 'reqs[2] cap')} {POOLS} {ENTRY}"), "without an index"),
        ("E603", station(f"{DEVICE} device gpu {{ }} {OWN} {POOLS} {ENTRY}"), "`gpu` is given twice"),
        ("E603", station(f"{DEVICE} {OWN} {POOLS}"), "no entry `prefill`"),
        ("E308", station(f"{DEVICE} {OWN} {POOLS} {ENTRY.replace('run E prefill', 'run')}"), "`prefill` or `decode`"),
        ("E705", station(f"{DEVICE} {OWN} pool kv on gpu {{ }} prefill (x) {{ }}"), "`E.reqs` of `E` is no pool"),
    ],
)
def test_refused_in_stations(code: str, text: str, message: str) -> None:
    found = findings(text)
    assert [d.code for d in found if message in d.message] == [code], [str(d) for d in found]


# --------------------------------------------------------------------------- the reference

# Both must accept these, or both refuse them; with the run on zero seconds, only reading counts.
BOTH = {
    "default": engine(),
    "on the device, by the engine": engine(device="kv cap 9;", items="pool kv on e.d { }"),
    "a device without an engine": engine(items="device b { k cap 3; } pool k on b { }"),
    "two pools on one device": engine(device="a cap 3; b cap 4;", items="pool a on d { } pool b on d { }"),
    "each differs": engine("advance running each at most (3); admit waiting each at most (4);"),
    "each of a let": engine("let c = running.count > 2 ? 4 : inf; advance running each at most (c);"),
    "each may be 0": engine("advance running each at most (running.count);"),
    "a path that does nothing": engine("branch (running.count > 1) { advance running; }"),
    "a body with a register": engine("advance running; admit waiting; set r = 1;", parts="state r = 0;"),
    "a register in a gauge": engine("advance running; set r = 1;", parts="state r = 0;", items="gauge g = r;"),
    "a register in a statement": engine(
        "advance running; set r = 1;", parts="state r = 0;", server=f"set x = r; {RUNS}"
    ),
    "times call each other": engine(execute="f(1)", device="f (x) = g(x) + 1; g (x) = 2 * x;"),
    "a time in the schedule": engine("advance running only (f(1));", device="f (x) = x;"),
    "exclusive": engine("exclusive prefill; admit waiting while (running.preempted == 0);"),
    "exclusive with more": engine("exclusive prefill; advance running;"),
    "granule above the cap": engine("advance running each at most (3);", tokens="tokens cap 8; granule 4;"),
    "now in a while": engine("advance running; admit waiting while (now < 3);"),
    "now in a key": engine("advance running by (now);"),
    "the batch so far": engine("advance running; admit waiting while (batch.tokens < 3);"),
    "the batch in a budget": engine(tokens="tokens cap batch.tokens;"),
    "several queues": engine(parts="r[3] cap 4;", items="pool r on e { }"),
    "a family": engine(size="[2]", server="run e[0] decode (cost(e, 1));"),
    "a family on one device": engine(server="run e[0] decode (cost(e, 1));").replace("engine e", "engine e[2]"),
    "own station": station(f"{DEVICE} {OWN} {POOLS} {ENTRY}"),
    "own station, pools first": station(f"{POOLS} {DEVICE} {OWN} {ENTRY}"),
}


@pytest.mark.reference
@pytest.mark.skipif(not reference.AVAILABLE, reason=reference.WHY_NOT)
@pytest.mark.parametrize("name", BOTH)
def test_as_the_reference_reads_it(name: str) -> None:
    accepted = True
    try:
        reference.run(BOTH[name], horizon=1)
    except reference.Refused as error:
        accepted = not error.compiling
    try:
        of_text(BOTH[name])
    except CompileError:
        assert not accepted
    else:
        assert accepted

"""Step stages, devices and engines: what is refused, in either spelling, and what the help says."""

from __future__ import annotations

import pytest

from engine_texts import SCHEDULE, engine, step
from sqc import ir
from sqc.diagnostics import CODES
from sqc.lower import compile_text
from wrong import findings

ONE = "engine g on {} {{ tokens cap 3; schedule {{ advance running; }} execute (1); }}"
BODY = "cost 1; state r = 0; iteration {{ serve; admit; {} }}"
OTHER = "stage f : step { cost 1; state q = 0; iteration { serve; set q = 1; } }"

# code, program, the text under the caret, a part of the message
REFUSED: list[tuple[str, str, str, str]] = [
    ("E701", engine().replace("engine e", "engine"), "engine", "has a name"),
    ("E701", engine(tokens=""), "engine", "no `tokens`"),
    ("E701", engine().replace("execute (1);", ""), "engine", "no `execute`"),
    ("E701", engine().replace(f"schedule {{ {SCHEDULE} }}", ""), "engine", "no `schedule`"),
    ("E702", engine().replace("on d", "on dd"), "dd", "no device `dd` is declared above"),
    ("E702", engine(items="pool kv on d { }"), "kv", "`d` has no capacity `kv`"),
    (
        "E702",
        engine(device="kv cap 3;", items="pool kv on s { } stage s : fifo; pool kk on d { }"),
        "s",
        "no device or",
    ),
    ("E702", engine(device="kv cap 3;", items="pool kv on f.d { }"), "f", "no engine `f`"),
    ("E703", engine(items=ONE.format("d")), "d", "runs an engine already"),
    ("E703", engine(size="[2]", server="decode [0] (1);").replace("engine e[2]", "engine e"), "e", "a family of 2"),
    ("E703", engine().replace("engine e", "engine e[2]"), "e", "is one device"),
    ("E703", engine(device="a cap 3; b cap 4;", items="pool a on d { } pool b on d { }"), "b", "two pools"),
    ("E703", engine(items="device b { k cap 3; } pool k on e.b { }"), "b", "runs on `d`, not on `b`"),
    ("E704", engine(device="kv cap 3;", items="pool kv on d { cap 4; }"), "cap", "its capacity from there"),
    ("E704", engine(device="kv cap 3;", items="pool kv on d { admit via e; }"), "admit", "who admits to it"),
    ("E704", engine(device="kv cap 3;", items="pool kv[2] on d { }"), "2", "exactly if that is one"),
    ("E704", engine(device="kv[2] cap 3;", items="pool kv on d { }"), "2", "no array"),
    ("E704", engine(tokens="tokens[2] cap 3;"), "2", "one budget"),
    (
        "E704",
        engine(parts="r[3] cap 3;", items="pool r on e { }", size="[2]", server="decode [0] (1);"),
        "3",
        "of its own",
    ),
    ("E705", engine(device="kv cap 3;"), "kv", "no pool"),
    ("E705", engine(parts="r cap 3;"), "r", "no pool"),
    ("E706", engine(device="f (x, y) = x;"), "y", "does not read its parameter `y`"),
    ("E706", engine(device="f (x) = x;", items="gauge g = f(1);"), "f", "only its engine's `execute`"),
    ("E706", engine("advance running only (f(1));", device="f (x) = x;"), "f", "only its engine's `execute`"),
    ("E706", engine(device="f (x) = x;", items="device b { }" + ONE.format("b").replace("(1)", "(f(1))")), "f", "only"),
    ("E707", step("cost 1; iteration { }"), "iteration", "neither serves nor admits"),
    ("E707", step("cost 1; iteration { branch (residents > 1) { serve; } }"), "iteration", "neither"),
    ("E707", engine("branch (running.count > 1) { advance running; }"), "schedule", "neither serves nor admits"),
    ("E707", engine(""), "schedule", "neither serves nor admits"),
    ("E708", step("cost 1; serve exclusive prefill; iteration { serve; }"), "serve", "takes back"),
    ("E708", step("cost 1; serve only (decoding); iteration { serve; }"), "serve", "a body by itself"),
    ("E708", engine("exclusive prefill;"), "exclusive", "goes with one admission"),
    ("E708", engine("exclusive prefill; admit waiting;"), "exclusive", "goes with one admission"),
    ("E708", engine(f"{SCHEDULE} exclusive prefill;"), "exclusive", "goes with one admission"),
    ("E708", step("cost 1; granule 4; serve exclusive prefill;"), "granule", "block every decode"),
    ("E709", engine("advance running each at most (3); admit waiting;"), "admit waiting;", "one cap"),
    ("E709", engine("advance running each at most (0);"), "0", "more than 0"),
    ("E709", engine("advance running each at most (running.count);"), "running.count", "more than 0"),
    ("E709", engine("advance running each at most (running.count > 2 ? 0 : 3);"), "running.count > 2 ? 0 : 3", "more"),
    ("E710", engine(f"{SCHEDULE} set q = 1;"), "q", "no register"),
    ("E710", step(BODY.format("set q = 1;"), OTHER), "q", "a register of `f`, not of `e`"),
    ("E710", step("cost 1; state r = 0;"), "r", "nothing can set"),
    ("E710", step(BODY.format("set r = 1;"), size="[2]", server="decode [0] (1);"), "r", "of each member"),
    ("E710", step(BODY.format("set r = q;"), OTHER), "q", "a register of `f`"),
    ("E710", step(BODY.format("set r = 1;"), server="set x = r; decode (1);"), "r", "apart from its iterations"),
    ("E710", step(BODY.format("set r = 1;"), "pool kv { queue by (r); }"), "r", "apart from its iterations"),
    (
        "E710",
        step(BODY.format("set r = 1;"), f"{OTHER} claim c : every iteration of f (r < 3);", "decode on e (1);"),
        "r",
        "apart",
    ),
    ("E711", engine("advance running; let c = 3; admit waiting;"), "let", "before the statements"),
    ("E711", engine("branch (running.count > 1) { let c = 3; advance running; } advance running;"), "let", "before"),
    # what the general codes say of step stages
    ("E201", engine(execute="batch.tokenz"), "batch.tokenz", "unknown name"),
    ("E203", engine(execute="f(1, 2)", device="f (x) = x;"), "f(1, 2)", "takes 1 argument"),
    ("E204", engine().replace("engine e", "engine engine"), "engine", "a word of the language"),
    ("E204", engine(device="f (x) = x; f cap 3;", items="pool f on d { }"), "f", "declared twice"),
    ("E204", engine(device="k cap 3; k cap 4;", items="pool k on d { }"), "k", "declared twice"),
    ("E204", engine(parts="k cap 3; k cap 4;", items="pool k on e { }"), "k", "declared twice"),
    ("E204", engine(device="min (x) = x;"), "min", "a word of the language"),
    ("E204", engine(device="f (x) = x; f (x) = 2 * x;"), "f", "defined twice"),
    ("E204", engine(device="f (x) = x;", items="def f(x) { x }"), "f", "a definition of the program"),
    ("E204", engine(items="pool d { }"), "d", "`d` is a device"),
    ("E204", engine(items="device d { }"), "d", "declared twice"),
    ("E204", engine("let c = 3; let c = 4; advance running;"), "c", "declared twice"),
    ("E204", engine("let c = 3; advance running;", items="let c = 4;"), "c", "declared twice"),
    ("E204", engine("let e = 3; advance running;"), "e", "declared twice"),
    ("E204", engine("let tokens = 3; advance running;"), "tokens", "the language supplies"),
    ("E204", step(BODY.format("set r = 1;"), "pool r { }"), "r", "cannot also be a register"),
    ("E204", step("cost 1; state r = 0; state r = 1; iteration { serve; }"), "r", "declared twice"),
    ("E204", step(items="pool count { }", server="Cost running = { count: 1 }; decode (1);"), "count: 1", "supplies"),
    ("E205", step(BODY.format("").replace("= 0", "= tokens")), "tokens", "not a constant"),
    ("E205", engine(device="k cap queue(e);", items="pool k on d { }"), "queue(e)", "not a constant"),
    (
        "E205",
        step(items="claim c : every iteration of e[x] (tokens < 3);", size="[2]", server="set x = 1; decode [0] (1);"),
        "x",
        "constant index",
    ),
    ("E210", step("cost 1; memory kv;", "pool kv[2] { }"), "kv", "an array of 2, and `e` is no array"),
    ("E210", step(items="pool kv[3] { admit via e; }", size="[2]", server="decode [0] (1);"), "e", "an array of 2"),
    (
        "E210",
        step(items="claim c : every iteration of e (tokens < 3);", size="[2]", server="decode [0] (1);"),
        "e",
        "index",
    ),
    ("E210", step(size="[2]", server="prefill (1);"), "prefill", "needs an index"),
    ("E211", step(items="pool kv { admit via s; } stage s : fifo;"), "s", "no step stage"),
    ("E211", step("cost 1; memory e;"), "e", "a stage, not a pool"),
    ("E211", step(items="stage s : fifo;", server="set x = budget_left(s); decode (1);"), "s", "no step stage"),
    ("E211", step(items="stage s : fifo; claim c : every iteration of s (tokens < 3);"), "s", "no step stage"),
    ("E213", engine(device="f (x) = g(x); g (x) = f(x);"), "g", "uses itself"),
    ("E214", engine(execute="f(~exp(1))", device="f (x) = x * x;"), "~exp(1)", "draws"),
    ("E303", engine(execute="cost(e, 1)"), "cost(e, 1)", "plain number"),
    ("E305", engine(tokens="tokens cap 0;"), "0", "above 0"),
    ("E305", engine(tokens="tokens cap 8; granule 0;"), "0", "above 0"),
    ("E305", step("cost 1; granule 4; chunk 3;"), "4", "never get a token"),
    ("E305", step("cost 1; granule 4; chunk max(2, residents);"), "4", "with at most 2"),
    ("E308", step(server="run e (cost(e, 1));"), "e", "is `prefill` or `decode`"),
    ("E308", step(server="tool on e (1);"), "e", "is `prefill` or `decode`"),
    (
        "E308",
        step(
            items="pool a { } pool b { }",
            server="hold a (cost(a, 1)), b (cost(b, 1)) { transfer on e (1) from a to b (1); }",
        ),
        "e",
        "`prefill` or `decode`",
    ),
    (
        "E308",
        step(items="stage s : fifo; pool a { }", server="hold a (cost(a, 1)) { prefill on s (1) growing a; }"),
        "a",
        "growing",
    ),
    ("E310", step(items="stage s : ps(1); share maxmin;", server="run s, e (cost(s, e, 1));"), "e", "no ps(c)"),
    ("E401", engine(execute="1 + residents"), "residents", "not in `execute`"),
    ("E401", engine(execute="1 + running.decoding"), "running.decoding", "not in `execute`"),
    ("E401", engine(tokens="tokens cap batch.tokens;"), "batch.tokens", "not in `tokens cap`"),
    ("E401", engine("advance running; admit waiting while (batch.attention < 3);"), "batch.attention", "a schedule"),
    ("E401", engine("advance running only (running.preempted);"), "running.preempted", "`only` clause"),
    ("E401", engine("let c = waiting.admitted; advance running;"), "waiting.admitted", "`let`"),
    ("E401", step("cost 1 + running.count;"), "running.count", "the cost of a step stage"),
    ("E401", step("cost 1; budget tokens;"), "tokens", "the budget of a step stage"),
    ("E401", step("cost 1; iteration { branch (attention > 1) { serve; } else { admit; } }"), "attention", "body"),
    ("E401", step(items="claim c : every iteration of e (preempted < 1);"), "preempted", "a claim over iterations"),
    ("E401", engine(items="claim c : every iteration of e (running.count < 1);"), "running.count", "a claim over"),
    ("E401", engine(server="set x = running.count; decode (1);"), "running.count", "a statement"),
    ("E402", engine("advance running by (~exp(1));"), "~exp(1)", "may not draw"),
    ("E402", engine("advance running; admit waiting while (~exp(1) < 1);"), "~exp(1)", "may not draw"),
    ("E402", step(items="claim c : every iteration of e (~exp(1) < 1);"), "~exp(1)", "may not draw"),
    ("E403", engine("advance running; admit waiting while (now < 3);"), "now", "may not read `now`"),
    ("E403", step("cost 1; serve only (now < 3);"), "now", "may not read `now`"),
    ("E403", step("cost 1; serve only (work(e) < 3);"), "work(e)", "may not read `work`"),
    ("E403", engine("admit waiting while (budget_left(e) > 3);"), "budget_left(e)", "its own stage"),
    ("E403", engine(tokens="tokens cap budget_left(e);"), "budget_left(e)", "may not read `budget_left`"),
    ("E403", step(items="claim c : every iteration of e (budget_left(e) < 1);"), "budget_left(e)", "may not read"),
    ("E403", engine("admit waiting while (serial > 3);"), "serial", "no session"),
    ("E408", step(items="pool kv { }", server="decode (1) growing kv;"), "kv", "outside a hold"),
    (
        "E509",
        step(server="decode (1);").replace("batch(3);", "batch(3); session { decode (1); turn; }"),
        "decode",
        "the server uses it",
    ),
    ("E510", engine(tokens="tokens cap 3; tokens cap 4;"), "tokens", "given twice"),
    ("E510", engine(tokens="tokens cap 3; granule 3; granule 4;"), "granule", "given twice"),
    ("E510", step("cost 1; serve; serve decode first;"), "serve", "given twice"),
]


@pytest.mark.parametrize(
    ("code", "text", "under", "message"), REFUSED, ids=[f"{n}-{case[0]}" for n, case in enumerate(REFUSED)]
)
def test_refused(code: str, text: str, under: str, message: str) -> None:
    found = findings(text)[0]
    assert (found.code, message in found.message) == (code, True), str(found)
    assert found.span is not None
    assert found.source_line[found.span.col - 1 : found.span.end_col - 1] == under, str(found)
    assert found.help


def test_every_code_of_engines_is_tested() -> None:
    assert {code for code in CODES if code.startswith("E7")} <= {case[0] for case in REFUSED}


def test_a_capacity_that_depends_on_an_input_is_taken() -> None:
    made = compile_text(
        engine(
            "advance running each at most (x);",
            device="kv cap x;",
            items='let x = args.number("x", 4); pool kv on d { }',
        )
    )
    assert made.pools[0].cap == ir.Input("x")
    assert isinstance(made.stages[0].kind, ir.Step)
    assert made.stages[0].kind.chunk == ir.Input("x")


def test_help_names_the_other_spelling() -> None:
    (found,) = findings(engine(execute="1 + residents"))
    assert found.help == "here it is `running.count`"
    (found,) = findings(step("cost 1 + batch.attention;"))
    assert found.help == "here it is `attention`"
    (found,) = findings(engine(tokens="budget 3;"))
    assert found.help == "an engine writes tokens cap N;"
    (found,) = findings(engine("serve; admit waiting;"))
    assert found.help == "a schedule writes advance running"

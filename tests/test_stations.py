"""Stations: what they are lowered to, what the reference makes of the same texts, and one test per diagnostic."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

import reference
from harness import corpus_runs, corpus_text
from sqc import ir
from sqc.diagnostics import CODES, render
from sqc.lower import compile_text
from wrong import findings

STATIONS = ["i01_station_choose", "i02_station_pull", "i03_station_link", "i05_station_bottleneck"]


def rows(declared: tuple[ir.Pool | ir.Stage, ...]) -> list[tuple[str, int | None]]:
    """The rows of the report that pools or stages make: name and index."""
    return [(d.name, i) for d in declared for i in (range(d.size) if d.size is not None else [None])]


def reported(table: list[dict[str, Any]]) -> list[tuple[str, int | None]]:
    return [(row["name"], row["index"]) for row in table]


@pytest.mark.parametrize("name", STATIONS)
def test_rows_of_the_corpus(name: str) -> None:
    """Pools, stages and observations come out under the names and in the order of the measured reports."""
    made = compile_text(corpus_text(name))
    report = corpus_runs(name)[0]["report"]
    assert rows(made.pools) == reported(report["pools"])
    assert rows(made.stages) == reported(report["stages"])
    assert [o.name for o in made.observes] == list(report["observes"])


# --------------------------------------------------------------------------- the same program without stations

PLAIN = {
    "i01_station_choose": """
fn main() {
  pool P__slots[2] { cap 2; }
  stage P[2] : fifo;
  workload { arrive poisson(1.5); turn { set w = ~exp(1); } }
  server {
    choose i in 2 by (work(P[i]), i);
    hold P__slots[i] (cost(P__slots, 1)) {
      run P[i] (cost(P, w));
      set P__first_token = now;
    }
    observe ft = P__first_token;
  }
}""",
    "i02_station_pull": """
let NP = 2;
let ND = 2;
fn main() {
  pool P__kv[NP] { cap 400; evict lru; }
  stage P__nic[NP] : ps(200);
  stage P[NP] : fifo(2);
  pool D__kv[ND] { cap 500; }
  stage D__nic[ND] : ps(300);
  stage D[ND] : ps(min(present, 4));
  stage D__nic__latency[ND] : delay;
  share maxmin;
  workload { arrive poisson(1.0); hidden o; turn { set n = ~uniform(20, 100); set o = ceil(~exp(10)); } }
  server {
    set t0 = now;
    set prompt = ceil(n);
    choose i in NP by (work(P[i]), i);
    hold P__kv[i] (cost(P__kv, prompt)) {
      run P[i] (cost(P, prompt / 100));
    } cache (cost(P__kv, 0)) lease P__kv[i] (inf);
    choose j in ND by (used(D__kv[j]), j);
    hold D__kv[j] (cost(D__kv, prompt + 40)) {
      run D__nic__latency[j] (cost(D__nic__latency, 0.05));
      run P__nic[i], D__nic[j] (cost(P__nic, D__nic, prompt));
      load D__kv[j] (cost(D__kv, prompt));
      release P__kv[i];
      set D__first_token = now;
      run D[j] (cost(D, o / 20));
    }
    observe ft = D__first_token;
    observe resp = now - t0;
  }
}""",
    "i03_station_link": """
fn main() {
  pool P__kv { cap 300; }
  stage P : fifo;
  stage L : ps(100);
  stage L__latency : delay;
  stage M : ps(150);
  pool D__kv { cap 300; }
  stage D : delay;
  workload { arrive poisson(0.5); turn { set n = ~uniform(20, 100); } }
  server {
    set t0 = now;
    hold P__kv (cost(P__kv, n)) { run P (cost(P, n / 100)); } lease P__kv (inf);
    hold D__kv (cost(D__kv, n)) {
      run L__latency (cost(L__latency, 0.1));
      run L (cost(L, n));
      load D__kv (cost(D__kv, n));
      release P__kv;
      run D (cost(D, 1));
    }
    observe resp = now - t0;
  }
}""",
    "i05_station_bottleneck": """
fn main() {
  pool P__kv { cap 300; }
  stage P__nic : ps(100);
  stage P : fifo;
  pool D__kv { cap 300; }
  stage D__nic : ps(100);
  stage D : delay;
  stage D__nic__latency : delay;
  share bottleneck;
  workload { arrive poisson(0.5); turn { set n = ceil(~uniform(20, 100)); } }
  server {
    set t0 = now;
    branch (n > 50) {
      hold P__kv (cost(P__kv, n)) { run P (cost(P, n / 100)); } cache (cost(P__kv, n)) lease P__kv (inf);
      hold D__kv (cost(D__kv, n)) {
        run D__nic__latency (cost(D__nic__latency, 0.1));
        run P__nic, D__nic (cost(P__nic, D__nic, n));
        load D__kv (cost(D__kv, n - 1));
        release P__kv;
        run D (cost(D, 1));
      } cache (cost(D__kv, n));
    } else {
      hold D__kv (cost(D__kv, n)) { run D (cost(D, n / 50)); }
    }
    observe resp = now - t0;
  }
}""",
}


def bare(program: ir.Program) -> str:
    """The IR without its text and spans, long names as they are reported."""
    text = ir.to_json(dataclasses.replace(program, file="", source=""))
    text = re.sub(r'"span": (null|\{[^{}]*\})', '"span": null', text)
    return text.replace("__", ".")


@pytest.mark.parametrize("name", STATIONS)
def test_the_same_program_without_stations(name: str) -> None:
    """A station program is the program in which pools, stages and statements are written out."""
    assert bare(compile_text(corpus_text(name))) == bare(compile_text(PLAIN[name]))


# --------------------------------------------------------------------------- variations of one program

PULL = """\
use "std/kvt";
fn main() {
  queue P : prefill {
    pool kv { cap 300; }
    nic ps(100);
    serve fifo;
    prefill (x) { hold kv (cost(kv, x)) { run (cost(P, x)); } lease kv (inf); }
  }
  queue D : decode {
    pool kv { cap 300; }
    nic ps(100);
    serve delay;
    decode (x) from P { hold kv (cost(kv, x)) { transfer (x) from P to kv (x); run (cost(D, 1)); } }
    decode (x) { run (cost(D, x)); }
  }
  kvt.nixl_pull (P, D, latency = 1);
  share maxmin;
  workload { arrive poisson(1); turn { set n = ~exp(1); } }
  server { P.prefill (n); D.decode (n) from P; }
}
"""


def varied(*changes: tuple[str, str]) -> str:
    """The program with pieces of its text replaced."""
    text = PULL
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def with_station(queue: str, calls: str = "", text: str = PULL) -> str:
    """The program with one more station, and calls of it at the end of the server."""
    text = text.replace("from P; }\n}", f"from P; {calls} }}\n}}")
    return text.replace("  workload", f"  {queue}\n  workload")


Z = "queue Z : prefill { pool a { cap 9; } serve fifo; prefill (x) { %s run (cost(Z, x)); } }"
ZZ = "queue Z[2] : prefill { pool a { cap 9; } serve fifo; prefill (x) { %s run (cost(Z, x)); } }"


def server(text: str) -> tuple[ir.Stmt, ...]:
    return compile_text(text, "prog.sq").server


def last(text: str) -> ir.Stmt:
    """The last statement of the server."""
    return server(text)[-1]


def test_what_an_entry_sets_is_the_stations() -> None:
    text = with_station(Z % "set y = x; mark m;", "Z.prefill (n); observe z = Z.y + Z.m;")
    made = compile_text(text)
    assert {"Z.y", "Z.m"} <= set(made.attributes)
    assert made.server[-1].value == ir.Binary("+", ir.Attr("Z.y"), ir.Attr("Z.m"))  # type: ignore[union-attr]


def test_names_of_an_entry_do_not_capture_the_callers() -> None:
    """The caller's `y` is not the entry's `y`, although both have one name."""
    text = with_station(Z % "set y = x * 2; set z = x + y;", "set y = 3; Z.prefill (y);")
    sets = [s for s in server(text) if isinstance(s, ir.Set)]
    assert [(s.name, s.value) for s in sets[-2:]] == [
        ("Z.y", ir.Binary("*", ir.Attr("y"), ir.Const(2.0))),
        ("Z.z", ir.Binary("+", ir.Attr("y"), ir.Attr("Z.y"))),
    ]


def test_self_and_own_things_are_the_members() -> None:
    text = with_station(ZZ % "observe s = self + used(a) + queue(Z);", "choose k in 2 by (k); Z[k].prefill (n);")
    *_, observed, run = server(text)
    k = ir.Attr("k")
    assert isinstance(observed, ir.Observe)
    reads = [n for n in ir.walk(observed.value) if isinstance(n, ir.Read | ir.Attr)]
    assert reads[0] == k
    assert ir.Read("used", ir.Ref("Z.a", k)) in reads
    assert ir.Read("queue", ir.Ref("Z", k)) in reads
    assert isinstance(run, ir.Run)
    assert run.stage == ir.Ref("Z", k)


def test_a_family_of_one_is_a_family() -> None:
    made = compile_text(with_station(ZZ.replace("[2]", "[1]") % "", "Z[0].prefill (n);"))
    assert ("Z.a", 0) in rows(made.pools)
    assert ("Z", 0) in rows(made.stages)


def test_members_are_read_from_outside() -> None:
    text = with_station(ZZ % "", "Z[1].prefill (n); observe u = used(Z[1].a) + work(Z[0]) + used(P.kv) + queue(P.nic);")
    observed = last(text)
    assert isinstance(observed, ir.Observe)
    reads = {n for n in ir.walk(observed.value) if isinstance(n, ir.Read)}
    assert reads == {
        ir.Read("used", ir.Ref("Z.a", ir.Const(1.0))),
        ir.Read("work", ir.Ref("Z", ir.Const(0.0))),
        ir.Read("used", ir.Ref("P.kv")),
        ir.Read("queue", ir.Ref("P.nic")),
    }


def test_costs_and_records_of_an_entry() -> None:
    body = "Cost c = cost(a, x); Cost r = { Z: x, a: 2 }; hold a (c) { run (r.Z); } hold a (r.a) { }"
    text = with_station(Z % body, "Z.prefill (n);")
    names = [n.name for n in ir.walk(server(text)) if isinstance(n, ir.Set)]
    assert names == ["Z.c", "Z.r.Z", "Z.r.Z.a"]


def test_bindings_of_an_entry() -> None:
    hold = "hold a (cost(a, b)) at admission (b = x + 1) { observe o = b; }"
    *_, held, _ = server(with_station(Z % hold, "Z.prefill (n);"))
    assert isinstance(held, ir.Hold)
    assert held.parts[0].units == ir.Binary("+", ir.Attr("n"), ir.Const(1.0))
    assert [type(s) for s in held.body] == [ir.Set, ir.Observe]


def test_a_station_may_call_another() -> None:
    text = with_station(Z % "P.prefill (x + 1);", "Z.prefill (n);")
    *_, held, run = server(text)
    assert isinstance(held, ir.Hold)
    assert held.parts[0].pool == ir.Ref("P.kv")
    assert held.parts[0].units == ir.Binary("+", ir.Attr("n"), ir.Const(1.0))
    assert isinstance(run, ir.Run)
    assert run.stage == ir.Ref("Z")


def test_a_gateway_sees_and_sets_what_the_server_does() -> None:
    gateway = "queue gw : gateway { route { set q = n; P.prefill (q); mark here; D.decode (n) from P; } }"
    made = compile_text(with_station(gateway, "gw.route(); observe a = gw.here + q;"))
    assert {"q", "gw.here"} <= set(made.attributes)


def test_a_gateway_with_memory_and_a_stage() -> None:
    gateway = (
        "queue gw : gateway { pool a { cap 2; } serve fifo;"
        " route { hold a (cost(a, 1)) { run (cost(gw, n)); P.prefill (n); } D.decode (n) from P; } }"
    )
    made = compile_text(with_station(gateway, "gw.route();"))
    assert rows(made.pools)[-1] == ("gw.a", None)
    assert rows(made.stages)[-1] == ("gw", None)


def test_definitions_in_entries_and_entries_in_definitions() -> None:
    text = with_station(Z % "twice(x); set r = half(x);", "go(n);").replace(
        "fn main",
        "def half(x) { x / 2 } def twice(x) { set y = 2 * x; } def go(x) { Z.prefill (x); } fn main",
    )
    assert [s.name for s in server(text) if isinstance(s, ir.Set)] == ["Z.y", "Z.r"]


def test_a_definition_takes_a_station() -> None:
    text = with_station(ZZ % "", "go(Z[1], n);").replace("fn main", "def go(q, x) { q.prefill (x); } fn main")
    run = last(text)
    assert isinstance(run, ir.Run)
    assert run.stage == ir.Ref("Z", ir.Const(1.0))


def test_policies_of_a_station_read_its_own_pools_above() -> None:
    queue = (
        "queue Z : prefill { nic ps(2); pool t { cap 3; }"
        " pool a { cap 9; queue by (used(t), waited); spill t via nic (size) when (1); }"
        " serve ps(1 + used(a)); prefill (x) { hold a (cost(a, x)) { run (cost(Z, x)); } } }"
    )
    made = compile_text(with_station(queue, "Z.prefill (n);"))
    a = next(p for p in made.pools if p.name == "Z.a")
    assert a.queue[0] == ir.Read("used", ir.Ref("Z.t"))
    assert a.spill is not None
    assert (a.spill.pool, a.spill.stage) == (ir.Ref("Z.t"), ir.Ref("Z.nic"))
    stage = next(s for s in made.stages if s.name == "Z")
    assert stage.kind == ir.Ps(ir.Binary("+", ir.Const(1.0), ir.Read("used", ir.Ref("Z.a"))))


# --------------------------------------------------------------------------- transfers


def transfer(text: str) -> list[str]:
    """What the second hold of the server runs, loads and releases."""
    hold = [s for s in server(text) if isinstance(s, ir.Hold)][1]
    return [shown(s) for s in hold.body]


def shown(node: ir.Stmt) -> str:
    def ref(r: ir.Ref) -> str:
        return r.name if r.index is None else f"{r.name}[{r.index.value:g}]"  # type: ignore[union-attr]

    match node:
        case ir.Run(stage=stage):
            return f"run {ref(stage)}"
        case ir.Flow(stages=stages):
            return f"run {', '.join(map(ref, stages))}"
        case ir.Load(pool=pool) | ir.Release(pool=pool):
            return f"{type(node).__name__.lower()} {ref(pool)}"
        case ir.Set(name=name):
            return f"set {name}"
    return type(node).__name__


READ = ["run D.nic.latency", "run P.nic, D.nic", "load D.kv", "release P.kv", "run D"]


def test_a_pull_waits_at_the_reader() -> None:
    assert transfer(PULL) == READ


def test_the_founding_spelling_of_a_pull() -> None:
    old = varied(("  kvt.nixl_pull (P, D, latency = 1);\n  share maxmin;", "  D pull P latency 1 share maxmin;"))
    assert bare(compile_text(old)) == bare(compile_text(PULL))


def test_a_push_waits_at_the_source() -> None:
    text = varied(("nixl_pull", "nixl_push"))
    assert transfer(text) == ["run P.nic.latency", *READ[1:]]
    assert rows(compile_text(text).stages)[-1] == ("P.nic.latency", None)


def test_a_relation_without_latency_waits_nowhere() -> None:
    text = varied((", latency = 1", ""))
    assert transfer(text) == READ[1:]
    assert rows(compile_text(text).stages)[-1] == ("D", None)


def test_families_read_from_the_member_given() -> None:
    text = varied(
        ("queue P", "queue P[3]"),
        ("queue D", "queue D[2]"),
        ("P.prefill (n); D.decode (n) from P;", "P[2].prefill (n); D[1].decode (n) from P[2];"),
    )
    assert transfer(text) == [
        "run D.nic.latency[1]", "run P.nic[2], D.nic[1]", "load D.kv[1]", "release P.kv[2]", "run D[1]",
    ]  # fmt: skip


LINKS = (
    "queue L : link { serve ps(9) latency 2; } queue K[2] : link { serve ps(8) latency 3; }"
    " queue M : link { serve ps(7); transfer (y) { mark go; run (cost(M, y)); } }\n  queue P"
)


def linked(written: str) -> list[str]:
    relation = ("  kvt.nixl_pull (P, D, latency = 1);\n", "")
    share = ("  share maxmin;\n", "") if ", K" not in written else ("share maxmin", "share maxmin")
    return transfer(varied(("queue P", LINKS), ("transfer (x) from P to kv (x);", written), relation, share))


def test_links_wait_in_the_order_named() -> None:
    assert linked("transfer on L, K[1] (x) from P to kv (x);") == [
        "run L.latency", "run K.latency[1]", "run L, K[1]", "load D.kv", "release P.kv", "run D",
    ]  # fmt: skip


def test_a_called_link_runs_its_own_body() -> None:
    assert linked("M.transfer (x) from P to kv (x);") == ["set M.go", "run M", "load D.kv", "release P.kv", "run D"]


def test_a_plain_transfer_over_a_link_waits_too() -> None:
    text = """
fn main() {
  queue L : link { serve ps(9) latency 2; }
  pool a { cap 9; }
  pool b { cap 9; }
  workload { arrive poisson(1); }
  server { hold a (cost(a, 1)), b (cost(b, 1)) { transfer on L (1) from a to b (1); } }
}"""
    (hold,) = server(text)
    assert isinstance(hold, ir.Hold)
    assert [shown(s) for s in hold.body] == ["run L.latency", "run L", "load b", "release a"]


def test_the_pool_leased_first_is_the_one_taken() -> None:
    text = varied(
        ("pool kv { cap 300; }", "pool b { cap 9; } pool kv { cap 300; }"),
        ("lease kv (inf);", "lease kv (inf); hold b (cost(b, 1)) { } lease b (inf);"),
    )
    holds = [s for s in server(text) if isinstance(s, ir.Hold)]
    assert "release P.kv" in [shown(s) for s in holds[-1].body]


def test_a_lease_on_both_sides_of_a_branch_is_one_on_every_path() -> None:
    hold = "hold kv (cost(kv, x)) { run (cost(P, x)); } lease kv (inf);"
    text = varied((hold, f"branch (x > 1) {{ {hold} }} else {{ {hold} }}"))
    assert isinstance(last(text), ir.Hold)


# --------------------------------------------------------------------------- request gw


def test_request_enters_the_gateway() -> None:
    gateway = "queue gw : gateway { route { P.prefill (n); D.decode (n) from P; } }"
    called = with_station(gateway).replace("server { P.prefill (n); D.decode (n) from P;  }", "server { gw.route(); }")
    named = called.replace("server { gw.route(); }", "").replace("workload {", "workload { request gw;")
    assert bare(compile_text(named)) == bare(compile_text(called))


# --------------------------------------------------------------------------- diagnostics

HOLD = "hold kv (cost(kv, x)) { run (cost(P, x)); } lease kv (inf);"

# code, the program, the text under the caret, a part of the message
CASES: list[tuple[str, str, str, str]] = [
    ("E601", varied(("P.prefill", "Q.prefill")), "Q", "unknown station `Q`"),
    ("E601", varied(("P.prefill", "P.refill")), "P.refill", "no entry `refill`"),
    ("E601", varied(("from P; }", "from P; observe o = P.mem; }")), "mem", "no pool `mem`"),
    ("E601", varied(("from P; }", "from P; D.decode (n); P.prefill (n) from D; }")), "P.prefill", "has no `from`"),
    ("E601", with_station(Z % "", "Z.prefill (n); foo (n) from Z;"), "foo", "no entry of a station"),
    ("E601", with_station("queue Y : decode { decode (x) from Q { } }"), "Q", "unknown station `Q`"),
    ("E602", varied(("queue P", "queue P[2]"), ("from P; }", "from P[0]; }")), "P", "needs an index"),
    ("E602", varied(("P.prefill", "P[0].prefill")), "P[0]", "no family"),
    ("E602", with_station(ZZ % "mark m;", "Z[1].prefill (n); observe o = Z[1].m;"), "Z[1].m", "no member"),
    ("E602", with_station(Z % "observe o = self;"), "self", "no `self`"),
    ("E602", with_station(ZZ % "observe o = work(Z[0]);"), "Z[0]", "the member's own"),
    ("E603", varied(("queue P : prefill", "queue P : refill")), "refill", "unknown role"),
    ("E603", varied(("queue P : prefill", "queue P : prefill, prefill")), "prefill", "given twice"),
    ("E603", varied(("queue P : prefill", "queue P : prefill, decode")), "P", "no entry `decode`"),
    ("E603", with_station("queue gw[2] : gateway { route { } }"), "2", "no family"),
    ("E603", with_station("queue gw : gateway { route (x) { } }"), "route", "0 parameters"),
    ("E603", with_station("queue L : link { }"), "L", "neither a stage nor an entry"),
    ("E603", with_station("queue L : link { serve ps(1) latency 2; transfer (x) { } }"), "2", "an entry and a latency"),
    ("E603", with_station("queue B : prefill { serve fifo; pool a { } prefill (x) { } }"), "a", "below the stage"),
    ("E603", with_station("queue B : prefill { prefill (x) { } serve fifo; }"), "serve", "below an entry"),
    ("E603", with_station("queue B : prefill { serve fifo; serve fifo; prefill (x) { } }"), "serve", "given twice"),
    ("E603", with_station("queue B : prefill { nic fifo; nic fifo; prefill (x) { } }"), "nic", "given twice"),
    ("E603", with_station("queue B : prefill { pool a[2] { } prefill (x) { } }"), "2", "no array"),
    ("E603", with_station("queue B : prefill { serve fifo latency 1; prefill (x) { } }"), "1", "wait of a link"),
    ("E603", with_station("queue B : prefill { prefill (x) { run (cost(P, x)); } }"), "run", "has no stage"),
    ("E603", with_station("queue B : prefill { prefill (x) { } prefill (y) { } }"), "prefill", "twice"),
    ("E603", with_station("queue B : prefill { prefill (x) { } decode (x) { } }"), "decode", "is no entry"),
    ("E603", with_station("queue B : prefill { prefill (x) from P { } }"), "P", "only `decode` has a `from`"),
    ("E604", varied(("P.prefill (n)", "P.prefill (~exp(1))")), "~exp(1)", "draws"),
    ("E605", with_station(Z % "observe o = n;"), "n", "an attribute of the request"),
    ("E605", with_station(Z % "observe o = serial;"), "serial", "an attribute of the request"),
    ("E605", with_station(Z % "observe o = used(P.kv);"), "P.kv", "only its own station"),
    ("E605", with_station(Z % "observe o = queue(D);"), "D", "only its own station"),
    ("E605", with_station(Z % "observe o = M.go;", text=varied(("queue P", LINKS))), "M.go", "only its own station"),
    ("E605", with_station(ZZ.replace("fifo", "ps(used(a))") % ""), "a", "knows no member"),
    ("E606", with_station(Z % "hold a (cost(a, n)) { }"), "n", "a hold's header"),
    ("E606", with_station(Z % "hold a (cost(a, now)) { }"), "now", "a hold's header"),
    ("E606", with_station(Z % "hold a (cost(a, b)) at admission (b = n) { }"), "n", "a hold's header"),
    ("E607", with_station("pool q { } " + Z % "hold q (cost(q, 1)) { }"), "q", "no pool of"),
    ("E607", with_station(Z % "release P;"), "P", "no pool of `Z`"),
    ("E607", varied(("from P; }", "from P; drop P.kv; }")), "P.kv", "only its entries"),
    ("E607", varied(("from P; }", "from P; hold P.kv (cost(P.kv, 1)) { } }")), "P.kv", "only its entries"),
    ("E608", varied((" lease kv (inf)", "")), "P", "nothing to take from `P`"),
    ("E608", varied((HOLD, f"branch (x > 1) {{ {HOLD} }}")), "P", "on some path"),
    ("E608", varied((HOLD, f"while (x > 1) {{ {HOLD} }}")), "P", "on some path"),
    ("E608", varied(("from P; }", "from D; }")), "D", "takes from `P`"),
    ("E608", varied(("transfer (x) from P", "transfer (x) from kv")), "kv", "takes from the station of its `from`"),
    ("E608", with_station("queue Y : decode { decode (x) from Y { } }"), "Y", "not from itself"),
    ("E609", varied(("nixl_pull", "nixl_pul")), "kvt.nixl_pul", "unknown declaration"),
    ("E609", varied(('use "std/kvt";\n', "")), "kvt.nixl_pull", "not available"),
    ("E609", varied(("(P, D, latency", "(D, P, latency")), "kvt.nixl_pull (D, P, latency = 1);", "nothing reads"),
    ("E609", varied(("(P, D, latency", "(P, Q, latency")), "Q", "no station `Q`"),
    ("E609", varied(("(P, D, latency = 1)", "(P, latency = 1)")), "kvt.nixl_pull (P, latency = 1);", "two stations"),
    ("E609", varied(("latency = 1", "delay = 1")), "delay", "no `delay`"),
    ("E609", varied(("    nic ps(100);\n", "")), "P", "no `nic`"),
    ("E609", varied(("share maxmin;", "")), "kvt.nixl_pull (P, D, latency = 1);", "does not say how"),
    ("E609", varied(("  share", "  kvt.nixl_pull (P, D);\n  share")), "kvt.nixl_pull (P, D);", "already"),
    ("E610", varied(("  kvt.nixl_pull (P, D, latency = 1);\n  share maxmin;", "")), "transfer", "nothing says how"),
    ("E611", varied(("from P; }", "from P; mark m; }")), "mark", "an entry's"),
    ("E611", varied(("from P; }", "from P; run (cost(P, 1)); }")), "run", "the station's own"),
    (
        "E612",
        with_station(Z % "Y.prefill (x);" + " queue Y : prefill { prefill (x) { Z.prefill (x); } }", "Z.prefill (n);"),
        "Y.prefill",
        "in a circle",
    ),
    ("E613", varied(("arrive", "session { P.prefill (n); turn; } arrive")), "P.prefill", "called by the server"),
    ("E613", varied(("arrive", "request P; arrive")), "P", "no gateway"),
    (
        "E613",
        with_station("queue gw : gateway { route { } }", text=varied(("arrive", "request gw; arrive"))),
        "request gw;",
        "enter twice",
    ),
    ("E203", varied(("P.prefill (n)", "P.prefill (n, 1)")), "P.prefill (n, 1);", "takes 1 argument, got 2"),
    ("E204", with_station("queue P : prefill { prefill (x) { } }"), "P", "declared twice"),
    ("E204", with_station("queue gw : gateway { route { } }", "set gw = 1;"), "gw", "is a station"),
    ("E204", with_station(Z.replace("(x)", "(now)") % ""), "now", "the language supplies"),
    ("E204", with_station(Z % "set x = 1;"), "x", "is a parameter"),
    ("E205", varied(("latency = 1", "latency = n")), "n", "not a constant"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "text", "under", "message"), CASES, ids=[f"{c[0]}-{c[3]}" for c in CASES])
def test_code(code: str, text: str, under: str, message: str) -> None:
    (found,) = findings(text)
    assert found.code == code
    assert message in found.message
    assert found.help is not None
    assert found.span is not None
    line = text.splitlines()[found.span.line - 1]
    end = found.span.end_col - 1 if found.span.end_line == found.span.line else None
    assert line[found.span.col - 1 : end] == under


def test_every_code_is_tested() -> None:
    assert {case[0] for case in CASES} >= {code for code in CODES if code.startswith("E6")}


def test_all_findings_at_once() -> None:
    found = findings(with_station(Z % "observe o = n; drop q; observe p = self;", "Z.prefill (n, 2); Q.route();"))
    assert [d.code for d in found] == ["E605", "E607", "E602", "E203", "E601"]


GOLDEN = [
    (  # a mistake of the entry: the body, and the call that brought it
        varied(("run (cost(P, x));", "run (2 * x);")),
        """\
prog.sq:7:48: error[E301]: this needs a cost of `P`: it is a plain number
  7 |     prefill (x) { hold kv (cost(kv, x)) { run (2 * x); } lease kv (inf); }
    |                                                ^^^^^
  help: write cost(P, 2 * x)
  note: in this call of the entry (prog.sq:19:12)
  19 |   server { P.prefill (n); D.decode (n) from P; }
     |            ^^^^^^^^^^^^^^""",
    ),
    (  # a mistake of the argument: where it is given, where the body reads it, and the call
        varied(("run (cost(P, x));", "run (x);")),
        """\
prog.sq:19:23: error[E301]: this needs a cost of `P`: it is a plain number
  19 |   server { P.prefill (n); D.decode (n) from P; }
     |                       ^
  help: write cost(P, n)
  note: the body reads it here (prog.sq:7:48)
  7 |     prefill (x) { hold kv (cost(kv, x)) { run (x); } lease kv (inf); }
    |                                                ^
  note: in this call of the entry (prog.sq:19:12)
  19 |   server { P.prefill (n); D.decode (n) from P; }
     |            ^^^^^^^^^^^^^^""",
    ),
    (  # the entry of a station, called by another's, called by the server
        with_station(
            "queue Z : prefill { serve fifo; prefill (x) { B.prefill (x); } }\n"
            "  queue B : prefill { prefill (y) { set z = zz; } }",
            "Z.prefill (n);",
        ),
        """\
prog.sq:19:45: error[E201]: unknown name `zz`
  19 |   queue B : prefill { prefill (y) { set z = zz; } }
     |                                             ^^
  help: names are constants (`let`), attributes (`set`), pools, stages and what the language supplies
  note: in this call of the entry (prog.sq:18:49)
  18 |   queue Z : prefill { serve fifo; prefill (x) { B.prefill (x); } }
     |                                                 ^^^^^^^^^^^^^^
  note: in this call of the entry (prog.sq:21:48)""",
    ),
    (
        with_station(Z % "observe o = n;", "Z.prefill (n);"),
        """\
prog.sq:18:79: error[E605]: `Z.prefill` reads `n`, an attribute of the request that is set outside
  18 |   queue Z : prefill { pool a { cap 9; } serve fifo; prefill (x) { observe o = n; run (cost(Z, x)); } }
     |                                                                               ^
  help: an entry sees its parameters and hidden attributes: pass `n` as an argument""",
    ),
]


@pytest.mark.parametrize(("text", "expected"), GOLDEN)
def test_rendering(text: str, expected: str) -> None:
    (found,) = findings(text)
    assert render(found).startswith(expected)


def test_a_chain_of_many_stations_is_no_recursion() -> None:
    """Entries that call each other in a long row are refused or inlined, and never overflow a stack."""
    first = "queue Q0 : prefill { serve fifo; prefill (x) { run (cost(Q0, x)); } }"
    more = " ".join(f"queue Q{i} : prefill {{ prefill (x) {{ Q{i - 1}.prefill (x); }} }}" for i in range(1, 400))
    assert isinstance(last(with_station(f"{first} {more}", "Q399.prefill (n);")), ir.Run)
    deep = " ".join(
        f"queue Q{i} : prefill {{ prefill (x) {{ branch (x > 1) {{ Q{i - 1}.prefill (x); }} }} }}"
        for i in range(1, 400)
    )
    assert [d.code for d in findings(with_station(f"{first} {deep}", "Q399.prefill (n);"))] == ["E105"]


# --------------------------------------------------------------------------- the reference

# Both must read these, to the same rows, or both refuse them.
BOTH = {
    "pull": PULL,
    "push": varied(("nixl_pull", "nixl_push")),
    "no latency": varied((", latency = 1", "")),
    "family of one": with_station(ZZ.replace("[2]", "[1]") % "", "Z[0].prefill (n);"),
    "links": varied(
        ("queue P", LINKS),
        ("transfer (x) from P to kv (x);", "transfer on L, K[0] (x) from P to kv (x);"),
        ("  kvt.nixl_pull (P, D, latency = 1);\n", ""),
    ),
    "called link": varied(
        ("queue P", LINKS),
        ("transfer (x) from P to kv (x);", "M.transfer (x) from P to kv (x);"),
        ("  kvt.nixl_pull (P, D, latency = 1);\n  share maxmin;", ""),
    ),
    "gateway": with_station(
        "queue gw : gateway { pool a { cap 2; } serve fifo; route { hold a (cost(a, 1)) { run (cost(gw, n)); } } }",
        "gw.route(); observe o = 1;",
    ),
    "two leases": varied(
        ("pool kv", "pool b { cap 9; } pool kv"), (HOLD, f"{HOLD} hold b (cost(b, 1)) {{ }} lease b (inf);")
    ),
    "observations": with_station(Z % "observe b = x;", "observe a = 1; Z.prefill (n); observe c = 2;"),
    "unused": with_station(Z % ""),
    "foreign attribute": with_station(Z % "observe o = n;", "Z.prefill (n);"),
    "live header": with_station(Z % "hold a (cost(a, now)) { }", "Z.prefill (n);"),
    "leases nothing": varied((" lease kv (inf)", "")),
    "leases on one path": varied((HOLD, f"branch (x > 1) {{ {HOLD} }}")),
    "drawing argument": varied(("P.prefill (n)", "P.prefill (~exp(1))")),
    "no index": varied(("queue P", "queue P[2]"), ("from P; }", "from P[0]; }")),
    "reversed relation": varied(("(P, D, latency", "(D, P, latency")),
    "circle": with_station(
        Z % "Y.prefill (x);" + " queue Y : prefill { prefill (x) { Z.prefill (x); } }", "Z.prefill (n);"
    ),
}  # fmt: skip


@pytest.mark.reference
@pytest.mark.skipif(not reference.AVAILABLE, reason=reference.WHY_NOT)
@pytest.mark.parametrize("name", BOTH)
def test_as_the_reference_reads_it(name: str) -> None:
    text = BOTH[name]
    try:
        report = reference.run(text, horizon=50).report
    except reference.Refused:
        assert findings(text)
        return
    made = compile_text(text)
    assert rows(made.pools) == reported(report["pools"])
    assert rows(made.stages) == reported(report["stages"])
    assert [o.name for o in made.observes] == list(report["observes"])

"""Legs: what a refused one ends, what goes on without its session, and sessions that wait for each other to the end.

Every run is compared with the reference, number by number, where there is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reference
import sqc
from agreement import compare
from generating import Case
from harness import compiled, run
from reference import ReferenceRun

SEEDS = (1, 2)
HORIZON = 60.0


def both(source: str, sets: dict[str, float] | None = None, horizon: float = HORIZON) -> ReferenceRun:
    """Our run, after it was compared with the reference's."""
    if reference.AVAILABLE:
        result = compare(Case(source, horizon, 0.0, None, SEEDS, (sets or {},)))
        assert not result.lines, "\n".join(result.lines)
        assert not result.unanswered
    return run(source, horizon=horizon, seed=SEEDS[0], sets=sets)


def pool(made: ReferenceRun, name: str) -> dict[str, Any]:
    (row,) = [row for row in made.report["pools"] if row["name"] == name]
    return dict(row)


# --------------------------------------------------------------------------- wherever the session is

PROGRAM = """
fn main() {{
  pool mem {{ cap 8; {of_mem} }}
  pool kv {{ cap 6; }}
  stage cpu : fifo;
  stage net : delay;
  {items}
  workload {{
    arrive {arrive};
    turn {{ set n = 1 + floor(~uniform(0, 3)); set w = ~exp(1); set v = ~exp(1.5); set bad = ~bernoulli(0.4); }}
    {session}
  }}
  server {{ {server} }}
}}
"""
WORDS = {
    "@leg": "fork { run net (cost(net, w)); @refused observe leg = now; }",
    "@itself": "run net (cost(net, w)); @refused join; @end",
    "@refused": "branch (bad) { hold mem (cost(mem, n + 8)) { } }",
    "@end": "observe end_ = now; observe own = cachedin(mem); observe taken = used(mem) + used(kv);",
    "@held": "run cpu (cost(cpu, v / 2));",
}


@dataclass(frozen=True)
class Place:
    """Where a session is while its leg, or it itself, is refused."""

    server: str
    arrive: str = "poisson(1)"
    session: str = ""
    items: str = ""
    of_mem: str = ""

    @property
    def source(self) -> str:
        text = PROGRAM.format(**vars(self))
        for word, meaning in WORDS.items():
            text = text.replace(word, meaning)
        return text


PLACES = {
    "served first in, first out": Place("@leg run cpu (cost(cpu, v)); join; @end"),
    "at one of three servers": Place(
        "@leg run many (cost(many, 2 * v)); join; @end", "batch(12)", items="stage many : fifo(3);"
    ),
    "on a delay": Place("@leg run net (cost(net, v)); join; @end", "closed(5)"),
    "at a shared server": Place(
        "@leg run even (cost(even, v)); observe load = work(even); join; @end", items="stage even : ps(2);"
    ),
    "at a member of an array": Place(
        "@leg run even[n - 2 >= 0] (cost(even, v)); join; @end", "closed(6)", items="stage even[2] : ps(1);"
    ),
    "on several stages, max-min": Place(
        "@leg branch (n > 2) { run up, down (cost(up, down, v)); } else { run down (cost(down, v)); } join; @end",
        "batch(10)",
        items="stage up : ps(1); stage down : ps(1.5); share maxmin;",
    ),
    "on several stages, bottleneck": Place(
        "@leg run up, down (cost(up, down, v)); join; @end",
        "closed(4)",
        items="stage up : ps(1); stage down : ps(1.5); share bottleneck;",
    ),
    "read while it is served": Place(
        "@leg observe before = work(cpu); run cpu (cost(cpu, v)); observe est = est_wait(cpu); join; @end", "batch(9)"
    ),
    "in a queue": Place("@leg hold kv (cost(kv, 1 + n)) { @held } join; @end"),
    "in a queue with keys": Place(
        "@leg hold mem (cost(mem, 2 + n)) { @held } cache (cost(mem, n)); join; @end",
        "batch(12)",
        of_mem="queue by (-n, waited);",
    ),
    "in the queue of the second hold": Place(
        "@leg hold kv (cost(kv, 1)) { hold mem (cost(mem, 2 * n)) { @held } } join; @end", "closed(6)"
    ),
    "within a hold": Place("hold mem (cost(mem, n)) { @leg @held join; } cache (cost(mem, n)); @end", "closed(6)"),
    "within a hold of two pools": Place(
        "hold kv (cost(kv, n)), mem (cost(mem, 1)) { @leg @held join; } cache (cost(kv, mem, n)); @end", "batch(9)"
    ),
    "within nested holds": Place(
        "@leg hold mem (cost(mem, 1)) { hold kv (cost(kv, n)) { hold mem (cost(mem, n)) { @held }"
        " cache (cost(mem, n)); } cache (cost(kv, n)); } cache (cost(mem, 1)); join; @end",
        "closed(5)",
        session="session { turn; turn; turn; }",
    ),
    "given back, with reserve held": Place(
        "hold mem (cost(mem, 1)) reserve (cost(mem, n)) { @leg @held branch (n > 2) { release mem; } @held join; }"
        " cache (cost(mem, 1)); @end",
        "closed(6)",
        of_mem="reserve held;",
    ),
    "waiting to grow": Place("@leg hold mem (cost(mem, 2)) { @held grow mem (cost(mem, n)); @held } join; @end"),
    "having loaded": Place(
        "@leg hold mem (cost(mem, 2 + n)) { load mem (cost(mem, 1)); @held load mem (cost(mem, 1)); @held }"
        " cache (cost(mem, 9)); join; @end",
        "closed(4)",
        session="session { turn; turn; }",
    ),
    "having thrown others out": Place(
        "@leg hold mem (cost(mem, 1)) { @held grow mem (cost(mem, n)); @held } cache (cost(mem, 2)); join; @end",
        of_mem="preempt lifo;",
    ),
    "at a join": Place("@leg fork { run cpu (cost(cpu, v)); observe other = now; } join; @end"),
    "at a join in a hold": Place(
        "hold mem (cost(mem, 1)) { @leg fork { hold kv (cost(kv, n)) { @held } cache (cost(kv, n)); } join; } @end",
        "closed(6)",
    ),
    "thinking": Place("@held", "closed(3)", "session { turn; @leg tool (v); join; turn; }"),
    "in the hold of a conversation": Place(
        "@leg @held join; @end", "poisson(0.5)", "session { hold kv (cost(kv, 2)) { turn; tool (0.5); turn; } }"
    ),
    "with leases": Place(
        "hold mem (cost(mem, n)) { @leg @held } cache (cost(mem, n)) lease mem (2 * v); hold kv (cost(kv, 1))"
        " { @held } cache (cost(kv, 1)) lease kv (inf); @held join; @end",
        "closed(5)",
    ),
    "keeping by chance": Place(
        "@leg hold mem (cost(mem, 3)) { @held } cache (cost(mem, 3 * ~uniform(0, 1))); join; @end"
        " observe drawn = ~uniform(0, 1);",
        session="session { turn; turn; }",
        of_mem="evict by (size);",
    ),
    "ready to go on": Place(
        "fork { run net (cost(net, 1)); @refused observe leg = now; } run net (cost(net, 1)); observe first = now;"
        " run net (cost(net, 1)); join; @end",
        "batch(8)",
    ),
    "not started, as the leg is refused at once": Place(
        "fork { @refused observe leg = now; } observe first = now; run cpu (cost(cpu, v)); join; @end",
        "closed(3)",
        session="session { tool (0.5); turn; }",
    ),
    "refused before its second leg is": Place(
        "@leg fork { run net (cost(net, v)); @refused observe second = now; } run cpu (cost(cpu, 1)); join; @end",
        "closed(4)",
    ),
    "while the leg holds and leases": Place(
        "fork { hold mem (cost(mem, n)) { run net (cost(net, w)); } cache (cost(mem, n)) lease mem (inf);"
        " hold kv (cost(kv, n)) { run net (cost(net, w)); @refused } cache (cost(kv, n)); } @held join; @end",
        "closed(4)",
    ),
    "of a member that its leg fills": Place(
        "@leg hold rep[n > 1] (cost(rep, n)) { @held } cache (cost(rep, n)); join; @end",
        "batch(10)",
        items="pool rep[2] { cap 4; block 2; }",
    ),
}

OUTLIVED = {
    "a leg is served": Place("fork { run cpu (cost(cpu, v)); observe leg = now; } @itself", "closed(5)"),
    "a leg waits and holds": Place(
        "fork { hold kv (cost(kv, n + 1)) { @held } cache (cost(kv, n)); observe leg = cachedin(kv); } @itself",
        "closed(6)",
    ),
    "a leg finds the session's prefix": Place(
        "hold mem (cost(mem, n)) { @held } cache (cost(mem, n)); fork { run net (cost(net, v));"
        " hold mem (cost(mem, 4)) { observe got = cached; @held } cache (cost(mem, n + 1)); } @itself",
        of_mem="evict by (serial, size);",
    ),
    "a leg leases": Place(
        "set k = n; fork { set k = n - 1; hold mem (cost(mem, n)) { @held } cache (cost(mem, k)) lease mem (v);"
        " run net (cost(net, w)); observe leg = holders(mem); } @itself",
        "batch(10)",
    ),
    "its units are spilled": Place(
        "set tag = serial; hold mem (cost(mem, n)) { @held } cache (cost(mem, n)); set tag = 1 - serial;"
        " fork { run net (cost(net, 2 * v)); hold mem (cost(mem, n)) { @held } cache (cost(mem, n));"
        " observe there = cachedin(kv); } @itself",
        session="session { turn; turn; }",
        of_mem="evict by (tag, -last); spill kv via net (size / 4) when (size > 1);",
    ),
    "of three legs one is refused too": Place(
        "@leg fork { run net (cost(net, v)); @refused observe second = now; } fork { @held observe third = now; }"
        " @itself",
        "closed(3)",
    ),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_refused_leg_ends_its_session(name: str) -> None:
    made = both(PLACES[name].source)
    assert pool(made, "mem")["rejected"] > 0
    assert made.report["ended"] >= pool(made, "mem")["rejected"] / 3


@pytest.mark.parametrize("name", OUTLIVED)
def test_legs_outlive_a_refused_session(name: str) -> None:
    assert pool(both(OUTLIVED[name].source), "mem")["rejected"] > 0


def test_nothing_is_broken() -> None:
    """Slots and prefixes of sessions that their legs outlive: the debug kernel finds nothing wrong."""
    program, seeds = compiled(OUTLIVED["its units are spilled"].source), np.arange(1, 9, dtype=np.uint64)
    assert not program.kernel(debug=True).lanes(seeds, horizon=100.0).failures


ON_AN_ENGINE = """
fn main() {{
  pool mem {{ cap 30; }}
  device gpu {{ }}
  engine e on gpu {{ kv cap 24; tokens cap 8; {schedule} execute (0.5 + 0.05 * batch.tokens); }}
  pool kv on e {{ }}
  stage net : delay;
  workload {{
    arrive {arrive};
    turn {{ set n = 1 + floor(~uniform(0, 9)); set w = ~exp(4); set bad = ~bernoulli(0.4); }}
  }}
  server {{ {server} }}
}}
"""
SCHEDULE = "schedule { advance running; admit waiting while (running.preempted == 0); }"
ENGINES = {
    "resident": (
        "fork { run net (cost(net, w)); branch (bad) { hold mem (cost(mem, n + 30)) { } } } hold kv (cost(kv, n)) {"
        " run e prefill (cost(e, n)) growing kv; run e decode (cost(e, n)) growing kv; } cache (cost(kv, 9)); join;",
        "closed(5)",
    ),
    "refused itself": (
        "fork { hold kv (cost(kv, n)) { run e prefill (cost(e, 2 * n)); run e decode (cost(e, 3)); }"
        " cache (cost(kv, n)); } run net (cost(net, w / 2)); branch (bad) { hold mem (cost(mem, n + 30)) { } } join;",
        "poisson(0.5)",
    ),
}


@pytest.mark.parametrize("name", ENGINES)
def test_refused_on_an_engine(name: str) -> None:
    server, arrive = ENGINES[name]
    made = both(ON_AN_ENGINE.format(schedule=SCHEDULE, arrive=arrive, server=server))
    assert pool(made, "mem")["rejected"] > 0


def test_the_instant_of_a_refusal() -> None:
    """A leg is refused at 1, in the fifth unit of its session's work: the session ends then, its work is not done.

    The event of that work's end, at 5, comes and counts, and that of the leg of 2. Ten closed sessions a unit apart
    would be eleven by then: each end brings the next session at once.
    """
    source = """
fn main() {
  pool mem { cap 4; }
  stage cpu : delay;
  workload { arrive closed(1); turn { set n = 9; } }
  server {
    fork { run cpu (cost(cpu, 1)); hold mem (cost(mem, n)) { } }
    fork { run cpu (cost(cpu, 2)); observe other = now; }
    run cpu (cost(cpu, 5));
    join;
  }
}
"""
    made = both(source, horizon=10.5)
    assert (made.report["arrivals"], made.report["ended"], pool(made, "mem")["rejected"]) == (11, 10, 10)
    assert [time for time, *_ in made.samples["other"]] == list(range(2, 11))
    assert made.report["client"]["response"]["count"] == 0
    # Ends of works at 1 .. 10, of other legs at 2 .. 10, of works that nobody does any more at 5 .. 10.
    assert made.report["events"] == 10 + 9 + 6


# --------------------------------------------------------------------------- leases that legs pass on


@pytest.mark.parametrize(
    ("ending", "kept", "since"),
    [("release mem;", 3, 1.5), ("run net (cost(net, 9));", 3, 5), ("", 0, 1.5)],
    ids=["released", "expired", "ended"],
)
def test_a_passed_lease_keeps_what_its_leg_said(ending: str, kept: float, since: float) -> None:
    """The clause reads k: 3 in the leg at its end, 1 in the session. Of the 4 units 3 are kept after the lease.

    The leg and its session are two holders while both hold, and one once the lease is passed on.
    """
    source = Place(
        "set k = 1; fork { set k = 2; hold mem (cost(mem, 4)) { run net (cost(net, 1)); } cache (cost(mem, k))"
        " lease mem (4); set k = 3; } hold mem (cost(mem, 1)) { run net (cost(net, 0.5)); observe two = holders(mem);"
        f" run net (cost(net, 1)); join; observe one = holders(mem); }} {ending} observe kept = cachedin(mem);",
        "batch(1)",
    ).source
    made = both(source, horizon=20)
    assert [made.samples[name][0][3] for name in ("two", "one", "kept")] == [2, 1, kept]
    assert pool(made, "mem")["mean_cached"] == pytest.approx(3 * (20 - since) / 20)


# --------------------------------------------------------------------------- sessions that wait for each other

LOCKS = """
use "std/args";
fn main() {
  let x = args.number("x", 0);
  pool m { cap 3; block 1; }
  pool q { cap 3; }
  pool two[2] { cap 2; }
  stage d : delay;
  workload { arrive batch(3); init { set k = 2 * x + 0.1 * serial; set who = 10 * x + serial; } turn { set one = 1; } }
  server {
%s
  }
}
"""
LONG = "run d (cost(d, 1000));"
WAIT = "run d (cost(d, 1));"
BOTH = "fork { hold q (cost(q, one)), m (cost(m, one)) { } }"
MEMBER = "fork { hold two[one] (cost(two, 1)) { } }"


def leg(pool: str = "m", units: str = "one", more: str = "") -> str:
    return f"fork {{ {WAIT} hold {pool} (cost({pool}, {units})) {{ {WAIT} }} {more} }}"


def hold(pool: str, units: int, body: str) -> str:
    return f"hold {pool} (cost({pool}, {units})) {{ {body} }}"


@dataclass(frozen=True)
class Scene:
    """What sessions 0, 1, .. of a run do, and whether it ends with sessions that wait for each other."""

    locks: bool
    sessions: tuple[str, ...]


SCENES = {
    "its leg waits for the session's own hold": Scene(True, (hold("m", 3, f"{leg()} join;"),)),
    "the session runs on": Scene(False, (hold("m", 3, f"{leg()} {LONG} join;"),)),
    "room for the leg": Scene(False, (hold("m", 2, f"{leg()} join;"),)),
    "another leg runs": Scene(False, (hold("m", 3, f"{leg()} fork {{ {LONG} }} join;"),)),
    "someone else holds some and runs": Scene(False, (hold("m", 1, LONG), hold("m", 2, f"{leg()} join;"))),
    "someone else runs in another pool": Scene(True, (hold("q", 1, LONG), hold("m", 3, f"{leg()} join;"))),
    "crosswise": Scene(True, (hold("m", 3, f"{leg('q')} join;"), hold("q", 3, f"{leg('m')} join;"))),
    "crosswise with one that forks nothing": Scene(
        True, (hold("m", 3, f"{leg('q')} join;"), hold("q", 3, f"{WAIT} {hold('m', 1, '')}"))
    ),
    "nobody at a join": Scene(False, (hold("m", 3, hold("m", 1, "")),)),
    "a join whose leg waits for a session in a circle": Scene(
        True, (hold("m", 3, f"{hold('m', 1, '')}"), f"{leg()} join;")
    ),
    "a lease without an end": Scene(True, (f"hold m (cost(m, 3)) {{ {WAIT} }} lease m (inf); {leg()} join;",)),
    "a lease that will end": Scene(False, (f"hold m (cost(m, 3)) {{ {WAIT} }} lease m (1000); {leg()} join;",)),
    "a lease without an end of one that runs": Scene(
        False, (f"hold m (cost(m, 3)) {{ {WAIT} }} lease m (inf); {LONG}", f"{leg()} join;")
    ),
    "a lease passed on by a leg": Scene(
        True, (f"fork {{ hold m (cost(m, 3)) {{ {WAIT} }} lease m (inf); }} join; {leg()} join;",)
    ),
    "two pools, of which one comes": Scene(
        False,
        (hold("q", 3, LONG), hold("m", 3, f"{BOTH} join;")),
    ),
    "two pools, of which one has room": Scene(
        True,
        (hold("q", 2, LONG), hold("m", 3, f"{BOTH} join;")),
    ),
    "two pools, of which nobody holds one": Scene(
        False, (hold("m", 3, "fork { hold m (cost(m, one)), q (cost(q, 9 + 0 * used(q))) { } } join;"),)
    ),
    "behind one for whom there is no room": Scene(
        False, (hold("m", 1, f"{leg()} join;"), f"run d (cost(d, 0.5)); {hold('m', 3, '')}")
    ),
    "a reserve for which there is no room": Scene(
        False, (hold("m", 2, "fork { hold m (cost(m, one)) reserve (cost(m, 3)) { } } join;"),)
    ),
    "more than there ever is": Scene(True, (hold("m", 2, f"{leg('m', '9 + 0 * used(m)')} join;"),)),
    "a holder of nothing that runs": Scene(False, (hold("m", 0, LONG), hold("m", 3, f"{leg()} join;"))),
    "one that waits to grow": Scene(
        False, (hold("m", 2, "grow m (cost(m, 2));"), hold("m", 1, f"{leg('m', '2')} join;"))
    ),
    "less by now than when it asked": Scene(True, (hold("m", 2, f"{leg('m', 'now > 10 ? 1 : 2')} join;"),)),
    "a member of an array": Scene(True, (f"hold two[1] (cost(two, 2)) {{ {MEMBER} join; }}",)),
    "another member of an array": Scene(False, (f"hold two[0] (cost(two, 2)) {{ {MEMBER} join; }}",)),
    "the leg of one that was refused": Scene(
        True,
        (
            hold("m", 3, f"{WAIT} {leg()} join;"),
            f"run d (cost(d, 0.5)); fork {{ {hold('m', 1, '')} }} hold q (cost(q, one + 5)) {{ }} join;",
        ),
    ),
    "released by a refusal": Scene(
        False, (hold("m", 3, f"{leg()} fork {{ {WAIT} hold q (cost(q, one + 5)) {{ }} }} join;"),)
    ),
}


TOGETHER = 6
"""Scenes of one program: few enough that it compiles quickly."""


def _scene(name: str) -> tuple[str, float]:
    """The program that a scene is in, and the input x that chooses it: session s of scene x does what it says."""
    names = list(SCENES)
    group, x = divmod(names.index(name), TOGETHER)
    text = "branch (0) { }"
    for number, other in enumerate(names[group * TOGETHER : (group + 1) * TOGETHER]):
        for session, does in enumerate(SCENES[other].sessions):
            text = f"branch (who == {10 * number + session}) {{ {does} }} else {{ {text} }}"
    return LOCKS % text, float(x)


@pytest.mark.parametrize("name", SCENES)
def test_who_waits_for_whom(name: str) -> None:
    source, x = _scene(name)
    if reference.AVAILABLE:
        result = compare(Case(source, 30.0, 0.0, None, (1,), ({"x": x},)))
        assert not result.lines, "\n".join(result.lines)
        assert result.refused == SCENES[name].locks
    if not SCENES[name].locks:
        compiled(source).run(seed=1, horizon=30.0, sets={"x": x})
        return
    with pytest.raises(sqc.RunError) as caught:
        compiled(source).run(seed=1, horizon=30.0, sets={"x": x})
    failure = caught.value.failure
    assert (failure.code, failure.time) == ("R121", 30.0)
    assert "wait for each other" in failure.message
    assert failure.span is not None
    assert source.split("\n")[failure.span.line - 1][failure.span.col - 1 :].startswith("join;")


def test_a_join_in_another_file(tmp_path: Path) -> None:
    """The workload has a file of its own, and its statements no place in the program's: the session goes on at 2."""
    (tmp_path / "load.sq").write_text(
        "workload { arrive batch(1); session { fork { tool (2); } turn; join; observe at = now; } }\n", encoding="utf-8"
    )
    model = tmp_path / "model.sq"
    model.write_text("fn main() { stage s : fifo; server { run s (cost(s, 1)); } }\n", encoding="utf-8")
    report = sqc.compile(model, workload=tmp_path / "load.sq").run(seed=1, horizon=5)
    assert report.observe("at").samples.value.tolist() == [2]


# --------------------------------------------------------------------------- what a program with legs may not say

FORK = "fork { run net (cost(net, 1)); } join;"


@pytest.mark.parametrize(
    ("server", "session", "codes"),
    [
        (f"hold p (cost(p, n)) {{ {FORK} }}", "", ["E516"]),
        (f"hold kv (cost(kv, n)), p (cost(p, 1)) {{ hold mem (cost(mem, 1)) {{ {FORK} }} }}", "", ["E516"]),
        (FORK, "session { hold p (cost(p, 1)) { turn; turn; } }", ["E516"]),
        (f"hold kv (cost(kv, n)) {{ {FORK} }}", "", []),
        ("fork { hold p (cost(p, n)) { run net (cost(net, 1)); } } hold p (cost(p, 1)) { join; }", "", []),
    ],
)
def test_a_hold_that_may_run_again_forks_nothing(server: str, session: str, codes: list[str]) -> None:
    source = Place(server, session=session, items="pool p { cap 4; preempt by (n) requeue tail; }").source
    if reference.AVAILABLE:
        if codes:
            with pytest.raises(reference.Refused) as theirs:
                reference.run(source, horizon=1.0)
            assert theirs.value.compiling
        else:
            reference.run(source, horizon=1.0)
    try:
        sqc.compile(source=source)
        found = []
    except sqc.CompileError as error:
        found = [diagnostic.code for diagnostic in error.diagnostics]
    assert found == codes

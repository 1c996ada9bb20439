"""A pool that a session holds twice: which hold a statement acts on, and where the session stands among the victims.

Every run is compared with the reference, number by number, where there is one.
"""

from __future__ import annotations

import pytest

import reference
from agreement import compare
from generating import Case
from harness import run
from reference import ReferenceRun

PROGRAM = """
fn main() {{
  pool mem {{ cap {cap}; {policy} }}
  pool kv {{ cap 20; }}
  stage cpu : fifo;
  stage net : delay;
  workload {{ arrive {arrive}; turn {{ set n = 1 + floor(~uniform(0, 3)); set w = ~exp(1); set one = 1; }} }}
  server {{ {server} observe end_ = now; observe own = cachedin(mem); }}
}}
"""
WORK = "run cpu (cost(cpu, w)); observe at = now; observe taken = used(mem);"


def both(
    server: str, cap: int = 8, policy: str = "", arrive: str = "poisson(1)", horizon: float = 40.0
) -> ReferenceRun:
    """Our run, after it was compared with the reference's."""
    source = PROGRAM.format(server=server.replace("@work", WORK), cap=cap, policy=policy, arrive=arrive)
    if reference.AVAILABLE:
        result = compare(Case(source, horizon, 0.0, None, (1, 2)))
        assert not result.lines, "\n".join(result.lines)
        assert not result.unanswered
        assert not result.refused
    return run(source, horizon=horizon, seed=1)


INNER_GIVEN_BACK = {
    "grow": "hold mem (cost(mem, 1)) { hold mem (cost(mem, n)) { release mem; @work"
    " grow mem (cost(mem, 1)); @work } @work }",
    "grow, and wait": "hold mem (cost(mem, 1)) { hold mem (cost(mem, n)) { branch (n > 2) { release mem; } @work"
    " grow mem (cost(mem, 3)); @work } @work }",
    "load": "hold mem (cost(mem, 3)) { hold mem (cost(mem, n)) { branch (n > 2) { release mem; } @work"
    " load mem (cost(mem, 1)); } cache (cost(mem, 2)); @work } cache (cost(mem, 3));",
    "release": "hold mem (cost(mem, 1)) { } lease mem (inf); hold mem (cost(mem, 1)) { hold mem (cost(mem, n)) {"
    " release mem; @work release mem; @work release mem; @work } @work }",
}


@pytest.mark.parametrize("name", INNER_GIVEN_BACK)
def test_what_is_given_back_leaves_the_outer_hold(name: str) -> None:
    assert both(INNER_GIVEN_BACK[name]).report["ended"] > 0


VICTIMS = {
    "the outer grows": "hold mem (cost(mem, 1)) { hold mem (cost(mem, n)) { @work } grow mem (cost(mem, 3)); @work }",
    "the inner grows": "hold mem (cost(mem, 1)) { hold mem (cost(mem, n)) { @work grow mem (cost(mem, 3)); } @work }",
    "with another pool between": "hold mem (cost(mem, 1)) { hold kv (cost(kv, 1)) { hold mem (cost(mem, n)) { @work } }"
    " @work grow mem (cost(mem, 3)); @work }",
    "others grow": "branch (n > 2) { hold mem (cost(mem, 2)) { hold mem (cost(mem, 1)) { @work } @work } }"
    " else { hold mem (cost(mem, 1)) { @work grow mem (cost(mem, 3)); @work } }",
    "the inner given back": "hold mem (cost(mem, 1)) { hold mem (cost(mem, n)) { release mem; @work"
    " grow mem (cost(mem, 3)); @work } }",
}


@pytest.mark.parametrize("policy", ["preempt lifo;", "preempt by (-admission);"])
@pytest.mark.parametrize("name", VICTIMS)
def test_victims_hold_twice(name: str, policy: str) -> None:
    made = both(VICTIMS[name], 7, policy)
    (row,) = [row for row in made.report["pools"] if row["name"] == "mem"]
    assert row["preemptions"] > 0


@pytest.mark.parametrize(
    ("first", "second", "grower"),
    [
        # Both take the outer hold, then both the inner one: numbers 1 and 3 of session 0, 2 and 4 of session 1. Once
        # the inner hold of 0 is over, what is left of its numbers is 3, behind the 2 of session 1.
        ("0", "0", 1),
        # Session 0 has both before session 1 has any: 1 and 2, 3 and 4; left is 2, ahead of 3.
        ("0", "0.01", 0),
    ],
)
def test_the_first_number_goes(first: str, second: str, grower: int) -> None:
    """The one that is not thrown out grows first: the other is last among the holders, grower or not."""
    server = (
        f"branch (serial == 0) {{ set late = {first}; set span = 1; }} else {{ set late = {second}; set span = 1.5; }}"
        " run net (cost(net, late)); hold mem (cost(mem, 1)) { hold mem (cost(mem, 2)) { run net (cost(net, span)); }"
        " grow mem (cost(mem, 4 * one)); observe grown = serial; run net (cost(net, 5)); }"
    )
    made = both(server, 7, "preempt lifo;", "batch(2)", 2.0)
    assert made.samples["grown"][0][3] == grower

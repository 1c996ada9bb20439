"""Equal iterations of step stages, taken at once and one by one: the same runs.

Every engine program of the corpus and of `programs/`, over several seeds: counters equal, everything that is a
sum over time to 1e-9 relative (the sums are taken in another order). Then what the compiler says of each engine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sqc
from harness import CORPUS, ROOT, corpus_runs
from sqc.codegen.steady import reasons

SEEDS = np.arange(1, 9, dtype=np.uint64)
CORPUS_ENGINES = sorted(path.stem for path in [*CORPUS.glob("f*.sq"), CORPUS / "i04_station_engine.sq"])
SHORT = {"05-engine": 200.0, "06-cliff": 40.0}
"""Horizons of programs with many iterations a second; elsewhere 100."""
PROGRAMS = sorted(path.stem for path in (ROOT / "programs").glob("*.sq") if reasons(sqc.compile(path).ir))
COUNTERS = ("events", "arrivals", "ended", "turns", "iterations", "completed", "count", "admissions", "preemptions")


def both_ways(program: sqc.Program, **setting: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    once, singly = (program.kernel(skip=skip)(SEEDS, **setting) for skip in (True, False))
    return once, singly


def differences(once: dict[str, Any], singly: dict[str, Any]) -> list[str]:
    wrong = []
    for name, value in once.items():
        counter = name.rpartition(".")[2] in COUNTERS
        tolerance = 0.0 if counter else 1e-9
        if not np.allclose(value, singly[name], rtol=tolerance, atol=0.0, equal_nan=True):
            wrong.append(f"{name}: {value} at once, {singly[name]} one by one")
    return wrong


@pytest.mark.parametrize("name", CORPUS_ENGINES)
def test_of_the_corpus(name: str) -> None:
    run = corpus_runs(name)[0]
    setting = {"horizon": run["horizon"], "warmup": run["warmup"]}
    if run["arrivals"] is not None:
        setting["arrivals"] = run["arrivals"]
    assert not differences(*both_ways(sqc.compile(CORPUS / f"{name}.sq"), **setting))


@pytest.mark.parametrize("name", PROGRAMS)
def test_of_the_programs(name: str) -> None:
    horizon = SHORT.get(name, 100.0)
    program = sqc.compile(ROOT / "programs" / f"{name}.sq")
    assert not differences(*both_ways(program, horizon=horizon, warmup=horizon / 10))


ENGINE = """
fn main() {{
  {globals}
  stage e : step {{ budget {budget}; cost {cost}; {options} }}
  pool q {{ cap 4; admit via e; {queue} }}
  workload {{ arrive poisson(0.2); turn {{ set n = ~uniform(1, 50); }} }}
  server {{ {before} hold q (cost(q, {units})) {{ run e prefill (cost(e, n)); run e decode (cost(e, n)); }}; {after} }}
  {claims}
}}
"""
PLAIN = {
    "globals": "",
    "budget": "8",
    "cost": "0.1 + 0.01 * tokens",
    "options": "",
    "queue": "",
    "units": "1",
    "before": "",
    "after": "",
    "claims": "",
}


def engine(**parts: str) -> sqc.Program:
    return sqc.compile(source=ENGINE.format(**{**PLAIN, **parts}))


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({}, None),
        ({"cost": "max(0.1, min(decoders, 3) * 0.02) + floor(residents / 2)"}, None),
        ({"budget": "residents > 2 ? 6 : 8"}, None),
        ({"options": "serve by (remaining);"}, None),
        ({"options": "serve decode first;"}, None),
        ({"options": "serve exclusive prefill;"}, None),
        ({"options": "iteration { branch (residents > 1) { serve; } else { serve; } admit; }"}, None),
        ({"units": "min(1, free(q))"}, None),
        ({"queue": "queue by (waited);"}, None),
        ({"claims": "gauge g = used(q) + queue(e);"}, None),
        ({"before": "fork { run e decode (cost(e, 2 * n)); }", "after": "join;"}, None),
        ({"cost": "0.1 + ~exp(1)"}, "its cost draws"),
        ({"cost": "0.1 + work(e) * 1e-9"}, "its cost reads `work(e)`, which changes with every iteration"),
        (
            {"options": "state r = 0; iteration { serve; admit; set r = r + 1; }"},
            "its body sets the register `r`",
        ),
        (
            {"options": "serve only (remaining > 1);"},
            "its body reads `remaining`, which changes with every iteration",
        ),
        ({"claims": "claim c : every iteration of e (tokens <= 8);"}, "the claim `c` reads its iterations"),
        ({"claims": "gauge g = est_rho(e);"}, "the gauge `g` reads `est_rho(e)`, an estimate"),
        ({"claims": "gauge g = price(e, 1, 1);"}, "the gauge `g` reads `price(e, ..)`, an estimate"),
        ({"budget": "now > 5 ? 6 : 8"}, "its budget reads the clock"),
    ],
)
def test_what_the_compiler_says(parts: dict[str, str], why: str | None) -> None:
    program = engine(**parts)
    assert program.kernel().iterates == {"e": why}
    assert program.kernel(skip=False).iterates == {"e": "it was asked for"}
    if why is None:
        once, singly = both_ways(program, horizon=2000.0, warmup=100.0)
        assert once["stage.e.iterations"].sum() > 1000
        assert not differences(once, singly)


def test_gaps_that_lie_on_both_sides_of_a_bucket() -> None:
    """A cost on the edge between two buckets of the quantiles: the rounded times between tokens fall on both."""
    edge = float(np.exp(-100 * np.log(1.01)))
    program = engine(cost=repr(edge), options="", budget="1")
    once, singly = both_ways(program, horizon=2000.0)
    assert not differences(once, singly)


def test_positions_that_are_no_whole_numbers() -> None:
    """A growing run whose position rounds as it passes a power of two."""
    source = """
    fn main() {
      stage e : step { budget 64; cost 0.01; memory kv; }
      pool kv { cap 4096; block 64; preempt lifo; admit via e; }
      workload { arrive poisson(0.5); turn { set n = ~uniform(0.1, 40); set o = ~uniform(1, 900); } }
      server { hold kv (cost(kv, n)) { run e prefill (cost(e, n)) growing kv; run e decode (cost(e, o)) growing kv; } }
    }
    """
    once, singly = both_ways(sqc.compile(source=source), horizon=3000.0)
    assert once["stage.e.iterations"].sum() > 100_000
    assert not differences(once, singly)

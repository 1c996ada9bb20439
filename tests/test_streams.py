"""The random streams: bit for bit against the test vectors of the reference's generator, in both memories,
and in programs that draw in unusual places."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import pytest

import reference
from compare import sample_differences
from harness import CORPUS, FOUNDING, run
from sqc.kernel import Kernel, RunResult
from sqc.lower import compile_text
from sqc_runtime import streams
from sqc_runtime.machine import MachineCode, bank_cells, lanes_module, object_code
from sqc_runtime.memory import Layout, Memory
from sqc_runtime.ops import halves

VECTORS: dict[str, Any] = json.loads((CORPUS / "draws_vectors.json").read_text(encoding="utf-8"))
U32, U64 = np.uint32, np.uint64

Body = Callable[[Memory, Any], Sequence[Any]]
"""What a lane computes from its seed: values that doubles hold exactly."""
Lanes = Callable[[Body, Sequence[int], Layout], list[list[float]]]


class _Simulation:
    """A body in the shape of a lane program."""

    def __init__(self, body: Body):
        self.body, self.count = body, 0

    def __call__(self, m: Memory, seed: Any, _: Any) -> dict[str, Any]:
        values = self.body(m, seed)
        self.count = len(values)
        metrics = {f"value {k}": value.astype(np.float64) for k, value in enumerate(values)}
        nothing, zero = m.full(0, U32), m.full(0.0, np.float64)
        return {"metrics": metrics, "status": nothing, "error": nothing, "time": zero, "session": zero}


def native(body: Body, seeds: Sequence[int], layout: Layout) -> list[list[float]]:
    simulation = _Simulation(body)
    code = object_code(lanes_module(layout, simulation, 1))
    call = MachineCode(code, bank_cells(layout), simulation.count)
    out: list[list[float]] = call(np.array(seeds, U64), np.zeros((1, len(seeds))), np.zeros(1)).metrics.tolist()
    return out


def lockstep(body: Body, seeds: Sequence[int], layout: Layout) -> list[list[float]]:
    from sqc_runtime.lanes import lockstep_lanes

    call = lockstep_lanes(layout, _Simulation(body), np.zeros(1))
    with jax.enable_x64(True):
        out: list[list[float]] = np.asarray(
            jax.jit(call)(np.array(seeds, U64), np.zeros(len(seeds)))["metrics"]
        ).tolist()
    return out


@pytest.fixture(params=[native, lockstep], ids=["native", "lockstep"])
def lanes(request: pytest.FixtureRequest) -> Lanes:
    memory: Lanes = request.param
    return memory


def whole(words: Sequence[float]) -> list[int]:
    """64-bit numbers of their halves, low first."""
    return [int(low) | int(high) << 32 for low, high in zip(words[::2], words[1::2], strict=True)]


def repeated(m: Memory, cells: int, count: int, value: Callable[[Any], Any]) -> list[Any]:
    """`value(k)` for k = 0 .. count - 1, one after the other in a loop."""

    def store(k: Any) -> tuple[Any]:
        m.setf(k + U32(cells), value(k).astype(np.float64))
        return (k + U32(1),)

    m.loop(lambda k: k < U32(count), store, (m.full(0, U32),))
    return [m.f(cells + k) for k in range(count)]


def uniforms(lanes: Lanes, generators: Sequence[int], count: int) -> list[list[float]]:
    """The first uniforms of generators, read singly."""
    layout = Layout()
    singles, cells = streams.Singles(layout, "single"), layout.f("values", count)

    def body(m: Memory, seed: Any) -> Sequence[Any]:
        return repeated(m, cells, count, lambda k: singles.at(m, seed, k.astype(U64)))

    return lanes(body, generators, layout)


def test_key_and_draws(lanes: Lanes) -> None:
    vectors = VECTORS["generator"]

    def body(m: Memory, seed: Any) -> Sequence[Any]:
        bits = [u for block in range(2) for u in streams.one_block(seed, m.full(block, U64))]
        return [*streams.key_words(seed), *(half for u in bits for half in halves(u))]

    for seed, values in zip(vectors, lanes(body, [int(seed) for seed in vectors], Layout()), strict=True):
        expected = vectors[seed]
        assert [int(v) for v in values[:8]] == [int(word, 16) for word in expected["key_words"]]
        assert whole(values[8:])[: len(expected["u64"])] == [int(word, 16) for word in expected["u64"]]


def test_draws_of_mixed_lengths(lanes: Lanes) -> None:
    """A 32-bit draw, a 64-bit one across two pairs of words, a 32-bit one, a uniform: words 0; 1, 2; 3; 4, 5."""

    def body(m: Memory, seed: Any) -> Sequence[Any]:
        bits = streams.one_block(seed, m.full(0, U64))
        return [*(half for u in bits[:2] for half in halves(u)), streams.uniform(bits[2])]

    ((*words, last),) = lanes(body, [1], Layout())
    first, wide, second, uniform = VECTORS["mixed_u32_u64_u32_uniform_seed1"]
    assert [int(words[0]), hex(whole(words[1:3])[0]), int(words[3]), last] == [first, wide, second, uniform]


def test_substreams(lanes: Lanes) -> None:
    for vector in VECTORS["substream"]:

        def body(m: Memory, seed: Any, vector: dict[str, Any] = vector) -> Sequence[Any]:
            names = ("serial", "turn", "kind")
            return halves(streams.substream(streams.root(seed), *(m.full(vector[name], U64) for name in names)))

        (words,) = lanes(body, [vector["seed"]], Layout())
        assert whole(words) == [int(vector["generator_seed"], 16)]


def test_uniforms_of_substreams(lanes: Lanes) -> None:
    generators = [int(vector["generator_seed"], 16) for vector in VECTORS["substream"]]
    expected = [vector["uniform"] for vector in VECTORS["substream"]]
    count = min(map(len, expected))
    assert uniforms(lanes, generators, count) == [row[:count] for row in expected]


@pytest.mark.parametrize(
    ("name", "constant"), [("machine", streams.MACHINE), ("eviction", streams.EVICTION), ("trace", streams.TRACE)]
)
def test_streams_beside_the_sessions(lanes: Lanes, name: str, constant: np.uint64) -> None:
    expected = VECTORS["machine_streams_seed1"][name]
    assert uniforms(lanes, [1 ^ int(constant)], len(expected)) == [expected]


@pytest.mark.parametrize(
    ("name", "generator", "n"),
    [
        ("integer_below_7_trace_stream_seed1", 1 ^ int(streams.TRACE), 7),
        ("integer_below_3000000000_seed5", 5, 3_000_000_000),
    ],
)
def test_integers(lanes: Lanes, name: str, generator: int, n: int) -> None:
    """With n = 3e9 most integers need a second word."""
    layout = Layout()
    expected = VECTORS[name]
    integers, cells = streams.Integers(layout, "integers"), layout.f("values", len(expected))

    def body(m: Memory, seed: Any) -> Sequence[Any]:
        return repeated(m, cells, len(expected), lambda _: integers.below(m, seed, m.full(n, U32)))

    assert lanes(body, [generator], layout) == [expected]


def test_blocks_side_by_side(lanes: Lanes) -> None:
    """The vectorised function, on 16 generators and block numbers at once, against blocks one by one."""
    width, factor = 16, 0x9E3779B97F4A7C15
    layout = Layout()
    cells = layout.f("uniforms", streams.PER_BLOCK * width)

    def body(m: Memory, seed: Any) -> Sequence[Any]:
        seeds = m.spread(seed, width) ^ m.row([factor * k % 2**64 for k in range(width)], U64)
        numbers = m.row([7 * k % 5 for k in range(width)], U64)
        for k, row in enumerate(streams.blocks(seeds, numbers)):
            m.store_n("f", cells + k * width, row)

        def compare(k: Any, different: Any) -> tuple[Any, Any]:
            lane = k.astype(U64)
            alone = streams.one_block(seed ^ (lane * U64(factor)), lane * U64(7) % U64(5))
            for i, bits in enumerate(alone):
                kept = m.f(k + U32(cells + i * width))
                different = different + (streams.uniform(bits) != kept).astype(np.float64)
            return k + U32(1), different

        start = (m.full(0, U32), m.full(0.0, np.float64))
        _, different = m.loop(lambda k, _: k < U32(width), compare, start)
        return [different, m.f(cells)]

    for different, first in lanes(body, [1, 2, 2**63 + 5], layout):
        assert different == 0
        assert 0 < first < 1


def test_singles_anywhere(lanes: Lanes) -> None:
    """Positions out of order, and far into a stream: block 2^32 has its number in two words."""
    layout = Layout()
    singles = streams.Singles(layout, "single")
    far = 2**35 + 3

    def body(m: Memory, seed: Any) -> Sequence[Any]:
        at = [singles.at(m, seed, m.full(k, U64)) for k in (9, far, 9, 2)]
        return [*at, streams.uniform(streams.one_block(seed, m.full(2**32, U64))[3])]

    ((ninth, distant, again, second, block),) = lanes(body, [7], layout)
    expected = VECTORS["generator"]["7"]["uniform"]
    assert (ninth, again, second) == (expected[9], expected[9], expected[2])
    assert distant == block


# --------------------------------------------------------------------------- programs

DRAWS = """
fn main() {
  stage idle : delay;
  workload {
    arrive poisson(1);
    turn {
      observe erlang_3_6 = ~erlang(3, 6);
      observe h2_2_4 = ~h2(2, 4);
      observe uniform_1_3 = ~uniform(1, 3);
      observe bernoulli_0_3 = ~bernoulli(0.3);
      observe det_7 = ~det(7);
      observe exp_5 = ~exp(5);
      observe h2_2_0_5 = ~h2(2, 0.5);
      observe erlang_2_9_4 = ~erlang(2.9, 4);
    }
  }
  server { }
}
"""


def test_distributions() -> None:
    """Every law, one after another on the workload streams of serials 0, 1, 2: a wrong count of uniforms shows."""
    samples = run(DRAWS, horizon=30).samples
    for name, expected in VECTORS["distributions"]["values"].items():
        assert [value for *_, value in samples[name][:3]] == expected, name


@pytest.mark.parametrize("seed", ["1", "2"])
def test_founding_program_draws(seed: str) -> None:
    """Arrival times, sizes, continuations and tool times of the founding program's first 200 seconds."""
    vectors = VECTORS["seed_program"][seed]
    text = FOUNDING.read_text(encoding="utf-8")
    text = text.replace("let C", "let unused").replace("cap C", "cap inf")
    text = text.replace("init { set K = 0; }", "init { set K = 0; observe arrival = now; }")
    text = text.replace("set o = ~exp(200);", "set o = ~exp(200); observe n_ = n; observe o_ = o;")
    text = text.replace(
        "branch with (p) { tool (~exp(Z)); } else",
        "set go = ~bernoulli(p); observe go_ = go; branch (go) { set z = ~exp(Z); observe z_ = z; tool (z); } else",
    )
    samples = run(text, horizon=200, seed=int(seed)).samples
    assert [value for *_, value in samples["arrival"][:20]] == vectors["arrival_times"]
    for name in ("n_", "o_", "go_", "z_"):
        ours = [(session, turn, value) for _, session, turn, value in samples[name][:30]]
        assert ours == [(session, turn, value) for _, session, turn, value in vectors[name]], name


FRAME = """
use "std/args";
fn main() {{
  {machine}
  workload {{ arrive {arrive}; {work} }}
  server {{ {server} }}
}}
"""
LOOP = "session { loop { turn; tool (~exp(2)); branch with (0.7) { } else { end; } } }"
CACHED = "init { set K = 0; } turn { set n = ceil(~uniform(10, 40)); } "
TALK = "session { loop { turn; set K = K + n; tool (~exp(4)); branch with (0.8) { } else { end; } } }"
AFTER = "observe after = ~uniform(0, 1);"


def _many(count: int, more: str = "") -> str:
    """More uniforms than a block holds, each observed."""
    return " ".join(f"set a{k} = ~uniform(0, {k + 1}); observe o{k} = a{k}{more};" for k in range(count))


UNUSUAL: dict[str, dict[str, str]] = {
    # Phases that are known only when the draw is reached: in a session, in marks, in gaps; many of them.
    "phases in a session": {
        "work": "turn { set k = ceil(~uniform(0, 4)); } " + LOOP,
        "server": f"set w = ~erlang(k, 2); observe a = w; run s (cost(s, w)); {AFTER}",
    },
    "phases in marks and gaps": {
        "machine": 'stage s : fifo; let k = args.number("k", 3);',
        "arrive": "renewal(~erlang(k, 4))",
        "work": "init { set i = ~erlang(k, 2); observe first = i; } "
        "turn { set w = ~erlang(k, 1); observe a = w; observe b = ~uniform(0, 1); } " + LOOP,
    },
    "no phases": {"work": "turn { set w = ~erlang(0 / (w - w), 1); observe a = w; observe b = ~erlang(-turn_no, 2); }"},
    "many phases": {
        "work": "turn { set w = ~erlang(20, 1); observe a = w; observe b = ~exp(1); } " + LOOP,
        "server": f"run s (cost(s, w)); observe c = ~erlang(12, 1); {AFTER}",
    },
    # Streams longer than a block.
    "many marks": {
        "work": f"init {{ {' '.join(f'set i{k} = ~uniform(0, {k + 1});' for k in range(11))} }} "
        f"turn {{ set w = 1; {_many(19, ' + i10')} }} {LOOP}",
    },
    "many draws of a session": {"work": f"turn {{ set w = 1; }} {LOOP}", "server": _many(21) + "run s (cost(s, 1));"},
    "many draws without a loop": {
        "work": "init { set y = ~exp(1); } turn { set w = ~exp(1); observe z = w + y; } "
        "session { turn; tool (~exp(1)); turn; }",
        "server": _many(21) + "run s (cost(s, w));",
    },
    "few sessions that live long": {
        "arrive": "closed(3)",
        "work": "turn { set w = ~exp(1); observe a = w; } session { loop { turn; tool (~exp(1)); } }",
    },
    "only init draws": {"work": "init { set w = ~exp(1); } turn { observe a = w; } " + LOOP},
    "long gaps": {"arrive": "renewal(~erlang(9, 2) + ~h2(1, 2) + 0 * ~uniform(0, 1))"},
    # Arms that are not taken, sides that are skipped.
    "arms and sides": {
        "work": "turn { set a = ~uniform(0, 1); set b = a > 0.5 && ~bernoulli(0.5); set c = a > 0.7 || ~exp(1) > 1; "
        "set w = b ? (c ? ~exp(2) : ~uniform(1, 2)) : (c ? 0.7 : abs(ln(a))); observe od = w; observe oe = ~exp(1); }",
        "server": "set d = ~uniform(0, 1); set e = d > 0.5 && ~bernoulli(0.5); set f = d > 0.7 || ~exp(1) > 1; "
        f"observe g = e ? (f ? ~exp(2) : ~uniform(1, 2)) : (f ? 7 : ~h2(1, 2)); run s (cost(s, w)); {AFTER}",
    },
    "arms by the state": {
        "work": "turn { set w = queue(s) > 1 ? ~exp(1) : ~uniform(0, 1); observe a = w; observe b = ~uniform(0, 1); }"
    },
    "an index out of range that is not read": {
        "machine": "pool kv[2] { cap 100; } stage s : fifo;",
        "work": "turn { set j = floor(~uniform(0, 4)); set c = j < 2; }",
        "server": "hold kv[c ? j : 0] (cost(kv[c ? j : 0], 3)) { observe u = c ? used(kv[j]) : -1; "
        "observe v = c && used(kv[j]) > 3; observe w = !c || used(kv[j]) > 3; run s (cost(s, ~exp(1))); }",
    },
    # Streams that are not a session's, and a session's outside of its statements.
    "a capacity that draws": {
        "machine": "stage s : ps(present > 2 ? ~exp(1) + 0.1 : ~erlang(present, 1)); stage r : ps(~uniform(1, 2));",
        "server": f"set t0 = now; run s (cost(s, w)); run r (cost(r, w)); observe a = now - t0; {AFTER}",
    },
    "keys of a choice": {
        "machine": "stage s[3] : fifo;",
        "server": "choose j in 3 by (queue(s[j]) > 1 ? ~uniform(0, 1) : 0, ~uniform(0, 1)); observe a = j; "
        f"run s[j] (cost(s[j], w)); {AFTER}",
    },
    "spills": {
        "machine": "pool kv { cap 300; evict lru; spill far via link (size / 99 + ~exp(0.1)) when (~bernoulli(0.5)); } "
        "pool far { cap 400; evict lru; } stage s : fifo; stage link : fifo;",
        "work": CACHED + TALK,
        "server": f"hold kv (cost(kv, K + n)) {{ run s (cost(s, 0.2)); }} cache (cost(kv, K + n)); {AFTER}",
    },
    "leases": {
        "machine": "pool kv { cap 100; evict lru; } stage s : fifo;",
        "work": CACHED + TALK,
        "server": "hold kv (cost(kv, n)) { observe got = cached; run s (cost(s, 0.2)); } "
        f"cache (cost(kv, floor(~uniform(0, 40)))) lease kv (~exp(3)); {AFTER}",
    },
    "preemption": {
        "machine": "pool kv { cap 60; preempt lifo; evict lru; } stage s : ps(2);",
        "work": "turn { set n = ceil(~uniform(10, 20)); }",
        "server": "hold kv (cost(kv, n)) { observe got = cached; run s (cost(s, ~exp(0.7))); "
        "grow kv (cost(kv, ceil(~uniform(1, 12)))); run s (cost(s, ~exp(0.7))); } "
        f"cache (cost(kv, floor(~uniform(0, 40)))); {AFTER}",
    },
    "legs": {
        "machine": "stage s : fifo; stage r : ps(1);",
        "work": "turn { set w = ~exp(0.8); } " + LOOP,
        "server": "fork { set k = 3; while (k > 0) { run s (cost(s, ~exp(0.3))); observe x = ~uniform(0, 1); "
        f"set k = k - 1; }} }} join; {AFTER} fork {{ run r (cost(r, ~erlang(3, 1))); observe y = ~exp(1); }} join;",
    },
}


def _unusual(name: str) -> str:
    usual = {
        "machine": "stage s : fifo;",
        "arrive": "poisson(0.3)",
        "work": "turn { set w = ~exp(1); observe v = w; }",
        "server": f"run s (cost(s, w)); {AFTER}",
    }
    return FRAME.format(**{**usual, **UNUSUAL[name]})


def _samples(result: RunResult) -> dict[str, list[reference.Sample]]:
    assert result.failure is None, result.failure
    named = {name.removeprefix("observe."): kept for name, kept in result.samples.items()}
    columns = {n: (k.time.tolist(), k.session.tolist(), k.turn.tolist(), k.value.tolist()) for n, k in named.items()}
    return {name: list(zip(*rows, strict=True)) for name, rows in columns.items()}


@pytest.mark.reference
@pytest.mark.skipif(not reference.AVAILABLE, reason=reference.WHY_NOT)
@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_draws(name: str) -> None:
    """Every sample of three runs; `after` shows whether the session's stream is where it must be."""
    kernel = Kernel(compile_text(_unusual(name)), samples=True, mode="native")
    for seed, horizon, warmup in ((1, 400.0, 0.0), (2, 300.0, 20.0), (3, 120.0, 0.0)):
        expected = reference.run(_unusual(name), seed=seed, horizon=horizon, warmup=warmup)
        result = kernel.run(seed, horizon=horizon, warmup=warmup)
        assert result.metrics["events"] == expected.report["events"]
        ours = _samples(result)
        for row, samples in expected.samples.items():
            assert not list(sample_differences(row, samples, ours[row]))


@pytest.mark.parametrize("name", ["phases in marks and gaps", "legs"])
def test_unusual_draws_in_lockstep(name: str) -> None:
    """Both memories draw the same numbers; what follows from them may differ in the last bits."""
    program = compile_text(_unusual(name))
    rows = [_samples(Kernel(program, samples=True, mode=mode).run(1, horizon=60.0)) for mode in ("native", "portable")]
    assert any(rows[0].values())
    for row, samples in rows[0].items():
        assert not list(sample_differences(row, samples, rows[1][row]))


def test_victims_of_drawn_keys() -> None:
    """Whoever draws least goes. The reference draws in an order of its own at every run, so only the rule is tested:
    the runs are reproducible and the keys leave the streams of the sessions alone."""
    text = FRAME.format(
        machine="pool kv { cap 300; evict by (~uniform(0, 1)); } stage s : fifo;",
        arrive="poisson(0.5)",
        work=CACHED + TALK,
        server=f"hold kv (cost(kv, K + n)) {{ run s (cost(s, 0.2)); }} cache (cost(kv, K + n)); {AFTER}",
    )
    drawn, fixed = (
        Kernel(compile_text(t), samples=True, mode="native")
        for t in (text, text.replace("~uniform(0, 1))", "size)", 1))
    )
    first, second = drawn.run(1, horizon=300.0), drawn.run(1, horizon=300.0)
    assert first.metrics["pool.kv.evicted_entries"] > 10
    assert _samples(first) == _samples(second)
    assert _samples(first)["after"] == _samples(fixed.run(1, horizon=300.0))["after"]


def test_too_many_phases() -> None:
    """A draw of a million phases is the longest."""
    text = FRAME.format(
        machine="stage s : fifo;", arrive="batch(1)", work="turn { }", server="observe a = ~erlang(1 / queue(s), 1);"
    )
    failure = Kernel(compile_text(text), samples=True, mode="native").run(1, horizon=1.0).failure
    assert failure is not None
    assert (failure.code, failure.time, failure.session) == ("R118", 0.0, 0)

"""The random streams, bit for bit against the test vectors of the reference's generator."""

from __future__ import annotations

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from harness import CORPUS, FOUNDING, run
from sqc_runtime import streams

VECTORS: dict[str, Any] = json.loads((CORPUS / "draws_vectors.json").read_text(encoding="utf-8"))


def u64(value: int) -> jax.Array:
    return jnp.asarray(np.uint64(value))


def uniforms(generator_seed: int, count: int) -> list[float]:
    """The first uniforms of a generator, by the scalar function."""
    with jax.enable_x64(True):
        return [float(streams.one_uniform(u64(generator_seed), jnp.uint32(k))) for k in range(count)]


@pytest.mark.parametrize("seed", VECTORS["generator"])
def test_key_and_block(seed: str) -> None:
    expected = VECTORS["generator"][seed]
    with jax.enable_x64(True):
        key = [int(word) for word in streams.key_words(u64(int(seed)))]
        words = [int(word) for block in range(2) for word in streams.block_u64(u64(int(seed)), u64(block))]
    assert key == [int(word, 16) for word in expected["key_words"]]
    assert words[: len(expected["u64"])] == [int(word, 16) for word in expected["u64"]]


@pytest.mark.parametrize(
    "vector", VECTORS["substream"], ids=lambda v: f"{v['seed']}-{v['serial']}-{v['turn']}-{v['kind']}"
)
def test_substream(vector: dict[str, Any]) -> None:
    with jax.enable_x64(True):
        start = streams.root(u64(vector["seed"]))
        seed = int(streams.substream(start, *(u64(vector[name]) for name in ("serial", "turn", "kind"))))
    assert seed == int(vector["generator_seed"], 16)
    assert uniforms(seed, len(vector["uniform"])) == vector["uniform"]


@pytest.mark.parametrize(
    ("name", "constant"), [("machine", streams.MACHINE), ("eviction", streams.EVICTION), ("trace", streams.TRACE)]
)
def test_streams_beside_the_sessions(name: str, constant: np.uint64) -> None:
    expected = VECTORS["machine_streams_seed1"][name]
    assert uniforms(1 ^ int(constant), len(expected)) == expected


def test_blocks_are_the_scalar_blocks() -> None:
    """The vectorised function, on 40 generators and block numbers at once, against the scalar one."""
    seeds = np.arange(40, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    counters = np.arange(40, dtype=np.uint64) % np.uint64(5)
    with jax.enable_x64(True):
        together = jax.jit(streams.blocks)(jnp.asarray(seeds), jnp.asarray(counters))
        alone = [
            [streams.uniform(bits) for bits in streams.block_u64(seed, counter)]
            for seed, counter in zip(jnp.asarray(seeds), jnp.asarray(counters), strict=True)
        ]
    np.testing.assert_array_equal(np.stack(together, axis=1), np.array(alone))


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

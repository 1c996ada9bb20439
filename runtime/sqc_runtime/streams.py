"""The reference's random streams: ChaCha12, substreams, uniforms.

Every function works on scalars and on arrays alike. `blocks` computes many 64-byte blocks at once
in vector instructions; a lane asks for a batch of them and keeps the uniforms in its slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

U64 = np.uint64
U32 = np.uint32

GOLDEN = U64(0x9E3779B97F4A7C15)
_MIX1 = U64(0xBF58476D1CE4E5B9)
_MIX2 = U64(0x94D049BB133111EB)
_LCG = 6364136223846793005
_LCG_ADD = 11634580027462260723
_CONSTANTS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)

WORKLOAD, SESSION, LEG = 1, 2, 3
MACHINE = U64(0x5851F42D4C957F2D)
EVICTION = U64(0x2545F4914F6CDD1D)
TRACE = U64(0x6A09E667F3BCC908)

PER_BLOCK = 8
"""Uniforms in one block: sixteen words, two a uniform."""


def mix(x: Array) -> Array:
    """The finaliser of splitmix64."""
    x = (x ^ (x >> U64(30))) * _MIX1
    x = (x ^ (x >> U64(27))) * _MIX2
    return x ^ (x >> U64(31))


def root(seed: Array) -> Array:
    """What every substream of a run with this seed starts from: `mix(S + G)`."""
    return mix(seed + GOLDEN)


def substream(start: Array, *values: Any) -> Array:
    """The generator seed of a substream; `start` is `root(seed)` or an earlier prefix of values."""
    for value in values:
        start = mix((start ^ value) + GOLDEN)
    return start


def _lcg_powers() -> list[tuple[int, int]]:
    """(a, b) with `s_k = a * s + b` for the k-th state, k = 1..8: no chain of multiplications."""
    out, a, b = [], 1, 0
    for _ in range(8):
        a, b = a * _LCG % 2**64, (b * _LCG + _LCG_ADD) % 2**64
        out.append((a, b))
    return out


def key_words(seed: Array) -> list[Array]:
    """The eight 32-bit key words of a 64-bit generator seed (a PCG-style expansion)."""
    words = []
    for a, b in _lcg_powers():
        s = seed * U64(a) + U64(b)
        x = (((s >> U64(18)) ^ s) >> U64(27)).astype(U32)
        r = (s >> U64(59)).astype(U32)
        words.append((x >> r) | (x << ((U32(0) - r) & U32(31))))
    return words


def _rotl(x: Array, n: int) -> Array:
    return (x << U32(n)) | (x >> U32(32 - n))


def _quarter(a: Array, b: Array, c: Array, d: Array) -> tuple[Array, Array, Array, Array]:
    a = a + b
    d = _rotl(d ^ a, 16)
    c = c + d
    b = _rotl(b ^ c, 12)
    a = a + b
    d = _rotl(d ^ a, 8)
    c = c + d
    b = _rotl(b ^ c, 7)
    return a, b, c, d


_COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
_DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))


def block_words(seed: Array, counter: Array) -> list[Array]:
    """The sixteen 32-bit words of block `counter` of the generator with this seed."""
    key = key_words(seed)
    low = counter.astype(U32)
    high = (counter >> U64(32)).astype(U32)
    zero = low & U32(0)
    start = [zero | U32(c) for c in _CONSTANTS] + key + [low, high, zero, zero]
    state = list(start)
    for _ in range(6):
        for a, b, c, d in _COLUMNS + _DIAGONALS:
            state[a], state[b], state[c], state[d] = _quarter(state[a], state[b], state[c], state[d])
    return [x + y for x, y in zip(state, start, strict=True)]


def block_u64(seed: Array, counter: Array) -> list[Array]:
    """The eight 64-bit draws of a block: two words each, first word low."""
    w = block_words(seed, counter)
    return [(w[2 * i + 1].astype(U64) << U64(32)) | w[2 * i].astype(U64) for i in range(PER_BLOCK)]


def uniform(bits: Array) -> Array:
    """A 64-bit draw as a double in [0, 1): the top 53 bits times 2^-53."""
    return (bits >> U64(11)).astype(np.int64).astype(np.float64) * 2.0**-53


def blocks(seeds: Array, counters: Array) -> list[Array]:
    """Uniforms of many blocks: eight arrays of the shape of `seeds`, the k-th of every block.

    A `reduce_window` of window 1 over eight operands is one loop with eight results, which LLVM
    vectorises; as plain elementwise code each result would repeat the whole block.
    """
    shape = seeds.shape
    seeds, counters = seeds.reshape(-1), counters.reshape(-1)
    pad = jnp.zeros(seeds.shape, U64)
    operands = [seeds, counters] + [pad] * (PER_BLOCK - 2)

    def reducer(_: Sequence[Array], x: Sequence[Array]) -> tuple[Array, ...]:
        return tuple(block_u64(x[0], x[1]))

    bits = lax.reduce_window(tuple(operands), tuple(U64(0) for _ in operands), reducer, (1,), (1,), "VALID")
    return [uniform(b).reshape(shape) for b in bits]


def one_uniform(seed: Array, index: Array) -> Array:
    """The uniform number `index` (from 0) of a generator: for draws past what was prefetched."""
    bits = block_u64(seed, (index >> U32(3)).astype(U64))
    within = index & U32(7)
    out = bits[0]
    for k in range(1, PER_BLOCK):
        out = jnp.where(within == k, bits[k], out)
    return uniform(out)

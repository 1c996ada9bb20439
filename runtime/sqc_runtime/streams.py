"""The reference's random streams: ChaCha12, substreams, uniforms.

Every function works on scalars and on arrays alike. `blocks` computes many 64-byte blocks at once
in vector instructions; a lane asks for a batch of them and keeps the uniforms in its slots.
`Singles` reads a uniform anywhere in any stream, one block at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .memory import Layout, Memory
from .ops import double_of, halves, whole
from .value import Value, function_of, join

U64 = np.uint64
U32 = np.uint32

GOLDEN = U64(0x9E3779B97F4A7C15)
_MIX1 = U64(0xBF58476D1CE4E5B9)
_MIX2 = U64(0x94D049BB133111EB)
_LCG = 6364136223846793005
_LCG_ADD = 11634580027462260723
_WORD = 0xFFFFFFFF
_CONSTANTS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)

WORKLOAD, SESSION, LEG = 1, 2, 3
MACHINE = U64(0x5851F42D4C957F2D)
EVICTION = U64(0x2545F4914F6CDD1D)
TRACE = U64(0x6A09E667F3BCC908)

PER_BLOCK = 8
"""Uniforms in one block: sixteen words, two a uniform."""


def mix(x: Any) -> Any:
    """The finaliser of splitmix64."""
    x = (x ^ (x >> U64(30))) * _MIX1
    x = (x ^ (x >> U64(27))) * _MIX2
    return x ^ (x >> U64(31))


def root(seed: Any) -> Any:
    """What every substream of a run with this seed starts from: `mix(S + G)`."""
    return mix(seed + GOLDEN)


def substream(start: Any, *values: Any) -> Any:
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


def key_words(seed: Any) -> list[Any]:
    """The eight 32-bit key words of a 64-bit generator seed (a PCG-style expansion).

    In words of 32 bits, which fill a vector register twice as densely: the state after k steps is
    `a * seed + b`, its output `((s >> 18) ^ s) >> 27` turned right by `s >> 59`.
    """
    low, high = halves(seed)
    factor = seed & U64(_WORD)
    words = []
    for a, b in _lcg_powers():
        s_low, carried = halves(factor * U64(a & _WORD) + U64(b))
        s_high = carried + high * U32(a & _WORD) + low * U32(a >> 32)
        x = (s_high >> U32(13)) ^ ((s_high << U32(5)) | (s_low >> U32(27)))
        r = s_high >> U32(27)
        words.append((x >> r) | (x << ((U32(0) - r) & U32(31))))
    return words


def _rotl(x: Any, n: int) -> Any:
    return (x << U32(n)) | (x >> U32(32 - n))


def _quarter(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any, Any, Any]:
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


def block_words(seed: Any, counter: Any) -> list[Any]:
    """The sixteen 32-bit words of block `counter` of the generator with this seed."""
    key = key_words(seed)
    low, high = halves(counter)
    zero = low & U32(0)
    start = [zero | U32(c) for c in _CONSTANTS] + key + [low, high, zero, zero]
    state = list(start)
    for _ in range(6):
        for a, b, c, d in _COLUMNS + _DIAGONALS:
            state[a], state[b], state[c], state[d] = _quarter(state[a], state[b], state[c], state[d])
    return [x + y for x, y in zip(state, start, strict=True)]


def block_u64(seed: Any, counter: Any) -> list[Any]:
    """The eight 64-bit draws of a block: two words each, first word low."""
    w = block_words(seed, counter)
    return [whole(w[2 * i], w[2 * i + 1]) for i in range(PER_BLOCK)]


def uniform(bits: Any) -> Any:
    """A 64-bit draw as a double in [0, 1): the top 53 bits times 2^-53."""
    return (bits >> U64(11)).astype(np.float64) * 2.0**-53


def _uniform_of_words(low: Any, high: Any) -> Any:
    """The same of a draw's two words, without a conversion of integers, which few processors have for vectors.

    The words become the low bits of doubles at 2^31 and 1/2, whose last bits are worth 2^-21 and 2^-53.
    """
    upper, lower = high >> U32(11), (high << U32(21)) | (low >> U32(11))
    zero = low & U32(0)
    at_2_31, at_half = whole(upper, zero | U32(0x41E00000)), whole(lower, zero | U32(0x3FE00000))
    return (double_of(at_2_31) - (2.0**31 + 0.5)) + double_of(at_half)


_LANES = 8
"""Blocks that native code computes side by side: their 32-bit words fill a vector register."""


def blocks(seeds: Any, counters: Any) -> list[Any]:
    """Uniforms of many blocks: eight vectors of the width of `seeds`, the k-th of every block."""
    if not isinstance(seeds, Value):
        return [uniform(bits) for bits in _bits_lockstep(seeds, counters)]

    def group(seeds: Value, counters: Value) -> list[Value]:
        w = block_words(seeds, counters)
        return [_uniform_of_words(w[2 * k], w[2 * k + 1]) for k in range(PER_BLOCK)]

    starts = range(0, seeds.width, _LANES)
    groups = [function_of("chacha", group, seeds.part(i, _LANES), counters.part(i, _LANES)) for i in starts]
    return [join([group[k] for group in groups]) for k in range(PER_BLOCK)]


def one_block(seed: Any, counter: Any) -> list[Any]:
    """The eight 64-bit draws of one block (of one in each lane)."""
    if isinstance(seed, Value):
        return function_of("chacha.one", block_u64, seed, counter)
    return _bits_lockstep(seed, counter)


def _bits_lockstep(seeds: Any, counters: Any) -> list[Any]:
    """A `reduce_window` of window 1 over eight operands is one loop with eight results; as plain
    elementwise code each result would repeat the whole block."""
    import jax.numpy as jnp
    from jax import lax

    shape = jnp.broadcast_shapes(seeds.shape, counters.shape)
    seeds, counters = (jnp.broadcast_to(x, shape).reshape(-1) for x in (seeds, counters))
    pad = jnp.zeros(seeds.shape, U64)
    operands = [seeds, counters] + [pad] * (PER_BLOCK - 2)

    def reducer(_: Sequence[Any], x: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(block_u64(x[0], x[1]))

    bits = lax.reduce_window(tuple(operands), tuple(U64(0) for _ in operands), reducer, (1,), (1,), "VALID")
    return [b.reshape(shape) for b in bits]


class Singles:
    """Uniforms at any position of any stream. The block of the latest one is kept, so that draws in a row
    compute one block in eight."""

    def __init__(self, layout: Layout, name: str):
        self._cells = layout.f(f"{name}.uniforms", PER_BLOCK)
        self._low, self._high = layout.u(f"{name}.low"), layout.u(f"{name}.high")
        self._next = layout.f(f"{name}.next")
        """The number of the kept block plus one (0: none is kept)."""

    def at(self, m: Memory, seed: Any, position: Any) -> Any:
        """Uniform number `position` (uint64, from 0) of the generator with this seed."""
        low, high = halves(seed)
        block = position >> U64(3)
        number = block.astype(np.float64) + 1.0

        def compute() -> None:
            m.setu(self._low, low)
            m.setu(self._high, high)
            m.setf(self._next, number)
            for k, bits in enumerate(one_block(seed, block)):
                m.setf(self._cells + k, uniform(bits))

        m.when((m.u(self._low) != low) | (m.u(self._high) != high) | (m.f(self._next) != number), compute)
        return m.f((position & U64(PER_BLOCK - 1)).astype(U32) + U32(self._cells))


class Integers:
    """Integers in [0, n), one after the other from one stream: a word each, rarely two."""

    def __init__(self, layout: Layout, name: str):
        self._words = layout.u(f"{name}.words", 2 * PER_BLOCK)
        self._at = layout.u(f"{name}.at")
        self._block = layout.f(f"{name}.block")

    def _word(self, m: Memory, seed: Any) -> Any:
        """The next 32-bit word of the stream."""
        at = m.u(self._at)

        def compute() -> None:
            block = m.addf(self._block, 1.0) - 1.0
            for k, bits in enumerate(one_block(seed, block.astype(np.int64).astype(U64))):
                low, high = halves(bits)
                m.setu(self._words + 2 * k, low)
                m.setu(self._words + 2 * k + 1, high)

        m.when(at == 0, compute)
        m.setu(self._at, (at + U32(1)) & U32(2 * PER_BLOCK - 1))
        return m.u(at + U32(self._words))

    def below(self, m: Memory, seed: Any, n: Any) -> Any:
        """An integer in [0, n), n a uint32 of at least 1."""
        wide = n.astype(U64)
        low, high = halves(self._word(m, seed).astype(U64) * wide)

        def second() -> tuple[Any]:
            more = halves(self._word(m, seed).astype(U64) * wide)[1]
            return (high + (low > ~more).astype(U32),)

        (result,) = m.when(low > U32(0) - n, second, (high,))
        return result

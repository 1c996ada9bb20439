"""Shared prefixes: against the cache of each session where nothing is shared, and against a plain radix cache.

The plain one is a dictionary of blocks, each named by the content that ends in it. It is driven by what a run did, in
the order in which it did it: admissions, growths, ends of holds and drops, as the programs log them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import pytest

import sqc
from compare import RELATIVE
from generating import generate
from harness import CORPUS, compiled, corpus_program
from sqc import ir

SEEDS = np.arange(1, 4, dtype=np.uint64)

# --------------------------------------------------------------------------- nothing is shared


def by_serial(node: Any) -> Any:
    """The program in which each hold that keeps something says that its context is the session's own."""
    if isinstance(node, tuple):
        return tuple(map(by_serial, node))
    if not dataclasses.is_dataclass(node) or isinstance(node, ir.Span | type):
        return node
    values = {f.name: by_serial(getattr(node, f.name)) for f in dataclasses.fields(node)}
    if isinstance(node, ir.Hold) and node.cache is not None:
        values["prefix"] = (ir.Segment(ir.Attr("serial"), ir.Const(float("inf"))),)
    return type(node)(**values)


def shareable(program: ir.Program) -> bool:
    holds = [node for node in ir.walk((program.session, program.server)) if isinstance(node, ir.Hold)]
    keeps = any(hold.cache is not None for hold in holds)
    return keeps and not any(hold.lease for hold in holds) and not any(pool.spill for pool in program.pools)


def unequal(program: sqc.Program, horizon: float) -> list[str]:
    """The metrics in which a program and the one with prefix clauses differ."""
    runs = [p.kernel().lanes(SEEDS, horizon=horizon, warmup=horizon / 10) for p in (program, shared(program))]
    plain, other = (run.metrics for run in runs)
    assert len(runs[0].failures) == len(runs[1].failures)
    lines = []
    for name, column in plain.items():
        if not np.isclose(column, other[name], rtol=RELATIVE, atol=1e-12, equal_nan=True).all():
            lines.append(f"{name}: {column} {other[name]}")
    return lines


def shared(program: sqc.Program) -> sqc.Program:
    return sqc.Program(by_serial(program.ir))


KEEPING = sorted(path.stem for path in CORPUS.glob("[a-i][0-9][0-9]_*.sq") if shareable(corpus_program(path.stem).ir))


def test_many_programs_keep_something() -> None:
    assert len(KEEPING) >= 14


@pytest.mark.parametrize("name", [*KEEPING, "04-cache"])
def test_own_prefixes(name: str) -> None:
    assert not unequal(corpus_program(name), 200.0)


@pytest.mark.parametrize("profile", ["cache", "preempt"])
def test_own_prefixes_of_generated_programs(profile: str) -> None:
    """Without `cachedin`: within a hold it counts what the hold reads, which a cache by session has consumed."""
    cases = (generate(Random(f"prefixes {profile} {number}"), profile) for number in range(30))
    programs = ((case, compiled(case.source, case.files)) for case in cases)
    kept = list(itertools.islice(((c, p) for c, p in programs if shareable(p.ir) and "cachedin" not in c.source), 2))
    assert len(kept) == 2
    assert not [line for case, program in kept for line in unequal(program, case.horizon or 60.0)]


# --------------------------------------------------------------------------- a plain radix cache

Content = tuple[tuple[float, float], ...]
"""Keys and lengths of the segments, the last as long as it has become."""


def beginning(content: Content, position: float) -> Content:
    """What names the first units of a content: equal for two contents that share them."""
    found: list[tuple[float, float]] = []
    for key, length in content:
        if position <= 0:
            break
        found.append((key, min(length, position)))
        position -= length
    return tuple(found)


@dataclass
class Block:
    readers: int = 0
    owners: set[float] = field(default_factory=set)


@dataclass
class Radix:
    """Blocks in the order of their releases; a block stands before all that lead to it."""

    capacity: float
    block: float
    blocks: OrderedDict[Content, Block] = field(default_factory=OrderedDict)
    private: float = 0.0
    held: dict[float, list[Content]] = field(default_factory=dict)
    sizes: dict[float, float] = field(default_factory=dict)
    evicted: int = 0

    def names(self, content: Content, length: float) -> Iterator[Content]:
        """The whole blocks of the first units of a content."""
        for k in range(int(length // self.block)):
            yield beginning(content, (k + 1) * self.block)

    def whole(self, units: float) -> float:
        return -(-units // self.block) * self.block

    def admit(self, session: float, content: Content, units: float) -> float:
        """Returns how much is cached."""
        found: list[Content] = []
        for name in self.names(content, sum(length for _, length in content)):
            if name not in self.blocks:
                break
            found.append(name)
        for name in found:
            self.blocks[name].readers += 1
        self.held[session], self.sizes[session] = found, self.whole(units)
        self.private += self.whole(units) - len(found) * self.block
        self.fit()
        return len(found) * self.block

    def grow(self, session: float, more: float) -> None:
        size = self.whole(self.sizes[session] + more)
        self.private += size - self.sizes[session]
        self.sizes[session] = size
        self.fit()

    def fit(self) -> None:
        while self.private + len(self.blocks) * self.block > self.capacity:
            name = next(name for name, block in self.blocks.items() if not block.readers)
            del self.blocks[name]
            self.evicted += 1

    def end(self, session: float, content: Content, kept: float) -> None:
        found = self.held.pop(session)
        self.private -= self.sizes.pop(session) - len(found) * self.block
        for name in found:
            self.blocks[name].readers -= 1
        path = list(self.names(content, kept))
        for name in found[len(path) :]:
            if self.blocks[name].owners <= {session} and not self.blocks[name].readers:
                del self.blocks[name]
        for name in reversed([*path, *found[len(path) :]]):
            if name in path:
                self.blocks.setdefault(name, Block()).owners.add(session)
            if name in self.blocks and not self.blocks[name].readers:
                self.blocks.move_to_end(name)

    def drop(self, session: float, content: Content, length: float) -> None:
        for name in reversed(list(self.names(content, length))):
            block = self.blocks.get(name)
            if block is None:
                continue
            if block.readers or block.owners != {session}:
                return
            del self.blocks[name]


ADMITTED, GREW, ENDED, DROPPED = 1.0, 2.0, 3.0, 4.0
WORDS = {ADMITTED: 6, GREW: 2, ENDED: 2, DROPPED: 1}


@dataclass(frozen=True)
class Parameters:
    """Of one engine with a system prompt for each client."""

    system: float
    clients: int
    block: float
    capacity: float
    rate: float
    shorter: float
    """How often less is kept than was computed."""
    order: str

    def source(self) -> str:
        def log(*values: object) -> str:
            return " ".join(f"observe log = {value};" for value in values)

        return f"""
fn main() {{
  let S = {self.system};
  pool kv {{ cap {self.capacity}; block {self.block}; reserve held; {self.order} }}
  stage gpu : step {{ budget 64; chunk 32; cost 0.02 + 0.001 * tokens; }}
  workload {{
    arrive poisson({self.rate});
    init {{ set client = floor(~uniform(0, {self.clients})); set K = 0; }}
    turn {{ set n = ceil(~uniform(0, 40)); set m = ceil(~exp(12)); set less = ~bernoulli({self.shorter}); }}
    session {{
      loop {{
        turn;
        set K = K + n + m;
        branch with (0.3) {{
          branch with (0.5) {{ tool ~exp(0.5); {log(DROPPED, "serial")} drop kv; }}
          end;
        }}
        tool ~exp(2);
      }}
    }}
  }}
  server {{
    set kept = less ? S - 5 + floor(K / 2) : S + K + n + m;
    hold kv (cost(kv, S + K + n)) reserve (cost(kv, S + K + n + m)) prefix (client: S, serial: K + n) {{
      {log(ADMITTED, "serial", "client", "S", "K + n", "S + K + n", "cached")}
      run gpu prefill (cost(gpu, S + K + n - cached));
      {log(GREW, "serial", "m")}
      grow kv (cost(kv, m));
      run gpu decode (cost(gpu, m));
      {log(ENDED, "serial", "kept")}
    }} cache (cost(kv, kept))
  }}
}}
"""


def entries(log: Sequence[float]) -> Iterator[tuple[float, Sequence[float]]]:
    at = 0
    while at < len(log):
        kind = log[at]
        yield kind, log[at + 1 : at + 1 + WORDS[kind]]
        at += 1 + WORDS[kind]


def parameters(number: int) -> Parameters:
    draw = Random(f"radix {number}")
    system, block = draw.choice([40.0, 96.0, 130.0]), draw.choice([1.0, 8.0, 16.0])
    order = draw.choice(["evict lru;", "queue by (0 - cachedin(kv), serial);", "queue by (waited > 1 ? 0 : 1, n);"])
    most = draw.choice([700.0, 1200.0, 2500.0])
    return Parameters(
        system, draw.choice([1, 2, 5]), block, most, draw.choice([0.4, 0.8]), draw.choice([0.0, 0.3]), order
    )


@pytest.mark.parametrize("number", range(6))
def test_shared_system_prompts(number: int) -> None:
    """Hit tokens, admission by admission, and what was evicted in all."""
    given = parameters(number)
    report = compiled(given.source()).run(seed=number, horizon=120.0)
    radix = Radix(given.capacity, given.block)
    contents: dict[float, tuple[Content, float]] = {}
    hits, shares = 0.0, 0
    for kind, (session, *rest) in entries(report.observe("log").samples.value.tolist()):
        if kind == ADMITTED:
            client, system, own, units, cached = rest
            content: Content = ((client, system), (session, own))
            assert radix.admit(session, content, units) == cached
            contents[session] = (((client, system), (session, float("inf"))), 0.0)
            hits, shares = hits + cached, shares + (own < 41 and cached > 0)
        elif kind == GREW:
            radix.grow(session, rest[0])
        elif kind == ENDED:
            content, _ = contents[session]
            contents[session] = (content, rest[0])
            radix.end(session, content, rest[0])
        else:
            radix.drop(session, *contents[session])
    assert report.pool("kv").evicted_units == radix.evicted * given.block
    assert hits > 0
    assert shares > 0  # a first turn read what other sessions had left


@pytest.mark.parametrize("number", range(2))
def test_what_must_hold(number: int) -> None:
    """The checks of the debug mode, at every settled instant: amounts, and the tree's order of releases."""
    kernel = compiled(parameters(number).source()).kernel(debug=True)
    assert not kernel.lanes(SEEDS, horizon=60.0).failures

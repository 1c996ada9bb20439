"""The programs of the generator by themselves: what occurs in them, and their other spellings."""

from __future__ import annotations

import functools
from dataclasses import replace
from random import Random

import pytest

from constructs import constructs
from generating import PROFILES, Case, generate
from spellings import unequal_spellings

#: Programs that are looked at: of a profile by itself, and of any other.
COUNTS, COUNT = {"engines": 50, "stations": 50}, 10

#: What must occur, by the names that `constructs` gives.
OCCURS = """
array of devices, array of engines, array of pools, array of queues, array of stages
arrive batch, arrive closed, arrive poisson, arrive renewal, trace, trace ordered, hidden
block init, block turn, block session, turn, end, loop, while, tool, tool on
set, Size, Cost, costrecord, observe, branch, branch with, branch: else, choose, index: computed, index: constant
args.number, use std/args, use std/kvt, let, expression def, statement def, use of an expression def, callstmt
hold, hold of several pools, hold in a hold, hold: reserve, hold: reuse, hold: at admission, hold: cache, hold: lease
grow, drop, release, load, transfer, transfer on a stage, fork, join, run, run over several stages
option block, option cap, option evict by, option evict lru, option preempt by, option preempt by tail
option preempt lifo, option preempt none, option queue by, option reserve held, option spill
fifo, fifo(e), ps(e), delay, share maxmin, share bottleneck
age in evict by, last in evict by, size in evict by, waiting in evict by, waited in queue by, size in spill
position in preempt by, admission in preempt by, draw in spill, now in evict by, now in queue by
queue, busy, work, used, free, holders, queued, cachedin, est_lambda, est_rho, est_wait, price, budget_left
aggregate max, aggregate min, aggregate sum, gauge
claim end, claim every, claim some, claim given, count, largest, prefix_total, smallest, total
~bernoulli, ~det, ~erlang, ~exp, ~h2, ~uniform
operator !, operator &&, operator ||, operator ?:, operator ^, operator ==, operator <=, operator >=, operator <
abs, ceil, exp, floor, ln, max, min, sqrt
device, timeresource, capacity, engine, pool on OWNER, pool on ENGINE.DEVICE, run prefill, run decode, run: growing
option granule, option state, option schedule, option execute, advance, advance by, advance only, each at most
admit, admit while, admit only, stepexclusive, stepbranch, stepset
running.count, running.decoding, running.preempted, waiting.count, waiting.admitted
batch.tokens, batch.prefilled, batch.decoding, batch.kv_decode, batch.attention
role gateway, role prefill, role decode, role link, station: serve, station: serve latency, station: nic, relation
entry prefill, entry decode, entry decode from, entry route, entry transfer, mark, runown
entry call, entry call from, entry call from to, transfer on several stages
"""


@functools.cache
def programs(profile: str) -> tuple[Case, ...]:
    return tuple(generate(Random(f"{profile} {number}"), profile) for number in range(COUNTS.get(profile, COUNT)))


def test_every_construct_occurs() -> None:
    wanted = {name for line in OCCURS.strip().split("\n") for name in line.split(", ")}
    found = {name for profile in PROFILES for case in programs(profile) for name in constructs(case.source)}
    assert not wanted - found


@pytest.mark.parametrize("profile", list(PROFILES))
def test_spellings(profile: str) -> None:
    assert [unequal_spellings(case) for case in programs(profile)[:3]] == [[], [], []]


def test_a_spelling_with_another_meaning_is_named() -> None:
    """The pieces are those of another program than the text."""
    first, second = programs("costs")[:2]
    assert unequal_spellings(replace(first, tree=second.tree)) == [
        "the spelling with its definitions in a library means something else",
        "the spelling with its workload in a file means something else",
    ]


@pytest.mark.parametrize("profile", list(PROFILES))
def test_a_number_is_a_program(profile: str) -> None:
    """Two generations from the same state of randomness are equal, so that a search can name its programs by number."""
    assert generate(Random(f"{profile} 0"), profile) == programs(profile)[0]

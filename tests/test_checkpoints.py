"""Pools with one history: the victim's rule, the worked scenario request by request, and what the pin is for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sqc
from harness import ROOT
from sqc_runtime.chain import Chain
from sqc_runtime.content import Content
from sqc_runtime.core import Core, Signals
from sqc_runtime.lockstep import LockstepMemory
from sqc_runtime.memory import DTYPES, Layout

ROOM = 16


class Lanes:
    """The cache of one pool, in as many lanes as are asked for."""

    def __init__(self, lanes: int, pinned: bool, slots: Any):
        layout = Layout()
        core = Core(layout, 4, guard_instants=False)
        core.signals = Signals({}, {f"pool.p.{kind}": 1 for kind in ("used", "cached", "holders")}, layout)
        self.chain = Chain(core, "pool.p", 1, ROOM, 2, pinned)
        layout.freeze(4)
        self.layout = layout
        banks = {bank: jnp.zeros((lanes, max(size, 1)), DTYPES[bank]) for bank, size in layout.size.items()}
        self.memory = LockstepMemory(banks, lanes, jnp.full(lanes, -0.0))
        self.chain.set_slots(self.memory, jnp.broadcast_to(jnp.asarray(slots, jnp.float64), (lanes,)))

    def region(self, name: str) -> Any:
        bank, base, length = self.layout.regions[f"pool.p.{name}"]
        return np.asarray(self.memory.banks[bank][:, base : base + length])

    def set_stamps(self, stamps: Any, counts: Any) -> None:
        """Checkpoints with these stamps ([lanes, room]), so many of each lane."""
        for name, values in (("stamps", stamps), ("count", counts[:, None])):
            bank, base, length = self.layout.regions[f"pool.p.{name}"]
            values = jnp.asarray(values, DTYPES[bank])[:, :length]
            self.memory.banks[bank] = self.memory.banks[bank].at[:, base : base + values.shape[1]].set(values)

    def victims(self) -> list[int]:
        return [int(victim) for victim in np.asarray(self.chain.victim(self.memory, 0))]


def rule(stamps: Sequence[float], budget: float) -> int:
    """The rule, as it is stated."""
    if budget < 2 or len(stamps) < 2:
        return 0
    return min(range(1, len(stamps)), key=lambda k: (stamps[k], k))


TABLE: list[tuple[list[float], int, int]] = [
    ([1, 2, 3, 4, 5, 6, 7], 6, 1),
    ([1, 100, 101, 102, 103, 104, 105], 6, 1),
    ([1, 8, 3, 4, 5, 6, 7], 6, 2),
    ([1, 90, 91, 92], 2, 1),
    ([1, 90, 91, 92], 1, 0),
    ([7, 3, 3, 5], 4, 1),
]


def padded(rows: Sequence[Sequence[float]]) -> Any:
    return np.array([[*row, *[0.0] * (ROOM - len(row))] for row in rows])


def test_the_victims_of_the_table() -> None:
    with jax.enable_x64(True):
        lanes = Lanes(len(TABLE), True, [float(budget) for _, budget, _ in TABLE])
        lanes.set_stamps(padded([stamps for stamps, _, _ in TABLE]), np.array([len(s) for s, _, _ in TABLE]))
        assert lanes.victims() == [victim for _, _, victim in TABLE]


def test_two_slots_keep_the_root_and_the_newest() -> None:
    """The rule is applied until the size fits: of 1 90 91 92 with two slots 1 and 92 stay."""
    stamps = [1.0, 90.0, 91.0, 92.0]
    while len(stamps) > 2:
        with jax.enable_x64(True):
            lanes = Lanes(1, True, 2.0)
            lanes.set_stamps(padded([stamps]), np.array([len(stamps)]))
            (victim,) = lanes.victims()
        del stamps[victim]
    assert stamps == [1.0, 92.0]


def test_victims_of_random_stamps() -> None:
    draw = np.random.default_rng(1)
    count, budget = draw.integers(1, ROOM, 500), draw.integers(0, 9, 500)
    stamps = draw.integers(1, 12, (500, ROOM)).astype(float)  # with ties
    with jax.enable_x64(True):
        lanes = Lanes(500, True, budget.astype(float))
        lanes.set_stamps(stamps, count)
        assert lanes.victims() == [rule(stamps[k, : count[k]].tolist(), budget[k]) for k in range(500)]
        oldest = Lanes(500, False, budget.astype(float))
        oldest.set_stamps(stamps, count)
        assert set(oldest.victims()) == {0}


# --------------------------------------------------------------------------- the worked scenario

SCENARIO: list[tuple[str, int, int, int, dict[int, int], int, int]] = [
    # request, tokens; with a pinned root and three slots: where it resumes, what it reads, the chain after it; first in
    # first out: where it resumes, what it reads
    ("A1", 111, 0, 111, {100: 1, 110: 2}, 0, 111),
    ("A2", 131, 110, 21, {100: 1, 110: 3, 130: 4}, 110, 21),
    ("A3", 151, 130, 21, {100: 1, 130: 5, 150: 6}, 130, 21),
    ("A4", 171, 150, 21, {100: 1, 150: 7, 170: 8}, 150, 21),
    ("A5", 191, 170, 21, {100: 1, 170: 9, 190: 10}, 170, 21),
    ("B1", 111, 100, 11, {100: 11, 110: 12}, 0, 111),
    ("B2", 131, 110, 21, {100: 11, 110: 13, 130: 14}, 110, 21),
    ("B3", 151, 130, 21, {100: 11, 130: 15, 150: 16}, 130, 21),
    ("C1", 111, 100, 11, {100: 17, 110: 18}, 0, 111),
    ("C2", 131, 110, 21, {100: 17, 110: 19, 130: 20}, 110, 21),
]
TOTALS = {1: (480, 480), 2: (280, 480), 3: (280, 480), 4: (280, 380), 5: (280, 380), 6: (280, 280)}


def request(lanes: Lanes) -> Callable[[dict[str, Any], float, float], tuple[dict[str, Any], Any]]:
    """A request of a chat as the program's holds make it: what is in memory after it, and where it resumed."""

    def serve(banks: dict[str, Any], chat: float, tokens: float) -> tuple[dict[str, Any], Any]:
        m, chain = LockstepMemory(dict(banks), 1, lanes.memory._nz), lanes.chain

        def value(number: Any) -> Any:
            return jnp.full(1, number, np.float64)

        keys, prompt = [value(0.0), value(chat)], [value(100.0), value(tokens - 100.0)]
        node, resumed, _ = chain.lock(m, 0, Content(keys, prompt), value(tokens), value(tokens - 1), None, 0)

        def root() -> None:
            chain.checkpoint(m, value(100.0), resumed, 0)

        m.when(resumed == 0, root)
        chain.checkpoint(m, value(tokens - 1), resumed, 0)
        chain.unlock(m, 0, Content(keys, [value(100.0), value(np.inf)]), node, resumed, value(0.0), None, 0)
        return m.banks, resumed[0]

    return jax.jit(serve)


def test_the_chain_request_by_request() -> None:
    with jax.enable_x64(True):
        both = [Lanes(1, pinned, 3.0) for pinned in (True, False)]
        serve = [request(lanes) for lanes in both]
        for name, tokens, resumed, read, chain, other, other_read in SCENARIO:
            found = []
            for lanes, one in zip(both, serve, strict=True):
                lanes.memory.banks, at = one(lanes.memory.banks, "ABC".index(name[0]), tokens)
                found.append(float(at))
            assert found == [resumed, other]
            assert [tokens - at for at in found] == [read, other_read]
            kept = int(both[0].region("count")[0, 0])
            lengths, stamps = (both[0].region(what)[0, :kept].tolist() for what in ("lengths", "stamps"))
            assert dict(zip(lengths, stamps, strict=True)) == chain


@pytest.fixture(scope="module")
def checkpoints() -> sqc.Program:
    return sqc.compile(ROOT / "programs" / "checkpoints.sq")


def test_the_program_reads_what_the_table_says(checkpoints: sqc.Program) -> None:
    for pinned in (1.0, 0.0):
        report = checkpoints.run(seed=1, horizon=1e4, sets={"slots": 3.0, "pinned": pinned})
        rows = [
            (resumed, read) if pinned else (other, other_read) for _, _, resumed, read, _, other, other_read in SCENARIO
        ]
        assert report.observe("resumed").samples.value.tolist() == [resumed for resumed, _ in rows]
        assert report.observe("read").samples.value.tolist() == [read for _, read in rows]


def test_totals(checkpoints: sqc.Program) -> None:
    out = checkpoints.kernel()(
        np.ones(12, np.uint64), horizon=1e4, slots=np.repeat(np.arange(1.0, 7.0), 2), pinned=np.tile([1.0, 0.0], 6)
    )
    read = np.asarray(out["observe.read.mean"] * out["observe.read.count"]).round(9).reshape(6, 2)
    assert {slots + 1: tuple(row) for slots, row in enumerate(read.tolist())} == TOTALS
    evicted = np.asarray(out["pool.chain.evicted_entries"]).reshape(6, 2)[:, 0].tolist()
    assert evicted == [10, 7, 4, 2, 1, 0]


# --------------------------------------------------------------------------- what the pin is for


@pytest.fixture(scope="module")
def chats() -> dict[str, Any]:
    """64 lanes: 8 seeds at 1, 2, 3 and 8 slots, chats of 5 turns, first in first out and pinned."""
    program = sqc.compile(ROOT / "programs" / "chats.sq")
    slots, pinned = np.repeat([1.0, 2.0, 3.0, 8.0], 16), np.tile(np.repeat([0.0, 1.0], 8), 4)
    seeds = np.tile(np.arange(1, 9, dtype=np.uint64), 8)
    out = program.kernel()(seeds, horizon=1e7, slots=slots, pinned=pinned, total=200.0, turns=5.0)
    return {name: np.asarray(column).reshape(4, 2, 8) for name, column in out.items()}


def test_the_root_is_never_lost(chats: dict[str, Any]) -> None:
    """The program's claim holds on every lane with a pin and two slots or more, and is out of scope on the others."""
    in_scope = chats["claim.root_stays.out_of_scope"] == 0
    assert in_scope[1:, 1].all()
    assert not in_scope[0].any()
    assert not in_scope[:, 0].any()
    assert (chats["claim.root_stays.value"][1:, 1] == 1).all()
    assert (chats["observe.lost.mean"][1:, 1] == 0).all()
    assert (chats["observe.lost.mean"][1:, 0] > 0).all()


def test_where_the_pin_pays(chats: dict[str, Any]) -> None:
    """Paired by seed: not with one slot; with two it saves seconds a request, with eight less, on every seed."""
    first_token = chats["observe.ttft.mean"]
    saved = first_token[:, 0] - first_token[:, 1]
    assert (saved[0] == 0).all()
    assert (saved[1] > saved[2]).all()
    assert (saved[2] > saved[3]).all()
    assert (saved[3] > 0).all()
    assert first_token[1:, 1] == pytest.approx(np.broadcast_to(first_token[1, 1], (3, 8)))  # more slots change nothing

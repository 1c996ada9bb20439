"""What an engine does in one iteration: usual procedures, and ones composed at random."""

from __future__ import annotations

from collections.abc import Sequence

from generating.pieces import Block, Option, Piece, piece
from generating.world import Engine, World

#: A resident or waiting request, read at its turn.
PICKED = (
    "decoding",
    "!decoding",
    "running.decoding > 0 ? decoding : !decoding",
    "remaining > 2",
    "pri == 0 || decoding",
)
KEYS = ("remaining", "-remaining", "admission", "-admission", "decoding", "!decoding", "pri", "n", "-serial", "0")
CALM = "running.preempted == 0"


def schedule(world: World, engine: Engine, registers: Sequence[str], *, granule: bool = False) -> Block:
    """The statements of a schedule, with one cap on chunks for all of them: none where chunks have a granule."""
    pick = world.pick
    each: Option | str = ""
    if pick.chance(30) and not granule:
        each = Option(f" each at most ({pick.one(('2', '3', 'inf', 'running.count > 2 ? 2 : inf'))})")
    kind = pick.whole(0, 9)
    body: list[Piece]
    if kind < 4:
        body = [_advance(world, each), piece(f"admit waiting while ({CALM})", each, ";")]
    elif kind < 6 and not granule and not registers:
        body = [piece("exclusive prefill", each, ";"), piece(f"admit waiting while ({CALM})", each, ";")]
    elif kind < 7:
        only = pick.one(PICKED[:3])
        body = [
            piece(f"advance running only ({only})", _order(world), each, ";"),
            piece(f"admit waiting only ({only}) while ({CALM})", each, ";"),
        ]
    else:
        body = [_composed(world, engine, each, registers, 2) for _ in range(pick.whole(1, 3))]
        body.append(_admit(world, engine, each, registers))  # every path comes to an admission
    body += [piece(f"set {name} = {_update(world, name)};") for name in registers]
    return tuple(body)


def _composed(world: World, engine: Engine, each: Option | str, registers: Sequence[str], depth: int) -> Piece:
    kinds = [_advance(world, each), _advance(world, each), _admit(world, engine, each, registers)]
    if depth:
        inner = tuple(_composed(world, engine, each, registers, depth - 1) for _ in range(world.pick.whole(1, 2)))
        other = (" else ", (_composed(world, engine, each, registers, depth - 1),)) if world.pick.chance(50) else ()
        kinds.append(piece("branch (", Option(_guard(world, engine, registers), ("1", "0")), ") ", inner, *other))
    return world.pick.one(kinds)


def _advance(world: World, each: Option | str) -> Piece:
    only = f" only ({world.pick.one(PICKED)})" if world.pick.chance(20) else ""
    return piece("advance running", Option(only), _order(world), each, ";")


def _order(world: World) -> Option:
    texts = ["", "", " decode first", " admission", f" by ({', '.join(world.pick.some(KEYS, 2))})"]
    return Option(world.pick.one(texts))


def _admit(world: World, engine: Engine, each: Option | str, registers: Sequence[str]) -> Piece:
    only = f" only ({world.pick.one(PICKED[:3])})" if world.pick.chance(15) else ""
    test = f" while ({_guard(world, engine, registers)})" if world.pick.chance(70) else ""
    return piece("admit waiting", Option(only), Option(test), each, ";")


def _guard(world: World, engine: Engine, registers: Sequence[str]) -> str:
    options = [CALM, CALM, "running.count < 3", "running.decoding > 0", "waiting.admitted < 2"]
    options += ["batch.tokens < 5", "batch.prefilled == 0"]
    options += [] if engine.size else ["waiting.count > 1"] * 2  # a member may not read the queues of the others
    options += [f"{name} < 2" for name in registers] + [f"{name} == 0 || running.count == 0" for name in registers]
    return world.pick.one(options)


def _update(world: World, name: str) -> str:
    options = [
        "waiting.admitted > 0",
        f"min({name} + 1, 4)",
        f"{name} * 0.5 + batch.tokens / 4",
        f"{name} > 2 ? 0 : {name} + 1",
    ]
    return world.pick.one([*options, "running.preempted", "running.count > 2"])

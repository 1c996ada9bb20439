"""Whole programs: workload, machine, server, gauges and claims put together, with the runs to compare."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from hypothesis import strategies as st

from generating import amounts, machine, statements
from generating.pieces import Block, Option, Part, Piece, piece, render
from generating.profiles import PROFILES, Pick
from generating.world import Place, World

ARRIVALS = ("poisson", "renewal", "closed", "batch")


@dataclass(frozen=True)
class Case:
    """A program and the runs to compare: every seed at every setting of the inputs.

    `tree` is what the text was printed from, where there is one.
    """

    source: str
    horizon: float
    warmup: float
    arrivals: int | None
    seeds: tuple[int, ...]
    sets: tuple[dict[str, float], ...] = field(default=({},))
    tree: Block = ()


def cases(profile: str = "any") -> st.SearchStrategy[Case]:
    """Programs of a profile as a hypothesis strategy."""
    return st.randoms(use_true_random=False).map(lambda random: generate(random, profile))


def generate(random: Random, profile: str = "any") -> Case:
    """One program of a profile; the same state of `random` gives the same program."""
    pick = Pick(random)
    world = World(pick, PROFILES[profile].features(random), whole=pick.chance(50), members=pick.one((1, 2, 2, 2, 3)))
    arrival = pick.one(ARRIVALS)
    world.weighs = not world.whole and arrival in ("poisson", "renewal")
    machine.draw_pools(world)
    machine.draw_stages(world)
    world.chosen = "choose" in world.on and any(one.size for one in (*world.pools, *world.stages))
    server = _server(world, arrival)
    session = _session(world)
    tree = _program(world, arrival, session, server)
    drains = not world.on & {"grow", "lease", "nested", "conversation", "live_demand", "transfer"}
    limited = arrival in ("poisson", "renewal") and pick.chance(40 if drains else 3)
    first = pick.whole(1, 10**6)
    return Case(
        source=render(tree),
        horizon=10_000.0 if limited else float(pick.one((20, 30, 45, 60))),
        warmup=float(pick.one((0, 0, 4, 10))),
        arrivals=pick.whole(10, 25) if limited else None,
        seeds=(first, first + 1, first + 2),
        sets=({}, {"C": float(pick.one((5, 7, 12, 30)))}),
        tree=tree,
    )


def _program(world: World, arrival: str, session: Block, server: Block) -> Block:
    gap = world.pick.one((0.5, 0.75, 1.0, 1.5)) * (2 if session else 1)
    caps = {
        pool.name: ["C", str(pool.cap), str(pool.cap), str(pool.cap), f"2 * c + {pool.cap - 4}"] for pool in world.pools
    }
    declared = [
        *(machine.pool_piece(world, pool, caps[pool.name]) for pool in world.pools),
        *(machine.stage_piece(stage) for stage in world.stages),
    ]
    if session and "conversation" in world.on:
        declared.insert(world.pick.whole(0, len(declared)), piece(f"pool conv {{ cap {world.pick.whole(2, 4)}; }}"))
    if session and "tool_stage" in world.on:
        declared.append(piece(f"stage tool : {world.pick.one(('delay', 'fifo(2)', 'ps(2)'))};"))
    if "flow" in world.on:
        declared.append(piece(f"share {world.pick.one(('maxmin', 'bottleneck'))};"))
    workload: list[Piece] = [piece("arrive ", Option(machine.arrival(world, arrival, gap), ("batch(6)",)), ";")]
    if "hidden" in world.on:
        workload.append(piece("hidden h;"))
    workload += [piece("init ", _init()), piece("turn ", _marks(world))]
    if session:
        workload.append(piece("session ", session))
    body = [
        piece('let C = args.number("C", 10);'),
        *declared,
        piece("workload ", tuple(workload)),
        piece("server ", server),
        *_gauges(world),
        *_claims(world),
    ]
    scaled = "x + floor(x / 2)" if world.whole else "x + 0.5 * floor(x / 2)"
    definitions = [
        piece(f"def scaled(x) {{ {scaled} }}"),
        piece("def twice(s, x) { run s (cost(s, x)); observe amid = queue(s); run s (cost(s, 1)); }"),
    ]
    return (
        piece('use "std/args";'),
        piece("let c = 2;"),
        *(definitions if "definition" in world.on else ()),
        piece("fn main() ", tuple(body)),
    )


def _init() -> Block:
    return (piece("set K = 0;"), piece("set pri = floor(~uniform(0, 3));"))


def _marks(world: World) -> Block:
    """The marks of a turn."""
    work = amounts.law(world, world.pick.one((0.6, 1.0, 1.5)))
    units = world.pick.one(("ceil(~uniform(0, 5))", "floor(~exp(2)) + 1", "1 + floor(~uniform(0, 4))"))
    return (
        piece("set n = ", Option(units, ("1", "2")), ";"),
        piece("set m = ", Option("floor(~uniform(0, 4))", ("1",)), ";"),
        piece("Size w = " if world.pick.chance(10) else "set w = ", Option(work, ("1",)), ";"),
        piece("set cont = ~bernoulli(0.6);"),
        *([piece(f"set h = {amounts.law(world, 1.0)};")] if "hidden" in world.on else []),
        *([piece("observe mark = n + w;")] if world.pick.chance(20) else []),
    )


def _server(world: World, arrival: str) -> Block:
    """The server; a closed workload has a run first, so that a session never ends the instant it came."""
    first: list[Piece] = [piece("set t0 = now;")]
    if arrival == "closed":
        stage = world.stages[0]
        first.append(piece(f"run {world.ref(stage)} (cost({stage.name}, 1));"))
    if world.chosen:
        first += statements.choose(world, Place())
    if "hold" in world.on:
        first += statements.hold(world, Place())
    if "fork" in world.on and world.pick.chance(60):
        first += statements.fork(world, Place())
    if "flow" in world.on:
        first += statements.flow(world, Place())
    last = piece(f"observe {world.observe()} = now - t0;")
    return (*first, *statements.block(world, Place(), 4, 2 if "hold" not in world.on else 1), last)


def _session(world: World) -> Block:
    """The session block; none stands for the default, one turn."""
    shapes = ("turn", "grow", "while", "count", "pair") if "turns" in world.on else ("none", "none", "turn")
    shape = world.pick.one(shapes)
    think = Option(amounts.law(world, 2.0), ("1",))
    drops = [piece(f"drop {world.ref(pool)};") for pool in world.pools if world.has("drop", 60)]
    grown = piece("set K = K + n;")
    body: list[Piece]
    if shape == "none":
        return ()
    if shape == "turn":
        body = [piece("turn;")]
    elif shape == "grow":
        ending: list[Part] = [" else ", (*drops, piece("end;"))]
        guard = Option("branch with (0.7)", ("branch (turn_no < 3)",))
        body = [piece("loop ", (piece("turn;"), grown, piece(guard, " ", (piece("tool (", think, ");"),), *ending)))]
    elif shape == "while":
        body = [piece("turn;"), piece("while (cont) ", (grown, piece("tool (", think, ");"), piece("turn;"))), *drops]
    elif shape == "count":
        tool = piece("branch (pri > 0) ", (piece("tool (", think, ");"),), " else ", (piece("tool (2);"),))
        body = [
            piece("set left = 3;"),
            piece("loop ", (piece("turn;"), piece("set left = left - 1;"), piece("branch (left == 0) { end; }"), tool)),
        ]
    else:
        body = [piece("turn;"), piece("set z = ", think, ";"), piece("tool (z);"), piece("observe thought = z;")]
        body += [grown, piece("turn;"), *drops]
    if "conversation" in world.on:
        return _conversation(world, tuple(body))
    return tuple(body)


def _conversation(world: World, body: Block) -> Block:
    """A slot for the whole session, kept or lent for a while after it."""
    tail: list[Part] = [Option(" cache (cost(conv, 1))"), Option(f" lease conv ({world.pick.one(('1', '2', 'inf'))})")]
    after = [piece("tool (1);"), piece("release conv;"), piece("turn;")] if world.pick.chance(50) else []
    if not after:
        tail = tail[: world.pick.whole(0, 1)]
    return (piece("hold conv (cost(conv, 1)) ", body, *tail, ";"), *after)


def _gauges(world: World) -> list[Piece]:
    if "gauge" not in world.on:
        return []
    texts = [amounts.live(world, constant=True, gauge=True) for _ in range(2)]
    also = [f"{texts[0]} > 1", f"{texts[0]} + 0.5 * {texts[1]}"]
    return [piece(f"gauge {world.fresh('level')} = {text};") for text in (*texts, world.pick.one(also))]


def _claims(world: World) -> list[Piece]:
    if "claim" not in world.on:
        return []
    name = world.pick.one(world.observes)
    texts = [
        f"count({name}) > 20",
        f"total({name}) <= largest({name}) * count({name})",
        f"smallest({name}) >= 0 && prefix_total({name}) > 3",
    ]
    given = Option(" given (pri < 2)") if world.pick.chance(30) else ""
    return [piece(f"claim {world.fresh('holds')}", given, f" : at end ({text});") for text in texts]

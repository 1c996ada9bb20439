"""Whole programs: workload, machine, server, gauges and claims put together, with the runs to compare."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from hypothesis import strategies as st

from generating import amounts, engines, machine, statements, stations, workload
from generating.pieces import Block, Option, Piece, piece, render
from generating.profiles import PROFILES, Pick
from generating.world import Place, World

ARRIVALS = ("poisson", "renewal", "closed", "batch")


@dataclass(frozen=True)
class Case:
    """A program and the runs to compare: every seed at every setting of the inputs.

    `tree` is what the text was printed from, where there is one; `files` lie beside the program (a trace).
    """

    source: str
    horizon: float
    warmup: float
    arrivals: int | None
    seeds: tuple[int, ...]
    sets: tuple[dict[str, float], ...] = field(default=({},))
    tree: Block = ()
    files: tuple[tuple[str, str], ...] = ()


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
    if world.on & {"engine", "station"}:
        world.budget = 6  # their requests are long as they are
    if "engine" in world.on:
        engines.draw_engines(world)
        world.more["serve"] = engines.serve
    queues: list[Piece] = []
    if "station" in world.on:
        queues = stations.draw_stations(world)
        world.more |= {"call": stations.call, "call again": stations.call}
    world.chosen = "choose" in world.on and bool(world.arrays)
    trace = workload.trace_file(world) if "trace" in world.on else None
    server = _server(world, arrival)
    session = workload.session_block(world)
    load = workload.workload_piece(world, arrival, session, trace[0] if trace else None)
    own = workload.session_pieces(world) if session else []
    if queues and pick.chance(50) and " lease " not in render(server):  # a gateway leases its own pools alone
        queues.append(stations.gateway(server))
        server = (piece("gw.route();"),)
    tree = _program(world, load, own, queues, server)
    drains = not world.on & {"grow", "lease", "nested", "conversation", "live_demand", "transfer", "engine", "station"}
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
        files=(trace,) if trace else (),
    )


def _program(world: World, load: Piece, own: list[Piece], queues: list[Piece], server: Block) -> Block:
    """Everything in its order; `own` are the pools and stages of the session."""
    caps = {
        pool.name: ["C", str(pool.cap), str(pool.cap), str(pool.cap), f"2 * c + {pool.cap - 4}"] for pool in world.pools
    }
    declared = [
        *(machine.pool_piece(world, pool, caps[pool.name]) for pool in world.pools if pool.owner is None),
        *(machine.stage_piece(stage) for stage in world.stages),
    ]
    at = world.pick.whole(0, len(declared))
    declared[at:at] = own
    declared += [*engines.engine_pieces(world), *queues]
    if "flow" in world.on or any(word in render(tuple(queues)) for word in ("kvt.", ", M (")):
        declared.append(piece(f"share {world.pick.one(('maxmin', 'bottleneck'))};"))
    body = [
        piece('let C = args.number("C", 10);'),
        *declared,
        load,
        piece("server ", server),
        *_gauges(world),
        *_claims(world),
    ]
    top = [piece('use "std/args";'), *([piece('use "std/kvt";')] if world.stations else []), piece("let c = 2;")]
    if "definition" in world.on:
        (top if world.pick.chance(60) else body)[1:1] = _definitions(world)
    return (*top, piece("fn main() ", tuple(body)))


def _definitions(world: World) -> list[Piece]:
    """Definitions of expressions and of statements; each may use those above it."""
    scaled, drawn = "x + 0.5 * floor(x / 2)", "~exp(1) + ~uniform(0, 1)"
    if world.whole:
        scaled, drawn = "x + floor(x / 2)", "ceil(~exp(1)) + ~bernoulli(0.5)"
    inside = (piece("twice(s, x);"), piece("observe visited = used(p) + holders(p);"))
    held = piece("hold p (cost(p, 1)) ", inside, Option(" cache (cost(p, 1))"), ";")
    twice = (piece("run s (cost(s, x));"), piece("observe amid = queue(s);"), piece("run s (cost(s, 1));"))
    return [
        piece(f"def scaled(x) {{ {scaled} }}"),
        piece("def later(x) { scaled(x) * scaled(1) + 1 }"),
        piece(f"def drawn() {{ {drawn} }}"),
        piece("def twice(s, x) ", twice),
        piece("def visit(p, s, x) ", (held,)),
    ]


def _server(world: World, arrival: str) -> Block:
    """The server; a closed workload has a run first, so that a session never ends the instant it came."""
    first: list[Piece] = [piece("set t0 = now;")]
    if arrival == "closed":
        stage = world.stages[0]
        first.append(piece(f"run {world.ref(stage)} (cost({stage.name}, 1));"))
    if world.chosen:
        first += statements.choose(world, Place())
    if world.engines:
        first += engines.serve(world, Place())
    if world.stations:
        first += stations.call(world, Place())
    if "hold" in world.on:
        first += statements.hold(world, Place())
    if "fork" in world.on and world.pick.chance(60):
        first += statements.fork(world, Place())
    if "flow" in world.on:
        first += statements.flow(world, Place())
    last = piece(f"observe {world.observe()} = now - t0;")
    least = 1 if world.on & {"hold", "engine", "station"} else 2
    return (*first, *statements.block(world, Place(), 4, least), last)


def _gauges(world: World) -> list[Piece]:
    if "gauge" not in world.on:
        return []
    texts = [amounts.live(world, constant=True, gauge=True) for _ in range(2)]
    also = [f"{texts[0]} > 1", f"{texts[0]} + 0.5 * {texts[1]}"]
    return [piece(f"gauge {world.fresh('level')} = {text};") for text in (*texts, world.pick.one(also))]


def _claims(world: World) -> list[Piece]:
    if "claim" not in world.on:
        return []
    iterations = engines.claims(world) if world.engines else []
    name = world.pick.one(world.observes)
    texts = [
        f"count({name}) > 20",
        f"total({name}) <= largest({name}) * count({name})",
        f"smallest({name}) >= 0 && prefix_total({name}) > 3",
    ]
    given = Option(" given (pri < 2)") if world.pick.chance(30) else ""
    return [*iterations, *(piece(f"claim {world.fresh('holds')}", given, f" : at end ({text});") for text in texts)]

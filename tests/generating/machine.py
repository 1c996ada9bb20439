"""Pools and stages of a generated program, and its arrivals."""

from __future__ import annotations

from generating import amounts
from generating.pieces import Option, Part, Piece, piece
from generating.world import Pool, Resource, Stage, World


def pool_names(world: World) -> list[str]:
    """The pools of the server: one to three with `hold`, none without."""
    if "hold" not in world.on:
        return []
    least = 2 if world.on & {"multi", "nested", "spill", "transfer"} else 1
    return ["mem", "aux", "kv"][: world.pick.whole(least, 3)]


def draw_pools(world: World) -> None:
    """Decide on the pools; their clauses come when every name is known."""
    for number, name in enumerate(pool_names(world)):
        size = world.members if world.has("arrays", 50) and "spill" not in world.on else None
        cap = world.pick.one((4, 5, 6, 6, 8, 10))
        cap += 6 * (world.pick.chance(50) and "grow" in world.on)  # growers that wait for one another end a run
        preempts = "preempt" in world.on and (number == 0 or world.pick.chance(40))
        world.pools.append(Pool(name, size, cap, preempts))


def draw_stages(world: World) -> None:
    for number, name in enumerate(["alpha", "beta", "gamma"][: world.pick.whole(1, 3)]):
        plain = number == 0 and "spill" in world.on  # a spill goes over a stage that is no array
        size = world.members if world.has("arrays", 50) and not plain else None
        world.stages.append(Stage(name, size, _kind(world)))
    if "flow" in world.on:
        for name in ("outl", "inl", "mid")[: world.pick.whole(2, 3)]:
            size = world.members if world.has("arrays", 60) else None
            world.stages.append(Stage(name, size, f"ps({world.pick.one(('1', '2', '0.5', '3', '1.5'))})", shared=True))


def _kind(world: World) -> str:
    kinds = [
        *("fifo", "fifo", "fifo", "fifo", "fifo(2)", "fifo(2)", "fifo(3)", "ps(1)", "ps(1)", "ps(2)", "ps(1.5)"),
        *("delay", "delay", "delay"),
        *(
            "ps(min(present, 2))",
            "ps(1 + present / 4)",
            "ps(present)",
            "ps(present * 1)",
            "ps(max(2 - present / 8, 0.5))",
        ),
    ]
    if world.has("state", 30):
        stages = [one for one in world.stages if not one.shared]
        kinds = [f"ps(1 + queue({world.ref(one, constant=True)}) / 4)" for one in stages] or kinds
    return world.pick.one(kinds)


def stage_piece(stage: Stage) -> Piece:
    kind: Part = stage.kind if stage.shared else Option(stage.kind, ("fifo", "delay", "ps(1)"))
    return piece(f"stage {stage.name}{_size(stage)} : ", kind, ";")


def _size(resource: Resource) -> str:
    return "" if resource.size is None else f"[{resource.size}]"


def pool_piece(world: World, pool: Pool, caps: list[str]) -> Piece:
    """A pool with its policies; `caps` are texts of its cap, all at least as large as `pool.cap`."""
    ref = world.ref(pool, constant=True)
    clauses = [] if pool.owner else [piece("cap ", Option(world.pick.one(caps), (str(pool.cap),)), ";")]
    if pool not in world.slots and world.has("block", 70):
        clauses.append(piece(f"block {world.pick.one(('1', '2', '2', '3', '0.5', '1.5'))};"))
    if world.has("evict_by", 80):
        clauses.append(piece(f"evict by ({amounts.keys(world, 'evict', ref)});"))
    elif world.pick.chance(30):
        clauses.append(piece("evict lru;"))
    if world.has("queue_by", 80):
        clauses.append(piece(f"queue by ({amounts.keys(world, 'queue', ref)});"))
    if world.has("reserve_held", 80):
        clauses.append(piece("reserve held;"))
    if pool.preempts:
        clauses.append(_preempt(world, ref))
    elif world.pick.chance(10):
        clauses.append(piece("preempt none;"))
    if "spill" in world.on and pool is world.pools[0]:
        clauses.append(_spill(world))
    where = f" on {pool.owner}" if pool.owner else _size(pool)
    return piece(f"pool {pool.name}{where} ", tuple(clauses))


def _preempt(world: World, ref: str) -> Piece:
    if world.pick.chance(40):
        return piece("preempt lifo;")
    requeue = Option(world.pick.one(("", " requeue head", " requeue tail", " requeue tail")))
    return piece("preempt by (", Option(amounts.keys(world, "preempt", ref), ("-admission", "0")), ")", requeue, ";")


def _spill(world: World) -> Piece:
    """Evicted units go from the first pool to the second, over any stage that is no array."""
    tier = world.pools[1].name
    stages = [one.name for one in world.stages if one.size is None and not one.shared]
    when = world.pick.one(("1", "1", "size > 1", "waiting", "age > 1", "pri == 0", "~bernoulli(0.5)"))
    amount = world.pick.one(("1", "size", "ceil(size / 2)") if world.whole else ("0.3 * size", "0.5", "~exp(0.5)"))
    return piece(
        f"spill {tier} via {world.pick.one(stages)} (", Option(amount, ("1",)), ") when (", Option(when, ("1",)), ");"
    )


def arrival(world: World, kind: str, gap: float) -> str:
    if kind == "poisson":
        return f"poisson({round(1 / gap, 3)})"
    if kind == "renewal":
        text = world.pick.one((f"~exp({gap})", f"~uniform(0.5, {2 * gap - 0.5})", f"~erlang(2, {gap})", f"{gap}"))
        return f"renewal(ceil({text}))" if world.whole else f"renewal({text})"
    return f"{kind}({world.pick.whole(3, 8) if kind == 'closed' else world.pick.whole(5, 18)})"

"""Statements of the server block of a generated program."""

from __future__ import annotations

from dataclasses import replace

from generating import amounts, costs
from generating.pieces import Block, Option, Part, Piece, piece
from generating.world import Held, Place, Pool, Statement, World

DEEPEST = 3


def block(world: World, place: Place, most: int, least: int = 1) -> Block:
    """Some statements; one kind may be several."""
    out: list[Piece] = []
    for _ in range(world.pick.whole(least, most)):
        world.budget -= 1
        kinds = _kinds(world, place)
        out += kinds[world.pick.one(list(kinds))](world, place) if world.budget > 0 else run(world, place)
    return tuple(out)


def _kinds(world: World, place: Place) -> dict[str, Statement]:
    """What may stand here, by name; a kind that should be frequent appears under several names."""
    kinds: dict[str, Statement] = {"run": run, "run again": run, "observe": observe}
    if place.held:
        kinds |= _of_holds(world)
    if world.on & {"lease"} and world.leases and world.pick.chance(50):
        kinds["release lease"] = _release_lease
    if "cache" in world.on and world.has("drop", 30) and world.pools:
        kinds["drop"] = _drop
    if "definition" in world.on and world.pools and not place.held:
        kinds["visit"] = visit
    if "flow" in world.on:
        kinds |= {"flow": flow, "flow again": flow}
    if place.depth < DEEPEST:
        kinds |= {name: _COMPOUND[name] for name in _COMPOUND if name in world.on}
        if world.pools and "hold" in world.on and len(place.held) < 3 and (not place.held or "nested" in world.on):
            kinds |= {f"hold {k}": hold for k in range(3 if place.depth == 0 else 1)}
            if "transfer" in world.on and not place.preempted and len(world.pools) > 1:
                kinds["transfer"] = transfer
        if "fork" in world.on and not place.leg and not place.preempted:
            kinds |= {"fork": fork}
    kinds |= world.more
    if "choose" in world.on and world.chosen and not any("[j]" in one.ref for one in place.held):
        kinds |= {"choose": choose, "least": least}
    return kinds


def _of_holds(world: World) -> dict[str, Statement]:
    kinds: dict[str, Statement] = {}
    if "grow" in world.on:
        kinds |= {"grow": grow, "grow again": grow}
    if world.has("release", 50):
        kinds["release"] = release
    if world.has("load", 60):
        kinds["load"] = load
    return kinds


def run(world: World, place: Place) -> list[Piece]:
    stage = world.pick.one(world.stages)
    if world.has("definition", 20):
        return [piece(f"twice({world.ref(stage)}, ", amounts.work(world, still=True), ");")]
    work = amounts.work(world)
    before, cost = costs.spent(world, stage.name, work)
    out = [*before, piece(f"run {world.ref(stage)} (", *cost, ");")]
    if work.text == "h" and not place.leg and world.pick.chance(40):  # what was run for is known
        out.append(piece("branch (h > 1) ", tuple(run(world, place))))
    return out


def visit(world: World, place: Place) -> list[Piece]:  # noqa: ARG001 - every kind of statement is called alike
    """A use of the definition that holds and runs."""
    pool, stage = world.pick.one(world.pools), world.pick.one(world.stages)
    return [piece(f"visit({world.ref(pool)}, {world.ref(stage)}, ", amounts.work(world, still=True), ");")]


def flow(world: World, place: Place) -> list[Piece]:  # noqa: ARG001
    """One job that holds two or three shared stages at once."""
    stages = [stage for stage in world.stages if stage.shared]
    some = world.pick.some(stages, len(stages))
    if len(some) == 1:
        some = stages[:2]
    refs, names = ", ".join(world.ref(one) for one in some), ", ".join(one.name for one in some)
    return [piece(f"run {refs} (cost({names}, ", amounts.work(world), "));")]


def observe(world: World, place: Place) -> list[Piece]:
    text = amounts.look(world) if world.pick.chance(60) else amounts.value(world, place)
    return [piece(f"observe {world.observe()} = ", Option(text, ("now",)), ";")]


def branch(world: World, place: Place) -> list[Piece]:
    inner = replace(place, depth=place.depth + 1)
    guard = world.pick.one(("branch with (0.4)", f"branch ({amounts.test(world)})", f"branch ({amounts.test(world)})"))
    parts: list[Part] = [Option(guard, ("branch (1)", "branch (0)")), " ", block(world, inner, 2)]
    if world.pick.chance(60):
        parts += [" else ", block(world, inner, 2)]
    return [piece(*parts)]


def loop(world: World, place: Place) -> list[Piece]:
    """At most three passes; every pass can let time pass, as the language asks."""
    name = world.fresh("pass")
    inner = replace(place, depth=place.depth + 1, looping=True)
    step = piece(f"set {name} = {name} + 1;")
    limit = Option(world.pick.one(("min(floor(n), 3)", "2", "m", "(pri > 0 ? 2 : 0)")), ("2", "1"))
    also = Option(f" && {amounts.test(world)}") if world.pick.chance(20) else ""
    body = (*run(world, inner), step, *(block(world, inner, 2) if world.pick.chance(60) else ()))
    return [piece(f"set {name} = 0;"), piece(f"while ({name} < ", limit, also, ") ", body)]


def choose(world: World, place: Place) -> list[Piece]:  # noqa: ARG001
    """The member of an array with the least keys."""
    options = ["0", "-j", "(j == 1 ? 0 : n > 2)"]
    at_pool = ("used", "queued", "-cachedin", "-free", "holders")
    at_stage = ("queue", "busy", "work" if world.weighs else "busy")
    for one in world.arrays:
        kinds = at_pool if isinstance(one, Pool) else at_stage
        options += [f"{world.pick.one(kinds)}({one.name}[j])"] * 4
    keys = ", ".join(world.pick.some(options, 2))
    return [piece(f"choose j in {world.members} by (", Option(keys, ("0",)), ");")]


def least(world: World, place: Place) -> list[Piece]:  # noqa: ARG001
    """The least of as many numbers as the request says."""
    name = world.fresh("least")
    return [
        piece(f"choose {name} in floor(n) by (abs({name} - m), -{name});"),
        piece(f"observe {world.observe()} = {name};"),
    ]


def fork(world: World, place: Place) -> list[Piece]:
    """One or two legs beside the request, and the join that it must come to."""
    leg = replace(place, depth=place.depth + 1, leg=True, held=(), cached=False)
    legs = [piece("fork ", block(world, leg, 2)) for _ in range(world.pick.whole(1, 2))]
    beside = block(world, replace(place, depth=place.depth + 1), 2) if world.pick.chance(60) else ()
    return [*legs, *beside, piece("join;"), *(observe(world, place) if world.pick.chance(50) else ())]


def grow(world: World, place: Place) -> list[Piece]:
    held = [one for one in place.held if not one.released]
    if not held:
        return run(world, place)
    one = world.pick.one(held)
    texts = ["1", "2", "2", "m", "n", "n", f"min(1, free({one.ref}))"]
    texts += ["~bernoulli(0.5)", "ceil(~exp(1))"]
    if not world.whole:
        texts.append("~uniform(0, 2)")
    amount = Option(_safe(world.pick.one(texts)), ("1",))
    before, cost = costs.spent(world, one.pool.name, amount)
    out = [*before, piece(f"grow {one.ref} (", *cost, ");")]
    if not one.pool.preempts and world.pick.chance(60):  # holders that all wait to grow wait for ever
        guard = world.pick.one(("pri == 0", f"queued({one.ref}) > 1", "n > 3"))
        out = [piece(f"branch ({guard}) ", tuple(out))]
    if one.pool.preempts and world.pick.chance(85):
        return [*run(world, place), *out, *run(world, place)]
    return [*out, *run(world, place)] if world.pick.chance(50) else out


def _safe(text: str) -> str:
    """`free` of a pool with a cap below what is used cannot be: but it may be an ulp below 0."""
    return f"max({text}, 0)" if "free" in text else text


def release(world: World, place: Place) -> list[Piece]:
    held = [one for one in place.held if not one.released]
    if not held or place.looping:
        return run(world, place)
    one = world.pick.one(held)
    one.released = True
    after = run(world, place) if world.pick.chance(70) else observe(world, place)
    return [piece(f"release {one.ref};"), *after]


def load(world: World, place: Place) -> list[Piece]:
    """A part of the allocation counts as computed; three loads of a hold are at most three quarters of what is left."""
    held = [one for one in place.held if not one.released and one.loads < 3]
    if not held or place.looping:
        return run(world, place)
    one = world.pick.one(held)
    one.loads += 1
    if one.caches and not (place.cached and one is place.held[-1]):
        return run(world, place)  # a position starts at the prefix found, which cannot be read here
    amount = f"max({one.units} - cached, 0) / 4" if one.caches else f"({one.units}) / 4"
    return [piece(f"load {one.ref} (cost({one.pool.name}, ", Option(amount, ("0",)), "));")]


def _release_lease(world: World, place: Place) -> list[Piece]:
    ref = world.pick.one(world.leases)
    if any(one.ref.partition("[")[0] == ref.partition("[")[0] for one in place.held):
        return run(world, place)
    return [piece(f"release {ref};")]


def _drop(world: World, place: Place) -> list[Piece]:  # noqa: ARG001
    return [piece(f"drop {world.ref(world.pick.one(world.pools))};")]


def hold(world: World, place: Place) -> list[Piece]:
    """Units of one to three pools around a body, with any of the clauses."""
    pools = world.pick.some(world.pools, 3) if "multi" in world.on else [world.pick.one(world.pools)]
    if world.pick.chance(50):  # the first pool has the policies that the others may lack
        pools = [world.pools[0], *(pool for pool in pools if pool is not world.pools[0])]
    taken = [one.pool.name for one in place.held]
    pools = [pool for pool in pools if pool.name not in taken] or pools[:1]
    if pools[0].name in taken and world.pick.chance(80):
        return run(world, place)  # a session that waits for itself waits for ever: not too often
    binding = world.fresh("x") if world.has("admission", 60) else None
    caches = world.has("cache", 80)
    before, parts, held = _pools_of(world, pools, binding, caches)
    names = ", ".join(pool.name for pool in pools)
    clauses: list[Part] = []
    if caches and world.has("reuse", 60):
        amount = world.pick.one(("2", "n", "min(n, 3)", "inf", "0", "K"))
        clauses += [Option(f" reuse (cost({names}, {amount}))")]
    if binding is not None:
        clauses += [f" at admission ({binding} = ", Option(_bound(world, pools[0], held[0].ref), ("n",)), ")"]
    inside = replace(place, depth=place.depth + 1, held=(*place.held, *held), cached=caches)
    tail: list[Part] = []
    if caches:
        tail.append(
            Option(f" cache (cost({names}, {_kept(world, held[0].units)}))", ("", f" cache (cost({names}, n))"))
        )
    body = _body(world, inside)
    leased = world.has("lease", 70)
    if leased:
        one = world.pick.one(held)
        tail.append(Option(f" lease {one.ref} ({world.pick.one(('1', '2', '0.5', 'w', 'inf', '~exp(2)', 'n', '0'))})"))
        world.leases.append(one.ref)
    end = [";"] if caches or leased or world.pick.chance(50) else []
    after: list[Piece] = []
    if leased and world.pick.chance(60):
        after = [*block(world, place, 2), piece(f"release {one.ref};")]
    if world.pick.chance(40):
        after += [piece(f"observe {world.observe()} = ", Option(amounts.look(world), ("now",)), ";")]
    return [*before, piece("hold ", *parts, *clauses, " ", body, *tail, *end), *after]


def _pools_of(
    world: World, pools: list[Pool], binding: str | None, caches: bool
) -> tuple[list[Piece], list[Part], list[Held]]:
    """The statements that must come before; the header's list of pools with their units and reserves."""
    first: list[Piece] = []
    parts: list[Part] = []
    held: list[Held] = []
    for number, pool in enumerate(pools):
        ref = world.ref(pool)
        plain = amounts.units(world, pool.cap)
        text = plain
        if binding is not None and number == 0:
            text = f"max({plain}, {binding})"
        elif world.has("live_demand", 40):
            text = world.pick.one(
                (f"min({plain}, max(free({ref}), 1))", f"{plain} + 0 * used({ref})", f"2 * n + m + 0 * free({ref})")
            )
            plain = "0" if "free" in text else plain
        reserve: Part = ""
        if world.has("reserve", 60):
            more = world.pick.one((f"{plain} + 1", f"2 * ({plain})", f"min({plain} + m, {pool.cap})", "2"))
            reserve = Option(f" reserve (cost({pool.name}, {more}))")
        before, cost = costs.spent(world, pool.name, Option(text, ("n", "1")), named=text == plain)
        first += before
        parts += [", " if number else "", f"{ref} (", *cost, ")", reserve]
        held.append(Held(ref, pool, plain, caches))
    return first, parts, held


def _bound(world: World, pool: Pool, ref: str) -> str:
    options = [f"min(cachedin({ref}), 3)", f"min(max(free({ref}), 0), 2)", "min(n, 2)", "m", "(now > 10 ? 1 : 2)"]
    return world.pick.one(options if world.pick.chance(80) else [f"{pool.cap} * (n > 4)"])


def _kept(world: World, units: str) -> str:
    """What a cache clause asks for: all of it mostly, sometimes less, more, nothing or a draw."""
    options = [units, units, units, "K + n", "n", "n + 1", "floor(n / 2)", "1", "0", "100"]
    options.append("floor(~uniform(0, 4))" if world.whole else "~uniform(0, 4)")
    return world.pick.one([*options, "h"] if world.has("hidden", 50) else options)


def _body(world: World, place: Place) -> Block:
    """The body of a hold: what was found is looked at first, then something that takes time."""
    first: list[Piece] = []
    if place.cached and world.pick.chance(60):
        first = [piece("set got = cached;"), piece(f"observe {world.observe()} = got;")]
    elif world.pick.chance(30):
        first = observe(world, place)
    if "grow" in world.on and world.pick.chance(75):
        return (*first, *run(world, place), *grow(world, place), *block(world, place, 2))
    if world.has("zero", 20):
        return tuple(first) or tuple(observe(world, place))
    return (*first, *run(world, place), *block(world, place, 2))


def transfer(world: World, place: Place) -> list[Piece]:
    """Units kept by a lease in one pool are read into another, which then has them computed."""
    taken = {one.pool.name for one in place.held}
    pools = [pool for pool in world.pools if pool.name not in taken]
    if len(pools) < 2:
        return run(world, place)
    giver, taker = pools[:2]  # always in this order: two sessions that read from one another could wait for ever
    source, target = world.ref(giver), world.ref(taker)
    stage = world.ref(world.pick.one(world.stages))
    kept = "cache" in world.on and world.pick.chance(60)
    clauses = (f" reuse (cost({taker.name}, n))", f" cache (cost({taker.name}, n))") if kept else ("", "")
    amount = "n - cached" if kept else "n"  # what a prefix holds already is not read again
    read = piece(f"transfer on {stage} ", Option("(w)", ("(1)",)), f" from {source} to {target} ({amount});")
    return [
        piece(f"hold {source} (cost({giver.name}, n)) ", tuple(run(world, place)), f" lease {source} (inf);"),
        piece(
            f"hold {target} (cost({taker.name}, n)){clauses[0]} ",
            (read, *observe(world, replace(place, cached=False))),
            f"{clauses[1]};",
        ),
    ]


_COMPOUND: dict[str, Statement] = {"branch": branch, "while": loop}

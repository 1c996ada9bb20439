"""Step engines of a generated program: devices, engines, their pools, and requests that run there.

Budgets and memories are small against the requests, so that chunks, admissions within an iteration
and preemptions happen all the time. Sizes in tokens are mostly whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from generating import machine, schedules, statements
from generating.pieces import Block, Option, Part, Piece, piece
from generating.world import Engine, Held, Place, Pool, World


def draw_engines(world: World) -> None:
    """One engine, at times two; the pools on them and on their devices."""
    for name, device in (("eng", "gpu"), ("eng2", "gpu2"))[: 1 + world.pick.chance(20)]:
        size = world.members if world.has("arrays", 60) else None
        tail = "" if name == "eng" else "2"
        memory = None
        if world.pick.chance(85):
            preempts = world.pick.chance(70)
            memory = Pool(f"pages{tail}", size, world.pick.one((8, 10, 11, 12, 14, 20)), preempts, owner=device)
            if world.pick.chance(35):
                memory = replace(memory, owner=f"{name}.{device}")
        slots = []
        for slot in ("reqs", "lim")[: world.pick.one((0, 1, 1, 1, 2))]:
            slots.append(Pool(f"{slot}{tail}", size, world.pick.one((2, 3, 4, 5, 6)), owner=name))
        world.engines.append(Engine(name, size, device, memory, tuple(slots)))


def engine_pieces(world: World) -> list[Piece]:
    """Devices, engines and then their pools, which read what the engines are."""
    out: list[Piece] = []
    for engine in world.engines:
        out += [_device(world, engine), _engine(world, engine)]
        pools = [*engine.slots, *([engine.memory] if engine.memory else [])]
        out += [machine.pool_piece(world, pool, []) for pool in pools]
    return out


def _size(engine: Engine) -> str:
    return "" if engine.size is None else f"[{engine.size}]"


def _device(world: World, engine: Engine) -> Piece:
    parts: list[Piece] = []
    if engine.memory is not None:
        cap = world.pick.one((f"{engine.memory.cap}", f"{engine.memory.cap}", f"C + {engine.memory.cap - 4}"))
        parts.append(piece(f"{engine.memory.name} cap ", Option(cap, (str(engine.memory.cap),)), ";"))
    if engine.name == "eng":
        parts.append(piece(f"compute (t) = {'ceil(t / 4)' if world.whole else '0.05 + 0.04 * t'};"))
    return piece(f"device {engine.device}{_size(engine)} ", tuple(parts))


def _engine(world: World, engine: Engine) -> Piece:
    pick = world.pick
    parts = [piece(f"{pool.name} cap {pool.cap};") for pool in engine.slots]
    budget = pick.one(("4", "5", "6", "8", "8", "12", "inf", "max(running.decoding, 4)", "6 + running.count"))
    if engine.memory is not None and pick.chance(15):
        budget = "max(running.decoding, 10 - floor(running.kv_decode / 4))"
    parts.append(piece("tokens cap ", Option(budget, ("8",)), ";"))
    granule = pick.chance(15)
    if granule:
        parts.append(piece(Option(f"granule {pick.one(('2', '3', '4', 'inf'))};")))
    registers = [f"r_{engine.name}", f"q_{engine.name}"][: pick.one((0, 0, 1, 2))] if engine.size is None else []
    parts += [piece(f"state {name} = {pick.one(('0', '1', '0.5'))};") for name in registers]
    parts.append(piece("schedule ", schedules.schedule(world, engine, registers, granule=granule)))
    parts.append(piece("execute (", Option(_time(world, engine), ("1", "0.1 + 0.02 * batch.tokens")), ");"))
    return piece(f"engine {engine.name}{_size(engine)} on {engine.device} ", tuple(parts))


def _time(world: World, engine: Engine) -> str:
    """The time of an iteration, positive."""
    if world.whole:
        options = ["1", "1", "1 + floor(batch.tokens / 4)", "1 + (batch.prefilled > 3)", "max(1, batch.decoding)"]
        options += ["compute(batch.tokens) + 1"] * (2 * (engine.name == "eng"))
        return world.pick.one(options)
    options = [
        "0.1 + 0.02 * batch.tokens",
        "0.05 + 0.01 * batch.prefilled + 0.03 * batch.decoding",
        "max(0.08, 0.03 * batch.tokens) + 0.0001 * batch.attention",
        "0.1 + 0.002 * (batch.kv_decode + batch.kv_prefill)",
        f"0.2 + 0.02 * queue({world.ref(engine, constant=True)})",
        "~exp(0.2) + 0.01",
    ]
    options += ["compute(batch.tokens)", "max(compute(batch.tokens), 0.01 * batch.kv_decode)"] * (engine.name == "eng")
    return world.pick.one(options)


def serve(world: World, place: Place) -> list[Piece]:
    """One request at an engine: its holds, a prefill, and mostly a decode."""
    engine = world.pick.one(world.engines)
    mark = world.ref(engine)
    index = mark.removeprefix(engine.name)
    taken = {one.pool.name for one in place.held}
    pools = [pool for pool in (*engine.slots, engine.memory) if pool is not None and pool.name not in taken]
    pools = [pool for pool in pools if world.pick.chance(85)]
    if world.pick.chance(25):
        pools.reverse()
    if not pools or place.depth >= statements.DEEPEST or place.cached:  # `cached` would be the inner hold's
        return list(_phases(world, place, engine, mark, "n", None))
    return _held(world, place, engine, mark, index, pools)


def _held(world: World, place: Place, engine: Engine, mark: str, index: str, pools: list[Pool]) -> list[Piece]:
    memory = engine.memory if engine.memory in pools else None
    growing = f"{memory.name}{index}" if memory and world.pick.chance(75) else None
    caches = world.has("cache", 70)
    prompt = world.pick.one(("n", "n + 2", "n + m", *(("min(K + n, 9)",) * 2 if "turns" in world.on else ())))
    known = hit = None
    if growing and caches and world.pick.chance(60):
        known, hit = world.fresh("known"), world.fresh("hit")
    parts: list[Part] = []
    held: list[Held] = []
    for pool in pools:
        units = "1" if pool is not memory else _memory(world, mark, prompt, growing, known, hit)
        if pool.name.startswith("lim"):
            units = world.pick.one(("1", "min(n, 2)", "0"))
        ref = f"{pool.name}{index}"
        parts += [", " if parts else "", f"{ref} (cost({pool.name}, ", Option(units, ("1",)), "))"]
        if pool is memory and world.has("reserve", 50):
            parts.append(Option(f" reserve (cost({pool.name}, min({prompt} + 4, {pool.cap})))"))
        held.append(Held(ref, pool, units, caches))
    names = ", ".join(pool.name for pool in pools)
    clauses: list[Part] = []
    if caches and known is None and world.has("reuse", 40):
        clauses.append(Option(f" reuse (cost({names}, {world.pick.one(('2', 'n', 'inf', '0'))}))"))
    if known and growing:
        bound = f"min(cachedin({growing}), {known} - 1)"
        clauses.append(f" at admission ({known} = computed < {prompt} ? {prompt} : computed + 1, {hit} = {bound})")
    inside = replace(place, depth=place.depth + 1, held=(*place.held, *held), cached=caches)
    prefill = prompt
    if known:
        prefill = f"{known} - min(cached, {known} - 1)"
    elif caches and world.pick.chance(40):
        prefill = f"max({prompt} - cached, 0)"
    body = (*_phases(world, inside, engine, mark, prefill, growing), *_rest(world, inside))
    tail: list[Part] = []
    if caches:
        kept = world.pick.one((prompt, f"{prompt} + 2", "K + n", "100", "1", "0"))
        tail.append(Option(f" cache (cost({names}, {kept}))"))
    if world.has("lease", 50):
        ref = world.pick.one(held).ref
        tail.append(Option(f" lease {ref} ({world.pick.one(('1', '3', 'w'))})"))
    return [piece("hold ", *parts, *clauses, " ", body, *tail, ";"), *statements.observe(world, place)]


def _memory(world: World, mark: str, prompt: str, growing: str | None, known: str | None, hit: str | None) -> str:
    if known:
        return f"min({known}, {hit} + budget_left({mark}))" if world.pick.chance(60) else known
    if growing is None:
        return world.pick.one((f"{prompt} + 4", f"{prompt} + m", prompt))
    return world.pick.one((prompt, prompt, "1", "0", f"min({prompt}, budget_left({mark}))", f"{prompt} + 1"))


def _phases(world: World, place: Place, engine: Engine, mark: str, prompt: str, growing: str | None) -> Block:
    """A prefill and mostly a decode, with things between and after them."""
    grows = f" growing {growing}" if growing else ""
    out = statements.observe(world, place) if world.pick.chance(50) else []
    work = Option(prompt, ("n", "1"))
    out.append(piece(f"run {mark} prefill (cost({engine.name}, ", work, f")){grows};"))
    out += _between(world, place)
    for _ in range(world.pick.one((0, 1, 1, 1, 1, 2))):
        length = world.pick.one(("n", "m", "2 * n", "m + 3", "1 + floor(~exp(4))", "w" if not world.whole else "5"))
        also = grows if world.pick.chance(90) else ""
        out.append(piece(f"run {mark} decode (cost({engine.name}, ", Option(length, ("1",)), f")){also};"))
        out += _between(world, place)
    return tuple(out)


def _between(world: World, place: Place) -> Iterable[Piece]:
    if world.pick.chance(50):
        return statements.observe(world, place)
    return statements.run(world, place) if world.pick.chance(20) else ()


def _rest(world: World, place: Place) -> Block:
    """Now and then more of what may stand in a hold."""
    return statements.block(world, place, 1) if world.pick.chance(25) else ()


def claims(world: World) -> list[Piece]:
    """Claims over the iterations of an engine that is no family."""
    engine = world.engines[0]
    ref = world.ref(engine, constant=True)
    options = [
        "tokens >= min(4, demand)",
        "tokens < demand && decoders > 0",
        "served < 40 || arrived > 5",
        "prefilled <= tokens && attention >= 0",
        "kv_decode + kv_prefill < 10",
        "residents > 2",
    ]
    given = Option(" given (pri < 2)") if world.pick.chance(30) else ""
    return [
        piece(f"claim {world.fresh('stepping')}", given, f" : {word} iteration of {ref} ({world.pick.one(options)});")
        for word in ("every", "some")
    ]

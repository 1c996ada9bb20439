"""Stations of a generated program: queues with their memory, service and entries, and calls of them.

Three shapes: a station that serves on its own; a pair of which the second reads the memory that the
first leased, over the NICs of both or over links; and a station with an engine.
"""

from __future__ import annotations

from generating import schedules, statements
from generating.pieces import Block, Option, Part, Piece, piece
from generating.world import Engine, Place, World

SERVES = ("fifo", "fifo(2)", "ps(1)", "ps(min(present, 2))", "delay", "ps(1 + present / 4)")
LATENCIES = ("1", "0.5", "2")


def draw_stations(world: World) -> list[Piece]:
    """The queues of a program in their order, and the share where a read needs one; calls become statements."""
    shape = world.pick.one((_alone, _pair, _pair, _engined))
    out = shape(world)
    if shape is not _pair and world.pick.chance(30):
        out += _alone(world)
    return out


def gateway(body: Block) -> Piece:
    """The station that the server's statements can stand in."""
    return piece("queue gw : gateway ", (piece("route ", body),))


def call(world: World, place: Place) -> list[Piece]:
    """A request at a station, and the moment that its entry marked."""
    if place.depth >= statements.DEEPEST:
        return statements.run(world, place)
    station = world.pick.one(world.stations)
    return [*station(world), *(statements.observe(world, place) if world.pick.chance(40) else ())]


def _size(world: World, name: str, parts: tuple[str, ...]) -> str:
    """The size of a queue as it is declared; what can be read of its `parts` from outside is kept."""
    size = world.members if world.has("arrays", 60) else None
    for k in range(size or 1):
        member = name if size is None else f"{name}[{k}]"
        parts = tuple(part for part in parts if size is None or part != ".nic")  # a family's NIC is not read
        world.outside += [f"{what}({member}{part})" for part in parts for what in _observables(part)]
    return "" if size is None else f"[{size}]"


def _observables(part: str) -> tuple[str, ...]:
    return ("queue", "busy", "queue") if part in ("", ".nic") else ("used", "holders", "queued", "free")


def _index(world: World, size: str, order: str = "0") -> tuple[list[Piece], str]:
    """A choice of the member to call, and its index."""
    if not size:
        return [], ""
    if world.pick.chance(50):
        name = world.fresh("at")
        key = Option(order.replace("?", name), ("0", f"-{name}"))
        return [piece(f"choose {name} in {world.members} by (", key, ");")], f"[{name}]"
    return [], world.pick.one(
        ("[0]", f"[{world.members - 1}]", f"[serial - {world.members} * floor(serial / {world.members})]")
    )


def _argument(world: World) -> str:
    return world.pick.one(("n", "n", "n + m", "m + 1", "n + 1", "1"))


# --------------------------------------------------------------------------- a station on its own


def _alone(world: World) -> list[Piece]:
    """A queue of one or two pools and a stage, with an entry for each of its roles."""
    pools = ["kv", "lim"][: world.pick.whole(1, 2)]
    name = "T" if world.stations else "S"
    size = _size(world, name, ("", *(f".{pool}" for pool in pools)))
    verbs = world.pick.one((("prefill",), ("decode",), ("prefill", "decode")))
    items = [*_pools(world, pools), piece("serve ", Option(world.pick.one(SERVES), ("fifo",)), ";")]
    items += [piece(f"{verb} (prompt) ", _served(world, name, verb, pools)) for verb in verbs]

    def station(world: World) -> list[Piece]:
        before, index = _index(world, size, f"queue({name}[?])")
        verb = world.pick.one(verbs)
        seen = f"observe {world.observe()} = now - {name}.{verb}_done;"
        return [*before, piece(f"{name}{index}.{verb} (", Option(_argument(world), ("1",)), ");"), piece(seen)]

    world.stations.append(station)
    return [piece(f"queue {name}{size} : {', '.join(verbs)} ", tuple(items))]


def _pools(world: World, names: list[str]) -> list[Piece]:
    out = []
    for name in names:
        clauses = [piece(f"cap {world.pick.one((9, 10, 12)) if name == 'kv' else world.pick.whole(2, 4)};")]
        if name == "kv":
            clauses += [piece(Option(f"block {world.pick.one((1, 2, 3))};"))] * world.pick.chance(30)
            clauses += [piece(Option(f"evict by ({world.pick.one(('size', '-age', 'waiting, last', '-size'))});"))]
            clauses += [piece(Option("preempt lifo;"))] * world.pick.chance(25)
        clauses += [
            piece(Option(f"queue by ({world.pick.one(('-waited', 'waited > 2, -waited'))});"))
        ] * world.pick.chance(30)
        out.append(piece(f"pool {name} ", tuple(clauses)))
    return out


def _served(world: World, name: str, verb: str, pools: list[str], lease: bool = False) -> Block:
    """What a request does there: it holds, runs, and marks the moment it is through."""
    pick = world.pick
    order = pools if pick.chance(70) else pools[::-1]
    bound = pick.chance(30)
    memory = pick.one(("prompt", "prompt", "min(prompt + 1, 9)", *(("max(prompt, hit)",) * 3 if bound else ())))
    units = {"kv": memory, "lim": "1"}
    header: list[Part] = [", ".join(f"{pool} (cost({pool}, {units[pool]}))" for pool in order)]
    if bound:
        header.append(" at admission (hit = min(cachedin(kv), prompt))")
    caches = pick.chance(60)
    body: list[Piece] = []
    if caches and pick.chance(60):
        body += [piece("set found = cached;"), piece(f"observe {world.fresh('found')} = found;")]
    body.append(_own_run(world, name))
    if pick.chance(25):
        body.append(piece("grow kv (cost(kv, 1));"))
        body.append(_own_run(world, name))
    if pick.chance(30):
        body.append(piece(f"branch (prompt > {pick.whole(1, 4)}) ", (_own_run(world, name),), " else ", _look(world)))
    if pick.chance(30):
        body += [piece("set left = min(prompt, 2);")]
        body += [piece("while (left > 0) ", (_own_run(world, name), piece("set left = left - 1;")))]
    if "lim" in pools and pick.chance(30):
        body += [piece("release lim;"), _own_run(world, name)]
    after = [piece(f"mark {verb}_done;")]
    if pick.chance(50):
        body, after = [*body, *after], []
    tail: list[Part] = []
    if caches:
        tail.append(Option(f" cache (cost({', '.join(order)}, {pick.one(('prompt', '1', '0', 'prompt + 3'))}))"))
    if lease:
        tail.append(" lease kv (inf)")
    return (piece("hold ", *header, " ", tuple(body), *tail, ";"), *after)


def _own_run(world: World, name: str) -> Piece:
    whole = ("prompt", "1", "ceil(prompt / 2)")
    options = whole if world.whole else (*whole, "prompt / 4", "~exp(0.5)")
    work = world.pick.one((*options, *(("h",) if "hidden" in world.on else ())))
    return piece(f"run (cost({name}, ", Option(work, ("1",)), "));")


def _look(world: World) -> Block:
    text = world.pick.one(("used(kv)", "prompt", "queued(kv)"))
    return (piece(f"observe {world.fresh('inner')} = ", Option(text, ("1",)), ";"),)


# --------------------------------------------------------------------------- memory read by another station


def _pair(world: World) -> list[Piece]:
    """A station whose entry leases its memory, and one that reads it: over NICs, or over links."""
    pick = world.pick
    pools = ["kv", "lim"][: pick.whole(1, 2)]
    links = [] if pick.chance(40) else ["L", "M"][: pick.whole(1, 2)]
    nic = () if links else (".nic",)
    givers, takers = _size(world, "P", ("", ".kv", *nic)), _size(world, "D", ("", ".kv", *nic))
    through = [] if links else [piece(f"nic ps({pick.one(('1', '2', '3'))});")]
    items = [*_pools(world, pools), *through, piece("serve ", Option(pick.one(SERVES), ("fifo",)), ";")]
    items.append(piece("prefill (prompt) ", _served(world, "P", "prefill", pools, lease=True)))
    out = [piece(f"queue P{givers} : prefill ", tuple(items))]
    called = bool(links) and pick.chance(50)
    out += [_link(world, link, called) for link in links]
    items = [*_pools(world, ["kv"]), *through, piece("serve ", Option(pick.one(SERVES), ("fifo",)), ";")]
    items.append(piece("decode (prompt) from P ", _reads(world, links, called)))
    local = pick.chance(40)
    if local:
        items.append(piece("decode (prompt) ", _served(world, "D", "decode", ["kv"])))
    out.append(piece(f"queue D{takers} : decode ", tuple(items)))
    if not links:
        verb = pick.one(("nixl_pull", "nixl_push")) if pick.chance(30) else "nixl_pull"
        latency = Option(f", latency = {pick.one(LATENCIES)}") if pick.chance(70) else ""
        out.append(piece(f"kvt.{verb} (P, D", latency, ");"))

    def station(world: World) -> list[Piece]:
        before, source = _index(world, givers, "used(P[?].kv)")
        also, target = _index(world, takers, "queue(D[?])")
        size = _argument(world)
        two = [
            *(*before, piece(f"P{source}.prefill ({size});")),
            *(*also, piece(f"D{target}.decode ({size}) from P{source};")),
            piece(f"observe {world.observe()} = D.read_done - P.prefill_done;"),
        ]
        if not local or world.pick.chance(60):
            return two
        return [piece("branch (n > 2) ", tuple(two), " else ", (*also, piece(f"D{target}.decode ({size});")))]

    world.stations.append(station)
    return out


def _link(world: World, name: str, called: bool) -> Piece:
    latency = Option(f" latency {world.pick.one(LATENCIES)}") if not called and world.pick.chance(80) else ""
    items = [piece(f"serve {world.pick.one(('ps(1)', 'ps(2)', 'ps(1.5)'))}", latency, ";")]
    if called:
        items.append(piece("transfer (amount) ", (piece(f"run (cost({name}, amount));"),)))
    return piece(f"queue {name} : link ", tuple(items))


def _reads(world: World, links: list[str], called: bool) -> Block:
    """An entry that holds as much as it reads, and more."""
    pick = world.pick
    work = pick.one(("prompt", "1", "prompt / 2" if not world.whole else "2"))
    if called:
        read = f"{links[0]}.transfer ({work}) from P to kv (prompt);"
    elif links:
        read = f"transfer on {', '.join(links)} ({work}) from P to kv (prompt);"
    else:
        read = f"transfer ({work}) from P to kv (prompt);"
    body = (piece(read), piece("mark read_done;"), _own_run(world, "D"), *(_look(world) if pick.chance(40) else ()))
    return (piece(f"hold kv (cost(kv, prompt + {pick.whole(0, 2)})) ", body, ";"),)


# --------------------------------------------------------------------------- a station with an engine


def _engined(world: World) -> list[Piece]:
    """A queue whose stage is an engine with slots and memory."""
    pick = world.pick
    size = _size(world, "E", ("", ".kv", ".reqs"))
    engine = Engine("E", world.members if size else None, "gpu")
    schedule = schedules.schedule(world, engine, ())
    time = pick.one(("1", "1 + floor(batch.tokens / 4)") if world.whole else ("0.1 + 0.02 * batch.tokens", "0.3"))
    parts = [piece(f"reqs cap {pick.whole(2, 4)};"), piece(f"tokens cap {pick.whole(4, 9)};")]
    parts += [piece("schedule ", schedule), piece(f"execute ({time});")]
    grows = " growing kv" if pick.chance(70) else ""
    units = "prompt + 4" if not grows else pick.one(("prompt", "min(prompt, hit + budget_left(E))"))
    known = " at admission (hit = cachedin(kv))" if "hit" in units else ""
    caches = pick.chance(70)
    found = (piece("set found = cached;"),) if caches else ()
    work = "max(prompt - found, 0)" if caches else "prompt"
    also = world.pick.one(("2", "prompt", "h" if "hidden" in world.on else "1"))
    body = (
        *(*found, piece(f"run E prefill (cost(E, {work})){grows};"), piece("mark prefill_done;")),
        piece("run E decode (cost(E, ", Option(also, ("1",)), f")){grows};"),
    )
    tail = Option(" cache (cost(reqs, kv, prompt))") if caches and not found else " cache (cost(reqs, kv, prompt))"
    hold = piece(f"hold reqs (cost(reqs, 1)), kv (cost(kv, {units})){known} ", body, tail if caches else "", ";")
    items = [
        piece("device gpu ", (piece(f"kv cap {pick.one((14, 18, 24))};"),)),
        piece("engine on gpu ", tuple(parts)),
        piece(
            "pool kv on gpu ",
            (piece(Option(pick.one(("block 2;", "evict by (size);", "")))), piece(Option("preempt lifo;"))),
        ),
        piece("pool reqs on E ", (piece(Option("queue by (-waited);")),) if pick.chance(40) else ()),
        piece("prefill (prompt) ", (hold,)),
        piece("decode (prompt) ", (piece("hold reqs (cost(reqs, 1)) ", (piece("run E decode (cost(E, prompt));"),)),)),
    ]

    def station(world: World) -> list[Piece]:
        before, index = _index(world, size, world.pick.one(("queue(E[?])", "used(E[?].kv)", "holders(E[?].reqs)")))
        verb = "prefill" if world.pick.chance(80) else "decode"
        out = [*before, piece(f"E{index}.{verb} (", Option(_argument(world), ("1",)), ");")]
        if verb == "prefill":
            out.append(piece(f"observe {world.observe()} = now - E.prefill_done;"))
        return out

    world.stations.append(station)
    return [piece(f"queue E{size} : prefill, decode ", tuple(items))]

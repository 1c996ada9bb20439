"""The workload of a generated program: arrivals, a trace, what a turn draws, and the session."""

from __future__ import annotations

import zlib

from generating import amounts, machine
from generating.pieces import Block, Option, Part, Piece, piece
from generating.world import World


def workload_piece(world: World, arrival: str, session: Block, trace: str | None) -> Piece:
    """The block `workload`; `session` is empty for the default one, `trace` the name of a file."""
    gap = world.pick.one((0.5, 0.75, 1.0, 1.5)) * (2 if session else 1)
    items: list[Piece] = [piece("arrive ", Option(machine.arrival(world, arrival, gap), ("batch(6)",)), ";")]
    if trace is not None:
        items.append(piece(f'trace "{trace}"', Option(world.pick.one(("", " ordered"))), ";"))
    if "hidden" in world.on:
        items.append(piece("hidden h;"))
    items += [piece("init ", _init(world)), piece("turn ", _marks(world, trace is not None))]
    if session:
        items.append(piece("session ", session))
    return piece("workload ", tuple(items))


def trace_file(world: World) -> tuple[str, str]:
    """The name and the text of a trace of a few sessions; the name says what is in it."""
    pick = world.pick
    rows = ["session,turn,new,out,think,forced"] * pick.chance(70)
    for session in range(pick.whole(1, 5)):
        for turn in range(pick.whole(1, 4)):
            new = f"{pick.whole(0, 5)}" + ("" if world.whole else pick.one(("", ".5", ".25")))
            out = f"{pick.whole(1, 4)}" if world.whole else pick.one(("1", "2.75", ".5", "3e-1"))
            forced = pick.one(("", ",0", ",0", ",1"))
            rows.append(f"{session % 3},{turn},{new},{out},{pick.whole(0, 3)}{forced}")
        rows += [pick.one(("# next", ""))] * pick.chance(20)
    text = "".join(f"{row}\n" for row in rows)
    return f"trace_{zlib.crc32(text.encode()):08x}.csv", text


def _init(world: World) -> Block:
    also = [piece(f"Size own = {amounts.law(world, 1.0)};"), piece("observe starts = own + serial;")]
    return (
        piece("set K = 0;"),
        piece("set pri = floor(~uniform(0, 3));"),
        *(also if world.has("costs", 50) else ()),
    )


def _marks(world: World, traced: bool) -> Block:
    """The marks of a turn."""
    work = amounts.law(world, world.pick.one((0.6, 1.0, 1.5)))
    units = world.pick.one(("ceil(~uniform(0, 5))", "floor(~exp(2)) + 1", "1 + floor(~uniform(0, 4))"))
    if traced:
        work, units = world.pick.one(("out", "out", work)), world.pick.one(("new", "floor(new) + 1", "max(new, 1)"))
    return (
        piece("set n = ", Option(units, ("1", "2")), ";"),
        piece("set m = ", Option("floor(~uniform(0, 4))", ("1",)), ";"),
        piece("Size w = " if world.pick.chance(10) else "set w = ", Option(work, ("1",)), ";"),
        piece("set cont = ~bernoulli(0.6);"),
        *([piece(f"set h = {amounts.law(world, 1.0)};")] if "hidden" in world.on else []),
        *([piece("observe mark = n + w;")] if world.pick.chance(20) else []),
    )


def session_block(world: World) -> Block:
    """The session; none stands for the default, one turn."""
    shapes = ("turn", "grow", "while", "count", "pair") if "turns" in world.on else ("none", "none", "turn")
    if "trace" in world.on:
        shapes = ("rows", "rows", *shapes)
    shape = world.pick.one(shapes)
    drops = [piece(f"drop {world.ref(pool)};") for pool in world.pools if world.has("drop", 60)]
    grown = piece("set K = K + n;")
    body: list[Piece]
    if shape == "none":
        if "session_work" not in world.on:
            return ()
        body = [piece("turn;")]
    elif shape == "turn":
        body = [piece("turn;")]
    elif shape == "rows":
        more = piece("while (more) ", (*_pause(world, "think"), piece("set K = K + new;"), piece("turn;")))
        body = [piece("turn;"), more, *([piece("turn;")] if world.pick.chance(20) else []), *drops]
    elif shape == "grow":
        ending: list[Part] = [" else ", (*drops, piece("end;"))]
        guard = Option("branch with (0.7)", ("branch (turn_no < 3)",))
        body = [piece("loop ", (piece("turn;"), grown, piece(guard, " ", _pause(world), *ending)))]
    elif shape == "while":
        body = [piece("turn;"), piece("while (cont) ", (grown, *_pause(world), piece("turn;"))), *drops]
    elif shape == "count":
        tool = piece("branch (pri > 0) ", _pause(world), " else ", (piece("tool (2);"),))
        body = [
            piece("set left = 3;"),
            piece("loop ", (piece("turn;"), piece("set left = left - 1;"), piece("branch (left == 0) { end; }"), tool)),
        ]
    else:
        body = [piece("turn;"), piece("set z = ", _think(world), ";"), piece("tool (z);")]
        body += [piece("observe thought = z;"), grown, piece("turn;"), *drops]
    if world.has("session_work", 50) and "convgrow" not in world.on:
        body = _with_leg(world, body)
    if "conversation" in world.on:
        return _conversation(world, tuple(body))
    return tuple(body)


def session_pieces(world: World) -> list[Piece]:
    """The stages and pools that only the session uses, if it has any use for them."""
    out: list[Piece] = []
    if "tool_stage" in world.on:
        out.append(piece(f"stage tool : {world.pick.one(('delay', 'fifo(2)', 'ps(2)'))};"))
    if "session_work" in world.on:
        out.append(piece(f"stage desk[2] : {world.pick.one(('delay', 'fifo', 'ps(1.5)'))};"))
    if "conversation" in world.on:
        again = "convgrow" in world.on and "fork" not in world.on  # no fork in a hold that may run again
        preempts = Option("preempt lifo;" if again else "")
        out.append(piece(f"pool conv {{ cap {world.pick.whole(2, 4)}; ", preempts, "}"))
        out.append(piece(f"pool seat {{ cap {world.pick.whole(3, 5)}; queue by (-waited, pri); }}"))
    return out


def _think(world: World) -> Option:
    return Option(amounts.law(world, 2.0), ("1",))


def _pause(world: World, text: str | None = None) -> Block:
    """The session waits: at its tool, or at a stage of its own."""
    length = _think(world) if text is None else Option(text, ("1",))
    if not world.has("session_work", 60):
        return (piece("tool (", length, ");"),)
    kind = world.pick.whole(0, 2)
    if kind == 0:
        return (piece("run desk[0] (cost(desk, ", length, "));"),)
    if kind == 1:
        return (piece("tool on desk[serial - 2 * floor(serial / 2)] (", length, ");"),)
    return (piece("choose desk_no in 2 by (queue(desk[desk_no]));"), piece("tool on desk[desk_no] (", length, ");"))


def _with_leg(world: World, body: list[Piece]) -> list[Piece]:
    """The session with a leg of its own beside its turns; a loop never comes to a join."""
    if any("loop " in one.parts for one in body):
        return body
    leg = (piece("run desk[1] (cost(desk, ", _think(world), "));"), piece(f"observe {world.observe()} = now;"))
    return [piece("fork ", leg), *body, piece("join;")]


def _conversation(world: World, body: Block) -> Block:
    """A slot for the whole session, kept or lent for a while after it."""
    pick = world.pick
    second = Option(", seat (cost(seat, 1))") if pick.chance(40) else ""
    names = "conv, seat" if second else "conv"
    grown = [piece("tool (1);"), piece("grow conv (cost(conv, 1));")]  # a growth in no time could never end
    first = grown if "convgrow" in world.on and pick.chance(70) else []
    tail: list[Part] = [Option(f" cache (cost({names}, 1))"), Option(f" lease conv ({pick.one(('1', '2', 'inf'))})")]
    after = [piece("tool (1);"), piece("release conv;"), piece("turn;")] if pick.chance(50) else []
    if not after:
        tail = tail[: pick.whole(0, 1)]
    header: list[Part] = ["hold conv (cost(conv, 1))", second, Option(" reserve (cost(seat, 2))") if second else ""]
    return (piece(*header, " ", (*first, *body), *tail, ";"), *after)

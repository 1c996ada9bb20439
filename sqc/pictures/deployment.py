"""The picture of a program: who arrives, what a session does, what a turn does on the machine, what the machine has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from sqc import ir
from sqc.pictures.flow import Flow, headed, kind_of, stacked, terminal
from sqc.pictures.scene import SMALL, TEXT, Box, Group, Line, Shape, Text, bounds, framed, text_width
from sqc.pictures.words import call, expression, folded, number, reference

_PAD = 9.0
_BETWEEN = 26.0
_TITLE = 15.0
_MOST_STEPS = 6
_READABLE = 0.85
"""How much smaller than planned letters may become before another arrangement is tried."""
_ARRANGEMENTS = (("wide", 36), ("wide", 27), ("tall", 36), ("tall", 27), ("tall", 20))


@dataclass(frozen=True)
class Scene:
    """Shapes within `width` by `height` points, to be shown at `scale`."""

    width: float
    height: float
    scale: float
    shapes: tuple[Shape, ...]

    @property
    def texts(self) -> list[str]:
        """Everything that is written in it."""
        return [shape.text for shape in self.shapes if isinstance(shape, Text)]


def deployment(program: ir.Program, width: float) -> Scene:
    """The scene of a program, at most `width` points wide: its parts side by side if that is readable, else one
    below the other."""
    program = _in_its_words(program, {declared.name: declared.let for declared in program.inputs})
    best: Scene | None = None
    for kind, letters in _ARRANGEMENTS:
        group = _wide(program, letters) if kind == "wide" else _tall(program, letters, width)
        scene = Scene(group.width, group.height, min(1.0, width / group.width), group.shapes)
        if scene.scale >= _READABLE:
            return scene
        if best is None or scene.scale > best.scale:
            best = scene
    assert best is not None
    return best


def _in_its_words(node: Any, lets: Mapping[str, str]) -> Any:
    """The program with inputs called as its own text calls them."""
    if isinstance(node, tuple):
        return tuple(_in_its_words(item, lets) for item in node)
    if isinstance(node, ir.Input):
        return ir.Input(lets[node.name])
    if not is_dataclass(node) or isinstance(node, ir.Span | ir.Trace):
        return node
    return replace(node, **{f.name: _in_its_words(getattr(node, f.name), lets) for f in fields(node)})  # type: ignore[type-var]


def _wide(program: ir.Program, letters: int) -> Group:
    """Workload, server and machine side by side, with the way of a request between the first two."""
    flow = Flow(program, letters)
    work, server = _workload(flow), _server(flow)
    tallest = max(work.height, server.height)
    cards = list(_cards(program, letters))
    columns = 1
    while _in_columns(cards, columns).height > max(tallest, 240.0) and columns < min(3, len(cards)):
        columns += 1
    frames = [
        _frame("workload", work, tallest),
        _frame("server: one turn", server, tallest),
        _frame("machine", _in_columns(cards, columns)),
    ]
    shapes: list[Shape] = []
    x = 0.0
    lefts = []
    for frame in frames:
        shapes += frame.at(x, 0)
        lefts.append(x)
        x += frame.width + _BETWEEN
    shapes += _request(frames[0], lefts[1])
    return Group(x - _BETWEEN, max(frame.height for frame in frames), 0, tuple(shapes))


def _tall(program: ir.Program, letters: int, width: float) -> Group:
    """The same one below the other."""
    flow = Flow(program, letters)
    parts = [("workload", _workload(flow)), ("server: one turn", _server(flow))]
    room = max(width - 2 * _PAD, *(group.width for _, group in parts))
    parts.append(("machine", _in_rows(list(_cards(program, letters)), room)))
    inner = max(group.width for _, group in parts)
    shapes: list[Shape] = []
    y = 0.0
    for title, group in parts:
        frame = _frame(title, group, wide=inner)
        shapes += frame.at(0, y)
        y += frame.height + 12
    return Group(inner + 2 * _PAD, y - 12, 0, tuple(shapes))


def _frame(title: str, inner: Group, tall: float = 0.0, wide: float = 0.0) -> Group:
    """A titled frame around a group, at least `tall` and `wide` inside."""
    across = max(inner.width, wide, text_width(title, TEXT, True))
    width, height = across + 2 * _PAD, max(inner.height, tall) + 2 * _PAD + _TITLE
    shapes = (
        Box(0, 0, width, height, "frame"),
        Text(_PAD, _PAD + 3, title, bold=True, grey=True),
        *inner.at(_PAD + (across - inner.width) / 2, _PAD + _TITLE),
    )
    return Group(width, height, width / 2, shapes)


def _request(workload: Group, server: float) -> Iterator[Line]:
    """Lines from the turn to the server and back, if there is one turn and nothing stands in the way."""
    turns = [shape for shape in workload.shapes if isinstance(shape, Box) and shape.look == "turn"]
    if len(turns) != 1:
        return
    (turn,) = turns
    edge, top, bottom = turn.x + turn.width, turn.y, turn.y + turn.height
    for shape in workload.shapes:
        _, high, right, low = bounds([shape])
        frame = isinstance(shape, Box) and shape.look == "frame"
        if not frame and right > edge + 1 and high < bottom and low > top:
            return
    there, back = top + turn.height / 3, top + 2 * turn.height / 3
    yield Line(((edge, there), (server, there)), arrow=True)
    yield Line(((server, back), (edge, back)), arrow=True, dashed=True)


# --------------------------------------------------------------------------- workload and server


def _workload(flow: Flow) -> Group:
    program = flow.program
    session = flow.block(program.session)
    parts = [_arrivals(flow)]
    if program.init:
        parts.append(flow.block(program.init))
    parts += [session, *([] if session.ends else [terminal("session ends")])]
    return stacked(parts)


def _arrivals(flow: Flow) -> Group:
    match flow.program.arrival:
        case ir.Poisson(amount) | ir.Renewal(amount) | ir.Closed(amount) | ir.Batch(amount) as arrival:
            text = call(type(arrival).__name__.lower(), (amount,))
        case _:
            text = "none"
    lines = flow.small(text)
    trace = flow.program.trace
    if trace is not None:
        way = "in order" if trace.ordered else "at random"
        lines += flow.small(f"each replays one of {len(trace.starts) - 1} recorded sessions, {way}")
    return framed(headed("arrivals", "arrivals", lines), "plain", 5.0)


def _server(flow: Flow) -> Group:
    body = flow.block(flow.program.server)
    end = [] if body.ends else [terminal("response")]
    return stacked([terminal("request", ends=False), *([body] if body.shapes else []), *end])


# --------------------------------------------------------------------------- the machine


def _cards(program: ir.Program, letters: int) -> Iterator[Group]:
    """A card for each pool and stage, and one for the inputs."""
    for pool in program.pools:
        yield _card("pool", "band", pool.name, pool.size, list(_pool(program, pool)), letters)
    for stage in program.stages:
        lines = list(_stage(program, stage))
        yield _card(kind_of(program, ir.Ref(stage.name)), "stage", stage.name, stage.size, lines, letters)
    if program.inputs:
        lines = [_input(declared) for declared in program.inputs]
        yield _card("input", "plain", "inputs", None, lines, letters)


def _input(declared: ir.InputDecl) -> str:
    """`link_speed = 20000`, and the name outside if that is another one."""
    outside = "" if declared.name == declared.let else f" (--set {declared.name}=…)"
    return f"{declared.let} = {number(declared.default)}{outside}"


def _card(kind: str, look: str, name: str, size: int | None, lines: Sequence[str], letters: int) -> Group:
    title = name if size is None else f"{name}[{size}]"
    texts = [Text(0, 0, line, SMALL) for text in lines for line in folded(text, letters)]
    return framed(headed(kind, title, texts), look, 5.0 if look == "stage" else 0.0)


def _pool(program: ir.Program, pool: ir.Pool) -> Iterator[str]:
    yield f"cap {expression(pool.cap)}"
    if pool.block is not None:
        yield f"blocks of {expression(pool.block)}"
    if _caches(program, pool.name):
        yield f"evict {_keys(pool.evict) or 'lru'}"
    if pool.queue:
        yield f"queue {_keys(pool.queue)}"
    if pool.admit_via is not None:
        yield f"admit via {pool.admit_via.name}"
    if pool.preempt != "none":
        tail = ", to the tail" if pool.requeue == "tail" else ""
        yield f"preempt {_keys(pool.preempt_keys) or pool.preempt}{tail}"
    if pool.reserve_held:
        yield "reserve held"
    if pool.spill is not None:
        spill = pool.spill
        yield f"spill to {reference(spill.pool)} via {reference(spill.stage)} when {expression(spill.when)}"


def _caches(program: ir.Program, name: str) -> bool:
    """Whether a prefix can stay in a pool."""
    holds = (node for node in ir.walk((program.session, program.server)) if isinstance(node, ir.Hold))
    kept = {part.pool.name for hold in holds if hold.cache is not None for part in hold.parts}
    return name in kept | {pool.spill.pool.name for pool in program.pools if pool.spill}


def _keys(keys: Sequence[ir.Expr]) -> str:
    return f"by {', '.join(map(expression, keys))}" if keys else ""


def _stage(program: ir.Program, stage: ir.Stage) -> Iterator[str]:
    match stage.kind:
        case ir.Fifo(ir.Const(1.0)):
            yield "fifo, one server"
        case ir.Fifo(servers):
            yield f"fifo, {expression(servers)} servers"
        case ir.Ps(capacity):
            shared = any(stage.name in [ref.name for ref in flow.stages] for flow in _flows(program))
            yield f"ps, capacity {expression(capacity)}" + (f", {program.share}" if shared else "")
        case ir.Delay():
            yield "delay: nobody waits"
        case ir.Step() as step:
            yield f"step, budget {expression(step.budget)} tokens"
            if step.chunk != ir.Const(0.0):
                yield f"chunk {expression(step.chunk)}"
            if step.memory is not None:
                yield f"memory {step.memory.name}"
            yield from step_lines(step.body)
            yield f"cost {expression(step.cost)}"


def step_lines(body: Sequence[ir.StepStmt]) -> list[str]:
    """What an iteration does, a line for each of the first statements."""
    lines = [_step_line(statement) for statement in body]
    return lines if len(lines) <= _MOST_STEPS else [*lines[: _MOST_STEPS - 1], f"… {len(lines) - _MOST_STEPS + 1} more"]


def _step_line(statement: ir.StepStmt) -> str:
    match statement:
        case ir.Serve(keys, only):
            return " ".join(["serve", *_only(only), *([_keys(keys)] if keys else [])])
        case ir.Admit(only, test):
            return " ".join(["admit", *_only(only), *([f"while {expression(test)}"] if test is not None else [])])
        case ir.ServeExclusive():
            return "serve exclusive prefill"
        case ir.StepLet(name, value) | ir.StepSet(name, value):
            return f"{name} = {expression(value)}"
        case ir.StepBranch(guard, then, other):
            yes, no = ("; ".join(step_lines(side)) for side in (then, other))
            return f"if {expression(guard)}: {yes or 'nothing'}" + (f"; else: {no}" if no else "")
    raise AssertionError(statement)


def _only(only: ir.Expr | None) -> list[str]:
    return [] if only is None else [f"only {expression(only)}"]


def _flows(program: ir.Program) -> list[ir.Flow]:
    return [node for node in ir.walk((program.session, program.server)) if isinstance(node, ir.Flow)]


def _in_columns(cards: Sequence[Group], columns: int) -> Group:
    """Cards in so many columns of about one height, in order."""
    if not cards:
        return Group(0, 0, 0)
    share = sum(card.height + 8 for card in cards) / columns
    piles: list[list[Group]] = [[]]
    height = 0.0
    for card in cards:
        if piles[-1] and len(piles) < columns and height + card.height / 2 > share * len(piles):
            piles.append([])
        piles[-1].append(card)
        height += card.height + 8
    shapes: list[Shape] = []
    x = y = tallest = 0.0
    for pile in piles:
        y = 0.0
        for card in pile:
            shapes += card.at(x, y)
            y += card.height + 8
        tallest = max(tallest, y - 8)
        x += max(card.width for card in pile) + 10
    return Group(x - 10, tallest, 0, tuple(shapes))


def _in_rows(cards: Sequence[Group], width: float) -> Group:
    """Cards side by side in rows of at most this width."""
    if not cards:
        return Group(0, 0, 0)
    shapes: list[Shape] = []
    x = y = row = widest = 0.0
    for card in cards:
        if x and x + card.width > width:
            x, y, row = 0.0, y + row + 8, 0.0
        shapes += card.at(x, y)
        widest, row = max(widest, x + card.width), max(row, card.height)
        x += card.width + 10
    return Group(widest, y + row, 0, tuple(shapes))

"""Statements as a flow chart: from top to bottom, holds around what they hold for, arms side by side.

Each function turns IR into a `Group`; nothing crosses anything, because groups only ever stand below,
beside or in each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqc import ir
from sqc.pictures.scene import (
    ICON_HEIGHT,
    ICON_WIDTH,
    LEADING,
    SMALL,
    TEXT,
    Box,
    Group,
    Icon,
    Line,
    Shape,
    Text,
    framed,
    paragraph,
    text_width,
)
from sqc.pictures.words import call, expression, folded, number, reference

GAP = 13.0
"""Between what follows each other."""
_BESIDE = 14.0
"""Between arms."""
_TURN_BACK = 7.0
"""How far lines that go back or come together stay away from what they go around."""
_MOST_NOTES = 6


@dataclass(frozen=True)
class Flow:
    """Lays out the statements of a program; `letters` is the width of a line of text."""

    program: ir.Program
    letters: int = 36

    def block(self, statements: Sequence[ir.Stmt]) -> Group:
        """Statements one below the other."""
        return stacked(self._elements(statements))

    def _elements(self, statements: Sequence[ir.Stmt]) -> list[Group]:
        groups: list[Group] = []
        notes: list[str] = []
        rest = list(statements)
        while rest:
            first = rest[0]
            note = _note(first)
            if note is not None:
                notes.append(note)
                rest = rest[1:]
                continue
            if notes:
                groups.append(self.notes(notes))
                notes = []
            if isinstance(first, ir.Fork):
                group, rest = self._forks(rest)
            else:
                group, rest = self._one(first), rest[1:]
            groups.append(group)
        return [*groups, self.notes(notes)] if notes else groups

    def notes(self, notes: Sequence[str]) -> Group:
        """What takes no time: small grey lines."""
        shown = list(notes) if len(notes) <= _MOST_NOTES else [*notes[: _MOST_NOTES - 1], f"… {len(notes) - 5} more"]
        lines = [line for note in shown for line in folded(note, self.letters + 6, 2)]
        return paragraph([Text(0, 0, line, SMALL, grey=True, centred=True) for line in lines])

    def small(self, text: str, lines: int = 3) -> list[Text]:
        """A text that takes several small lines."""
        return [Text(0, 0, line, SMALL) for line in folded(text, self.letters, lines)]

    def _one(self, statement: ir.Stmt) -> Group:
        match statement:
            case ir.Run(stage, work, _, mode, growing):
                details = [expression(work), *([f"growing {reference(growing)}"] if growing else [])]
                return self._run((stage,), f" {mode}" if mode else "", details)
            case ir.Flow(stages, work):
                return self._run(stages, "", [expression(work)])
            case ir.Hold():
                return self._hold(statement)
            case ir.Branch():
                return self._branch(statement)
            case ir.Loop(body):
                return self._loop(body)
            case ir.While(guard, body):
                return self._while(guard, body)
            case ir.Choose(name, count, keys):
                title = f"choose {name} in {expression(count)}"
                lines = [line for key in keys for line in self.small(f"by {expression(key)}", 2)]
                return framed(paragraph([Text(0, 0, title, bold=True), *lines]), "choice")
            case ir.Turn():
                return self._turn()
            case ir.End():
                return terminal("session ends")
            case ir.Join():
                return framed(self.notes(["join: all legs have ended"]), "choice")
        return self._operation(statement)

    def _operation(self, statement: ir.Stmt) -> Group:
        """What changes a hold or a cache at once."""
        match statement:
            case ir.Grow(pool, amount):
                name, text = "grow", expression(amount)
            case ir.Load(pool, amount):
                name, text = "load", expression(amount)
            case ir.Checkpoint(pool, position):
                name, text = "checkpoint", expression(position)
            case ir.Release(pool):
                name, text = "release", ""
            case ir.Drop(pool):
                name, text = "drop", ""
            case _:
                raise AssertionError(statement)
        lines = self.small(text) if text else []
        return framed(headed("pool", f"{name} {reference(pool)}", lines), "pool", down=2.5)

    def _run(self, stages: Sequence[ir.Ref], mode: str, details: Sequence[str]) -> Group:
        title = " + ".join(map(reference, stages)) + mode
        lines = [line for text in details for line in self.small(text)]
        return framed(headed(kind_of(self.program, stages[0]), title, lines), "stage", 5.0)

    def _turn(self) -> Group:
        marks = [note for note in map(_note, self.program.turn) if note is not None]
        lines = [line for note in marks[:_MOST_NOTES] for line in folded(note, self.letters, 2)]
        lines += [f"… {len(marks) - _MOST_NOTES} more"] if len(marks) > _MOST_NOTES else []
        title = Text(0, 0, "turn", bold=True)
        return framed(paragraph([title, *(Text(0, 0, line, SMALL) for line in lines)]), "turn", 5.0)

    # -- holds
    def _hold(self, hold: ir.Hold) -> Group:
        head = side_by_side_lines([self._part(part, "hold" if k == 0 else "and") for k, part in enumerate(hold.parts)])
        foot = [f"cache {expression(hold.cache)}"] if hold.cache is not None else []
        if hold.lease is not None:
            leased = reference(hold.parts[hold.lease.part].pool)
            foot.append(f"lease {leased} for {expression(hold.lease.time)}")
        if hold.prefix:
            made = ", ".join(f"{expression(s.key)}: {expression(s.length)}" for s in hold.prefix)
            head = side_by_side_lines([head, paragraph(self.small(f"prefix {made}"))])
        if hold.reuse is not None:
            head = side_by_side_lines([head, paragraph(self.small(f"reuse {expression(hold.reuse)}"))])
        tail = paragraph([line for text in foot for line in self.small(text, 2)]) if foot else None
        return around(head, self.block(hold.body), tail)

    def _part(self, part: ir.Part, word: str) -> Group:
        lines = self.small(expression(part.units))
        if part.reserve is not None:
            lines += self.small(f"reserve {expression(part.reserve)}", 2)
        return headed("pool", f"{word} {reference(part.pool)}", lines)

    # -- arms
    def _branch(self, branch: ir.Branch) -> Group:
        arms: list[tuple[ir.Expr, Sequence[ir.Stmt]]] = [(branch.guard, branch.then)]
        other = branch.other
        while len(other) == 1 and isinstance(other[0], ir.Branch) and _note(other[0]) is None:
            arms.append((other[0].guard, other[0].then))
            other = other[0].other
        if len(arms) > 1:
            pill = _pill([Text(0, 0, "the first that holds", SMALL, centred=True)])
            labels = [self._label(expression(guard)) for guard, _ in arms] + [["else"]]
            return _arms(pill, labels, [self.block(body) for _, body in arms] + [self.block(other)])
        guard = branch.guard
        if isinstance(guard, ir.Draw) and guard.dist == "bernoulli":
            text, names = "by chance", _chances(guard.args[0])
        else:
            text, names = f"{expression(guard)} ?", ("yes", "no")
        pill = _pill([Text(0, 0, line, SMALL, centred=True) for line in folded(text, self.letters)])
        labels = [self._label(name) for name in names]
        return _arms(pill, labels, [self.block(branch.then), self.block(other)])

    def _label(self, text: str) -> list[str]:
        return folded(text, max(14, self.letters // 2))

    # -- passes
    def _loop(self, body: Sequence[ir.Stmt]) -> Group:
        inner = self.block(body)
        label = Text(_TURN_BACK + 3, 2 * _TURN_BACK + 1, "again and again", SMALL, grey=True)
        left = max(2 * _TURN_BACK, label.x + text_width(label.text, SMALL) + 6 - inner.spine)
        spine, top = left + inner.spine, 3 * _TURN_BACK
        bottom = top + inner.height
        shapes: list[Shape] = [Line(((spine, 0), (spine, top)), inner.framed), *inner.at(left, top), label]
        if not inner.ends:
            back = bottom + _TURN_BACK
            corner = ((spine, bottom), (spine, back), (2, back), (2, _TURN_BACK), (spine, _TURN_BACK))
            shapes.append(Line(corner, arrow=True))
            bottom = back
        return Group(left + inner.width, bottom, spine, tuple(shapes), ends=True, framed=False)

    def _while(self, guard: ir.Expr, body: Sequence[ir.Stmt]) -> Group:
        text = folded(f"while {expression(guard)}", self.letters)
        pill = _pill([Text(0, 0, line, SMALL, centred=True) for line in text])
        inner = self.block(body)
        left = 2 * _TURN_BACK
        spine = left + max(inner.spine, pill.spine)
        right = spine + max(inner.width - inner.spine, pill.width - pill.spine) + 2 * _TURN_BACK
        top = pill.height + GAP + 3
        bottom = top + inner.height
        out = bottom + 2 * _TURN_BACK
        middle, edge = pill.height / 2, spine + pill.width - pill.spine
        shapes: list[Shape] = [
            *pill.at(spine - pill.spine, 0),
            Line(((spine, pill.height), (spine, top)), inner.framed),
            *inner.at(spine - inner.spine, top),
            Line(((edge, middle), (right - 2, middle), (right - 2, out), (spine, out))),
            Text(spine + 3, pill.height + 7, "yes", SMALL, grey=True),
            Text(edge + 2, middle - 5, "no", SMALL, grey=True),
        ]
        if not inner.ends:
            back = bottom + _TURN_BACK
            shapes.append(
                Line(((spine, bottom), (spine, back), (2, back), (2, middle), (spine - pill.spine, middle)), arrow=True)
            )
        return Group(right, out, spine, tuple(shapes))

    # -- legs
    def _forks(self, statements: Sequence[ir.Stmt]) -> tuple[Group, list[ir.Stmt]]:
        """Legs that start together, beside what the session does until it joins them; and what is left."""
        count = next((k for k, s in enumerate(statements) if not isinstance(s, ir.Fork)), len(statements))
        legs = [self.block(fork.body) for fork in statements[:count] if isinstance(fork, ir.Fork)]
        rest = list(statements[count:])
        joins = next((k for k, s in enumerate(rest) if isinstance(s, ir.Join)), None)
        own = rest[: joins or 0]
        labels = [["goes on"], *([f"leg {k + 1}"] if count > 1 else ["leg"] for k in range(count))]
        columns = [self.block(own), *legs]
        if joins is None:
            lost = [replace(leg, ends=True) for leg in legs]
            return _arms(self.notes(["fork"]), labels, [columns[0], *lost], bars=1), rest
        parallel = _arms(self.notes(["fork"]), labels, columns, bars=2)
        return stacked([parallel, self.notes(["join: all legs have ended"])], gap=0.0), rest[joins + 1 :]


# --------------------------------------------------------------------------- pieces


def stacked(groups: Sequence[Group], gap: float = GAP) -> Group:
    """Groups below each other on one spine, joined by lines where the flow goes on."""
    if not groups:
        return Group(0, 0, 0, framed=False)
    spine = max(group.spine for group in groups)
    right = max(group.width - group.spine for group in groups)
    shapes: list[Shape] = []
    y = 0.0
    for above, group in zip([None, *groups], groups, strict=False):
        if above is not None:
            if not above.ends and gap:
                shapes.append(Line(((spine, y), (spine, y + gap)), group.framed))
            y += gap
        shapes += group.at(spine - group.spine, y)
        y += group.height
    return Group(spine + right, y, spine, tuple(shapes), groups[-1].ends, groups[0].framed)


def headed(kind: str, title: str, lines: Sequence[Text]) -> Group:
    """An icon, a name in bold beside it, and lines below the name."""
    left = ICON_WIDTH + 5
    width = left + max(text_width(title, TEXT, True), *(text_width(line.text, line.size) for line in lines), 0.0)
    step = TEXT * LEADING
    shapes: list[Shape] = [Icon(0, max(step, ICON_HEIGHT) / 2, kind), Text(left, step / 2, title, bold=True)]
    y = step
    for line in lines:
        step = line.size * LEADING
        shapes.append(Text(left, y + step / 2, line.text, line.size))
        y += step
    return Group(width, y, width / 2, tuple(shapes))


def side_by_side_lines(groups: Sequence[Group]) -> Group:
    """Groups below each other from the left, without lines."""
    shapes: list[Shape] = []
    y = 0.0
    for group in groups:
        shapes += group.at(0, y)
        y += group.height + 2
    width = max(group.width for group in groups)
    return Group(width, y - 2, width / 2, tuple(shapes))


def around(head: Group, body: Group, tail: Group | None) -> Group:
    """A hold: what is held in a band at the top, the body, what is kept in a band at the bottom."""
    across, down = 6.0, 3.5
    spine = max(body.spine + across, head.width / 2 + across)
    right = max(body.width - body.spine, head.width / 2, tail.width - spine + across if tail else 0.0) + across
    width = spine + right
    top = head.height + 2 * down
    inner = top + GAP
    bottom = inner + body.height + (GAP if body.shapes else 0)
    low = tail.height + 2 * down if tail else 0.0
    shapes: list[Shape] = [
        Box(0, 0, width, bottom + low, "pool"),
        Box(0, 0, width, top, "band"),
        *head.at(across, down),
        Line(((spine, top), (spine, inner)), body.framed),
        *body.at(spine - body.spine, inner),
    ]
    if not body.ends and body.shapes:
        shapes.append(Line(((spine, bottom - GAP), (spine, bottom))))
    if tail:
        shapes += [Box(0, bottom, width, low, "band"), *tail.at(across, bottom + down)]
    return Group(width, bottom + low, spine, tuple(shapes), body.ends)


def terminal(text: str, ends: bool = True) -> Group:
    """Where a way starts or ends."""
    return replace(framed(paragraph([Text(0, 0, text, SMALL, centred=True)]), "terminal", 7.0, 7.0, 2.0), ends=ends)


def _pill(lines: Sequence[Text]) -> Group:
    return framed(paragraph(lines), "choice", 8.0, 8.0, 3.0)


def _across(left: float, right: float, y: float, bar: bool) -> Shape:
    """A line from left to right, or a bar."""
    return Box(left - 6, y - 1.5, right - left + 12, 3, "bar") if bar else Line(((left, y), (right, y)))


def _arms(top: Group, labels: Sequence[Sequence[str]], bodies: Sequence[Group], bars: int = 0) -> Group:
    """Ways side by side below `top`: those that go on come together again. All are gone at once, if there are
    `bars`: one where they part, the second where they wait for each other."""
    step = SMALL * LEADING
    room = max(len(lines) for lines in labels) * step + 6
    wide = [max(text_width(line, SMALL) for line in lines) + 4 for lines in labels]
    spines: list[float] = []
    x = 0.0
    for body, label in zip(bodies, wide, strict=True):
        spines.append(x + body.spine)
        x += body.spine + max(body.width - body.spine, label) + _BESIDE
    middle = (spines[0] + spines[-1]) / 2
    shift = max(0.0, top.spine - middle)
    spines, middle = [s + shift for s in spines], middle + shift
    width = max(x - _BESIDE + shift, middle + top.width - top.spine)
    bar = top.height + _TURN_BACK
    start = bar + room
    bottom = start + max(body.height for body in bodies) + _TURN_BACK
    shapes: list[Shape] = [
        *top.at(middle - top.spine, 0),
        Line(((middle, top.height), (middle, bar))),
        _across(spines[0], spines[-1], bar, bars > 0),
    ]
    going = [spine for spine, body in zip(spines, bodies, strict=True) if not body.ends]
    for spine, body, lines in zip(spines, bodies, labels, strict=True):
        shapes.append(Line(((spine, bar), (spine, start)), body.framed and bool(body.shapes)))
        shapes += [Text(spine + 3, bar + 3 + (k + 0.5) * step, line, SMALL, grey=True) for k, line in enumerate(lines)]
        shapes += body.at(spine - body.spine, start)
        if not body.ends:
            shapes.append(Line(((spine, start + body.height), (spine, bottom))))
    if going:
        shapes.append(_across(min(*going, middle), max(*going, middle), bottom, bars > 1))
    return Group(width, bottom + (2.0 if bars > 1 else 0.0), middle, tuple(shapes), ends=not going)


def kind_of(program: ir.Program, stage: ir.Ref) -> str:
    """The name of a stage's icon."""
    (kind,) = (declared.kind for declared in program.stages if declared.name == stage.name)
    return type(kind).__name__.lower()


def _chances(p: ir.Expr) -> tuple[str, str]:
    if isinstance(p, ir.Const):
        share = min(max(p.value, 0.0), 1.0)
        return f"{number(100 * share)} %", f"{number(100 - 100 * share)} %"
    return f"with {expression(p)}", "else"


def _note(statement: ir.Stmt) -> str | None:
    """A statement as a line, if it takes no time, changes no pool and leads nowhere; else None."""
    match statement:
        case ir.Set(name, value):
            return f"{name} = {expression(value)}"
        case ir.Observe(name):
            return f"observe {name}"
        case ir.Branch(guard, then, other):
            sides = [[_note(s) for s in side] for side in (then, other)]
            if any(note is None for side in sides for note in side):
                return None
            yes, no = (", ".join(note for note in side if note) for side in sides)
            test = call("chance", guard.args) if isinstance(guard, ir.Draw) else expression(guard)
            return f"if {test}: {yes or 'nothing'}" + (f"; else: {no}" if no else "")
    return None

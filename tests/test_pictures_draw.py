"""Drawings of programs: what the scene says, that nothing in it covers anything else, and how it becomes a file."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

import sqc
from harness import CORPUS, ROOT
from sqc import ir, pictures
from sqc.pictures.deployment import Scene, deployment
from sqc.pictures.scene import Box, Icon, Line, Text, bounds
from sqc.pictures.words import compact, expression, folded, number

PROGRAMS = sorted([*(ROOT / "programs").glob("*.sq"), *CORPUS.rglob("*.sq")])
SCREEN, COLUMN = 708.0, 226.0
"""Widths in points: 25 cm and 8 cm."""

BODY = """
  workload {{ arrive {arrive}; init {{ set K = 0; }} turn {{ set n = ~exp(2); set w = ~exp(1); }} {session} }}
  server {{ {server} }}
"""
MACHINE = """
use "std/args";
fn main() {{
  let C = args.number("cap", 40);
  pool kv {{ cap C; block 4; evict by (age, size); queue by (n); preempt lifo; }}
  pool disk {{ cap 100; }}
  stage cpu[2] : fifo(3);
  stage link : ps(min(present, 2));
  {0}
}}
"""


def scene(server: str, *, session: str = "", arrive: str = "poisson(0.5)", width: float = SCREEN) -> Scene:
    text = MACHINE.format(BODY.format(server=server, session=session, arrive=arrive))
    return deployment(sqc.compile(source=text).ir, width)


# ----------------------------------------------------------------------------- every program


Rectangle = tuple[float, float, float, float]


def overlaps(drawn: Scene) -> Iterator[str]:
    """What cannot be read: texts on texts, lines through texts, edges through texts, texts outside."""
    texts = [(shape, _shrunk(bounds([shape]))) for shape in drawn.shapes if isinstance(shape, Text | Icon)]
    segments = [
        (shape, (min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)))
        for shape in drawn.shapes
        if isinstance(shape, Line)
        for (x0, y0), (x1, y1) in itertools.pairwise(shape.points)
    ]
    boxes = [(shape, bounds([shape])) for shape in drawn.shapes if isinstance(shape, Box)]
    for (a, at), (b, there) in itertools.combinations(texts, 2):
        if _meet(at, there):
            yield f"{a} on {b}"
    for shape, at in texts:
        if not _inside(at, (0, 0, drawn.width, drawn.height)):
            yield f"{shape} is outside"
        yield from (f"{line} goes through {shape}" for line, there in segments if _meet(at, there))
        yield from (
            f"{shape} over the edge of {box}" for box, there in boxes if _meet(at, there) and not _inside(at, there)
        )


def _shrunk(at: Rectangle) -> Rectangle:
    """By a quarter of a point: what only touches is no overlap."""
    left, top, right, bottom = at
    return left + 0.25, top + 0.25, right - 0.25, bottom - 0.25


def _meet(a: Rectangle, b: Rectangle) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _inside(a: Rectangle, b: Rectangle) -> bool:
    return a[0] > b[0] and a[2] < b[2] and a[1] > b[1] and a[3] < b[3]


def test_nothing_covers_anything() -> None:
    """All programs there are, on a screen and in a column of print; pools and stages are there by name."""
    wrong = []
    for path in PROGRAMS:
        program = sqc.compile(path).ir
        for width in (SCREEN, COLUMN):
            drawn = deployment(program, width)
            wrong += [f"{path.name}: {problem}" for problem in overlaps(drawn)]
            assert drawn.width * drawn.scale <= width * (1 + 1e-9)
            assert drawn.scale > 0.6, path.name
            written = "\n".join(drawn.texts)
            names = [pool.name for pool in program.pools] + [stage.name for stage in program.stages]
            wrong += [f"{path.name}: {name}" for name in names if name not in written]
    assert not wrong, "\n".join(wrong[:20])


# ----------------------------------------------------------------------------- what it says


def looks(drawn: Scene) -> list[str]:
    return [shape.look for shape in drawn.shapes if isinstance(shape, Box)]


def test_the_founding_program() -> None:
    """The session loop with its way back, the turn with the way to the server and back, the hold around the run."""
    drawn = deployment(sqc.compile(ROOT / "programs" / "04-cache.sq").ir, SCREEN)
    texts = drawn.texts
    for text in (
        *("workload", "server: one turn", "machine", "arrivals", "poisson(0.5)", "again and again", "turn"),
        *("80 %", "20 %", "drop kv", "session ends", "hold kv", "K + n + o", "cache K + n + o", "engine"),
        *("warm = cached >= K", "if K > 0: observe hit", "cap C", "evict lru", "C = 200000", "delay: nobody waits"),
    ):
        assert text in texts, text
    (hold,) = (s for s in drawn.shapes if isinstance(s, Box) and s.look == "pool" and s.height > 60)
    runs = [s for s in drawn.shapes if isinstance(s, Box) and s.look == "stage"]
    assert any(hold.x < r.x and r.x + r.width < hold.x + hold.width and hold.y < r.y for r in runs)
    lines = [s for s in drawn.shapes if isinstance(s, Line)]
    back = [line for line in lines if line.arrow and line.points[-1][1] < line.points[0][1]]
    assert len(back) == 1  # of the loop: it ends above where it starts
    assert [line.dashed for line in lines].count(True) == 1  # the response


def test_one_below_the_other_in_a_column() -> None:
    program = sqc.compile(ROOT / "programs" / "04-cache.sq").ir
    for width, tall in ((SCREEN, False), (COLUMN, True)):
        drawn = deployment(program, width)
        frames = [s for s in drawn.shapes if isinstance(s, Box) and s.look == "frame"]
        assert len({frame.x for frame in frames}) == (1 if tall else 3)
        assert len({frame.y for frame in frames}) == (3 if tall else 1)


def test_statements() -> None:
    drawn = scene(
        """
        choose j in 2 by (work(cpu[j]), j);
        hold kv (cost(kv, n)) reserve (cost(kv, 2 * n)), disk (cost(disk, 1)) {
          run cpu[j] (cost(cpu, w));
          grow kv (cost(kv, 1));
          branch (n > 3) { run link (cost(link, w)); } else { branch (n > 2) { run cpu[0] (cost(cpu, 1)); } }
        } cache (cost(kv, disk, n)) lease disk (5);
        release disk;
        """
    )
    for text in (
        *("choose j in 2", "by work(cpu[j])", "by j", "hold kv", "reserve 2 * n", "and disk", "cpu[j]", "grow kv"),
        *("the first that holds", "n > 3", "n > 2", "else", "link", "cache n", "lease disk for 5", "release disk"),
        *("cap C", "blocks of 4", "evict by age, size", "queue by n", "preempt lifo", "cpu[2]", "fifo, 3 servers"),
        *("ps, capacity min(present, 2)", "C = 40 (--set cap=…)"),
    ):
        assert text in drawn.texts, text


@pytest.mark.parametrize(
    ("guard", "pill", "arms"),
    [
        ("branch (n > 3)", "n > 3 ?", ("yes", "no")),
        ("branch with (0.25)", "by chance", ("25 %", "75 %")),
        ("branch with (1 / C)", "by chance", ("with 1 / C", "else")),
    ],
)
def test_arms(guard: str, pill: str, arms: tuple[str, str]) -> None:
    texts = scene(f"{guard} {{ run link (cost(link, w)); }}").texts
    assert pill in texts
    assert set(arms) <= set(texts)


def test_passes_and_ends() -> None:
    session = "session { turn; while (n > 1) { turn; tool (~exp(3)); } branch (n < 0.5) { end; } tool (1); }"
    drawn = scene("run cpu[0] (cost(cpu, w));", session=session, arrive="closed(3)")
    assert {"closed(3)", "while n > 1", "tool", "~exp(3)"} <= set(drawn.texts)
    assert drawn.texts.count("session ends") == 2
    assert looks(drawn).count("turn") == 2
    assert not any(shape.dashed for shape in drawn.shapes if isinstance(shape, Line))  # which turn would it start at?


@pytest.mark.parametrize(
    ("joins", "bars", "joined"), [("join;", 2, 1), ("branch (n > 1) { join; } else { join; }", 1, 2)]
)
def test_legs(joins: str, bars: int, joined: int) -> None:
    """A join beside the forks is a bar that all ways lead to; elsewhere it is a box."""
    legs = "fork { run cpu[0] (cost(cpu, w)); } fork { run cpu[1] (cost(cpu, 1)); }"
    drawn = scene(f"{legs} run link (cost(link, w)); {joins}")
    assert looks(drawn).count("bar") == bars
    assert drawn.texts.count("join: all legs have ended") == joined
    assert {"fork", "goes on", "leg 1", "leg 2"} <= set(drawn.texts)


def test_iterations() -> None:
    step = """step { budget 32; cost 1 + tokens; iteration { serve only (decoding) by (remaining);
      admit while (preempted == 0); branch (residents > 3) { serve; } } }"""
    rest = "workload { arrive batch(1); turn { } } server { run e decode (cost(e, 9)); }"
    text = f"fn main() {{ stage e : {step}; {rest} }}"
    texts = deployment(sqc.compile(source=text).ir, SCREEN).texts
    for line in (
        *("step, budget 32 tokens", "serve only decoding by remaining", "admit while !preempted"),
        *("if residents > 3: serve", "cost 1 + tokens", "e decode"),
    ):
        assert line in texts


def test_many_notes_are_cut_short() -> None:
    server = " ".join(f"set a{k} = {k} * n;" for k in range(9))
    texts = scene(server).texts
    assert "a4 = 4 * n" in texts
    assert "… 4 more" in texts
    assert not any(text.startswith("a5") for text in texts)


def test_a_trace() -> None:
    texts = " ".join(deployment(sqc.compile(CORPUS / "g01_trace_ordered.sq").ir, SCREEN).texts)
    assert "each replays one of 9 recorded sessions, in order" in texts


# ----------------------------------------------------------------------------- expressions


@pytest.mark.parametrize(
    "text",
    [
        *("a + b * n", "(a + b) * n", "a - (b - n)", "a - b - n", "-a^2", "(-a)^2", "2^3^a", "(2^a)^3", "a / (b / n)"),
        *("a ? b : n ? a : b", "(a ? b : n) + 1", "!(a && b)", "a || b && n", "(a || b) && n", "a < b == n"),
        *("min(a, max(b, 3))", "floor(a / 16) * 16", "~exp(3)", "~uniform(a, b)", "queue(s)", "(a < b) + 1"),
    ],
)
def test_expressions_read_as_they_are_written(text: str) -> None:
    """The text of the IR is the program's, with the fewest parentheses."""
    source = (
        "fn main() { stage s : fifo; workload { arrive batch(1); turn { set a = 1; set b = 2; set n = 3; } }"
        f" server {{ set x = {text}; }} }}"
    )
    if text == "a < b == n":
        with pytest.raises(sqc.CompileError):
            sqc.compile(source=source)
        return
    (assigned,) = sqc.compile(source=source).ir.server
    assert isinstance(assigned, ir.Set)
    assert expression(assigned.value) == text


@pytest.mark.parametrize(
    ("value", "plain", "short"),
    [
        (200000.0, "200000", "200k"),
        (2e-5, "2e-5", "2e-5"),
        (1234567.0, "1.23457e6", "1.235M"),
        (9999.0, "9999", "9999"),
        (-25000.0, "-25000", "-25k"),
        (3e9, "3e9", "3G"),
        (float("inf"), "inf", "inf"),
        (0.0, "0", "0"),
    ],
)
def test_numbers(value: float, plain: str, short: str) -> None:
    assert (number(value), compact(value)) == (plain, short)


def test_long_texts_are_folded() -> None:
    assert folded("a + b + c + d", 5) == ["a + b", "+ c +", "d"]
    assert folded("aaa bbb ccc ddd", 3, 2) == ["aaa", "…"]


# ----------------------------------------------------------------------------- files


def test_files(tmp_path: Path) -> None:
    """Whole files of each kind, as wide as asked at most; the same picture is the same file."""
    program = sqc.compile(ROOT / "programs" / "05-engine.sq")
    figure = pictures.draw(program, width=12)
    assert figure.get_figwidth() * 2.54 < 12.5
    starts = {".png": b"\x89PNG\r\n\x1a\n", ".svg": b"<?xml", ".pdf": b"%PDF-"}
    ends = {".png": b"IEND\xaeB`\x82", ".svg": b"</svg>\n", ".pdf": b"%%EOF\n"}
    for suffix, start in starts.items():
        data = pictures.save(figure, tmp_path / f"a{suffix}").read_bytes()
        assert data.startswith(start)
        assert data.endswith(ends[suffix])
    assert pictures.save(figure, tmp_path / "b.svg").read_bytes() == (tmp_path / "a.svg").read_bytes()

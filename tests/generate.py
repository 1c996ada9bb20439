"""Random small programs for the comparison with the reference, as a hypothesis strategy.

A program is assembled from pieces that are valid by construction: arrivals, one or two stages and
a tool stage, no to two pools, a session of one of six shapes, and a server block with runs, holds,
branches, loops and observations. Two flavours of numbers: `real` draws are continuous, so no two
events meet; `whole` works, gaps and units are whole numbers, so events tie all the time and the
order of one instant decides the outcome.

Loads are moderate and runs short: what is looked for is a wrong rule, which shows at once, not a
small bias, which `test_closed_forms.py` looks for.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

FLAVOURS = ("real", "whole")
ARRIVALS = ("poisson", "renewal", "closed", "batch")


@dataclass(frozen=True)
class Case:
    """A program and the runs to compare: every seed at every setting of the inputs."""

    source: str
    horizon: float
    warmup: float
    arrivals: int | None
    seeds: tuple[int, ...]
    sets: tuple[dict[str, float], ...] = field(default=({},))


@dataclass
class _Names:
    """What the pieces may refer to."""

    whole: bool
    stages: list[str]
    pools: list[str]
    classes: bool = False
    grows: bool = False
    counter: int = 0

    def fresh(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"


def _number(draw: st.DrawFn, names: _Names, mean: float) -> str:
    """A draw with about this mean; positive, and a whole number in the whole flavour."""
    law = draw(st.sampled_from(("exp", "uniform", "erlang", "h2", "det", "bernoulli")))
    text = {
        "exp": f"~exp({mean})",
        "uniform": f"~uniform({mean / 4}, {mean * 7 / 4})",
        "erlang": f"~erlang(3, {mean})",
        "h2": f"~h2({mean}, 4)",
        "det": f"~det({mean})",
        "bernoulli": f"{mean / 2} + {mean} * ~bernoulli(0.5)",
    }[law]
    return f"ceil({text})" if names.whole else text


def _work(draw: st.DrawFn, names: _Names) -> str:
    """An amount of work: marks of the turn, or a draw of the session; sometimes 0."""
    options = ["w", "w", "scaled(w)", "w / 2 + 0.25" if not names.whole else "w + 1"]
    options.append(_number(draw, names, 1.0))
    options.append("max(w - 1, 0)")
    if names.classes:
        options += ["(heavy ? w + 1 : w)", "(heavy ? w : 0)"]
    if names.grows:
        options.append("w + K / 8" if not names.whole else "w + floor(K / 8)")
    return draw(st.sampled_from(options))


def _run(draw: st.DrawFn, names: _Names) -> list[str]:
    stage = draw(st.sampled_from(names.stages))
    return [f"run {stage} (cost({stage}, {_work(draw, names)}));"]


def _observe(draw: st.DrawFn, names: _Names) -> list[str]:
    stage = draw(st.sampled_from(names.stages))
    options = [
        *("now - t0", "now", "turn_no", "serial", "n", "w * w - n", "K + n"),
        *(f"queue({stage})", f"busy({stage})", f"queue({stage}) > 1"),
        *("min(n, 3) ^ 2 / 2", "ln(1 + n) + sqrt(w) - abs(n - w)", "floor(n / 2) == 1 || !(w > 1)", "exp(-w)"),
        "(n > 2 ? ~uniform(0, 1) : ~exp(2))",
    ]
    if names.pools:
        pool = draw(st.sampled_from(names.pools))
        options += [f"used({pool})", f"free({pool})", f"cachedin({pool})", f"holders({pool})", f"queued({pool})"]
        options.append(f"used({pool}) + free({pool}) >= 2 && queued({pool}) == 0")
    return [f"observe {names.fresh('seen')} = {draw(st.sampled_from(options))};"]


def _hold(draw: st.DrawFn, names: _Names, pool: str, depth: int) -> list[str]:
    units = draw(st.sampled_from(("n", "n", "K + n", "min(K + n, 6)", "1", "n / 2" if not names.whole else "n + 1")))
    cache = draw(st.sampled_from((None, units, units, "K + n", "floor(n / 2)", "0", "~uniform(0, 4)")))
    inner: list[str] = []
    if cache is not None and draw(st.booleans()):
        inner.append("set warm = cached >= K;")
        inner.append("observe hit = warm;")
        inner.append("observe kept = cached;")
    inner += _statements(draw, names, depth + 1, used=(pool,))
    tail = "}" if cache is None else f"}} cache (cost({pool}, {cache}));"
    return [f"hold {pool} (cost({pool}, {units})) {{", *_indented(inner), tail if cache is not None else "};"]


def _branch(draw: st.DrawFn, names: _Names, depth: int, used: tuple[str, ...]) -> list[str]:
    guards = [
        "branch with (0.4)",
        "branch (n > 2)",
        "branch (~bernoulli(0.5))",
        f"branch (queue({names.stages[0]}) > 1)",
    ]
    if names.classes:
        guards.append("branch (heavy)")
    then = _indented(_statements(draw, names, depth + 1, used))
    lines = [f"{draw(st.sampled_from(guards))} {{", *then]
    if draw(st.booleans()):
        lines += ["} else {", *_indented(_statements(draw, names, depth + 1, used))]
    return [*lines, "}"]


def _while(draw: st.DrawFn, names: _Names) -> list[str]:
    """At most three passes; every pass can let time pass, as the language asks."""
    variable = names.fresh("pass")
    stage = draw(st.sampled_from(names.stages))
    body = [f"run {stage} (cost({stage}, w));", f"set {variable} = {variable} + 1;"]
    return [f"set {variable} = 0;", f"while ({variable} < min(floor(n), 3)) {{", *_indented(body), "}"]


def _statements(draw: st.DrawFn, names: _Names, depth: int, used: tuple[str, ...] = ()) -> list[str]:
    """One to three server statements; holds nest on pools that are not held yet."""
    lines: list[str] = []
    free = [pool for pool in names.pools if pool not in used]
    for _ in range(draw(st.integers(1, 2 if depth else 3))):
        kinds = ["run", "run", "observe"]
        if depth < 2:
            kinds += ["branch", "while"] + ["hold"] * (3 * bool(free))
        kind = draw(st.sampled_from(kinds))
        if kind == "run":
            lines += _run(draw, names)
        elif kind == "observe":
            lines += _observe(draw, names)
        elif kind == "branch":
            lines += _branch(draw, names, depth, used)
        elif kind == "while":
            lines += _while(draw, names)
        else:
            lines += _hold(draw, names, draw(st.sampled_from(free)), depth)
    return lines


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _stage_kind(draw: st.DrawFn) -> str:
    kinds = (
        "fifo",
        "fifo(2)",
        "fifo(c)",
        "ps(1)",
        "ps(min(present, c))",
        "ps(1 + present / 4)",
        "ps(present)",
        "delay",
    )
    return draw(st.sampled_from(kinds))


def _session(draw: st.DrawFn, names: _Names, think: str) -> list[str]:
    """The session block; no lines stand for the default, one turn."""
    shape = draw(st.sampled_from(("none", "turn", "grow", "while", "count", "pair")))
    drops = [f"drop {pool};" for pool in names.pools if draw(st.booleans())]
    if shape == "none":
        return []
    if shape == "turn":
        body = ["turn;"]
    elif shape == "grow":
        names.grows = True
        ending = ["} else {", *_indented([*drops, "end;"]), "}"]
        body = ["loop {", *_indented(["turn;", "set K = K + n;", f"branch with (p) {{ tool ({think});", *ending]), "}"]
    elif shape == "while":
        body = ["turn;", f"while (cont) {{ set K = K + n; tool ({think}); turn; }}", *drops]
        names.grows = True
    elif shape == "count":
        tools = f"branch (heavy) {{ tool ({think}); }} else {{ tool (2); }}" if names.classes else "tool (2);"
        body = ["set left = 3;", "loop {", *_indented(["turn;", "set left = left - 1;"])]
        body += [*_indented(["branch (left == 0) { end; }", tools]), "}"]
    else:
        body = ["turn;", f"set z = {think};", "tool (z);", "observe thought = z;", "turn;", *drops]
    return ["session {", *_indented(body), "}"]


def _arrival(draw: st.DrawFn, names: _Names, kind: str, gap: float) -> str:
    if kind == "poisson":
        return f"poisson({'r' if draw(st.booleans()) else round(1 / gap, 3)})"
    if kind == "renewal":
        law = draw(st.sampled_from((f"~exp({gap})", f"~uniform(0.5, {2 * gap - 0.5})", f"~erlang(2, {gap})", f"{gap}")))
        return f"renewal(ceil({law}))" if names.whole else f"renewal({law})"
    return f"{kind}({draw(st.integers(1, 8))})"


@st.composite
def cases(draw: st.DrawFn, *, flavour: str | None = None, arrival: str | None = None) -> Case:
    """A program with its runs; `flavour` and `arrival` narrow it."""
    whole = (flavour or draw(st.sampled_from(FLAVOURS))) == "whole"
    arrival = arrival or draw(st.sampled_from(ARRIVALS))
    stages = ["alpha", "beta"][: draw(st.integers(1, 2))]
    pools = ["mem", "aux"][: draw(st.integers(0, 2))]
    names = _Names(whole, stages, pools, classes=draw(st.booleans()))

    think = _number(draw, names, 3.0)
    session = _session(draw, names, think)
    server = ["set t0 = now;", *_statements(draw, names, 0), *_observe(draw, names)]
    gap = 4.0 if session else 1.5

    init = ["set K = 0;"]
    if names.classes:
        init.append("set heavy = ~bernoulli(0.3);")
    units = "floor(~exp(2)) + 1" if whole or draw(st.booleans()) else "~exp(2)"
    turn = [f"set n = {units};", f"set w = {_number(draw, names, 0.8)};", "set cont = ~bernoulli(0.6);"]
    if draw(st.booleans()):
        turn.append("observe mark = n + w;")

    tool_stage = draw(st.sampled_from((None, None, "delay", "fifo(2)", "ps(2)")))
    caps = [draw(st.sampled_from(("C", "9", "12", "2 * c + 6"))) for _ in pools]
    lines = [
        'use "std/args";',
        "let c = 2;",
        "def scaled(x) { x + 0.5 * floor(x / 2) }" if not whole else "def scaled(x) { x + floor(x / 2) }",
        "fn main() {",
        '  let C = args.number("C", 10);',
        f'  let r = args.number("rate", {round(1 / gap, 3)});',
        '  let p = args.number("p", 0.7);',
        *(f"  pool {pool} {{ cap {cap}; evict lru; }}" for pool, cap in zip(pools, caps, strict=True)),
        *(f"  stage {stage} : {_stage_kind(draw)};" for stage in stages),
        *(f"  stage tool : {tool_stage};" for _ in range(tool_stage is not None)),
        "  workload {",
        f"    arrive {_arrival(draw, names, arrival, gap)};",
        f"    init {{ {' '.join(init)} }}",
        f"    turn {{ {' '.join(turn)} }}",
        *_indented(_indented(session)),
        "  }",
        "  server {",
        *_indented(_indented(server)),
        "  }",
        "}",
        "",
    ]
    limited = arrival in ("poisson", "renewal") and draw(st.integers(0, 3)) == 0
    seeds = draw(st.integers(1, 10**6))
    return Case(
        source="\n".join(lines),
        horizon=10_000.0 if limited else float(draw(st.sampled_from((100, 250, 400)))),
        warmup=float(draw(st.sampled_from((0, 8, 25)))),
        arrivals=60 if limited else None,
        seeds=(seeds, seeds + 1, seeds + 2),
        sets=({}, {"C": float(draw(st.sampled_from((4, 7, 40)))), "rate": 1.25 / gap, "p": 0.85}),
    )

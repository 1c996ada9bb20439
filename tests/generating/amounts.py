"""Expressions of generated programs: works, units, tests, keys and what is observed.

Every expression is safe where it is used: works and units come out at least 0, tests 0 or 1, indices
in range, and none reads a variable outside its moment.
"""

from __future__ import annotations

from generating.pieces import Option
from generating.world import Place, World


def law(world: World, mean: float) -> str:
    """A draw with about this mean: positive, and a whole number in a whole-number program."""
    text = world.pick.one(
        (
            f"~exp({mean})",
            f"~uniform({mean / 4}, {mean * 7 / 4})",
            f"~erlang(3, {mean})",
            f"~h2({mean}, 4)",
            f"~det({mean})",
            f"({mean / 2} + {mean} * ~bernoulli(0.5))",
        )
    )
    return f"ceil({text})" if world.whole else text


def work(world: World, *, still: bool = False) -> Option:
    """An amount of work on a stage; a `still` one reads nothing that changes while statements run."""
    options = ["w", "w", "w", law(world, 1.0), "w + 1" if world.whole else "w / 2 + 0.25", "1"]
    if world.has("zero"):
        options += ["max(w - 1, 0)", "(pri > 0 ? w : 0)"]
    if "turns" in world.on:
        options.append("w + floor(K / 8)" if world.whole else "w + K / 8")
    if world.has("definition"):
        options += ["scaled(w)", "later(w)", "drawn()"]
    if world.has("hidden"):
        options += ["h"] * 3
    if world.has("state") and not still:
        options.append(f"w + min({live(world)}, 3)" if not world.whole else f"w + floor(min(max({live(world)}, 0), 3))")
    return Option(_at_least_0(world.pick.one(options)), ("1", "w"))


def _at_least_0(text: str) -> str:
    """A difference of observables, or an amount that is an ulp below 0, is no work."""
    return f"max({text}, 0)" if "min(" in text else text


def units(world: World, cap: int) -> str:
    """Units of a hold: they read sizes alone, so that the text can be repeated elsewhere."""
    options = ["n", "n", "n", "m", "1", "2", f"min(n + m, {cap})", "n + 1"]
    if "turns" in world.on:
        options += ["K + n"] if "reject" in world.on else []
        options += [f"min(K + n, {cap - 2})"] * 2
    if world.has("reject"):
        options += [f"(n > 3 ? {cap + 1} : n)", f"n * {cap / 4:g}"]
    if world.has("zero"):
        options += ["0", "max(n - 2, 0)"]
    if not world.whole:
        options += ["n / 2", "n * 1.25"]
    return world.pick.one(options)


def live(world: World, *, constant: bool = False, gauge: bool = False) -> str:
    """An observable of a pool or a stage; `gauge`: one that a gauge may read."""
    options: list[str] = []
    if world.outside and world.pick.chance(30):
        return world.pick.one(world.outside)
    if world.pools and world.pick.chance(60):
        pool = world.ref(world.pick.one(world.pools), constant=constant)
        options += [f"{kind}({pool})" for kind in ("used", "free", "holders", "queued")]
        options += [] if gauge else [f"cachedin({pool})"]
    else:
        stage = world.ref(world.pick.one(world.servers), constant=constant)
        options += [f"queue({stage})", f"busy({stage})"]
        options += [f"work({stage})"] if world.weighs and not gauge else []
        if world.has("estimates", 60) and not gauge:
            options = [f"est_lambda({stage})", f"est_rho({stage})", f"est_wait({stage})", f"price({stage}, w, 0.5)"]
    if world.has("aggregate", 50) and world.arrays:
        one = world.pick.one(world.arrays)
        kind = "used" if one in world.pools else "queue"
        return f"({world.pick.one(('max', 'min', 'sum'))} k in {one.size} ({kind}({one.name}[k])))"
    return world.pick.one(options)


def test(world: World) -> str:
    """A guard: 0 or 1."""
    options = ["~bernoulli(0.5)", "n > 2", "pri == 0", "w > 1", "!(m == 1) && n < 4", "serial / 2 == floor(serial / 2)"]
    if world.has("state"):
        options = [
            f"{live(world)} > {world.pick.whole(0, 3)}",
            f"{live(world)} <= {live(world)}",
            "(now > 15 || n > 2)",
        ]
    return world.pick.one(options)


def value(world: World, place: Place) -> str:
    """Anything that can be observed."""
    options = [
        *("now - t0", "now - t0", "now", "turn_no", "serial", "n", "K + n", "computed", "w * w - n"),
        *("min(n, 3) ^ 2 / 2", "ln(1 + n) + sqrt(w) - abs(n - w)", "floor(n / 2) == 1 || !(w > 1)", "exp(-w)"),
        "(n > 2 ? ~uniform(0, 1) : ~exp(2))",
    ]
    if world.has("state"):
        options = [live(world), live(world), f"{live(world)} - 2 * {live(world)}", f"{live(world)} > 1"]
    if place.cached:
        options += ["cached", "cached >= K", "cached"]
    return world.pick.one(options)


def look(world: World) -> str:
    """State right where it is read: the most telling observation, so most programs have several."""
    if world.outside and world.pick.chance(50):
        return world.pick.one(world.outside)
    if world.pools and world.pick.chance(65):
        pool = world.ref(world.pick.one(world.pools))
        kinds = ("used", "free", "holders", "queued", "cachedin", "used", "cachedin")
        return f"{world.pick.one(kinds)}({pool})"
    works = ("est_lambda", "est_rho", "est_wait") if world.has("estimates", 70) else ("queue", "busy", "work")
    if world.engines and world.pick.chance(50):
        return f"{world.pick.one((*works, 'budget_left'))}({world.ref(world.pick.one(world.engines))})"
    return f"{world.pick.one(works)}({world.ref(world.pick.one(world.servers))})"


def keys(world: World, moment: str, pool: str) -> str:
    """One to three keys of a policy. `moment` is queue, evict or preempt; `pool` a text that names the pool.

    Eviction keys may draw, but not here: the reference reads the entries in an order that changes from
    run to run, so its own runs of such a program differ.
    """
    options = ["pri", "n", "-n", "serial", "-serial", "K", "turn_no", "0", "pri > 0"]
    options += {
        "queue": ["waited", "waited >= 2 ? 0 : 1", "-waited", "m", f"cachedin({pool})", "(waited > 3 ? 0 : n)"],
        "evict": ["size", "-size", "age", "-age", "last", "waiting", "-waiting", "waiting", "(size > 2 ? age : 0)"],
        "preempt": ["admission", "-admission", "position", "-position", "m"],
    }[moment] * 2
    if world.has("state", 40):
        options += [f"({live(world, constant=True)} > 1 ? n : 0)", "(now > 20 ? pri : 0)"] * 4
    return ", ".join(world.pick.some(options, 3))

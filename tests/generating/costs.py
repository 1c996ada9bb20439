"""The ways to say an amount of a resource: a cost in place, named before, in a record, or made of several."""

from __future__ import annotations

from generating.pieces import Option, Part, Piece, piece
from generating.world import World


def spent(world: World, name: str, amount: Option | str, *, named: bool = True) -> tuple[list[Piece], list[Part]]:
    """An amount as a cost of a pool or stage: the statements that must come before, and the cost.

    Only a `named` one may need statements before it: not where the amount reads what changes until it is used.
    """
    plain: list[Part] = [f"cost({name}, ", amount, ")"]
    if not world.has("costs", 60):
        return [], plain
    kind = world.pick.whole(0 if named else 3, 6)
    if kind == 0:
        cost = world.fresh("c")
        return [piece(world.pick.one(("Cost ", "set ")), f"{cost} = ", *plain, ";")], [cost]
    if kind == 1:
        cost = world.fresh("c")
        return [piece(f"Cost {cost} = {{ {name}: ", amount, " };")], [f"{cost}.{name}"]
    if kind == 2:
        cost = world.fresh("c")
        also = piece(f"observe {world.observe()} = {cost} > cost({name}, 1);")
        return [piece(f"Cost {cost} = ", *plain, ";"), also], [cost]
    if kind == 3:
        return [], [*plain, f" + cost({name}, {world.pick.one(('0', '1'))})"]
    if kind == 4:
        return [], ["min(", *plain, f", cost({name}, 4))"]
    if kind == 5:
        return [], ["(pri > 0 ? ", *plain, f" : cost({name}, 1))"]
    return [], ["2 * ", *plain, " / 2"]

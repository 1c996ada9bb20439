"""The statements that a transfer stands for: waits, one run over its stages, the load, the release."""

from __future__ import annotations

from collections.abc import Sequence

from sqc.diagnostics import Place
from sqc.stations.model import Station
from sqc.syntax import tree


def cost(resources: Sequence[tree.Ref], amount: tree.Expr) -> tree.Expr:
    """`cost(r1, r2, amount)`; the families of the resources are what counts."""
    families = [ref.base if isinstance(ref, tree.Index) else ref for ref in resources]
    return tree.Call(amount.place, tree.Name(amount.place, "cost"), (*families, amount))


def run(place: Place, stages: tuple[tree.Ref, ...], work: tree.Expr) -> tree.Run:
    return tree.Run(place, stages, None, cost(stages, work), None)


def arrival(place: Place, source: tree.Ref, target: tree.Ref, units: tree.Expr) -> tuple[tree.Stmt, ...]:
    """What ends every transfer: the units are there, and the source's are given back."""
    return (tree.Load(place, target, cost((target,), units)), tree.Release(place, source))


def waits(place: Place, stages: Sequence[tree.Ref], stations: dict[str, Station]) -> tuple[tree.Stmt, ...]:
    """The latencies of the links among some stages, in the order named."""
    made: list[tree.Stmt] = []
    for ref in stages:
        name, index = (ref.base, ref.index) if isinstance(ref, tree.Index) else (ref, None)
        link = stations.get(name.id) if isinstance(name, tree.Name) else None
        if link is not None and link.latency is not None:
            made.append(run(place, (link.ref("latency", ref.place, index),), link.latency))
    return tuple(made)

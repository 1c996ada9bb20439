"""What the contexts of holds are made of, as code: `prefix` clauses, read at the admission and kept with the hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sqc_runtime.content import Content, unbounded
from sqc_runtime.core import INF
from sqc_runtime.memory import Layout, Memory

from .. import ir
from . import errors
from .expressions import Scope, evaluate, number
from .plan import Site


@dataclass(frozen=True)
class Shape:
    """Which pools know the contents of what they cache, and how long contents are."""

    pools: frozenset[str]
    segments: int
    mixed: bool
    """Whether some holds say what their context is made of and others do not: then contents begin with which."""


def shape_of(program: ir.Program) -> Shape:
    keeping = [hold for hold in _holds(program) if hold.cache is not None]
    pools = {part.pool.name for hold in keeping if hold.prefix for part in hold.parts}
    pools |= {pool.name for pool in program.pools if pool.slots is not None}
    there = [hold for hold in keeping if any(part.pool.name in pools for part in hold.parts)]
    mixed = any(hold.prefix for hold in there) and not all(hold.prefix for hold in there)
    return Shape(frozenset(pools), max((len(hold.prefix) for hold in there), default=1) + mixed or 1, mixed)


def _holds(program: ir.Program) -> list[ir.Hold]:
    return [node for node in ir.walk((program.session, program.server)) if isinstance(node, ir.Hold)]


class Contexts:
    def __init__(self, program: ir.Program, shape: Shape, layout: Layout):
        self.shape, self._layout = shape, layout
        keeping = [hold for hold in _holds(program) if hold.cache is not None]
        self._clauses = {
            name: next(hold for hold in keeping if any(part.pool.name == name for part in hold.parts))
            for name in shape.pools
        }
        """For each pool a hold that keeps something there: where `cachedin` is read, all have the same clause."""
        self._saved: dict[int, int] = {}
        self.serial: Callable[[Memory, Any], Any]
        """Set by the context: the number of the session that a slot belongs to."""

    def knows(self, pool: str) -> bool:
        return pool in self.shape.pools

    def of(self, hold: ir.Hold, s: Scope, slot: Any) -> Content:
        """The content of a hold's context, as it would be admitted now."""
        m = s.m
        if hold.prefix:
            keys = [number(evaluate(segment.key, s)) for segment in hold.prefix]
            lengths = [number(evaluate(segment.length, s)) for segment in hold.prefix]
            for key, length in zip(keys, lengths, strict=True):
                assert s.fail is not None
                s.fail(~((key == key) & (length >= 0)), errors.PREFIX)
        else:
            keys, lengths = [self.serial(m, slot)], [m.full(INF, np.float64)]
        nothing = m.full(0.0, np.float64)
        if self.shape.mixed:
            keys, lengths = [m.full(float(not hold.prefix), np.float64), *keys], [nothing, *lengths]
        more = [nothing] * (self.shape.segments - len(keys))
        return Content([*keys, *more], [*lengths, *more])

    def _last(self, hold: ir.Hold) -> int:
        return max(len(hold.prefix), 1) - 1 + self.shape.mixed

    def reserve(self, site: Site) -> None:
        """Slot fields for the content of a hold."""
        self._saved[site.index] = self._layout.field("f", f"hold{site.index}.content", 2 * self.shape.segments)

    def remember(self, m: Memory, site: Site, at: Callable[[int], Any], content: Content) -> None:
        for k, value in enumerate((*content.keys, *content.lengths)):
            m.setf(at(self._saved[site.index] + k), value)

    def recall(self, m: Memory, site: Site, at: Callable[[int], Any]) -> Content:
        """The content that a hold was admitted with, as its context goes on."""
        values = [m.f(at(self._saved[site.index] + k)) for k in range(2 * self.shape.segments)]
        content = Content(values[: self.shape.segments], values[self.shape.segments :])
        return unbounded(m, content, self._last(site.hold))

    def clause(self, pool: str) -> ir.Hold:
        """A hold whose prefix clause `cachedin` reads along."""
        return self._clauses[pool]

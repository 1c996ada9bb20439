"""What a pool's policies say, as code: the order of its queue, its victims, where evicted units go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sqc_runtime.cache import Cache
from sqc_runtime.entries import Entries
from sqc_runtime.memory import Memory
from sqc_runtime.ops import lesser
from sqc_runtime.pools import Pool

from .. import ir
from .context import Context
from .expressions import Scope, evaluate, number

U32 = np.uint32


def eviction_attributes(program: ir.Program, pool: ir.Pool) -> set[str]:
    """Attributes of the owner that eviction keys and spill clauses read of an entry: the pool's own, and with
    spilling those of every pool, because units of ended sessions take them along."""
    pools = program.pools if any(p.spill for p in program.pools) else (pool,)
    clauses = [e for p in pools for e in (*p.evict, *((p.spill.work, p.spill.when) if p.spill else ()))]
    return {node.name for node in ir.walk(tuple(clauses)) if isinstance(node, ir.Attr)}


def reads_release(pool: ir.Pool) -> bool:
    """Whether they read when an entry was released."""
    spill = (pool.spill.work, pool.spill.when) if pool.spill else ()
    nodes = ir.walk((*pool.evict, *spill))
    return any(isinstance(node, ir.Context) and node.name in ("age", "last") for node in nodes)


@dataclass
class Spilled:
    """Of a victim: its session (slot 0 once that is forgotten), whether what it loses is spilled, the work of that."""

    owner: Any
    serial: Any
    attributes: dict[int, Any]
    goes: Any
    work: Any


class Policies:
    """`vanish`: the segment of a job for which nobody waits."""

    def __init__(self, context: Context, vanish: int):
        self.context, self._vanish = context, vanish

    def queue_keys(self, m: Memory, name: str, slot: Any) -> Sequence[Any]:
        """The keys of a waiting session, now."""
        declared, pool = self.context.declared[name], self.context.pools[name]
        s = self.context.scope(m, slot, declared)
        s.context = {"waited": pool.waited(m, slot)}
        return [number(evaluate(key, s)) for key in declared.queue]

    # -- eviction
    def _entry_scope(self, m: Memory, name: str, node: Any, size: Any) -> Scope:
        """What an eviction key of an entry sees: its owner's attributes, or their copy once that has ended."""
        context, pool = self.context, self.context.pools[name]
        cache, core = pool.cache, context.core
        assert isinstance(cache, Entries)
        owner = m.u(cache.owner + node)
        lives = context.lives(m, owner)

        def attribute(attr: str) -> Any:
            field = context.attributes[attr]
            (value,) = m.either(
                lives,
                lambda: (m.f(core.sf(owner, field)),),
                lambda: (m.f(cache.snapshot[field] + node),),
            )
            return value

        values = {"size": size, "waiting": (m.u(core.su(owner, context.waits_at)) != 0).astype(np.float64)}
        if cache.released is not None:
            last = m.f(cache.released + node)
            values |= {"last": last, "age": m.f(core.now) - last}
        declared = self.context.declared[name]
        outside = context.constants(m, declared)

        def read(kind: str, ref: ir.Ref) -> Any:
            """Observables; `cachedin` is the owner's, 0 once it has ended."""
            assert outside.read is not None
            if kind != "cachedin":
                return outside.read(kind, ref)
            of_owner = context.scope(m, owner, declared).read
            assert of_owner is not None
            (value,) = m.when(lives, lambda: (of_owner(kind, ref),), (m.full(0.0, np.float64),))
            return value

        s = replace(outside, attribute=attribute, read=read, context=values)
        s.draws = context.prefetch.eviction(m)
        return s

    def room(self, m: Memory, name: str, units: Any, i: Any) -> None:
        """Evict until so many more units can be allocated."""
        pool = self.context.pools[name]
        if not isinstance(pool.cache, Entries):
            return  # it has no cache, or one that lies within what is held

        def evict() -> tuple[Any, ...]:
            self._evict(m, pool, name, i)
            return ()

        m.loop(lambda: pool.lacks_room(m, units, i), evict)

    def _evict(self, m: Memory, pool: Pool, name: str, i: Any) -> None:
        cache, declared = pool.cache, self.context.declared[name]
        assert isinstance(cache, Entries)
        victim = cache.first(m, i)
        if declared.evict:

            def keys(node: Any) -> Sequence[Any]:
                s = self._entry_scope(m, name, node, m.f(cache.size + node))
                return [number(evaluate(key, s)) for key in declared.evict]

            victim = cache.least(m, i, keys)
        tail = pool.tail_block(m, i)
        spilled = self._spilling(m, name, victim, tail) if declared.spill else None
        removed, vanished = cache.evict(m, victim, i, tail)
        pool.evicted(m, removed, vanished, i)
        if spilled is not None:
            self._spill(m, pool, declared, removed, spilled, i)

    def _spilling(self, m: Memory, name: str, victim: Any, tail: Any) -> Spilled:
        cache, spill = self.context.pools[name].cache, self.context.declared[name].spill
        assert isinstance(cache, Cache)
        assert spill is not None
        size = m.f(cache.size + victim)
        s = self._entry_scope(m, name, victim, size if tail is None else lesser(size, tail))
        spills = number(evaluate(spill.when, s)) != 0
        (work,) = m.when(spills, lambda: (number(evaluate(spill.work, s)),), (m.full(0.0, np.float64),))
        assert cache.serial is not None
        attributes = cache.attributes_of(m, victim)
        return Spilled(m.u(cache.owner + victim), m.f(cache.serial + victim), attributes, spills, work)

    def _spill(self, m: Memory, pool: Pool, declared: ir.Pool, units: Any, spilled: Spilled, i: Any) -> None:
        """Evicted units become part of the owner's entry in the next pool; moving them is a job."""
        context, spill = self.context, declared.spill
        assert spill is not None
        name = spill.pool.name
        target, stage = context.pools[name], context.stages[spill.stage.name]
        cache = target.cache
        assert isinstance(cache, Cache)
        s = context.constants(m, declared)

        def move() -> None:
            m.addf(pool.counter("spills", i), 1.0)
            j = context.index(spill.pool, target.members, s, declared)
            self.room(m, name, m.full(0.0, np.float64), j)  # within its cap before it grows

            cache.keep_for(m, spilled.owner, spilled.serial, spilled.attributes, units, j)
            m.when(spilled.work > 0, carry)

        def carry() -> None:
            core = context.core
            slot = core.allocate(m)
            m.addf(core.others, 1.0)
            m.setu(core.su(slot, core.pc), U32(self._vanish))
            stage.begin(m, slot, spilled.work, context.index(spill.stage, stage.members, s, declared))

        m.when(spilled.goes, move)

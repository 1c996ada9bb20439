"""Shared prefixes: what a `prefix` clause may be made of, and pools with one history."""

from __future__ import annotations

from collections.abc import Iterator

from sqc.check.reads import member, reads
from sqc.check.scope import Resource, Scope, family
from sqc.check.structure import word
from sqc.check.values import Values
from sqc.diagnostics import Note, Reporter
from sqc.syntax import tree


def check_prefixes(scope: Scope, values: Values, reporter: Reporter) -> None:
    """Report prefix clauses, options of pools with one history and checkpoints that have no meaning."""
    prefixes = _Prefixes(scope, values, reporter)
    for pool in scope.pools.values():
        prefixes.options(pool)
    for _, block in scope.blocks():
        for node in tree.walk(block):
            if isinstance(node, tree.Hold):
                prefixes.hold(node)
            elif isinstance(node, tree.Checkpoint):
                prefixes.checkpoint(node)
            elif isinstance(node, tree.Drop):
                prefixes.drop(node)
    for node in _nodes(scope):
        if isinstance(node, tree.Call):
            prefixes.cachedin(node)


def _nodes(scope: Scope) -> Iterator[tree.Node]:
    for item in scope.items:
        yield from tree.walk(item)


class _Prefixes:
    def __init__(self, scope: Scope, values: Values, reporter: Reporter) -> None:
        self.scope, self.values, self.reporter = scope, values, reporter
        self.single = {name for name, pool in scope.pools.items() if any(True for _ in pool.options("history one"))}
        """Pools with one history."""
        self.clauses: dict[str, list[tree.Hold]] = {}
        """For each pool the holds that keep a prefix there."""
        for _, block in scope.blocks():
            for node in tree.walk(block):
                if isinstance(node, tree.Hold) and node.cache is not None:
                    for name in dict.fromkeys(family(part.pool) for part in node.parts):
                        self.clauses.setdefault(name, []).append(node)
        shared = {name for name, holds in self.clauses.items() if any(hold.prefix for hold in holds)}
        self.sharing = shared | self.single
        """Pools whose prefixes are shared."""

    # ----------------------------------------------------------------- pools

    def options(self, pool: Resource) -> None:
        assert isinstance(pool.item, tree.Pool)
        name = pool.item.name.id
        if name not in self.single:
            for option in (*pool.options("slots"), *pool.options("retain lru"), *pool.options("retain fifo")):
                message = f"`{option.word.split()[0]}` is for a pool with one history, and `{name}` has many entries"
                self.reporter.error("E805", message, word(option), "write history one; before it")
            return
        if not any(True for _ in pool.options("slots")):
            message = f"the pool `{name}` has one history and no `slots`"
            self.reporter.error("E805", message, pool.item.name.place, "say how many checkpoints it keeps: slots 6;")
        for option in pool.item.options:
            if option.word.split()[0] in ("block", "evict", "spill", "preempt", "reserve"):
                message = f"`{option.word}` is for pools with many entries, and `{name}` has one history"
                self.reporter.error("E805", message, word(option), "its checkpoints leave as `retain` says")

    # ----------------------------------------------------------------- holds

    def hold(self, node: tree.Hold) -> None:
        self.nested(node)
        self.fits(node)
        for part in node.parts if node.cache is None and not node.prefix else ():
            if family(part.pool) in self.single:
                message = f"a hold of `{family(part.pool)}`, which has one history, has a `cache` clause"
                advice = "`cache (0)` resumes from its checkpoints and leaves no live session"
                self.reporter.error("E801", message, node.header, advice)
        if not node.prefix:
            return
        if node.cache is None:
            notes = [Note("this hold has no `cache` clause", node.header)]
            message = "`prefix` without a `cache` clause: such a hold reads nothing that is cached"
            self.reporter.error("E801", message, node.prefix[0].place, notes=notes)
        for segment in node.prefix:
            for name, at in reads(segment):
                if name in ("cached", "computed"):
                    message = f"a prefix may not read `{name}`, which admissions set"
                    self.reporter.error("E802", message, at.place)

    def fits(self, node: tree.Hold) -> None:
        """Leases and spills are of units that one session has, which those of a shared prefix are not."""
        names = dict.fromkeys(family(part.pool) for part in node.parts)
        if node.lease is not None and family(node.lease.pool) in self.sharing:
            name = family(node.lease.pool)
            message = f"`lease` of `{name}`, whose prefixes are shared: what others read cannot be leased"
            self.reporter.error("E803", message, node.lease.place)
        spills = {name: [*pool.options("spill")] for name, pool in self.scope.pools.items()}
        for name in names if node.prefix else ():
            into = [option for options in spills.values() for option in options if family(option.values[0]) == name]
            for option in (*spills[name], *into):
                notes = [Note("it spills here", option.place)]
                message = f"`prefix` in a hold of `{name}` and `spill`: units of a shared prefix have no one owner"
                self.reporter.error("E803", message, node.prefix[0].place, notes=notes)

    def nested(self, node: tree.Hold) -> None:
        mine = {member(part.pool, self.values): part for part in node.parts if family(part.pool) in self.single}
        for inner in tree.walk(node.body) if mine else ():
            for part in inner.parts if isinstance(inner, tree.Hold) else ():
                outer = mine.get(member(part.pool, self.values))
                if outer is not None:
                    notes = [Note("held here", outer.pool.place)]
                    message = f"`{tree.dotted(part.pool)}` has one history, which the hold around this one has"
                    self.reporter.error("E807", message, part.pool.place, notes=notes)

    def checkpoint(self, node: tree.Checkpoint) -> None:
        name = family(node.pool)
        if name not in self.single:
            notes = [Note("the pool is declared here", self.scope.pools[name].place)]
            message = f"`checkpoint` of `{name}`, which keeps prefixes at the end of a hold"
            self.reporter.error("E806", message, word(node), notes=notes)

    def drop(self, node: tree.Drop) -> None:
        name = family(node.pool)
        if name in self.single:
            message = f"`drop` of `{name}`, whose history is no session's own"
            advice = "leave it out: the next admission overwrites what does not fit it"
            self.reporter.error("E805", message, word(node), advice)

    # ----------------------------------------------------------------- reading

    def cachedin(self, node: tree.Call) -> None:
        """It reads along the prefix of the pool's holds, so there must be one."""
        if not (isinstance(node.callee, tree.Name) and node.callee.id == "cachedin" and node.args):
            return
        pool = family(node.args[0])
        holds = self.clauses.get(pool, [])
        for hold in holds[1:]:
            first = holds[0]
            if _written(hold) != _written(first):
                notes = [Note("one is here", first.header), Note("another here", hold.header)]
                message = f"`cachedin({pool})` reads along a prefix, and the holds of `{pool}` name different ones"
                self.reporter.error("E804", message, node.place, notes=notes)
                return


def _written(hold: tree.Hold) -> tuple[str, ...]:
    """A prefix clause, as far as two are the same."""
    return tuple(f"{segment.key!r}: {segment.length!r}" for segment in hold.prefix)

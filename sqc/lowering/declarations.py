"""A whole program: its parts in the order of the text."""

from __future__ import annotations

from collections.abc import Callable

from sqc import ir
from sqc.check.language import BUILT_IN, TRACED
from sqc.check.scope import Resource
from sqc.lowering.expressions import is_test
from sqc.lowering.steps import Steps
from sqc.syntax import tree


class Declarations(Steps):
    """The program that a checked scope is."""

    def program(self) -> ir.Program:
        scope = self.scope
        stages = [self.stage(s) for s in scope.stages.values()]
        if self.needs_tool():
            stages.append(ir.Stage("tool", ir.Delay()))
        init, turn, server = map(self.block, (scope.init, scope.turn, scope.server))
        session = self.block(scope.session) if scope.session else (ir.Turn(),)
        return ir.Program(
            inputs=tuple(scope.inputs.values()),
            attributes=self.attributes((init, turn, session, server)),
            pools=tuple(self.pool(p) for p in scope.pools.values()),
            stages=tuple(stages),
            arrival=self.arrival(),
            init=init,
            turn=turn,
            session=session,
            server=server,
            observes=self.observes(),
            gauges=tuple(ir.Gauge(g.name.id, self.expr(g.value), self.span(g.place)) for g in scope.gauges),
            claims=tuple(self.claim(c) for c in scope.claims),
            share=scope.shares[0].word if scope.shares else "",
            trace=scope.corpus,
            file=self.source.file,
            source=self.source.text,
        )

    def attributes(self, blocks: tuple[tuple[ir.Stmt, ...], ...]) -> tuple[str, ...]:
        """The trace's columns and what the statements assign, in order of appearance."""
        assigned = {node.name for node in ir.walk(blocks) if isinstance(node, ir.Set | ir.Choose)}
        names = list(TRACED) if self.scope.corpus is not None else []
        for name in self.scope.attributes:
            record = self.scope.records.get(name)
            fields = [name] if record is None else [f"{name}.{f.name.id}" for f in record.record]
            names.extend(f for f in fields if f in assigned and f not in (*names, *BUILT_IN))
        return tuple(names)

    # ----------------------------------------------------------------- resources

    def pool(self, pool: Resource) -> ir.Pool:
        found: dict[str, tree.Option] = {}
        assert isinstance(pool.item, tree.Pool)
        for option in pool.item.options:
            found[option.word] = option
        preemption = next((option for word, option in found.items() if word.startswith("preempt")), None)
        _, preempt, *requeue = preemption.word.split() if preemption is not None else ("", "none")
        return ir.Pool(
            name=pool.item.name.id,
            cap=self.expr(found["cap"].values[0]) if "cap" in found else ir.Const(float("inf")),  # type: ignore[arg-type]
            size=pool.size,
            block=self.expr(found["block"].values[0]) if "block" in found else None,  # type: ignore[arg-type]
            evict=self.keys(found.get("evict by")),
            queue=self.keys(found.get("queue by")),
            preempt=preempt,
            preempt_keys=self.keys(preemption),
            requeue="tail" if requeue else "head",
            reserve_held="reserve held" in found,
            spill=self.spill(found.get("spill")),
            span=self.span(pool.item.place),
            admit_via=self.ref(found["admit via"].values[0]) if "admit via" in found else None,  # type: ignore[arg-type]
            slots=self.expr(found["slots"].values[0]) if "slots" in found else None,  # type: ignore[arg-type]
            retain="fifo" if "retain fifo" in found else "lru",
        )

    def keys(self, option: tree.Option | None) -> tuple[ir.Expr, ...]:
        if option is None:
            return ()
        return tuple(self.expr(key) for key in option.values)  # type: ignore[arg-type]

    def spill(self, option: tree.Option | None) -> ir.Spill | None:
        if option is None:
            return None
        pool, stage, work, when = option.values
        return ir.Spill(self.ref(pool), self.ref(stage), self.expr(work), self.expr(when))  # type: ignore[arg-type]

    def stage(self, stage: Resource) -> ir.Stage:
        assert isinstance(stage.item, tree.Stage)
        kind: ir.Fifo | ir.Ps | ir.Delay | ir.Step = ir.Delay()
        written = stage.item.kind
        if written.word == "fifo":
            kind = ir.Fifo() if written.value is None else ir.Fifo(self.expr(written.value))
        elif written.word == "ps":
            assert written.value is not None
            kind = ir.Ps(self.expr(written.value))
        elif stage.is_step:
            kind = self.step(written)
        return ir.Stage(stage.item.name.id, kind, stage.size, self.span(stage.item.place))

    def needs_tool(self) -> bool:
        """Is there a `tool` statement without a stage of that name?"""
        if "tool" in self.scope.stages:
            return False
        return any(
            isinstance(node, tree.Serve) and node.word == "tool" and node.on is None
            for item in self.scope.items
            for node in tree.walk(item)
        )

    # ----------------------------------------------------------------- the workload, and what is reported

    def arrival(self) -> ir.Arrival:
        arrive = self.scope.arrive
        if arrive is None or arrive.value is None:
            return ir.NoArrivals()
        kinds: dict[str, Callable[[ir.Expr, ir.Span | None], ir.Arrival]] = {
            "poisson": ir.Poisson,
            "renewal": ir.Renewal,
            "closed": ir.Closed,
            "batch": ir.Batch,
        }
        return kinds[arrive.word](self.expr(arrive.value), self.span(arrive.place))

    def observes(self) -> tuple[ir.ObserveDecl, ...]:
        return tuple(
            ir.ObserveDecl(name, all(is_test(o.value) for o in found))
            for name, found in self.scope.observations.items()
        )

    def claim(self, claim: tree.Claim) -> ir.Claim:
        kind = "at_end" if claim.stage is None else f"{claim.word}_iteration"
        stage = None if claim.stage is None else self.ref(claim.stage)
        value, given = self.expr(claim.value), self.maybe(claim.given)
        return ir.Claim(claim.name.id, value, given, self.span(claim.place), kind, stage)

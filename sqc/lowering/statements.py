"""Statements of the session and the server, and of the marks."""

from __future__ import annotations

from sqc import ir
from sqc.check.language import LINKS
from sqc.check.reads import reads
from sqc.check.scope import Scope, family
from sqc.diagnostics import Place, Source
from sqc.lowering.expressions import Expressions, is_live
from sqc.passes.fold import fold
from sqc.syntax import tree


class Statements(Expressions):
    """The statements of one program; spans are in its own text."""

    def __init__(self, scope: Scope, source: Source) -> None:
        super().__init__(scope)
        self.source = source

    def span(self, place: Place) -> ir.Span | None:
        """Where it stands in the program's own file: the innermost place that is in it; None if it stands in
        another one (a workload's)."""
        while place.source is not self.source and place.via is not None:
            place = place.via
        return place.span if place.source is self.source else None

    def block(self, block: tree.Block | None) -> tuple[ir.Stmt, ...]:
        return tuple(s for written in (block.body if block else ()) for s in self.statement(written))

    def statement(self, node: tree.Stmt) -> tuple[ir.Stmt, ...]:
        span = self.span(node.place)
        match node:
            case tree.Turn():
                return (ir.Turn(span),)
            case tree.End():
                return (ir.End(span),)
            case tree.Set(name=name, value=value):
                return (ir.Set(name.id, self.expr(value), span),)
            case tree.CostRecord(name=name, record=record):
                return tuple(ir.Set(f"{name.id}.{f.name.id}", self.expr(f.value), span) for f in record)
            case tree.Observe(name=name, value=value):
                return (ir.Observe(name.id, self.expr(value), span),)
            case tree.Branch(guard=guard, then=then, other=other):
                test = self.expr(guard)
                if node.probability:
                    test = ir.Draw("bernoulli", (test,))
                return (ir.Branch(test, self.block(then), self.block(other), span),)
            case tree.Loop(body=body):
                return (ir.Loop(self.block(body), span),)
            case tree.While(guard=guard, body=body):
                return (ir.While(self.expr(guard), self.block(body), span),)
            case tree.Choose(name=name, count=count, keys=keys):
                return (ir.Choose(name.id, self.expr(count), tuple(map(self.expr, keys)), span),)
            case tree.Fork(body=body):
                return (ir.Fork(self.block(body), span),)
            case tree.Join():
                return (ir.Join(span),)
            case tree.Hold():
                return (self.hold(node),)
        return self.action(node, span)

    def action(self, node: tree.Stmt, span: ir.Span | None) -> tuple[ir.Stmt, ...]:
        """Statements that name a pool or stages."""
        match node:
            case tree.Run(stages=stages, work=work, mode=mode, growing=growing):
                return (self.run(tuple(map(self.ref, stages)), work, span, mode, growing),)
            case tree.Serve(word=word, work=work, growing=growing):
                stage = self.scope.played(node)
                declared = self.scope.stages.get(family(stage))
                mode = word if declared is not None and declared.is_step else None
                return (self.run((self.ref(stage),), work, span, mode, growing),)
            case tree.Transfer(source=source, target=target, units=units):
                return (
                    self.run(self.links(node), node.work, span),
                    ir.Load(self.ref(target), self.expr(units), span),
                    ir.Release(self.ref(source), span),
                )
            case tree.Grow(pool=pool, amount=amount):
                return (ir.Grow(self.ref(pool), self.expr(amount), span),)
            case tree.Load(pool=pool, amount=amount):
                return (ir.Load(self.ref(pool), self.expr(amount), span),)
            case tree.Checkpoint(pool=pool, position=position):
                return (ir.Checkpoint(self.ref(pool), self.expr(position), span),)
            case tree.Release(pool=pool):
                return (ir.Release(self.ref(pool), span),)
            case tree.Drop(pool=pool):
                return (ir.Drop(self.ref(pool), span),)
        raise AssertionError(f"no lowering for {type(node).__name__}")

    def run(
        self,
        stages: tuple[ir.Ref, ...],
        work: tree.Expr,
        span: ir.Span | None,
        mode: str | None = None,
        growing: tree.Ref | None = None,
    ) -> ir.Run | ir.Flow:
        amount = self.expr(work)
        if len(stages) > 1:
            return ir.Flow(stages, amount, span)
        return ir.Run(stages[0], amount, span, mode or "", None if growing is None else self.ref(growing))

    def named(self, stage: str, index: tree.Expr | None) -> ir.Ref:
        """The stage, or the member of the array, that a service statement means by its own name."""
        name = tree.Name(Place(self.source, 0, 0), stage)
        return self.ref(name if index is None else tree.Index(index.place, name, index))

    def links(self, node: tree.Transfer) -> tuple[ir.Ref, ...]:
        """The stages of a `transfer`."""
        if node.on:
            return tuple(map(self.ref, node.on))
        link = next(name for name in LINKS if name in self.scope.stages)
        return (self.named(link, node.index),)

    # ----------------------------------------------------------------- holds

    def hold(self, node: tree.Hold) -> ir.Hold:
        bound: dict[str, ir.Expr] = {}
        for binding in node.bindings:
            with self.binding(bound):
                bound[binding.name.id] = self.expr(binding.value)
        with self.binding(bound):
            parts = tuple(map(self.part, node.parts))
            cache, reuse = self.maybe(node.cache), self.maybe(node.reuse)
            prefix = tuple(ir.Segment(self.expr(s.key), self.expr(s.length)) for s in node.prefix)
            lease = self.lease(node)
        opening = tuple(
            ir.Set(binding.name.id, bound[binding.name.id], self.span(binding.place))
            for binding in node.bindings
            if _read_in(node.body, binding.name.id)
        )
        return ir.Hold(parts, opening + self.block(node.body), cache, reuse, lease, self.span(node.header), prefix)

    def part(self, part: tree.Part) -> ir.Part:
        units, reserve = self.expr(part.units), self.maybe(part.reserve)
        known = [e for e in (units, reserve) if e is not None and not is_live(e)]
        larger = fold(ir.Binary("max", *known)) if len(known) == 2 else known[0] if known else None
        return ir.Part(self.ref(part.pool), units, reserve, larger)

    def lease(self, node: tree.Hold) -> ir.Lease | None:
        if node.lease is None:
            return None
        leased = self.ref(node.lease.pool)
        number = next(i for i, part in enumerate(node.parts) if self.ref(part.pool) == leased)
        return ir.Lease(number, self.expr(node.lease.time))


def _read_in(block: tree.Block, name: str) -> bool:
    """Does a statement anywhere in the block read the name?"""
    return any(read == name for node in tree.walk(block) for read, _ in reads(node))

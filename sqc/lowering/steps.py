"""Step stages: what one iteration does, in either spelling."""

from __future__ import annotations

import math

from sqc import ir
from sqc.lowering.statements import Statements
from sqc.syntax import tree

#: Admissions go on while nothing has been preempted in the iteration.
UNDISTURBED = ir.Unary("not", ir.Context("preempted"))


class Steps(Statements):
    """The step stages of one program."""

    def step(self, kind: tree.Kind) -> ir.Step:
        found = {option.word: option.values for option in kind.options}
        registers = (option.values for option in kind.options if option.word == "state")
        chunk = self.option(found, "chunk", 0.0)
        return ir.Step(
            budget=self.option(found, "budget", math.inf),
            cost=self.option(found, "cost", math.nan),
            body=self.procedure(found),
            chunk=ir.Const(0.0) if chunk == ir.Const(math.inf) else chunk,
            memory=self.ref(found["memory"][0]) if "memory" in found else None,  # type: ignore[arg-type]
            granule=self.expr(found["granule"][0]) if "granule" in found else None,  # type: ignore[arg-type]
            registers=tuple((name.id, self.expr(value)) for name, value in registers),  # type: ignore[arg-type, attr-defined]
        )

    def option(self, found: dict[str, tuple[tree.Node, ...]], word: str, otherwise: float) -> ir.Expr:
        return self.expr(found[word][0]) if word in found else ir.Const(otherwise)  # type: ignore[arg-type]

    def procedure(self, found: dict[str, tuple[tree.Node, ...]]) -> tuple[ir.StepStmt, ...]:
        """The body: the one written, or the one that a rule stands for."""
        rule = found["serve"][0] if "serve" in found else None
        if isinstance(rule, tree.StepExclusive):
            return (ir.ServeExclusive(),)
        assert rule is None or isinstance(rule, tree.StepServe)
        order = rule.order if rule is not None else None
        if "iteration" in found:
            return _read(self.scheduled(found["iteration"], order or ()))
        only = self.maybe(rule.only) if rule is not None else None
        return (ir.Serve(tuple(map(self.expr, order or ())), only), ir.Admit(only, UNDISTURBED))

    def scheduled(self, statements: tuple[tree.Node, ...], order: tuple[tree.Expr, ...]) -> tuple[ir.StepStmt, ...]:
        """The statements of a body; `order` is that of a `serve` that names none."""
        made: list[ir.StepStmt] = []
        for node in statements:
            match node:
                case tree.StepServe(only=only, order=own):
                    keys = tuple(map(self.expr, order if own is None else own))
                    made.append(ir.Serve(keys, self.maybe(only)))
                case tree.StepAdmit(only=only, test=test):
                    made.append(ir.Admit(self.maybe(only), self.admitting(test)))
                case tree.StepBranch(guard=guard, then=then, other=other):
                    arms = (self.scheduled(arm, order) for arm in (then, other))
                    made.append(ir.StepBranch(self.expr(guard), *arms))
                case tree.StepLet(name=name, value=value):
                    made.append(ir.StepLet(name.id, self.expr(value)))
                case tree.StepSet(name=name, value=value):
                    made.append(ir.StepSet(name.id, self.expr(value)))
        return tuple(made)

    def admitting(self, test: tree.Expr | None) -> ir.Expr | None:
        """A `while`; the usual one has one form in the IR, however it is written."""
        made = self.maybe(test)
        if made == ir.Binary("==", ir.Context("preempted"), ir.Const(0.0)):
            return UNDISTURBED
        return made


def _read(body: tuple[ir.StepStmt, ...]) -> tuple[ir.StepStmt, ...]:
    """A body without the lets that nothing reads."""
    made: tuple[ir.StepStmt, ...] = ()
    for node in reversed(body):
        if not isinstance(node, ir.StepLet) or ir.Context(node.name) in list(ir.walk(made)):
            made = (node, *made)
    return made

"""Checked tree to IR: the last step of the front end, and its two entry points.

`compile_text` and `compile_file` run all phases (text, names, checks, lowering, folding) and
raise a `CompileError` with all findings of the first phase that found any.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sqc import ir
from sqc.check.arithmetic import arithmetic
from sqc.check.program import check
from sqc.check.scope import Resource, Scope
from sqc.diagnostics import CompileError, Diagnostic, Place, Source
from sqc.passes.fold import fold
from sqc.syntax import tree
from sqc.syntax.files import check_text, read_source

_TESTS = {"<", "<=", ">", ">=", "==", "!=", "&&", "||"}


def compile_text(text: str, file: str = "<program>", directory: Path | None = None) -> ir.Program:
    """A program's text to IR. `directory` is where its `use` files are looked for."""
    check_text(text, file)
    source = Source(file, text)
    scope = check(source, directory or Path())
    program: ir.Program = fold(_Lowering(scope, source).program())
    return program


def compile_file(path: str | Path) -> ir.Program:
    """A program's file to IR; a `.json` file is the IR of a program itself."""
    path = Path(path)
    source = read_source(path, str(path))
    if path.suffix == ".json":
        try:
            return ir.from_json(source.text)
        except ir.IRError as error:
            raise CompileError([Diagnostic("E109", str(error), source.file)]) from None
    return compile_text(source.text, source.file, path.parent)


class _Lowering:
    """One program's lowering; the scope has been checked, so nothing here can be wrong."""

    def __init__(self, scope: Scope, source: Source) -> None:
        self.scope = scope
        self.source = source

    def program(self) -> ir.Program:
        scope = self.scope
        stages = [self.stage(s) for s in scope.stages.values()]
        if self.needs_tool():
            stages.append(ir.Stage("tool", ir.Delay()))
        session = self.block(scope.session) if scope.session else (ir.Turn(),)
        return ir.Program(
            inputs=tuple(scope.inputs.values()),
            attributes=self.attributes(),
            pools=tuple(self.pool(p) for p in scope.pools.values()),
            stages=tuple(stages),
            arrival=self.arrival(),
            init=self.block(scope.init),
            turn=self.block(scope.turn),
            session=session,
            server=self.block(scope.server),
            observes=self.observes(),
            file=self.source.file,
            source=self.source.text,
        )

    def span(self, place: Place) -> ir.Span:
        """Where it stands in the program's own file: the innermost place that is in it."""
        while place.source is not self.source and place.via is not None:
            place = place.via
        return place.span

    # ----------------------------------------------------------------- declarations

    def attributes(self) -> tuple[str, ...]:
        names: list[str] = []
        for name, attribute in self.scope.attributes.items():
            record = self.scope.records.get(name)
            if record is not None:
                names.extend(f"{name}.{f.name.id}" for f in record.record)
            elif attribute.owner != "language":
                names.append(name)
        return tuple(names)

    def pool(self, pool: Resource) -> ir.Pool:
        cap: ir.Expr = ir.Const(float("inf"))
        for option in pool.options("cap"):
            cap = self.expr(option.values[0])
        return ir.Pool(pool.item.name.id, cap, None, self.span(pool.item.place))

    def stage(self, stage: Resource) -> ir.Stage:
        assert isinstance(stage.item, tree.Stage)
        kind: ir.Fifo | ir.Ps | ir.Delay = ir.Delay()
        written = stage.item.kind
        if written.word == "fifo":
            servers = fold(self.expr(written.value)) if written.value is not None else ir.Const(1.0)
            kind = ir.Fifo(int(servers.value))
        elif written.word == "ps":
            assert written.value is not None
            kind = ir.Ps(self.expr(written.value))
        return ir.Stage(stage.item.name.id, kind, None, self.span(stage.item.place))

    def needs_tool(self) -> bool:
        """Is there a `tool` statement without a stage of that name?"""
        if "tool" in self.scope.stages:
            return False
        return any(
            isinstance(node, tree.Serve) and node.word == "tool" and node.on is None
            for item in self.scope.items
            for node in tree.walk(item)
        )

    def arrival(self) -> ir.Arrival:
        arrive = self.scope.arrive
        if arrive is None or arrive.value is None:
            return ir.NoArrivals()
        kinds: dict[str, Callable[[ir.Expr, ir.Span], ir.Arrival]] = {
            "poisson": ir.Poisson,
            "renewal": ir.Renewal,
            "closed": ir.Closed,
            "batch": ir.Batch,
        }
        return kinds[arrive.word](self.expr(arrive.value), self.span(arrive.place))

    def observes(self) -> tuple[ir.ObserveDecl, ...]:
        return tuple(
            ir.ObserveDecl(name, all(_is_test(o.value) for o in found))
            for name, found in self.scope.observations.items()
        )

    # ----------------------------------------------------------------- statements

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
            case tree.Run(stages=stages, work=work):
                return (ir.Run(self.name_of(stages[0]), self.expr(work), span),)
            case tree.Serve(word=word, on=on, work=work):
                return (ir.Run(self.name_of(on) if on is not None else word, self.expr(work), span),)
            case tree.Drop(pool=pool):
                return (ir.Drop(self.name_of(pool), span),)
            case tree.Hold():
                return (self.hold(node),)
        raise AssertionError(f"no lowering for {type(node).__name__}")

    def hold(self, node: tree.Hold) -> ir.Hold:
        part = node.parts[0]
        units = self.expr(part.units)
        live = any(isinstance(n, ir.Read | ir.Now) for n in ir.walk(units))
        return ir.Hold(
            pool=self.name_of(part.pool),
            units=units,
            body=self.block(node.body),
            cache=self.expr(node.cache) if node.cache is not None else None,
            refusable=None if live else units,
            span=self.span(node.header),
        )

    @staticmethod
    def name_of(ref: tree.Ref) -> str:
        match ref:
            case tree.Name(id=name) | tree.Index(base=tree.Name(id=name)):
                return name
        raise AssertionError("no resource")

    # ----------------------------------------------------------------- expressions

    def expr(self, expr: tree.Node) -> ir.Expr:
        return arithmetic(expr, self.meaning, self.read)  # type: ignore[arg-type]

    def meaning(self, node: tree.Name | tree.Member) -> ir.Expr:
        name = tree.dotted(node)
        if name == "now":
            return ir.Now()
        if name == "present":
            return ir.Present()  # type: ignore[return-value]  # only in the capacity of a ps stage
        if name in self.scope.constants:
            value = self.scope.constants[name].value
            assert value is not None
            return value
        return ir.Attr(name)

    def read(self, node: tree.Call) -> ir.Expr:
        kind = tree.dotted(node.callee)
        return ir.Read(kind, self.name_of(node.args[0]))  # type: ignore[arg-type]


def _is_test(expr: tree.Expr) -> bool:
    """Is the outermost operator a comparison, `&&`, `||` or `!`?"""
    match expr:
        case tree.Binary(op=op) if op in _TESTS:
            return True
        case tree.Unary(op="!"):
            return True
    return False

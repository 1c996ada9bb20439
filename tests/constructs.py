"""Which constructs of the language a program has, by name: what a random program is counted by.

A name says the construct and, where that matters, its variety or its moment: `hold: reuse`,
`pool: queue by`, `waited in queue by`, `while`, `array of pools: computed index`.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqc.check.language import CALLABLE, CONTEXT
from sqc.diagnostics import Reporter, Source
from sqc.syntax import tree
from sqc.syntax.parse import parse


def constructs(text: str) -> set[str]:
    """The constructs of a program's text, which must parse."""
    main = parse(Source("<program>", text), Reporter())
    found: set[str] = set()
    for node in tree.walk(main):
        found.update(_of(node))
    return found


def _of(node: tree.Node) -> Iterator[str]:
    name = type(node).__name__.lower()
    match node:
        case tree.Num() | tree.Text() | tree.Name() | tree.Block() | tree.Field() | tree.Part() | tree.File():
            pass
        case tree.Main() | tree.Server() | tree.Workload() | tree.Kind():
            pass
        case tree.Unary(op=op) | tree.Binary(op=op):
            yield f"operator {op}"
        case tree.Cond():
            yield "operator ?:"
        case tree.Draw(dist=dist):
            yield f"~{dist.id}"
        case tree.Aggregate(fold=fold):
            yield f"aggregate {fold}"
        case tree.Call(callee=callee):
            called = tree.dotted(callee)
            yield called if called in CALLABLE or called == "args.number" else "use of an expression def"
        case tree.Index(index=index):
            yield f"index: {'constant' if isinstance(index, tree.Num) else 'computed'}"
        case tree.Member():
            shown = tree.dotted(node)
            yield shown if shown in CONTEXT or shown == "args.number" else "a member or field"
        case tree.Set(word=word):
            yield word
        case tree.Branch(probability=probability, other=other):
            yield "branch with" if probability else "branch"
            yield from ["branch: else"] * (other is not None)
        case tree.Hold():
            yield "hold"
            yield from _of_hold(node)
        case tree.Run(stages=stages, mode=mode, growing=growing):
            yield f"run {mode}" if mode else "run" if len(stages) == 1 else "run over several stages"
            yield from ["run: growing"] * (growing is not None)
        case tree.Serve(word=word, index=index, on=on, growing=growing):
            yield f"{word} [e]" if index else f"{word} on" if on else word
            yield from [f"{word}: growing"] * (growing is not None)
        case tree.Transfer(on=on):
            yield f"transfer on {'several stages' if len(on) > 1 else 'a stage'}" if on else "transfer"
        case tree.EntryCall(source=source, target=target):
            yield f"entry call{' from' if source else ''}{' to' if target else ''}"
        case tree.Def(body=body):
            yield "statement def" if isinstance(body, tree.Block) else "expression def"
        case tree.Use(path=path):
            yield f"use {path.value}"
        case tree.Pool(size=size, on=on):
            yield "array of pools" if size else "pool"
            if on is not None:
                yield "pool on ENGINE.DEVICE" if on.engine else "pool on OWNER"
        case tree.Stage(size=size, kind=kind):
            yield f"{kind.word}{'(e)' if kind.value else ''}"
            yield from ["array of stages"] * (size is not None)
        case tree.Option(word=word, values=values):
            yield f"option {word}"
            yield from _context(word, values)
        case tree.StepServe(only=only, order=order):
            yield "advance only" if only else "advance"
            if order:
                yield "advance by"
                yield from _context("advance by", order)
            yield from ["each at most"] * (node.each is not None)
        case tree.StepAdmit(only=only, test=test):
            yield "admit only" if only else "admit"
            yield from ["admit while"] * (test is not None)
        case tree.Device(size=size) | tree.Engine(size=size) | tree.Queue(size=size):
            yield f"array of {name}s" if size else name
            if isinstance(node, tree.Queue):
                yield from (f"role {role.id}" for role in node.roles)
        case tree.Arrive(word=word):
            yield f"arrive {word}"
        case tree.Trace(ordered=ordered):
            yield "trace ordered" if ordered else "trace"
        case tree.Routine(word=word):
            yield f"block {word}"
        case tree.Claim(given=given, word=word):
            yield f"claim {word}"
            yield from ["claim given"] * (given is not None)
        case tree.Share(word=word):
            yield f"share {word}"
        case tree.StationStage(latency=latency):
            yield "station: serve latency" if latency else "station: serve"
        case tree.Nic():
            yield "station: nic"
        case tree.Entry(verb=verb, source=source):
            yield f"entry {verb.id}{' from' if source else ''}"
        case _:
            yield name


def _of_hold(node: tree.Hold) -> Iterator[str]:
    yield from ["hold of several pools"] * (len(node.parts) > 1)
    yield from ["hold: reserve"] * any(part.reserve is not None for part in node.parts)
    for word, clause in (("reuse", node.reuse), ("cache", node.cache), ("lease", node.lease)):
        yield from [f"hold: {word}"] * (clause is not None)
    yield from ["hold: at admission"] * bool(node.bindings)
    if any(isinstance(inner, tree.Hold) for inner in tree.walk(node.body)):
        yield "hold in a hold"


def _context(word: str, values: tuple[tree.Node, ...]) -> Iterator[str]:
    """Context variables by the moment at which they are read, and draws."""
    for value in values:
        for node in tree.walk(value):
            if isinstance(node, tree.Name) and node.id in CONTEXT:
                yield f"{node.id} in {word}"
            elif isinstance(node, tree.Draw):
                yield f"draw in {word}"

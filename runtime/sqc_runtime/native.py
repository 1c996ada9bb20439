"""One lane in native code: banks are pointers, regions are branches, loops are loops.

The memory of the native path. What is called on it while a lane program is traced becomes LLVM
instructions of one function; `machine.py` makes machine code of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import llvmlite.ir as ll
import numpy as np

from .memory import DTYPES, Addr, Memory
from .value import Value, constant, type_of

I64 = ll.IntType(64)
Regions = Callable[[], Sequence[Any] | None]


class NativeMemory(Memory):
    """`pointers`: the first cell of each bank. `registers`: cells that only their number reaches."""

    def __init__(self, builder: ll.IRBuilder, pointers: Mapping[str, Any], registers: set[tuple[str, int]]):
        self.builder = builder
        self._pointers = pointers
        self._registers = registers
        module = builder.module
        root = module.add_metadata(["cells"])

        def access(name: str) -> Any:
            kind = module.add_metadata([name, root, ll.Constant(I64, 0)])
            return module.add_metadata([kind, kind, ll.Constant(I64, 0)])

        self._register_access, self._cell_access = access("register"), access("cell")

    # -- cells
    def _place(self, bank: str, at: Addr) -> tuple[Any, Any]:
        """Pointer to a cell, and what else may be stored there."""
        if isinstance(at, Value):
            index, access = self.builder.zext(at.ssa, I64), self._cell_access
        else:
            index = ll.Constant(I64, int(at))
            access = self._register_access if (bank, int(at)) in self._registers else self._cell_access
        return self.builder.gep(self._pointers[bank], [index], inbounds=True), access

    def _vector(self, bank: str, at: Addr, n: int) -> tuple[Any, Any]:
        pointer, _ = self._place(bank, at)
        return self.builder.bitcast(pointer, type_of(DTYPES[bank], n).as_pointer()), self._cell_access

    def load(self, bank: str, at: Addr) -> Value:
        pointer, access = self._place(bank, at)
        cell = self.builder.load(pointer)
        cell.set_metadata("tbaa", access)
        return Value(self.builder, cell, DTYPES[bank])

    def store(self, bank: str, at: Addr, value: Any) -> None:
        pointer, access = self._place(bank, at)
        dtype = DTYPES[bank]
        cell = value.astype(dtype).ssa if isinstance(value, Value) else constant(dtype, value)
        self.builder.store(cell, pointer).set_metadata("tbaa", access)

    def load_n(self, bank: str, at: Addr, n: int) -> Value:
        pointer, access = self._vector(bank, at, n)
        cells = self.builder.load(pointer, align=np.dtype(DTYPES[bank]).itemsize)
        cells.set_metadata("tbaa", access)
        return Value(self.builder, cells, DTYPES[bank], n)

    def store_n(self, bank: str, at: Addr, value: Value) -> None:
        pointer, access = self._vector(bank, at, value.width)
        store = self.builder.store(value.ssa, pointer, align=np.dtype(DTYPES[bank]).itemsize)
        store.set_metadata("tbaa", access)

    # -- control
    def _block(self, name: str) -> Any:
        return self.builder.append_basic_block(name)

    def _values(self, out: Sequence[Any] | None, like: Sequence[Any] = ()) -> list[Value]:
        values = list(out or ())
        for i, value in enumerate(values):
            if not isinstance(value, Value):
                model = like[i]
                values[i] = Value(self.builder, constant(model.dtype, value), model.dtype)
        return values

    def _merge(self, *ways: tuple[Any, Sequence[Value]]) -> tuple[Value, ...]:
        """Values that depend on the block one comes from."""
        merged = []
        for values in zip(*(values for _, values in ways), strict=True):
            first = values[0]
            phi = self.builder.phi(type_of(first.dtype, first.width))
            for (block, _), value in zip(ways, values, strict=True):
                assert value.dtype == first.dtype
                phi.add_incoming(value.ssa, block)
            merged.append(first.like(phi))
        return tuple(merged)

    def when(self, test: Any, body: Regions, default: Sequence[Any] = ()) -> Any:
        b = self.builder
        inside, after = self._block("when"), self._block("after")
        before = b.block
        b.cbranch(test.ssa, inside, after)
        b.position_at_end(inside)
        out = self._values(body(), default)
        end = b.block
        b.branch(after)
        b.position_at_end(after)
        return self._merge((end, out), (before, self._values(default, out)))

    def either(self, test: Any, then: Regions, other: Regions) -> Any:
        b = self.builder
        blocks = self._block("then"), self._block("other")
        after = self._block("after")
        b.cbranch(test.ssa, *blocks)
        ways = []
        for block, body in zip(blocks, (then, other), strict=True):
            b.position_at_end(block)
            ways.append((body(), b.block))
            b.branch(after)
        b.position_at_end(after)
        models = [a if isinstance(a, Value) else c for a, c in zip(ways[0][0] or (), ways[1][0] or (), strict=True)]
        return self._merge(*((block, self._values(out, models)) for out, block in ways))

    def switch(self, index: Any, bodies: Mapping[int, Callable[[], None]]) -> None:
        b = self.builder
        after = self._block("after")
        branch = b.switch(index.ssa, after)
        for number, body in bodies.items():
            block = self._block(f"case{number}")
            branch.add_case(ll.Constant(index.ssa.type, number), block)
            b.position_at_end(block)
            body()
            b.branch(after)
        b.position_at_end(after)

    def loop(self, test: Callable[..., Any], body: Callable[..., Sequence[Any]], carry: Sequence[Any] = ()) -> Any:
        b = self.builder
        start = self._values(carry)
        before = b.block
        head, inside, after = self._block("loop"), self._block("body"), self._block("after")
        b.branch(head)
        b.position_at_end(head)
        phis = [b.phi(type_of(v.dtype, v.width)) for v in start]
        values = tuple(v.like(phi) for v, phi in zip(start, phis, strict=True))
        b.cbranch(test(*values).ssa, inside, after)
        b.position_at_end(inside)
        out = self._values(body(*values), values)
        for phi, first, value in zip(phis, start, out, strict=True):
            assert value.dtype == first.dtype
            phi.add_incoming(first.ssa, before)
            phi.add_incoming(value.ssa, b.block)
        b.branch(head)
        b.position_at_end(after)
        return values

    # -- values
    def full(self, value: Any, dtype: Any) -> Value:
        return Value(self.builder, constant(dtype, value), dtype)

    def row(self, values: Sequence[int], dtype: Any) -> Value:
        scalar = type_of(dtype)
        cells = [ll.Constant(scalar, int(v)) for v in values]
        return Value(self.builder, ll.Constant(ll.VectorType(scalar, len(cells)), cells), dtype, len(cells))

    def spread(self, value: Value, width: int) -> Value:
        return value.spread(width)

    def opaque(self, value: Value) -> Value:
        return value  # LLVM keeps to IEEE arithmetic unless told otherwise

"""Machine code: LLVM instructions of a lane program into a function that runs many lanes.

One call runs lanes one after the other on the calling thread and lets other threads run meanwhile.
The object code can be kept and loaded again by another process on the same kind of processor.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import llvmlite.ir as ll
import numpy as np
from numpy.typing import NDArray

from .core import DONE
from .histogram import Histogram, Place, add_up, histograms_of
from .memory import DTYPES, Layout
from .native import NativeMemory
from .statistics import BUCKETS
from .value import Value, type_of

_ENTRY = "lanes"
_LIBRARY = {"sqc_log": "log", "sqc_exp": "exp", "sqc_pow": "pow"}
"""Functions of the C library that code calls, by the names it calls them."""
_LOCK = threading.Lock()
I64 = ll.IntType(64)


@dataclass(frozen=True)
class Results:
    """What a call gives: metrics [lanes, metrics], status and error words, end times, last sessions, samples."""

    metrics: NDArray[np.float64]
    status: NDArray[np.uint32]
    error: NDArray[np.uint32]
    time: NDArray[np.float64]
    session: NDArray[np.float64]
    samples: NDArray[np.float64]
    """Bank `x` as the last lane left it."""
    pooled: Mapping[int, Mapping[str, Histogram]] = field(default_factory=dict)
    """Histograms added up over the lanes of a group, by group and name, where they were asked for."""


def lanes_module(
    layout: Layout,
    simulate: Callable[..., dict[str, Any]],
    columns: int,
    histograms: Mapping[str, Place] | None = None,
) -> ll.Module:
    """A module with the function `lanes`: `simulate(memory, seed, *columns)` for one lane after the other.

    `histograms` are those that a call can add up over its lanes (see `MachineCode`).
    """
    module = ll.Module("sqc")
    module.triple = llvm.get_process_triple()
    banks = [bank for bank in (*layout.size, "d") if bank != "h"]
    double, word = type_of(np.float64), type_of(np.uint32)
    pointers = [type_of(DTYPES[bank]).as_pointer() for bank in banks]
    arguments = [I64, I64, I64.as_pointer(), *[double.as_pointer()] * 2, word.as_pointer(), double.as_pointer()]
    arguments += [word.as_pointer(), double.as_pointer(), *pointers]
    function = ll.Function(module, ll.FunctionType(ll.VoidType(), arguments), _ENTRY)
    for argument in function.args[2:]:
        argument.add_attribute("noalias")
    count, pooling, seeds, given, metrics, words, ends, counts, extremes, *cells = function.args
    b = ll.IRBuilder(function.append_basic_block("entry"))
    first_cells = {"h": counts, "e": extremes, **dict(zip(banks, cells, strict=True))}
    memory = NativeMemory(b, first_cells, layout.registers)

    def at(pointer: Any, index: Any) -> Any:
        return b.gep(pointer, [index], inbounds=True)

    def lane(k: Value) -> tuple[Value]:
        for bank in ("f", "u"):
            _zero(memory, bank, layout.size[bank])
        seed = Value(b, b.load(at(seeds, k.ssa)), np.uint64)
        values = [
            Value(b, b.load(at(given, b.add(b.mul(ll.Constant(I64, i), count), k.ssa))), np.float64)
            for i in range(columns)
        ]
        out = simulate(memory, seed, *values)
        row = b.mul(k.ssa, ll.Constant(I64, len(out["metrics"])))
        for i, value in enumerate(out["metrics"].values()):
            b.store(value.ssa, at(metrics, b.add(row, ll.Constant(I64, i))))
        pair = b.mul(k.ssa, ll.Constant(I64, 2))
        for i, name in enumerate(("status", "error")):
            b.store(out[name].ssa, at(words, b.add(pair, ll.Constant(I64, i))))
        for i, name in enumerate(("time", "session")):
            b.store(out[name].ssa, at(ends, b.add(pair, ll.Constant(I64, i))))
        good = (Value(b, pooling, np.int64) != 0) & (out["status"] == DONE) & (out["error"] == 0)
        memory.when(good, lambda: add_up(memory, (histograms or {}).values()))
        return (k + 1,)

    memory.loop(lambda k: k < Value(b, count, np.int64), lane, (memory.full(0, np.int64),))
    b.ret_void()
    return module


def _zero(memory: NativeMemory, bank: str, cells: int) -> None:
    b, byte = memory.builder, ll.IntType(8)
    clear = b.module.declare_intrinsic("llvm.memset", [byte.as_pointer(), I64])
    first, _ = memory._place(bank, 0)
    size = ll.Constant(I64, cells * np.dtype(DTYPES[bank]).itemsize)
    b.call(clear, [b.bitcast(first, byte.as_pointer()), ll.Constant(byte, 0), size, ll.Constant(ll.IntType(1), 0)])


def object_code(module: ll.Module) -> bytes:
    """The module, optimised for this processor, as an object file."""
    with _LOCK:
        optimised = _optimised(str(module))
        code: bytes = _target(_level()).emit_object(optimised)
        return code


def text_of(module: ll.Module, form: str) -> str:
    """The optimised module as text: "llvm" or "assembly"."""
    with _LOCK:
        optimised = _optimised(str(module))
        return str(optimised) if form == "llvm" else str(_target(_level()).emit_assembly(optimised))


def _optimised(text: str) -> Any:
    module = llvm.parse_assembly(text)
    module.verify()
    if _level() == 0:
        return module
    builder = llvm.create_pass_builder(_target(_level()), llvm.create_pipeline_tuning_options())
    passes = llvm.create_new_function_pass_manager()
    # The code generator does the rest: the pipeline of level 1 takes thrice the time and makes code no faster.
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)
    return module


def _level() -> int:
    """How far code is optimised: 2, or 0 where the environment asks for code that is quick to build, not to run."""
    return 0 if os.environ.get("SQC_QUICK_CODE") == "1" else 2


@functools.cache
def _target(level: int) -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    host = llvm.Target.from_triple(llvm.get_process_triple())
    features = llvm.get_host_cpu_features().flatten()
    return host.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=level, jit=True)


def processor() -> tuple[str | int, ...]:
    """What object code depends on besides its module."""
    features = llvm.get_host_cpu_features().flatten()
    version = ".".join(map(str, llvm.llvm_version_info))
    return llvmlite.__version__, version, llvm.get_process_triple(), llvm.get_host_cpu_name(), features, _level()


class MachineCode:
    """Object code, loaded: called with columns it runs their lanes.

    `cells`: the length of each bank.
    """

    def __init__(self, code: bytes, cells: Mapping[str, int], metrics: int):
        with _LOCK:
            for name, function in _library().items():
                llvm.add_symbol(name, function)
            self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _fresh_target())
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
            self._engine.finalize_object()
            address = self._engine.get_function_address(_ENTRY)
        integers, pointers = [ctypes.c_int64] * 2, [ctypes.c_void_p] * (7 + len(cells))
        self._call = ctypes.CFUNCTYPE(None, *integers, *pointers)(address)
        self._cells, self._metrics = dict(cells), metrics

    def __call__(
        self,
        seeds: NDArray[np.uint64],
        columns: NDArray[np.float64],
        data: NDArray[np.float64],
        group: int = 0,
        pool: Sequence[str] = (),
    ) -> Results:
        """Run the lanes of `seeds`; `columns` is [columns, lanes], `data` the read-only bank.

        `pool` has the names of the module's histograms: over the lanes that come to a good end they are added up to
        those of the `group`.
        """
        count, rows = len(seeds), len(pool)
        seeds, columns = np.ascontiguousarray(seeds), np.ascontiguousarray(columns)
        metrics = np.empty((count, self._metrics))
        words, ends = np.empty((count, 2), np.uint32), np.empty((count, 2))
        counts, extremes = np.zeros((rows, BUCKETS), np.uint32), np.tile([np.inf, -np.inf], (rows, 1))
        banks = {b: data if b == "d" else np.empty(max(n, 1), DTYPES[b]) for b, n in self._cells.items()}
        arrays = (seeds, columns, metrics, words, ends, counts, extremes, *banks.values())
        self._call(count, rows, *(array.ctypes.data for array in arrays))
        pooled = {group: histograms_of(pool, counts, extremes)} if pool else {}
        return Results(metrics, words[:, 0], words[:, 1], ends[:, 0], ends[:, 1], banks["x"], pooled)


def _fresh_target() -> Any:
    """A target machine of one engine, which will own it."""
    _target(_level())
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(opt=2, jit=True)


@functools.cache
def _library() -> dict[str, int]:
    math = ctypes.CDLL(ctypes.util.find_library("m") or None)
    return {name: ctypes.cast(getattr(math, plain), ctypes.c_void_p).value or 0 for name, plain in _LIBRARY.items()}


def bank_cells(layout: Layout) -> dict[str, int]:
    """The length of each bank of native code, in the order of the function's arguments."""
    return {**{bank: size for bank, size in layout.size.items() if bank != "h"}, "d": 0}

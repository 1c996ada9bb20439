"""The native call: one lane program as one CPU function.

XLA:CPU runs a program as a sequence of small kernels, and a `while` then costs microseconds per
trip. A call that carries the frontend attribute `xla_cpu_small_call` is emitted instead as one
LLVM function, loops and conditionals included. The attribute is an internal name of XLA, so it
lives in this file alone; `took_effect` says whether a compiled text shows it, and the unmarked
program stays correct on every backend.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.experimental.xla_metadata import set_xla_metadata

_MARK = "xla_cpu_small_call"
_marks: Callable[..., Any] = set_xla_metadata


def native(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` behind a marked call: compiled for CPU it becomes one native function."""

    def body(*args: Any) -> Any:
        with _marks(xla_cpu_small_call=None, inlineable=None):
            return fn(*args)

    inner = jax.jit(body, inline=False)

    def call(*args: Any) -> Any:
        with _marks(xla_cpu_small_call="true", inlineable="false"):
            return inner(*args)

    return call


def sealed(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` behind a call that XLA does not inline, so that fusion cannot look into it.

    LLVM inlines it again later: at run time it costs nothing.
    """

    def body(*args: Any) -> Any:
        with _marks(inlineable=None):
            return fn(*args)

    inner = jax.jit(body, inline=False)

    def call(*args: Any) -> Any:
        with _marks(inlineable="false"):
            return inner(*args)

    return call


def took_effect(hlo: str) -> bool:
    """Whether an optimised HLO text runs its loops inside a marked call.

    The ENTRY computation must hold a `call` with the mark and no `while` of its own.
    """
    entry = hlo[hlo.rfind("\nENTRY ") :]
    return f'{_MARK}="true"' in entry and " call(" in entry and " while(" not in entry

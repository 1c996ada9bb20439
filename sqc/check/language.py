"""The words that the language supplies: functions, observables, context variables, distributions."""

from __future__ import annotations

from sqc import ir

FUNCTIONS = {"min": 2, "max": 2, "pow": 2, "abs": 1, "floor": 1, "ceil": 1, "sqrt": 1, "exp": 1, "ln": 1}

# Observables of live state, and what their argument is.
OBSERVABLES = {
    "queue": "stage", "busy": "stage", "work": "stage", "used": "pool", "free": "pool", "cachedin": "pool",
    "holders": "pool", "queued": "pool", "budget_left": "stage", "est_lambda": "stage", "est_rho": "stage",
    "est_wait": "stage", "price": "stage",
}  # fmt: skip
OBSERVABLE_ARITY = dict.fromkeys(OBSERVABLES, 1) | {"price": 3}

# Functions of all samples of an observation, in `claim ... at end`.
TOTALS = ("total", "count", "largest", "smallest", "prefix_total")

CALLABLE = {*FUNCTIONS, *OBSERVABLES, *TOTALS, "blocksize", "cost", "sum"}

DISTRIBUTIONS = ir.DISTRIBUTIONS

# Attributes that every session has; a trace adds its columns.
BUILT_IN = ("serial", "turn_no", "cached", "computed")
TRACED = ("new", "out", "think", "more", "forced")

_ITERATION = "an iteration of a step stage"

# Context variables and the moment at which they exist.
CONTEXT = {
    "now": "anything but a gauge",
    "waited": "a queue key",
    "size": "an eviction key or spill clause",
    "age": "an eviction key or spill clause",
    "last": "an eviction key or spill clause",
    "waiting": "an eviction key or spill clause",
    "present": "the capacity of a ps stage",
    "residents": _ITERATION,
    "decoders": _ITERATION,
    "kv_decode": _ITERATION,
    "kv_prefill": _ITERATION,
    "preempted": "the iteration body of a step stage",
    "admitted": "the iteration body of a step stage",
    "tokens": "the cost of a step stage or a claim over iterations",
    "prefilled": "the cost of a step stage or a claim over iterations",
    "attention": "the cost of a step stage or a claim over iterations",
    "decoding": "a serve or preemption key",
    "admission": "a serve or preemption key",
    "remaining": "a serve key",
    "position": "a preemption key",
    "demand": "a claim over iterations",
    "served": "a claim over iterations",
    "arrived": "a claim over iterations",
}

LINKS = ("link", "transfer")  # the stages that a `transfer` may run on without naming one

STATEMENT_WORDS = (
    "turn", "end", "set", "observe", "branch", "if", "loop", "while", "choose", "hold", "grow", "load", "drop",
    "release", "run", "prefill", "decode", "tool", "transfer", "fork", "join",
)  # fmt: skip

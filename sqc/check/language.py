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

_TOTALS = "an iteration of a step stage"
_BODY = "the iteration body of a step stage"
_FORMED = "the cost or iteration body of a step stage or a claim over iterations"
_RUNS = "a serve key or preemption key"
_CLAIM = "a claim over iterations"
_ENGINE = "an engine's `tokens cap`, schedule and `execute`"
_RESIDENTS = "an engine's `tokens cap` and schedule"
_SCHEDULE = "an engine's schedule, in `branch`, `while` and `set`"
_BATCH = "an engine's `execute`"

# Context variables and the moment at which they exist.
CONTEXT = {
    "now": "anything but a gauge",
    "waited": "a queue key",
    "size": "an eviction key or spill clause",
    "age": "an eviction key or spill clause",
    "last": "an eviction key or spill clause",
    "waiting": "an eviction key or spill clause",
    "present": "the capacity of a ps stage",
    **dict.fromkeys(("residents", "decoders", "kv_decode", "kv_prefill"), _TOTALS),
    **dict.fromkeys(("preempted", "admitted"), _BODY),
    **dict.fromkeys(("tokens", "prefilled"), _FORMED),
    "attention": "the cost of a step stage or a claim over iterations",
    **dict.fromkeys(("decoding", "admission"), _RUNS),
    "remaining": "a serve key",
    "position": "a preemption key",
    **dict.fromkeys(("demand", "served", "arrived"), _CLAIM),
    **dict.fromkeys(("running.count", "waiting.count"), _ENGINE),
    **dict.fromkeys(("running.decoding", "running.kv_decode", "running.kv_prefill"), _RESIDENTS),
    **dict.fromkeys(("running.preempted", "waiting.admitted"), _SCHEDULE),
    **dict.fromkeys(("batch.tokens", "batch.prefilled"), f"{_BATCH} and schedule"),
    **dict.fromkeys(("batch.decoding", "batch.kv_decode", "batch.kv_prefill", "batch.attention"), _BATCH),
}

# What an engine calls the variables of its iterations, and what they are in the IR.
ENGINE_NAMES = {
    "running.count": "residents",
    "running.decoding": "decoders",
    "running.kv_decode": "kv_decode",
    "running.kv_prefill": "kv_prefill",
    "running.preempted": "preempted",
    "waiting.count": "queued",
    "waiting.admitted": "admitted",
    "batch.tokens": "tokens",
    "batch.prefilled": "prefilled",
    "batch.decoding": "decoders",
    "batch.kv_decode": "kv_decode",
    "batch.kv_prefill": "kv_prefill",
    "batch.attention": "attention",
}

STEP_KINDS = ("step", "engine")

LINKS = ("link", "transfer")  # the stages that a `transfer` may run on without naming one

STATEMENT_WORDS = (
    "turn", "end", "set", "observe", "branch", "if", "loop", "while", "choose", "hold", "grow", "load", "checkpoint",
    "drop", "release", "run", "prefill", "decode", "tool", "transfer", "fork", "join",
)  # fmt: skip

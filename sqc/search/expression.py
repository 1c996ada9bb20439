"""Expressions of metrics and inputs: `1e-6 * C + client.response.mean`, `max(pool.kv.mean_used / C, 0.5)^2`.

Numbers, `+ - * /`, `^`, `min`, `max`, parentheses, and names: metrics as a sweep has them, and inputs. An input
that is called like a metric is `input.NAME`, as in the files of a sweep; a name that is no word stands in
single quotes.

An expression has a value for every lane. Where it is not linear, the mean of these values is not the
value of the means: `x^2` averages to more than the square of the average of `x`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any

import lark
import numpy as np

from sqc.inputs import InputError, did_you_mean, quoted
from sqc.sweeps.blocks import input_columns
from sqc.sweeps.spread import Floats

_OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "negate": np.negative,
    "power": np.power,
    "least": lambda *values: reduce(np.minimum, values),
    "most": lambda *values: reduce(np.maximum, values),
}
MAX_DEPTH = 100
"""Levels of an expression: its value is found by recursion."""


@dataclass(frozen=True)
class Expression:
    """A text whose names are all known; `names` maps each to an input or to a metric, `tree` is how it is parsed."""

    text: str
    tree: Any
    inputs: Mapping[str, str]
    """Inputs by the name that the text has for them."""

    def values(self, metrics: Mapping[str, Floats], inputs: Mapping[str, Any]) -> Floats:
        """The value for every lane, NaN where it is undefined. Inputs are numbers or arrays like the metrics."""
        columns = {**metrics, **{called: inputs[name] for called, name in self.inputs.items()}}
        some = next(iter(metrics.values()))
        with np.errstate(all="ignore"):
            result = np.broadcast_to(_value(self.tree, columns), some.shape)
        return np.where(np.isfinite(result), result, np.nan)


@dataclass(frozen=True)
class Bound:
    """`expression <= limit`: the excess of the left over the right side is at most 0."""

    text: str
    excess: Expression


def expression(text: str, inputs: Sequence[str], metrics: Sequence[str]) -> Expression:
    """The expression of a text. Raises InputError, one line, where it is none or has an unknown name."""
    return _named(text, _parsed(text, "sum"), inputs, metrics)


def bound(text: str, inputs: Sequence[str], metrics: Sequence[str]) -> Bound:
    """The bound of a text `EXPRESSION <= EXPRESSION`, or `>=`. Raises InputError as `expression` does."""
    left, comparison, right = _parsed(text, "bound").children
    sides = (left, right) if comparison == "<=" else (right, left)
    return Bound(text, _named(text, lark.Tree("subtract", list(sides)), inputs, metrics))


@lru_cache(maxsize=2)
def _parser(start: str) -> lark.Lark:
    return lark.Lark(Path(__file__).with_name("metric.lark").read_text(encoding="utf-8"), parser="lalr", start=start)


def _parsed(text: str, start: str) -> Any:
    what = "bound" if start == "bound" else "expression"
    try:
        tree = _parser(start).parse(text)
    except lark.UnexpectedInput as error:
        ended = isinstance(error, lark.UnexpectedToken) and error.token.type == "$END"
        here = "its end" if ended else f"column {error.column}"
        hint = " (write it as A <= B or A >= B)" if what == "bound" else ""
        raise InputError(f"{what} {quoted(text)}: not understood at {here}{hint}") from None
    if _depth(tree) > MAX_DEPTH:
        raise InputError(f"{what} {quoted(text)}: more than {MAX_DEPTH} levels")
    return tree


def _depth(tree: Any) -> int:
    """Levels of a tree, without recursion."""
    level, depth = [tree], 0
    while level:
        level = [child for node in level if isinstance(node, lark.Tree) for child in node.children]
        depth += 1
    return depth


def _named(text: str, tree: Any, inputs: Sequence[str], metrics: Sequence[str]) -> Expression:
    called = {column: name for name, column in input_columns(inputs, metrics).items()}
    used = dict.fromkeys(_name(node) for node in tree.iter_subtrees() if node.data in ("name", "quoted"))
    for name in used:
        if name not in called and name not in metrics:
            hint = did_you_mean(name, [*called, *metrics])
            raise InputError(f"expression {quoted(text)}: no metric or input {name}{hint}")
    return Expression(text, tree, {name: called[name] for name in used if name in called})


def _name(node: Any) -> str:
    return str(node.children[0]).strip("'")


def _value(tree: Any, columns: Mapping[str, Any]) -> Any:
    if tree.data == "number":
        return np.float64(tree.children[0])
    if tree.data in ("name", "quoted"):
        return columns[_name(tree)]
    return _OPERATIONS[tree.data](*(_value(child, columns) for child in tree.children))

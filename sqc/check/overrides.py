"""Definitions replaced from outside: `--def NAME=expr` and `defs={...}`.

An override is the new body of an expression definition; like the old one it may read the
parameters, constants and earlier definitions. Findings in it show the whole definition as it
would be written.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqc.check.uses import Unit
from sqc.diagnostics import CompileError, Reporter, Source
from sqc.inputs import InputError, brief, did_you_mean, quoted
from sqc.syntax import tree
from sqc.syntax.files import MAX_BYTES
from sqc.syntax.parse import parse


def override(unit: Unit, defs: Mapping[str, str]) -> None:
    """Replace the bodies of definitions. Raises InputError, one line, for what cannot be replaced."""
    declared = {item.name.id: item for item in unit.items if isinstance(item, tree.Def)}
    made = {name: _definition(name, text, declared) for name, text in defs.items()}
    if not made:
        return

    def change(item: tree.Item) -> tree.Item:
        return made.get(item.name.id, item) if isinstance(item, tree.Def) else item

    unit.top = [change(item) for item in unit.top]  # type: ignore[misc]
    unit.mains = [tree.Main(main.place, tuple(map(change, main.items))) for main in unit.mains]


def _definition(name: str, text: str, declared: Mapping[str, tree.Def]) -> tree.Def:
    """The definition with its new body."""
    old = declared.get(name)
    if old is None:
        hint = did_you_mean(name, declared) if declared else " (the program has no definitions)"
        raise InputError(f"unknown definition {brief(name)}{hint}")
    if isinstance(old.body, tree.Block):
        raise InputError(f"definition {name}: it is statements; only an expression can be replaced")
    if len(text) > MAX_BYTES:
        raise InputError(f"definition {name}: {len(text)} characters are no expression")
    params = ", ".join(param.id for param in old.params)
    source = Source("--def", f"def {name}({params}) {{ {text}\n}}")
    try:
        items = parse(source, Reporter()).items
    except CompileError as error:
        why = error.diagnostics[0].message.replace("found `}`", "found the end of the text")
        raise InputError(f"definition {name}: {quoted(text)} is no expression: {why}") from None
    if len(items) != 1 or not isinstance(items[0], tree.Def) or isinstance(items[0].body, tree.Block):
        raise InputError(f"definition {name}: {quoted(text)} is no expression")
    return items[0]

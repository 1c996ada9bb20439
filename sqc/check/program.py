"""All checks of a program, phase by phase.

A phase reports all it finds; a later phase runs only over a program that passed the earlier
ones. So one mistake gives one finding, and no check has to doubt what another has established.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sqc.check import uses
from sqc.check.amounts import check_amounts, check_declared
from sqc.check.bindings import check_bindings
from sqc.check.costs import check_costs
from sqc.check.declare import check_parts, collect, expand
from sqc.check.hidden import check_hidden
from sqc.check.holds import check_holds
from sqc.check.iterations import check_iterations
from sqc.check.moments import check_moments
from sqc.check.names import check_names
from sqc.check.options import check_options
from sqc.check.overrides import override
from sqc.check.prefixes import check_prefixes
from sqc.check.scope import Scope
from sqc.check.sharing import check_sharing
from sqc.check.structure import check_structure
from sqc.check.traces import read_trace
from sqc.check.values import Values
from sqc.diagnostics import Place, Reporter, Source
from sqc.syntax.tree import ENGINES, STATIONS, Def, Item, Node, walk


def check(
    source: Source,
    directory: Path,
    workload: Path | None = None,
    defs: Mapping[str, str] | None = None,
) -> Scope:
    """The checked scope of a program, or a CompileError with all findings of a phase.

    `workload` is the file of its workload, if that is not in the text; `defs` replaces the bodies
    of expression definitions.
    """
    reporter = Reporter()

    # the text, and the texts it uses
    unit = uses.load(source, directory, reporter, workload)
    override(unit, defs or {})
    reporter.stop_if_any()

    # parts, constants, definitions, names
    check_parts(unit, Place(source, 0, len(source.text)), reporter)
    reporter.stop_if_any()
    items, constants = expand(unit, reporter)
    if _has(items, STATIONS):
        from sqc.stations.lower import lower as without_stations  # here: most programs have none

        items = without_stations(items, constants, unit.uses, reporter)
    if _has(items, ENGINES):
        from sqc.engines.lower import lower as without_engines

        definitions = {item.name.id for item in unit.items if isinstance(item, Def)}
        items = without_engines(items, constants, definitions, reporter)
    scope = collect(items, constants, reporter)
    check_declared(scope, constants, reporter)
    check_names(scope, Values(scope), reporter)
    if scope.trace is not None:
        written = scope.trace.place.source
        scope.corpus = read_trace(scope.trace, directory if written is source else Path(written.file).parent, reporter)
    reporter.stop_if_any()

    # what names stand for, where
    values = Values(scope)
    check_options(scope, values, reporter)
    check_structure(scope, values, reporter)
    check_iterations(scope, reporter)
    check_moments(scope, reporter)
    check_bindings(scope, reporter)
    check_costs(scope, reporter)
    check_holds(scope, reporter)
    check_prefixes(scope, values, reporter)
    check_hidden(scope, reporter)
    check_sharing(scope, values, reporter)
    check_amounts(scope, values, reporter)
    reporter.stop_if_any()
    return scope


def _has(items: list[Item], kinds: tuple[type[Node], ...]) -> bool:
    return any(isinstance(node, kinds) for item in items for node in walk(item))

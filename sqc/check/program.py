"""All checks of a program, phase by phase.

A phase reports all it finds; a later phase runs only over a program that passed the earlier
ones. So one mistake gives one finding, and no check has to doubt what another has established.
"""

from __future__ import annotations

from pathlib import Path

from sqc.check import uses
from sqc.check.amounts import check_amounts, check_declared
from sqc.check.costs import check_costs
from sqc.check.declare import check_parts, collect, expand
from sqc.check.executed import refuse, refuse_foreign
from sqc.check.holds import check_holds
from sqc.check.moments import check_moments
from sqc.check.names import check_names
from sqc.check.options import check_options
from sqc.check.scope import Scope
from sqc.check.structure import check_structure
from sqc.check.values import Values
from sqc.diagnostics import Place, Reporter, Source


def check(source: Source, directory: Path) -> Scope:
    """The checked scope of a program, or a CompileError with all findings of a phase."""
    reporter = Reporter()

    # the text, and the texts it uses
    unit = uses.load(source, directory, reporter)
    refuse_foreign(unit.items, reporter)
    reporter.stop_if_any()

    # parts, constants, definitions, names
    check_parts(unit, Place(source, 0, len(source.text)), reporter)
    reporter.stop_if_any()
    items, constants = expand(unit, reporter)
    scope = collect(items, constants, reporter)
    check_declared(scope, constants, reporter)
    check_names(scope, Values(scope), reporter)
    reporter.stop_if_any()

    # what names stand for, where
    check_options(scope, reporter)
    check_structure(scope, reporter)
    check_moments(scope, reporter)
    check_costs(scope, reporter)
    check_holds(scope, reporter)
    check_amounts(scope, Values(scope), reporter)
    reporter.stop_if_any()

    refuse(scope, reporter)
    reporter.stop_if_any()
    return scope

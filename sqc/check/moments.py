"""Each value exists at certain moments only: context variables, draws, attributes, live state."""

from __future__ import annotations

from sqc.check.language import CONTEXT, OBSERVABLES
from sqc.check.scope import Scope
from sqc.check.sites import GAUGE, Moment, Site, sites
from sqc.diagnostics import Note, Reporter
from sqc.syntax import tree

_NOT_IN_GAUGES = ("work", "cachedin", "budget_left")
_DRAW_HELP = "draw into an attribute first: set x = ~...;"


def check_moments(scope: Scope, reporter: Reporter) -> None:
    """Report everything read or drawn at a moment at which it does not exist."""
    for site in sites(scope):
        for node in tree.walk(site.expr):
            _check(scope, site, node, reporter)


def _check(scope: Scope, site: Site, node: tree.Node, reporter: Reporter) -> None:
    moment = site.moment
    match node:
        case tree.Draw() if not moment.draws:
            reporter.error("E402", f"{moment.what} may not draw", node.place, _DRAW_HELP)
        case tree.Name(id="now") if not moment.now:
            reporter.error("E403", f"{moment.what} may not read `now`", node.place)
        case tree.Name(id=name) if name in CONTEXT and name != "now" and name not in moment.context:
            message = f"`{name}` exists only in {CONTEXT[name]}, not in {moment.what}"
            reporter.error("E401", message, node.place)
        case tree.Name(id=name) if name in scope.attributes:
            _attribute(scope, moment, node, reporter)
        case tree.Call(callee=tree.Name(id=name)) if name in OBSERVABLES:
            if not moment.live:
                reporter.error("E403", f"{moment.what} may not read live state: `{name}`", node.place)
            elif moment is GAUGE and name in _NOT_IN_GAUGES:
                reporter.error("E403", f"a gauge may not read `{name}`", node.place)


def _attribute(scope: Scope, moment: Moment, node: tree.Name, reporter: Reporter) -> None:
    name = node.id
    if not moment.attributes:
        message = f"`{name}` is an attribute of a session, and {moment.what} has no session"
        reporter.error("E403", message, node.place)
    elif moment.decides and name in scope.hidden:
        notes = [Note("hidden here", scope.hidden[name])]
        message = f"`{name}` is hidden: {moment.what} may not read it"
        reporter.error("E406", message, node.place, notes=notes)

"""Each value exists at certain moments only: context variables, draws, attributes, live state."""

from __future__ import annotations

from sqc.check.language import CONTEXT, OBSERVABLES
from sqc.check.reads import live_reads, reads
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
            _check(site, node, reporter)
        for name, at in reads(site.expr):
            _name(scope, site.moment, name, at, reporter)


def _check(site: Site, node: tree.Node, reporter: Reporter) -> None:
    moment = site.moment
    match node:
        case tree.Draw() if not moment.draws:
            reporter.error("E402", f"{moment.what} may not draw", node.place, _DRAW_HELP)
        case tree.Call(callee=tree.Name(id=name)) if name in OBSERVABLES:
            if not moment.live:
                reporter.error("E403", f"{moment.what} may not read live state: `{name}`", node.place)
            elif moment is GAUGE and name in _NOT_IN_GAUGES:
                reporter.error("E403", f"a gauge may not read `{name}`", node.place)
        case tree.Index(index=index) if moment is GAUGE and any(live_reads(index)):
            reporter.error("E403", "a gauge may not compute an index from live state", index.place)


def _name(scope: Scope, moment: Moment, name: str, node: tree.Name | tree.Member, reporter: Reporter) -> None:
    if name == "now":
        if not moment.now:
            reporter.error("E403", f"{moment.what} may not read `now`", node.place)
    elif name in CONTEXT:
        if name not in moment.context:
            message = f"`{name}` exists only in {CONTEXT[name]}, not in {moment.what}"
            reporter.error("E401", message, node.place)
    elif name in scope.attributes or isinstance(node, tree.Member):
        _attribute(scope, moment, name, node, reporter)


def _attribute(scope: Scope, moment: Moment, name: str, node: tree.Node, reporter: Reporter) -> None:
    if not moment.attributes:
        message = f"`{name}` is an attribute of a session, and {moment.what} has no session"
        reporter.error("E403", message, node.place)
    elif moment.decides and name in scope.hidden:
        notes = [Note("hidden here", scope.hidden[name])]
        message = f"`{name}` is hidden: {moment.what} may not read it"
        reporter.error("E406", message, node.place, notes=notes)

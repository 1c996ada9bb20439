"""Each value exists at certain moments only: context variables, draws, attributes, live state."""

from __future__ import annotations

from sqc.check.language import CONTEXT, ENGINE_NAMES, OBSERVABLES
from sqc.check.reads import live_reads, reads
from sqc.check.scope import Scope, family
from sqc.check.sites import END_CLAIM, GAUGE, PREEMPTION_KEY, Moment, Site, sites
from sqc.diagnostics import Note, Reporter
from sqc.syntax import tree

_DRAW_HELP = "draw into an attribute first: set x = ~...;"


def check_moments(scope: Scope, reporter: Reporter) -> None:
    """Report everything read or drawn at a moment at which it does not exist."""
    for site in sites(scope):
        for node in tree.walk(site.expr):
            _check(site, node, reporter)
        for name, at in reads(site.expr):
            _name(scope, site, name, at, reporter)


def _check(site: Site, node: tree.Node, reporter: Reporter) -> None:
    moment = site.moment
    match node:
        case tree.Draw() if not moment.draws:
            reporter.error("E402", f"{moment.what} may not draw", node.place, _DRAW_HELP)
        case tree.Call(callee=tree.Name(id=name)) if name in OBSERVABLES:
            if not moment.live:
                reporter.error("E403", f"{moment.what} may not read live state: `{name}`", node.place)
            elif name in moment.unread:
                reporter.error("E403", f"{moment.what} may not read `{name}`", node.place, _UNREAD.get(name))
            elif name == "budget_left" and moment.plans and family(node.args[0]) == site.stage:
                message = f"{moment.what} forms the iteration that `budget_left` of its own stage would be of"
                reporter.error("E403", message, node.place, "decide by the residents and what has been admitted")
        case tree.Index(index=index) if moment is GAUGE and any(live_reads(index)):
            reporter.error("E403", "a gauge may not compute an index from live state", index.place)


_UNREAD = {
    "work": "time passing is no event: a stage that schedules nothing would wait for one",
    "budget_left": "it is what an iteration would leave: read the residents, queue or used",
}


def _name(scope: Scope, site: Site, name: str, node: tree.Name | tree.Member, reporter: Reporter) -> None:
    moment = site.moment
    if name == "now":
        if not moment.now:
            advice = _UNREAD["work"] if "work" in moment.unread and moment is not GAUGE else None
            reporter.error("E403", f"{moment.what} may not read `now`", node.place, advice)
    elif name in CONTEXT:
        if name not in moment.context:
            message = f"`{name}` exists only in {CONTEXT[name]}, not in {moment.what}"
            reporter.error("E401", message, node.place, _other_name(name, moment))
    elif name in scope.registers:
        _register(scope, site, name, node, reporter)
    elif name in scope.attributes or isinstance(node, tree.Member):
        _attribute(scope, moment, name, node, reporter)


def _attribute(scope: Scope, moment: Moment, name: str, node: tree.Node, reporter: Reporter) -> None:
    if not moment.attributes:
        message = f"`{name}` is an attribute of a session, and {moment.what} has no session"
        reporter.error("E403", message, node.place)
    elif moment is PREEMPTION_KEY and name == "computed":
        message = f"{moment.what} may not read `computed`: it is 0 unless the session was preempted before"
        reporter.error("E403", message, node.place, "`position` is how far the candidate has come")
    elif moment.decides and name in scope.hidden:
        notes = [Note("hidden here", scope.hidden[name])]
        message = f"`{name}` is hidden: {moment.what} may not read it"
        reporter.error("E406", message, node.place, notes=notes)


def _other_name(name: str, moment: Moment) -> str | None:
    """What has the same value at this moment, in the other spelling."""
    value = ENGINE_NAMES.get(name, name)
    others = [other for other in moment.context if ENGINE_NAMES.get(other, other) == value]
    return f"here it is `{min(others)}`" if others else None


def _register(scope: Scope, site: Site, name: str, node: tree.Node, reporter: Reporter) -> None:
    """A register is read by its stage, where that stage admits, and where a run is watched."""
    register = scope.registers[name]
    admits = None if site.waits is None else scope.admitting(family(site.waits))
    if register.stage in (site.stage, admits) or site.moment in (GAUGE, END_CLAIM):
        return
    notes = [Note("declared here", register.place)]
    message = f"`{name}` is a register of `{register.stage}`: {site.moment.what} is read apart from its iterations"
    reporter.error("E710", message, node.place, notes=notes)

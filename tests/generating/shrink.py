"""Making a case smaller that shows something, in bounded time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from generating.pieces import reductions, render
from generating.program import Case


def shrink(case: Case, shows: Callable[[Case], bool], seconds: float) -> Case:
    """The smallest case found that still `shows` it, by leaving out runs, then statements and options.

    Greedy: the first smaller case that shows it is taken, and the search goes on from there. It ends when no step is
    left, or after `seconds`; a candidate that is being looked at then is finished.
    """
    end = time.monotonic() + seconds
    for candidate in _fewer_runs(case):
        if shows(candidate):
            case = candidate
            break
    tried = {case.source}
    found = True
    while found and time.monotonic() < end:
        found = False
        for candidate in _smaller(case):
            if time.monotonic() >= end:
                break
            if candidate.source in tried:
                continue
            tried.add(candidate.source)
            if shows(candidate):
                case, found = candidate, True
                break
    return _shorter(case, shows, end)


def _fewer_runs(case: Case) -> Iterator[Case]:
    """The single runs of a case."""
    for sets in case.sets:
        for seed in case.seeds:
            yield replace(case, seeds=(seed,), sets=(sets,))


def _smaller(case: Case) -> Iterator[Case]:
    for tree in reductions(case.tree):
        yield replace(case, tree=tree, source=render(tree))


def _shorter(case: Case, shows: Callable[[Case], bool], end: float) -> Case:
    """No warm-up, and half the horizon as often as that shows it."""
    if case.warmup and shows(replace(case, warmup=0.0)):
        case = replace(case, warmup=0.0)
    while case.arrivals is None and case.horizon / 2 > max(case.warmup, 1.0) and time.monotonic() < end:
        candidate = replace(case, horizon=case.horizon / 2)
        if not shows(candidate):
            break
        case = candidate
    return case

"""Run-time errors: the codes a lane can end with, in the order of their status numbers."""

from __future__ import annotations

from sqc_runtime.core import FIRST_ERROR

ERRORS: tuple[tuple[str, str], ...] = (
    ("R101", "the instant does not settle: a session became ready more than 1000 times without time passing"),
    ("R102", "a session jumped a million times without waiting"),
    ("R103", "the guard is neither 0 nor 1"),
    ("R104", "the work of a run is negative or not a number"),
    ("R105", "the units of a hold are negative or not a number"),
    ("R106", "the gap to the next arrival is not positive and finite"),
    ("R107", "the horizon came before the requested number of arrivals"),
    ("R108", "sessions are still live at the horizon although the arrival limit was reached"),
    ("R109", "all sessions had ended before the warm-up was over: nothing was measured"),
    ("R110", "the rate of arrivals is not positive and finite"),
    ("R111", "the number of sessions is not a whole number from 0 to 1000000"),
)
UNSETTLED, ENDLESS, GUARD, WORK, UNITS, GAP, NOT_REACHED, NOT_DRAINED, DRAINED_EARLY, RATE, COUNT = range(len(ERRORS))


def error_of(status: int) -> tuple[str, str] | None:
    """Code and message of a lane status (None: no run-time error)."""
    index = status - FIRST_ERROR
    return ERRORS[index] if 0 <= index < len(ERRORS) else None

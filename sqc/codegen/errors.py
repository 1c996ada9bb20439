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
    ("R112", "the index is no whole number in the range of the array"),
    ("R113", "the amount is negative or not a number"),
    ("R114", "a load goes beyond what the hold has allocated"),
    ("R115", "the session ends while legs of it are live"),
    ("R116", "the number of choices is no whole number, or negative"),
    ("R117", "the block of a pool is not positive and finite"),
    ("R118", "the number of phases of an erlang draw is more than a million"),
    ("R119", "the number of servers of a stage is no whole number, or less than 1"),
    ("R120", "the capacity of a stage that runs share is not positive"),
    ("R121", "the run ends with sessions that wait for each other: one at this `join`, whose legs wait for memory"),
    ("R122", "the cost of an iteration is negative, not a number, or 0 although tokens were scheduled"),
    ("R123", "a thousand iterations of a stage took no time"),
    ("R125", "the hold has given the pool back before"),
    ("R126", "a key of a prefix is not a number, or a length is negative or not a number"),
    ("R127", "a checkpoint behind what the hold has computed, or before where it resumed"),
    ("R128", "the slots of a pool are not a whole number of at least 0"),
    ("R199", "an invariant of the simulation does not hold: a defect of sqc, please report it"),
)
UNSETTLED, ENDLESS, GUARD, WORK, UNITS, GAP, NOT_REACHED, NOT_DRAINED, DRAINED_EARLY, RATE, COUNT = range(11)
INDEX, AMOUNT, BEYOND, LIVE_LEGS, CHOICES, BLOCK, PHASES, SERVERS, SHARED, DEADLOCK = range(11, 21)
COST, ENDLESS_STEPS, GIVEN_BACK, PREFIX, CHECKPOINT, SLOTS, BROKEN = range(21, 28)


def error_of(status: int) -> tuple[str, str] | None:
    """Code and message of a lane status (None: no run-time error)."""
    index = status - FIRST_ERROR
    return ERRORS[index] if 0 <= index < len(ERRORS) else None

"""Programs with one step stage, in both spellings, around the part that a test is about."""

from __future__ import annotations

SCHEDULE = "advance running; admit waiting while (running.preempted == 0);"
RUNS = "run e prefill (cost(e, 3)); run e decode (cost(e, 2));"


def step(options: str = "budget 8; cost 1;", items: str = "", server: str = RUNS, size: str = "") -> str:
    """A program with a step stage, in the first spelling."""
    return (
        f'use "std/args"; fn main() {{ {items}\nstage e{size} : step {{ {options} }}\n'
        f"workload {{ arrive batch(3); }} server {{ {server} }} }}"
    )


def engine(
    schedule: str = SCHEDULE,
    execute: str = "1",
    parts: str = "",
    device: str = "",
    items: str = "",
    server: str = RUNS,
    size: str = "",
    tokens: str = "tokens cap 8;",
) -> str:
    """The same in the second spelling."""
    return (
        f'use "std/args"; fn main() {{ device d{size} {{ {device} }}\n'
        f"engine e{size} on d {{ {parts} {tokens} schedule {{ {schedule} }} execute ({execute}); }}\n"
        f"{items}\nworkload {{ arrive batch(3); }} server {{ {server} }} }}"
    )

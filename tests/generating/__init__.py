"""Random small programs for the comparison with the reference.

A program is assembled from pieces that are valid by construction, over every construct of the
language but step stages, stations and traces. `profiles.py` says which constructs a program may
have; `Case` is a program with its runs; `cases` is the hypothesis strategy and `generate` the same
from a plain source of randomness. Two flavours of numbers are mixed: continuous draws, so that no
two events meet, and whole numbers, so that events tie all the time and the order of one instant
decides the outcome.

Loads are heavy and runs short: what is looked for is a wrong rule, which shows at once, not a small
bias, which `test_closed_forms.py` looks for.
"""

from generating.pieces import Block, Option, Piece, reductions, render
from generating.profiles import FEATURES, PROFILES
from generating.program import Case, cases, generate
from generating.shrink import shrink

__all__ = [
    "FEATURES",
    "PROFILES",
    "Block",
    "Case",
    "Option",
    "Piece",
    "cases",
    "generate",
    "reductions",
    "render",
    "shrink",
]

"""`python -m sqc` is the command line."""

from __future__ import annotations

from sqc.cli import process

if __name__ == "__main__":
    process()

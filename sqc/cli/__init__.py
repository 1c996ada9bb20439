"""The command line: `main` runs one command and turns every error into a line and an exit code; `process` is the
whole process `sqc`.

Exit codes: 0 done; 1 the program or the run failed; 2 wrong usage; 130 interrupted.
"""

from __future__ import annotations

from sqc.cli.main import main, process

__all__ = ["main", "process"]

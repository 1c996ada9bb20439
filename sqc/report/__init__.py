"""The report of one run: exact statistics of its samples, as objects, as text and as JSON.

Goal: the rows and the layout that serQ prints, computed from every sample of the run (a sweep,
which keeps no samples, has its own table in `sweep.py`). Times are in the program's clock unit,
amounts in the unit of their stage or pool; a statistic that is not defined is NaN.
"""

from sqc.report.report import Report
from sqc.report.rows import (
    CLIENT_ROWS,
    Changes,
    ClaimRow,
    GaugeRow,
    OverCap,
    PoolRow,
    SampleRow,
    Samples,
    StageRow,
    label,
)

__all__ = [
    "CLIENT_ROWS",
    "Changes",
    "ClaimRow",
    "GaugeRow",
    "OverCap",
    "PoolRow",
    "Report",
    "SampleRow",
    "Samples",
    "StageRow",
    "label",
]

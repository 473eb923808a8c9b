"""Numbers and findings from a finished trace: pure functions that compute and draw nothing.

| module    | what                                                              |
|-----------|-------------------------------------------------------------------|
| `races`   | accesses that nothing orders, by happens-before                   |
| `traffic` | sectors, bytes, banks, shuffles, barriers, by line and in all     |
"""

from .races import races
from .traffic import (
    Summary,
    Table,
    bank_conflicts,
    bytes_moved,
    dsmem_matrix,
    hot_lines,
    sectors_per_request,
    shuffle_graph,
    summary,
)

__all__ = [
    "Summary",
    "Table",
    "bank_conflicts",
    "bytes_moved",
    "dsmem_matrix",
    "hot_lines",
    "races",
    "sectors_per_request",
    "shuffle_graph",
    "summary",
]

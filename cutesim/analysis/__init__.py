"""Numbers and findings from a finished trace: pure functions that compute and draw nothing.

| module                 | what                                                                    |
|------------------------|-------------------------------------------------------------------------|
| `races`                | accesses that nothing orders                                            |
| `race_reports`         | … and how they are said                                                 |
| `ordering`, `accesses` | what is ordered before what, and who touched which bytes                |
| `unwritten`            | reads of shared memory that nobody has written                          |
| `requests`             | sectors and wavefronts of each warp request                             |
| `traffic`              | sectors, bytes and banks, by line, by tensor and in all                 |
| `exchange`             | shuffles, bytes between blocks                                          |
| `rounding`             | whether a wrong number is a wrong formula's, or a right one's rounding  |
| `table`                | tables of counts, which print as text                                       |
"""

from .exchange import Chain, ShuffleGraph, dsmem_matrix, shuffle_graph
from .races import races
from .requests import REQUEST, requests
from .table import Summary, Table
from .traffic import bank_conflicts, bytes_moved, sectors_per_request, summary

__all__ = ["REQUEST", "Chain", "ShuffleGraph", "Summary", "Table", "bank_conflicts", "bytes_moved"]
__all__ += ["dsmem_matrix", "races", "requests", "sectors_per_request", "shuffle_graph", "summary"]

"""Pictures of what kernels did and how fast they were: drawn from traces and recorded results, computing only layout.

| function       | draws                                                                | from                          |
|----------------|----------------------------------------------------------------------|-------------------------------|
| `lanes`        | a kernel, instruction by instruction, for the 32 lanes of a warp      | a trace                       |
| `butterfly`    | who reads whom in a warp's shuffles, and who ends with the answer    | a trace with values           |
| `block_reduce` | warps, shared-memory words in their banks, stores, loads, barriers   | a trace with values           |
| `cluster_exchange` | blocks of a cluster, their messages, each mbarrier's phase, arrivals, bytes | a trace with values     |
| `coalescing`   | which bytes of which sectors each request of a line touches          | a trace                       |
| `race`         | two accesses that nothing orders, and the barrier that would         | a trace and a finding         |
| `tv_layout`    | which thread holds which element of a tile, both ways                | two arrays                    |
| `strides`      | a warp's request for any stride, width and offset, behind sliders    | the rule that requests follow |
| `explorer`     | a precomputed grid of pictures behind sliders                        | frames                        |
| `report`       | one HTML page of some runs: findings, tables and the pictures above  | what `simulate` returned      |
| `throughput`   | GB/s over N for several implementations, and the copy ceiling        | recorded results              |
| `ladder`       | the versions of a kernel, each as a share of the copy ceiling        | recorded results              |

All but the last two need nothing but numpy; these two need matplotlib. Each returns an object that notebooks show by
`_repr_html_`: one self-contained piece of HTML that works in a published page, without a kernel and without a network.

Not covered: the roofline, the traffic meter.
"""

from .block import block_reduce
from .charts import ladder, throughput
from .cluster import cluster_exchange
from .exchange import butterfly
from .grid import explorer
from .hazard import race
from .lane_view import lanes
from .player import Frame, Player
from .report import report
from .scene import Box, Label, Scene
from .sectors import coalescing
from .stride_explorer import strides
from .tile import tv_layout

__all__ = [
    "Box",
    "Frame",
    "Label",
    "Player",
    "Scene",
    "block_reduce",
    "butterfly",
    "cluster_exchange",
    "coalescing",
    "explorer",
    "ladder",
    "lanes",
    "race",
    "report",
    "strides",
    "throughput",
    "tv_layout",
]

"""Pictures of what kernels did and how fast they were: drawn from traces and recorded results, computing only layout.

| function       | draws                                                                | from                          |
|----------------|----------------------------------------------------------------------|-------------------------------|
| `lanes`        | a kernel, instruction by instruction, for the 32 lanes of a warp      | a trace                       |
| `lines`        | a kernel's source with where its warps wait; a line opens to PTX and SASS | a recorded sampling            |
| `listed`       | a kernel's source; a line opens to its lanes, PTX and SASS           | a trace and a recorded listing |
| `butterfly`    | who reads whom in a warp's shuffles, and who ends with the answer    | a trace with values           |
| `block_reduce` | warps, shared-memory words in their banks, stores, loads, barriers   | a trace with values           |
| `break_it`     | a kernel whose lines open to show what breaking them does             | `mutants.outcomes`            |
| `cluster_exchange` | blocks of a cluster, their messages, each mbarrier's phase, arrivals, bytes | a trace with values     |
| `coalescing`   | which bytes of which sectors each request of a line touches          | a trace                       |
| `sum_tree`     | in what order the terms of a sum were added                          | `cutesim.sums.trees`           |
| `timeline`     | all warps of a block, a column a step: who waits for whom            | a trace                       |
| `race`         | two accesses that nothing orders, and the barrier that would         | a trace and a finding         |
| `who_runs_next` | a kernel whose reader chooses which warp goes on                     | `orders.explore`              |
| `tv_layout`    | which thread holds which element of a tile, both ways                | two arrays                    |
| `strides`      | a warp's request for a stride, width and offset, behind sliders      | the rule that requests follow |
| `hierarchy`    | the memories of a GPU: who shares them, their sizes, what was measured   | the recorded memory hierarchy |
| `occupancy`    | what fits on an SM, and the bandwidth it allows, behind sliders      | the recorded memory hierarchy |
| `roofline`     | what bounds a kernel, and how near the recorded ones of one size are | recorded results              |
| `explorer`     | a precomputed grid of pictures behind sliders                        | frames                        |
| `throughput`   | GB/s over N for several implementations, and the ceiling             | recorded results              |
| `ladder`       | the versions of a kernel, each as a share of the ceiling             | recorded results              |
| `climb`        | every version at every size, of the ceiling and of the peak          | recorded results              |
| `rung`         | one version: cost model, measured times, registers, spills           | records                       |
| `last_rungs`   | several versions beside each other                                   | an H100's records             |
| `code_diff`    | the lines that change from one version to the next                   | their source                  |
| `heat_map`     | a sweep of configurations, two of their numbers as rows and columns  | a recorded sweep              |
| `merging`      | module: sorted lists that lanes merge by a butterfly                 | an array                      |
| `bars`         | module: a row of numbers as bars, step by step                       | arrays                        |

`throughput`, `ladder`, `climb` and `roofline` need matplotlib, the others nothing but numpy. Each returns an object that notebooks
show by `_repr_html_`: one self-contained piece of HTML that works in a published page, without a kernel and without a network.
"""

from .block import block_reduce
from .breakage import break_it
from .charts import climb, ladder, throughput
from .chooser import who_runs_next
from .cluster import cluster_exchange
from .code import code_diff
from .exchange import butterfly
from .grid import explorer
from .hazard import race
from .hierarchy import hierarchy
from .lane_view import lanes
from .line_view import lines, listed
from .occupancy import occupancy
from .player import Frame, Player
from .roof import roofline
from .rungs import last_rungs, rung
from .scene import Box, Label, Scene
from .sectors import coalescing, strides
from .sum_tree import sum_tree
from .tile import tv_layout
from .timeline import timeline
from .tuning import heat_map

__all__ = ["Box", "Frame", "Label", "Player", "Scene", "block_reduce", "break_it"]
__all__ += ["butterfly", "climb", "cluster_exchange", "coalescing", "code_diff"]
__all__ += ["explorer", "heat_map", "hierarchy", "ladder", "lanes", "lines"]
__all__ += ["last_rungs", "listed", "occupancy", "race", "roofline", "rung", "strides"]
__all__ += ["sum_tree", "throughput", "timeline", "tv_layout", "who_runs_next"]

"""The kernels of the book, in plain CuTe DSL: one ladder of versions an operation, each version changing one thing.

Each module imports cutlass; this package does not, so naming it costs nothing.

| module          | what is in it                                                                        | chapter  |
|-----------------|--------------------------------------------------------------------------------------|----------|
| `memory`        | one small kernel for each question that is asked of the memory                       | 1        |
| `layout`        | which thread holds which element: row tiles, thread-value layouts, 16-byte alignment | 2, 3, 7  |
| `copy`          | a 2-D copy in versions: coalesced, 128-bit vectors, of unaligned rows, cp.async       | 3        |
| `reduce`        | thread, warp, block and cluster reductions; (maximum, sum of exponentials) pairs     | 4, 5, 6  |
| `rmsnorm`       | RMSNorm with a weight in versions, forward and backward                              | 7        |
| `softmax`       | softmax of rows in versions                                                          | 8        |
| `cross_entropy` | cross-entropy in versions, forward and backward                                      | 9        |
| `layernorm`     | LayerNorm with a weight and a bias in versions                                       | 7, an exercise |
| `levels`        | softmax at three levels: warp, block and grid                                        | 14       |
| `tuned`         | what ships: the last rung of each ladder, with its sizes                             | 7, 8, 9  |

A module's `LADDER` (and `BACKWARD_LADDER`) maps the name of a version to what makes it, from the type of an element and N. Every
`__call__` takes a `stream` last: the queue in which a GPU runs launches one after the other.
"""

from pathlib import Path

from cutesim.context import own
from cutesim.language.loading import answer_package

own("quack_tutorial", str(Path(__file__).resolve().parents[1]), per_thread=("place",))
answer_package(__name__)  # where the DSL is not installed, these modules still load, for the simulator alone

"""The kernels of the book, in plain CuTe DSL: one ladder of versions an operation, each version changing one thing.

Each module imports cutlass; this package does not, so naming it costs nothing.

| module    | what is in it                                                                          |
|-----------|----------------------------------------------------------------------------------------|
| `layout`  | which thread holds which element: row tiles, thread-value layouts, 16-byte alignment   |
| `copy`    | a 2-D copy in versions: coalesced, 128-bit vectors, of unaligned rows, cp.async        |
| `reduce`  | thread, warp, block and cluster reductions; (maximum, sum of exponentials) pairs       |
| `softmax` | softmax of rows in versions                                                            |
| `rmsnorm` | RMSNorm with a weight in versions                                                      |
| `layernorm` | LayerNorm with a weight and a bias in versions                                       |
| `cross_entropy` | cross-entropy in versions                                                        |
| `memory`  | one small kernel for each question that chapter 1 asks the memory                      |
| `levels`  | softmax at three levels, warp, block and grid: chapter 14                              |
| `tuned`   | what ships: the last rung of each ladder, with its configurations                      |

Every `__call__` takes a `stream` last: the queue in which a GPU runs launches one after the other.
"""

from quack_tutorial.simulator.loading import answer_package

answer_package(__name__)  # where the DSL is not installed, these modules still load, for the simulator alone

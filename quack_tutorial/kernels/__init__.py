"""The kernels of the book, in plain CuTe DSL: one ladder of versions an operation, each version changing one thing.

Each module imports cutlass; this package does not, so naming it costs nothing.

| module    | what is in it                                                                          |
|-----------|----------------------------------------------------------------------------------------|
| `layout`  | which thread holds which element: row tiles, thread-value layouts, 16-byte alignment   |
| `copy`    | a 2-D copy in versions: coalesced, 128-bit vectors, of unaligned rows, cp.async        |
| `reduce`  | thread, warp and block reductions; (maximum, sum of exponentials) pairs                |
| `softmax` | softmax of rows in versions                                                            |
| `rmsnorm` | RMSNorm with a weight in versions                                                      |
| `layernorm` | LayerNorm with a weight and a bias in versions                                       |
| `cross_entropy` | cross-entropy in versions                                                        |
| `tuned`   | what ships: the last rung of each ladder, with its configurations                      |
"""

from quack_tutorial.simulator.loading import answer_package

answer_package(__name__)  # where the DSL is not installed, these modules still load, for the simulator alone

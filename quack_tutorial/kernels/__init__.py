"""The kernels, in CuTe DSL. Each module imports cutlass; this package does not, so naming it costs nothing.

| module    | what is in it                                                                          |
|-----------|----------------------------------------------------------------------------------------|
| `layout`  | which thread holds which element: row tiles, thread-value layouts, 16-byte alignment   |
| `copy`    | a 2-D copy in versions: one element a thread, 128-bit vectors, cp.async                |
| `reduce`  | thread, warp and block reductions; (maximum, sum of exponentials) pairs                |
| `config`, `tables` | how a kernel spreads rows over threads: what a sweep tries, and what was the fastest      |
| `rows`    | a row into registers and back, for any length and address: vectors, single elements    |
| `tile_copy` | the reads and writes of a row-wise kernel without its arithmetic                    |
| `exchange` | how the warps of a row agree: shared memory in a block, distributed in a cluster      |
| `pipeline` | rows on their way through shared memory while another is worked on: bulk copies       |
| `online`  | a row's maximum and sum of exponentials in one pass, a few vectors at a time            |
| `softmax` | softmax of rows in versions: three reads, two, one; its backward                       |
| `rmsnorm` | RMSNorm with weight, bias and residual; its backward                                   |
| `cross_entropy` | cross-entropy, its backward, and both in one pass                                |
| `loss`    | the losses of a batch as one number: mean or sum                                       |
| `steps`   | the first versions of RMSNorm and cross-entropy                                        |
"""

from quack_tutorial.simulator.loading import answer_package

answer_package(__name__)  # where the DSL is not installed, these modules still load, for the simulator alone

"""The kernels of the book, in plain CuTe DSL: one ladder of versions an operation, each version changing one thing.

Each module imports cutlass; this package does not, so naming it costs nothing.

| module          | what is in it                                                                        | chapter  |
|-----------------|--------------------------------------------------------------------------------------|----------|
| `memory`        | one small kernel for each question that is asked of the memory                       | 1        |
| `config`        | how rows are spread over threads, as fields with names                               | 7, 8, 9  |
| `layout`        | which thread holds which element: row tiles, thread-value layouts, 16-byte alignment | 2, 3, 7  |
| `copy`          | a 2-D copy in versions: coalesced, 128-bit vectors, of unaligned rows, cp.async       | 3        |
| `reduce`        | thread, warp, block and cluster reductions; (maximum, sum of exponentials) pairs     | 4, 5, 6  |
| `arithmetic`    | exponentials and sums of fewer instructions, for 16 bits                             | 8, 9     |
| `cache_hints`   | loads that ask L2 to give up last what they read                                     | 3        |
| `rmsnorm`       | RMSNorm with a weight in versions, forward and backward                              | 7        |
| `softmax`       | softmax of rows in versions                                                          | 8        |
| `cross_entropy` | cross-entropy in versions, forward and backward                                      | 9        |
| `layernorm`     | LayerNorm with a weight and a bias in versions                                       | 7, an exercise |
| `rmsnorm_quantized` | RMSNorm in float8 with its scales in versions                                    | 15       |
| `topk`          | the k largest of rows and their columns in versions                                  | top-k    |
| `levels`        | softmax at three levels: warp, block and grid                                        | 16       |
| `tuned`         | what ships: the last rung of each ladder, with its sizes                             | 7, 8, 9  |

A module's `LADDER` (and `BACKWARD_LADDER`) maps the name of a version to what makes it, from the type of an element and N. Every
`__call__` takes a `stream` last: the queue in which a GPU runs launches one after the other.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

# What the simulator, when it is loaded, is to know of this package, see `cutesim.context.own`.
SIMULATED_AS_OWN = ("quack_tutorial", str(Path(__file__).resolve().parents[1]), ("place",))
if "cutesim.context" in sys.modules:
    sys.modules["cutesim.context"].own(*SIMULATED_AS_OWN)
if find_spec("cutlass") is None:  # these modules still load then, for the simulator alone
    from cutesim.language.loading import answer_package

    answer_package(__name__)

"""Runs CuTe DSL kernels without a GPU: the reader's own source, interpreted on numpy, traced and checked.

| module           | what                                                                    |
|------------------|-------------------------------------------------------------------------|
| `rewrite`        | kernel source -> generators that run in lockstep                        |
| `control`        | branches, loops and calls of rewritten code                             |
| `twins`, `names` | the reader's objects and the DSL's names, as the simulator sees them    |
| `numeric`        | types, dynamic values, register vectors                                 |
| `exact`          | the same numbers in float64, beside the rounded ones                    |
| `layout`         | CuTe's layout algebra                                                   |
| `tensor`, `copying`, `shared_memory`, `memory` | tensors, copies, and where their bytes are  |
| `arch`, `mathops`, `asynchronous` | warp and block operations, math, cp.async               |
| `pipeline`       | cutlass.pipeline: stages between producers and consumers                |
| `assembly`, `ptx`, `dialects` | PTX by its text, and names from below CuTe DSL              |
| `scheduler`      | launches, batches of blocks, warps and their barriers                   |
| `arguments`, `loading`, `context` | arguments, imports without the DSL, the current place   |
| `host`           | what a file that is simulated calls outside its kernels                 |
| `blame`          | whose an error is: the reader's, or something that is lacking here      |
| `torch_answer`   | the part of torch that chapters and scripts use, where torch is not     |
| `hopper`         | rooms for what Hopper's kernels use beyond this book: tensor maps, matrix products |
| `progress`       | the line that a long run shows                                          |

`python -m quack_tutorial.simulator script.py` runs a script that imports cutlass where the DSL is not installed.

It is independent and not NVIDIA's; it reads source that the reader or this project wrote, never what the DSL emitted.
It tells what a kernel does, not how long it takes.
"""

from .arguments import Array
from .context import NotSimulated, SimulationError

__all__ = ["Array", "NotSimulated", "SimulationError"]

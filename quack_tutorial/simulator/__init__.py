"""Runs CuTe DSL kernels without a GPU: the reader's own source, interpreted on numpy, traced and checked.

| modules | what |
|---------|------|
| `rewrite` | kernel source -> generators that run in lockstep |
| `control`, `loops`, `joins` | what rewritten code calls: branches, loops, calls, joined names |
| `scheduler`, `context`, `progress` | launches, batches of blocks, warps; the current place; a long run's line |
| `numeric`, `exact` | types, dynamic values, register vectors; the same numbers in float64 |
| `layout`, `layout_algebra`, `shapes`, `swizzle` | CuTe's layouts |
| `memory`, `registers`, `shared_memory`, `structs` | where bytes are, and how warps reach them |
| `bounds`, `recording` | which accesses are refused; the rows of the trace |
| `tensor`, `additions`, `copying` | tensors, methods that a package gives them, and copies |
| `indices`, `warps`, `barriers`, `cluster`, `mbarriers`, `asynchronous`, `atomics`, `arithmetic` | cute.arch |
| `mathops`, `pipeline` | cute.math; cutlass.pipeline |
| `assembly`, `ptx`, `dialects` | PTX by its text, and names from below CuTe DSL |
| `names`, `placeholders`, `functions` | the DSL's names, as the simulator answers them |
| `twins` | the reader's functions, classes and objects, as the simulator sees them |
| `containers`, `pythons` | what Python's own containers hold; its functions that look into objects |
| `arguments`, `loading`, `host` | arguments; imports without the DSL; what a file calls outside its kernels |
| `blame`, `gaps`, `coverage` | whose an error is; what is lacking here; who proves which name |
| `torch_answer` | the part of torch that chapters and scripts use, where torch is not |
| `hopper` | what Hopper's kernels use beyond this book: tensor maps, matrix products |

`python -m quack_tutorial.simulator script.py` runs a script that imports cutlass where the DSL is not installed.

It is independent and not NVIDIA's; it reads source that the reader or this project wrote, never what the DSL emitted.
It tells what a kernel does, not how long it takes.
"""

from .arguments import Array
from .context import NotSimulated, SimulationError

__all__ = ["Array", "NotSimulated", "SimulationError"]

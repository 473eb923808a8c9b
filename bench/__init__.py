"""The benchmark behind the book's figures: what is timed, how, against whom, and the records it leaves.

What is timed stands in `quack_tutorial.operations`, how in `quack_tutorial.timing`, which cells in `quack_tutorial.records.cells`.

| module          | what it holds                                                                            |
|-----------------|------------------------------------------------------------------------------------------|
| `ours`          | our kernels by name, and the PTX of what is timed                                        |
| `peers`         | the other implementations, as their authors would have them set up                       |
| `public`        | the calls that a torch user makes, for `bench --public`                                  |
| `plain_tile`    | our kernels' own tiles without the arithmetic, for the ceilings as well                  |
| `ceilings`      | the ceiling of one size: the best of those kernels, found by a sweep                     |
| `correctness`   | float64 reference on sampled rows, before anything is timed                              |
| `measure`       | one cell: set up, check, time                                                            |
| `worker`        | the process that measures cells                                                          |
| `gpu_lock`      | several workers on one GPU: one has it, others compile                                   |
| `sweep`         | many cells through workers, one a GPU, started again when a provider takes them down     |
| `asked`         | what commands have in common: words, a GPU, the line that repeats them                   |
| `command`       | `quack-tutorial bench`                                                                   |
| `results`       | `quack-tutorial results`: what the records say, worst cells first                        |
| `cheats`        | a dozen ways to fool a benchmark, and the checks that catch them                         |
| `memory`        | `quack-tutorial memory`: latencies and bandwidths of the memory hierarchy                |
| `head`          | `quack-tutorial head`: a model's head and its loss, with the logits whole or in pieces   |
| `states`        | `quack-tutorial states`: calls at sizes that no sweep had, in three states of L2         |
| `training`      | `quack-tutorial model`: a small transformer trained with each implementation             |
| `profile`       | `quack-tutorial profile`: Nsight Compute's counters, kept as a record                    |
| `lines`         | `quack-tutorial lines`: the same by the line of a kernel's source                        |
| `record`        | `quack-tutorial record`: all that the book shows of a card, as far as it is missing      |
| `architectures` | what compiles for which generation of GPUs                                               |
| `releases`      | what releases of CuTe DSL make of the same programs                                      |
| `this_gpu`      | `this_machine`: the reader's own points beside the recorded ones                         |

A cell is an operation, a dtype, M rows and N columns. GB/s are 1e9 bytes a second of what the operation must move.
Importing this package loads neither torch nor triton.
"""

from importlib import import_module

# What `quack-tutorial` takes from here: name, what it does, module.
COMMANDS = (
    ("bench", "time kernels and their peers on this machine's GPU, and keep the times in a record", "bench.command"),
    ("record", "record what the book shows of this machine's card and nobody recorded yet", "bench.record"),
    (
        "results",
        "print what the records of a card in quack_tutorial/records say, worst cells first",
        "bench.results",
    ),
    ("memory", "time the memory hierarchy of this machine's GPU: latencies, bandwidths, conflicts", "bench.memory"),
    (
        "model",
        "train a small transformer with each implementation of its norms and loss, on this machine's GPU",
        "bench.training",
    ),
    ("profile", "count with Nsight Compute what our kernels and others do, on this machine's GPU", "bench.profile"),
    ("lines", "count with Nsight Compute where warps wait, line by line of a kernel's source", "bench.lines"),
    ("states", "time calls at sizes drawn from a seed, in three states of L2, on this machine's GPU", "bench.states"),
    ("head", "time a model's head and its loss, logits whole and in pieces, on this machine's GPU", "bench.head"),
)

__all__ = ["this_machine"]


def __getattr__(name):
    if name not in __all__:
        raise AttributeError(f"module 'bench' has no attribute {name!r}; it has {', '.join(__all__)}")
    return import_module("bench.this_gpu").this_machine

"""The benchmark behind the book's figures: what is timed, how, against whom, and the records it leaves.

What is timed stands in `quack_tutorial.operations`.

| module          | what it holds                                                                            |
|-----------------|------------------------------------------------------------------------------------------|
| `cells`         | which cells are measured: operation, type, rows and columns                              |
| `ours`          | our kernels by name, and the PTX of what is timed                                        |
| `public`        | the series of such calls, for `bench --public`                                           |
| `plain_kernels` | the vector kernels (read, copy, add) that a ceiling is the fastest of                    |
| `plain_tile`    | our kernels' own tiles without the arithmetic, for the ceilings as well                  |
| `ceilings`      | the ceiling of one size: the best of those kernels, found by a sweep                     |
| `correctness`   | float64 reference on sampled rows, before anything is timed                              |
| `timing`        | CUDA-graph replays over rotating buffers, providers interleaved                          |
| `statistics`    | medians, paired ratios and how sure they are                                             |
| `records`       | recorded results: device, versions, samples; read, checked, written                      |
| `measure`       | one cell: set up, check, time                                                            |
| `worker`        | the process that measures cells                                                          |
| `gpu_lock`      | several workers on one GPU: one has it, others compile                                   |
| `sweep`         | many cells through workers, one a GPU, started again when a provider takes them down     |
| `tuning`        | the process that tries configurations of one kernel at one size                          |
| `tune`          | `quack-tutorial tune`                                                                    |
| `command`       | `quack-tutorial bench`                                                                   |
| `results`       | `quack-tutorial results`, and the curves that the book draws                             |
| `cheats`        | a dozen ways to fool a benchmark, and the checks that catch them                         |
| `pitfalls`      | `quack-tutorial pitfalls`: a kernel timed in ways that mislead, and in ways that do not  |
| `memory`        | `quack-tutorial memory`: latencies and bandwidths of the memory hierarchy                |
| `head`          | `quack-tutorial head`: a model's head and its loss, with the logits whole or in pieces   |
| `parallel`      | `quack-tutorial parallel`: cross-entropy over a vocabulary that several GPUs share       |
| `training`      | `quack-tutorial model`: a small transformer trained with each implementation             |
| `profile`       | `quack-tutorial profile`: Nsight Compute's counters, kept as a record                    |
| `levels`        | `quack-tutorial levels`: the kernels of chapter 14                                       |
| `record`        | `quack-tutorial record`: all that the book shows of a card, as far as it is missing      |
| `precompile`    | compiles for a GPU on a machine without one                                              |
| `architectures` | what compiles for which generation of GPUs                                               |
| `this_gpu`      | `this_machine`: the reader's own points beside the recorded ones                         |

A cell is an operation, a dtype, M rows and N columns. GB/s are 1e9 bytes a second of what the operation must move.
Importing this package loads neither torch nor triton.
"""

from importlib import import_module

_HOMES = {
    "this_machine": "quack_tutorial.bench.this_gpu",
    "load_records": "quack_tutorial.bench.records",
    "throughput": "quack_tutorial.bench.results",
    "ladder": "quack_tutorial.bench.results",
}

__all__ = list(_HOMES)


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module 'quack_tutorial.bench' has no attribute {name!r}; it has {', '.join(_HOMES)}")
    return getattr(import_module(_HOMES[name]), name)

"""Runs CuTe DSL kernels without a GPU: the reader's own source, interpreted on numpy, traced and checked.

    run = cutesim.simulate(Softmax(4096), x, out)     # numpy arrays, CPU torch tensors, `Array`s, numbers
    print(run)                                        # races, deadlocks, wrong accesses, with the Python line

Each layer imports those above it in this table, and none below (`hopper` and `torch_answer` not each other, nor `analysis` the
`language`, nor `files` the `mutants`):

| layer          | what                                                                                        |
|----------------|---------------------------------------------------------------------------------------------|
| `trace`        | what happened, as plain records: one row per warp instruction                                 |
| `context`      | where the simulator is: the threads that run now, the reader's line, its errors              |
| `layouts`      | CuTe's layout algebra, on plain integers                                                     |
| `values`       | types, dynamic values, register vectors, arithmetic                                          |
| `memory`       | pointers and tensors: where bytes are, which accesses are refused                            |
| `machine`      | branches under masks, warps, barriers, clusters, asynchronous copies: who waits for whom     |
| `dialect`      | what each of the DSL's names does here                                                       |
| `hopper`       | more names: tensor maps, matrix products; everything else works without it                   |
| `torch_answer` | the part of torch that scripts use, where torch is not installed                              |
| `language`     | the reader's source: functions rewritten, objects replaced, imports answered                 |
| `analysis`     | from a trace to numbers and findings: races, sectors, bank conflicts                         |
| `run`          | one run, and what is wrong with it                                                           |
| `orders`       | every order in which a small kernel's warps may run, and the failing one told as a story    |
| `simulation`   | `simulate`: a run, or many                                                                    |
| `sums`, `delays` | in what order terms are added; a race's file with a wait that brings it out            |
| `formulas`     | whether two kernels compute the same formula                                                 |
| `mutants`      | a kernel with one step removed or altered, and what is then found                            |
| `files`, `command`, `pytest_plugin` | somebody's own file: `cutesim check FILE.py`, and a fixture             |

It is independent and not NVIDIA's; it reads source that the reader or this project wrote, never what the DSL emitted.
It shows what a kernel does, not how long it takes.
"""

from importlib import import_module

__version__ = "0.1.0"

_HOMES = {
    "Array": "cutesim.memory.arguments",
    "Bounds": "cutesim.orders",
    "NotSimulated": "cutesim.context",
    "Run": "cutesim.run",
    "SimulationError": "cutesim.context",
    "same_formula": "cutesim.formulas",
    "same_bits": "cutesim.sums",
    "simulate": "cutesim.simulation",
    "watched": "cutesim.simulation",
}
__all__ = ["__version__", *_HOMES]


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module 'cutesim' has no attribute {name!r}; it has {', '.join(_HOMES)}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__():
    return sorted([*globals(), *_HOMES])

"""Memory-bound GPU kernels in CuTe DSL: write them, run them on an NVIDIA GPU or on a simulator, and see what they did.

| name       | what it does                                                                      |
|------------|-----------------------------------------------------------------------------------|
| `start`    | says in one sentence where kernels run on this machine, and why                   |
| `launch`   | runs a kernel: CUDA tensors through the real DSL, others on the simulator         |
| `simulate` | runs a kernel on the simulator, warp by warp, and returns its trace and findings  |
| `same_formula` | says whether two kernels compute the same formula, without rounding          |
| `same_bits` | says whether what a kernel makes of a row depends on that row alone             |
| `trees`    | how each element of a kernel's results was made, from a simulated run             |
| `lines`    | a kernel's source, each line with its lanes, bytes, PTX, SASS, and on a GPU where warps wait |
| `check`    | compares a result with what is wanted, and says where it is wrong                 |
| `judge`    | an exercise's verdict: right for these lengths, or not yet and why                |
| `lengths`, `shapes`, `drawn` | lengths and pairs of them, and numbers, to judge by, drawn anew at each call |
| `bytes_read` | what a simulated run loaded from its inputs                                     |
| `verdict`  | the same of whatever an exercise compared itself                                  |
| `answer`   | a prediction's verdict: right, near or off, and the value                         |
| `time`     | times a kernel on this machine's GPU, beside a copy and the datasheet             |
| `recorded` | the recorded speeds of an operation at one size                                   |
| `print_shares` | prints a line for each of several recorded sizes, and one for what was not measured |
| `print_lacking` | prints in one line what was not measured on the card whose records are read |
| `replace_in`, `restore` | a Hugging Face model's norms and loss computed by `ops`, and back            |
| `analysis`, `figures`, `reference` | the modules of these names                                |

Each is loaded when it is first used: importing the package loads neither torch, nor CuTe DSL, nor matplotlib.
"""

from importlib import import_module

__version__ = "0.1.0"

_HOMES = {
    "start": "quack_tutorial.machine",
    "launch": "quack_tutorial.compiler",
    "simulate": "cutesim.simulation",
    "same_formula": "cutesim.formulas",
    **dict.fromkeys(("same_bits", "trees"), "cutesim.sums"),
    "lines": "quack_tutorial.line_by_line",
    **dict.fromkeys(("replace_in", "restore"), "quack_tutorial.replace"),
    **dict.fromkeys(
        "check judge bytes_read lengths shapes drawn verdict answer time recorded print_shares print_lacking".split(),
        "quack_tutorial.notebook",
    ),
}
_MODULES = {
    "analysis": "cutesim.analysis",
    "figures": "quack_tutorial.figures",
    "reference": "quack_tutorial.reference",
}

__all__ = ["__version__", *_HOMES, *_MODULES]


def __getattr__(name):
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name not in _HOMES:
        raise AttributeError(f"module 'quack_tutorial' has no attribute {name!r}; it has {', '.join(_HOMES)}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__():
    return sorted([*globals(), *_HOMES, *_MODULES])

"""Memory-bound GPU kernels in CuTe DSL: write them, run them on a Hopper GPU or on a simulator, and see what they did.

| name       | what it does                                                                      |
|------------|-----------------------------------------------------------------------------------|
| `start`    | says in one sentence where kernels run on this machine, and why                   |
| `launch`   | runs a kernel: CUDA tensors through the real DSL, others on the simulator         |
| `simulate` | runs a kernel on the simulator, warp by warp, and returns its trace and findings  |

Each is loaded when it is first used: importing the package loads neither torch, nor CuTe DSL, nor matplotlib.
"""

from importlib import import_module

__version__ = "0.1.0"

_HOMES = {
    "start": "quack_tutorial.machine",
    "launch": "quack_tutorial.compiler",
    "simulate": "quack_tutorial.simulation",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module 'quack_tutorial' has no attribute {name!r}; it has {', '.join(_HOMES)}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__():
    return sorted([*globals(), *_HOMES])

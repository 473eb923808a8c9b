"""A kernel on one input, and how wrong its outputs are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cutesim.simulation import simulate
from quack_tutorial import reference
from quack_tutorial.shipped import Kernel, dtype_of, float64

MAX_STEPS = 200_000


@dataclass(frozen=True)
class Case:
    """A kernel with inputs: `arguments()` gives fresh ones, arrays, CPU tensors, None and numbers; `error(arguments)` the largest
    error of its outputs over what is tolerated."""

    name: str
    host: object
    arguments: Callable
    error: Callable

    def run(self, **how):
        """(Run, what is wrong with the outputs or ""); the fast mode raises SimulationError at a wrong access."""
        arguments = self.arguments()
        run = simulate(self.host, *arguments, max_steps=MAX_STEPS, **how)
        with np.errstate(all="ignore"):
            error = self.error(arguments)
        return run, "" if error <= 1 else "the output is wrong"


def error(kernel: Kernel, given: dict) -> float:
    """The largest error of a kernel that ships, of what is tolerated; a sum with a residual is right to the last bit or not."""
    with np.errstate(all="ignore"):
        found = kernel.error(given)
        if given.get("h") is not None:
            x, residual = (float64(given[name]).astype(np.float32) for name in ("x", "residual"))
            exact = reference.round_to(x + residual, dtype_of(given["h"]))
            found = max(found, 0.0 if np.array_equal(float64(given["h"]), float64(np.asarray(exact))) else np.inf)
    return found

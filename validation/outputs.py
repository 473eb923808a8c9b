"""A kernel on one input, and how wrong its outputs are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quack_tutorial import reference
from quack_tutorial.shipped import Kernel, dtype_of, float64


@dataclass(frozen=True)
class Trial:
    """One host function on one input.

    `family` is the row of a table that it counts in. `arguments()` gives fresh arguments: arrays, CPU tensors, None and numbers.
    `outputs` are the positions of those that are written; `error(arguments)` gives the largest error of them all as a fraction of
    the tolerance, and is None where every bit is known: `exact(arguments)` gives (result, what it must be).
    """

    family: str
    name: str
    host: object
    arguments: object
    outputs: tuple = ()
    error: object = None
    exact: object = None


def error(kernel: Kernel, given: dict) -> float:
    """The largest error of a kernel that ships, of what is tolerated; a sum with a residual is right to the last bit or not."""
    with np.errstate(all="ignore"):
        found = kernel.error(given)
        if given.get("h") is not None:
            x, residual = (float64(given[name]).astype(np.float32) for name in ("x", "residual"))
            exact = reference.round_to(x + residual, dtype_of(given["h"]))
            found = max(found, 0.0 if np.array_equal(float64(given["h"]), float64(np.asarray(exact))) else np.inf)
    return found

"""Arguments of the kernels that ship, by name, made from their descriptions in `quack_tutorial.operations`."""

from __future__ import annotations

import numpy as np

from quack_tutorial import reference
from quack_tutorial.operations.kernel import COLUMNS, MATRIX, PARTS, SCALE, Kernel, dtype_of, float64


def made(kernel: Kernel, M: int, N: int, draw) -> dict:
    """The arguments of a kernel for M rows of N.

    `draw.has(group)` says whether optional tensors are there, `draw.parts()` in how many parts a sum is written,
    `draw.targets(M, N)` gives class numbers, `draw.normal(name, shape)` normally distributed float64; and
    `draw.place(name, kind, values)` gives the array that has them, or with None for values one of that shape to be written.
    """
    absent = {name for group in kernel.optional if not draw.has(group) for name in group}
    given = {}
    for name, kind in kernel.parameters.items():
        if name in absent or isinstance(kind, (int, float)):
            continue
        shape = {MATRIX: (M, N), COLUMNS: (N,), PARTS: (draw.parts(), N), SCALE: ()}.get(kind, (M,))
        if name in kernel.errors:
            values = None
        elif name == "target":
            values = draw.targets(M, N)
        else:
            values = draw.normal(name, shape)
            if name in kernel.inputs:
                values = kernel.inputs[name](values, kernel.exact(given))
        given[name] = draw.place(name, kind, values, shape)
    return given


def error(kernel: Kernel, given: dict) -> float:
    """The largest error of all outputs over what is tolerated; a sum with a residual is right to the last bit or not at all."""
    with np.errstate(all="ignore"):
        found = kernel.error(given)
        if given.get("h") is not None:
            x, residual = (float64(given[name]).astype(np.float32) for name in ("x", "residual"))
            exact = reference.round_to(x + residual, dtype_of(given["h"]))
            found = max(found, 0.0 if np.array_equal(float64(given["h"]), float64(np.asarray(exact))) else np.inf)
    return found

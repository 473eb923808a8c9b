"""The cases of the suite `operations`: kernels, edge inputs, and the answers that the specification gives.

| module                  | cases                                                                |
|-------------------------|----------------------------------------------------------------------|
| `numbers`               | arithmetic, comparisons, functions of floats and integers            |
| `conversions`           | conversions, operations on two types, powers, bit casts              |
| `warps`                 | shuffles, votes, reductions, atomics, barriers                       |

`operation` says what a case is.

Not covered, because nothing specifies it: integer division by zero and of the smallest integer by -1, shifts by the width
or more, floats that an 8-bit integer type does not hold, a*b + c where the compiler may fuse it, and which NaN an operation
gives. Nor vectors of floats converted to Boolean, which CuTe DSL 4.8.1 compiles to the opposite.
"""

from __future__ import annotations

from validation.operations.conversions import conversion_cases, mixed_cases
from validation.operations.numbers import approximate_cases, float_cases, integer_cases
from validation.operations.operation import Case
from validation.operations.warps import atomic_cases, barrier_cases, reduction_cases, warp_cases

MAKERS = (
    float_cases,
    approximate_cases,
    integer_cases,
    conversion_cases,
    mixed_cases,
    warp_cases,
    reduction_cases,
    atomic_cases,
    barrier_cases,
)


def cases(sample: bool = False) -> list[Case]:
    """Every case, or every third as a sample."""
    found = [case for make in MAKERS for case in make()]
    return found[::3] if sample else found

"""Why a result is wrong: its formula, or what rounding has made of a right one.

| kind       | the kernel's own steps without rounding (`simulate(..., exact=True).exact`) give                    |
|------------|-----------------------------------------------------------------------------------------------------|
| `formula`  | the same wrong number, or one as far off                                                             |
| `rounding` | what is right: sums, differences or products on the way have lost it                                 |
| `range`    | what is right, where the kernel has an infinity or NaN: a number on the way does not fit its type     |
| `both`     | a wrong number, and less than half of the error                                                      |

The steps are those that the rounded numbers have taken: a branch that rounding has turned stays turned.
"""

from __future__ import annotations

import math

CAUSES = ("formula", "rounding", "range", "both")
RIGHT = 1e-5  # of what is wanted, or of the error where that is 0: as far off may float64 and the constants be


def cause(got: float, exact: float, wanted: float) -> str:
    """One of formula, rounding, range and both, for one number of a result that is wrong."""
    if not math.isfinite(exact) or not math.isfinite(wanted):
        return "formula"
    left, error = abs(exact - wanted), abs(got - wanted)
    right = left <= RIGHT * (abs(wanted) or error)
    if not math.isfinite(error):
        return "range" if right else "formula"
    return "rounding" if right else "formula" if left >= error / 2 else "both"


def said(got: float, exact: float, wanted: float) -> str:
    """The cause as a sentence."""
    number = f"{exact:.6g}"
    return {
        "formula": f"In float64 the same steps give {number}: the formula is wrong, not the precision.",
        "rounding": f"In float64 the same steps give {number}: the formula is right, and rounding on the way loses the rest.",
        "range": f"In float64 the same steps give {number}: the formula is right, and a number on the way does not fit its type.",
        "both": f"In float64 the same steps give {number}: rounding is a part of it, and the formula is wrong, too.",
    }[cause(got, exact, wanted)]

"""The k largest of each row, and their columns.

| operation | inputs | outputs         | k                                            | bytes moved                       |
|-----------|--------|-----------------|----------------------------------------------|-----------------------------------|
| topk      | x      | values, indices | 8 up to N = 256, 32 up to 1,024, 64 up to 4,096 | MN + Mk elements, Mk of 8 bytes |
| topk 128  | x      | values, indices | 128, or N                                    | the same                          |

Values are in x's type, indices in int64, as torch.topk has them.
"""

from __future__ import annotations

from quack_tutorial.hardware import MOST_TOP, MOST_TOP_COLUMNS, usual_top
from quack_tutorial.operations.operation import Operation, randn
from quack_tutorial.operations.our_launches import ladder, shipped
from quack_tutorial.shipped import topk


def formula(x):
    """torch.topk with the usual k for x."""
    import torch

    return torch.topk(x, usual_top(x.shape[1]))


def formula_128(x):
    """torch.topk with k = 128, or all of a shorter row."""
    import torch

    return torch.topk(x, min(MOST_TOP, x.shape[1]))


def _inputs(M, N, dtype):
    return (randn(M, N, dtype),)


_OURS = shipped(topk(), "x", "values indices")
_SHARED = dict(
    pattern="1R", inputs=_inputs, most_columns=MOST_TOP_COLUMNS, arithmetic=("maximum", "comparison", "count", "store")
)
OPERATIONS = (
    Operation(
        "topk",
        formula=formula,
        ours=_OURS,
        ladder=ladder("topk", "LADDER", ("rounds", "merge", "threshold"), "x values indices", _OURS),
        **_SHARED,
    ),
    Operation("topk 128", formula=formula_128, ours=shipped(topk(MOST_TOP), "x", "values indices"), **_SHARED),
)

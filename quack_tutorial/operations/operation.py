"""One row of the table in `operations`, and what rows share: how inputs are made and results are read.

| column     | what it says                                                                          |
|------------|---------------------------------------------------------------------------------------|
| pattern    | the matrices of x's type that it reads and writes: 1R, 1R1W, 2R1W, 2R2W or 3R1W         |
| ceiling    | the pattern of its plain kernels, where that is another                               |
| counted_row_bytes | bytes of numbers, a few a row, that count as moved beside the matrices         |
| formula    | the same in torch, in float32 and rounded once                                         |
| inputs     | fresh random inputs on the GPU; the first is (M, N)                                   |
| ours       | our kernels, set up to be timed                                                       |
| most_columns | of a row, where that is limited further than by `MAX_N`                              |
| ladder     | the versions of the lesson, in the order they are taught                              |
| arithmetic | what an element goes through, a word a step, for the roofline                         |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from quack_tutorial.operations.our_launches import Ours
from quack_tutorial.shipped import CODES, COLUMNS, MATRIX, PARTS, ROWS, STRIDED_ROWS, TARGETS, Best, dtype_of, float64

DEVICE = "cuda"  # where inputs are made
# The dimension of which rows, or columns, of a tensor are looked at; a tensor that is not named is needed whole.
_ROWS = {MATRIX: 0, ROWS: 0, STRIDED_ROWS: 0, TARGETS: 0, CODES: 0}
_COLUMNS = {MATRIX: 1, COLUMNS: 0, PARTS: 0}


@dataclass(frozen=True)
class Operation:
    """One row of the table; see the module's docstring for the columns."""

    name: str
    pattern: str
    formula: Callable
    inputs: Callable[[int, int, str], tuple]  # M, N, dtype
    ours: Ours
    ladder: dict[str, Ours] = field(default_factory=dict)
    row_bytes: int = 0  # bytes a row of the inputs that have one number a row
    counted_row_bytes: int = 0
    code_bytes: int = 0  # bytes an element of the matrices that the pattern does not have
    ceiling: str = ""
    most_columns: int = 1 << 18
    arithmetic: tuple[str, ...] = ()

    def bytes(self, M: int, N: int, item: int) -> int:
        """What must be moved, however it is done, with `item` bytes an element; scratch traffic earns nothing."""
        element_bytes = sum(map(int, self.pattern[::2])) * item + self.code_bytes
        kinds = (self.ours.kernel.parameters[name] for name in self.ours.outputs)
        best = sum(kind.count(N) * (8 if kind.dtype else item) for kind in kinds if isinstance(kind, Best))
        return element_bytes * M * N + (self.counted_row_bytes + best) * M

    def error(self, inputs, outputs, rows, columns) -> float:
        """The largest error over what is tolerated, against float64: of sums over rows in the columns of these numbers, of all else
        in the rows of these numbers."""
        kernel, named, errors = self.ours.kernel, (*self.ours.inputs, *self.ours.outputs), []
        tensors = dict(zip(named, (*inputs, *outputs), strict=True))
        for name in self.ours.outputs:
            dims, numbers = (_COLUMNS, columns) if kernel.parameters[name] == PARTS else (_ROWS, rows)
            g = kernel.exact({})
            for one in (*self.ours.inputs, name):
                kind = kernel.parameters[one]
                setattr(g, one, part(tensors[one], numbers, 0 if isinstance(kind, Best) else dims.get(kind)))
            errors.append(kernel.errors[name](g, dtype_of(tensors[name])))
        return max(errors)


def randn(M, N, dtype):
    """An (M, N) tensor of normal numbers."""
    import torch

    return torch.randn(M, N, device=DEVICE, dtype=getattr(torch, dtype))


def part(tensor, numbers, dim=0):
    """Those rows (dim=0) or columns of a torch tensor, or with None all of it, in float64."""
    import torch

    return float64(tensor if dim is None else tensor.index_select(dim, torch.as_tensor(numbers, device=tensor.device)))

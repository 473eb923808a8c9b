"""One row of the table in `operations`, and what rows share: how inputs are made and results are read.

| column     | what it says                                                                          |
|------------|---------------------------------------------------------------------------------------|
| pattern    | the reads and writes that its ceiling has: 1R, 1R1W, 2R1W, 2R2W or 3R1W                 |
| bytes      | what must be moved, however it is done; scratch traffic earns nothing                 |
| inputs     | fresh random inputs on the GPU; the first is (M, N)                                   |
| error      | the largest error over what is tolerated, against float64, on sampled rows and columns |
| providers  | setup functions: `Ours`, and those of `peers`                                         |
| ladder     | the versions of the lesson, in the order they are taught                              |
| calls      | the setup functions of `bench --public`                                               |
| arithmetic | what an element goes through, a word a step, for the roofline                         |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from quack_tutorial.bench.our_launches import Ours

DEVICE = "cuda"  # where inputs are made
EPS = 1e-6  # added to the mean of squares in RMSNorm, to the variance in LayerNorm


@dataclass(frozen=True)
class Operation:
    """One row of the table; see the module's docstring for the columns."""

    name: str
    pattern: str
    bytes: Callable[[int, int, int], int]  # M, N, bytes an element
    inputs: Callable[[int, int, str], tuple]  # M, N, dtype
    error: Callable[[tuple, tuple, object, object], float]  # inputs, outputs, row numbers, column numbers
    providers: dict[str, Callable]
    ladder: dict[str, Ours] = field(default_factory=dict)
    row_bytes: int = 0  # bytes a row of the inputs that have one number a row
    calls: dict[str, Callable] = field(default_factory=dict)
    calls_of_mean: dict[str, Callable] = field(default_factory=dict)  # where the call is the mean of the losses
    arithmetic: tuple[str, ...] = ()


def randn(M, N, dtype):
    """An (M, N) tensor of normal numbers."""
    import torch

    return torch.randn(M, N, device=DEVICE, dtype=getattr(torch, dtype))


def at(numbers, *tensors, dim=0):
    """Those rows (dim=1: columns) of torch tensors as numpy arrays."""
    import torch

    return tuple(as_numpy(t.index_select(dim, torch.as_tensor(numbers, device=t.device))) for t in tensors)


def as_numpy(tensor):
    """A torch tensor as a numpy array, numbers with a point in float64."""
    return (tensor.double() if tensor.is_floating_point() else tensor).cpu().numpy()


def dtype_of(tensor):
    """A torch tensor's type: "float32"."""
    return str(tensor.dtype).removeprefix("torch.")

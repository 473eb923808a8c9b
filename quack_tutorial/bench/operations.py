"""The table of operations that are measured. A new one is a new row: everything else reads this table.

| column     | what it says                                                                          |
|------------|---------------------------------------------------------------------------------------|
| pattern    | the reads and writes that its ceiling has: 1R, 1R1W or 2R1W                           |
| bytes      | what must be moved, however it is done; scratch traffic earns nothing                 |
| inputs     | fresh random inputs on the GPU                                                        |
| error      | the largest error over what is tolerated, on sampled rows, against float64            |
| providers  | setup functions, see `peers` and `ours`                                               |
| ladder     | the versions of the lesson, in the order they are taught                              |
| ptx        | the PTX of one of our kernels, by provider, dtype and N                               |

Cells: M rows is 32768 up to N = 32768, 16384 up to 131072 and 8192 beyond; and 8192 for every N.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from quack_tutorial.bench import ours, peers

DTYPES = ("float32", "bfloat16", "float16")
ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
POWERS = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144)
# One above a power of 2, round decimal sizes, and the vocabularies of GPT-2, Llama 3 and Qwen 2.5.
ODD_SIZES = (257, 1000, 3000, 5120, 12289, 50257, 128256, 151936)


@dataclass(frozen=True, order=True)
class CellKey:
    """Which cell of the grid: what is computed, on what type, of M rows and N columns."""

    operation: str
    dtype: str
    M: int
    N: int

    def __str__(self):
        return f"{self.operation} {self.dtype} {self.M} x {self.N}"


@dataclass(frozen=True)
class Operation:
    """One row of the table; see the module's docstring for the columns."""

    name: str
    pattern: str
    bytes: Callable[[int, int, int], int]  # M, N, bytes an element
    inputs: Callable[[int, int, str], tuple]  # M, N, dtype
    error: Callable[[tuple, object, object], float]  # inputs, output, row numbers
    ptx: Callable[[str, str, int], str]  # provider, dtype, N
    providers: dict[str, Callable]
    ladder: dict[str, Callable] = field(default_factory=dict)


def softmax_torch(x):
    """Softmax of each row, as torch spells it."""
    import torch

    return torch.nn.functional.softmax(x, dim=-1)


def _softmax_inputs(M, N, dtype):
    import torch

    return (torch.randn(M, N, device="cuda", dtype=getattr(torch, dtype)),)


def _softmax_error(inputs, output, rows):
    import torch

    from quack_tutorial import reference

    picked = torch.as_tensor(rows, device=output.device)
    x, y = (tensor.index_select(0, picked).double().cpu().numpy() for tensor in (inputs[0], output))
    return reference.softmax_error(x, y, str(output.dtype).removeprefix("torch."))


OPERATIONS = {
    "softmax": Operation(
        name="softmax",
        pattern="1R1W",
        bytes=lambda M, N, item: 2 * M * N * item,
        inputs=_softmax_inputs,
        error=_softmax_error,
        ptx=ours.softmax_ptx,
        providers={
            "ours": ours.softmax,
            "eager": peers.eager(softmax_torch),
            "compile": peers.compiled(softmax_torch),
            "compile tuned": peers.compiled_tuned(softmax_torch),
            "quack": peers.quack_softmax,
            "liger": peers.liger_softmax,
        },
        ladder={version: ours.softmax_version(version) for version in ("three-pass", "online", "one read (final)")},
    ),
}


def default_rows(N: int) -> int:
    """The number of rows that goes with N columns, so that a tensor is 32 MiB to 8 GiB of float32."""
    if N <= 32768:
        return 32768
    return 16384 if N <= 131072 else 8192


def expected_cells(operation: str, ladder: bool = False) -> tuple[CellKey, ...]:
    """Every cell that a full record holds; for the ladder two types and the powers of 2 alone."""
    if ladder:
        return tuple(CellKey(operation, t, default_rows(N), N) for t in ("float32", "bfloat16") for N in POWERS)
    return tuple(
        CellKey(operation, dtype, M, N)
        for dtype in DTYPES
        for N in sorted(POWERS + ODD_SIZES)
        for M in sorted({default_rows(N), 8192}, reverse=True)
    )


def bytes_moved(key: CellKey) -> int:
    """The bytes that the cell's operation must move."""
    return OPERATIONS[key.operation].bytes(key.M, key.N, ITEM_BYTES[key.dtype])

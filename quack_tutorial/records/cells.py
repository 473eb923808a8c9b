"""Which cells the benchmark measures: operation, type, M rows and N columns; and what a cell moves.

M is 32768 up to N = 32768, 16384 up to 131072 and 8192 beyond; and 8192 for every N.
"""

from __future__ import annotations

from dataclasses import dataclass

from quack_tutorial.hardware import ITEM_BYTES
from quack_tutorial.operations import OPERATIONS

DTYPES = ("float32", "bfloat16", "float16")
POWERS = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144)
LADDER_SIZES = (1024, 4096, 8192, 16384, 32768, 131072)
# One above a power of 2, round decimal sizes, and the vocabularies of GPT-2, Llama 3 and Qwen 2.5.
ODD_SIZES = (257, 1000, 3000, 5120, 12289, 50257, 128256, 151936)
VOCABULARIES_TOO = (32000,)  # Llama 2's, of cross-entropy alone
L2_MULTIPLE = 16  # what launches go round is so many times as large as L2, or more, see `timing`
# Of plain kernels (words a block, warps, hints of loads and of stores), those near what sweeps find most often.
UNSWEPT = ((1024, 8, "evict_last", ""), (1024, 4, "evict_first", ".cs"))
# Series of the calls that a torch user makes, see `bench.public`.
PUBLIC, PUBLIC_MEAN = "public", "public mean"
PUBLIC_SERIES = (PUBLIC, PUBLIC_MEAN)
BEFORE = "L2 cleared, one replay"  # what precedes each sample, see `timing`


@dataclass(frozen=True, order=True)
class CellKey:
    """Which cell of the grid: what is computed, on what type, of M rows and N columns."""

    operation: str
    dtype: str
    M: int
    N: int

    def __str__(self):
        return f"{self.operation} {self.dtype} {self.M} x {self.N}"


def words(text: str | None) -> tuple[str, ...]:
    """The words of a list separated by commas; none for None."""
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def requested_dtypes(text: str | None, default=DTYPES) -> tuple[str, ...]:
    """The types in a list separated by commas, or `default`; ValueError names those there are."""
    found = words(text) or tuple(default)
    unknown = [dtype for dtype in found if dtype not in DTYPES]
    if unknown:
        raise ValueError(f"dtype {unknown[0]!r} is not one of {', '.join(DTYPES)}")
    return found


def default_rows(N: int) -> int:
    """The number of rows that goes with N columns, so that a tensor is 32 MiB to 8 GiB of float32."""
    if N <= 32768:
        return 32768
    return 16384 if N <= 131072 else 8192


def expected_cells(operation: str, ladder: bool = False) -> tuple[CellKey, ...]:
    """Every cell that a full record holds; for the ladder two types and `LADDER_SIZES`."""
    most = OPERATIONS[operation].most_columns
    if ladder:
        sizes = [N for N in LADDER_SIZES if N <= most]
        return tuple(CellKey(operation, t, default_rows(N), N) for t in ("float32", "bfloat16") for N in sizes)
    sizes = POWERS + ODD_SIZES + (VOCABULARIES_TOO if operation.startswith("cross-entropy") else ())
    return tuple(
        CellKey(operation, dtype, M, N)
        for dtype in DTYPES
        for N in sorted(sizes)
        if N <= most
        for M in sorted({default_rows(N), 8192}, reverse=True)
    )


def bytes_read(key: CellKey) -> int:
    """The bytes of the cell's inputs, but for a vector (N,) such as a weight."""
    operation = OPERATIONS[key.operation]
    return int(operation.pattern[0]) * key.M * key.N * ITEM_BYTES[key.dtype] + operation.row_bytes * key.M


def bytes_moved(key: CellKey) -> int:
    """The bytes that the cell's operation must move."""
    return OPERATIONS[key.operation].bytes(key.M, key.N, ITEM_BYTES[key.dtype])

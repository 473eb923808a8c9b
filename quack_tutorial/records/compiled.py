"""What ptxas said of the ladders' versions, recorded by `scripts/record_resources.py`: no GPU takes part. And how many instructions
their warps execute, which Nsight Compute counted once, on an H200."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from quack_tutorial.hardware import ITEM_BYTES
from quack_tutorial.records import FOLDER, Record

FILE, EXECUTED = FOLDER / "compiled" / "ladders.json", FOLDER / "compiled" / "executed.json"
# How often a version reads its rows, where it is not once.
READS = {
    ("softmax", "warp"): 3,
    ("softmax", "three-pass"): 3,
    ("softmax", "online"): 2,
    ("softmax", "vectors"): 2,
    ("rmsnorm", "block"): 2,
    ("rmsnorm", "vectors"): 2,
    ("rmsnorm-quantized", "block"): 3,
    ("rmsnorm-quantized", "vectors"): 3,
    ("layernorm", "block"): 3,
    ("layernorm", "vectors"): 3,
    ("cross-entropy", "two-pass"): 2,
}


@dataclass(frozen=True)
class Compiled:
    """One version of a ladder, compiled for rows of N."""

    operation: str
    version: str
    dtype: str
    N: int
    threads: int  # of a block
    loads: int  # from global memory in the kernel's text: more than the source has, where the compiler unrolled a loop
    registers: int  # of a thread
    renamed: int  # the same where the kernel's name, which CuTe DSL makes, does not hold the word "cutlass"
    at_once: tuple  # loads from global memory that a thread has in flight, in each stretch of machine code that has any
    spilled: int  # bytes of a thread that found no register and go to memory
    in_flight: int  # bytes of a block's tile, asked for before the first is used; without tiles, one element a thread
    smem: int  # bytes of a block's tiles in shared memory, without the slots of its reductions
    ptx_sha256: str  # what `compiler.ptx_hash` gives, so that a test can tell when a kernel changed

    @property
    def passes(self) -> tuple[int, ...]:
        """The bytes that a block has in flight in each read of its rows. Of a loop over elements these are the loads that the
        machine code has at once; one where the loop stores as well, for no load may pass a store."""
        reads = READS.get((self.operation, self.version), 1)
        element = self.threads * ITEM_BYTES[self.dtype]
        if self.in_flight > element:
            return (self.in_flight,) * reads
        loads = list(self.at_once[:reads])
        if self.operation != "cross-entropy":
            loads[-1] = 1
        return tuple(element * each for each in loads)


class Ladders(Record):
    """All that is recorded."""

    ROWS = "entries"

    @classmethod
    def row(cls, kept):
        return Compiled(**kept | {"at_once": tuple(kept["at_once"])})

    def find(self, operation: str, version: str, dtype: str, N: int) -> Compiled | None:
        """The entry of a version at a size, None where there is none."""
        wanted = (operation, version, dtype, N)
        return next((one for one in self.rows if (one.operation, one.version, one.dtype, one.N) == wanted), None)

    @property
    def origin(self) -> str:
        """What made the numbers, as a caption says it."""
        tools = f"ptxas {self.versions['ptxas']} for {self.arch}, CuTe DSL {self.versions['nvidia-cutlass-dsl']}"
        return f"Registers and spills: {tools}, {self.date} UTC."


@functools.cache
def executed() -> dict[tuple, dict]:
    """{(operation, version, dtype, N): what was counted of all launches of a call}: `M` rows, `instructions` of warps,
    `dram_read_bytes`, `dram_write_bytes`; "ours" is what ships."""
    counted = Record.load(EXECUTED)
    return {(row["operation"], row["version"], row["dtype"], row["N"]): row for row in counted.rows}


def load(path=FILE) -> Ladders:
    """The record in `path`, by default that of the package."""
    return Ladders.load(path)

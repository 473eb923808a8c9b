"""What ptxas said of the ladders' versions, recorded by `scripts/record_resources.py`: no GPU takes part."""

from __future__ import annotations

from dataclasses import dataclass

from quack_tutorial.records import FOLDER, Record

FILE = FOLDER / "compiled" / "ladders.json"


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


def load(path=FILE) -> Ladders:
    """The record in `path`, by default that of the package."""
    return Ladders.load(path)

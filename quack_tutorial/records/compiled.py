"""What ptxas said of the ladders' versions, recorded by `scripts/record_resources.py`: no GPU takes part.

| of an entry | is                                                                             |
|-------------|--------------------------------------------------------------------------------|
| threads     | of a block                                                                     |
| loads       | from global memory in the text of the kernel: more than the source has, where the compiler unrolled a loop |
| registers   | of a thread                                                                    |
| spilled     | bytes of a thread that found no register and go to memory                      |
| in_flight   | bytes of a block's tile, which it asks for before it uses the first of them; without tiles, one element a thread |
| smem        | bytes of a block's tiles in shared memory, without the slots of its reductions |
| ptx_sha256  | what `compiler.ptx_hash` gives, so that a test can tell when a kernel changed  |
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from quack_tutorial.records import FOLDER

FILE = FOLDER / "compiled" / "ladders.json"


@dataclass(frozen=True)
class Compiled:
    """One version of a ladder, compiled for rows of N."""

    operation: str
    version: str
    dtype: str
    N: int
    threads: int
    loads: int
    registers: int
    spilled: int
    in_flight: int
    smem: int
    ptx_sha256: str


@dataclass(frozen=True)
class Ladders:
    """All that is recorded; `ladders.find(...)` gives one entry or None."""

    entries: tuple[Compiled, ...]
    origin: str

    def find(self, operation: str, version: str, dtype: str, N: int) -> Compiled | None:
        """The entry of a version at a size, None where there is none."""
        wanted = (operation, version, dtype, N)
        return next((one for one in self.entries if (one.operation, one.version, one.dtype, one.N) == wanted), None)


def load(path=None) -> Ladders:
    """The record in `path`, by default that of the package."""
    kept = json.loads(Path(path or FILE).read_text(encoding="utf-8"))
    versions = kept["versions"]
    origin = (
        f"Registers and spills: ptxas {versions['ptxas']} for {kept['arch']}, "
        f"CuTe DSL {versions['nvidia-cutlass-dsl']}, {kept['date']} UTC."
    )
    return Ladders(tuple(Compiled(**one) for one in kept["entries"]), origin)

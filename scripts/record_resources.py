"""Compile the ladders and keep what ptxas says of each version: registers a thread, bytes spilled, shared memory, loads at once.

    python scripts/record_resources.py [softmax rmsnorm rmsnorm-backward ...] [--out FILE]

It needs CuTe DSL, ptxas and nvdisasm, and no GPU. Of several kernels that a version launches, the first counts. An operation that
is named replaces what the file holds of it; `quack_tutorial/records/compiled.py` says what an entry is and reads it.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

from bench import ours
from quack_tutorial import compiler, machine_code, records
from quack_tutorial.hardware import ITEM_BYTES
from quack_tutorial.operations import OPERATIONS, named
from quack_tutorial.operations.our_launches import FINAL
from quack_tutorial.records import compiled
from quack_tutorial.records.cells import LADDER_SIZES

DTYPES = ("float32", "bfloat16")
# Tiles of each in shared memory, where a version without a configuration has more than one.
STAGES = {"pipelined": 2}


def entry(operation, version, dtype, N) -> dict | None:
    """What the compiler says of one version at one size; None where the version refuses it."""
    try:
        kernel, args = ours.kernels(operation, version, ours.contiguous_rows(dtype, N))[0]
    except ValueError:
        return None
    text = compiler.ptx(kernel, *args)
    found = machine_code.assembled(text)
    threads = threads_of(kernel)
    rows, columns = tile_of(kernel, threads)
    tile = int(OPERATIONS[operation].pattern[0]) * rows * min(columns, N) * ITEM_BYTES[dtype]
    stages = kernel.config.stages if hasattr(kernel, "config") else STAGES.get(version, 1)
    return {
        "operation": operation,
        "version": version,
        "dtype": dtype,
        "N": N,
        "threads": threads,
        "loads": len(re.findall(r"\bld\.global", text)),
        "registers": found.registers,
        "renamed": machine_code.assembled(text.replace("cutlass", "renamed")).registers,
        "spilled": found.spill_store_bytes,
        "at_once": machine_code.in_flight(found.sass),
        "in_flight": tile,
        "smem": tile * stages if "cp.async" in text else 0,
        "ptx_sha256": compiler.ptx_hash(text),
    }


def threads_of(kernel) -> int:
    """The threads of a block: an attribute of most versions or of their configuration, 128 of the one that has a thread a row."""
    of = getattr(kernel, "config", kernel)
    return getattr(of, "threads_per_block", None) or getattr(of, "threads", 128)


def tile_of(kernel, threads: int) -> tuple[int, int]:
    """(rows, columns) that a block asks for before it uses the first of them."""
    if hasattr(kernel, "config"):  # what ships, with sizes by a rule
        tile = kernel.tile
        return tile.rows_per_block * tile.rows_each, min(
            tile.width, tile.threads_per_row * tile.vectors * tile.vector_size
        )
    if hasattr(kernel, "columns"):  # a bulk copy brings them
        return 1, kernel.columns
    return getattr(kernel, "tiler", (1, threads))


def ptxas_version() -> str:
    said = subprocess.run([machine_code.tool("ptxas"), "--version"], capture_output=True, text=True).stdout
    return re.search(r"V([\d.]+)", said).group(1)


def main() -> int:
    ladders = {name: operation.ladder for name, operation in OPERATIONS.items() if operation.ladder}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operations", nargs="*", help=f"default: {', '.join(ladders)}")
    parser.add_argument("--out", type=Path, default=compiled.FILE)
    args = parser.parse_args()
    problem = compiler.dsl_problem() or machine_code.missing()
    if problem:
        print(f"record_resources: {problem}", file=sys.stderr)
        return 1
    operations = [named(operation) for operation in args.operations] or list(ladders)
    old = records.read(args.out, "entries")["entries"] if args.out.exists() else []
    entries = [held for held in old if held["operation"] not in operations]
    for operation in operations:
        for version in ladders.get(operation, ()):
            if version == FINAL:
                continue
            found = [entry(operation, version, dtype, N) for dtype in DTYPES for N in LADDER_SIZES]
            entries += [one for one in found if one]
            print(operation, version, flush=True)
            record = {
                "date": records.today(),
                "arch": compiler.HOPPER_ARCH,
                "versions": {"ptxas": ptxas_version(), "nvidia-cutlass-dsl": compiler.DSL_VERSION},
                "command": " ".join(["python", "scripts/record_resources.py", *map(str, args.operations)]),
            }
            records.save(args.out, record | {"entries": entries})
    return 0


if __name__ == "__main__":
    sys.exit(main())

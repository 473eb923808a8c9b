"""Every rung and every kernel that ships, compiled for one generation of GPUs after another; no GPU is needed.

    python -m bench.architectures [--record] [sm_80 ...]

Each is compiled with what it chooses on a card of that generation. What has clusters, transactions of an mbarrier or bulk copies
needs compute capability 9.0, and float8 8.9; an older generation refuses it: an answer, and the only other one that is right.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator

from bench import ours
from quack_tutorial import card, compiler, hardware
from quack_tutorial.operations import OPERATIONS
from quack_tutorial.records import FOLDER, read, today

FILE = FOLDER / "compiled" / "architectures.json"
COMPILES, NEEDS = ANSWERS = "compiles", "needs newer"
# architecture -> a card that has it
CARDS = {
    "sm_80": "a100_80",
    "sm_86": "rtx3090",
    "sm_89": "rtx4090",
    "sm_90a": "h100",
    "sm_100a": "b200",
    "sm_103a": "b200",
    "sm_120a": "rtx5090",
}
# Rungs that are about bulk copies, clusters and atomics on vectors, and those that come after one.
OF_HOPPER = "read twice, short exp, bulk, cluster, vector atomics, any address, weights once".split(", ")
RUNG_SIZES = (("float32", 1024), ("bfloat16", 1000))
SHIPPED_SIZES = (("float32", 4096), ("bfloat16", 16384), ("bfloat16", 12289), ("float32", 131072))


def programs() -> Iterator[tuple[str, str, str, int]]:
    """(operation, provider, dtype, N) of all that is compiled."""
    for name, operation in OPERATIONS.items():
        yield from ((name, "ours", *size) for size in SHIPPED_SIZES if size[1] <= operation.most_columns)
        yield from ((name, rung, *size) for rung in list(operation.ladder)[:-1] for size in RUNG_SIZES)


def compiled(arch: str, of=lambda texts: COMPILES, wanted=None) -> dict:
    """What came of each of the programs that are `wanted`, by default all: `of` its PTX where it compiles, else `NEEDS` or the
    error's first line."""
    found = {}
    for operation, provider, dtype, N in wanted or programs():
        try:
            with card.taken_for(CARDS[arch]):
                kernels = ours.kernels(operation, provider, ours.contiguous_rows(dtype, N))
                said = of([compiler.ptx(kernel, *args, arch=arch) for kernel, args in kernels])
        except compiler.NeedsNewerGPU:
            said = NEEDS
        except Exception as error:  # whatever it is, the table says it
            said = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        found[operation, provider, dtype, N] = said
    return found


def main(argv=None) -> int:
    """Print a line an architecture, and each program that did not compile there; 1 where one is refused without need."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("architectures", nargs="*", default=compiler.ARCHITECTURES, metavar="ARCHITECTURE")
    parser.add_argument("--record", action="store_true", help=f"keep the counts in {FILE.name}, for the page on trust")
    args = parser.parse_args(argv)
    status, kept = 0, read(FILE) if FILE.exists() else {}
    for arch in args.architectures:
        found = compiled(arch)
        counts = Counter(said if said in ANSWERS else "failed" for said in found.values())
        status |= counts["failed"] > 0 or (
            counts[NEEDS] > 0 and hardware.gpu(CARDS[arch]).capability >= compiler.CLUSTERS
        )
        print(f"{arch}: {counts[COMPILES]} of {len(found)} compile, {counts[NEEDS]} need a newer card", flush=True)
        for (operation, provider, dtype, N), said in found.items():
            if said != COMPILES:
                print(f"  {operation}, {provider}, {dtype} {N}: {said}")
        kept[arch] = {"programs": len(found), "compile": counts[COMPILES], "need newer": counts[NEEDS], "date": today()}
    if args.record and not status:
        counts = {arch: kept[arch] for arch in CARDS if arch in kept}
        FILE.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())

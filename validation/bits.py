"""Suite `bits`: in what order each version of each ladder adds, and whether its rows depend on anything but the row.

`cutesim.sums.same_bits` runs a version in other batches, places, neighbourhoods and orders of its warps. The first launch of each
is tried, on rows of whole vectors and on rows that start anywhere; of its results the one with most terms is shown. The record's
rows on others' kernels were made once, by the program that it names.
"""

from __future__ import annotations

from cutesim.sums import same_bits, trees
from quack_tutorial.operations import OPERATIONS
from quack_tutorial.operations.our_launches import FINAL
from quack_tutorial.records import suite as report
from validation.formulas import arguments, takes

SAME = "the same everywhere"
CASES = ("float32", 256), ("float32", 331)


def run(sample, progress) -> report.Suite:
    """Try every version of every ladder."""
    rows = []

    def add(operation, version, dtype, N, host, made):
        progress(f"{operation}, {version}, {N}")
        firsts = [made_of.ravel()[0] for made_of in trees(host, *made, check=False).values()]
        tree, bits = max(firsts, key=lambda tree: len(tree.terms)), same_bits(host, *made)
        where = SAME if bits else "others " + str(bits).split(" otherwise ")[-1].partition(" than")[0]
        rows.append((operation, version, dtype, N, len(tree.terms), tree.depth, where))

    for name, operation in OPERATIONS.items():
        versions = {version: ours for version, ours in operation.ladder.items() if version != FINAL}
        for version, ours in (versions | {FINAL: operation.ours}).items():
            for dtype, N in CASES[:1] if sample else CASES:
                if takes(ours, dtype, N) and (not sample or version == FINAL):
                    add(name, version, dtype, N, *arguments(ours, dtype, N))
    return report.Suite(
        "bits",
        "How deep is the tree of each sum, and does a row have the same bits everywhere?",
        ("operation", "version", "type", "columns", "terms", "additions", "a row's bits"),
        tuple(rows),
        tuple(f"{name}, {version}, {N} columns: {bits}" for name, version, _, N, *_, bits in rows if bits != SAME),
        checked=len(rows),
    )

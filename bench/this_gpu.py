"""The reader's own points: a few sizes measured on this machine, to be drawn beside the recorded curves."""

from __future__ import annotations

from quack_tutorial import machine
from quack_tutorial.operations import named
from quack_tutorial.records.cells import CellKey, default_rows

PROVIDERS = ("ours", "eager", "compile")


def this_machine(operation: str, dtype: str, sizes, limit_s: float = 60) -> list[dict]:
    """Measure row lengths `sizes` in about `limit_s` seconds; [] on a machine without a GPU.

    Each point is {"operation", "dtype", "provider", "M", "N", "gb_s", "fraction_of_ceiling", "device"}; the provider
    "ceiling" is among them. Sizes that the time does not suffice for are left out. It runs in a process of its
    own, 7 rounds a size.
    """
    operation = named(operation)
    here = machine.detect()
    if here.device != "cuda":
        return []
    from bench import sweep  # starts processes, which a browser has not

    keys = [CellKey(operation, dtype, default_rows(N), N) for N in sizes]
    found = sweep.measure_cells(keys, PROVIDERS, rounds=7, do_bench=False, limit_s=limit_s)
    cells = [measured.cell for measured in found if measured.cell]
    return [{**point, "device": here.gpu} for cell in cells for point in points(operation, cell)]


def points(operation: str, cell) -> list[dict]:
    """The points of one cell."""
    size = {"operation": operation, "dtype": cell.dtype, "M": cell.M, "N": cell.N}
    ceiling = {"provider": "ceiling", **size, "gb_s": cell.ceiling_gb_s, "fraction_of_ceiling": 1.0}
    return [ceiling] + [
        {"provider": r.provider, **size, "gb_s": r.gb_s, "fraction_of_ceiling": r.fraction_of_ceiling}
        for r in cell.results
        if r.status == "ok"
    ]

"""`roofline`: where the recorded kernels of one size lie under the roof.

The slope is the best ceiling measured at that size. The roof is the datasheet's rate of float32 arithmetic. Operations are counted
by `Operation.arithmetic`: one for each step that an element goes through, an exponential as one, as the roof counts them; hardware
takes more. Not covered: tensor cores, and ceilings of L1 and L2.
"""

from __future__ import annotations

from quack_tutorial import hardware
from quack_tutorial.operations import OPERATIONS
from quack_tutorial.records import bench as records
from quack_tutorial.records import folder
from quack_tutorial.records.cells import CellKey, default_rows

from .charts import MARKERS, Chart, _origin, flat
from .theme import LIGHT, SERIES

DTYPE, N = "float32", 4096
PEAK_GFLOP_S = 67_000  # float32, outside the tensor cores
PEAK_SOURCE = "NVIDIA's pages of the H100 SXM and the H200, float32 without tensor cores"
# float32, three matrices.
LANDMARK = ("a product\nof 256 x 256\nmatrices", 2 * 256**3 / (3 * 256**2 * 4))
ENDS = 2.0**-3, 2.0**7  # of the axis of operations a byte
PROVIDERS = ("ours", "quack", "compile", "liger", "eager")
STEPS = {name: len(operation.arithmetic) for name, operation in OPERATIONS.items() if operation.arithmetic}


def recorded() -> dict:
    """The record and the cell of each operation at `DTYPE`, `N`."""
    found = records.latest_cells(records.load_records())
    keys = {name: CellKey(name, DTYPE, default_rows(N), N) for name in STEPS}
    return {name: found[key] for name, key in keys.items() if key in found}


def intensity(operation: str, cell) -> float:
    """Operations for each byte that must move."""
    return STEPS[operation] * cell.M * cell.N / cell.bytes_moved


def roofline() -> Chart:
    """A mark for each kernel at its operations a byte and its GFLOP/s, under the memory's slope and the arithmetic's roof."""
    cells = recorded()
    peak = hardware.gpu(folder().name).bandwidth_gb_s
    slope = max(cell.ceiling_gb_s for _, cell in cells.values())
    marks = [
        (name, result, intensity(name, cell), cell)
        for name, (_, cell) in cells.items()
        for result in cell.results
        if result.status == "ok" and result.provider in PROVIDERS
    ]

    def draw(axes, wide):
        for gb_s, style, label in (
            (slope, "solid", "the best copy or read"),
            (peak, (0, (5, 3)), "the datasheet's bandwidth"),
        ):
            corner = PEAK_GFLOP_S / gb_s
            x, y = (ENDS[0], corner, ENDS[1]), (gb_s * ENDS[0], PEAK_GFLOP_S, PEAK_GFLOP_S)
            axes.plot(x, y, color=LIGHT["ink"], linestyle=style, linewidth=1.3, label=label)
        for provider, (colour, _), mark in zip(PROVIDERS, SERIES, MARKERS):
            there = [(at, at * result.gb_s) for _, result, at, _ in marks if result.provider == provider]
            axes.plot(*zip(*there), color=colour, marker=mark, linestyle="none", markersize=7, label=provider)
        axes.plot(LANDMARK[1], PEAK_GFLOP_S, marker="o", markerfacecolor="none", color=LIGHT["ink"])
        words, at, side = (
            (LANDMARK[0].replace("\n", " "), LANDMARK[1], "center") if wide else (LANDMARK[0], ENDS[1], "right")
        )
        axes.annotate(words, (at, 0.7 * PEAK_GFLOP_S), ha=side, va="top", color=LIGHT["ink"], fontsize=12)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set(xlabel="operations a byte", ylabel="GFLOP/s")

    shares = [result.fraction_of_ceiling for _, result, _, _ in marks if result.provider == "ours"]
    return Chart(
        draw,
        f"Roofline: what bounds a kernel, {DTYPE}, {default_rows(N):,} rows of {N:,}",
        f"The most operations a byte are {max(at for _, _, at, _ in marks):.3g}; arithmetic would be the bound from "
        f"{PEAK_GFLOP_S / slope:.0f} on. Ours reach {min(shares):.0%} to {max(shares):.0%} of the speed of the best copy or read.",
        f"{_origin(flat(record for record, _ in cells.values()), None)} The roof: {PEAK_SOURCE}. Bytes are those that must move; "
        "operations are counted once an element, an exponential as one.",
        ("operation", "kernel", "operations a byte", "GB/s", "GFLOP/s", "of the ceiling"),
        tuple(
            (
                name,
                one.provider,
                f"{at:.3g}",
                f"{one.gb_s:,.0f}",
                f"{at * one.gb_s:,.0f}",
                f"{one.fraction_of_ceiling:.0%}",
            )
            for name, one, at, _ in marks
        ),
        height=(4.6, 5.0),
        legend=(4, 2),
    )

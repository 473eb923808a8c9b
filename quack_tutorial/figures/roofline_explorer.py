"""`roofline`: operation, dtype, rows and columns behind controls, and where the recorded kernels then lie under the roof.

The slope is the ceiling measured at that size. The roof is the datasheet's rate of float32 arithmetic. Operations are counted by
`FORMULAS`: one for each step that an element goes through, an exponential as one, as the roof counts them; hardware takes more.
What follows from a size is computed in `roofline_explorer.js`; what stands here is the first setting's picture, for where scripts
do not run.

Not covered: tensor cores, and ceilings of L1 and L2.
"""

from __future__ import annotations

from html import escape
from math import log2, log10

from quack_tutorial import hardware
from quack_tutorial.operations import OPERATIONS
from quack_tutorial.records import bench as records
from quack_tutorial.records import folder

from .charts import _origin, flat
from .player import key_html, page, slider
from .theme import LIGHT, SERIES, asset, variable

FORMULAS = {name: operation.arithmetic for name, operation in OPERATIONS.items() if operation.arithmetic}
DTYPES = ("float32", "bfloat16", "float16")
PROVIDERS = ("ours", "quack", "compile", "liger", "eager")
MARKS = (
    "M-6 0a6 6 0 1 0 12 0a6 6 0 1 0-12 0z",
    "M-5-5h10v10h-10z",
    "M0-7 6.5 5h-13z",
    "M0-7 6 0 0 7-6 0z",
    "M-6-3h12v6h-12z",
)
PEAK_GFLOP_S = 67_000  # float32, outside the tensor cores
PEAK_SOURCE = "NVIDIA's pages of the H100 SXM and the H200, float32 without tensor cores"
LANDMARK = ("a product of 256 x 256 matrices", 2 * 256**3 / (3 * 256**2 * 4))  # float32, three matrices
HEIGHT, WIDTH, LEFT, RIGHT, TOP, BOTTOM = 300, 720, 62, 14, 26, 44
X, Y = (-3, 7), (2, 5)  # powers of 2 and of 10 at the ends of the axes
START = ("softmax", "float32", 4096, 32768)
TABLE = (
    '<div class="qt-table"><table><thead><tr><th scope="col"></th><th scope="col">GB/s</th><th scope="col">GFLOP/s</th>'
    '<th scope="col">of the ceiling</th></tr></thead><tbody></tbody></table></div>'
)


def cells(operation) -> dict:
    """(dtype, N, M) -> [bytes moved, GB/s of the ceiling, GB/s of each of PROVIDERS], as recorded."""
    found = {}
    for key, (_, cell) in records.latest_cells(records.load_records(operation=operation)).items():
        speed = {r.provider: round(r.gb_s) for r in cell.results if r.status == "ok"}
        if cell.ceiling_gb_s:
            row = [cell.bytes_moved, round(cell.ceiling_gb_s), *(speed.get(name) for name in PROVIDERS)]
            found[key.dtype, key.N, key.M] = row
    return found


class Roofline:
    """The explorer as an object that notebooks show; without scripts its first setting stands still."""

    title = "Roofline: what bounds a kernel, and how near the recorded ones are"

    def __init__(self):
        self.cells = {name: found for name in FORMULAS if (found := cells(name))}
        self.sizes = sorted({N for found in self.cells.values() for _, N, _ in found})

    def _repr_html_(self) -> str:
        operation, dtype, N, M = START
        controls = (
            choice("Operation", self.cells, operation)
            + choice("Type", DTYPES, dtype)
            + slider("N", len(self.sizes), self.sizes.index(N), f"{N:,}")
            + slider("Rows", 2, 1, f"{M:,}")
        )
        key = key_html((("p", "the other operations, ours"),))
        key = key.replace("</ul>", "<li>dashed: the datasheet's bandwidth</li></ul>")
        return page(
            title=self.title,
            controls=controls,
            caption=f"<p>{operation}, {dtype}, {M:,} rows of {N:,}: where the recorded kernels lie.</p>",
            picture=f"<style>{asset('roofline_explorer.css')}</style>{self.picture()}",
            width=WIDTH,
            key=TABLE + key,
            origin=f"{self.origin()} The roof: {PEAK_SOURCE}. Bytes are those that must move; "
            "operations are counted once an element, an exponential as one.",
            script="roofline_explorer.js",
            data=self.data(),
            attributes=' data-part="roofline"',
        )

    def origin(self) -> str:
        return _origin(flat(records.load_records(series="peers")), None)

    def data(self) -> dict:
        """What the script gets: for each operation its steps, and for each dtype, N and M what `cells` has."""
        return {
            "steps": {name: len(FORMULAS[name]) for name in self.cells},
            "cells": {
                name: {f"{dtype} {N} {M}": row for (dtype, N, M), row in found.items()}
                for name, found in self.cells.items()
            },
            "sizes": self.sizes,
            "providers": PROVIDERS,
            "marks": MARKS,
            "colours": [variable(f"s{i}") for i in range(len(PROVIDERS))],
            "peak": PEAK_GFLOP_S,
            "sheet": hardware.gpu(folder().name).bandwidth_gb_s,
            "landmark": LANDMARK,
            "start": START,
        }

    def picture(self) -> str:
        """The SVG of the first setting, for where scripts do not run."""
        operation, dtype, N, M = START
        row = self.cells[operation][dtype, N, M]
        intensity = len(FORMULAS[operation]) * M * N / row[0]
        across = lambda x: LEFT + (log2(x) - X[0]) / (X[1] - X[0]) * (WIDTH - LEFT - RIGHT)  # noqa: E731
        down = lambda y: HEIGHT - BOTTOM - (log10(y) - Y[0]) / (Y[1] - Y[0]) * (HEIGHT - TOP - BOTTOM)  # noqa: E731
        parts = []
        for k in range(Y[0], Y[1] + 1):
            parts.append(f'<path stroke="{LIGHT["line"]}" d="M{LEFT} {down(10**k):.1f}H{WIDTH - RIGHT}"/>')
            parts.append(f'<text x="{LEFT - 6}" y="{down(10**k) + 4:.1f}" text-anchor="end">{10**k:,}</text>')
        for k in range(X[0], X[1] + 1):
            text = f"1/{2**-k}" if k < 0 else f"{2**k}"
            parts.append(f'<text x="{across(2**k):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{text}</text>')
        sheet = hardware.gpu(folder().name).bandwidth_gb_s
        for gb_s, dashes in ((row[1], ""), (sheet, ' stroke-dasharray="5 4"')):
            bend = min(PEAK_GFLOP_S / gb_s, 2 ** X[1])
            parts.append(
                f'<path fill="none" stroke="{LIGHT["ink"]}"{dashes} d="M{across(2 ** X[0]):.1f} {down(gb_s * 2 ** X[0]):.1f}'
                f'L{across(bend):.1f} {down(PEAK_GFLOP_S):.1f}H{WIDTH - RIGHT}"/>'
            )
        for gb_s, mark, (colour, _) in reversed(list(zip(row[2:], MARKS, SERIES))):
            if gb_s is not None:
                place = f"translate({across(intensity):.1f} {down(gb_s * intensity):.1f})"
                parts.append(f'<path fill="{colour}" transform="{place}" d="{mark}"/>')
        return (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" font-size="11.5" '
            f'aria-label="A roofline. The text above and the table below have its numbers.">'
            f'<text x="0" y="12">GFLOP/s</text><text x="{WIDTH - RIGHT}" y="{HEIGHT - 8}" text-anchor="end">'
            f"operations a byte</text>{''.join(parts)}</svg>"
        )


def choice(name, values, chosen) -> str:
    """A labelled native list to choose from."""
    options = "".join(f"<option{' selected' * (value == chosen)}>{escape(value)}</option>" for value in values)
    return f"<label>{escape(name)} <select>{options}</select></label>"


def roofline() -> Roofline:
    """Operation, dtype, rows and columns behind controls, and where the recorded kernels then lie under the roof.

    The slope is the ceiling that was measured at that size, in GB/s; the roof is the datasheet's rate of float32 arithmetic.
    """
    return Roofline()

"""The first picture of the front page and of the README: a race, found by the simulator in a kernel that passes its test.

`python book/front.py` writes book/static/race.svg, which the README shows; a test compares the two.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

import quack_tutorial as qt
from cutesim.language.loading import answer_folder
from quack_tutorial import figures

HERE = Path(__file__).parent
answer_folder(str(HERE))  # where CuTe DSL is not installed, the simulator answers

import cutlass  # noqa: E402
import cutlass.cute as cute  # noqa: E402

STYLE = (
    "<style>.qt-strong{font-weight:600}.qt-code{font:11.5px ui-monospace,Menlo,Consolas,monospace;white-space:pre}"
    "[data-r=f]{stroke-width:2}text{dominant-baseline:central}</style>"
)


@cute.jit
def warp_sum(value, rounds: cutlass.Constexpr):
    for i in cutlass.range_constexpr(rounds):
        value = value + cute.arch.shuffle_sync_bfly(value, 1 << i)
    return value


class BlockSum:
    """The sum of 128 numbers, for each of 128 threads. A barrier is missing."""

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor):
        self.kernel(mX, mO).launch(grid=[1, 1, 1], block=[128, 1, 1])

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx()
        buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(4), 16)
        # read N elements
        total = warp_sum(mX[tidx], 5)
        if lane == 0:
            buffer[warp] = total
        total = warp_sum(buffer[lane % 4], 2)
        # write N elements
        mO[tidx] = total


def race() -> figures.Player:
    """The race that its missing barrier leaves."""
    x, out = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    run = qt.simulate(BlockSum(), x, out, values=True)
    player = figures.race(run.trace, run.findings[0])
    return replace(player, title="This sum of 128 numbers is wrong, and a test of it may well pass")


def as_svg(player) -> str:
    """The opening step as an SVG of its own, on white, for pages that strip styles."""
    html = player._repr_html_()
    svg = html[html.index("<svg viewBox") : html.index("</svg>", html.index("<svg viewBox")) + 6]
    head, body = svg.split(">", 1)
    return f'{head} xmlns="http://www.w3.org/2000/svg">{STYLE}<rect width="100%" height="100%" fill="#fff"/>{body}\n'


if __name__ == "__main__":
    (HERE / "static/race.svg").write_text(as_svg(race()), encoding="utf-8")

"""Softmax as a warp's tile, in the block template, and overlapping: right, clean, and the faults that the template can have."""

import numpy as np
import pytest

from cutesim.simulation import simulate
from quack_tutorial import reference
from quack_tutorial.kernels.levels import LoadComputeStore, WarpTile
from tests.kernels.test_simulated import DslType, make, numbers, poisoned

KERNELS = {
    "warp tile": lambda dtype, N: WarpTile(dtype, N),
    "template": lambda dtype, N: LoadComputeStore(dtype, N, blocks=2),
    "two stages": lambda dtype, N: LoadComputeStore(dtype, N, blocks=1, stages=2, consumers=2),
    "overlaps": lambda dtype, N: LoadComputeStore(dtype, N, blocks=2, overlaps=True),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_level_is_right_and_clean(kernel, dtype):
    rng = np.random.default_rng(3)
    for M, N in ((1, 8), (5, 136), (23, 256)):
        x, exact = make(rng.standard_normal((M, N)) * 4, dtype)
        out = poisoned((M, N), dtype)
        run = simulate(KERNELS[kernel](DslType(dtype), N), x, out)
        assert run.ok, run
        assert reference.softmax_error(exact, numbers(out), dtype) <= 1


def test_any_function_of_a_tile_can_be_put_in():
    x = np.random.default_rng(4).standard_normal((6, 64)).astype(np.float32)
    out = np.full_like(x, np.nan)
    assert simulate(LoadComputeStore(DslType("float32"), 64, blocks=2, compute=lambda tile: tile * 2.0), x, out).ok
    assert (out == 2 * x).all()


def test_rows_that_a_warp_cannot_hold_are_refused():
    said = "rows of 8192 elements of 32 bits: a warp's tile takes rows of whole 16-byte"
    with pytest.raises(ValueError, match=said):
        WarpTile(DslType("float32"), 8192)
    with pytest.raises(ValueError, match="rows of 33 elements"):
        LoadComputeStore(DslType("float32"), 33, blocks=1)

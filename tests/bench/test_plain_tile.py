"""The ceiling that has our kernels' own tiles: what it computes, on the simulator, and what the compiler makes of it."""

import re

import numpy as np
import pytest

pytest.importorskip("cutlass", reason="CuTe DSL is not installed")
pytest.importorskip("torch", reason="torch is not installed")

from bench import ours, plain_tile
from cutesim.simulation import simulate
from quack_tutorial.compiler import ptx
from quack_tutorial.kernels.config import Config
from quack_tutorial.operations import OPERATIONS


def at_a_line(M, N):
    """Random numbers that begin at a multiple of 128 bytes."""
    flat = np.random.default_rng(M * N).standard_normal(M * N + 32).astype(np.float32)
    return flat[-flat.ctypes.data // 4 % 32 :][: M * N].reshape(M, N)


@pytest.mark.parametrize("N", (256, 257, 3000, 12289, 65536))
@pytest.mark.parametrize("operation", plain_tile.READS)
def test_it_moves_every_element_once(operation, N):
    rows = ours.contiguous_rows("float32", N)
    kernel, _ = plain_tile.made(operation, rows)
    x, y, out = (at_a_line(3, N) for _ in range(3))
    run = simulate(kernel, x, y if kernel.reads == 2 else None, out)
    assert run.ok, run.findings
    np.testing.assert_array_equal(out, x + y if kernel.reads == 2 else x)


@pytest.mark.parametrize("operation", plain_tile.READS)
def test_it_has_the_reads_and_writes_of_the_operation_s_ceiling(operation):
    pattern = {1: "1R1W", 2: "2R1W"}[plain_tile.READS[operation]]
    assert OPERATIONS[operation].pattern == pattern
    for dtype, N in (("bfloat16", 1024), ("float16", 262144), ("float32", 50257)):
        kernel, specs = plain_tile.made(operation, ours.contiguous_rows(dtype, N))
        text, each = ptx(kernel, *specs), kernel.tile.rows_each
        assert text.count("createpolicy") > 0 and ".local" not in text
        found = len(re.findall(r"ld\.global\.L2::cache_hint\.v4", text))
        assert found == kernel.reads * kernel.tile.vectors * each
        assert len(re.findall(r"st\.global\.v4", text)) == kernel.tile.vectors * each


def test_its_name_says_how_rows_are_spread():
    assert plain_tile.name_of(Config(32, 128)) == "own tile, 32 of 128 threads, 1 blocks"
    assert plain_tile.name_of(Config(256, 256, 16)) == "own tile, 256 of 256 threads, 16 blocks"

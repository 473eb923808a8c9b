"""LayerNorm as it ships, on the simulator: every way to spread a row, of any length and at any address, right and clean."""

from dataclasses import replace

import numpy as np
import pytest

from cutesim.memory.arguments import Array
from cutesim.simulation import simulate
from quack_tutorial import card, reference
from quack_tutorial.kernels.tuned.choice import default_config
from quack_tutorial.kernels.tuned.config import Config, of_fields
from quack_tutorial.kernels.tuned.layernorm import LayerNorm
from quack_tutorial.kernels.tuned.layernorm_backward import layernorm_backward
from quack_tutorial.kernels.tuned.tables import FIRST, TABLES
from tests.kernels.test_simulated import DslType, make, numbers, poisoned

EPS = 1e-5
DTYPES = ("float32", "bfloat16", "float16")
# (threads a row, threads a block, blocks a row, ...), columns, how rows start
SPREADS = (
    ((8, 32), 64, "aligned"),
    ((8, 32), 72, "aligned"),
    ((8, 32), 71, "congruent"),
    ((8, 32), 45, "any"),
    ((8, 32), 3, "any"),
    ((64, 128), 520, "aligned"),
    ((96, 192), 390, "any"),
    ((64, 64), 257, "congruent"),
    ((64, 64, 2), 1032, "aligned"),
    ((64, 64, 2), 519, "congruent"),
    ((544, 544, 2), 1000, "aligned"),  # more warps than one warp has lanes: they agree in two steps
    ((32, 128, 1, 0, 1, 2), 128, "aligned"),
)
FORWARD = (
    *SPREADS,
    ((8, 32, 1, 0, 2), 64, "aligned"),  # a thread has parts of two rows
    ((64, 64, 1, 1), 1040, "aligned"),  # through shared memory: one block a row, and two
    ((64, 64, 2, 1), 1072, "aligned"),
)
BACKWARD = (
    *SPREADS[:-1],
    ((64, 64, 1, 1), 512, "aligned"),  # the next row comes ahead in registers
    ((32, 32, 2, 1), 512, "aligned"),
    ((32, 32, 2, 1), 1280, "aligned"),  # without room for another row: its place is free once its turn is done
    ((64, 64, 1, 2), 400, "aligned"),  # through shared memory, a row or two ahead
    ((64, 64, 2, 3), 1072, "aligned"),
    ((64, 128, 1, 2), 400, "aligned"),  # several rows in a stage: of two warps each, of half a warp
    ((16, 64, 1, 3), 208, "aligned"),
    ((32, 32, 1, 2), 301, "congruent"),  # rows that start anywhere
    ((32, 32, 2, 3), 523, "congruent"),
)


def rows_of(array, M, N, rows):
    """`array` as rows that start as `rows` says: odd rows one after the other, or with a gap that moves each."""
    if isinstance(array, Array):
        return replace(array, bits=rows_of(array.bits, M, N, rows))
    gap = 3 if rows == "any" else -N % 8 if rows == "aligned" else 0
    wide = np.zeros((M, N + gap), array.dtype)
    wide[:, :N] = array
    return wide[:, :N]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spread, N, rows", FORWARD, ids=str)
def test_forward_is_right_and_clean(spread, N, rows, dtype):
    M, rng, element = 5 * (spread[1] // spread[0]) // 4 + 1, np.random.default_rng(1), DslType(dtype)
    x, exact = make(rng.standard_normal((M, N)) * 4 + 5, dtype)
    (w, weight), (b, bias) = (make(rng.standard_normal(N), dtype) for _ in range(2))
    for with_weight, with_bias in ((True, True), (True, False), (False, False)):
        given = (w if with_weight else None), (b if with_bias else None)
        mean, rstd = np.full((2, M), np.nan, np.float32) if with_bias else (None, None)
        kernel = LayerNorm(element, N, rows, Config(*spread))
        out = rows_of(poisoned((M, N), dtype), M, N, rows)
        run = simulate(kernel, rows_of(x, M, N, rows), *given, out, mean, rstd, EPS)
        assert run.ok, run
        scaled = (weight if with_weight else None), (bias if with_bias else None)
        assert reference.layernorm_error(exact, numbers(out), dtype, *scaled, EPS) <= 1
        assert mean is None or reference.layernorm_stats_error(exact, mean, rstd, EPS) <= 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spread, N, rows", BACKWARD, ids=str)
def test_backward_is_right_and_clean(spread, N, rows, dtype):
    parts = 8 if rows == "congruent" else 2
    M, rng, element = 2 * parts * (spread[1] // spread[0]) + 3, np.random.default_rng(2), DslType(dtype)
    x, exact = make(rng.standard_normal((M, N)) + 1, dtype)
    dy, gradient = make(rng.standard_normal((M, N)), dtype)
    w = rng.standard_normal(N).astype(np.float32)
    found = dict(zip(("mean", "rstd"), (one.astype(np.float32) for one in reference.layernorm_stats(exact, EPS))))
    kernel = layernorm_backward(element, N, rows, DslType("float32"), of_fields("layernorm backward", spread))
    if N == 1280:
        assert kernel.pipeline.stages == kernel.weight_pipeline.stages == 1
    dx = rows_of(poisoned((M, N), dtype), M, N, rows)
    dw, db = (np.full((parts, N), np.nan, np.float32) for _ in range(2))
    x, dy = (rows_of(one, M, N, rows) for one in (x, dy))
    run = simulate(kernel, x, w, dy, *found.values(), dx, dw, db)
    assert run.ok, run
    assert reference.layernorm_dx_error(exact, gradient, numbers(dx), dtype, w, **found) <= 1
    assert reference.layernorm_dw_error(exact, gradient, dw.astype(np.float64).sum(axis=0), "float32", **found) <= 1
    assert reference.rmsnorm_db_error(gradient, db.astype(np.float64).sum(axis=0), "float32") <= 1


def test_a_row_with_nan_or_infinity_is_nan_and_no_other():
    x = np.random.default_rng(3).standard_normal((4, 100)).astype(np.float32)
    x[1, 7], x[2, 99] = np.nan, np.inf
    out = np.zeros_like(x)
    assert simulate(LayerNorm(DslType("float32"), 100), x, None, None, out, None, None, EPS).ok
    assert np.isnan(out[[1, 2]]).all()
    assert reference.layernorm_error(x[[0, 3]], out[[0, 3]], "float32", eps=EPS) <= 1


def test_a_mean_far_from_0_costs_no_more_than_it_must():
    x = (np.random.default_rng(4).standard_normal((3, 1000)) + 1e4).astype(np.float32)
    out = np.zeros_like(x)
    assert simulate(LayerNorm(DslType("float32"), 1000), x, None, None, out, None, None, EPS).ok
    assert reference.layernorm_error(x, out, "float32", eps=EPS) <= 1


def test_where_it_is_not_swept_it_takes_the_spreads_of_rmsnorm(monkeypatch):
    monkeypatch.setenv(card.VARIABLE, FIRST)  # whose sweeps are `TABLES`
    for N in (256, 131072):
        assert default_config("layernorm", 16, N) == default_config("rmsnorm", 16, N)
    # But for long rows that wait in registers, of which db takes as many again: they stay in shared memory, as many as fit there.
    monkeypatch.delitem(TABLES, ("layernorm backward", 32, "aligned"))
    assert default_config("rmsnorm backward", 32, 16384).row_ahead == 1
    assert layernorm_backward(DslType("float32"), 16384).config.stages == 3
    assert layernorm_backward(DslType("float32"), 262144).config.stages == 1


def test_what_was_swept_at_few_sizes_is_taken_near_them(monkeypatch):
    monkeypatch.setenv(card.VARIABLE, FIRST)  # whose sweeps are `TABLES`
    of_sweep = tuple((limit, dict(threads_per_row=n, threads_per_block=n)) for limit, n in ((8192, 96), (32768, 320)))
    monkeypatch.setitem(TABLES, ("layernorm", 16, "aligned"), of_sweep)
    assert default_config("layernorm", 16, 4096).threads_per_row == 96
    assert default_config("layernorm", 16, 2048).threads_per_row == 96
    for N in (1024, 65536):
        assert default_config("layernorm", 16, N) == default_config("rmsnorm", 16, N)
    assert default_config("layernorm", 16, 16384).threads_per_row == 320
    assert default_config("layernorm", 16, 4097, "congruent") == default_config("rmsnorm", 16, 4097, "congruent")

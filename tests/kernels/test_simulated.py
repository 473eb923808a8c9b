"""Kernels on the simulator that the ladders' table does not try: every bit of a copy, hard values, what each line costs."""

import numpy as np
import pytest

from cutesim import Array, analysis
from cutesim.dialect.names import CUTLASS
from cutesim.simulation import simulate
from quack_tutorial import reference
from quack_tutorial.kernels.config import Config
from quack_tutorial.kernels.copy import LADDER as COPIES
from quack_tutorial.kernels.tuned.cross_entropy import CrossEntropy, CrossEntropyFused
from quack_tutorial.kernels.tuned.norm import LayerNorm, RMSNorm
from quack_tutorial.kernels.tuned.norm_backward import RMSNormBackward
from quack_tutorial.kernels.tuned.softmax import Softmax, SoftmaxBackward

DTYPES = ("float32", "bfloat16", "float16")


class DslType:
    """What a kernel's constructor asks a DSL type for, so that these tests need no DSL."""

    def __new__(cls, dtype):
        return getattr(CUTLASS, {"float32": "Float32", "bfloat16": "BFloat16", "float16": "Float16"}[dtype])


def make(values, dtype):
    """An argument of that dtype, and the numbers it holds in float64."""
    if dtype == "bfloat16":
        array = Array.bf16(values)
        return array, array.numpy().astype(np.float64)
    array = np.asarray(values).astype(dtype)
    return array, array.astype(np.float64)


def poisoned(shape, dtype):
    return make(np.full(shape, 127 if dtype == "uint8" else np.nan), dtype)[0]


def numbers(array):
    return (array.numpy() if isinstance(array, Array) else array).astype(np.float64)


@pytest.mark.parametrize("blocks", [1, 2, 4])
@pytest.mark.parametrize("N", [513, 2559, 2563, 2569, 2591])
def test_rows_that_start_anywhere_may_end_in_the_piece_before_the_last(N, blocks):
    # of odd lengths: one has as many elements before its first vector as there can be
    rows = 2 * 32 + 1
    x = np.random.default_rng(N).standard_normal((rows, N)).astype(np.float32)
    target = np.arange(rows) * 37 % N
    loss, lse = (np.full(rows, np.nan, np.float32) for _ in range(2))
    kernel = CrossEntropy(
        DslType("float32"), N, "congruent", config=Config(64, 128 if blocks == 1 else 64, blocks, vectors_at_once=2)
    )
    assert kernel.tile.pieces - kernel.tile.whole_pieces in (1, 2)
    run = simulate(kernel, x, target, loss, lse, -100)
    assert run.ok, run
    want = reference.logsumexp(x)
    assert np.abs(lse - want).max() < 1e-5
    assert np.abs(loss - (want - x[np.arange(rows), target])).max() < 1e-5


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("version", COPIES)
def test_copies_move_every_bit(version, dtype):
    bits = {"float32": np.uint32, "bfloat16": np.uint16, "float16": np.uint16}[dtype]
    rng = np.random.default_rng(3)
    for M, N in ((1, 1), (1, 2), (5, 31), (3, 1000), (9, 96), (3, 1001), (2, 4098)):
        # all patterns: NaN payloads and subnormals too
        raw = rng.integers(0, np.iinfo(bits).max, (M, N), bits)
        dsl = DslType(dtype)
        x = Array(raw, dsl) if dtype == "bfloat16" else raw.view(dtype)
        out = np.zeros_like(raw)
        target = Array(out, dsl) if dtype == "bfloat16" else out.view(dtype)
        for check in (False, True):
            out[...] = 0
            assert simulate(COPIES[version](dsl, N), x, target, check=check).ok
            assert (out == raw).all()


@pytest.mark.parametrize("version", ["thread", "coalesced", "any row", "async"])
def test_copies_take_rows_that_begin_anywhere_with_a_gap_between_them(version):
    whole = np.random.default_rng(3).standard_normal((9, 300)).astype(np.float32)
    target = np.zeros_like(whole)
    run = simulate(COPIES[version](DslType("float32"), 257), whole[:, 3:260], target[:, 3:260])
    assert run.ok, run
    assert (target[:, 3:260] == whole[:, 3:260]).all()
    target[:, 3:260] = 0
    assert not target.any()


@pytest.mark.parametrize(
    "version, N, requests, sectors",
    [
        ("thread", 2048, 64, 32),
        ("coalesced", 2048, 64, 4),
        ("vectors", 2048, 16, 16),
        ("any row", 2048, 16, 16),
        ("async", 2048, 16, 16),
        ("hint", 2048, 16, 16),
        ("vectors", 511, 16, None),  # single elements: 16 requests for 511 columns
    ],
)
def test_sectors_of_each_copy_by_hand(version, N, requests, sectors):
    """One row of 512 elements a warp; 32 lanes of 16 bytes are 16 sectors, of 4 bytes 4, and 64 bytes apart 32."""
    x = np.zeros((1, N), np.float32)
    trace = simulate(COPIES[version](DslType("float32"), N), x, x.copy()).trace
    loads = analysis.requests(trace)
    loads = loads[loads["kind"] == 0]
    assert len(loads) == requests
    assert sectors is None or set(loads["sectors"]) == {sectors}


def test_a_call_of_several_lines_is_on_the_first_of_them():
    x = np.zeros((2, 64), np.float32)
    run = simulate(Softmax(DslType("float32"), 64), x, np.full_like(x, np.nan))
    texts = [line.text for line in run.trace.lines]
    assert "found = cute.arch.inline_ptx(" in texts and ")" not in texts


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("config", [Config(32, 32, 1, 1), Config(96, 96, 1, 1), Config(64, 64, 4, 1)])
def test_rows_read_again_from_shared_memory_are_right_for_hard_values(config, dtype):
    N, inf = 2080, np.inf  # 65 vectors a block at least: whole pieces, and a last one that is not
    values = np.random.default_rng(5).standard_normal((8, N))
    values[0] = -inf
    values[1, : N - 1] = -inf  # all threads but one see only -inf
    values[2, 5], values[3, 7] = np.nan, inf
    values[4] = np.linspace(-3e4, 3e4, N)
    values[5] = np.linspace(-120, 0, N)  # results down to subnormals
    values[6] = 60000.0
    x, exact = make(values, dtype)
    out = poisoned((8, N), dtype)
    run = simulate(Softmax(DslType(dtype), N, config=config), x, out)
    assert run.ok, run
    wanted, got = reference.softmax(exact), numbers(out)
    assert np.isnan(got[[0, 2, 3]]).all()
    whole = [1, 4, 5, 6, 7]
    distance = reference.ulp_distance(got[whole], wanted[whole], dtype)
    assert (distance <= reference.softmax_tolerance(exact[whole], dtype)).all()

    loss, dx = np.full(8, np.nan, np.float32), poisoned((8, N), dtype)
    target = np.arange(8) * 297 % N
    target[7] = -100
    run = simulate(CrossEntropyFused(DslType(dtype), N, config=config), x, target, loss, None, dx, -100)
    assert run.ok, run
    assert reference.cross_entropy_error(exact, target, loss, "float32", -100) <= 1
    assert np.isnan(numbers(dx)[[0, 2, 3]]).all() and (numbers(dx)[7] == 0).all()
    assert reference.cross_entropy_backward_error(exact, target, 1.0, numbers(dx), dtype) <= 1


@pytest.mark.parametrize("dtype, weight_dtype", [("float32", "bfloat16"), ("bfloat16", "float32")])
def test_the_last_block_of_a_cluster_may_have_less_of_a_row_in_shared_memory(dtype, weight_dtype):
    # 518 or 259 vectors: those of four blocks are 130, 130, 130, 128 or 65, 65, 65, 64.
    M, N = 5, 2072
    config, rng = Config(64, 64, 4, stages=1), np.random.default_rng(8)
    (x, exact), (dy, exact_dy) = (make(rng.standard_normal((M, N)), dtype) for _ in range(2))
    w, exact_w = make(rng.standard_normal(N), weight_dtype)

    def found(kernel, before, after, **more):
        out = poisoned((M, N), dtype)
        run = simulate(kernel(DslType(dtype), N, config=config, **more), *before, out, *after)
        assert run.ok, run
        return numbers(out)

    mean, rstd = np.zeros(M, np.float32), np.zeros(M, np.float32)
    parts = np.full((2, N), np.nan, np.float32)
    y = found(RMSNorm, (x, w, None, None), (None, rstd, 1e-6))
    assert reference.rmsnorm_error(exact, y, dtype, exact_w) <= 1
    for stages in (1, 2):
        config = Config(64, 64, 4, stages)
        dx = found(RMSNormBackward, (x, w, dy, None, rstd), (parts, None), weight_dtype=DslType(weight_dtype))
        assert reference.rmsnorm_dx_error(exact, exact_dy, dx, dtype, exact_w, rstd=rstd) <= 1
        dw = parts.astype(np.float64).sum(0)
        assert reference.rmsnorm_dw_error(exact, exact_dy, dw, "float32", rstd=rstd) <= 1
    config = Config(64, 64, 4, stages=1)
    y = found(LayerNorm, (x, w, None), (mean, rstd, 1e-5))
    assert reference.layernorm_error(exact, y, dtype, exact_w) <= 1
    y, exact_y = make(reference.softmax(exact), dtype)
    assert reference.softmax_backward_error(exact_y, exact_dy, found(SoftmaxBackward, (y, dy), ()), dtype) <= 1
    with pytest.raises(ValueError, match="has no equal pieces"):
        Softmax(DslType(dtype), N, config=config)


@pytest.mark.parametrize("dtype", ("bfloat16", "float16"))
def test_the_loss_of_large_logits(dtype):
    """Where the factor of the exponent changes, and where the product with log2(e) would not be finite."""
    N, largest = 1000, 3.38e38 if dtype == "bfloat16" else 65504.0
    rng = np.random.default_rng(6)
    rows = [rng.standard_normal(N) for _ in range(12)]
    rows[0][100:] = -largest  # masked columns
    rows[1][:] = -largest
    rows[2][:] = largest
    rows[3][5] = largest
    rows[4][:] = np.where(np.arange(N) % 3, largest, -largest)
    for row, middle in zip(rows[5:10], (16384, -16384, 16000, 30000, -30000)):
        row[:] = middle + rng.integers(-3, 4, N) * 64
    rows[10][: N - 8] = -np.inf
    rows[11][:] = np.linspace(-300, 300, N)
    x, exact = make(np.array(rows), dtype)
    for config in (None, Config(8, 128, vectors_at_once=4), Config(64, 64, vectors_at_once=1)):
        for target in (np.zeros(12, np.int64), np.full(12, N - 1)):
            loss, lse = np.full(12, np.nan, np.float32), np.full(12, np.nan, np.float32)
            kernel = CrossEntropy(DslType(dtype), N, config=config)
            run = simulate(kernel, x, target, loss, lse, -100)
            assert run.ok, run
            assert reference.logsumexp_error(exact, lse) <= 1
            assert reference.cross_entropy_error(exact, target, loss, "float32", -100) <= 1

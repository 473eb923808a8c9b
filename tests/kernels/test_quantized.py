"""RMSNorm in float8 as it ships: what its reference says, hard rows, blocks of columns; `validation rows` tries its spreads."""

import numpy as np
import pytest

from cutesim.simulation import simulate
from quack_tutorial import reference, shipped
from quack_tutorial.kernels.config import Config
from quack_tutorial.kernels.rmsnorm_quantized import RMSNormQuantizedLanes
from quack_tutorial.kernels.tuned.quantized import RMSNormQuantizedBlocks
from tests.kernels.test_simulated import DslType, make

ROWS, BLOCKS = shipped.RMSNORM_QUANTIZED, shipped.RMSNORM_QUANTIZED_BLOCKS


def quantized(kernel, x, w=None, promise="aligned", config=None):
    """(codes, scales) of rows of float32."""
    M, N = x.shape
    scale = np.zeros(shipped.shape_of(kernel.parameters["scale"], M, N), np.float32)
    given = dict(x=x, w=w, q=np.full((M, N), 127, np.uint8), scale=scale)
    run = simulate(kernel.host(given, promise, config), *kernel.positional(given))
    assert run.ok, run
    return given["q"], scale


def test_each_code_is_the_nearest_and_of_two_the_even_one():
    """Rows of which y is known: a largest of 448 of ones, so that the quotients are the row's own numbers times a power of 2."""
    numbers = np.array([reference.float8(code) for code in range(127)])
    between = (numbers[1:] + numbers[:-1]) / 2
    row = np.concatenate([numbers, -between, [448.0]])
    torch = pytest.importorskip("torch")
    bits = torch.arange(256).to(torch.uint8)
    np.testing.assert_array_equal(reference.float8(bits), bits.view(torch.float8_e4m3fn).double())
    quotient, scale = reference.rmsnorm_quantized(row, eps=0.0)
    assert np.allclose(quotient, row, rtol=1e-12) and np.allclose(scale, reference.rmsnorm_rstd(row, eps=0.0))
    even = np.where(np.arange(126) % 2, np.arange(1, 127), np.arange(126)) | 128
    codes = np.concatenate([np.arange(127), even, [126]]).astype(np.uint8)
    assert reference.rmsnorm_quantized_code_error(row, codes, eps=0.0) == 0
    # A tie may go either way: y is not exact.
    odd = np.where(np.arange(126) % 2, np.arange(126), np.arange(1, 127)) | 128
    codes[127:-1] = odd
    assert reference.rmsnorm_quantized_code_error(row, codes, eps=0.0) <= 1
    for wrong in (7, 42, 125):
        codes[wrong] += 1
        assert reference.rmsnorm_quantized_code_error(row, codes, eps=0.0) > 1e4
        codes[wrong] -= 1


@pytest.mark.parametrize("kernel", (ROWS, BLOCKS))
def test_rows_of_zeros_and_rows_with_nan_or_infinity(kernel):
    x = np.random.default_rng(3).standard_normal((6, 256)).astype(np.float32)
    w = np.ones(256, np.float32)
    x[1], x[2, 7], x[3, 200], w[5] = 0, np.nan, np.inf, np.inf
    x[4, :128] = 0
    with np.errstate(invalid="ignore"):
        y = reference.rmsnorm(x, w)
        _, wanted = reference.rmsnorm_quantized(x, w, block=None if kernel is ROWS else 128)
        for weight in (None, w):
            codes, scale = quantized(kernel, x, weight)
            block = None if kernel is ROWS else 128
            assert reference.rmsnorm_quantized_code_error(x, codes, weight, block=block) <= 1
            assert reference.rmsnorm_quantized_scale_error(x, scale, weight, block=block) <= 1
    codes, scale = quantized(kernel, x)
    # Zeros, and a scale to multiply with.
    assert not codes[1].any() and (scale[1] == np.float32(2.0**-100 / 448)).all()
    assert np.isnan(scale[2]).all() and (codes[2] & 127 == 127).all()  # its root mean square is NaN
    assert np.isnan(scale[3]).any()  # infinity over infinity, as torch has it
    assert np.isnan(y[3]).any() and np.isnan(wanted[3]).any()


@pytest.mark.parametrize("dtype", ("float32", "bfloat16", "float16"))
@pytest.mark.parametrize(
    "N, config",
    (
        (128, None),
        (384, None),
        (4096, None),
        (6144, Config(128, 128, 4)),
        (1024, Config(32, 64)),
    ),
)
def test_blocks_of_columns_have_scales_of_their_own(dtype, N, config):
    rng, M = np.random.default_rng(N), 3
    (x, _), (residual, _) = (
        make(rng.standard_normal((M, N)) * np.exp2(rng.integers(-9, 9, N) // 2), dtype) for _ in range(2)
    )
    w = make(rng.standard_normal(N), dtype)[0]
    for given in (dict(x=x), dict(x=x, w=w, residual=residual, h=make(np.zeros((M, N)), dtype)[0])):
        given |= dict(q=np.full((M, N), 127, np.uint8), scale=np.full((M, N // 128), np.nan, np.float32))
        run = simulate(RMSNormQuantizedBlocks(DslType(dtype), N, config=config), *BLOCKS.positional(given))
        assert run.ok, run
        assert BLOCKS.error(given) <= 1


@pytest.mark.parametrize("dtype", ("float32", "bfloat16"))
def test_the_rung_with_scales_of_blocks_is_right_and_clean(dtype):
    rng, M, N = np.random.default_rng(1), 2, 1152
    given = dict(x=make(rng.standard_normal((M, N)), dtype)[0], w=make(rng.standard_normal(N), dtype)[0])
    given |= dict(q=np.full((M, N), 127, np.uint8), scale=np.full((M, N // 128), np.nan, np.float32))
    run = simulate(RMSNormQuantizedLanes(DslType(dtype), N), *given.values(), shipped.EPS)
    assert run.ok, run
    assert BLOCKS.error(given) <= 1
    with pytest.raises(ValueError, match="rows of 1000 columns are not blocks of 128"):
        RMSNormQuantizedLanes(DslType(dtype), 1000)


def test_blocks_that_rows_or_threads_do_not_hold_are_refused():
    for N, promise in ((200, "aligned"), (256, "congruent")):
        with pytest.raises(ValueError, match=f"N must be a multiple, of aligned rows, got {N}, {promise}"):
            RMSNormQuantizedBlocks(DslType("float16"), N, promise)
    with pytest.raises(ValueError, match="32 threads have a block of 128 columns, so threads_per_row must be no less"):
        RMSNormQuantizedBlocks(DslType("float32"), 256, config=Config(16, 32))

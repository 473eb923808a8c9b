"""The reference against hand-made cases, torch's float64 softmax, and torch's own conversions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quack_tutorial import reference
from quack_tutorial.operations.cross_entropy import CROSS_ENTROPY_BACKWARD

torch = pytest.importorskip("torch")

INF, NAN = math.inf, math.nan


def test_softmax_by_hand():
    # exp(0), exp(ln 2), exp(ln 5) = 1, 2, 5
    got = reference.softmax([[0.0, math.log(2), math.log(5)], [1e30, 1e30, -1e30]])
    np.testing.assert_allclose(got, [[1 / 8, 2 / 8, 5 / 8], [0.5, 0.5, 0.0]], rtol=1e-15)


@pytest.mark.parametrize("row", ([-INF, -INF], [INF, 0.0], [NAN, 0.0], [-INF, 0.0], [INF, -INF], [0.0]))
def test_softmax_of_hard_rows_is_torchs(row):
    np.testing.assert_array_equal(
        reference.softmax(row), torch.softmax(torch.tensor(row, dtype=torch.float64), 0).numpy()
    )


@pytest.mark.parametrize(
    "dtype, value, step",
    [
        ("float32", 1.0, 2**-23),
        ("float32", 1.999, 2**-23),
        ("float32", 2.0, 2**-22),
        ("float32", 1e-45, 2**-149),  # subnormal
        ("float32", 0.0, 2**-149),
        ("float16", -1.0, 2**-10),
        ("float16", 6e-8, 2**-24),
        ("bfloat16", 1.0, 2**-7),
        ("bfloat16", 0.25, 2**-9),
    ],
)
def test_ulp_by_hand(dtype, value, step):
    assert reference.ulp(value, dtype) == step


@pytest.mark.parametrize("dtype", reference.FORMATS)
@given(st.floats(width=32))
def test_rounding_is_torchs(dtype, value):
    # float32 inputs, so that torch rounds once
    expected = torch.tensor([value], dtype=torch.float32).to(getattr(torch, dtype)).double().numpy()
    np.testing.assert_array_equal(reference.round_to([value], dtype), expected)


def test_distance_counts_steps_and_treats_nan_and_infinity_as_values():
    one = 1.0
    assert reference.ulp_distance(one + 3 * 2**-23, one, "float32") == 3
    assert reference.ulp_distance(NAN, NAN, "float32") == 0
    assert reference.ulp_distance(INF, INF, "float16") == 0
    assert reference.ulp_distance(INF, -INF, "float16") == INF
    assert reference.ulp_distance(NAN, 1.0, "bfloat16") == INF
    assert reference.ulp_distance(1.0, NAN, "bfloat16") == INF


def test_tolerance_grows_with_the_distance_from_the_maximum():
    # The smaller element's share of the sum is nothing, a half, a quarter; two terms are one level of additions.
    found = reference.softmax_tolerance([[0.0, -1000.0]], "float32")
    np.testing.assert_allclose(found, [[4.5, 2004.5]])
    np.testing.assert_allclose(reference.softmax_tolerance([[7.0, 7.0]], "float32"), [[4.5, 4.5]])
    below = math.log(3)
    expected = [[4.5 + 2 * (below / 4), 4.5 + 2 * (below + below / 4)]]
    np.testing.assert_allclose(reference.softmax_tolerance([[0.0, -below]], "float32"), expected)
    np.testing.assert_allclose(reference.softmax_tolerance([[0.0] + [-INF] * 1023], "float32"), 9.0)
    found = reference.softmax_tolerance([[0.0, -3.0]], "bfloat16")
    np.testing.assert_array_equal(found, [[1.0, 1.0]])


def test_unknown_dtype_is_named():
    with pytest.raises(ValueError, match="float32, float16, bfloat16, got 'int8'"):
        reference.ulp(1.0, "int8")


# RMSNorm, cross-entropy and the gradients ----------------------------------------------------------------------------


def doubles(seed, *shapes):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(*shape, dtype=torch.float64, generator=generator) for shape in shapes)


def test_layernorm_and_its_gradients_are_torchs_in_float64():
    x, dy, w, b = doubles(4, (5, 33), (5, 33), (33,), (33,))
    x += 3
    out = torch.nn.functional.layer_norm(x.requires_grad_(), (33,), w.requires_grad_(), b.requires_grad_(), 1e-3)
    dx, dw, db = torch.autograd.grad(out, (x, w, b), dy)
    x, w, b = (t.detach().numpy() for t in (x, w, b))
    np.testing.assert_allclose(reference.layernorm(x, w, b, 1e-3), out.detach(), rtol=1e-10)
    mean, rstd = reference.layernorm_stats(x, 1e-3)
    for stats in (dict(eps=1e-3), dict(mean=mean, rstd=rstd)):
        np.testing.assert_allclose(reference.layernorm_dx(x, dy, w, **stats), dx, rtol=1e-9)
        np.testing.assert_allclose(reference.layernorm_dw(x, dy, **stats), dw, rtol=1e-10)
    found = reference.layernorm_dw(x[:, 4:7], dy[:, 4:7], mean, rstd)
    np.testing.assert_allclose(found, dw[4:7], rtol=1e-10)
    np.testing.assert_allclose(reference.rmsnorm_db(dy), db, rtol=1e-10)


def test_a_variance_that_is_a_difference_of_large_numbers_is_refused():
    x = (np.random.default_rng(0).standard_normal((4, 1000)) + 300).astype(np.float32)
    mean = x.mean(-1, keepdims=True)
    about_it, difference = ((x - mean) ** 2).mean(-1), (x * x).mean(-1) - mean[:, 0] ** 2
    for variance, right in ((about_it, True), (difference, False)):
        rstd = 1 / np.sqrt(variance + np.float32(1e-5))
        assert (reference.layernorm_stats_error(x, mean[:, 0], rstd) <= 1) == right
        assert (reference.layernorm_error(x, (x - mean) * rstd[:, None], "float32") <= 1) == right


def test_gradients_are_those_of_torchs_float64_autograd():
    x, r, dy, dr, w, b = doubles(1, (5, 33), (5, 33), (5, 33), (5, 33), (33,), (33,))
    leaves = [t.requires_grad_() for t in (x, r, w, b)]
    h = x + r
    out = torch.nn.functional.rms_norm(h, (33,), w, 1e-3) + b
    found = reference.rmsnorm(x.detach(), w.detach(), b.detach(), r.detach(), 1e-3)
    np.testing.assert_allclose(found, out.detach())
    grads = [g.numpy() for g in torch.autograd.grad([out, h], leaves, [dy, dr])]
    h, w = h.detach().numpy(), w.detach().numpy()
    dx = reference.rmsnorm_dx(h, dy, w, dr, eps=1e-3)
    np.testing.assert_allclose(dx, grads[0], rtol=1e-12)
    np.testing.assert_allclose(dx, grads[1], rtol=1e-12)
    rstd = reference.rmsnorm_rstd(h, eps=1e-3)
    np.testing.assert_allclose(reference.rmsnorm_dx(h, dy, w, dr, rstd), grads[0], rtol=1e-12)
    np.testing.assert_allclose(reference.rmsnorm_dw(h, dy, eps=1e-3), grads[2], rtol=1e-12)
    found = reference.rmsnorm_dw(h[:, 4:7], dy[:, 4:7], rstd)
    np.testing.assert_allclose(found, grads[2][4:7], rtol=1e-12)
    np.testing.assert_allclose(reference.rmsnorm_db(dy), grads[3], rtol=1e-12)

    (x,) = doubles(2, (5, 33))
    y = torch.softmax(x.requires_grad_(), -1)
    (dx,) = torch.autograd.grad(y, x, dy)
    np.testing.assert_allclose(reference.softmax_backward(y.detach(), dy), dx, rtol=1e-12)


def test_cross_entropy_is_torchs_in_float64():
    x, dloss = doubles(3, (6, 21), (6,))
    target = torch.tensor([0, 20, -100, 7, 7, 3])
    loss = torch.nn.functional.cross_entropy(x.requires_grad_(), target, reduction="none")
    (dx,) = torch.autograd.grad(loss, x, dloss)
    x = x.detach().numpy()
    np.testing.assert_allclose(reference.cross_entropy(x, target), loss.detach(), rtol=1e-13)
    found = reference.logsumexp(x)
    np.testing.assert_allclose(found, torch.logsumexp(torch.tensor(x), 1), rtol=1e-13)
    for lse in (None, reference.logsumexp(x)):
        found = reference.cross_entropy_backward(x, target, dloss, lse)
        np.testing.assert_allclose(found, dx, rtol=1e-10, atol=1e-15)
    only_third = reference.cross_entropy_backward(x, target, 1.0, ignore_index=3)
    # -100 is then no column: no 1 taken off.
    assert not only_third[5].any() and only_third[2].sum() == pytest.approx(1.0)


@pytest.mark.parametrize("row", ([-INF, -INF], [INF, 0.0], [NAN, 0.0], [-INF, 0.0], [0.0, -INF], [INF, -INF], [0.0]))
def test_cross_entropy_of_hard_rows_is_torchs(row):
    x, target = torch.tensor([row], dtype=torch.float64), torch.tensor([0])
    loss = torch.nn.functional.cross_entropy(x, target, reduction="none")
    np.testing.assert_array_equal(reference.cross_entropy(x, target), loss)
    np.testing.assert_array_equal(reference.logsumexp(x), torch.logsumexp(x, 1))
    assert reference.cross_entropy_error(x, target, loss) == 0.0
    assert reference.logsumexp_error(x, torch.logsumexp(x, 1)) == 0.0
    # float64's log-softmax of [0, -inf] by way of exp and log; only what is NaN or infinite must agree to the bit
    gradient = torch.softmax(x, 1) - torch.eye(len(row), dtype=torch.float64)[:1]
    np.testing.assert_array_equal(reference.cross_entropy_backward(x, target, 1.0), gradient)
    assert reference.cross_entropy_backward_error(x, target, 1.0, gradient, "float32") == 0.0


def test_targets_out_of_range_and_ignored():
    x = np.zeros((4, 2))
    loss = reference.cross_entropy(x, np.array([2, -1, -100, 0]))
    np.testing.assert_allclose(loss, [NAN, NAN, 0.0, math.log(2)])
    assert reference.cross_entropy_error(x, np.array([2, -1, -100, 0]), loss) == 0.0
    almost = loss + np.array([0, 0, 1e-30, 0])
    # ignored means exactly 0
    assert reference.cross_entropy_error(x, np.array([2, -1, -100, 0]), almost) == INF
    gradient = reference.cross_entropy_backward(x, np.array([2, -1, -100, 0]), 1.0)
    np.testing.assert_array_equal(gradient, [[0.5, 0.5], [0.5, 0.5], [0, 0], [-0.5, 0.5]])


@pytest.mark.parametrize(
    "exact, error",
    [
        (reference.rmsnorm_rstd, reference.rmsnorm_rstd_error),
        (reference.logsumexp, reference.logsumexp_error),
    ],
)
def test_a_number_of_each_row_is_right_in_float32_and_wrong_by_a_fiftieth(exact, error):
    """Of results test_operations does the same."""
    (x,) = doubles(5, (8, 9001))
    right = exact(x.numpy()).astype(np.float32)
    assert 0 < error(x.numpy(), right) <= 1
    for wrong in (1.02 * right[3], NAN, 0.0):
        assert error(x.numpy(), np.where(np.arange(8) == 3, wrong, right)) > 1


def test_bounds_follow_the_terms_where_they_cancel():
    # x = (1, -1), dy = (1, -1 + 2^-20): what is left of dx is a millionth of its terms, and float32 has lost most of it
    x, dy = np.array([[1.0, -1.0]]), np.array([[1.0, -1.0 + 2**-20]])
    exact = reference.rmsnorm_dx(x, dy, eps=0.0)
    assert np.abs(exact).max() < 1e-6
    assert reference.rmsnorm_dx_error(x, dy, exact + 2**-23, "float32", eps=0.0) < 1
    assert reference.rmsnorm_dx_error(x, dy, exact + 100 * 2**-23, "float32", eps=0.0) > 1
    # out = 1 - 1 = 0: an ulp of the terms, not of the smallest number there is
    assert reference.rmsnorm_error([[1.0]], [[2**-23]], "float32", bias=[-1.0], eps=0.0) == 0.25
    assert reference.rmsnorm_error([[1.0]], [[2**-23]], "float32", bias=[-0.5], eps=0.0) > 1
    # the loss of the only class is lse - x = 0
    assert reference.cross_entropy_error([[1000.0]], np.array([0]), [2.0**-14]) < 1
    assert reference.cross_entropy_error([[1000.0]], np.array([0]), [2.0**-9]) > 1


def test_infinity_is_one_step_beyond_the_largest_number():
    # float16 ends at 65504 and rounds to infinity from 65520
    x, w = np.array([[1.0]]), np.array([65519.0])
    found = reference.rmsnorm_error(x, [[INF]], "float16", w, eps=0.0)
    assert found == pytest.approx(1.0, abs=1e-3)
    assert reference.rmsnorm_error(x, [[-INF]], "float16", w, eps=0.0) > 1
    assert reference.rmsnorm_error(x, [[INF]], "float16", w / 2, eps=0.0) > 1


def test_a_result_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"shape \(2,\), the reference \(3,\)"):
        reference.rmsnorm_db_error(np.ones((2, 3)), np.ones(2), "float32")


def test_a_result_that_underflowed_is_right_to_the_last_digit_there_is():
    y, dy = np.array([[2.0**-140, 1.0]]), np.array([[0.3, 0.0]])
    exact = reference.softmax_backward(y, dy)  # 0.3 * 2^-140: float32 has 9 bits for it
    rounded = np.float32(exact).astype(np.float64)
    assert rounded[0, 0] != exact[0, 0]
    assert reference.softmax_backward_error(y, dy, rounded, "float32") <= 1
    assert reference.softmax_backward_error(y, dy, rounded + [[2.0**-146, 0]], "float32") > 1
    # 0 stays exactly 0
    assert reference.softmax_backward_error(y * 0, dy, rounded, "float32") == INF


def test_the_gradient_of_a_scaled_loss_is_judged_by_the_product_that_multiplies_it():
    dloss = np.random.default_rng(0).uniform(0.3, 1, 3000).astype(np.float32)
    scale, one = np.float32(0.42175403), np.float32(1)
    p, by = np.exp(np.float32(-17)), dloss * scale  # all in float32, as a kernel does
    given = {
        "x": np.zeros((3000, 2), np.float32),
        "lse": np.full(3000, 17, np.float32),
        "target": np.zeros(3000, np.int64),
    }
    given |= {"dloss": dloss, "scale": np.asarray(scale), "ignore_index": -100}
    right = np.stack([(p - one) * by, p * by], axis=1)
    assert CROSS_ENTROPY_BACKWARD.error(given | {"dx": right}) <= 1
    assert CROSS_ENTROPY_BACKWARD.error(given | {"dx": right * np.float32(1 + 2**-22)}) > 1


@pytest.mark.parametrize("near", (0.0, 2.0))
def test_no_neighbour_of_a_largest_number_passes_for_it(near):
    x = np.array([[1.0, 0.5]], np.float32)
    assert reference.topk_error(x, x[:, :1], "float32") == 0
    assert reference.topk_error(x, np.nextafter(x[:, :1], np.float32(near)), "float32") > 1

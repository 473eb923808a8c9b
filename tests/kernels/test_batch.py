"""Whether a row's bits depend on the batch: on how many rows there are, and on where among them it is."""

import pytest
import torch

from quack_tutorial import ops


def results(x, w, b, r, t):
    """Of each call, for each row all that it gives, one row after the other; and of its square's gradient."""
    calls = {
        "softmax": ops.softmax,
        "rmsnorm": lambda x: ops.rmsnorm(x, w, b),
        "rmsnorm of a sum": lambda x: torch.cat(ops.rmsnorm(x, w, residual=r), -1),
        "layernorm": lambda x: ops.layernorm(x, w, b),
        "cross_entropy": lambda x: ops.cross_entropy(x, t, reduction="none")[:, None],
    }
    loss, dx = ops.cross_entropy_with_grad(x, t)
    found = {"cross_entropy_with_grad": torch.cat([loss[:, None], dx], -1)}
    for name, call in calls.items():
        leaf = x.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(call(leaf).square().sum(), leaf)
        found |= {name: call(x), f"the gradient of {name}": gradient}
    return found


def inputs(M, N, dtype, gap=0):
    torch.manual_seed(N)
    x, r = (3 * torch.randn(M, N + gap, dtype=dtype)[:, :N] for _ in range(2))
    return x, torch.randn(N, dtype=dtype), torch.randn(N, dtype=dtype), r, torch.randint(N, (M,))


def rows_of(given, chosen):
    x, w, b, r, t = given
    return x[chosen].clone(), w, b, r[chosen].clone(), t[chosen].clone()


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("M, N, gap", ((21, 256, 0), (21, 256, 8), (9, 1160, 0), (3, 8192, 0), (2, 20480, 0)))
def test_a_row_of_whole_16_bytes_has_the_same_bits_in_every_batch(dtype, M, N, gap):
    given = inputs(M, N, dtype, gap)
    whole, last = results(*given), list(range(M - 1, M // 2 - 1, -1))
    elsewhere = results(*rows_of(given, last))
    for call, found in whole.items():
        assert torch.equal(found[last], elsewhere[call]), (
            f"{call}: a row depends on where it is, or on how many there are"
        )


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_a_row_that_starts_anywhere_has_the_same_bits_where_it_starts_as_far_from_a_line(dtype):
    M, N = 129, 257
    given = inputs(M, N, dtype)
    apart = 128 // dtype.itemsize  # rows so many apart start equally far from a line of 128 bytes
    again = torch.arange(M) % apart
    for call, found in results(*rows_of(given, again)).items():
        assert torch.equal(found[:-apart], found[apart:]), call

"""Cross-entropy over a vocabulary in parts, with several processes on the CPU, against float64 on whole rows."""

import math
import os
import signal
import time

import pytest

torch = pytest.importorskip("torch")

from quack_tutorial import parallel

gloo = torch.distributed.is_available() and torch.distributed.is_gloo_available()


pytestmark = pytest.mark.skipif(not gloo, reason="this torch has no gloo")


# One thread and several warps have a row's part that is all -inf; 3 ranks do not divide 131; only the last rank has targets.
@pytest.mark.parametrize("world, N, in_last", [(2, 2048, False), (3, 131, True)])
def test_ranks_agree_with_float64_and_with_each_other(world, N, in_last):
    found = parallel.run(world, parallel.check, 12, N, torch.float32, 0, in_last)
    for result in found:
        assert result["loss_error"] < 5e-6
        assert result["gradient_error"] < 1e-6
        assert torch.equal(found[0]["loss"], result["loss"])
    assert found[0]["loss"][0] == 0 and (found[0]["loss"][1:] > 0).all()  # row 0 is ignored


@pytest.mark.parametrize("N, world", [(128256, 4), (50257, 4), (131, 3), (64, 8), (65, 8)])
def test_columns_are_dealt_out_once_each_in_eighths(N, world):
    own = [parallel.columns(N, rank, world) for rank in range(world)]
    assert [one for columns in own for one in range(N)[columns]] == list(range(N))
    assert all(columns.start % 8 == 0 and columns.stop > columns.start for columns in own)
    widths = [columns.stop - columns.start for columns in own]
    assert max(widths) - min(widths) <= 15
    with pytest.raises(ValueError, match="too small for 9 ranks"):
        parallel.columns(64, 0, 9)


def fails_on_rank_1(how):
    if torch.distributed.get_rank() == 1:
        if how == "raise":
            raise ValueError("no logits here")
        os.kill(os.getpid(), signal.SIGKILL)
    torch.distributed.barrier()


@pytest.mark.parametrize(
    "how, why",
    [
        ("raise", r"failed, and the others were ended: ValueError: no logits here \(test_parallel.py:\d+\)"),
        ("kill", r"ended without a word \(SIGKILL\), and the others were ended"),
    ],
)
def test_a_failing_rank_ends_the_others_within_a_minute_and_is_named(how, why):
    started = time.monotonic()
    with pytest.raises(parallel.RankFailed, match=f"^rank 1 of 2 {why}$"):
        parallel.run(2, fails_on_rank_1, how)
    assert time.monotonic() - started < 60


@pytest.mark.parametrize("parts", [1, 2, 8])
def test_parts_combine_to_the_whole_rows_sum(parts):
    x = 20 * torch.randn(6, 64)
    x[1, :32] = -torch.inf  # parts without a number
    x[2] = -torch.inf
    x[3, 5] = torch.inf
    x[4, 5] = torch.nan
    of_parts = torch.stack([part.logsumexp(1) for part in x.chunk(parts, dim=1)])
    found, wanted = parallel.combined(of_parts), x.double().logsumexp(1)
    got = found[[0, 1, 2, 5]].double()
    torch.testing.assert_close(got, wanted[[0, 1, 2, 5]], atol=1e-5, rtol=1e-6)
    assert found[3].isnan() or found[3] == torch.inf
    assert found[4].isnan()


def check_head(M, K, N, seed=0):
    """Loss and gradients of a head whose words are spread over the ranks, and how far they are from float64 on all of them."""
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    device = parallel._device()
    draw = torch.Generator().manual_seed(seed)
    # Of the other order, too.
    input, weight = torch.randn(K, M, generator=draw).T, torch.randn(N, K, generator=draw)
    target = torch.randint(N, (M,), generator=draw)
    target[::5] = parallel.IGNORED
    own = parallel.columns(N, rank, world)
    given = [part.clone().to(device).requires_grad_() for part in (input, weight[own])]
    loss = parallel.linear_cross_entropy(*given, target.to(device), first=own.start)
    (2 * loss).backward()

    exact = [part.double().requires_grad_() for part in (input, weight)]
    exact_loss = torch.nn.functional.cross_entropy(exact[0] @ exact[1].T, target)
    (2 * exact_loss).backward()
    wanted = exact[0].grad, exact[1].grad[own]
    return {
        "loss": loss.detach().cpu(),
        "loss_error": abs(loss.item() - exact_loss.item()),
        "gradient_error": max((x.grad.cpu() - grad).abs().max().item() for x, grad in zip(given, wanted)),
    }


def test_a_head_over_ranks_agrees_with_float64_and_with_itself():
    found = parallel.run(2, check_head, 10, 16, 131)
    for result in found:
        assert result["loss_error"] < 5e-6 and result["gradient_error"] < 5e-6
        assert torch.equal(found[0]["loss"], result["loss"])


def without_rows_or_gradients():
    input, weight = torch.ones(0, 4), torch.ones(8, 4, requires_grad=True)
    parallel.linear_cross_entropy(input, weight, torch.ones(0, dtype=torch.int64)).backward()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        loss = parallel.linear_cross_entropy(torch.ones(5, 4), weight, torch.ones(5, dtype=torch.int64))
    return weight.grad, loss


def test_a_head_of_no_rows_has_gradients_of_zero_and_one_under_no_grad_has_none():
    for grad, loss in parallel.run(2, without_rows_or_gradients):
        assert (grad == 0).all() and not loss.requires_grad
        assert loss.item() == pytest.approx(math.log(16), abs=1e-6)  # 16 equal logits


def has_targets(*target):
    given = torch.zeros(len(target), 8, requires_grad=True), torch.tensor(target)
    parallel.cross_entropy(*given).sum().backward()


@pytest.mark.parametrize("target", [16, -1])  # -100 is ignored
def test_a_target_that_no_rank_has_is_refused_in_the_words_of_one_gpu(target):
    said = rf"IndexError: cross_entropy: target {target} is out of bounds, there are 16 classes \("
    with pytest.raises(parallel.RankFailed, match=said):
        parallel.run(2, has_targets, 15, -100, target)


def test_a_missing_target_is_nan_where_nobody_waits_and_a_logit_of_infinity_is_no_missing_one():
    target, lse, inf = torch.tensor([3, 99, 2, parallel.IGNORED]), torch.zeros(2, 4), torch.inf
    pairs = torch.stack([lse, torch.tensor([[inf, inf, inf, inf], [-1.0, inf, inf, inf]])], 1)
    pairs[1, 0, 2] = torch.nan  # of the rank whose logit is +inf
    kept = parallel.whole(pairs[..., [0, 2, 3]], target[[0, 2, 3]], 8)[1]
    assert kept[0].item() == pytest.approx(1 + math.log(2)) and kept[1].isnan() and kept[2] == 0
    assert parallel.whole(pairs.to("meta"), target.to("meta"), 8)[1].shape == (4,)  # nobody waits


def takes_a_gradient_of_a_gradient():
    x, w = torch.ones(4, 8, requires_grad=True), torch.ones(16, 8)
    loss = parallel.linear_cross_entropy(x, w, torch.zeros(4, dtype=torch.int64))
    torch.autograd.grad(loss, x, create_graph=True)


def test_a_head_s_gradient_has_no_gradient_and_says_so():
    with pytest.raises(parallel.RankFailed, match="gradients of gradients are not covered"):
        parallel.run(2, takes_a_gradient_of_a_gradient)

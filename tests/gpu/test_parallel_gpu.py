"""Cross-entropy over a vocabulary that this machine's GPUs share, over NCCL, and what a failing rank does to the others."""

import time

import pytest

torch = pytest.importorskip("torch")

from quack_tutorial import parallel
from tests.test_parallel import check_head

pytestmark = [pytest.mark.gpu]
GPUS = torch.cuda.device_count()
needs_two = pytest.mark.skipif(GPUS < 2, reason=f"ranks on GPUs need two of them, and torch sees {GPUS}")


@needs_two
@pytest.mark.parametrize("world", range(2, GPUS + 1))
@pytest.mark.parametrize("N, in_last", [(32000, False), (50257, True)])
def test_ranks_agree_with_float64_and_with_each_other(world, N, in_last):
    found = parallel.run(world, parallel.check, 64, N, torch.float32, 0, in_last, backend="nccl")
    for result in found:
        assert result["loss_error"] < 5e-5
        assert result["gradient_error"] < 5e-6
        assert torch.equal(found[0]["loss"], result["loss"])


@needs_two
def test_a_head_over_ranks_agrees_with_float64_and_with_itself():
    found = parallel.run(GPUS, check_head, 100, 64, 50257, backend="nccl")
    for result in found:
        assert result["loss_error"] < 5e-5 and result["gradient_error"] < 5e-6
        assert torch.equal(found[0]["loss"], result["loss"])


def fails_on_the_last_rank():
    waits = torch.zeros(1, device="cuda")
    if torch.distributed.get_rank() == torch.distributed.get_world_size() - 1:
        raise ValueError("no logits here")
    torch.distributed.all_reduce(waits)
    torch.cuda.synchronize()


@needs_two
def test_a_failing_rank_ends_the_others_within_a_minute_and_is_named():
    started = time.monotonic()
    last = f"^rank {GPUS - 1} of {GPUS} failed, and the others were ended: ValueError: no logits here"
    with pytest.raises(parallel.RankFailed, match=last):
        parallel.run(GPUS, fails_on_the_last_rank, backend="nccl")
    assert time.monotonic() - started < 60

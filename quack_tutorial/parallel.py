"""Cross-entropy whose vocabulary is spread over several GPUs: each rank has some columns of every row of logits.

Rank r of W holds columns r n to (r + 1) n of (M, W n) logits. The cross-entropy kernel gives each rank the log-sum-exp of its part
of a row, which is the pair (lse, 1) of (maximum, sum): exp(lse) = 1 * exp(lse). Pairs combine across ranks as across warps:

    m = max(m_r),    s = sum(s_r exp(m_r - m)),    lse = m + log(s)

| step                                                        | who talks             | bytes a row  |
|-------------------------------------------------------------|-----------------------|--------------|
| each rank: log-sum-exp of its part, and the target's logit   | nobody                |              |
| all ranks get all pairs (log-sum-exp, target's logit)        | one all_gather        | 8 from each  |
| each rank combines them, in the order of ranks               | nobody                |              |
| backward: exp(x - lse) - [column is the target], times dloss | nobody                |              |

So all ranks have the same bits. Written for torch.distributed with NCCL on GPUs and gloo on CPUs, where the kernels are simulated.
Run by itself it checks loss and gradient against float64: `torchrun --nproc-per-node 8 -m quack_tutorial.parallel`.

Not covered: a vocabulary that does not divide by the ranks, the gradient of the loss's weight, overlap with the matrix product;
logits far from zero, where a log-sum-exp in float32 is off by 2^-24 of itself (`ops.cross_entropy` keeps what that leaves off).
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist

from quack_tutorial import ops

IGNORED = -100


def cross_entropy(logits, target, group=None):
    """The loss of each row, (M,) float32, the same on all ranks of `group`; `logits` are this rank's columns, (M, n).

    `target`, (M,), holds columns of the whole vocabulary, or -100 for a row that does not count; it is the same on all ranks.
    """
    return _VocabularyParallel.apply(logits, target, group)


def combined(lse):
    """The log-sum-exp of rows from those of their parts, (W, M); -inf if all are."""
    m = lse.amax(0)
    safe = torch.where(m == -torch.inf, 0.0, m)  # -inf - -inf would be NaN
    return safe + (lse - safe).exp().sum(0).log()


def pair_of(logits, target, group=None):
    """What this rank knows of each row, for the others and for its gradient.

    (2, M) float32: its columns' log-sum-exp, and the target's logit, 0 if another
    rank has it. (M,): the target's column here, -100 where the row does not count.
    (M,): whether the target is here at all.
    """
    columns = logits.shape[1]
    local = target - dist.get_rank(group) * columns
    here = (local >= 0) & (local < columns) & (target != IGNORED)
    of_rank = torch.where(here, local, IGNORED)
    # read M n elements; a row whose target is elsewhere has a log-sum-exp, too
    _, lse = ops.cross_entropy(logits, of_rank, ignore_index=IGNORED, reduction="none", return_lse=True)
    own = torch.where(here, local, 0)
    picked = torch.where(here, logits.gather(1, own[:, None])[:, 0].float(), 0.0)
    return torch.stack((lse, picked)), torch.where(target == IGNORED, IGNORED, own), here


def exchanged(pair, group=None):
    """The pairs of all ranks, (W, 2, M), in their order: all that is sent."""
    pairs = pair.new_empty(dist.get_world_size(group), *pair.shape)
    dist.all_gather(list(pairs), pair, group=group)
    return pairs


def gradient(logits, own, here, dloss, lse):
    """The gradient of this rank's logits, (M, n); nothing is sent."""
    # read M n elements; write M n elements
    dx = torch.ops.quack_tutorial.cross_entropy_backward(logits, own, dloss, lse, IGNORED)
    # Rows whose target is elsewhere took column 0 for it: it is written again.
    first = (logits[:, 0].float() - lse).exp() * dloss
    dx[:, 0] = torch.where(here | (own == IGNORED), dx[:, 0], first.to(dx.dtype))
    return dx


class _VocabularyParallel(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, group):
        pair, own, here = pair_of(logits.detach(), target, group)
        pairs = exchanged(pair, group)
        lse = combined(pairs[:, 0])
        ctx.save_for_backward(logits, own, here, lse)
        return torch.where(target == IGNORED, 0.0, lse - pairs[:, 1].sum(0))

    @staticmethod
    def backward(ctx, dloss):
        logits, own, here, lse = ctx.saved_tensors
        return gradient(logits, own, here, dloss, lse), None, None


def run(world: int, function, *arguments) -> list:
    """function(*arguments) on `world` CPU processes with gloo; what each returned, by rank. `function` is of a module."""
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_process, (world, folder, function, arguments), nprocs=world)
        return [torch.load(Path(folder) / f"{rank}.pt") for rank in range(world)]


def _process(rank, world, folder, function, arguments):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)
    try:
        torch.save(function(*arguments), Path(folder) / f"{rank}.pt")
    finally:
        dist.destroy_process_group()


def check(M: int = 32, N: int = 512, dtype=torch.float32, seed: int = 0) -> dict:
    """Loss and gradient of this rank's part of random logits, and how far both are from float64 on the whole row."""
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else torch.device("cpu")
    draw = torch.Generator().manual_seed(seed)
    whole = (4 * torch.randn(M, N, generator=draw)).to(dtype)
    target = torch.randint(N, (M,), generator=draw)
    target[0] = IGNORED
    # As a mask leaves it: of two ranks the first has nothing of row 1, and not its first column of row 2.
    whole[1, : N // 2], whole[2, 0], target[1:3] = -torch.inf, -torch.inf, N - 1
    weight = torch.rand(M, generator=draw)
    part = whole.chunk(world, dim=1)[rank].contiguous().to(device).requires_grad_()
    loss = cross_entropy(part, target.to(device))
    loss.backward(weight.to(device))

    exact = whole.double().requires_grad_()
    exact_loss = torch.nn.functional.cross_entropy(exact, target, reduction="none")
    exact_loss.backward(weight.double())
    exact_grad = exact.grad.chunk(world, dim=1)[rank]
    return {
        "loss": loss.detach().cpu(),
        "loss_error": (loss.detach().cpu() - exact_loss.detach()).abs().max().item(),
        "gradient_error": (part.grad.cpu() - exact_grad).abs().max().item(),
    }


def main() -> int:
    """Check on the ranks that torchrun started, on GPUs with NCCL if there are any; 1 if an error is too large."""
    gpus = torch.cuda.is_available()
    if gpus:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if gpus else "gloo")
    world = dist.get_world_size()
    found = check(M=256 if gpus else 32, N=world * (16384 if gpus else 256))
    ok = found["loss_error"] < 5e-5 and found["gradient_error"] < 5e-6
    errors = f"loss within {found['loss_error']:.1e}, gradient within {found['gradient_error']:.1e} of float64"
    print(f"rank {dist.get_rank()} of {world}, {dist.get_backend()}: {errors}{'' if ok else ': WRONG'}", flush=True)
    dist.destroy_process_group()
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())

"""Cross-entropy whose vocabulary is spread over several GPUs: each rank has some columns of every row of logits.

Rank r of W holds `columns(N, r, W)` of (M, N) logits. The cross-entropy kernel gives each rank the log-sum-exp of its part of a
row, which is the pair (lse, 1) of (maximum, sum): exp(lse) = 1 * exp(lse). Pairs combine across ranks as across warps:

    m = max(m_r),    s = sum(s_r exp(m_r - m)),    lse = m + log(s)

| step                                                        | who talks             | bytes a row  |
|-------------------------------------------------------------|-----------------------|--------------|
| each rank: log-sum-exp of its part, and the target's logit   | nobody                |              |
| all ranks get all pairs (log-sum-exp, target's logit)        | one all_gather        | 8 from each  |
| each rank combines them, in the order of ranks               | nobody                |              |
| backward: exp(x - lse) - [column is the target], times dloss | nobody                |              |

So all ranks have the same bits. Written for torch.distributed with NCCL on GPUs and gloo on CPUs, where the kernels are simulated.

`run` starts the ranks, and `check` compares loss and gradient with float64 on each. One that fails ends the others, and
`RankFailed` says which and why; one that hangs does so after `TIMEOUT`.

`linear_cross_entropy` has the head's product inside, some rows of logits at a time; what is sent for the gradient of its input, an
all_reduce, is begun before the next rows' products and waited for at the end.

Not covered: the gradient of the loss's weight; logits far from zero, where a log-sum-exp in
float32 is off by 2^-24 of itself (`ops.cross_entropy` keeps what that leaves off).
"""

from __future__ import annotations

import datetime
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import torch
import torch.distributed as dist

from quack_tutorial import ops
from quack_tutorial.ops.linear_cross_entropy import _checked, _scaled

IGNORED = -100
TIMEOUT = datetime.timedelta(seconds=45)  # how long a rank waits for the others


# Every rank's rows into one tensor, without a copy; torch 2.13 has another name for it.
all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


class RankFailed(RuntimeError):
    """A rank failed, and the others were ended."""


def columns(N: int, rank: int, world: int) -> slice:
    """Which of N columns a rank holds: multiples of 8 but for the last rank's, whose rows then start where 16-byte loads may."""
    eighths = -(-N // 8)
    if eighths < world:
        raise ValueError(f"a vocabulary of {N} is too small for {world} ranks: each needs 8 columns")
    first, end = (min(N, 8 * (eighths * at // world)) for at in (rank, rank + 1))
    return slice(first, end)


def cross_entropy(logits, target, group=None, first=None):
    """The loss of each row, (M,) float32, the same on all ranks of `group`; `logits` are this rank's columns, (M, n).

    `target`, (M,), holds columns of the whole vocabulary, or -100 for a row that does not count; it is the same on all ranks. One
    that is no column raises IndexError on CPUs and makes its row NaN on GPUs, as `ops.cross_entropy` does.
    `first` is this rank's first column; it may be left out where all ranks have as many.
    """
    return _VocabularyParallel.apply(logits, target, group, first)


def linear_cross_entropy(input, linear_weight, target, group=None, first=None, batch_chunk_size=None):
    """The mean loss of the rows of input @ W.T, a float32 number, the same on all ranks of `group`.

    `input`, (M, K), is the same on all ranks, `linear_weight` is this rank's rows of W, (n, K); `target` and `first` are as for
    `cross_entropy`. At most `batch_chunk_size` rows of this rank's logits exist at a time, and as much of their gradient; a quarter
    of all if it is None. The first backward pass uses the gradients up, as `ops.linear_cross_entropy`'s does, and what that refuses
    is refused here, too. Whether `input` needs a gradient is the same on all ranks.
    """
    input, linear_weight = _checked(input, linear_weight, target, IGNORED, "mean", batch_chunk_size)
    wanted = [torch.is_grad_enabled() and given.requires_grad for given in (input, linear_weight)]
    rows = int(batch_chunk_size or max(1, -(-len(input) // 4)))
    return _Head.apply(input, linear_weight, target, group, first, rows, *wanted)


def combined(lse):
    """The log-sum-exp of rows from those of their parts, (W, M); -inf if all are."""
    m = lse.amax(0)
    safe = torch.where(m == -torch.inf, 0.0, m)  # -inf - -inf would be NaN
    return safe + (lse - safe).exp().sum(0).log()


def pair_of(logits, target, group=None, first=None):
    """What this rank knows of each row, for the others and for its gradient.

    (2, M) float32: its columns' log-sum-exp, and the target's logit, +inf if it is
    not here. (M,): the target's column here, -100 where the row does not count.
    (M,): whether the target is here at all.
    """
    n = logits.shape[1]
    local = target - (dist.get_rank(group) * n if first is None else first)
    here = (local >= 0) & (local < n) & (target != IGNORED)
    of_rank = torch.where(here, local, IGNORED)
    # read M n elements; a row whose target is elsewhere has a log-sum-exp, too
    _, lse = ops.cross_entropy(logits, of_rank, ignore_index=IGNORED, reduction="none", return_lse=True)
    own = torch.where(here, local, 0)
    picked = torch.where(here, logits.gather(1, own[:, None])[:, 0].float(), torch.inf)
    return torch.stack((lse, picked)), torch.where(target == IGNORED, IGNORED, own), here


def exchanged(pair, group=None):
    """The pairs of all ranks, (W, 2, M), in their order: all that is sent."""
    pairs = pair.new_empty(dist.get_world_size(group), *pair.shape)
    all_gather(pairs.flatten(0, 1), pair, group=group)
    return pairs


def whole(pairs, target, n, group=None):
    """(log-sum-exp, loss) of each row from the pairs of all ranks, of which this one has n columns."""
    lse, logit = combined(pairs[:, 0]), pairs[:, 1].amin(0)
    missing = (logit == torch.inf) & ~lse.isnan() & (target != IGNORED)
    if missing.device.type == "cpu" and missing.any():
        N = torch.tensor(n)
        dist.all_reduce(N, group=group)
        raise IndexError(f"cross_entropy: target {int(target[missing][0])} is out of bounds, there are {N} classes")
    lse = torch.where(missing, torch.nan, lse)  # so is its gradient
    return lse, torch.where(target == IGNORED, 0.0, lse - logit)


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
    def forward(ctx, logits, target, group, first):
        pair, own, here = pair_of(logits.detach(), target, group, first)
        lse, loss = whole(exchanged(pair, group), target, logits.shape[1], group)
        ctx.save_for_backward(logits, own, here, lse)
        return loss

    @staticmethod
    def backward(ctx, dloss):
        logits, own, here, lse = ctx.saved_tensors
        return gradient(logits, own, here, dloss, lse), None, None, None


class _Head(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input, linear_weight, target, group, first, rows, of_input, of_weight):
        M, loss, sent = len(input), 0.0, []
        # Contiguous, whatever `input` is: of anything else gloo's all_reduce gives wrong numbers.
        dinput = torch.empty_like(input, memory_format=torch.contiguous_format) if of_input else None
        dweight = torch.zeros_like(linear_weight) if of_weight else None
        for at in range(0, M, rows):
            x, t = input[at : at + rows], target[at : at + rows]
            logits = dlogits = None  # the last piece, which would lie beside the next
            logits = x @ linear_weight.T
            pair, own, here = pair_of(logits, t, group, first)
            lse, losses = whole(exchanged(pair, group), t, len(linear_weight), group)
            loss += losses.sum()
            if of_input or of_weight:
                dlogits = gradient(logits, own, here, torch.ones_like(lse), lse)
            if of_input:
                dx = dinput[at : at + rows]
                torch.addmm(dx, dlogits, linear_weight, beta=0, alpha=1 / M, out=dx)
                sent.append(dist.all_reduce(dx, group=group, async_op=True))
            if of_weight:
                dweight.addmm_(dlogits.T, x, alpha=1 / M)
        for one in sent:
            one.wait()
        counted = (target != IGNORED).sum()
        ctx.save_for_backward(dinput, dweight, M / counted.clamp(min=1))
        return loss / counted

    @staticmethod
    def backward(ctx, dloss):
        if torch.is_grad_enabled():  # by create_graph=True
            raise RuntimeError("linear_cross_entropy: gradients of gradients are not covered")
        dinput, dweight, scale = ctx.saved_tensors
        found = (d if d is None else _scaled(d, dloss * scale, out=d) for d in (dinput, dweight))
        return *found, *(None,) * 6


def run(world: int, function, *arguments, backend="gloo") -> list:
    """function(*arguments) on `world` processes; what each returned, by rank. `function` is of a module.

    With gloo the ranks share this machine's CPUs, with NCCL each has a GPU. RankFailed if a rank fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        arguments = world, folder, backend, function, arguments
        method = "spawn"
        if backend == "gloo" and "forkserver" in multiprocessing.get_all_start_methods():
            method = "forkserver"  # a server imports torch once and forks the ranks
            multiprocessing.set_forkserver_preload(["quack_tutorial.parallel", "cutesim.simulation"])
        ranks = torch.multiprocessing.start_processes(_process, arguments, world, join=False, start_method=method)
        try:
            while not ranks.join():
                pass
        except (torch.multiprocessing.ProcessRaisedException, torch.multiprocessing.ProcessExitedException) as error:
            raise RankFailed(_why(Path(folder), [process.exitcode for process in ranks.processes])) from error
        return [torch.load(Path(folder) / f"{rank}.pt") for rank in range(world)]


def _process(rank, world, folder, backend, function, arguments):
    torch.set_num_threads(1)
    device = torch.device("cuda", rank) if backend == "nccl" else None
    try:
        if device:
            torch.cuda.set_device(device)
        meeting = f"file://{folder}/meeting"
        dist.init_process_group(
            backend, init_method=meeting, rank=rank, world_size=world, timeout=TIMEOUT, device_id=device
        )
        torch.save(function(*arguments), Path(folder) / f"{rank}.pt")
    except BaseException as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        lines = str(error).strip().splitlines()
        what = f"{type(error).__name__}{': ' if lines else ''}{lines[0] if lines else ''} ({Path(at.filename).name}:{at.lineno})"
        # Renamed as a whole: this rank may be ended while it writes.
        written = Path(folder, f"{rank}.begun")
        written.write_text(json.dumps([time.monotonic(), rank, what]), encoding="utf-8")
        written.rename(written.with_suffix(".failed"))
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # at once: leaving the group might wait for the others
    dist.destroy_process_group()


def _why(folder, statuses) -> str:
    """The sentence on what went wrong first, from the exit status of each rank: the others' failures follow from it."""
    failed = sorted(json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.failed"))
    said = {rank for _, rank, _ in failed}
    killed = [rank for rank, status in enumerate(statuses) if rank not in said and status not in (0, -signal.SIGTERM)]
    if killed:
        status = statuses[killed[0]]
        how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return f"rank {killed[0]} of {len(statuses)} ended without a word ({how}), and the others were ended"
    rank, what = failed[0][1:] if failed else (statuses.index(-signal.SIGTERM), "SIGTERM")
    return f"rank {rank} of {len(statuses)} failed, and the others were ended: {what}"


def _device():
    """Where this rank's tensors are: on its GPU with NCCL, else on the CPU."""
    return torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else torch.device("cpu")


def check(M: int = 32, N: int = 512, dtype=torch.float32, seed: int = 0, in_last: bool = False) -> dict:
    """Loss and gradient of this rank's part of random logits, and how far both are from float64 on the whole row.

    With `in_last` all targets are the last column, so that only one rank has any.
    """
    rank, world = dist.get_rank(), dist.get_world_size()
    device = _device()
    draw = torch.Generator().manual_seed(seed)
    whole = (4 * torch.randn(M, N, generator=draw)).to(dtype)
    target = torch.randint(N, (M,), generator=draw)
    target[0] = IGNORED
    # As a mask leaves it: the first ranks have nothing of row 1, and rank 0 not its first column of row 2.
    whole[1, : N // 2], whole[2, 0], target[1:3] = -torch.inf, -torch.inf, N - 1
    if in_last:
        target[1:] = N - 1
    weight = torch.rand(M, generator=draw)
    own = columns(N, rank, world)
    part = whole[:, own].contiguous().to(device).requires_grad_()
    loss = cross_entropy(part, target.to(device), first=own.start)
    loss.backward(weight.to(device))

    exact = whole.double().requires_grad_()
    exact_loss = torch.nn.functional.cross_entropy(exact, target, reduction="none")
    exact_loss.backward(weight.double())
    exact_grad = exact.grad[:, own]
    return {
        "loss": loss.detach().cpu(),
        "loss_error": (loss.detach().cpu() - exact_loss.detach()).abs().max().item(),
        "gradient_error": (part.grad.cpu() - exact_grad).abs().max().item(),
    }

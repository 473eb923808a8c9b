"""`quack-tutorial parallel`: cross-entropy over a vocabulary that the GPUs of this machine share, timed over NCCL.

One process a GPU, each with its columns of the logits. Ways to the loss:

| name            | sends                                               | computes                                                |
|-----------------|-----------------------------------------------------|---------------------------------------------------------|
| pairs           | a pair a row, one all-gather: `parallel`            | our kernel on a rank's columns                          |
| two all-reduces | the maximum, then the sum and the target's logit    | the same                                                |
| Megatron        | the same two                                        | Megatron-LM's steps, compiled by torch: see `Megatron`  |
| gathered        | all logits, once                                    | our kernel on whole rows, put together                  |
| one GPU         | nothing                                             | our kernel on whole rows that were there all along      |

| part            | is                                                                                     |
|-----------------|----------------------------------------------------------------------------------------|
| kernel          | a rank's log-sum-exps and targets' logits: what pairs does before anything is sent      |
| exchange        | all that pairs does after it: the all-gather, and a few small kernels that combine      |
| idle exchange   | the same while the GPU waits for the host, which issues it call by call                 |
| all-gather      | the exchange's collective call alone                                                   |
| all-reduce      | an all-reduce of as many bytes as a rank gives: the floor of any exchange               |
| gather          | the collective call of gathered alone                                                  |

The gradient sends nothing: "pairs gradient" is that of a rank's columns from the rows' log-sum-exps, right for gathered as well.

Times are the GPU's, microseconds a call of `CALLS` in a row, the slowest rank's; the ways take turns. As in a training step, the
GPU is busy while the host issues the calls (all but "idle exchange"). Logits that L2 could keep are taken from several places in
turn. Bytes received are NVLink's own counters, for the first cell, where the driver shows them; else what was asked of NCCL.

With --gloo the ranks are processes on this machine's CPUs, which simulate the kernels: that tries the program, and times nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import subprocess
import sys
import time
from importlib import metadata

from bench.asked import command_line, numbers
from quack_tutorial import machine, parallel, records, reference
from quack_tutorial.records.cells import requested_dtypes

DTYPES = ("bfloat16",)
ROWS = (4096, 16384)
VOCABULARIES = (32000, 50257, 128256, 151936)
ROUNDS, CALLS = 7, 10
AHEAD_CYCLES = 20_000_000  # of a GPU's clock, about 12 ms: longer than the host takes to issue the calls
HARD_ROWS = 3  # see `inputs`
CHECKED = 32  # rows that are compared with float64
COUNTED = 20  # calls between two readings of NVLink's counters
NOT_IN_L2 = 200 << 20  # bytes that L2 cannot keep
MOST_SIMULATED = 64  # ranks


def add_arguments(parser):
    """Declare what `quack-tutorial parallel` takes."""

    def listed(values):
        return ",".join(map(str, values))

    parser.add_argument("--ranks", type=int, help="how many GPUs share the vocabulary (default: all)")
    parser.add_argument("--rows", metavar="M,...", default=listed(ROWS), help="rows (default %(default)s)")
    parser.add_argument(
        "--words", metavar="N,...", default=listed(VOCABULARIES), help="sizes of the vocabulary (default %(default)s)"
    )
    parser.add_argument(
        "--dtype", metavar="TYPE,...", default=listed(DTYPES), help="types of the logits (default %(default)s)"
    )
    parser.add_argument(
        "--gloo", action="store_true", help="try it on this machine's CPUs, simulated; times mean nothing"
    )
    parser.add_argument("--out", metavar="FILE", help="keep the record in this file, from the first cell on")


def run(args) -> int:
    """Measure and print; 1 with one sentence where it cannot, or where a rank failed."""
    here = machine.detect()
    if here.device != "cuda" and not args.gloo:
        print(
            f"parallel measures on GPUs: {here.reason} With --gloo it runs on CPUs, and times nothing.",
            file=sys.stderr,
        )
        return 1
    import torch

    there = 2 if args.gloo else torch.cuda.device_count()
    world, most = there if args.ranks is None else args.ranks, MOST_SIMULATED if args.gloo else there
    if not 1 <= world <= most:
        why = "of simulated ranks" if args.gloo else "since each rank needs a GPU and this machine has no more"
        print(f"parallel: --ranks takes 1 to {most}, {why}, got {world}.", file=sys.stderr)
        return 1
    try:
        sizes = [
            (dtype, M, N)
            for dtype in requested_dtypes(args.dtype)
            for M in numbers(args.rows, "--rows")
            for N in numbers(args.words, "--words")
        ]
        for _, M, N in sizes:
            parallel.columns(N, 0, world)
            if M < HARD_ROWS:
                raise ValueError(f"--rows: {HARD_ROWS} are the least, got {M}")
    except ValueError as error:
        print(f"parallel: {error}", file=sys.stderr)
        return 1
    head = _head(args, world, here)
    print(f"{head['device']}, {world} ranks over {head['backend']}, {len(sizes)} cells", flush=True)
    started = time.monotonic()
    try:
        parallel.run(world, measure_all, sizes, head, args.out, started, backend=head["backend"], prepare=prepare)
    except parallel.RankFailed as failure:
        print(f"parallel: {failure}.", file=sys.stderr)
        return 1
    print(f"{time.monotonic() - started:5.0f} s: done", flush=True)
    return 0


def _head(args, world, here) -> dict:
    """What the record says beside its cells."""
    import torch

    if args.gloo:
        versions = {name: metadata.version(name) for name in ("quack-tutorial", "torch", "numpy")}
        device = {"device": "CPU, simulated", "versions": versions}
    else:
        from bench.worker import describe

        device = describe()
    line = command_line(args, ["parallel", "--ranks", str(world)], ["rows", "words", "dtype", "gloo"])
    return {
        **records.stamped(device, here.driver, line),
        "backend": "gloo" if args.gloo else "nccl",
        "nccl": None if args.gloo else ".".join(map(str, torch.cuda.nccl.version())),
        "ranks": world,
    }


def prepare(rank, world, sizes, head, out, started):
    """Compile what the sizes take, before the ranks meet."""
    import torch
    import torch._inductor.config

    from quack_tutorial import ops

    if head["backend"] != "nccl":
        return
    torch._inductor.config.compile_threads = 1  # a pool of compilers a rank would take longer to start
    for dtype, N in dict.fromkeys((dtype, N) for dtype, _, N in sizes):
        own = parallel.columns(N, rank, world)
        n = own.stop - own.start
        for width in dict.fromkeys((n, N)):
            x = torch.zeros(16, width, dtype=getattr(torch, dtype), device="cuda")
            target, weight = torch.zeros(16, dtype=torch.int64, device="cuda"), torch.ones(16, device="cuda")
            _, lse = ops.cross_entropy(x, target, ignore_index=parallel.IGNORED, reduction="none", return_lse=True)
            one_gpus_loss(x, target)
            torch.ops.quack_tutorial.cross_entropy_backward(x, target, weight, lse, parallel.IGNORED)
        rows = max(sizes, key=lambda size: size[1])[1]
        x = torch.zeros(rows, n, dtype=getattr(torch, dtype), device="cuda")
        target, weight = torch.zeros(rows, dtype=torch.int64, device="cuda"), torch.ones(rows, device="cuda")
        loss, p = Megatron(own.start, lambda tensor, op: tensor).loss(x, target)
        Megatron(own.start).gradient(p, target, weight, x.dtype)
        del x, p
        torch.cuda.synchronize()
        if rank == 0:
            print(f"{time.monotonic() - started:5.0f} s: compiled for {dtype}, {N:,} words", flush=True)
    torch.cuda.empty_cache()


def measure_all(sizes, head, out, started) -> list:
    """Measure every size as one of the ranks; rank 0 prints each cell and writes the record again. The cells."""
    import torch
    import torch.distributed as dist

    timer, cells = (Timer if head["backend"] == "nccl" else Untimed)(), []
    for at, (dtype, M, N) in enumerate(sizes):
        cells.append(measure(dtype, M, N, timer, counted=at == 0))
        if head["backend"] == "nccl":
            torch.cuda.empty_cache()
        if dist.get_rank() == 0:
            print(f"{time.monotonic() - started:5.0f} s: {said(cells[-1])}", flush=True)
            if out:
                records.save(out, {**head, "cells": cells})
    return cells


def inputs(dtype, M, N, device, seed=0):
    """(this rank's columns of the logits (M, n), targets (M,), weight of each row's loss (M,)); hard rows first.

    Row 0 does not count; the ranks but the last have nothing but -inf of row 1; the targets of rows 1 and 2 are the last column.
    """
    import torch
    import torch.distributed as dist

    rank, world = dist.get_rank(), dist.get_world_size()
    own = parallel.columns(N, rank, world)
    draw = torch.Generator(device).manual_seed(seed * world + rank)
    logits = torch.randn(M, own.stop - own.start, generator=draw, device=device).mul_(4).to(getattr(torch, dtype))
    same = torch.Generator(device).manual_seed(seed + 1_000_000)
    target = torch.randint(N, (M,), generator=same, device=device)
    target[0], target[1], target[2] = parallel.IGNORED, N - 1, N - 1
    if rank < world - 1:
        logits[1] = -torch.inf
    return logits, target, torch.rand(M, generator=same, device=device)


def gathered_parts(part, widest):
    """Every rank's columns, (W, M, widest), those of a narrower rank with unused ones behind them."""
    import torch
    import torch.distributed as dist

    if part.shape[1] < widest:
        part = torch.nn.functional.pad(part, (0, widest - part.shape[1]))
    parts = part.new_empty(dist.get_world_size(), *part.shape)
    parallel.all_gather(parts.flatten(0, 1), part.contiguous())
    return parts


def gathered(part, N):
    """Whole rows (M, N) from every rank's columns (M, n)."""
    import torch
    import torch.distributed as dist

    world = dist.get_world_size()
    widths = [own.stop - own.start for own in (parallel.columns(N, rank, world) for rank in range(world))]
    parts = gathered_parts(part, max(widths))
    return torch.cat([part[:, :width] for part, width in zip(parts, widths)], dim=1)


def one_gpus_loss(rows, target):
    """The loss of each of the whole rows (M, N), (M,) float32."""
    import torch

    from quack_tutorial import ops

    return ops.cross_entropy(rows, target, ignore_index=parallel.IGNORED, reduction="none", dtype=torch.float32)


def reduced_twice(pair):
    """(log-sum-exps, targets' logits) of whole rows from this rank's pair, by two all-reduces."""
    import torch
    import torch.distributed as dist

    m = pair[0].clone()
    dist.all_reduce(m, dist.ReduceOp.MAX)
    safe = torch.where(m == -torch.inf, 0.0, m)
    sums = torch.stack(((pair[0] - safe).exp(), pair[1]))
    dist.all_reduce(sums)
    return safe + sums[0].log(), sums[1]


class Megatron:
    """Loss and gradient by the steps of Megatron-LM's fused cross-entropy, in torch, each compiled where there is a GPU.

    | step                                                                      | reads and writes, bytes a bfloat16 logit |
    |---------------------------------------------------------------------------|------------------------------------------|
    | float32 logits, their maximum; all-reduce                                 | 2 + 4                                    |
    | exponentials, their sum, the target's logit less the maximum; all-reduce  | 4 + 4                                    |
    | probabilities, which are kept; the loss                                   | 4 + 4                                    |
    | gradient from the probabilities                                           | 4 + 2                                    |

    `megatron/core/fusions/fused_cross_entropy.py` of NVIDIA/Megatron-LM at commit 0cb4a9c has these steps; it writes in place, and
    multiplies and converts the gradient in two steps, which is slower than here. `first` is this rank's first column, and
    reduce(tensor, op) the all-reduce.
    """

    def __init__(self, first, reduce=None):
        self.first, self.reduce = first, reduce

    def loss(self, logits, target):
        """The loss of each row, (M,), and the probabilities, (M, n) float32."""
        import torch.distributed as dist

        x, m = _step(_largest, logits)(logits)
        self.reduce(m, dist.ReduceOp.MAX)
        e, sums = _step(_exponentials, logits)(x, m, target - self.first)
        self.reduce(sums, dist.ReduceOp.SUM)
        p, loss = _step(_probabilities, logits)(e, sums, target)
        return loss, p

    def gradient(self, p, target, dloss, dtype):
        """The gradient of this rank's logits, (M, n)."""
        return _step(_gradient, p)(p, target - self.first, target, dloss, dtype)


def _largest(logits):
    x = logits.float()
    return x, x.amax(1)


def _exponentials(x, m, local):
    import torch

    here = (local >= 0) & (local < x.shape[1])
    picked = torch.where(here, x.gather(1, torch.where(here, local, 0)[:, None])[:, 0] - m, 0.0)
    e = (x - m[:, None]).exp()
    return e, torch.stack((e.sum(1), picked))


def _probabilities(e, sums, target):
    import torch

    return e / sums[0][:, None], torch.where(target == parallel.IGNORED, 0.0, sums[0].log() - sums[1])


def _gradient(p, local, target, dloss, dtype):
    import torch

    hit = torch.arange(p.shape[1], device=p.device) == local[:, None]
    return ((p - hit.float()) * torch.where(target == parallel.IGNORED, 0.0, dloss)[:, None]).to(dtype)


_steps = {}


def _step(function, tensor):
    """`function`, compiled for any shape where `tensor` is on a GPU."""
    import torch

    if tensor.device.type == "cpu":
        return function
    if function not in _steps:
        _steps[function] = torch.compile(function, dynamic=True)
    return _steps[function]


@contextlib.contextmanager
def poisoned():
    """Within it torch fills what it allocates with NaN, so that a result which a kernel leaves unwritten is seen."""
    import torch

    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def measure(dtype, M, N, timer, counted=False) -> dict:
    """One size: errors against float64 and against one GPU's kernel, then samples in microseconds of each way.

    RuntimeError where ours is wrong: what is wrong is not timed. With `counted`, what NVLink received is read, too.
    """
    import torch
    import torch.distributed as dist

    world, rank, ignored = dist.get_world_size(), dist.get_rank(), parallel.IGNORED
    device = torch.device("cuda", rank) if dist.get_backend() == "nccl" else torch.device("cpu")
    part, target, weight = inputs(dtype, M, N, device)
    own = parallel.columns(N, rank, world)
    widest = max(columns.stop - columns.start for columns in (parallel.columns(N, r, world) for r in range(world)))
    whole = gathered(part, N)
    gradient_of = torch.ops.quack_tutorial.cross_entropy_backward
    megatron = Megatron(own.start, dist.all_reduce)

    def of_pairs(x):
        return parallel.cross_entropy(x, target, first=own.start)

    def of_two(x):
        lse, picked = reduced_twice(parallel.pair_of(x, target, first=own.start)[0])
        return torch.where(target == ignored, 0.0, lse - picked)

    with poisoned():
        leaf = part.clone().requires_grad_()
        loss = of_pairs(leaf)
        loss.backward(weight)
        pair, column, here = parallel.pair_of(part, target, first=own.start)
        lse = parallel.combined(parallel.exchanged(pair)[:, 0])
        own_loss, own_gradient = one_gpus_loss(whole, target), gradient_of(whole, target, weight, lse, ignored)
        losses = {"": loss.detach(), "two all-reduces ": of_two(part)}
        losses |= {"gathered ": one_gpus_loss(gathered(part, N), target), "one GPU ": own_loss}
    losses["Megatron "], p = megatron.loss(part, target)
    megatrons = megatron.gradient(p, target, weight, part.dtype)
    gradients = {"": gathered(leaf.grad[:CHECKED], N), "Megatron ": gathered(megatrons[:CHECKED], N)}
    gradients["one GPU "] = own_gradient[:CHECKED]
    apart = torch.stack(
        [(loss.detach() - own_loss).abs().max(), (leaf.grad - own_gradient[:, own]).abs().max().float()]
    )
    dist.all_reduce(apart, dist.ReduceOp.MAX)
    errors = _errors(whole, target, weight, losses, gradients, dtype) if rank == 0 else {}
    errors |= dict(zip(("loss from one GPU", "gradient from one GPU"), apart.tolist()))
    wrong = [name for name in ("loss", "gradient") if rank == 0 and not errors[name] <= 1]
    if wrong:
        raise RuntimeError(
            f"{dtype} {M} x {N} on {world} ranks: {wrong[0]} is {errors[wrong[0]]:.3g} of what is tolerated"
        )
    del leaf, loss, own_loss, own_gradient, losses, gradients, megatrons

    # A step's logits come from a matrix product and are not all in L2; so those of small cells lie in several places.
    copies = min(8, -(-NOT_IN_L2 // (part.numel() * part.element_size())))
    parts = itertools.cycle([part, *(part.clone() for _ in range(copies - 1))])
    given = torch.empty_like(pair)

    def exchange():
        pairs = parallel.exchanged(pair)
        return torch.where(target == ignored, 0.0, parallel.combined(pairs[:, 0]) - pairs[:, 1].sum(0))

    ways = {
        "pairs loss": lambda: of_pairs(next(parts)),
        "kernel": lambda: parallel.pair_of(next(parts), target, first=own.start),
        "exchange": exchange,
        "idle exchange": exchange,
        "all-gather": lambda: parallel.exchanged(pair),
        "all-reduce": lambda: dist.all_reduce(given),
        "pairs gradient": lambda: parallel.gradient(next(parts), column, here, weight, lse),
        "two all-reduces loss": lambda: of_two(next(parts)),
        "two all-reduces exchange": lambda: reduced_twice(pair),
        "Megatron loss": lambda: megatron.loss(next(parts), target),
        "Megatron gradient": lambda: megatron.gradient(p, target, weight, part.dtype),
        "gather": lambda: gathered_parts(next(parts), widest),
        "gathered loss": lambda: one_gpus_loss(gathered(next(parts), N), target),
        "one GPU loss": lambda: one_gpus_loss(whole, target),
        "one GPU gradient": lambda: gradient_of(whole, target, weight, lse, ignored),
    }
    given.zero_()
    samples = timer.interleaved_us(ways)
    seen = {"pairs": "pairs loss", "two all-reduces": "two all-reduces loss", "gathered": "gathered loss"}
    return {
        "dtype": dtype,
        "M": M,
        "N": N,
        "ranks": world,
        "errors": errors,
        "samples_us": samples,
        "asked_bytes": {"pairs": M * 8 * (world - 1), "gathered": M * widest * part.element_size() * (world - 1)},
        "nvlink_bytes": {name: timer.received(ways[way]) if counted else None for name, way in seen.items()},
    }


def _errors(whole, target, weight, losses, gradients, dtype) -> dict:
    """For each way, the largest errors of the checked rows against float64, as fractions of what is tolerated."""
    x, index, dloss = (tensor[:CHECKED].double().cpu().numpy() for tensor in (whole, target, weight))
    index = index.astype(int)
    found = {}
    for name, loss in losses.items():
        loss = loss[:CHECKED].double().cpu().numpy()
        found[f"{name}loss"] = reference.cross_entropy_error(x, index, loss, "float32")
    for name, gradient in gradients.items():
        gradient = gradient.double().cpu().numpy()
        found[f"{name}gradient"] = reference.cross_entropy_backward_error(x, index, dloss, gradient, dtype)
    return {name: records.rounded(error, 4) for name, error in found.items()}


class Untimed:
    """In place of a timer where the kernels are simulated: calls every way once."""

    def interleaved_us(self, ways):
        """Name -> no time at all."""
        for way in ways.values():
            way()
        return {name: [0.0] for name in ways}

    def received(self, call):
        """Nothing is counted."""
        return None


class Timer:
    """Times calls on all ranks at once, and reads what came in over NVLink."""

    def interleaved_us(self, ways) -> dict:
        """Name -> `ROUNDS` samples, microseconds a call, each the slowest rank's."""
        import torch
        import torch.distributed as dist

        found, together = {name: [] for name in ways}, torch.zeros(1, device="cuda")
        for turn in range(-1, ROUNDS):  # the first warms up
            for name in list(ways)[:: 1 if turn % 2 else -1]:
                dist.barrier()
                torch.cuda.synchronize()
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                if not name.startswith("idle"):
                    torch.cuda._sleep(AHEAD_CYCLES)
                dist.all_reduce(together)  # so that all GPUs begin at once
                start.record()
                for _ in range(CALLS):
                    ways[name]()
                end.record()
                torch.cuda.synchronize()
                us = torch.tensor(start.elapsed_time(end) * 1e3 / CALLS, device="cuda")
                dist.all_reduce(us, dist.ReduceOp.MAX)
                if turn >= 0:
                    found[name].append(records.rounded(us.item()))
        return found

    def received(self, call) -> float | None:
        """Bytes that rank 0's GPU received over NVLink for a call; None where its counters cannot be read, or on another rank."""
        import torch
        import torch.distributed as dist

        def reading():
            dist.barrier()
            torch.cuda.synchronize()
            return nvlink_received_bytes() if dist.get_rank() == 0 else None

        before = reading()
        for _ in range(COUNTED):
            call()
        after = reading()
        return None if before is None or after is None else (after - before) / COUNTED


def nvlink_received_bytes(index: int = 0) -> int | None:
    """What GPU `index` has received over all its links since the driver started; None where nvidia-smi does not say."""
    try:
        text = subprocess.run(
            ["nvidia-smi", "nvlink", "-gt", "d", "-i", str(index)], capture_output=True, text=True, timeout=20
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    links = re.findall(r"Data Rx:\s*(\d+)\s*KiB", text)
    return sum(map(int, links)) * 1024 if links else None


def said(cell) -> str:
    """A cell as lines of text."""
    from quack_tutorial.records.statistics import median

    head = f"{cell['dtype']} {cell['M']} x {cell['N']} on {cell['ranks']} ranks"
    times = (f"  {name:24}{median(taken):10.1f} us" for name, taken in cell["samples_us"].items())
    errors = ", ".join(f"{name} {error:.2g}" for name, error in cell["errors"].items())
    received = [f"{name} {asked / 1e6:,.2f} MB asked" for name, asked in cell["asked_bytes"].items()]
    counted = [
        f"{name} {seen / 1e6:,.2f} MB by NVLink" for name, seen in cell["nvlink_bytes"].items() if seen is not None
    ]
    sent = ", ".join(received + counted)
    return "\n".join([head, *times, f"  errors: {errors}", f"  received: {sent}"])

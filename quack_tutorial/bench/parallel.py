"""`quack-tutorial parallel`: cross-entropy over a vocabulary that the GPUs of this machine share, timed over NCCL.

One process a GPU. Three ways to the loss and to the gradient of a rank's own logits, rank r holding columns r n to (r + 1) n:

| name     | loss                                                            | gradient                                |
|----------|-----------------------------------------------------------------|-----------------------------------------|
| pairs    | `parallel.cross_entropy`: a pair a row crosses NVLink            | nothing is sent                         |
| gathered | all logits to every rank, put together to whole rows, one kernel | of whole rows; a rank needs only its own |
| one GPU  | the kernel on whole rows that were there all along               | the same                                |

"kernel" and "exchange" are parts of "pairs": the log-sum-exp of the rank's columns with the target's logit, and what follows it.
Alone the exchange waits for the host, which behind a kernel has issued it by then: what it adds is "pairs" less "kernel".
Times are host and GPU together, as a training step sees them: microseconds a call of `CALLS` in a row, the slowest rank's;
the ways take turns. Bytes received are NVLink's own counters where the driver shows them; else what was asked of NCCL.
"""

from __future__ import annotations

import datetime
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from quack_tutorial import hardware, machine, parallel, reference

ROWS = 32768
SIZES = tuple((dtype, N) for dtype in ("bfloat16", "float32") for N in (128256, 151936))
ROUNDS, CALLS = 11, 10
CHECKED = 64  # rows that are compared with float64
COUNTED = 20  # calls between two readings of NVLink's counters


def add_arguments(parser):
    """Declare what `quack-tutorial parallel` takes."""
    parser.add_argument("--gpus", type=int, help="how many GPUs share the vocabulary (default: all)")
    parser.add_argument("--m", type=int, default=ROWS, help="rows (default %(default)s)")
    parser.add_argument("--out", metavar="FILE", help="keep the record in this file")


def run(args) -> int:
    """Measure and print; 1 with one sentence where it cannot."""
    here = machine.detect()
    if here.device != "cuda":
        print(f"parallel measures on GPUs: {here.reason}", file=sys.stderr)
        return 1
    import torch

    from quack_tutorial.bench.worker import describe

    there = torch.cuda.device_count()
    gpus = args.gpus or there
    if not 2 <= gpus <= there:
        print(f"parallel needs 2 GPUs or more of this machine's {there}, not {gpus}.", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_rank, (gpus, folder, args.m), nprocs=gpus)
        cells = json.loads(Path(folder, "cells.json").read_text(encoding="utf-8"))
    device = describe()
    gpu = hardware.find(device["device"])
    record = {
        **device,
        "driver": here.driver,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())),
        "ranks": gpus,
        "datasheet_gb_s": gpu.bandwidth_gb_s if gpu else None,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M"),
        "command": f"quack-tutorial parallel --gpus {gpus} --m {args.m}",
        "cells": cells,
    }
    if args.out:
        Path(args.out).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


def _rank(rank, world, folder, M):
    """Measure every size as one of `world` ranks; rank 0 keeps what was found."""
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(rank)
    meeting = f"file://{folder}/meeting"
    here = torch.device("cuda", rank)
    dist.init_process_group("nccl", init_method=meeting, rank=rank, world_size=world, device_id=here)
    try:
        cells = []
        for dtype, N in SIZES:
            cells.append(measure(dtype, M, N, Timer()))
            torch.cuda.empty_cache()
            if rank == 0:
                print(said(cells[-1]), flush=True)
        if rank == 0:
            Path(folder, "cells.json").write_text(json.dumps(cells), encoding="utf-8")
    finally:
        dist.destroy_process_group()


def inputs(dtype, M, N, device, seed=0):
    """(this rank's columns (M, N / W), targets (M,), weight of each row's loss (M,)); hard rows first.

    Row 0 does not count; rank 0 has nothing but -inf of row 1; row 2's target is the last column.
    """
    import torch
    import torch.distributed as dist

    rank, world = dist.get_rank(), dist.get_world_size()
    if N % world:
        raise ValueError(f"a vocabulary of {N} does not divide by {world} ranks")
    draw = torch.Generator(device).manual_seed(seed * world + rank)
    logits = (4 * torch.randn(M, N // world, generator=draw, device=device)).to(getattr(torch, dtype))
    same = torch.Generator(device).manual_seed(seed + 1_000_000)
    target = torch.randint(N, (M,), generator=same, device=device)
    target[0], target[1], target[2] = parallel.IGNORED, N - 1, N - 1
    if rank == 0:
        logits[1] = -torch.inf
    return logits, target, torch.rand(M, generator=same, device=device)


def gathered(part):
    """Whole rows (M, N) from every rank's columns (M, n)."""
    import torch
    import torch.distributed as dist

    world, (M, n) = dist.get_world_size(), part.shape
    parts = part.new_empty(world * M, n)
    # Into one tensor, without a copy; torch 2.13 has another name for it.
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    gather(parts, part)
    return torch.cat(parts.chunk(world), dim=1)


def measure(dtype, M, N, timer) -> dict:
    """One size: errors against float64 and against one GPU's kernel, then samples in microseconds of each way."""
    import torch
    import torch.distributed as dist

    from quack_tutorial import ops

    world, rank = dist.get_world_size(), dist.get_rank()
    device = torch.device("cuda", rank) if dist.get_backend() == "nccl" else torch.device("cpu")
    part, target, weight = inputs(dtype, M, N, device)
    columns = slice(rank * part.shape[1], (rank + 1) * part.shape[1])
    whole = gathered(part)
    ignored = parallel.IGNORED

    leaf = part.clone().requires_grad_()
    loss = parallel.cross_entropy(leaf, target)
    loss.backward(weight)
    _, lse = ops.cross_entropy(whole, target, ignore_index=ignored, reduction="none", return_lse=True)
    picked = whole.gather(1, target.clamp(0)[:, None])[:, 0].float()
    own_loss = torch.where(target == ignored, 0.0, lse - picked)
    gradient_of = torch.ops.quack_tutorial.cross_entropy_backward
    own_gradient = gradient_of(whole, target, weight, lse, ignored)
    some = slice(0, CHECKED)
    answers = [t.double().cpu().numpy() for t in (whole[some], loss.detach()[some], weight[some])]
    x, found_loss, dloss = answers
    gradient = gathered(leaf.grad[some].contiguous()).double().cpu().numpy()
    index = target[some].cpu().numpy()
    errors = {
        "loss": reference.cross_entropy_error(x, index, found_loss, "float32"),
        "gradient": reference.cross_entropy_backward_error(x, index, dloss, gradient, dtype),
        "loss from one GPU": (loss.detach() - own_loss).abs().max().item(),
        "gradient from one GPU": (leaf.grad - own_gradient[:, columns]).abs().max().item(),
    }
    del leaf, own_gradient

    pair, own, here = parallel.pair_of(part, target)
    parts_lse = parallel.combined(parallel.exchanged(pair)[:, 0])

    def exchange():
        pairs = parallel.exchanged(pair)
        return parallel.combined(pairs[:, 0]) - pairs[:, 1].sum(0)

    def of_gathered(forward):
        rows = gathered(part)
        if forward:
            return ops.cross_entropy(rows, target, ignore_index=ignored, reduction="none")
        return gradient_of(rows, target, weight, lse, ignored)

    ways = {
        "pairs loss": lambda: parallel.cross_entropy(part, target),
        "kernel": lambda: parallel.pair_of(part, target),
        "exchange": exchange,
        "gathered loss": lambda: of_gathered(True),
        "one GPU loss": lambda: ops.cross_entropy(whole, target, ignore_index=ignored, reduction="none"),
        "pairs gradient": lambda: parallel.gradient(part, own, here, weight, parts_lse),
        "gathered gradient": lambda: of_gathered(False),
        "one GPU gradient": lambda: gradient_of(whole, target, weight, lse, ignored),
    }
    samples = timer.interleaved_us(ways)
    size = part.element_size()
    return {
        "dtype": dtype,
        "M": M,
        "N": N,
        "ranks": world,
        "errors": errors,
        "samples_us": samples,
        "asked_bytes": {"pairs": M * 8 * (world - 1), "gathered": M * part.shape[1] * size * (world - 1)},
        "nvlink_bytes": {name: timer.received(ways[way]) for name, way in (("pairs", "pairs loss"), ("gathered", "gathered loss"))},
    }  # fmt: skip


class Timer:
    """Times calls on all ranks at once, and reads what came in over NVLink."""

    def interleaved_us(self, ways) -> dict:
        """Name -> `ROUNDS` samples, microseconds a call, each the slowest rank's."""
        import torch
        import torch.distributed as dist

        found = {name: [] for name in ways}
        for turn in range(-1, ROUNDS):  # the first warms up
            for name in list(ways)[:: 1 if turn % 2 else -1]:
                dist.barrier()
                torch.cuda.synchronize()
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                for _ in range(CALLS):
                    ways[name]()
                end.record()
                torch.cuda.synchronize()
                us = torch.tensor(start.elapsed_time(end) * 1e3 / CALLS, device="cuda")
                dist.all_reduce(us, dist.ReduceOp.MAX)
                if turn >= 0:
                    found[name].append(float(f"{us.item():.5g}"))
        return found

    def received(self, call) -> float | None:
        """Bytes that rank 0's GPU received over NVLink for a call; None where its counters cannot be read."""
        import torch
        import torch.distributed as dist

        dist.barrier()
        torch.cuda.synchronize()
        before = nvlink_received_bytes()
        for _ in range(COUNTED):
            call()
        torch.cuda.synchronize()
        dist.barrier()
        after = nvlink_received_bytes()
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
    from quack_tutorial.bench.statistics import median

    head = f"{cell['dtype']} {cell['M']} x {cell['N']} on {cell['ranks']} GPUs"
    times = (f"  {name:18}{median(taken):10.1f} us" for name, taken in cell["samples_us"].items())
    errors = ", ".join(f"{name} {error:.2g}" for name, error in cell["errors"].items())
    sent = ", ".join(
        f"{name} {asked / 1e6:,.2f} MB asked, NVLink {counted / 1e6:,.2f} MB" if counted else f"{name} {asked / 1e6:,.2f} MB asked"
        for (name, asked), counted in zip(cell["asked_bytes"].items(), cell["nvlink_bytes"].values())
    )  # fmt: skip
    return "\n".join([head, *times, f"  errors: {errors}", f"  received: {sent}"])

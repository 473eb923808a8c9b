"""`quack-tutorial levels`: the kernels of chapter 16 beside the softmax that ships and a copy, on this machine's GPU.

Each is launched many times in a CUDA graph, one after the other, so that a kernel that overlaps with the one ahead of it can.
What is checked is what was timed: the outputs of the graph's last launches, which were NaN before.
"""

from __future__ import annotations

from bench.asked import command_line, on_a_gpu
from quack_tutorial import records

# Few rows for the gap between launches, many for the bandwidth.
SIZES = tuple((dtype, M, N) for dtype, N in (("float32", 1024), ("bfloat16", 2048)) for M in (2048, 8192, 32768))
SMEM_BYTES = 227 * 1024
ROUNDS = 11


def kernels(r, sms) -> dict:
    """The kernels for rows `r`: name -> (host object, specs)."""
    from bench import ours
    from quack_tutorial.kernels.levels import LoadComputeStore, WarpTile

    template = LoadComputeStore(r.element, r.N, blocks=1)
    held = template.stages * template.consumers * r.N * r.element.width // 8
    blocks = sms * max(1, min(8, SMEM_BYTES // (held + 2048)))
    ((shipped, specs),) = ours.kernels("softmax", "ours", r)
    return {
        "warp tile": (WarpTile(r.element, r.N), specs),
        "template": (LoadComputeStore(r.element, r.N, blocks), specs),
        "overlapping": (LoadComputeStore(r.element, r.N, blocks, overlaps=True), specs),
        "what ships": (shipped, specs),
    }


def measure(dtype, M, N) -> dict:
    """Samples in microseconds a launch of each kernel and of a copy of as many bytes, and the largest error of each."""
    import torch

    from bench import correctness, ours
    from quack_tutorial import compiler, timing
    from quack_tutorial.operations import OPERATIONS

    device = torch.cuda.get_device_properties()
    x = torch.randn(M, N, device="cuda", dtype=getattr(torch, dtype))
    nbytes = 2 * x.numel() * x.element_size()
    count = timing.slots_for(nbytes // 2, device.L2_cache_size)
    slots = [(x, torch.empty_like(x))] + [(torch.randn_like(x), torch.empty_like(x)) for _ in range(count - 1)]
    launches = timing.launches_for(nbytes, count)
    replays, errors = {"copy": timing.capture(lambda x, out: out.copy_(x), slots, launches)}, {}
    for name, (host, specs) in kernels(ours.contiguous_rows(dtype, N), device.multi_processor_count).items():
        replays[name] = timing.capture(_into_out(compiler.compile_for(host, *specs)), slots, launches)
        timing.poison_and_replay(replays[name])
        errors[name] = max(correctness.error_of(OPERATIONS["softmax"], slot[:1], slot[1], seed=M) for slot in slots[:2])
    samples = timing.interleaved_us(replays, ROUNDS)
    kept = {name: list(map(records.rounded, taken)) for name, taken in samples.items()}
    return {"dtype": dtype, "M": M, "N": N, "bytes_moved": nbytes, "samples_us": kept, "errors": errors}


def _into_out(compiled):
    """The launch of a compiled kernel that returns its output, as `timing.capture` keeps it."""

    def call(x, out):
        compiled(x, out)
        return out

    return call


def add_arguments(parser):
    """Declare what `quack-tutorial levels` takes."""
    parser.add_argument("--out", help="keep the record in this file")


@on_a_gpu
def run(args, found) -> int:
    """Measure and print; 1 if a kernel is wrong, 2 without a GPU."""
    from bench.worker import describe
    from quack_tutorial.records.statistics import median

    cells = []
    for size in SIZES:
        cells.append(measure(*size))
        for name, taken in cells[-1]["samples_us"].items():
            us = median(taken)
            gb_s, error = cells[-1]["bytes_moved"] / us / 1e3, cells[-1]["errors"].get(name, 0)
            print(
                f"{size[0]} {size[1]} x {size[2]}: {name:12} {us:8.2f} us {gb_s:6.0f} GB/s, {error:.2f} of the tolerance"
            )
    wrong = [cell for cell in cells if not max(cell["errors"].values()) <= 1]
    if args.out and not wrong:
        head = records.stamped(describe(), found.driver, command_line(args, ["levels"], ["out"]))
        records.save(args.out, head | {"cells": cells})
    return int(bool(wrong))

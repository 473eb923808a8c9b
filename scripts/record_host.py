"""Host time of a call of each operation, ours and torch's eager, with our kernels loaded from QUACK_TUTORIAL_CACHE.

python scripts/record_host.py --out loaded.json

The input is small, 128 x 256, so that the GPU is done with a call before the next is made; what is measured is how long
Python is busy. A measurement is `--calls` calls between two synchronisations; the table shows the median of `--repeats`
of them, each a round of everything that is measured. "until done" is the same with the wait for the GPU at the end: where
it is much larger, the GPU did not keep up and the time is the GPU's. A call with gradient is the forward pass and
torch.autograd.grad.
"""

from __future__ import annotations

import argparse
import gc
import platform
import statistics
import sys
import time
from itertools import product

import torch

from quack_tutorial import kernel_cache, machine, ops, records
from quack_tutorial.compiler import installed_version

F = torch.nn.functional
M, N, EPS = 128, 256, 1e-6
PACKAGES = ("torch", "nvidia-cutlass-dsl", "apache-tvm-ffi")
DTYPES = ("float32", "bfloat16")
PROVIDERS = {
    "ours": {
        "softmax": ops.softmax,
        "rmsnorm": lambda x, w: ops.rmsnorm(x, w, eps=EPS),
        "layernorm": lambda x, w: ops.layernorm(x, w, eps=EPS),
        "cross_entropy mean": ops.cross_entropy,
        "cross_entropy none": lambda x, target: ops.cross_entropy(x, target, reduction="none"),
    },
    "torch eager": {
        "softmax": lambda x: torch.softmax(x, -1),
        "rmsnorm": lambda x, w: F.rms_norm(x, (N,), w, EPS),
        "layernorm": lambda x, w: F.layer_norm(x, (N,), w, None, EPS),
        "cross_entropy mean": F.cross_entropy,
        "cross_entropy none": lambda x, target: F.cross_entropy(x, target, reduction="none"),
    },
}


def arguments(operation: str, dtype) -> tuple:
    x = torch.randn(M, N, device="cuda").to(dtype)
    if operation.endswith("norm"):
        return x, torch.randn(N, device="cuda").to(dtype)
    return (x,) if operation == "softmax" else (x, torch.randint(0, N, (M,), device="cuda"))


def with_gradient(function, args):
    """The forward pass and the gradients of all arguments that can have one, as a function of nothing."""
    args = [arg.detach().requires_grad_() if arg.is_floating_point() else arg for arg in args]
    leaves = [arg for arg in args if arg.requires_grad]
    gradient = torch.ones_like(function(*args))
    return lambda: torch.autograd.grad(function(*args), leaves, gradient)


def subjects():
    """(what it is, the call) of everything that is measured."""
    for dtype, provider in product(DTYPES, PROVIDERS):
        for operation, function in PROVIDERS[provider].items():
            args = arguments(operation, getattr(torch, dtype))
            for gradient in (False, True):
                call = with_gradient(function, args) if gradient else lambda f=function, args=args: f(*args)
                yield {"operation": operation, "provider": provider, "dtype": dtype, "gradient": gradient}, call


def once(call, calls: int) -> tuple[float, float]:
    """Microseconds of a call, until the last has returned and until the GPU is done."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    called = time.perf_counter()
    torch.cuda.synchronize()
    return (called - start) / calls * 1e6, (time.perf_counter() - start) / calls * 1e6


def measure(found: list, calls: int, repeats: int):
    """The measurements, one dictionary each: what was called, with the medians over the repeats.

    A repeat goes once round all of them: what slows the host for a second falls on one repeat of several calls, not on
    all repeats of one.
    """
    taken = [[] for _ in found]
    gc.collect()
    gc.disable()
    for _ in range(repeats):
        for (_, call), times in zip(found, taken, strict=True):
            once(call, min(calls, 20))
            times.append(once(call, calls))
    gc.enable()
    for (row, _), times in zip(found, taken, strict=True):
        host, done = (round(statistics.median(side), 3) for side in zip(*times, strict=True))
        yield row | {"host_us": host, "until_done_us": done}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="write the measurements there as JSON")
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=9)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("record_host: torch sees no CUDA GPU")
    record = {
        "date": records.minute(),
        "device": torch.cuda.get_device_name(),
        "driver": machine.detect().driver,
        "python": platform.python_version(),
        "versions": {package: installed_version(package) for package in PACKAGES},
        "kernels_loaded_from_disk": kernel_cache.folder() is not None,
        "shape": [M, N],
        "calls": args.calls,
        "repeats": args.repeats,
        "measurements": list(measure(list(subjects()), args.calls, args.repeats)),
    }
    for row in record["measurements"]:
        what = f"{row['provider']} {row['operation']} {row['dtype']}{' with gradient' * row['gradient']}"
        print(f"{what:52} {row['host_us']:8.2f} us, {row['until_done_us']:8.2f} until done")
    if args.out:
        records.save(args.out, record)


if __name__ == "__main__":
    main()

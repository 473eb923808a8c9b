"""Host time of a call of each operation: ours, torch's eager, QuACK's if it is installed.

python scripts/record_host.py --out host_time.json

The input is small, 128 x 256, so that the GPU is done with a call before the next is made; what is measured is how long
Python is busy. A measurement is `--calls` calls between two synchronisations; the table shows the median of `--repeats`
of them, each a round of everything that is measured. "until done" is the same with the wait for the GPU at the end: where
it is much larger, the GPU did not keep up and the time is the GPU's. A call with gradient is the forward pass and
torch.autograd.grad.

With QUACK_TUTORIAL_CACHE set our kernels are loaded from disk, which makes a launch cheaper than that of a kernel compiled
in the process; the record says which it was.
"""

from __future__ import annotations

import argparse
import gc
import platform
import statistics
import sys
import time
from importlib import import_module
from pathlib import Path

import torch

from quack_tutorial import kernel_cache, machine, ops, records

F = torch.nn.functional
M, N, EPS = 128, 256, 1e-6
FIGURES = ("host_us", "host_us_least", "host_us_most", "until_done_us")
PACKAGES = ("torch", "nvidia-cutlass-dsl", "apache-tvm-ffi", "quack-kernels")


def providers() -> dict:
    """Provider -> operation -> function; with the arguments of `arguments`."""
    found = {
        "ours": {
            "softmax": ops.softmax,
            "rmsnorm": lambda x, w: ops.rmsnorm(x, w, eps=EPS),
            "cross_entropy mean": ops.cross_entropy,
            "cross_entropy none": lambda x, target: ops.cross_entropy(x, target, reduction="none"),
        },
        "torch eager": {
            "softmax": lambda x: torch.softmax(x, -1),
            "rmsnorm": lambda x, w: F.rms_norm(x, (N,), w, EPS),
            "cross_entropy mean": F.cross_entropy,
            "cross_entropy none": lambda x, target: F.cross_entropy(x, target, reduction="none"),
        },
    }
    try:
        softmax, rmsnorm, cross_entropy = (
            getattr(import_module(f"quack.{name}"), name) for name in ("softmax", "rmsnorm", "cross_entropy")
        )
    except ImportError as error:
        print(f"quack is left out: {error}", file=sys.stderr)
        return found
    found["quack"] = {
        "softmax": softmax,
        "rmsnorm": lambda x, w: rmsnorm(x, w, eps=EPS),
        "cross_entropy mean": lambda x, target: cross_entropy(x, target, reduction="mean"),
        "cross_entropy none": lambda x, target: cross_entropy(x, target, reduction="none"),
    }
    return found


def arguments(operation: str, dtype, device: str) -> tuple:
    x = torch.randn(M, N, device=device).to(dtype)
    if operation == "softmax":
        return (x,)
    if operation == "rmsnorm":
        return x, torch.randn(N, device=device).to(dtype)
    return x, torch.randint(0, N, (M,), device=device)


def with_gradient(function, args):
    """The forward pass and the gradients of all arguments that can have one, as a function of nothing."""
    args = [arg.detach().requires_grad_() if arg.is_floating_point() else arg for arg in args]
    leaves = [arg for arg in args if arg.requires_grad]
    gradient = torch.ones_like(function(*args))
    return lambda: torch.autograd.grad(function(*args), leaves, gradient)


def kernel_alone(dtype, device):
    """The compiled softmax kernel on an output that is there already: what a call costs at least."""
    x = torch.randn(M, N, device=device).to(dtype)
    out, name = torch.empty_like(x), str(dtype).removeprefix("torch.")
    kernel = import_module("quack_tutorial.ops.softmax")._kernel(device, name, N, "aligned")
    return lambda: kernel(x, out)


def nothing():
    pass


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def once(call, calls: int, device: str) -> tuple[float, float]:
    """Microseconds of a call, until the last has returned and until the GPU is done."""
    synchronize(device)
    start = time.perf_counter()
    for _ in range(calls):
        call()
    called = time.perf_counter()
    synchronize(device)
    return (called - start) / calls * 1e6, (time.perf_counter() - start) / calls * 1e6


def measure(found: list[tuple[dict, object]], calls: int, repeats: int, device: str):
    """The measurements, one dictionary each: what was called, with the medians over the repeats.

    A repeat goes once round all of them: what slows the host for a second falls on one repeat of several calls, not on
    all repeats of one.
    """
    taken = [[] for _ in found]
    gc.collect()
    gc.disable()
    try:
        for _ in range(repeats):
            for (_, call), times in zip(found, taken, strict=True):
                for _ in range(min(calls, 20)):
                    call()
                times.append(once(call, calls, device))
    finally:
        gc.enable()
    for (row, _), times in zip(found, taken, strict=True):
        host, done = zip(*times, strict=True)
        yield {
            **row,
            "host_us": round(statistics.median(host), 3),
            "host_us_least": round(min(host), 3),
            "host_us_most": round(max(host), 3),
            "until_done_us": round(statistics.median(done), 3),
        }


def subjects(known: dict, dtype, device: str):
    """(what it is, the call) of everything that is measured in a type; a call of another's that fails has its error."""
    name = str(dtype).removeprefix("torch.")
    x = torch.randn(M, N, device=device).to(dtype)
    scale = {
        "empty function": nothing,
        "torch.empty_like": lambda: torch.empty_like(x),
        "softmax kernel": kernel_alone(dtype, device),
    }
    for what, call in scale.items():
        yield {"operation": what, "provider": "", "dtype": name, "gradient": False}, call
    for provider, functions in known.items():
        for operation, function in functions.items():
            args = arguments(operation, dtype, device)
            for gradient in (False, True):
                row = {"operation": operation, "provider": provider, "dtype": name, "gradient": gradient}
                try:
                    call = with_gradient(function, args) if gradient else lambda f=function, args=args: f(*args)
                    for _ in range(3):
                        call()
                    yield row, call
                except Exception as error:  # another implementation's, which is then said to fail
                    if provider == "ours":
                        raise
                    yield row, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def provenance(args) -> dict:
    on_gpu = args.device == "cuda"
    return {
        "date": records.minute(),
        "device": torch.cuda.get_device_name() if on_gpu else "cpu (simulator)",
        "driver": machine.detect().driver if on_gpu else None,
        "processor": processor(),
        "python": platform.python_version(),
        "versions": {package: machine.installed_version(package) for package in PACKAGES},
        "kernels_loaded_from_disk": kernel_cache.folder() is not None,
        "gpus": torch.cuda.device_count(),
        "shape": [M, N],
        "calls": args.calls,
        "repeats": args.repeats,
    }


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor()
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="write the measurements there as JSON")
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument(
        "--dtype", choices=("float32", "float16", "bfloat16"), nargs="+", default=["float32", "bfloat16"]
    )
    parser.add_argument(
        "--device", choices=("cuda", "cpu"), default="cuda", help="cpu tries the script, on the simulator"
    )
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit("torch sees no CUDA GPU; --device cpu --calls 2 tries the script without one")
    record = provenance(args) | {"measurements": []}
    print(f"{record['device']}, {record['processor']}, {M} x {N}, us a call\n")
    print(
        f"{'operation':20s} {'provider':12s} {'dtype':9s} {'gradient':9s} {'host':>8s} {'least':>8s} {'most':>8s} {'done':>8s}"
    )
    known = providers()
    found = [one for dtype in args.dtype for one in subjects(known, getattr(torch, dtype), args.device)]
    failed = [{**row, "failed": error} for row, error in found if isinstance(error, str)]
    ran = [(row, call) for row, call in found if not isinstance(call, str)]
    for row in failed + list(measure(ran, args.calls, args.repeats, args.device)):
        record["measurements"].append(row)
        figures = row.get("failed") or " ".join(f"{row[key]:8.2f}" for key in FIGURES)
        kind = "with" if row["gradient"] else ""
        print(f"{row['operation']:20s} {row['provider']:12s} {row['dtype']:9s} {kind:9s} {figures}")
    if args.out:
        records.save(args.out, record)


if __name__ == "__main__":
    main()

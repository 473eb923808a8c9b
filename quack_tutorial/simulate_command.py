"""`quack-tutorial simulate softmax --m 8 --n 4096 --dtype bf16`: run a kernel of the package on the simulator and judge it.

It compares with float64, looks for races and wrong accesses, and counts traffic from the trace. Exit status: 0 when right and
clean, 1 when not, 2 when the words make no sense. The numbers of `--json` are the printed ones. It tells no times.
"""

from __future__ import annotations

import json
import sys

import numpy as np

from quack_tutorial import reference

DTYPES = {
    "fp32": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "float32": "float32",
    "bfloat16": "bfloat16",
    "float16": "float16",
}
VERSIONS = ("final", "online", "three-pass")
MAX_M = 4096  # rows; a trace of more would not fit in memory


def add_arguments(parser) -> None:
    """The command's words."""
    parser.add_argument("operation", choices=["softmax"], help="the operation")
    parser.add_argument("--m", type=_at_least_one, default=8, metavar="ROWS", help="rows (default 8)")
    parser.add_argument("--n", type=_at_least_one, default=4096, metavar="COLUMNS", help="columns (default 4096)")
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="fp32", help="of input and output (default fp32)")
    parser.add_argument(
        "--version", choices=VERSIONS, default="final", help="which version of the kernel (default final)"
    )
    parser.add_argument(
        "--schedule", choices=["forward", "reverse", "seeded"], default="forward", help="order of the warps"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the input and of --schedule seeded (default 0)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def _at_least_one(text: str) -> int:
    import argparse

    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number


def run(args) -> int:
    """Simulate, judge, print; returns the exit status."""
    if args.m > MAX_M:
        print(
            f"simulate: --m {args.m} is more than {MAX_M} rows, whose trace would not fit in memory; take fewer",
            file=sys.stderr,
        )
        return 2
    try:
        result = check_softmax(args.m, args.n, DTYPES[args.dtype], args.version, args.schedule, args.seed)
    except ValueError as error:
        print(f"simulate: {error}", file=sys.stderr)
        return 2
    print(json.dumps(result, indent=2) if args.json else as_text(result))
    return 0 if result["right"] and result["clean"] else 1


def check_softmax(M: int, N: int, dtype: str, version="final", schedule="forward", seed=0) -> dict:
    """Softmax of random (M, N) rows on the simulator: error against float64, findings, requests and bytes, as a dict."""
    from quack_tutorial import analysis
    from quack_tutorial.simulation import simulate
    from quack_tutorial.simulator import Array
    from quack_tutorial.simulator.names import CUTLASS

    values = np.random.default_rng(seed).standard_normal((M, N)) * 4
    if dtype == "bfloat16":
        x, out = Array.bf16(values), Array.bf16(np.full((M, N), np.nan))
        exact = x.numpy().astype(np.float64)
    else:
        x, out = values.astype(dtype), np.full((M, N), np.nan, dtype)
        exact = x.astype(np.float64)
    element = CUTLASS.BFloat16 if dtype == "bfloat16" else getattr(CUTLASS, dtype.capitalize())
    kernel = _kernel(version, element, N)
    outcome = simulate(kernel, x, out, schedule=schedule, seed=seed)
    got = (out.numpy() if isinstance(out, Array) else out).astype(np.float64)

    wanted = reference.softmax(exact)
    distance = reference.ulp_distance(got, wanted if dtype == "float32" else reference.round_to(wanted, dtype), dtype)
    tolerance = reference.softmax_tolerance(exact, dtype)
    worst = np.unravel_index(np.argmax(distance / tolerance), distance.shape)
    traffic = analysis.summary(outcome.trace)
    minimum = 2 * M * N * element.itemsize
    return {
        "operation": "softmax",
        "version": version,
        "m": M,
        "n": N,
        "dtype": dtype,
        "schedule": schedule,
        "seed": seed,
        "simulated": True,
        "right": bool((distance <= tolerance).all()),
        "clean": outcome.ok,
        "error_ulp": float(distance[worst]),
        "tolerance_ulp": float(tolerance[worst]),
        "findings": [str(finding) for finding in outcome.findings],
        "minimum_bytes": minimum,
        **traffic,
    }


def _kernel(version: str, element, N: int):
    from quack_tutorial.kernels import softmax as ladder
    from quack_tutorial.kernels.layout import VECTOR_BYTES
    from quack_tutorial.kernels.tuned.softmax import Softmax

    if version == "three-pass":
        return ladder.SoftmaxThreePass()
    if version == "online":
        return ladder.SoftmaxOnline()
    aligned = N * element.itemsize % VECTOR_BYTES == 0
    return Softmax(element, N, rows="aligned" if aligned else "congruent")


def as_text(result: dict) -> str:
    """The result for a reader."""
    verdict = "right" if result["right"] else "WRONG"
    lines = [
        f"softmax ({result['version']}) of {result['m']} x {result['n']} {result['dtype']}, simulated",
        f"  {verdict}: off by {result['error_ulp']:.2f} ulp where {result['tolerance_ulp']:.2f} are allowed (float64 reference)",
    ]
    lines.append("  clean: no race, wrong access or deadlock found" if result["clean"] else "  findings:")
    lines += [f"    {text}" for text in result["findings"]]
    moved = result["bytes_read"] + result["bytes_written"]
    lines += [
        f"  {moved:,} bytes through global memory, {moved / result['minimum_bytes']:.3f} of the minimum",
        f"  {result['global_requests']:,} global requests, {result['sectors_per_request']:.2f} sectors each; "
        f"{result['excess_wavefronts']:,} excess wavefronts of {result['shared_wavefronts']:,} in shared memory (a model)",
        f"  {result['warp_instructions']:,} warp instructions recorded, {result['shuffles']:,} of them shuffles, "
        f"{result['barriers']:,} barrier arrivals",
    ]
    return "\n".join(lines)

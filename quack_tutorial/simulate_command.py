"""`quack-tutorial simulate`: a kernel of the reader's own file, or one of the package, on the simulator.

| words                                              | what happens                                                         |
|----------------------------------------------------|----------------------------------------------------------------------|
| `FILE.py[:function] [ARGUMENT ...] [--html PAGE]`   | runs it (see `kernel_file`): findings, traffic, a page with pictures      |
| `softmax --m 8 --n 4096 --dtype bf16`               | runs the package's and compares with float64 as well                 |

The first line of a file's run is its verdict:

| verdict         | exit status | what it says                                                                |
|-----------------|-------------|-----------------------------------------------------------------------------|
| `clean`         | 0           | no finding, and with --against the results are the reference's              |
| `finding`       | 1           | a race, a deadlock, a wrong access, a mistake: said below it                 |
| `not simulated` | 3           | the kernel uses something that the simulator lacks, and says what           |
| `wrong`         | 4           | no finding, but other results than the reference's                          |
| `failed`        | 5           | the file ended with an error of its own                                     |
| `clean within bounds` | 6     | with --orders: no finding in the orders that were tried, and more are left  |

2 means that the command's words make no sense. Of softmax, 0 is right and clean, 1 is not. The numbers of `--json` are the printed
ones. It tells no times.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

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
MAX_M, MAX_ELEMENTS = 4096, 2**26  # a trace of more would not fit in memory
EXAMPLES = """\
a file of your own:
  quack-tutorial simulate kernel.py --html page.html
  quack-tutorial simulate kernel.py:softmax x=bf16:8x4096 out=bf16:8x4096:nan 4096
  quack-tutorial simulate 'kernel.py:Softmax(4096)' x=f32:8x4096 out=f32:8x4096:nan
  quack-tutorial simulate kernel.py:softmax x=f32:8x64 out=f32:8x64:nan --against reference.py:softmax
  quack-tutorial simulate kernel.py --orders all

The first runs the file as a script and checks every launch in it. A tensor is TYPE:SHAPE, and VALUES after another colon:
random (if left out), arange, nan or a number. The first line is the verdict: clean (exit status 0), finding (1), not simulated (3),
wrong (4: other results than --against gives), failed (5: an error of the file's own), clean within bounds (6: --orders has
stopped before every order was tried); 2 is for words that make no sense."""


def add_arguments(parser) -> None:
    """The command's words."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = "Run a kernel on the simulator: findings, traffic, pictures."
    parser.epilog = EXAMPLES
    parser.add_argument("target", help="FILE.py, FILE.py:function, or softmax for the package's own")
    parser.add_argument(
        "arguments",
        nargs="*",
        metavar="ARGUMENT",
        help="for a file: a number, or a tensor as x=f32:8x4096 or out=bf16:8:nan",
    )
    parser.add_argument("--html", metavar="PAGE", help="write findings, tables and pictures to an HTML page")
    parser.add_argument(
        "--against",
        default="",
        metavar="FILE:FUNCTION",
        help="compare the changed tensors with what this function gives for the others, in float64",
    )
    parser.add_argument(
        "--blocks", type=_at_least_one, metavar="K", help="simulate the first K blocks of each launch alone"
    )
    parser.add_argument(
        "--dynamic",
        action="store_true",
        help="extents of tensors are known only when the kernel runs, as of those that CuTe DSL is passed directly",
    )
    parser.add_argument("--m", type=_at_least_one, default=8, metavar="ROWS", help="rows (default 8)")
    parser.add_argument("--n", type=_at_least_one, default=4096, metavar="COLUMNS", help="columns (default 4096)")
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="fp32", help="of input and output (default fp32)")
    parser.add_argument(
        "--version", choices=VERSIONS, default="final", help="which version of the kernel (default final)"
    )
    parser.add_argument(
        "--schedule", choices=["forward", "reverse", "seeded"], default="forward", help="order of the warps"
    )
    parser.add_argument(
        "--orders",
        type=_bounds,
        metavar="all|N|Ns",
        help="try every order of the warps' visible steps (all: up to 1000 orders or 30 seconds a run), up to N, or for N "
        "seconds; an order that fails is shrunk and told",
    )
    parser.add_argument(
        "--seed", type=_not_negative, default=0, help="of the input and of --schedule seeded (default 0)"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def _at_least_one(text: str, least: int = 1) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
    return number


def _not_negative(text: str) -> int:
    return _at_least_one(text, 0)


def _bounds(text: str):
    """What simulate's `orders` takes, of `all`, `500` or `60s`."""
    from quack_tutorial.orders import Bounds

    if text == "all":
        return Bounds()
    number = _at_least_one(text.removesuffix("s"))
    return Bounds(orders=10**9, seconds=number) if text.endswith("s") else Bounds(orders=number, seconds=float("inf"))


def run(args) -> int:
    """Simulate, judge, print; returns the exit status."""
    if args.target == "softmax":
        return _run_softmax(args)
    from quack_tutorial.kernel_file import Unusable, run_file

    if ".py" not in args.target:
        print(f"simulate: {args.target!r} is neither a file (FILE.py, FILE.py:function) nor softmax", file=sys.stderr)
        return 2
    options = {"schedule": args.schedule, "blocks": args.blocks, "values": args.html is not None}
    options |= {"dynamic": True} if args.dynamic else {}
    options |= {"orders": args.orders} if args.orders else {}
    try:
        outcome = run_file(args.target, args.arguments, args.seed, args.against, **options)
    except Unusable as error:
        print(f"simulate: {error}", file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps(_as_dict(outcome), indent=2))
    else:
        for sentence in (str(outcome), *outcome.notes, *map(_with_traffic, outcome.runs), *outcome.tensors):
            print(sentence)
    if args.html:
        from quack_tutorial.figures import report

        page = report(
            outcome.runs, Path(args.target.partition(":")[0]).name, outcome.ended, (*outcome.tensors, *outcome.wrong)
        )
        Path(args.html).write_text(page, encoding="utf-8")
    if outcome.ended:
        print(f"simulate: {outcome.ended}", file=sys.stderr)
    return outcome.status


def _with_traffic(run) -> str:
    from quack_tutorial import analysis

    printed = "".join(run.printed)
    if run.recorded is None or not len(run.trace):
        return f"{printed}{run}"
    return f"{printed}{run}\n{_traffic(analysis.summary(run.trace))}"


def _as_dict(outcome) -> dict:
    from quack_tutorial import analysis

    runs = [
        {
            "simulated": True,
            "clean": run.ok,
            "findings": [str(finding) for finding in run.findings],
            "observations": list(run.observations),
            **({"orders": run.as_dict()} if hasattr(run, "as_dict") else {}),
            **(analysis.summary(run.trace) if run.recorded is not None else {}),
        }
        for run in outcome.runs
    ]
    return {
        "verdict": outcome.verdict,
        "exit_status": outcome.status,
        "said": str(outcome),
        "runs": runs,
        "tensors": list(outcome.tensors),
        "wrong": list(outcome.wrong),
        "notes": list(outcome.notes),
        "ended": outcome.ended,
    }


def _run_softmax(args) -> int:
    if args.arguments or args.html or args.blocks or args.dynamic or args.against or args.orders:
        print(
            "simulate: ARGUMENT, --html, --blocks, --dynamic, --against and --orders are for a file; softmax takes --m and --n",
            file=sys.stderr,
        )
        return 2
    if args.m > MAX_M or args.m * args.n > MAX_ELEMENTS:
        print(
            f"simulate: --m {args.m} --n {args.n} is more than {MAX_M} rows or {MAX_ELEMENTS:,} elements, whose trace would not "
            "fit in memory; take fewer",
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
    return Softmax(element, N, promise="aligned" if aligned else "congruent")


def as_text(result: dict) -> str:
    """The result for a reader."""
    verdict = "right" if result["right"] else "WRONG"
    lines = [
        f"softmax ({result['version']}) of {result['m']} x {result['n']} {result['dtype']}, simulated",
        f"  {verdict}: off by {result['error_ulp']:.2f} ulp where {result['tolerance_ulp']:.2f} are allowed (float64 reference)",
    ]
    lines.append("  clean: no race, wrong access or deadlock found" if result["clean"] else "  findings:")
    lines += [f"    {text}" for text in result["findings"]]
    return "\n".join([*lines, _traffic(result)])


def _traffic(result: dict) -> str:
    from quack_tutorial.figures.wording import counted

    moved, wavefronts = result["bytes_read"] + result["bytes_written"], result["shared_wavefronts"]
    share = f", {moved / result['minimum_bytes']:.3f} of the minimum" if "minimum_bytes" in result else ""
    return (
        f"  {moved:,} bytes through global memory{share}\n"
        f"  {counted(result['global_requests'], 'global request')}, {result['sectors_per_request']:.2f} sectors each; "
        f"{counted(result['excess_wavefronts'], 'excess wavefront')} of {wavefronts:,} in shared memory (a model)\n"
        f"  {counted(result['warp_instructions'], 'warp instruction')} recorded, {counted(result['shuffles'], 'shuffle')} "
        f"among them, {counted(result['barriers'], 'barrier arrival')}"
    )

"""`quack-tutorial simulate`: `cutesim check` by another name, with a page of pictures, and the book's own softmax beside it.

| words                                              | what happens                                                         |
|----------------------------------------------------|----------------------------------------------------------------------|
| `FILE.py[:function] [ARGUMENT ...] [--html PAGE]`   | what `cutesim check` does (`cutesim.command`), and a page with pictures   |
| `softmax --m 8 --n 4096 --dtype bf16`               | runs the package's and compares with float64 as well                 |

Of softmax, exit status 0 is right and clean, 1 is not. The numbers of `--json` are the printed ones. It tells no times.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from cutesim import analysis, command
from cutesim.dialect.names import CUTLASS
from cutesim.memory.arguments import Array
from cutesim.simulation import simulate
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


def add_arguments(parser) -> None:
    """The command's words."""
    command.add_arguments(parser, also=", or softmax for the package's own")
    parser.epilog = command.EXAMPLES.replace("cutesim check", "quack-tutorial simulate")
    parser.add_argument("--html", metavar="PAGE", help="write findings, tables and pictures to an HTML page")
    parser.add_argument("--m", type=command.at_least_one, default=8, metavar="ROWS", help="rows of softmax (default 8)")
    parser.add_argument(
        "--n", type=command.at_least_one, default=4096, metavar="COLUMNS", help="columns of softmax (default 4096)"
    )
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="fp32", help="of input and output (default fp32)")
    parser.add_argument(
        "--version", choices=VERSIONS, default="final", help="which version of the kernel (default final)"
    )


def run(args) -> int:
    """Simulate, judge, print; returns the exit status."""
    if args.target == "softmax":
        return _run_softmax(args)
    if ".py" not in args.target:
        print(f"simulate: {args.target!r} is neither a file (FILE.py, FILE.py:function) nor softmax", file=sys.stderr)
        return 2
    return command.run(args, name="simulate", show=_write_page if args.html else None, values=args.html is not None)


def _write_page(args, outcome) -> None:
    from quack_tutorial.figures import report

    title = Path(args.target.partition(":")[0]).name
    page = report(outcome.runs, title, outcome.ended, (*outcome.tensors, *outcome.wrong))
    Path(args.html).write_text(page, encoding="utf-8")


def _run_softmax(args) -> int:
    if args.arguments or args.html or args.blocks or args.dynamic or args.against or args.orders or args.sarif:
        print(
            "simulate: ARGUMENT, --html, --blocks, --dynamic, --against, --orders and --sarif are for a file; "
            "softmax takes --m and --n",
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
    return "\n".join([*lines, command.traffic(result)])

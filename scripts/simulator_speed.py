"""Print how long the simulator takes, beside what it should take on one slow core. Not a test.

python scripts/simulator_speed.py
"""

import resource
import sys
import time

import numpy as np

from cutesim import Array
from cutesim.analysis import races
from cutesim.dialect.names import CUTLASS
from cutesim.simulation import simulate
from quack_tutorial.kernels.copy import CopyVectors
from quack_tutorial.kernels.tuned.softmax import Softmax

CLUSTER_N = 131_072  # float32: a cluster of 8 blocks holds the row
PEAK_MB = 500
# rows, columns, dtype, and the target: milliseconds in all, or nanoseconds an element
FAST = (
    (512, 4096, "bf16", "100 ms"),
    (512, 4096, "fp32", "30 ns"),
    (64, 16384, "bf16", "30 ns"),
    (4096, 256, "fp32", "30 ns"),
    (8, CLUSTER_N, "fp32", "50 ms"),
)


def best_of(function, repeats=5) -> float:
    """Seconds of the fastest of `repeats` calls, after one to warm up."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def arguments(M, N, dtype):
    x = np.random.default_rng(0).standard_normal((M, N)).astype(np.float32)
    if dtype == "bf16":
        return Softmax(CUTLASS.BFloat16, N), Array.bf16(x), Array.bf16(np.zeros_like(x))
    return Softmax(CUTLASS.Float32, N), x, np.zeros_like(x)


def row(name: str, measured: float, unit: str, target: float | None) -> None:
    verdict = "" if target is None else f"target {target:g}" + ("  <- over" if measured > target else "")
    print(f"{name:52}{measured:9.2f} {unit:12} {verdict}".rstrip())


def fast() -> None:
    x = np.zeros((1, 256), np.float32)
    floor = best_of(lambda: simulate(CopyVectors(CUTLASS.Float32, 256), x, x.copy(), check=False), 50)
    row("floor of a launch, copy 1 x 256 fp32", floor * 1e3, "ms", 1)
    for M, N, dtype, target in FAST:
        kernel, x, out = arguments(M, N, dtype)
        seconds = best_of(lambda k=kernel, x=x, out=out: simulate(k, x, out, check=False))
        limit, unit = target.split()
        blocks = kernel.config.blocks_per_row
        name = f"fast, softmax {M} x {N} {dtype}" + (f", clusters of {blocks}" if blocks > 1 else "")
        row(name, seconds * 1e3 if unit == "ms" else seconds / M / N * 1e9, unit, float(limit))


def checked() -> None:
    """Warp by warp, with the log and the search for races in it."""
    for M, N, limit_ms, search_ms in ((8, 4096, 2, 20), (1, CLUSTER_N, None, None)):
        kernel, x, out = arguments(M, N, "fp32")
        seconds = best_of(lambda k=kernel, x=x, out=out: simulate(k, x, out), 2)
        run = simulate(kernel, x, out)
        if not run.ok:
            sys.exit(str(run))
        launch = run.trace.launches[-1]
        warps = launch.blocks * launch.threads // 32
        row(f"checked, softmax {M} x {N} fp32, {warps} warps", seconds / warps * 1e3, "ms a warp", limit_ms)
        search = best_of(lambda trace=run.trace: races(trace), 2)
        row(f"  search for races, {len(run.trace):,} instructions", search * 1e3, "ms", search_ms)


def main():
    fast()
    checked()
    row("peak memory of this process", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MB", PEAK_MB)


if __name__ == "__main__":
    main()

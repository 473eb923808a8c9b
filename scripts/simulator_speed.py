"""Print how long the simulator takes: the launch floor, fast and checked softmax, and the race check. Not a test.

python scripts/simulator_speed.py
"""

import resource
import time

import numpy as np

from quack_tutorial.kernels.softmax import Softmax
from quack_tutorial.simulator import Array, simulate
from quack_tutorial.simulator.names import CUTLASS

FAST = ((1, 256, "bf16"), (512, 4096, "bf16"), (512, 4096, "fp32"), (64, 16384, "bf16"), (4096, 256, "fp32"))


def best_of(function, repeats=3) -> float:
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


def main():
    print(f"{'softmax':24}{'time':>12}{'a row block':>14}{'an element':>14}")
    for M, N, dtype in FAST:
        kernel, x, out = arguments(M, N, dtype)
        seconds = best_of(lambda k=kernel, x=x, out=out: simulate(k, x, out, check=False))
        blocks = -(-M * kernel.config.threads_per_row // kernel.config.threads_per_block)
        name = f"fast, {M} x {N} {dtype}"
        print(f"{name:24}{seconds * 1e3:9.1f} ms{seconds / blocks * 1e3:11.3f} ms{seconds / M / N * 1e9:11.1f} ns")
    kernel, x, out = arguments(8, 4096, "fp32")
    seconds = best_of(lambda: simulate(kernel, x, out))
    warps = 8 * kernel.config.threads_per_block // 32
    print(
        f"checked, 8 x 4096 fp32: {seconds * 1e3:.0f} ms for {warps} warps, {seconds / warps * 1e3:.2f} ms a warp, "
        "traced and searched for races"
    )
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()

"""The picture that a chapter opens with: `openings.block_reduce()`, drawn from a run or a record when it is called.

| function          | from                                             | function          | from                                  |
|-------------------|--------------------------------------------------|-------------------|---------------------------------------|
| `first_kernel`    | `kernels.copy`, one warp                         | `softmax`         | `kernels.softmax`, one row            |
| `layouts`         | `kernels.copy`, who loads which element          | `cross_entropy`   | `kernels.cross_entropy`, every target |
| `warp_reduce`     | `kernels.softmax`, 8 lanes a row                 | `five_timers`     | the record of timers                  |
| `block_reduce`    | `kernels.softmax`, the warps of a block          | `memory_chart`    | the record of counters                |
| `cluster_reduce`  | `kernels.reduce`, two blocks                     | `line_up`         | the records of speeds                 |
| `choices`         | the record of a sweep                            | `training_curves` | the record of a training              |
| `sum_tree`        | `kernels.softmax`, the sum of one row            | `pipeline`        | `kernels.levels`, five warps          |
| `block_maximum`   | `kernels.rmsnorm_quantized`, a scale's maximum   |                   |                                       |

Each takes less than a second. Importing the module loads no kernel.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from quack_tutorial import figures
from quack_tutorial.figures import bars, charts, profile, training
from quack_tutorial.records import bench, cells, pitfalls
from quack_tutorial.records import profile as counters
from quack_tutorial.records import training as trainings


def _simulate(kernel, *tensors):
    from cutesim.simulation import simulate

    return simulate(kernel, *tensors, values=True).trace


def _row(n, seed):
    """Normal numbers, the same in every run."""
    return np.random.default_rng(seed).normal(size=(1, n)).astype(np.float32)


def _simulated(kernel, *names) -> str:
    return f"Simulated: {kernel}{''.join(f', {name}' for name in names)}."


def first_kernel():
    """A warp copies 75 numbers: three loads, and in the last one some lanes have nothing left to take."""
    from quack_tutorial.kernels.copy import CopyCoalesced, cutlass

    x = np.arange(75, dtype=np.float32).reshape(1, 75)
    trace = _simulate(CopyCoalesced(cutlass.Float32, 75, 32), x, np.zeros_like(x))
    return replace(
        figures.lanes(trace, code=False), title="32 threads copy 75 numbers, an instruction at a time", start=1
    )


def layouts():
    """Which of 32 threads holds which element of a 4 x 32 tile, and as which of its values, read from the addresses."""
    from cutesim.trace import Op
    from quack_tutorial.kernels.softmax import SoftmaxRows, cutlass

    x = np.zeros((4, 32), np.float32)
    trace = _simulate(SoftmaxRows(cutlass.Float32, 32), x, np.zeros_like(x))
    loads = trace.events[trace.events["op"] == Op.LOAD]
    addresses = np.concatenate([trace.addresses[int(e["addresses"])] for e in loads if int(e["warp"]) == 0])
    first = (addresses - addresses.min()) // 4
    thread_of, value_of = np.full((2, x.size), -1, np.int32)
    for value in range(4):
        thread_of[first + value], value_of[first + value] = np.arange(len(first)), value
    origin = _simulated("SoftmaxRows (kernels/softmax.py)", "the addresses that the lanes of its first warp read")
    return figures.tv_layout(
        thread_of.reshape(x.shape), value_of.reshape(x.shape), "Who holds what: 32 threads, 4 numbers each", origin
    )


def warp_reduce():
    """8 lanes find the largest of their numbers in three shuffles, four groups at once."""
    from quack_tutorial.kernels.softmax import SoftmaxRows, cutlass

    x = np.random.default_rng(4).integers(10, 100, (4, 32)).astype(np.float32)
    player = figures.butterfly(_simulate(SoftmaxRows(cutlass.Float32, 32), x, np.zeros_like(x)))
    return replace(player, title="8 lanes find their maximum in three shuffles")


def block_reduce():
    """The warps of a block meet twice: for the row's maximum and for its sum."""
    from quack_tutorial.kernels.softmax import SoftmaxThreePass

    x = _row(330, 5)  # no multiple of 128: some warps have more to do
    trace = _simulate(SoftmaxThreePass(128), x, np.zeros_like(x))
    return figures.timeline(trace, title="One row, all warps of a block: who waits for whom")


def cluster_reduce():
    """Two blocks send each other their sums, and each waits for what is sent to it."""
    from quack_tutorial.kernels.reduce import ClusterReduce

    x = np.arange(64, dtype=np.float32).reshape(1, 64)
    trace = _simulate(ClusterReduce(blocks=2, threads_per_block=32), x, np.zeros((1, 2), np.float32))
    return replace(figures.cluster_exchange(trace), title="Two blocks exchange their sums")


def choices():
    """What RMSNorm reaches with each choice of threads."""
    return figures.heat_map("rmsnorm", "bfloat16", 8192)


def softmax():
    """One row of 32 numbers, read once."""
    from quack_tutorial.kernels.softmax import SoftmaxOnline

    x = _row(32, 8) + np.linspace(-1.2, 1.2, 32, dtype=np.float32)
    y = np.zeros_like(x)
    _simulate(SoftmaxOnline(), x, y)
    origin = "Simulated: SoftmaxOnline (kernels/softmax.py) read the row and wrote the result; m and s are computed from the row."
    return bars.online_softmax(x[0], y[0], origin)


def cross_entropy():
    """One row of 32 logits, with each word as the right one."""
    from quack_tutorial.kernels.cross_entropy import CrossEntropyBackwardElements, CrossEntropyOnline

    n = 32
    x = np.repeat(2 * _row(n, 9), n, axis=0)
    targets, losses, dx = np.arange(n, dtype=np.int64), np.zeros(n, np.float32), np.zeros_like(x)
    _simulate(CrossEntropyOnline(), x, targets, losses)
    lse = losses + x[0]  # a row's loss is its lse less the target's logit
    _simulate(CrossEntropyBackwardElements(), x, targets, np.ones(n, np.float32), lse, dx)
    origin = _simulated(
        "CrossEntropyOnline and CrossEntropyBackwardElements (kernels/cross_entropy.py)", "a row for each right word"
    )
    return bars.loss_gradient(x[0], losses, dx, origin)


def five_timers():
    """One softmax, timed in five ways."""
    recorded = pitfalls.load()
    points = [point for point in recorded.series("timer") if point.facts["size"] == "large"]
    peak, worst = recorded.datasheet_gb_s, max(points, key=lambda point: point.gb_s)
    caption = (
        f"The {worst.name}, says {worst.gb_s:,.0f} GB/s, {worst.gb_s / peak:.0f} times what the memory can carry: "
        "it has timed Python, which only put the kernel in a queue."
    )
    names, values = [point.name for point in points], [point.gb_s for point in points]
    return bars.rates(
        "One kernel, five timers", names, values, (peak, "the datasheet's peak"), caption, recorded.origin
    )


def memory_chart():
    """What crossed each level in two RMSNorms of one size."""
    counted = counters.load()
    return profile.memory(counted, *(counted("rmsnorm", name, 16384) for name in ("compile tuned", "ours")))


def line_up(operation="softmax", dtype="float32", M=8192):
    """The throughput chart of an operation, the rows whose length is a power of 2: M of them, or, where fewer than three lengths
    have so many, as many as go with each length; ValueError where that is no chart either."""
    rows = charts.flat(bench.load_records(operation=operation))
    rows = [row for row in rows if row["N"].bit_count() == 1 and row["dtype"] == dtype]
    for chosen in (lambda row: row["M"] == M, lambda row: row["M"] == cells.default_rows(row["N"])):
        if len({row["N"] for row in filter(chosen, rows)}) >= 3:
            return figures.throughput(list(filter(chosen, rows)), operation, dtype)
    raise ValueError(f"of {operation}, {dtype}, fewer than three lengths are recorded")


def training_curves():
    """The loss of one model, trained with other people's norms and losses and with ours."""
    return training.losses(trainings.load())


def pipeline():
    """A producer warp brings tiles, four consumers take them."""
    from quack_tutorial.kernels.levels import LoadComputeStore, cutlass

    x = np.random.default_rng(14).normal(size=(16, 128)).astype(np.float32)
    trace = _simulate(LoadComputeStore(cutlass.Float32, 128, blocks=1, stages=2), x, np.zeros_like(x))
    return figures.timeline(trace, title="Warp 4 brings tiles, warps 0 to 3 use them")


def sum_tree():
    """In what order a warp adds the 32 terms of a softmax."""
    from cutesim.sums import trees
    from quack_tutorial.kernels.softmax import SoftmaxWarp

    x = np.random.default_rng(14).normal(size=(3, 32)).astype(np.float32)
    tree = trees(SoftmaxWarp(), x, np.zeros_like(x), check=False)["mO"][0, 0]
    return figures.sum_tree(tree, x[0], title="In what order a warp adds 32 terms")


def block_maximum():
    """32 lanes find the largest of 128 normalised numbers, of which each has four."""
    from quack_tutorial.kernels.rmsnorm_quantized import RMSNormQuantizedLanes, cutlass

    x = np.random.default_rng(15).integers(10, 100, (1, 128)).astype(np.float32)
    # So that the norm leaves the numbers as they are.
    w = np.full(128, np.sqrt((x * x).mean()), np.float32)
    trace = _simulate(RMSNormQuantizedLanes(cutlass.Float32, 128), x, w, x.astype(np.uint8), x[:, :1].copy(), 0.0, None)
    player = figures.butterfly(trace, which=-1)
    return replace(player, title="32 lanes find the maximum of 128 numbers in five shuffles")

"""One-warp kernels whose every memory request is known: which lane touches which element, how wide, and where it starts.

| class           | loads                                       | stores                                           |
|-----------------|---------------------------------------------|--------------------------------------------------|
| `GlobalPattern` | one request to global memory, by the pattern | one request to global memory, the same way      |
| `SharedPattern` | one request to shared memory, by `read`      | one request to shared memory, by the pattern    |
| `AsyncPattern`  | one request to shared memory, by the pattern | one cp.async to shared memory, by the pattern   |

Lane l touches the element `start + stride * order(l)`, an element being `width` bytes. Around their shared requests,
`SharedPattern` and `AsyncPattern` read and write global memory lane by lane in order. The patterns' numbers are given at run
time, so that there is one kernel to compile for each width. An H200 has run them, and Nsight Compute has counted what a test
compares with `counted`.
"""

from __future__ import annotations

from dataclasses import dataclass

import cutlass
import cutlass.cute as cute
import numpy as np

from cutesim.analysis import REQUEST, requests
from cutesim.simulation import simulate
from cutesim.trace import Op, Space

IN_ORDER, REVERSED, SHUFFLED = (1, 0, 1, 1), (31, 31, 1, 1), (13, 5, 1, 1)
PAIRS, ALL_THE_SAME = (1, 0, 2, 1), (0, 0, 1, 1)
TOGETHER = {distance: (1, 0, 2, distance) for distance in (2, 4, 8, 16)}  # lane l and lane l xor distance
EIGHTHS = (1, 0, 4, 8)  # lanes 0 to 7, four times
STRIDES = (1, 2, 3, 4, 5, 8, 16, 32, 33)
MOST_ELEMENTS = 7 + 33 * 31 + 1  # of all patterns
# bytes of an element: the DSL's type, how many of it, numpy's type
ELEMENTS = {
    1: (cutlass.Int8, 1, np.int8),
    2: (cutlass.Int16, 1, np.int16),
    4: (cutlass.Float32, 1, np.float32),
    8: (cutlass.Float32, 2, np.float32),
    16: (cutlass.Float32, 4, np.float32),
}


@dataclass(frozen=True)
class Pattern:
    """`order` and `read` are (a, b, c, d): lane l takes the place of m = (a l + b) mod 32 in runs of d elements, each of which
    is there for c runs of lanes: m div (c d) d + m mod d. Lanes take part that are below `below` and multiples of `every`."""

    width: int
    stride: int = 1
    start: int = 0
    order: tuple = IN_ORDER
    read: tuple = REVERSED
    below: int = 32
    every: int = 1

    def numbers(self) -> tuple:
        """What the kernels take after their tensors."""
        return (self.start, self.stride, *self.order, *self.read, self.below, self.every)

    def __str__(self) -> str:
        names = {REVERSED: ", reversed", SHUFFLED: ", shuffled", PAIRS: ", in pairs"}
        reads = {PAIRS: ", read in pairs", ALL_THE_SAME: ", all read one", IN_ORDER: ", read in order"}
        reads |= {order: f", read with lane xor {distance}" for distance, order in TOGETHER.items()}
        reads |= {EIGHTHS: ", read by eighths"}
        text = f"{self.width} byte{'s' * (self.width > 1)} a lane, stride {self.stride}"
        text += f", from {self.start}" * bool(self.start) + names.get(self.order, "") + reads.get(self.read, "")
        text += f", lanes below {self.below}" * (self.below < 32)
        return text + f", every {self.every}{'nd' if self.every == 2 else 'th'} lane" * (self.every > 1)


def taken(lane, order):
    """The place in the order (a, b, c, d) of this lane."""
    a, b, c, d = order
    m = (lane * a + b) % 32
    return m // (c * d) * d + m % d


class OneWarp:
    """Launches `kernel(x, out, (start, stride, order, read, below, every))` on one warp; see `Pattern`."""

    def __init__(self, width):
        self.bits = width * 8
        self.dtype, self.count, _ = ELEMENTS[width]

    @cute.jit
    def __call__(
        self,
        x: cute.Tensor,
        out: cute.Tensor,
        start: cutlass.Int32,
        stride: cutlass.Int32,
        a: cutlass.Int32,
        b: cutlass.Int32,
        c: cutlass.Int32,
        d: cutlass.Int32,
        ra: cutlass.Int32,
        rb: cutlass.Int32,
        rc: cutlass.Int32,
        rd: cutlass.Int32,
        below: cutlass.Int32,
        every: cutlass.Int32,
    ):
        numbers = (start, stride, (a, b, c, d), (ra, rb, rc, rd), below, every)
        self.kernel(x, out, numbers).launch(grid=[1, 1, 1], block=[32, 1, 1])


class GlobalPattern(OneWarp):
    """Each lane loads its element of x and stores it to the same place of out."""

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor, numbers: tuple):
        lane, _, _ = cute.arch.thread_idx()
        start, stride, order, read, below, every = numbers
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=self.bits)
        at = cute.assume((start + stride * taken(lane, order)) * self.count, divby=self.count)
        registers = cute.make_rmem_tensor(self.count, self.dtype)
        element = cute.make_layout(self.count)
        if (lane < below) & (lane % every == 0):
            cute.copy(atom, cute.make_tensor(x.iterator + at, element), registers)
            cute.copy(atom, registers, cute.make_tensor(out.iterator + at, element))


class SharedPattern(OneWarp):
    """Each lane stores its element of x to its place in shared memory, and loads the place that it reads."""

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor, numbers: tuple):
        lane, _, _ = cute.arch.thread_idx()
        start, stride, order, read, below, every = numbers
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=self.bits)
        size = cute.make_layout(MOST_ELEMENTS * self.count)
        s = cutlass.memory.SmemAllocator().allocate_tensor(self.dtype, size, 128)
        mine = cute.assume(lane * self.count, divby=self.count)
        to = cute.assume((start + stride * taken(lane, order)) * self.count, divby=self.count)
        back = cute.assume((start + stride * taken(taken(lane, read), order)) * self.count, divby=self.count)
        registers = cute.make_rmem_tensor(self.count, self.dtype)
        element = cute.make_layout(self.count)
        takes_part = (lane < below) & (lane % every == 0)
        if takes_part:
            cute.copy(atom, cute.make_tensor(x.iterator + mine, element), registers)
            cute.copy(atom, registers, cute.make_tensor(s.iterator + to, element))
        cute.arch.barrier()
        if takes_part:
            cute.copy(atom, cute.make_tensor(s.iterator + back, element), registers)
            cute.copy(atom, registers, cute.make_tensor(out.iterator + mine, element))


class AsyncPattern(OneWarp):
    """Each lane copies its element of x to its place in shared memory with cp.async, and loads it from there.

    With `fills`, cp.async has a predicate, and lanes that take no part write zeros.
    """

    def __init__(self, width, fills):
        super().__init__(width)
        self.fills = fills

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor, numbers: tuple):
        lane, _, _ = cute.arch.thread_idx()
        start, stride, order, read, below, every = numbers
        copy_async = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), self.dtype, num_bits_per_copy=self.bits)
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=self.bits)
        size = cute.make_layout(MOST_ELEMENTS * self.count)
        s = cutlass.memory.SmemAllocator().allocate_tensor(self.dtype, size, 128)
        element = cute.make_layout(((self.count, 1), 1, 1))
        mine = cute.assume(lane * self.count, divby=self.count)
        to = cute.assume((start + stride * taken(lane, order)) * self.count, divby=self.count)
        source, place = cute.make_tensor(x.iterator + mine, element), cute.make_tensor(s.iterator + to, element)
        if cutlass.const_expr(self.fills):
            pred = cute.make_rmem_tensor((1, 1), cutlass.Boolean)
            pred[0, 0] = (lane < below) & (lane % every == 0)
            cute.copy(copy_async, source, place, pred=pred)
        else:
            cute.copy(copy_async, source, place)
        cute.arch.cp_async_commit_group()
        cute.arch.cp_async_wait_group(0)
        registers = cute.make_rmem_tensor(((self.count, 1), 1, 1), self.dtype)
        cute.copy(atom, place, registers)
        cute.copy(atom, registers, cute.make_tensor(out.iterator + mine, element))


# What is counted, by space: which operations under which name, and what of them.
COUNTED = {
    ("global", Space.GMEM): {
        "loads and cp.async": ((Op.LOAD, Op.ASYNC_COPY), ("requests", "sectors")),
        "stores": ((Op.STORE,), ("requests", "sectors")),
        "cp.async": ((Op.ASYNC_COPY,), ("requests", "sectors")),
    },
    ("shared", Space.SMEM): {
        "loads": ((Op.LOAD,), ("requests", "wavefronts")),
        "stores": ((Op.STORE,), ("requests", "wavefronts")),
        "cp.async": ((Op.ASYNC_COPY,), ("wavefronts",)),
    },
}


def counted(trace) -> dict:
    """{what: number} of a trace, for what is not 0: requests, and the sectors or wavefronts that they take."""
    found = {}
    for (name, space), kinds in COUNTED.items():
        table = requests(trace, space)
        for kind, (ops, quantities) in kinds.items():
            mine = table[np.isin(trace.events["op"][table["event"]], ops) & (table["lanes"] > 0)]
            for what in quantities:
                found[f"{name} {kind}: {what}"] = int(mine[what].sum()) if what in REQUEST.names else len(mine)
    return {what: number for what, number in found.items() if number}


def global_patterns():
    """The patterns for global memory: every width at every stride; from 4 bytes on, what else decides the sectors."""
    for width in ELEMENTS:
        yield from (Pattern(width, stride) for stride in STRIDES)
        if width < 4:
            continue
        yield from (Pattern(width, start=start) for start in (1, 3, 7))
        yield from (Pattern(width, stride, order=order) for stride in (1, 2) for order in (REVERSED, SHUFFLED))
        yield from (Pattern(width, below=17), Pattern(width, every=4), Pattern(width, 2, below=5))


def shared_patterns():
    """The patterns for shared memory: every width at every stride; from 4 bytes on, broadcasts and idle lanes."""
    for width in ELEMENTS:
        yield from (Pattern(width, stride) for stride in STRIDES)
        if width < 4:
            continue
        yield from (Pattern(width, stride, order=SHUFFLED) for stride in (1, 2, 32))
        yield from (Pattern(width, stride, read=read) for stride in (1, 32) for read in (PAIRS, ALL_THE_SAME))
        yield from (Pattern(width, stride, read=IN_ORDER, below=17) for stride in (1, 32))
        yield from (Pattern(width, stride, read=IN_ORDER, every=4) for stride in (1, 2))
        # Who has to read the same address for a wide load to take more lanes at once; whether an idle lane counts.
        yield from (Pattern(width, read=read) for read in (*TOGETHER.values(), EIGHTHS))
        yield Pattern(width, order=PAIRS, read=IN_ORDER, every=2)


def async_patterns():
    """The patterns for cp.async, of 4 bytes on: every stride; lanes that fill with zeros."""
    for width in (4, 8, 16):
        yield from (Pattern(width, stride, read=IN_ORDER) for stride in STRIDES)
        yield Pattern(width, 2, order=SHUFFLED, read=IN_ORDER)
        yield from (Pattern(width, stride, read=IN_ORDER, below=17) for stride in (1, 2))


PATTERNS = {
    "global": (global_patterns, GlobalPattern),
    "shared": (shared_patterns, SharedPattern),
    "cp.async": (async_patterns, AsyncPattern),
}


def runs():
    """Every pattern simulated: its name, the pattern, the run, what it read and what it wrote over 77."""
    for kind, (patterns, made) in PATTERNS.items():
        for pattern in patterns():
            _, count, dtype = ELEMENTS[pattern.width]
            size = (MOST_ELEMENTS if kind == "global" else 32) * count
            x, out = np.random.default_rng(3).integers(-100, 100, size).astype(dtype), np.full(size, 77, dtype)
            host = made(pattern.width, pattern.below < 32) if kind == "cp.async" else made(pattern.width)
            yield f"{kind}, {pattern}", pattern, simulate(host, x, out, *pattern.numbers()), x, out

"""Traces built by hand, event by event: a butterfly, a block reduction, strided requests; and a cluster's, simulated."""

import numpy as np

from cutesim.trace import SMEM_BLOCK_BITS, Launch, Op, ShuffleKind, Space, TensorInfo, TraceRecorder

LANES = np.arange(32)
ALL = 0xFFFFFFFF
BASE = 1 << 28


class Hand:
    """A recorder with the few events that these tests need."""

    def __init__(self, warps=1, values=True):
        self.recorder = TraceRecorder(record_values=values)
        self.recorder.launches.append(Launch("reduce_rows", (1, 1, 1), (32 * warps, 1, 1), (1, 1, 1), 64))

    def line(self, number, text):
        return self.recorder.line("/somewhere/reduce.py", number, text, "kernel")

    def gmem(self, name, shape, itemsize=4):
        stride = tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
        size = int(np.prod(shape)) * itemsize
        return self.recorder.tensor(
            TensorInfo(name, int(Space.GMEM), "Float32", itemsize, tuple(shape), stride, BASE, size)
        )

    def smem(self, name, shape, start=0):
        stride = tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
        size = int(np.prod(shape)) * 4
        return self.recorder.tensor(TensorInfo(name, int(Space.SMEM), "Float32", 4, tuple(shape), stride, start, size))

    def shuffle(self, warp, line, kind, offset, source, held, mask=ALL):
        """Every lane of `mask` receives what its source holds; returns what it received."""
        on = (mask >> LANES) & 1 == 1
        got = np.where(on, held[source], np.nan)
        facts = dict(nbytes=4, addresses=np.where(on, source, -1), values=got, arg=int(kind), arg2=offset)
        self.recorder.event(0, warp, line, Op.SHUFFLE, mask, **facts)
        return got

    def butterfly(self, warp, line, held, combine=np.add, width=32):
        """The shuffles of a butterfly over groups of `width` lanes; returns what each lane ends with."""
        offset = 1
        while offset < width:
            held = combine(held, self.shuffle(warp, line, ShuffleKind.BFLY, offset, LANES ^ offset, held))
            offset *= 2
        return held

    def access(self, warp, line, op, space, tensor, addresses, values=None, nbytes=4, block=0):
        on = addresses >= 0
        if space == Space.SMEM:
            addresses = np.where(on, block << SMEM_BLOCK_BITS | addresses, -1)
        mask = int((on.astype(np.uint64) << LANES.astype(np.uint64)).sum())
        facts = dict(space=space, tensor=tensor, nbytes=nbytes, addresses=addresses)
        return self.recorder.event(block, warp, line, op, mask, values=values, **facts)

    def simple(self, warp, line, op, **facts):
        return self.recorder.event(0, warp, line, op, ALL, **facts)

    def finish(self):
        return self.recorder.finish()


def butterfly(held=None, combine=np.add, width=32):
    """A warp's butterfly, and what each lane ends with."""
    hand = Hand()
    line = hand.line(12, "value = op(value, cute.arch.shuffle_sync_bfly(value, offset=1 << i))")
    held = LANES.astype(float) if held is None else held
    last = hand.butterfly(0, line, held, combine, width)
    return hand.finish(), last


def shuffle_down():
    """A reduction by shuffle_sync_down: only lane 0 ends with the sum."""
    hand = Hand()
    line = hand.line(20, "value += cute.arch.shuffle_sync_down(value, 16 >> i)")
    held = LANES.astype(float)
    x = hand.gmem("x", (32,))
    hand.access(0, hand.line(18, "value = x[tidx]"), Op.LOAD, Space.GMEM, x, BASE + 4 * LANES, held)
    for offset in (16, 8, 4, 2, 1):
        source = np.where(LANES + offset < 32, LANES + offset, LANES)
        held = held + hand.shuffle(0, line, ShuffleKind.DOWN, offset, source, held)
    return hand.finish(), held


def broadcast():
    """Every lane reads lane 3."""
    hand = Hand()
    hand.shuffle(
        0, hand.line(9, "value = cute.arch.shuffle_sync(value, 3)"), ShuffleKind.IDX, 3, 0 * LANES + 3, LANES + 5.0
    )
    return hand.finish()


def block_reduce(warps=4, barrier=True):
    """A sum over the warps of a block through shared memory; without its barrier warp 0 runs ahead of the others."""
    hand = Hand(warps)
    fold = hand.line(12, "value = warp_reduce(value, operator.add)")
    store = hand.line(31, "buffer[warp] = value")
    wait = hand.line(32, "cute.arch.barrier()")
    load = hand.line(33, "value = buffer[lane % warps]")
    buffer = hand.smem("buffer", (warps,))
    memory = np.full(warps, np.nan)

    def first(warp):
        total = hand.butterfly(warp, fold, 32.0 * warp + LANES)
        only_first = np.where(LANES == 0, 4 * warp, -1)
        hand.access(warp, store, Op.STORE, Space.SMEM, buffer, only_first, np.where(LANES == 0, total, np.nan))
        memory[warp] = total[0]
        if barrier:
            hand.simple(warp, wait, Op.BARRIER)

    def second(warp, resume=True):
        if barrier and resume:
            hand.simple(warp, wait, Op.BARRIER_RESUME)
        held = memory[LANES % warps]
        hand.access(warp, load, Op.LOAD, Space.SMEM, buffer, 4 * (LANES % warps), held)
        hand.butterfly(warp, fold, held, width=warps)

    if barrier:
        for warp in range(warps):
            first(warp)
        for warp in [warps - 1, *range(warps - 1)]:
            second(warp)
    else:
        for warp in range(warps):
            first(warp)
            second(warp)
    return hand.finish()


def strided(stride, nbytes=4, op=Op.LOAD, offset=0, repeats=1):
    """Requests in which lane i touches the `nbytes` at element i * stride + offset of a long row."""
    hand = Hand(values=False)
    x = hand.gmem("x", (4, 4096))
    line = hand.line(7, "value = x[row, tidx * stride]")
    for repeat in range(repeats):
        hand.access(0, line, op, Space.GMEM, x, BASE + 4 * (LANES * stride + offset + 32 * repeat), nbytes=nbytes)
    return hand.finish()


def cluster(fault=""):
    """Four blocks that exchange 1, 2, 3, 4 and then their squares: the one trace here that the simulator makes."""
    from cutesim.language.loading import answer_package
    from cutesim.simulation import simulate

    answer_package("dsl")
    from dsl.cluster import Exchange

    x = np.arange(1, 5, dtype=np.float32)
    return simulate(Exchange(fault), x, np.zeros((4, 2), np.float32), values=True).trace

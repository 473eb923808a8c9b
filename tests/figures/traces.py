"""Traces of small kernels: a butterfly, a block reduction, strided requests, and a cluster's exchange."""

import numpy as np

from cutesim.language.loading import answer_package
from cutesim.simulation import simulate

answer_package("dsl")

from dsl import drawn as k
from dsl.cluster import Exchange


def traced(host, x=None, *more):
    """The run of a kernel, with the numbers that it exchanged."""
    return simulate(host, np.zeros(32, np.float32) if x is None else x, *more, values=True)


def butterfly(held=None, width=32):
    """A warp's sums over groups of lanes, or the maximum of `held`."""
    return traced(k.of_groups(width, held is not None), held).trace


def shuffle_down():
    """A reduction by shuffle_sync_down, and what each lane ends with: only lane 0 has the sum."""
    out = np.zeros(32, np.float32)
    return traced(k.down, np.arange(32, dtype=np.float32), out).trace, out


def broadcast():
    """Every lane reads lane 3."""
    return traced(k.sent).trace


def block_reduce(warps=4, waits=True):
    """The run of a sum over the warps of a block through shared memory; without its barrier warp 0 runs ahead of the others."""
    return traced(k.of_block(warps, waits))


def strided(stride, nbytes=4, offset=0, repeats=1):
    """Requests in which lane i touches the `nbytes` at element i * stride + offset of a long row."""
    return traced(k.row(stride, nbytes // 4, offset, repeats), np.zeros(4096, np.float32)).trace


def cluster(fault=""):
    """Four blocks that exchange 1, 2, 3, 4 and then their squares."""
    return traced(Exchange(fault), np.arange(1, 5, dtype=np.float32), np.zeros((4, 2), np.float32)).trace

"""Who a thread is: indices and sizes of threads, blocks and the grid. (Of clusters: `cluster`.)"""

from __future__ import annotations

import numpy as np

from ..context import WARP, group
from .arithmetic import int32
from .numeric import Int32, Value


def _split(linear: np.ndarray, dims: tuple) -> tuple:
    x, y, _ = dims
    if dims[1] == dims[2] == 1:
        zero = np.zeros((1, 1), np.int32)
        return int32(linear), Value(Int32, zero), Value(Int32, zero)
    return int32(linear % x), int32(linear // x % y), int32(linear // (x * y))


def thread_idx(loc=None, ip=None):
    g = group()
    return _split(g.threads[None, :], g.launch.block)


def block_idx(loc=None, ip=None):
    g = group()
    return _split(g.blocks[:, None], g.launch.grid)


def block_dim(loc=None, ip=None):
    return tuple(int32(d) for d in group().launch.block)


def grid_dim(loc=None, ip=None):
    return tuple(int32(d) for d in group().launch.grid)


def cluster_dim(loc=None, ip=None):
    """The number of clusters along each dimension of the grid."""
    launch = group().launch
    return tuple(int32(g // c) for g, c in zip(launch.grid, launch.cluster))


def lane_idx(loc=None, ip=None):
    return int32(group().threads[None, :] % WARP)

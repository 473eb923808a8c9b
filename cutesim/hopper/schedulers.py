"""What decides which tile of the output a block works on, and how matrices lie: cutlass.utils' schedulers and LayoutEnum.

A persistent launch has as many clusters as fit, and each takes every n-th tile of the problem: tile i lies at the coordinate of
i in a grid of clusters whose first mode runs fastest, as the kernels' own prints of it show.

Not covered: swizzled rasterisation, dynamic and grouped schedulers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..context import not_simulated, refused
from ..layouts import layout as la
from ..values.numeric import Int32, Value, constant_number, convert
from ..values.placeholders import Token
from .tiled_mma import OperandMajorMode

# ---- how matrices lie -----------------------------------------------------------------------------------------------


class Member(Token):
    """A member of LayoutEnum: which of a matrix's modes is contiguous."""

    def __repr__(self) -> str:
        return f"LayoutEnum.{self.name}"

    __str__ = __repr__
    value = property(lambda self: self.name.lower())

    def is_k_major_a(self) -> bool:
        return self.name == "ROW_MAJOR"

    is_n_major_c = is_k_major_a

    def is_m_major_a(self) -> bool:
        return self.name == "COL_MAJOR"

    is_k_major_b, is_n_major_b, is_m_major_c = is_k_major_a, is_m_major_a, is_m_major_a

    def mma_major_mode(self):
        """The operand's major mode for A and B alike: K for a row-major matrix."""
        return OperandMajorMode.K if self.name == "ROW_MAJOR" else OperandMajorMode.MN

    sm90_mma_major_mode = mma_major_mode


class LayoutEnum:
    """ROW_MAJOR or COL_MAJOR."""

    ROW_MAJOR, COL_MAJOR = Member("ROW_MAJOR"), Member("COL_MAJOR")

    @staticmethod
    def from_tensor(tensor) -> Member:
        strides = la.flatten_to_tuple(tensor.layout.stride)[:2]
        leading = [mode for mode, stride in enumerate(strides) if type(stride) is int and stride == 1]
        if not leading:
            raise refused(f"LayoutEnum.from_tensor: {tensor} is contiguous along neither of its first two modes")
        return LayoutEnum.COL_MAJOR if leading[0] == 0 else LayoutEnum.ROW_MAJOR


# ---- persistent schedulers ------------------------------------------------------------------------------------------


class PersistentTileSchedulerParams:
    """The problem in tiles, (m, n, l), and the cluster's shape."""

    def __init__(self, problem_shape_ntile_mnl, cluster_shape_mnk, swizzle_size=1, raster_along_m=True, **_):
        if swizzle_size != 1:
            raise not_simulated(f"a persistent scheduler with swizzle_size={swizzle_size}")
        self.problem_shape_ntile_mnl = tuple(problem_shape_ntile_mnl)
        self.cluster_shape_mnk = tuple(cluster_shape_mnk)
        self.cluster_shape_mn = self.cluster_shape_mnk[:2]
        self.raster_along_m = raster_along_m
        per = (*self.cluster_shape_mn, 1)
        self.clusters = tuple((n + c - 1) // c for n, c in zip(self.problem_shape_ntile_mnl, per))

    def get_grid_shape(self, max_active_clusters, **_):
        total = convert(self.clusters[0] * self.clusters[1] * self.clusters[2], Int32)
        most = convert(max_active_clusters, Int32)
        least = Value(Int32, np.minimum(total.a, most.a))
        return (*self.cluster_shape_mn, least)


@dataclass(eq=False)
class WorkTileInfo:
    tile_idx: tuple
    is_valid_tile: Value

    _carries_values = True

    def _copied(self) -> WorkTileInfo:
        return self

    def _joined(self, other, join) -> WorkTileInfo:
        at = tuple(join("tile_idx", a, b) for a, b in zip(self.tile_idx, other.tile_idx))
        return WorkTileInfo(at, join("is_valid_tile", self.is_valid_tile, other.is_valid_tile))


@dataclass(eq=False)
class StaticPersistentTileScheduler:
    """Cluster i works on tiles i, i + clusters, i + 2 clusters, ..."""

    params: PersistentTileSchedulerParams
    clusters: Value
    current: Value
    cta: tuple
    executed: Value

    _carries_values = True

    @classmethod
    def create(cls, params, block_idx, grid_dim, **_):
        size = params.cluster_shape_mn[0] * params.cluster_shape_mn[1]
        blocks = grid_dim[0] * grid_dim[1] * grid_dim[2]
        bx, by, bz = (convert(b, Int32) for b in block_idx)
        (cm, cn), zero = params.cluster_shape_mn, convert(0, Int32)
        return cls(params, convert(blocks, Int32) // size, bz, (bx % cm, by % cn, zero), zero)

    @staticmethod
    def get_grid_shape(params, max_active_clusters, **_):
        return params.get_grid_shape(max_active_clusters)

    def get_current_work(self, **_) -> WorkTileInfo:
        m, n, batches = (convert(c, Int32) for c in self.params.clusters)
        total = m * n * batches
        if self.params.raster_along_m:
            at = (self.current % m, self.current // m % n)
        else:
            at = (self.current // n % m, self.current % n)
        cm, cn = self.params.cluster_shape_mn
        place = (at[0] * cm + self.cta[0], at[1] * cn + self.cta[1], self.current // (m * n))
        return WorkTileInfo(place, self.current < total)

    initial_work_tile_info = get_current_work

    def advance_to_next_work(self, *, advance_count=1, **_) -> None:
        self.current = self.current + convert(advance_count, Int32) * self.clusters
        self.executed = self.executed + 1

    num_tiles_executed = property(lambda self: self.executed)

    def _copied(self) -> StaticPersistentTileScheduler:
        return replace(self)

    def _joined(self, other, join) -> StaticPersistentTileScheduler:
        current = join("current", self.current, other.current)
        return replace(self, current=current, executed=join("executed", self.executed, other.executed))


class HardwareInfo:
    """An H100: 132 multiprocessors."""

    def __init__(self, device_id: int = 0):
        self.device_id = device_id

    def get_max_active_clusters(self, cluster_size, **_) -> int:
        return 132 // constant_number(cluster_size, "the cluster's size")

    def get_device_multiprocessor_count(self, **_) -> int:
        return 132

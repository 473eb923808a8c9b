"""ldmatrix, stmatrix, and tiled copies whose atoms are made by a whole warp or follow a tiled mma.

An atom of several threads has three layouts (thread, value) -> element: of its source, of its destination, and the one that the
tiled copy's own thread-value layout speaks of (the registers' side). Partitioning a tensor composes them, as CuTe does.

ldmatrix: lane 8 j + i gives the address of row i of matrix j, 16 bytes; each thread receives a pair of elements of every matrix.
stmatrix is the same the other way round. Source: PTX ISA 9.0, ldmatrix, stmatrix; CUTLASS's documentation of CuTe.
Not covered: ldmatrix of 8-bit elements that unpacks 4 or 6 bits, m16n16.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from cutesim.trace import Space

from ..context import group, not_simulated, refused, wrong_kind
from ..layouts import layout as la
from ..layouts import layout_algebra as algebra
from ..layouts.layout import Layout
from ..machine import copying
from ..machine.copying import ThrCopy, TiledCopy
from ..machine.warps import require_all
from ..memory.pointers import read, write
from ..memory.registers import Registers
from ..memory.tensor import CoordinateTensor, Tensor, element_offsets
from ..values.numeric import DType, constant_number
from .tiled_mma import TiledMma, places

ROW = 8  # elements of 16 bits in a matrix's row


@dataclass(frozen=True)
class MatrixOp:
    """LdMatrix8x8x16bOp or StMatrix8x8x16bOp."""

    name: str
    transpose: bool
    num_matrices: int

    def atom_of(self, dtype: DType) -> MatrixAtom:
        if dtype.width != 16:
            raise refused(f"{self.name} moves elements of 16 bits, not {dtype}")
        return MatrixAtom(self, dtype)

    loads = property(lambda self: self.name.startswith("Ld"))

    @property
    def rows(self) -> Layout:
        """(lane, element of its row) -> element."""
        n = self.num_matrices
        lanes = Layout(32, ROW) if n == 4 else Layout((8 * n, 4 // n), (ROW, 0))
        return la.join((lanes, Layout(ROW, 1)))

    @property
    def registers(self) -> Layout:
        """(lane, value) -> element."""
        n = self.num_matrices
        if self.transpose:
            return Layout(((4, 8), (1, 2, n)), ((16, 1), (1, 8, 64)))
        return Layout((32, (2, n)), (2, (1, 64)))


def matrix_op(name: str):
    """A stand-in for the DSL's class of that name."""

    def make(transpose=False, num_matrices=1, **_) -> MatrixOp:
        count = constant_number(num_matrices, "num_matrices")
        if count not in (1, 2, 4):
            raise refused(f"{name}: num_matrices is 1, 2 or 4, not {count}")
        return MatrixOp(name, bool(transpose), count)

    make.__name__ = make.__qualname__ = name
    return make


LdMatrix8x8x16bOp, StMatrix8x8x16bOp = map(matrix_op, ("LdMatrix8x8x16bOp", "StMatrix8x8x16bOp"))


@dataclass(frozen=True)
class MatrixAtom:
    """A warp's copy of one, two or four matrices."""

    op: MatrixOp
    dtype: DType

    value_type = property(lambda self: self.dtype)
    values = property(lambda self: 2 * self.op.num_matrices)
    layout_src_tv = property(lambda self: self.op.rows if self.op.loads else self.op.registers)
    layout_dst_tv = property(lambda self: self.op.registers if self.op.loads else self.op.rows)
    layout_tv = property(lambda self: self.op.registers)

    def set(self, *_, **__):
        return self

    def run_copy(self, src, dst, pred=None, **_) -> None:
        if pred is not None:
            raise not_simulated(f"cute.copy with {self.op.name} and pred")
        for side in (src, dst):
            if not isinstance(side, Tensor):
                raise wrong_kind(f"cute.copy takes tensors, got {type(side).__name__}", side)
        shared, registers = (src, dst) if self.op.loads else (dst, src)
        if shared.memspace is not Space.SMEM or not isinstance(registers.pointer.memory, Registers):
            raise refused(f"{self.op.name} copies between shared memory and registers")
        if shared.dtype.width != 16 or registers.dtype.width != 16:
            raise refused(f"{self.op.name} moves elements of 16 bits, got {shared.dtype} and {registers.dtype}")
        rows = element_offsets(shared.layout).reshape(-1, ROW)
        values = element_offsets(registers.layout).reshape(-1, self.values)
        if len(rows) != len(values):
            raise refused(f"cute.copy: {src.shape} and {dst.shape} are not as many matrices; retile the registers")
        if (np.diff(rows, axis=1) != 1).any():
            raise refused(f"{self.op.name} needs rows of 8 neighbouring elements, but {shared} puts them apart")
        if shared.pointer.alignment < 16:
            known = f"{shared} has a pointer of which {shared.pointer.alignment} is known"
            raise refused(f"{self.op.name} needs rows at multiples of 16 bytes, and {known}; give it .align(16)")
        require_all(0xFFFFFFFF, self.op.name)
        for row, value in zip(rows, values):
            self._one(shared, row, registers, value)

    def _one(self, shared: Tensor, row, registers: Tensor, value) -> None:
        g = group()
        lanes = (g.threads % 32 < ROW * self.op.num_matrices)[None, :, None]
        keep = np.broadcast_to(lanes, (1, len(g.threads), 1))
        at_rows, at_values = places(self.op.rows), places(self.op.registers)
        shape, size = g.shape, ROW * ROW * self.op.num_matrices
        if self.op.loads:
            data = read(shared.pointer, row, ROW, keep)
            whole = _scattered(np.broadcast_to(data, (*shape, ROW)), at_rows, size, self.op.num_matrices)
            found = whole[..., at_values].reshape(*shape, -1)
            write(registers.pointer, value, _moved(found, shared.dtype, registers.dtype), 1)
            return
        data = np.broadcast_to(read(registers.pointer, value, 1), (*shape, len(value)))
        whole = _scattered(_moved(data, registers.dtype, shared.dtype), at_values, size, 4)
        found = whole[..., at_rows].reshape(*shape, -1)
        write(shared.pointer, row, found, ROW, keep)


def _moved(data, source: DType, target: DType):
    return data if source is target else target.decode(source.encode(data).view(target.storage))


def _scattered(data: np.ndarray, at: np.ndarray, size: int, matrices: int) -> np.ndarray:
    """(B, warps, elements) from (B, T, values); lanes whose rows the instruction does not ask for give none."""
    parts = data.reshape(data.shape[0], -1, 32, data.shape[-1])
    lanes = 32 if at.shape[1] != ROW or matrices == 4 else ROW * matrices
    out = np.zeros((*parts.shape[:2], size), data.dtype)
    out[..., at[:lanes]] = parts[:, :, :lanes]
    return out


# ---- tiled copies ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TiledMatrixCopy(TiledCopy):
    """A tiled copy of an atom that several threads make."""

    def get_slice(self, thr_idx) -> ThrMatrixCopy:
        return ThrMatrixCopy(self, thr_idx)

    def retile(self, tensor):
        return tensor.relaid(lambda layout: _retiled(layout, self.layout_tv, self.tiler_mn, self.atom.values))

    def run_copy(self, src, dst, **options) -> None:
        self.atom.run_copy(src, dst, **options)

    layout_src_tv_tiled = property(lambda self: _thread_values(self, self.atom.layout_src_tv))
    layout_dst_tv_tiled = property(lambda self: _thread_values(self, self.atom.layout_dst_tv))


MatrixAtom.tiled = TiledMatrixCopy


@dataclass(frozen=True)
class ThrMatrixCopy(ThrCopy):
    def partition_S(self, tensor, **_):
        return _partition(self.tiled, self.thread, tensor, self.tiled.atom.layout_src_tv)

    def partition_D(self, tensor, **_):
        return _partition(self.tiled, self.thread, tensor, self.tiled.atom.layout_dst_tv)


@lru_cache(maxsize=1024)
def _thread_values(tiled, target: Layout) -> Layout:
    """((thread of the atom, others), (value of the atom, others)) -> index in the tile, of one side of the copy."""
    atom = tiled.atom
    reference = atom.layout_tv
    mapping = algebra.composition(algebra.right_inverse(reference), target)
    divided = algebra.zipped_divide(tiled.layout_tv, (la.size(reference[0]), la.size(reference[1])))
    sided = algebra.composition(divided[0], mapping)
    rest = divided[1]
    threads = algebra.coalesce(la.join((sided[0], rest[0])))
    values = la.join((algebra.coalesce(sided[1]), algebra.coalesce(rest[1])))
    return la.join((threads, values))


@lru_cache(maxsize=2048)
def _parted(layout: Layout, tiled, target: Layout) -> Layout:
    divided = algebra.zipped_divide(layout, tiled.tiler_mn)
    sides = _thread_values(tiled, target)
    tile = divided[0]
    values = la.join(algebra.composition(tile, part) for part in la.modes(sides[1]))
    return la.join((algebra.composition(tile, sides[0]), values, *la.modes(divided[1])))


def _partition(tiled, thread, tensor, target: Layout):
    if not isinstance(tensor, (Tensor, CoordinateTensor)):
        raise wrong_kind(f"partition_S/partition_D take a tensor, got {type(tensor).__name__}", tensor)
    whole = tensor.relaid(lambda layout: _parted(layout, tiled, target))
    return whole[(thread, *[None] * (la.rank(whole.layout) - 1))]


@lru_cache(maxsize=1024)
def _retiled(layout: Layout, layout_tv: Layout, tiler: tuple, atom_values: int) -> Layout:
    """A fragment ((values), M, N) as the copy's ((values of the atom, others), rest of M, rest of N)."""
    rank, values = la.rank(layout), la.size(layout[0])
    threads = la.size(layout_tv[0])
    sizes = tuple(la.size(t) if isinstance(t, Layout) else t for t in tiler)
    inverse = algebra.composition(algebra.right_inverse(layout_tv), la.make_layout(sizes))
    tiles = _upcast(inverse, threads * values)
    while la.rank(tiles) < rank - 1:
        tiles = la.append(tiles, Layout(1, 0))
    order = algebra.logical_product(la.make_layout(values), algebra.right_inverse(tiles))
    order = algebra.logical_divide(algebra.coalesce(order), atom_values)
    whole = algebra.zipped_divide(layout, (values, *la.product_each(tiles.shape)))
    made = algebra.composition(whole[0], order)
    return la.join((made, *la.modes(whole[1])[1:]))


def _upcast(layout: Layout, ratio: int) -> Layout:
    def walk(shape, stride):
        if isinstance(shape, tuple):
            return la.join(map(walk, shape, stride))
        if stride == 0:
            return Layout(shape, 0)
        whole = stride % ratio == 0 or stride > ratio
        return Layout(-(-shape // -(-ratio // stride)), -(-stride // ratio) if whole else 1)

    return walk(layout.shape, layout.stride)


def _of_operand(which: str, modes: tuple):
    def make(atom, tiled_mma: TiledMma, **_):
        return copying.tiled(atom, tiled_mma.tv_layout(which), tuple(tiled_mma.tile_mnk[i] for i in modes))

    return make


make_tiled_copy_A, make_tiled_copy_B = _of_operand("A", (0, 2)), _of_operand("B", (1, 2))
make_tiled_copy_C = _of_operand("C", (0, 1))


def _like(atom, tiled_copy, **_):
    return copying.tiled(atom, tiled_copy.layout_tv, tiled_copy.tiler_mn)


make_tiled_copy_S = make_tiled_copy_D = _like


def make_tiled_copy_C_atom(atom, mma: TiledMma, **_):
    """The copy of one atom's values of C alone, in their order: its tile is what these values make."""
    whole = mma.tv_layout("C")
    kept = algebra.composition(whole, la.make_layout((la.size(whole[0]), atom.values)))
    sizes = mma.tile_mnk[:2]
    tiler = []
    for i in range(2):
        strides = tuple(int(j == i) for j in range(2))
        along = algebra.composition(Layout(tuple(sizes), strides), kept)
        tiler.append(_filtered(along))
    tile = algebra.composition(la.make_layout(tuple(sizes)), tuple(tiler))
    return copying.tiled(atom, algebra.composition(algebra.left_inverse(tile), kept), tuple(tiler))


def _filtered(layout: Layout) -> Layout:
    pairs = [(s, d) for s, d in la.leaves(layout) if d != 0 and s != 1]
    return algebra.coalesce(algebra._flat_layout(pairs)) if pairs else Layout(1, 0)

"""Tensor maps: tiles that the TMA unit copies between global and shared memory, by coordinates.

`make_tiled_tma_atom` gives a copy atom that knows the tensor in global memory, and a tensor of its coordinates: one step along
the map's dimension d is 1@d, the contiguous one first. `tma_partition` brings a tile of both into the order in which the tile
lies in shared memory, cut into what one instruction moves: the longest part over which the tensor's coordinates go on by ones.

| operation                          | here                                                                              |
|------------------------------------|-----------------------------------------------------------------------------------|
| `CopyBulkTensorTileG2SOp`          | bytes come late, elements outside of the tensor as zeros; the mbarrier counts all   |
| `CopyBulkTensorTileG2SMulticastOp` | the same, to the same place in each block of the mask, counted by its own mbarrier |
| `CopyBulkTensorTileS2GOp`          | in bulk groups; nothing is written outside of the tensor                          |
| `CopyReduceBulkTensorTileS2GOp`    | the same, and each element is added to (or the larger, smaller, ...), atomically   |
| `prefetch_descriptor`, `prefetch`  | nothing                                                                           |

A copy that a whole warp comes to is made by one of its lanes, as the compiler elects one. Each row of a tile is a row of the
trace. Sources: PTX ISA 9.0, cp.async.bulk.tensor, cp.reduce.async.bulk.tensor; CUTLASS, docs/cpp/cute/0z_tma_tensors.

Not covered: im2col, gather and scatter, descriptors that a kernel changes, tiles with gaps in shared memory, a tile whose
contiguous mode is not the tensor's.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from cutesim.trace import SMEM_BLOCK_BITS, Op, Space

from ..context import STATE, WARP, fail, group, not_simulated, refuse_other, refused
from ..layouts import layout as la
from ..layouts import layout_algebra as algebra
from ..layouts.layout import Basis, Layout
from ..machine.asynchronous import BulkMove, Transfer, issue, require_alive
from ..machine.copying import CopyOp
from ..machine.mbarriers import find
from ..memory import pointers as m
from ..memory.bounds import check_early
from ..memory.log import needs_warps
from ..memory.pointers import REDUCES
from ..memory.recording import record_event, tensor_index
from ..memory.swizzle import ComposedLayout, permuted
from ..memory.tensor import CoordinateTensor, Tensor, as_layout, element_offsets, plain
from ..values.numeric import Int16, Value, scalar

# ---- atoms ----------------------------------------------------------------------------------------------------------


def tma_op(name: str):
    """A stand-in for the DSL's class of that name."""

    def make(*args, **kwargs) -> CopyOp:
        kind = kwargs.get("reduction_kind", args[0] if args else "ADD")
        return CopyOp(name, options=(("reduction_kind", str(kind).rpartition(".")[2]),))

    make.__name__ = name
    return make


CopyBulkTensorTileG2SOp = tma_op("CopyBulkTensorTileG2SOp")
CopyBulkTensorTileG2SMulticastOp = tma_op("CopyBulkTensorTileG2SMulticastOp")
CopyBulkTensorTileS2GOp = tma_op("CopyBulkTensorTileS2GOp")
CopyReduceBulkTensorTileS2GOp = tma_op("CopyReduceBulkTensorTileS2GOp")

_REDUCE = {"ADD": np.add, "MIN": np.fmin, "MAX": np.fmax}


@dataclass(frozen=True, eq=False)
class TmaAtom:
    """A copy atom of a tensor map."""

    op: CopyOp
    tensor: Tensor  # in global memory
    dimensions: tuple  # (extent, stride in elements) of each dimension of the map
    values: int  # of the tile of one instruction
    shares: int = 1  # of which each of so many blocks loads its share, for all of them

    dtype = property(lambda self: self.tensor.dtype)

    value_type = dtype

    loads = property(lambda self: "G2S" in self.op.name)

    def set(self, *_, **__):
        return self

    def run_copy(self, src, dst, tma_bar_ptr=None, mcast_mask=None, **options) -> None:
        """cute.copy with this atom."""
        if options.get("tma_desc_ptr") is not None:
            raise not_simulated("cute.copy with tma_desc_ptr")
        shared, coordinates = (dst, src) if self.loads else (src, dst)
        if not isinstance(coordinates, CoordinateTensor) or not isinstance(shared, Tensor):
            raise refused(
                f"{self.op.name} copies {'to' if self.loads else 'from'} shared memory: give it the two tensors of tma_partition"
            )
        if shared.memspace is not Space.SMEM or shared.dtype.width != self.dtype.width:
            raise refused(f"{self.op.name}: {shared} is no {self.dtype} tensor in shared memory")
        if la.size(shared.layout) != la.size(coordinates.layout):
            raise refused(f"cute.copy: source {src.shape} and destination {dst.shape} differ in size")
        if self.loads and tma_bar_ptr is None:
            raise refused(f"{self.op.name} needs tma_bar_ptr=, the mbarrier that counts its bytes")
        multicast = "Multicast" in self.op.name
        if not multicast and isinstance(mcast_mask, int) and mcast_mask == 0:
            mcast_mask = None  # what NVIDIA's kernels pass where nothing is multicast
        if multicast != (mcast_mask is not None):
            raise refused(f"{self.op.name} {'needs' if multicast else 'takes no'} mcast_mask=")
        for b, t in elected():
            tile = Tile(self, coordinates, shared, b, t)
            if self.loads:
                tile.load(tma_bar_ptr, mcast_mask)
            else:
                tile.store()


def elected() -> list:
    """(block, thread) within the group of one lane a warp, of the warps that are here."""
    g = group()
    active = g.active().reshape(len(g.blocks), -1, WARP)
    there = np.argwhere(active.any(axis=2)).tolist()
    return [(b, w * WARP + int(active[b, w].argmax())) for b, w in there]


class TmaInfo(tuple):
    """(atom, tensor of coordinates)."""

    copy_atom = property(lambda self: self[0])
    tma_tensor = property(lambda self: self[1])
    atom = copy_atom


def make_tiled_tma_atom(
    op: CopyOp, gmem_tensor: Tensor, smem_layout, cta_tiler, num_multicast=1, *, internal_type=None, **_
) -> TmaInfo:
    """The map of a tensor for tiles that lie in shared memory as `smem_layout` says."""
    if not isinstance(op, CopyOp) or "Tile" not in op.name:
        raise not_simulated(f"make_tiled_tma_atom of {op!r}")
    refuse_other("make_tiled_tma_atom with internal_type", internal_type, None, gmem_tensor.element_type)
    if isinstance(smem_layout, ComposedLayout):
        smem_layout = smem_layout.outer
    tiler = cta_tiler if isinstance(cta_tiler, tuple) else (cta_tiler,)
    layout = gmem_tensor.layout
    identity = la.make_identity_layout(_plain_shape(layout.shape))
    tile = algebra.composition(identity, tiler)
    smem = as_layout(smem_layout)
    inverse = algebra.right_inverse(smem)
    if la.size(inverse) != la.size(smem) or la.size(tile) != la.size(smem):
        raise not_simulated(
            f"a tensor map's tile that lies in shared memory as {smem}: it has gaps or is no tile of {tiler}"
        )
    order = []  # modes of the tensor in the order of the tile in shared memory, as far as they go on by ones
    box = 1
    for extent, stride in la.leaves(algebra.coalesce(algebra.composition(tile, inverse))):
        if not isinstance(stride, Basis) or stride.value != 1 or stride.path in order:
            break
        order.append(stride.path)
        box *= extent
    leaves = {path: (extent, stride) for path, extent, stride in _leaves(layout)}
    rest = sorted((p for p in leaves if p not in order), key=lambda p: (leaves[p][1], p))
    paths = [*order, *rest]
    if int(leaves[paths[0]][1]) != 1 and int(leaves[paths[0]][0]) != 1:
        raise not_simulated("a tensor map whose tile does not run along the tensor's contiguous mode in shared memory")
    _require_strides(gmem_tensor, [leaves[p] for p in paths[1:]])
    number = {path: i for i, path in enumerate(paths)}
    strides = _numbered(layout.shape, (), number)
    dimensions = tuple((int(e), int(s)) for e, s in map(leaves.get, paths))
    atom = TmaAtom(op, gmem_tensor, dimensions, box, int(num_multicast))
    return TmaInfo((atom, CoordinateTensor((0,) * len(paths), Layout(layout.shape, strides))))


def _plain_shape(shape):
    return tuple(map(_plain_shape, shape)) if isinstance(shape, tuple) else int(shape)


def _leaves(layout: Layout, path=()):
    if isinstance(layout.shape, tuple):
        for i in range(len(layout.shape)):
            yield from _leaves(layout[i], (*path, i))
    else:
        yield path, layout.shape, layout.stride


def _numbered(shape, path, number: dict):
    if isinstance(shape, tuple):
        return tuple(_numbered(part, (*path, i), number) for i, part in enumerate(shape))
    return Basis(1, (number[path],))


def _require_strides(tensor: Tensor, dimensions) -> None:
    """PTX ISA, tensor-map: the address is a multiple of 16 bytes, and so is every stride but the first."""
    size = tensor.dtype.itemsize
    memory = tensor.pointer.memory
    address = memory.address + int(np.asarray(tensor.pointer.offset).reshape(-1)[0]) * size
    if address % 16:
        raise fail(
            "misaligned",
            f"a tensor map needs a tensor at a multiple of 16 bytes; {memory.name} is {address % 16} past one",
        )
    for extent, stride in dimensions:
        if int(extent) > 1 and int(stride) * size % 16:
            raise fail(
                "misaligned",
                f"a tensor map needs strides of multiples of 16 bytes; {memory.name} has one of {int(stride) * size} bytes. "
                "Pad its rows, or copy it another way.",
            )


def tma_partition(atom: TmaAtom, cta_coord, cta_layout, smem_tensor, gmem_tensor, **_):
    """Both tensors as ((instruction, instructions), rest ...); of several blocks each has a part of every instruction's tile."""
    if not isinstance(atom, TmaAtom):
        raise refused("tma_partition takes an atom of make_tiled_tma_atom")
    tile = smem_tensor.layout[0]
    inverse = algebra.right_inverse(tile)
    blocks = la.cosize(as_layout(cta_layout))
    if la.size(inverse) != la.size(tile):
        raise not_simulated(f"a tensor map's tile that lies in shared memory as {tile}, with gaps")
    parts = algebra.logical_divide(inverse, atom.values)

    def ordered(layout: Layout) -> Layout:
        first, *others = la.modes(layout)
        made = algebra.composition(first, parts)
        made = la.join(algebra.coalesce(mode) for mode in la.modes(made))
        return la.join((made, *others))

    at = plain(cta_coord)
    offset = la.crd2idx(at, as_layout(cta_layout).shape, as_layout(cta_layout).stride) * (atom.values // blocks)
    results = []
    for tensor in (smem_tensor, gmem_tensor):
        made = tensor.relaid(ordered)
        if type(offset) is int and offset == 0:
            results.append(made)
            continue
        coord = ((offset, 0), *[_zeros(mode.shape) for mode in la.modes(made.layout)[1:]])
        if isinstance(made, CoordinateTensor):
            results.append(CoordinateTensor(made.at(coord), made.layout))
        else:
            moved = la.crd2idx(coord, made.layout.shape, made.layout.stride)
            results.append(made.moved(moved, made.layout))
    return tuple(results)


def _zeros(shape):
    return tuple(map(_zeros, shape)) if isinstance(shape, tuple) else 0


def make_layout_image_mask(lay, coord, mode: int, **_):
    """The bits of the offsets that a layout has along one mode, the other coordinates being fixed."""
    lay, at = as_layout(lay), plain(coord)
    bits = np.zeros((1, 1), np.int64)
    for i in range(la.size(lay, mode)):
        place = (*at[:mode], i, *at[mode + 1 :])
        bits = bits | np.int64(1) << np.asarray(la.crd2idx(place, lay.shape, lay.stride), np.int64)
    return Value(Int16, np.atleast_2d(bits).astype(np.int16))


def create_tma_multicast_mask(cta_layout_vmnk, cta_coord_vmnk, mcast_mode: int, **_):
    """The blocks of the cluster that differ from this one along one mode alone."""
    return make_layout_image_mask(cta_layout_vmnk, cta_coord_vmnk, mcast_mode)


# ---- one copy -------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class TileMove(BulkMove):
    """A tile's elements, of which some may lie outside of the tensor."""

    inside: np.ndarray | None = None  # which elements lie in the tensor
    dtype: object = None
    reduce: object = None
    zeros: bool = False  # are written where they lie outside

    def read(self) -> None:
        if self.data is None:
            self.data = self.source_flat[np.where(self.inside, self.source, 0)]

    def write(self) -> None:
        self.read()
        if self.zeros:
            self.target_flat[self.target] = np.where(self.inside, self.data, 0)
            return
        target, data = self.target[self.inside], self.data[self.inside]
        if self.reduce is not None:
            dtype = self.dtype
            terms = [dtype.decode(a) for a in (self.target_flat[target], data)]
            data = dtype.encode(dtype.round(self.reduce(*terms)) if dtype.is_float else self.reduce(*terms))
        self.target_flat[target] = data


class Tile:
    """What one lane copies: where its elements lie in both memories, in the order of the copy."""

    def __init__(self, atom: TmaAtom, coordinates: CoordinateTensor, shared: Tensor, b: int, t: int):
        needs_warps()
        self.atom, self.shared, self.b, self.t = atom, shared, b, t
        g, pointer = group(), atom.tensor.pointer
        places = la.offsets(coordinates.layout)
        at = [_of_lane(base, g, b, t) for base in coordinates.base]
        steps = places.T if places.ndim == 2 else ()
        columns = [a + step for a, step in itertools.zip_longest(at, steps[: len(at)], fillvalue=0)]
        whole = la.size(shared.layout)
        moved = np.arange(whole) % atom.values < atom.values // atom.shares
        columns = [np.broadcast_to(column, (whole,))[moved] for column in columns]
        count = int(moved.sum())
        self.inside = np.ones(count, bool)
        self.global_index = np.full(count, _of_lane(pointer.offset, g, b, t), np.int64)
        for column, (extent, stride) in zip(columns, atom.dimensions):
            self.inside &= (column >= 0) & (column < extent)
            self.global_index += column * stride
        self.plain_index = (_of_lane(shared.pointer.offset, g, b, t) + element_offsets(shared.layout))[moved]
        self.shared_index = permuted(shared.pointer, self.plain_index)
        self._require_room()

    size = property(lambda self: self.atom.dtype.itemsize)

    def _require_room(self) -> None:
        memory = self.shared.pointer.memory
        begin, end = memory.start // self.size, (memory.start + memory.nbytes) // self.size
        low, high = int(self.shared_index.min()), int(self.shared_index.max())
        if low < begin or high >= end:
            raise fail(
                "out of bounds",
                f"Out of bounds: the tile of {self.atom.op.name} reaches word {(low if low < begin else high) - begin} of "
                f"{memory.name}; it has {end - begin}. Is the buffer large enough, and the stage right?",
            )
        if int(self.shared_index[0]) * self.size % 16:
            raise fail(
                "misaligned",
                f"a tile in shared memory starts at a multiple of 16 bytes (128 with a swizzle); {memory.name}",
            )

    def _touches(self, op: Op) -> None:
        g, memory = group(), self.atom.tensor.pointer.memory
        if g.early is not None:
            check_early(memory, g, None, op)
        g.launch.touch(memory, op)

    def _row(self) -> int:
        rows = m.group_rows() if self.shared.pointer.rows is None else self.shared.pointer.rows
        return int(np.broadcast_to(rows, group().shape)[self.b, self.t])

    def _flat(self, row: int):
        launch = group().launch
        return launch.shared_flat(self.atom.dtype), self.shared_index + row * (launch.smem_stride // self.size)

    def load(self, barrier, mask) -> None:
        self._touches(Op.LOAD)
        g, memory = group(), self.atom.tensor.pointer.memory
        row = self._row()
        size = g.launch.cluster_size
        first = row // size * size
        rows = [row]
        if mask is not None:
            bits = int(np.broadcast_to(scalar(mask).a, g.shape)[self.b, self.t])
            rows = [first + rank for rank in range(16) if bits >> rank & 1]
            if not rows or rows[-1] >= first + size:
                raise fail(
                    "cluster", f"mcast_mask={bits & 0xFFFF:#x} names blocks that the cluster of {size} does not have"
                )
        offset = _of_lane(barrier.offset, g, self.b, self.t) * barrier.dtype.itemsize
        block = int(g.blocks[self.b])
        source = memory.flat(self.atom.dtype)
        for target in rows:
            find(target, offset, self.atom.op.name)
            require_alive(target)
            flat, index = self._flat(target)
            move = TileMove(source, self.global_index, flat, index, inside=self.inside, zeros=True)
            steps = self._record(target, (int(g.launch.row_blocks[target]) << SMEM_BLOCK_BITS) | offset)
            nbytes = len(index) * self.size
            issue(Transfer(move.write, nbytes, target, offset, target, block, steps))

    def store(self) -> None:
        self._touches(Op.STORE)
        g, memory = group(), self.atom.tensor.pointer.memory
        STATE.run.before_write(memory)
        kind = dict(self.atom.op.options).get("reduction_kind")
        reduces = "Reduce" in self.atom.op.name
        if reduces and kind not in _REDUCE:
            raise not_simulated(f"{self.atom.op.name} with {kind}")
        flat, index = self._flat(self._row())
        how = {"inside": self.inside, "dtype": self.atom.dtype, "reduce": _REDUCE[kind] if reduces else None}
        move = TileMove(flat, index, memory.flat(self.atom.dtype), self.global_index, **how)
        self._record(self._row(), -1, reduces)
        g.bulk_open.append(move)
        if g.warp < 0:
            move.write()

    # -- the trace

    def _record(self, row: int, barrier: int, reduces=False) -> list:
        """A row of the trace for each run of elements that is contiguous in both memories; their steps."""
        recorder = STATE.run.recorder
        if recorder is None:
            return []
        loads, launch = self.atom.loads, group().launch
        pointer, memory = self.shared.pointer, self.atom.tensor.pointer.memory
        own, other = tensor_index(recorder, pointer.memory), tensor_index(recorder, memory)
        block = int(launch.row_blocks[row])
        lane = np.zeros(WARP, bool)
        lane[self.t % WARP] = True
        steps = []
        for begin, end, inside in self._runs():
            at = (block << SMEM_BLOCK_BITS) | int(self.shared_index[begin:end].min()) * self.size
            there = memory.address + int(self.global_index[begin]) * self.size if inside else -1
            if not loads and not inside:
                continue
            near, far = np.where(lane, at, -1), np.where(lane, there, -1)
            space = Space.GMEM if not loads else Space.SMEM if row == self._row() else Space.DSMEM
            ends = (near, far if inside else None) if loads else (far, near)
            facts = {"addresses": ends[0], "sources": ends[1], "arg": (end - begin) * self.size, "arg2": barrier}
            facts |= {"tensor": own if loads else other, "nbytes": REDUCES if reduces else 0}
            steps.append(record_event(Op.BULK_COPY, mask=lane, space=space, **facts))
        return steps

    def _runs(self) -> list:
        """(begin, end, whether in the tensor) of runs of elements that lie together in both memories, if in another order."""
        n = len(self.shared_index)
        swizzle = self.shared.pointer.swizzle
        # elements that it may exchange
        group_of = (1 << swizzle[0].base + swizzle[0].bits) if swizzle is not None else 1
        breaks = np.diff(self.global_index) != 1
        breaks |= self.inside[1:] != self.inside[:-1]
        breaks |= np.diff(self.plain_index) != 1
        starts = np.concatenate(([0], np.nonzero(breaks)[0] + 1, [n]))
        runs = []
        for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist()):
            span = int(self.shared_index[begin:end].max() - self.shared_index[begin:end].min()) + 1
            if span == end - begin:
                runs.append((begin, end, bool(self.inside[begin])))
                continue
            step = swizzle[0].run if group_of > 1 else 1
            at = begin
            while at < end:  # the pieces that the swizzle keeps together
                stop = min(end, at + step - int(self.plain_index[at]) % step)
                runs.append((at, stop, bool(self.inside[at])))
                at = stop
        return runs


def _of_lane(x, g, b: int, t: int) -> int:
    return int(np.broadcast_to(x, g.shape)[b, t]) if isinstance(x, np.ndarray) else int(x)

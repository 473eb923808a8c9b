"""Copies: atoms, tiled copies and their partitions, predicates, vectorised and asynchronous movement.

One instruction moves one atom's values: a tensor partitioned by a tiled copy has shape ((atom values, rest), M, N), and the copy
issues one instruction per (rest, M, N). Tensor maps and multicast are in `hopper.tensor_maps`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from cutesim.trace import Space

from ..context import STATE, not_simulated, refused, wrong_kind
from ..layouts import layout as la
from ..layouts import layout_algebra as algebra
from ..layouts.layout import Layout
from ..memory.pointers import read, write
from ..memory.registers import Registers
from ..memory.tensor import CoordinateTensor, Tensor, access_width, as_layout, contiguous_run, element_offsets
from ..values.numeric import DType, Value, constant_number
from .asynchronous import bulk_copy, issue_cp_async


@dataclass(frozen=True)
class CopyOp:
    """A kind of copy: its name, and the spaces it needs (None: any)."""

    name: str
    source: Space | None = None
    target: Space | None = None
    options: tuple = ()

    is_async = property(lambda self: self.name == "CopyG2SOp")
    is_bulk = property(lambda self: self.name.startswith("CopyBulk"))


def copy_op(name: str, source=None, target=None):
    """A stand-in for the DSL's copy-operation class of that name."""

    def make(*args, **kwargs) -> CopyOp:
        return CopyOp(name, source, target, tuple(sorted((k, str(v)) for k, v in kwargs.items())))

    make.__name__ = name
    return make


CopyUniversalOp = copy_op("CopyUniversalOp")
CopyG2SOp = copy_op("CopyG2SOp", Space.GMEM, Space.SMEM)
CopyBulkG2SOp = copy_op("CopyBulkG2SOp", Space.GMEM, Space.SMEM)
CopyBulkS2GOp = copy_op("CopyBulkS2GOp", Space.SMEM, Space.GMEM)
CopyG2ROp = copy_op("CopyG2ROp", Space.GMEM, Space.NONE)
CopyR2GOp = copy_op("CopyR2GOp", Space.NONE, Space.GMEM)
CopyS2ROp = copy_op("CopyS2ROp", Space.SMEM, Space.NONE)
CopyR2SOp = copy_op("CopyR2SOp", Space.NONE, Space.SMEM)


@dataclass(frozen=True)
class CopyAtom:
    """One thread's copy instruction: `bits` of `dtype` values at a time."""

    op: CopyOp
    dtype: DType
    bits: int

    values = property(lambda self: max(1, self.bits // self.dtype.width))
    value_type = property(lambda self: self.dtype)

    def set(self, *_, **__):
        return self


def make_copy_atom(op: CopyOp, copy_internal_type: DType, *, num_bits_per_copy=0, **_) -> CopyAtom:
    if hasattr(type(op), "atom_of"):  # one of the rooms for Hopper has its own
        return op.atom_of(copy_internal_type)
    if not isinstance(op, CopyOp):
        raise not_simulated(f"make_copy_atom({getattr(op, 'name', op)})")
    bits = constant_number(num_bits_per_copy, "num_bits_per_copy") or copy_internal_type.width
    if op.is_bulk:
        return CopyAtom(op, copy_internal_type, copy_internal_type.width)
    if bits not in (8, 16, 32, 64, 128):
        raise refused(f"num_bits_per_copy={bits}: a copy instruction moves 8, 16, 32, 64 or 128 bits")
    if bits % copy_internal_type.width:
        raise refused(f"num_bits_per_copy={bits} does not hold whole {copy_internal_type} values")
    if op.is_async and bits not in (32, 64, 128):
        raise refused(f"cp.async moves 4, 8 or 16 bytes, not {bits // 8}")
    return CopyAtom(op, copy_internal_type, bits)


@dataclass(frozen=True)
class TiledCopy:
    """An atom spread over threads and values: `layout_tv` maps (thread, value) into a tile of `tiler_mn`."""

    atom: CopyAtom
    layout_tv: Layout
    tiler_mn: tuple

    layout_tv_tiled = layout_src_tv_tiled = layout_dst_tv_tiled = property(lambda self: self.layout_tv)
    op = property(lambda self: self.atom.op)
    value_type = property(lambda self: self.atom.dtype)
    size = property(lambda self: la.size(self.layout_tv[0]))

    def get_slice(self, thr_idx) -> ThrCopy:
        return ThrCopy(self, thr_idx)

    def retile(self, tensor):
        """Registers seen as the copy's ((atom values, rest), …)."""

        def split(layout: Layout) -> Layout:
            first, *others = la.modes(layout)
            return la.join((algebra.logical_divide(algebra.coalesce(first), self.atom.values), *others))

        return tensor.relaid(split)


@dataclass(frozen=True)
class ThrCopy:
    """One thread's share of a tiled copy."""

    tiled: TiledCopy
    thread: object

    atom = property(lambda self: self.tiled.atom)

    def partition_S(self, tensor):
        return _partition(self.tiled, self.thread, tensor)

    partition_D = partition_S

    def retile(self, tensor):
        return self.tiled.retile(tensor)


def tiled(atom, layout_tv: Layout, tiler: tuple) -> TiledCopy:
    return getattr(type(atom), "tiled", TiledCopy)(atom, layout_tv, tiler)


def make_tiled_copy(atom, layout_tv, tiler_mn, **_) -> TiledCopy:
    return tiled(atom, as_layout(layout_tv), tiler_mn if isinstance(tiler_mn, tuple) else (tiler_mn,))


def make_tiled_copy_tv(atom, thr_layout: Layout, val_layout: Layout, **_) -> TiledCopy:
    tiler_mn, layout_tv = algebra.make_layout_tv(thr_layout, val_layout)
    return tiled(atom, layout_tv, tiler_mn)


@lru_cache(maxsize=4096)
def _thread_layout(layout: Layout, layout_tv: Layout, tiler: tuple, values: int) -> Layout:
    """The tensor's layout as (thread, ((atom values, rest), rest of the tensor…))."""
    divided = algebra.zipped_divide(layout, tiler)
    tile, rest = divided[0], divided[1]
    thread_mode, value_mode = layout_tv[0], layout_tv[1]
    split = algebra.logical_divide(value_mode, values) if values <= la.size(value_mode) else None
    if split is None or la.size(value_mode) % values:
        raise refused(
            f"a copy atom of {values} values does not fit the {la.size(value_mode)} values a thread has in {layout_tv}"
        )
    per_thread = algebra.composition(tile, thread_mode)
    per_value = algebra.composition(tile, split)
    rest_modes = [rest[i] for i in range(la.rank(rest))] if isinstance(rest.shape, tuple) else [rest]
    shape = (per_thread.shape, per_value.shape, *[m.shape for m in rest_modes])
    stride = (per_thread.stride, per_value.stride, *[m.stride for m in rest_modes])
    return Layout(shape, stride)


def _partition(tiled: TiledCopy, thread, tensor):
    if not isinstance(tensor, (Tensor, CoordinateTensor)):
        raise wrong_kind(f"partition_S/partition_D take a tensor, got {type(tensor).__name__}", tensor)
    whole = tensor.relaid(lambda layout: _thread_layout(layout, tiled.layout_tv, tiled.tiler_mn, tiled.atom.values))
    return whole[(thread, *[None] * (la.rank(whole.layout) - 1))]


# ---- running a copy -------------------------------------------------------------------------------------------------


def copy(atom, src, dst, *, pred=None, mbar_ptr=None, **more) -> None:
    """cute.copy: one instruction per atom's worth of values; `pred` switches instructions off."""
    if hasattr(type(atom), "run_copy"):  # one of the rooms for Hopper has its own
        atom.run_copy(src, dst, pred=pred, mbar_ptr=mbar_ptr, **more)
        return
    if isinstance(atom, (TiledCopy, ThrCopy)):
        atom = atom.atom
    if not isinstance(atom, CopyAtom):
        raise not_simulated(f"cute.copy with {type(atom).__name__}")
    if isinstance(src, (list, tuple)):
        raise not_simulated("cute.copy of lists of tensors")
    count = _check_pair(src, dst, "cute.copy")
    if src.dtype.width != dst.dtype.width:
        raise refused(f"cute.copy moves bits: {src.dtype} and {dst.dtype} differ in width")
    values = max(1, atom.bits // src.dtype.width)
    op = atom.op
    wanted, given = (op.source, op.target), (src.memspace, dst.memspace)
    if any(want not in (None, space) for want, space in zip(wanted, given)):
        spoken = [" to ".join(map(_SPACES.get, pair)) for pair in (wanted, given)]
        raise refused(f"{op.name} copies {spoken[0]}, got {spoken[1]}")
    if op.is_bulk:
        bulk_copy(src, dst, mbar_ptr)
        return
    if count % values:
        raise refused(f"cute.copy: {count} values are not a multiple of the atom's {values}")
    instructions = count // values
    keep = None if pred is None else _predicate(pred, src, values, instructions)
    for side in (src, dst):
        if values > 1 and not isinstance(side.pointer.memory, Registers):
            if contiguous_run(side.layout) % values:
                raise refused(f"a {atom.bits}-bit copy needs {values} neighbouring values, but {side} puts them apart")
    if op.is_async:
        issue_cp_async(src, dst, values, keep)
    else:
        _move(src, dst, values, keep)
    for side in (src, dst):  # after what the access itself says, which knows the address
        _require_alignment(side, atom.bits)


def _require_alignment(side: Tensor, bits: int) -> None:
    """The compiler refuses a copy wider than the alignment that it knows of, whatever the address will be."""
    pointer = side.pointer
    known = isinstance(pointer.memory, Registers) or pointer.alignment % (bits // 8) == 0
    if known or STATE.run.assumes:
        return
    raise refused(
        f"the DSL refuses a {bits}-bit copy here: it needs an address known to be a multiple of {bits // 8} bytes, and of this one "
        f"in {pointer.memory.name} a multiple of {pointer.alignment} is known. Take a narrower copy or cute.autovec_copy, or give "
        "the compiler what is true of the tensor (a static stride, divisibility=, assumed_align=) or the offset (cute.assume).",
    )


def _move(src: Tensor, dst: Tensor, width: int, keep) -> None:
    data = read(src.pointer, element_offsets(src.layout), width, keep, src.place(width))
    if src.dtype is not dst.dtype:
        data = dst.dtype.decode(src.dtype.encode(data).view(dst.dtype.storage))
    write(dst.pointer, element_offsets(dst.layout), data, width, keep, dst.place(width))


_SPACES = {Space.GMEM: "global", Space.SMEM: "shared", Space.NONE: "registers", None: "any memory"}


def _check_pair(src, dst, what: str) -> int:
    for side in (src, dst):
        if not isinstance(side, Tensor):
            raise wrong_kind(f"{what} takes tensors, got {type(side).__name__}", side)
    count = la.size(src.layout)
    if count != la.size(dst.layout):
        raise refused(f"{what}: source {src.shape} and destination {dst.shape} differ in size")
    return count


def _predicate(pred, src: Tensor, values: int, instructions: int) -> np.ndarray:
    """The predicate of each instruction, (B|1, T|1, instructions)."""
    if isinstance(pred, Value):
        return np.repeat(pred.a[..., None] != 0, instructions, axis=2)
    if not isinstance(pred, Tensor):
        raise wrong_kind(f"pred must be a tensor of booleans, got {type(pred).__name__}", pred)
    offsets = element_offsets(pred.layout)
    if len(offsets) == instructions * values and values > 1:
        raise refused(
            f"pred has a value for every element {pred.shape}; a {values}-value copy needs one per instruction: "
            "drop the values' mode, for example with stride 0",
        )
    if len(offsets) != instructions:
        if instructions % len(offsets):
            raise refused(f"pred {pred.shape} does not match the {instructions} instructions of {src.shape}")
        # (M, N) predicates repeat over the values' rest mode
        offsets = np.repeat(offsets, instructions // len(offsets))
    return read(pred.pointer, offsets, 1) != 0


def autovec_copy(src, dst, **_) -> None:
    """Copy as wide as both sides' alignment and contiguity allow."""
    _check_pair(src, dst, "autovec_copy")
    sides = [access_width(side) for side in (src, dst) if not isinstance(side.pointer.memory, Registers)]
    _move(src, dst, min(sides) if sides else 1, None)


def basic_copy(src, dst, **_) -> None:
    _check_pair(src, dst, "basic_copy")
    _move(src, dst, 1, None)


def basic_copy_if(pred, src, dst, **_) -> None:
    count = _check_pair(src, dst, "basic_copy_if")
    _move(src, dst, 1, _predicate(pred, src, 1, count))

"""Tensor maps without CuTe's tensors: made of an address, extents and strides, and copied from by coordinates.

| names                                                  | here                                                            |
|--------------------------------------------------------|-----------------------------------------------------------------|
| `create_tensor_map_tiled`                              | extents, strides in units of 16 bytes and the box, innermost first |
| `TensorMap.get_ptr()`                                  | what a copy takes                                               |
| `primitives.cp_async_bulk_tensor_shared_cta_global`    | the box at the coordinates, to this block's shared memory       |

Every lane that is here copies; none is elected. Sources: NVIDIA's documentation of the module, public kernels that use it, CUDA's
driver interface (cuTensorMapEncodeTiled), PTX ISA 9.0. Not covered: im2col, interleaved layouts, steps between elements, swizzles
of other atoms than 16 bytes, other numbers than 0 outside of the tensor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..context import STATE, fail, group, not_simulated, refuse_other, refused
from ..layouts.layout import Layout, make_identity_layout, product
from ..memory.pointers import Pointer
from ..memory.swizzle import Swizzle, by_address
from ..memory.tensor import CoordinateTensor, Tensor, plain
from ..values.numeric import DType, Value
from .tensor_maps import CopyBulkTensorTileG2SOp, Tile, TmaAtom

SWIZZLES = {"none": 0, "s32b": 1, "s64b": 2, "s128b": 3}


@dataclass(frozen=True, eq=False)
class TensorMap:
    """A tensor map, and the box that it copies."""

    atom: TmaAtom
    box_dims: tuple
    swizzle: int  # bits of it

    dtype = property(lambda self: self.atom.dtype)

    def get_ptr(self, **_) -> TensorMap:
        return self


def _number(x, what: str) -> int:
    if isinstance(x, Value):
        found = np.unique(x.a)
        if len(found) != 1:
            raise not_simulated(f"{what} of a tensor map that is not one number")
        x = found[0]
    return int(x)


def create_tensor_map_tiled(
    global_address,
    dtype: DType,
    global_dims,
    global_strides,
    box_dims,
    *,
    swizzle=None,
    l2_promotion=None,
    oob_fill=None,
    **_,
) -> TensorMap:
    word = "none" if swizzle is None else str(swizzle).rpartition(".")[2]
    fill = "none" if oob_fill is None else str(oob_fill).rpartition(".")[2]
    refuse_other("create_tensor_map_tiled with oob_fill", fill, "none")
    refuse_other("create_tensor_map_tiled with swizzle", word, *SWIZZLES)
    dims = tuple(_number(x, "an extent") for x in global_dims)
    strides = (1, *(_number(x, "a stride") * 16 // dtype.itemsize for x in global_strides))
    box = tuple(_number(x, "an extent of the box") for x in box_dims)
    if not len(dims) == len(strides) == len(box) or not 1 <= len(dims) <= 5:
        raise refused(f"a tensor map of {len(dims)} extents has {len(dims) - 1} strides and a box of {len(dims)}")
    if any(not 1 <= n <= 256 for n in box) or box[0] * dtype.itemsize % 16:
        raise refused(f"the box {box} of a tensor map: 1 to 256 a mode, and the first a multiple of 16 bytes")
    if word != "none" and box[0] * dtype.itemsize > 16 << SWIZZLES[word]:
        raise refused(f"the box {box} has rows of more bytes than the swizzle {word} spans")
    address = _number(global_address, "the address")
    for memory in STATE.run.arguments:
        if memory.address <= address < memory.address + memory.array.nbytes:
            pointer = Pointer(memory, dtype, (address - memory.address) // dtype.itemsize, 16)
            tensor, dimensions = Tensor(pointer, Layout(dims, strides)), tuple(zip(dims, strides))
            atom = TmaAtom(CopyBulkTensorTileG2SOp(), tensor, dimensions, product(box))
            return TensorMap(atom, box, SWIZZLES[word])
    raise fail("out of bounds", f"Out of bounds: the address {address} of a tensor map belongs to no argument")


def copy_box(pointer: Pointer, tensor_map, coordinates, barrier: Pointer) -> None:
    """The box at `coordinates`, innermost first, to shared memory from `pointer` on."""
    if not isinstance(tensor_map, TensorMap):
        raise not_simulated(f"a copy by a tensor map that is a {type(tensor_map).__name__}")
    box = tensor_map.box_dims
    if len(coordinates) != len(box):
        raise refused(f"a tensor map of {len(box)} modes takes as many coordinates, got {len(coordinates)}")
    layout = Layout(box, tuple(product(box[:i]) for i in range(len(box))))
    target = pointer if pointer.dtype is tensor_map.dtype else pointer.recast(tensor_map.dtype)
    if tensor_map.swizzle:
        target = by_address(target, Swizzle(tensor_map.swizzle, 4, 3))
    source = CoordinateTensor(tuple(plain(c) for c in coordinates), make_identity_layout(box))
    for b, t in zip(*np.nonzero(group().active())):
        Tile(tensor_map.atom, source, Tensor(target, layout), int(b), int(t)).load(barrier, None)

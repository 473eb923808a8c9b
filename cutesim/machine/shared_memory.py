"""SmemAllocator: places tensors in a block's shared memory."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from ..context import STATE, fail, group, here
from ..layouts import layout as la
from ..memory.pointers import Pointer, SharedAllocation
from ..memory.structs import Struct
from ..memory.swizzle import ComposedLayout, by_address
from ..memory.tensor import Tensor, as_layout
from ..values.numeric import DType, Uint8, constant_number
from .scheduler import SMEM_LIMIT


class SmemAllocator:
    """Hands out shared memory from the block's start; every thread of a block must ask in the same order."""

    is_python_object = True  # to the DSL, which refuses its methods inside a dynamic `if` or loop
    is_static = False  # whether launch(smem=...) does not count it

    def allocate_tensor(self, element_type: DType, layout, byte_alignment=1, swizzle=None, **_) -> Tensor:
        composed = layout if isinstance(layout, ComposedLayout) else None
        layout = as_layout(composed.outer if composed else layout)
        count = composed.reach if composed else la.cosize(layout)
        pointer = self._place(element_type, count, byte_alignment, la.flatten(layout.shape), la.flatten(layout.stride))
        if composed:
            origin = pointer.offset
            pointer = replace(pointer, offset=origin + composed.offset, swizzle=(composed.inner, origin))
        return Tensor(pointer if swizzle is None else by_address(pointer, swizzle), layout)

    def allocate_array(self, element_type: DType, num_elems=1, *, byte_alignment=1, **_) -> Pointer:
        count = constant_number(num_elems, "num_elems")
        return self._place(element_type, count, byte_alignment, (count,), (1,))

    def allocate(self, size_or_type, byte_alignment=1, **_) -> Pointer:
        if isinstance(size_or_type, Struct):
            return self._place_struct(size_or_type, byte_alignment)
        if isinstance(size_or_type, DType):
            return self._place(size_or_type, 1, byte_alignment, (1,), (1,))
        count = constant_number(size_or_type, "the size")
        return self._place(Uint8, count, byte_alignment, (count,), (1,))

    def _place_struct(self, struct: Struct, byte_alignment) -> object:
        g = group()
        align = max(_alignment(byte_alignment), struct.alignment)
        g.smem_top = start = -(-g.smem_top // align) * align
        placed = struct.place(lambda dtype, n, align, name: self._place(dtype, n, align, (n,), (1,), name))
        g.smem_top = start + struct.nbytes
        g.launch.smem_used = max(g.launch.smem_used, g.smem_top)
        return placed

    def _place(self, dtype: DType, count: int, byte_alignment: int, shape, stride, name="") -> Pointer:
        g = group()
        launch = g.launch
        align = max(_alignment(byte_alignment), dtype.itemsize)
        start = -(-g.smem_top // align) * align
        nbytes = count * dtype.itemsize
        brings = f"this allocation brings the block to {start + nbytes:,} bytes of shared memory"
        if start + nbytes > SMEM_LIMIT:
            raise fail("shared memory", f"{brings}; Hopper allows {SMEM_LIMIT:,}")
        if not self.is_static and 0 < launch.dynamic_smem < start + nbytes:
            asked = f"the launch asks for smem={launch.dynamic_smem:,}"
            raise fail("shared memory", f"{brings}, and {asked}: leave smem= away, and CuTe DSL counts them")
        g.smem_top = start + nbytes
        launch.smem_used = max(launch.smem_used, g.smem_top)
        allocation = launch.allocations.get((start, nbytes, dtype))
        if allocation is None:
            shape = shape if isinstance(shape, tuple) else (shape,)
            stride = stride if isinstance(stride, tuple) else (stride,)
            variable = re.match(r"\s*(\w+)\s*=", here().text)  # that the kernel assigns it to
            name = name or (variable[1] if variable else "shared memory")
            allocation = SharedAllocation(name, dtype, shape, stride, start, nbytes)
            launch.allocations[(start, nbytes, dtype)] = allocation
        self._poison(allocation)
        return Pointer(allocation, dtype, start // dtype.itemsize, min(align & -align, 128))

    def _poison(self, allocation: SharedAllocation) -> None:
        """Fill new memory with a value that shows when it is used before it is written.

        It is that of the whole cluster: a block may send to another one's memory before that one comes to its allocation.
        """
        g = group()
        launch = g.launch
        blocks = launch.cluster_size
        first_row, last_row = (int(row) // blocks * blocks for row in (g.rows[0], g.rows[-1]))
        key = (first_row, allocation.start)
        if key in launch.poisoned:
            return
        launch.poisoned.add(key)
        size = allocation.dtype.itemsize
        flat = launch.shared_flat(allocation.dtype).reshape(len(launch.shared), -1)
        first, count = allocation.start // size, allocation.nbytes // size
        places = lambda: np.arange(2)[:, None] + np.arange(count)  # noqa: E731, of a block of an even number and of an odd one
        fill = STATE.run.poison(allocation.dtype, places)
        fill = allocation.dtype.encode(np.array(fill, allocation.dtype.carrier, ndmin=2))
        odd = launch.row_blocks[first_row : last_row + blocks] % len(fill)
        flat[first_row : last_row + blocks, first : first + count] = fill[odd]


def _alignment(number) -> int:
    """A byte_alignment, which CuTe DSL rounds addresses up with as if it were a power of two, whatever it is."""
    align = constant_number(number, "byte_alignment")
    if align < 1 or align & align - 1:
        text = f"byte_alignment is {align}, and an alignment is a power of two: the compiler would place this anywhere."
        raise fail("alignment", text)
    return align

"""Single loads and stores by a pointer, prefetches, and shared memory without an allocator.

| names                                            | here                                                                     |
|--------------------------------------------------|--------------------------------------------------------------------------|
| `arch.load`, `arch.store`                        | one access of a number or of a vector; with `sem` one that atomics may meet |
| `arch.red`, `arch.atomic_fmax`, `atomic_max_float32` | atomics                                                              |
| `arch.prefetch`, `cute.prefetch`                 | nothing: there are no caches                                             |
| `arch.alloc_smem`, `arch.get_dyn_smem`           | shared memory, as SmemAllocator places it                                |

Sources: PTX ISA 9.0 (ld, st, red, prefetch). A `volatile` access counts as a relaxed one.
"""

from __future__ import annotations

import numpy as np

from ..context import group, not_simulated, refused
from ..dialect.assembly import TYPES, _word
from ..dialect.dialects import Vector, VectorType
from ..machine.atomics import lane_by_lane, run_atomic
from ..machine.scheduler import SMEM_LIMIT
from ..machine.shared_memory import SmemAllocator
from ..memory import pointers as m
from ..values.numeric import DType, Float32, Int32, TensorSSA, Value, constant_number, convert, scalar


def _pointer(x, dtype: DType) -> m.Pointer:
    if hasattr(x, "pointer"):  # a tensor, an array
        x = x.pointer
    if not isinstance(x, m.Pointer):
        return m.pointer_at(dtype, x)
    return x if x.dtype is dtype else x.recast(dtype)


def _order(sem) -> str | None:
    """The memory order that a load or store asks for, in the PTX's words; None for an ordinary one."""
    said = str(sem or "").rpartition(".")[2].lower()
    return None if said in ("", "none", "weak") else said


def _vector(pointer: m.Pointer, count: int) -> tuple:
    """The offsets of `count` neighbours, and how many of them one access moves: a power of two of at most 16 bytes."""
    width = 1 if count & (count - 1) else min(count, max(1, 16 // pointer.dtype.itemsize))
    return np.arange(count, dtype=np.int64), width


def _own(pointer: m.Pointer, name: str) -> m.Pointer:
    """The pointer, unless it leads to another block's shared memory, where the compiler has neither of these."""
    if pointer.rows is not None:
        raise refused(
            f"cute.arch.{name} takes no pointer of map_dsmem_ptr, which the compiler refuses: call its .{name}()"
        )
    return pointer


@lane_by_lane
def load(ptr, dtype=None, *, sem=None, scope=None, **_):
    """The number at a pointer, or the vector."""
    element = ptr.dtype if dtype is None else dtype
    element, count = (element.dtype, element.count) if isinstance(element, VectorType) else (element, 1)
    pointer, order = _own(_pointer(ptr, element), "load"), _order(sem)
    if order is None:
        found = m.read(pointer, *_vector(pointer, count))
        values = [Value(pointer.dtype, found[..., i]) for i in range(count)]
    else:
        word = _word(pointer.dtype)
        places = ((pointer + i if i else pointer).recast(word) for i in range(count))
        olds = [run_atomic("or", place, convert(0, word), order, scope=scope) for place in places]
        values = [old.bitcast(pointer.dtype) for old in olds]
    return Vector(values) if isinstance(dtype, VectorType) else values[0]


@lane_by_lane
def store(ptr, val, *, sem=None, scope=None, **_) -> None:
    if isinstance(val, Vector):
        values = list(val.to_elements())
    elif isinstance(val, TensorSSA):
        values = [Value(val.dtype, val.a[..., i]) for i in range(val.a.shape[-1])]
    else:
        values = [scalar(val)]
    dtype = values[0].dtype
    if isinstance(ptr, m.Pointer) and ptr.dtype.width == dtype.width:
        dtype = ptr.dtype if ptr.dtype.is_float == dtype.is_float else dtype
    pointer, order = _own(_pointer(ptr, dtype), "store"), _order(sem)
    if order is None:
        new = [np.broadcast_to(convert(value, pointer.dtype).a, group().shape) for value in values]
        offsets, width = _vector(pointer, len(values))
        m.write(pointer, offsets, np.stack(new, axis=-1), width)
        return
    for i, value in enumerate(values):
        run_atomic("exch", pointer + i if i else pointer, convert(value, dtype), order, scope=scope)


def atomic_add(dst_ptr, val, **_) -> Value:
    """cutlass.utils.distributed.atomicAdd: relaxed, of the whole system."""
    return run_atomic("add", _pointer(dst_ptr, Int32), convert(val, Int32), "relaxed")


_REDUCTIONS = {"umin": "min", "umax": "max"}


@lane_by_lane
def red(ptr, val, *, op, dtype=None, sem=None, scope=None, **_) -> None:
    """An atomic whose old value nobody wants."""
    kind = dtype if isinstance(dtype, DType) else TYPES.get(str(dtype)) if dtype is not None else None
    if kind is None and dtype is not None:
        raise not_simulated(f"red of {dtype}")
    value = scalar(val)
    name = _REDUCTIONS.get(str(op).lower(), str(op).lower())
    run_atomic(name, _pointer(ptr, kind or value.dtype), value, sem, scope=scope)


@lane_by_lane
def atomic_fmax(ptr, val, *, sem=None, scope=None, **_) -> Value:
    """A NaN in memory or given leaves the other."""
    return run_atomic("fmax", _pointer(ptr, Float32), convert(val, Float32), sem, scope=scope)


def atomic_max_float32(ptr, value, *, positive_only=True, **_) -> Value:
    return atomic_fmax(ptr, value)


def prefetch(*_, **__) -> None:
    """A hint to the caches, which there are none of."""


def alloc_smem(element_type: DType, size_in_elems, alignment=None, **_) -> m.Pointer:
    count = constant_number(size_in_elems, "alloc_smem's size")
    allocator = SmemAllocator()
    allocator.is_static = True
    return allocator.allocate_array(element_type, count, byte_alignment=alignment or element_type.itemsize)


def get_dyn_smem(element_type: DType, alignment=None, **_) -> m.Pointer:
    """The start of the block's dynamic shared memory, all that the launch asks for."""
    launch = group().launch
    size = getattr(launch, "dynamic_smem", None) or 0
    if not size:
        raise not_simulated("get_dyn_smem in a launch without smem=")
    known = launch.allocations.get(("dynamic", 0))
    if known is None:
        known = m.SharedAllocation("dynamic shared memory", element_type, (size,), (1,), 0, size)
        launch.allocations[("dynamic", 0)] = known
        launch.smem_used = max(launch.smem_used, size)
    return m.Pointer(known, element_type, 0, alignment or 1024)


def dynamic_smem_size(**_) -> Value:
    return convert(getattr(group().launch, "dynamic_smem", None) or 0, Int32)


CAPACITIES = {  # as CuTe DSL 4.8.1 gives them
    **dict.fromkeys(("sm_80", "sm_87"), 166_912),
    **dict.fromkeys(("sm_86", "sm_89", "sm_120", "sm_121"), 101_376),
    **dict.fromkeys(("sm_90", "sm_100", "sm_103", "sm_110"), SMEM_LIMIT),
}


def capacity(compute_capability=None, **_) -> int:
    """Bytes of shared memory that a block may use."""
    said = str(compute_capability or "sm_90")
    if said not in CAPACITIES:
        raise refused(f"get_smem_capacity_in_bytes({said}): one of {', '.join(CAPACITIES)}")
    return CAPACITIES[said]

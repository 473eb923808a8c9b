"""cutlass.Array, vectors and pointers made of numbers: memory without CuTe's layouts.

| names                                             | here                                                                  |
|---------------------------------------------------|-----------------------------------------------------------------------|
| `Array(dtype, shape, space=, alignment=)`         | registers or shared memory, row-major; a store converts               |
| `Array.load(index, vector_size)`, `.store`        | one number, or neighbours in accesses as wide as the alignment allows |
| `inttoptr(address, space, dtype)`                 | a pointer, whose `load(count=, alignment=)` gives a vector            |
| `Vector`, `vector.full`                           | `dialects.Vector`                                                     |

Sources: signatures, messages and PTX of small kernels. Not covered: views of arrays (`subview`, slices, an index that leaves modes
out), masked and ordered accesses, arrays in global memory; each is refused by its name.
"""

from __future__ import annotations

import math

import numpy as np

from cutesim.trace import Space

from ..context import group, not_simulated, wrong_kind
from ..dialect.dialects import Vector
from ..layouts.layout import Layout, crd2idx, product
from ..machine.shared_memory import SmemAllocator
from ..memory import pointers as m
from ..memory.tensor import make_rmem_tensor, plain
from ..values.numeric import DType, Value, constant_number, convert, scalar

# By the numbers that LLVM's address spaces have.
MEMORIES = {0: None, 1: Space.GMEM, 3: Space.SMEM, 7: Space.SMEM}


def _width(pointer: m.Pointer, count: int, alignment) -> int:
    """Elements an access: the compiler goes by the alignment that is stated, of which it knows the element's own otherwise."""
    if pointer.memspace is Space.NONE:
        return 1
    size = pointer.dtype.itemsize
    return math.gcd(count, max(1, min(alignment or size, 16) // size))


def load_elements(pointer: m.Pointer, count: int, alignment=None) -> Vector:
    found = m.read(pointer, np.arange(count, dtype=np.int64), _width(pointer, count, alignment))
    return Vector(Value(pointer.dtype, found[..., i]) for i in range(count))


def store_elements(pointer: m.Pointer, vector: Vector, alignment=None) -> None:
    if vector.dtype is not pointer.dtype:
        raise not_simulated(f"a store of a vector of {vector.dtype} by a pointer to {pointer.dtype}")
    count, shape = vector.numel(), group().shape
    values = np.stack([np.broadcast_to(x.a, shape) for x in vector.elements], axis=-1)
    m.write(pointer, np.arange(count, dtype=np.int64), values, _width(pointer, count, alignment))


def inttoptr(value, mem_space, dtype: DType, **_) -> m.Pointer:
    """A pointer to the byte address `value`."""
    is_number = isinstance(mem_space, int) and not isinstance(mem_space, Space)
    if is_number and mem_space not in MEMORIES:
        raise not_simulated(f"inttoptr with mem_space={mem_space}")
    space = MEMORIES[mem_space] if is_number else mem_space
    return m.pointer_at(dtype, value, None if space is Space.NONE else space)


def full(shape, fill_value, dtype: DType | None = None, **_) -> Vector:
    (count,) = shape if isinstance(shape, (tuple, list)) and len(shape) == 1 else (None,)
    if count is None:
        raise not_simulated(f"cutlass.vector.full of the shape {shape}")
    value = scalar(fill_value) if dtype is None else convert(fill_value, dtype)
    return Vector([value] * count)


class Array:
    """Numbers of one type in registers or in shared memory, by their coordinates; the last mode is contiguous."""

    def __init__(self, base=None, shape=None, *, space=None, alignment=None, **_):
        if not isinstance(base, DType) or shape is None:
            raise not_simulated("cutlass.Array with no type and shape")
        extents = shape if isinstance(shape, tuple) else (shape,)
        self.shape = tuple(constant_number(n, "an extent of cutlass.Array") for n in extents)
        self.strides = tuple(product(self.shape[i + 1 :]) for i in range(len(self.shape)))
        self.align = alignment or base.itemsize
        layout = Layout(self.shape, self.strides)
        if space is None or space is Space.NONE:
            made = make_rmem_tensor(layout, base)
        elif space is Space.SMEM:
            made = SmemAllocator().allocate_tensor(base, layout, self.align)
        else:
            raise not_simulated("cutlass.Array in global memory")
        self.pointer, self.space = made.pointer, made.memspace

    dtype = property(lambda self: self.pointer.dtype)

    _carries_values = True

    def _copied(self) -> Array:
        return self

    def _joined(self, other: Array, join) -> Array:
        """The array that a dynamic `if` or loop rebinds: this one's memory or the other's, lane by lane."""
        if self.shape != other.shape or self.align != other.align:
            raise not_simulated(f"{self!r} rebound to {other!r}")
        made = object.__new__(Array)
        made.__dict__.update(self.__dict__, pointer=join("pointer", self.pointer, other.pointer))
        return made

    def __getattr__(self, name: str):
        if name.startswith("_"):
            raise AttributeError(name)
        raise not_simulated(f"cutlass.Array.{name}")

    def __repr__(self) -> str:
        return f"Array({self.dtype}, {self.shape})"

    __iter__ = None  # Python would count up for ever

    def data_ptr(self, **_) -> m.Pointer:
        return self.pointer

    def _at(self, index) -> m.Pointer:
        index = index if isinstance(index, tuple) else (index,)
        if len(index) != len(self.shape) or not all(isinstance(i, (int, Value)) for i in index):
            raise not_simulated(f"an index {index} of a cutlass.Array of {len(self.shape)} modes")
        flat = crd2idx(plain(index), self.shape, self.strides)
        return self.pointer.shifted(flat, self.dtype.itemsize)

    def __getitem__(self, index) -> Value:
        return self._at(index).load()

    def __setitem__(self, index, value) -> None:
        self._at(index).store(value)

    def load(self, idx=0, vector_size=None, *, alignment=None, **more):
        _plain_access(more)
        place = self._at(self._first(idx))
        if vector_size is None:
            return place.load()
        return load_elements(place, vector_size, alignment or self.align)

    def store(self, value, idx=0, vector_size=None, *, alignment=None, **more) -> None:
        _plain_access(more)
        place = self._at(self._first(idx))
        if not isinstance(value, Vector):
            place.store(value)
        elif vector_size not in (None, value.numel()):
            raise not_simulated(f"cutlass.Array.store of {value.numel()} numbers with vector_size={vector_size}")
        else:
            store_elements(place, value, alignment or self.align)

    def _first(self, idx):
        return (0,) * len(self.shape) if isinstance(idx, int) and idx == 0 else idx


def _plain_access(options: dict) -> None:
    harmless = ("loc", "ip", "is_nontemporal", "is_invariant")
    said = [name for name, x in options.items() if x and name not in harmless]
    if said:
        raise not_simulated(f"cutlass.Array.load or store with {', '.join(said)}")


def pointer_of(x) -> m.Pointer:
    """The pointer of an address that a primitive is given."""
    pointer = x.pointer if isinstance(x, Array) else x
    if not isinstance(pointer, m.Pointer):
        raise wrong_kind(f"a primitive takes a pointer or a cutlass.Array, got {type(x).__name__}", x)
    return pointer

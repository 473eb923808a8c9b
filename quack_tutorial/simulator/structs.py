"""@cute.struct: a layout of shared memory by name, which SmemAllocator.allocate places.

| annotation                        | attribute of what is allocated                         |
|-----------------------------------|--------------------------------------------------------|
| `cutlass.Int32`                   | a pointer to one                                       |
| `cute.struct.MemRange[type, n]`   | `.data_ptr()`, `.get_tensor(layout)`                   |
| `cute.struct.Align[field, bytes]` | the same, at a multiple of so many bytes               |
| another struct                    | that, placed there                                     |

Members lie in the order of the annotations, each at its own alignment. Not covered: unions, swizzles.
"""

from __future__ import annotations

from dataclasses import dataclass

from .context import not_simulated
from .numeric import TYPES, DType


@dataclass(frozen=True)
class MemRange:
    dtype: DType
    count: int

    alignment = property(lambda self: self.dtype.itemsize)
    nbytes = property(lambda self: self.dtype.itemsize * self.count)


@dataclass(frozen=True)
class Align:
    field: object
    alignment: int

    nbytes = property(lambda self: self.field.nbytes)


class _Brackets:
    """`MemRange[dtype, count]`, as an annotation."""

    def __init__(self, make):
        self.make = make

    def __getitem__(self, given):
        return self.make(*given)


class Struct:
    """A struct of named fields, each with its offset."""

    def __init__(self, name: str, fields: dict):
        self.name, self.fields, at, self.alignment = name, {}, 0, 1
        for field, kind in fields.items():
            kind = MemRange(kind, 1) if isinstance(kind, DType) else kind
            if not isinstance(kind, (MemRange, Align, Struct)):
                raise not_simulated(f"{name}.{field}: {kind!r} as a field of cute.struct")
            at = -(-at // kind.alignment) * kind.alignment
            self.fields[field] = (at, kind, isinstance(fields[field], DType))
            at += kind.nbytes
            self.alignment = max(self.alignment, kind.alignment)
        self.nbytes = -(-at // self.alignment) * self.alignment

    def size_in_bytes(self, **_) -> int:
        return self.nbytes

    __sizeof__ = size_in_bytes

    def place(self, allocate) -> Placed:
        """What the fields are, `allocate(dtype, count, alignment, name)` giving the memory of each, in this order."""
        placed = {}
        for name, (_, kind, single) in self.fields.items():
            align = kind.alignment
            while isinstance(kind, Align):
                kind = kind.field if not isinstance(kind.field, DType) else MemRange(kind.field, 1)
            if isinstance(kind, Struct):
                placed[name] = kind.place(allocate)
            else:
                pointer = allocate(kind.dtype, kind.count, align, name)
                placed[name] = pointer if single else Range(pointer, kind.count)
        return Placed(self.name, placed)


class Placed:
    """A struct in a block's shared memory: its fields by name."""

    is_python_object = True

    def __init__(self, name: str, fields: dict):
        self.__dict__.update(fields)
        self.__dict__["_name"] = name

    def __repr__(self) -> str:
        return f"<{self._name} in shared memory>"


@dataclass(frozen=True)
class Range:
    """A MemRange in a block's shared memory."""

    pointer: object
    count: int

    def data_ptr(self, **_):
        return self.pointer

    def get_tensor(self, layout, swizzle=None, dtype=None, **_):
        from .tensor import make_tensor

        if swizzle is not None:
            raise not_simulated("a swizzled shared tensor")
        return make_tensor(self.pointer if dtype is None else self.pointer.recast(dtype), layout)


class _Decorator:
    """cute.struct, with MemRange and Align."""

    MemRange = _Brackets(MemRange)
    Align = _Brackets(Align)

    def __call__(self, cls):
        return Struct(cls.__name__, dict(cls.__annotations__))


struct = _Decorator()


def twin_of(made) -> Struct:
    """The struct that the real DSL's decorator made of a class, by the annotations of that class."""
    fields = {}
    for name, kind in made._cls.__annotations__.items():
        if type(kind).__name__ == "struct":
            fields[name] = twin_of(kind)
        else:  # a type by its name: Int32, or struct.MemRange[Int64, 2]
            fields[name] = eval(kind.__name__, {"struct": struct, **TYPES})
    return Struct(made._cls.__name__, fields)

"""@cute.struct: a layout of shared memory by name, which SmemAllocator.allocate places.

| annotation                        | attribute of what is allocated                         |
|-----------------------------------|--------------------------------------------------------|
| `cutlass.Int32`                   | a pointer to one, also as `.ptr`; assigning stores     |
| `cute.struct.MemRange[type, n]`   | `.data_ptr()`, `.get_tensor(layout)`, `[i]`            |
| `cute.struct.Align[field, bytes]` | the same, at a multiple of so many bytes               |
| another struct                    | that, placed there                                     |

Members lie in the order of the annotations, each at its own alignment. Not covered: unions.
"""

from __future__ import annotations

import ast
import linecache
import sys
from dataclasses import dataclass

from ..context import not_simulated
from ..values.numeric import DType, Uint8
from .pointers import Pointer
from .swizzle import by_address
from .tensor import make_tensor


class _Brackets:
    """`MemRange[dtype, count]`, as an annotation."""

    def __class_getitem__(cls, given):
        return cls(*given)


@dataclass(frozen=True)
class MemRange(_Brackets):
    dtype: DType
    count: int

    alignment = property(lambda self: self.dtype.itemsize)
    nbytes = property(lambda self: self.dtype.itemsize * self.count)


@dataclass(frozen=True)
class Align(_Brackets):
    field: object
    alignment: int

    nbytes = property(lambda self: getattr(self.field, "nbytes", None) or self.field.itemsize)


class Struct:
    """A struct of named fields, each with its offset."""

    def __init__(self, name: str, fields: dict):
        self.name, self.fields, at, self.alignment = name, {}, 0, 1
        for field, kind in fields.items():
            kind = MemRange(kind, 1) if isinstance(kind, DType) else kind
            if not isinstance(kind, (MemRange, Align, Struct)):
                raise not_simulated(f"{name}.{field}: {kind!r} as a field of cute.struct")
            at = -(-at // kind.alignment) * kind.alignment
            single = isinstance(kind.field if isinstance(kind, Align) else fields[field], DType)
            self.fields[field] = (at, kind, single)
            at += kind.nbytes
            self.alignment = max(self.alignment, kind.alignment)
        self.nbytes = -(-at // self.alignment) * self.alignment

    def size_in_bytes(self, **_) -> int:
        return self.nbytes

    __sizeof__ = size_in_bytes

    def __call__(self, pointer) -> Placed:
        """The struct in memory that is there already, from `pointer` on."""
        if not isinstance(pointer, Pointer):
            raise not_simulated(f"{self.name} of a {type(pointer).__name__}")
        first, taken = pointer.recast(Uint8), 0

        def at(dtype, count, alignment, _):
            nonlocal taken
            start = -(-taken // alignment) * alignment
            taken = start + count * dtype.itemsize
            return (first + start).recast(dtype)

        return self.place(at)

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

    def __init__(self, name: str, fields: dict):
        self.__dict__.update(fields)
        self.__dict__["_name"] = name

    def __setattr__(self, name: str, value) -> None:
        """`storage.count = 3` stores a number."""
        field = vars(self).get(name)
        if not isinstance(field, Pointer):
            raise not_simulated(f"storing in {self._name}.{name}, which is no single number")
        field.store(value)

    def __repr__(self) -> str:
        return f"<{self._name} in shared memory>"


@dataclass(frozen=True)
class Range:
    """A MemRange in a block's shared memory."""

    pointer: object
    count: int

    def data_ptr(self, **_):
        return self.pointer

    __iter__ = None  # Python would count up for ever

    def __getitem__(self, index):
        return (self.pointer + index).load()

    def __setitem__(self, index, value) -> None:
        (self.pointer + index).store(value)

    def get_tensor(self, layout, swizzle=None, dtype=None, **_):
        pointer = self.pointer if dtype is None else self.pointer.recast(dtype)
        return make_tensor(pointer if swizzle is None else by_address(pointer, swizzle), layout)


class _Decorator:
    """cute.struct, with MemRange and Align."""

    MemRange, Align = MemRange, Align

    def __call__(self, cls):
        return Struct(cls.__name__, dict(cls.__annotations__))


struct = _Decorator()


def twin_of(made, names_of) -> Struct:
    """The struct that the real DSL's decorator made of a class: what the class says itself, read from its file.

    `names_of(module)` gives the names that its annotations use, as the simulator has them.
    """
    name = made.__name__.rpartition("::")[2]
    for module in list(sys.modules.values()):
        if vars(module).get(name) is made:
            break
    else:
        raise not_simulated(f"the cute.struct {name}, which is not at the top of a module,")
    names = names_of(module)
    fields = {}
    for statement in _annotations(module, name):
        said = statement.annotation
        text = said.value if isinstance(said, ast.Constant) else ast.unparse(said)
        fields[statement.target.id] = eval(text, {}, names)
    return Struct(name, fields)


def _annotations(module, name: str) -> list:
    """The annotated names of a decorated class, from the source of its module or of a notebook's cells."""
    file = getattr(module, "__file__", None)
    for source in [file] if file else reversed(list(linecache.cache)):
        text = "".join(linecache.getlines(source))
        try:
            tree = ast.parse(text)
        except SyntaxError:
            continue
        for node in reversed(list(ast.walk(tree))):
            if isinstance(node, ast.ClassDef) and node.name == name:
                if any(ast.unparse(d).rpartition(".")[2] == "struct" for d in node.decorator_list):
                    return [s for s in node.body if isinstance(s, ast.AnnAssign)]
    raise not_simulated(f"the cute.struct {name}, whose source is not to be found,")

"""Kernel arguments: numpy arrays and CPU torch tensors become simulated global memory that shares their bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .layout import Layout
from .memory import GlobalMemory, Pointer
from .numeric import TYPES, BFloat16, Boolean, DType
from .tensor import Tensor, make_identity_tensor

_BY_NUMPY = {t.storage: t for t in TYPES.values() if t not in (BFloat16, Boolean)}
_BY_TORCH = {
    "float64": "Float64",
    "float32": "Float32",
    "float16": "Float16",
    "bfloat16": "BFloat16",
    "int64": "Int64",
    "int32": "Int32",
    "int16": "Int16",
    "int8": "Int8",
    "uint8": "Uint8",
    "bool": "Boolean",
}


@dataclass(frozen=True, eq=False)
class Array:
    """A numpy array of bits with a DSL type that numpy lacks: `Array.bf16(x)` holds bfloat16 without torch."""

    bits: np.ndarray
    dtype: DType

    @classmethod
    def bf16(cls, x) -> Array:
        """Round numbers to bfloat16."""
        return cls(BFloat16.encode(BFloat16.round(np.asarray(x, np.float32))), BFloat16)

    def numpy(self) -> np.ndarray:
        """The values, as float32 for bfloat16."""
        return self.dtype.decode(self.bits)


def is_tensor(x) -> bool:
    return isinstance(x, (np.ndarray, Array)) or hasattr(x, "untyped_storage")


def as_array(x):
    """(numpy array sharing the bytes, DSL type) of an argument; raises TypeError with what to do."""
    if isinstance(x, Array):
        return x.bits, x.dtype
    if isinstance(x, np.ndarray):
        dtype = Boolean if x.dtype == bool else _BY_NUMPY.get(x.dtype)
        if dtype is None:
            raise TypeError(
                f"the simulator takes no {x.dtype} array; use one of {', '.join(sorted(map(str, _BY_NUMPY)))}"
            )
        return (x.view(np.uint8) if dtype is Boolean else x), dtype
    if x.device.type != "cpu":
        raise TypeError(
            f"the simulator works on CPU tensors, this one is on {x.device}; use quack_tutorial.launch, or tensor.cpu()"
        )
    name = str(x.dtype).removeprefix("torch.")
    if name not in _BY_TORCH:
        raise TypeError(f"the simulator takes no torch.{name} tensor")
    dtype = TYPES[_BY_TORCH[name]]
    x = x.detach()
    if dtype is BFloat16:
        import torch

        return x.view(torch.int16).numpy().view(np.uint16), dtype
    return (x.numpy().view(np.uint8) if dtype is Boolean else x.numpy()), dtype


def _root(array: np.ndarray) -> int:
    """The address where the array's storage starts."""
    base = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    return base.__array_interface__["data"][0]


class AddressSpace:
    """Gives each storage a simulated base address, 512-byte aligned as the CUDA allocator's are."""

    def __init__(self):
        self.next = 1 << 28
        self.bases: dict = {}

    def place(self, array: np.ndarray, storage_address: int) -> int:
        if storage_address not in self.bases:
            self.bases[storage_address] = self.next
            self.next += (array.nbytes + 4096) // 512 * 512 + (1 << 22)
        return self.bases[storage_address] + array.__array_interface__["data"][0] - storage_address


def global_tensor(x, name: str, space: AddressSpace) -> Tensor:
    """The simulated tensor of an argument."""
    array, dtype = as_array(x)
    if any(s < 0 for s in array.strides):
        raise TypeError(f"{name} has a negative stride; pass a copy")
    item = array.itemsize
    if any(s % item for s in array.strides):
        raise TypeError(f"{name}'s strides are not whole elements; pass a copy")
    shape = array.shape or (1,)
    stride = tuple(s // item for s in array.strides) or (1,)
    stride = tuple(1 if d == 1 and s > 1 << 40 else s for s, d in zip(stride, shape))
    extent = 0 if array.size == 0 else sum((d - 1) * s for d, s in zip(shape, stride)) + 1
    flat = (
        np.lib.stride_tricks.as_strided(array, (extent,), (item,), writeable=True)
        if extent
        else np.empty(0, array.dtype)
    )
    storage = x.untyped_storage().data_ptr() if hasattr(x, "untyped_storage") else _root(array)
    address = space.place(array, storage)
    memory = GlobalMemory(name, dtype, flat, tuple(shape), stride, address)
    align = min(16, address & -address)
    coords = make_identity_tensor(_one(shape))
    return Tensor(Pointer(memory, dtype, 0, align), Layout(_one(shape), _one(stride)), coords)


def _one(values: tuple):
    return tuple(int(v) for v in values)

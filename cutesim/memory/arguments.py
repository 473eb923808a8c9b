"""Kernel arguments: numpy arrays and CPU torch tensors become simulated global memory that shares their bytes."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass

import numpy as np

from ..context import ADVICE, STATE
from ..layouts.layout import Extent, Layout
from ..values.numeric import TYPES, BFloat16, Boolean, DType
from .pointers import LOWEST_ADDRESS, GlobalMemory, Pointer
from .tensor import Tensor, make_identity_tensor

_BY_NUMPY = {t.storage: t for t in TYPES.values() if t.storage == t.carrier}
_BY_TORCH = {name.lower(): dtype for name, dtype in TYPES.items()}
_BY_TORCH |= {"float8_e4m3fn": TYPES["Float8E4M3FN"], "float8_e5m2": TYPES["Float8E5M2"], "bool": Boolean}


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


@dataclass(frozen=True)
class Known:
    """What the compiler knows of a tensor: which extents and strides, None for all, and the alignment of its address in bytes.

    shape and stride have an entry a mode: 0 for what it knows, else the divisor of what it does not.
    """

    shape: tuple | None = None
    stride: tuple | None = None
    align: int | None = None

    def layout(self, shape: tuple, stride: tuple) -> Layout:
        shape_div, stride_div = self.shape or (0,) * len(shape), self.stride or (0,) * len(shape)
        extents = tuple(Extent(n, div) if div else n for n, div in zip(shape, shape_div))
        return Layout(extents, tuple(Extent(d, div, 64) if div else d for d, div in zip(stride, stride_div)))


def known_directly(shape: tuple, stride: tuple, leading: int | None = None) -> Known:
    """What CuTe DSL knows of a tensor passed directly, or after mark_layout_dynamic: that one stride is 1, and which are 0."""
    ones = [i for i, d in enumerate(stride) if d == 1]
    if leading is None and len(ones) > 1:
        wider = [i for i in ones if shape[i] > 1]
        ones = wider or ones[-1:]
    leading = ones[0] if leading is None and ones else leading
    return Known((1,) * len(shape), tuple(0 if d == 0 or i == leading else 1 for i, d in enumerate(stride)))


class HostTensor:
    """What from_dlpack gives: a tensor, and what of it is known while compiling; all, until it is marked."""

    def __init__(self, tensor, assumed_align=None):
        self.tensor = tensor
        array, self.element_type = as_array(tensor)
        item = array.itemsize
        self.shape, self.stride = array.shape, tuple(s // item for s in array.strides)
        self.known = Known(align=assumed_align or item)

    dtype = property(lambda self: self.element_type)

    def mark_layout_dynamic(self, leading_dim=None) -> HostTensor:
        """No extent is known, and of the strides only that of `leading_dim`, which is 1, and those that are 0."""
        if leading_dim is not None and self.stride[leading_dim] != 1:
            raise ValueError(f"leading_dim={leading_dim} has the stride {self.stride[leading_dim]}, not 1")
        known = known_directly(self.shape, self.stride, leading_dim)
        self.known = Known(known.shape, known.stride, self.known.align)
        return self

    def mark_compact_shape_dynamic(self, mode, stride_order=None, divisibility=1) -> HostTensor:
        """The extent of `mode` is known only to be a multiple of `divisibility`; so are the strides made of it."""
        if self.shape[mode] % divisibility:
            raise ValueError(
                f"the extent {self.shape[mode]} of mode {mode} is not a multiple of divisibility={divisibility}"
            )
        shape_div = list(self.known.shape or (0,) * len(self.shape))
        stride_div = list(self.known.stride or (0,) * len(self.shape))
        shape_div[mode] = divisibility
        order = sorted(range(len(self.shape)), key=lambda i: (self.stride[i], self.shape[i] != 1))
        if stride_order is not None:  # outermost first
            order = list(reversed(stride_order))
        step, div = 1, 1
        for i in order:
            if self.stride[i] != step and self.shape[i] != 1:
                raise ValueError(f"mark_compact_shape_dynamic needs a compact layout, got {self.shape}:{self.stride}")
            if mode in order[: order.index(i)]:
                stride_div[i] = div
            step *= self.shape[i]
            div *= shape_div[i] or self.shape[i]
        self.known = Known(tuple(shape_div), tuple(stride_div), self.known.align)
        return self


def is_tensor(x) -> bool:
    known = isinstance(x, (np.ndarray, Array, HostTensor)) or hasattr(x, "untyped_storage")
    return known or _is_dsl_tensor(x)


def _is_dsl_tensor(x) -> bool:
    """Whether this is what the real DSL's from_dlpack gives, by its public attributes."""
    return hasattr(x, "dynamic_shapes_mask") and hasattr(x, "data_ptr")


def _from_dsl(x) -> tuple:
    """(a numpy array over the bytes of the real DSL's tensor in CPU memory, its type), by its public attributes."""
    dtype = TYPES[str(x.element_type)]
    extent = sum((n - 1) * d for n, d in zip(x.shape, x.stride)) + 1
    flat = np.frombuffer((ctypes.c_uint8 * (extent * dtype.itemsize)).from_address(x.data_ptr), dtype.storage)
    strides = tuple(d * dtype.itemsize for d in x.stride)
    return np.lib.stride_tricks.as_strided(flat, x.shape, strides, writeable=True), dtype


def _known(x, dynamic) -> Known:
    """What the compiler knows of an argument. `dynamic`: True for what CuTe DSL knows of a tensor passed directly, or modes."""
    if isinstance(x, HostTensor):
        return x.known
    if _is_dsl_tensor(x):
        return Known(tuple(map(int, x.dynamic_shapes_mask)), tuple(map(int, x.dynamic_strides_mask)))
    if not dynamic:
        return Known()
    array, dtype = as_array(x)
    shape, stride = array.shape, tuple(s // array.itemsize for s in array.strides)
    if dynamic is True:
        return known_directly(shape, stride)
    marked = HostTensor(x)
    for mode in (dynamic,) if isinstance(dynamic, int) else dynamic:
        marked.mark_compact_shape_dynamic(mode)
    return Known(marked.known.shape, marked.known.stride)


def as_array(x):
    """(numpy array sharing the bytes, DSL type) of an argument; raises TypeError with what to do."""
    if isinstance(x, Array):
        return x.bits, x.dtype
    if isinstance(x, HostTensor):
        array, dtype = as_array(x.tensor)
        # A caller may have set it: 8 bits as a float.
        stated = TYPES[getattr(x.element_type, "__name__", str(x.element_type))]
        return (array, dtype) if dtype is stated else (array.view(stated.storage), stated)
    if _is_dsl_tensor(x):
        return _from_dsl(x)
    if isinstance(x, np.ndarray):
        dtype = Boolean if x.dtype == bool else _BY_NUMPY.get(x.dtype)
        if dtype is None:
            raise TypeError(
                f"the simulator takes no {x.dtype} array; use one of {', '.join(sorted(map(str, _BY_NUMPY)))}"
            )
        return (x.view(np.uint8) if dtype is Boolean else x), dtype
    if x.device.type != "cpu":
        raise TypeError(f"the simulator works on CPU tensors, this one is on {x.device}; {ADVICE['device']}")
    name = str(x.dtype).removeprefix("torch.")
    if name not in _BY_TORCH:
        raise TypeError(f"the simulator takes no torch.{name} tensor")
    dtype = _BY_TORCH[name]
    x = x.detach()
    if dtype is BFloat16:
        torch = sys.modules[type(x.dtype).__module__]  # or what answers for it
        return x.view(torch.int16).numpy().view(np.uint16), dtype
    if dtype._coding:
        return x.view(sys.modules["torch"].uint8).numpy(), dtype
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
        self.next = LOWEST_ADDRESS
        self.bases: dict = {}

    def place(self, array: np.ndarray, storage_address: int) -> int:
        if storage_address not in self.bases:
            self.bases[storage_address] = self.next
            self.next += (array.nbytes + 4096) // 512 * 512 + (1 << 22)
        return self.bases[storage_address] + array.__array_interface__["data"][0] - storage_address


def global_tensor(x, name: str, space: AddressSpace, dynamic=()) -> Tensor:
    """The simulated tensor of an argument; `dynamic` as in simulate."""
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
    flat = np.empty(0, array.dtype)
    if extent:
        flat = np.lib.stride_tricks.as_strided(array, (extent,), (item,), writeable=True)
    known = _known(x, dynamic)
    x = x.tensor if isinstance(x, HostTensor) else x
    storage = x.untyped_storage().data_ptr() if hasattr(x, "untyped_storage") else _root(array)
    address = space.place(array, storage)
    memory = GlobalMemory(name, dtype, flat, tuple(shape), stride, address)
    if STATE.run is not None:
        STATE.run.arguments.append(memory)
    align = min(16, address & -address, known.align or 16)
    laid = plain(shape), plain(stride)
    layout = known.layout(*laid) if array.shape else Layout(*laid)
    return Tensor(Pointer(memory, dtype, 0, align), layout, make_identity_tensor(layout.shape))


def plain(numbers: tuple) -> tuple:
    return tuple(map(int, numbers))

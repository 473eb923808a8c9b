"""The part of torch that scripts and notebooks use, on numpy: what answers `import torch` where torch is not.

A tensor shares its bytes with a numpy array. Numbers are torch's: the same dtypes come out of the same operations,
`randn` and `rand` give torch's sequence for a seed (its last bit can differ), and a tensor prints as torch prints it.

`types` has torch's types, shapes and devices, `tensors` the tensor and how types meet, `printing` and `random_numbers` the rest;
this file has the functions.

Not covered: devices, gradients, modules, views with a step below zero. A name that is missing says so when it is used.
"""

from __future__ import annotations

import builtins
import math
import sys
from contextlib import nullcontext
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType, SimpleNamespace

import numpy as np

from . import types
from .random_numbers import Generator
from .tensors import Tensor, as_shape, bits_of, elementwise, joined, kind_of, plain, tensor_of, values_of
from .types import CUDA, DEFAULT, OF_NUMPY, Device, bfloat16, bool, float16, float32, float64, int64, missing

# Tensors to begin with ---------------------------------------------------------------------------------------------


def tensor(data, dtype=None, device=None, **_):
    """A tensor of numbers, or of nested lists of them."""
    Device(device or "cpu")
    if isinstance(data, (list, tuple)):
        data = [row.tolist() if isinstance(row, Tensor) else row for row in data]
    if isinstance(data, Tensor):
        return data.clone() if dtype is None else tensor_of(values_of(data), dtype)
    values = np.array(data)
    if dtype is None:
        dtype = {"b": bool, "i": int64, "u": int64, "f": DEFAULT}[values.dtype.kind]
        if isinstance(data, (np.ndarray, np.generic)):
            dtype = OF_NUMPY[values.dtype]
    return tensor_of(values, dtype)


def from_numpy(array):
    """A tensor that shares an array's bytes."""
    return Tensor(array, OF_NUMPY[array.dtype])


def as_tensor(data, dtype=None, device=None):
    if isinstance(data, np.ndarray):
        data = from_numpy(data)
    return data.to(dtype or data.dtype) if isinstance(data, Tensor) else tensor(data, dtype, device)


def full(size, fill_value, dtype=None, device=None, **_):
    Device(device or "cpu")
    dtype = dtype or (bool, int64, DEFAULT)[kind_of(fill_value)]
    shape = (size,) if isinstance(size, builtins.int) else tuple(size)
    return Tensor(np.full(shape, bits_of(fill_value, dtype)), dtype)


def zeros(*size, dtype=DEFAULT, device=None, **_):
    return full(as_shape(size), 0, dtype or DEFAULT, device)


def ones(*size, dtype=DEFAULT, device=None, **_):
    return full(as_shape(size), 1, dtype or DEFAULT, device)


empty = zeros


def full_like(like, fill_value, dtype=None, device=None):
    return full(like.shape, fill_value, dtype or like.dtype, device)


def zeros_like(like, dtype=None, device=None):
    return full_like(like, 0, dtype, device)


def ones_like(like, dtype=None, device=None):
    return full_like(like, 1, dtype, device)


empty_like = zeros_like


def arange(*bounds, dtype=None, device=None, **_):
    Device(device or "cpu")
    whole = all(isinstance(bound, builtins.int) for bound in bounds)
    numbers = np.arange(*bounds, dtype=np.int64 if whole else np.float64)
    return tensor_of(numbers, dtype or (int64 if whole else DEFAULT))


def linspace(start, end, steps, dtype=None, device=None, **_):
    """Computed as torch does: from both ends, with a step rounded to the type."""
    Device(device or "cpu")
    dtype = dtype or DEFAULT
    step = bits_of((end - start) / max(1, steps - 1), dtype).astype(np.float64)
    i = np.arange(steps)
    return tensor_of(np.where(i < steps // 2, start + step * i, end - step * (steps - 1 - i)), dtype)


def eye(n, m=None, dtype=None, device=None):
    Device(device or "cpu")
    return tensor_of(np.eye(n, m), dtype or DEFAULT)


default_generator = Generator()


def manual_seed(seed):
    return default_generator.manual_seed(seed)


def _drawn(how: str):
    def draw(*size, generator=None, dtype=None, device=None, **_):
        Device(device or "cpu")
        shape, numbers = as_shape(size), getattr(generator or default_generator, how)
        return tensor_of(numbers(math.prod(shape)).reshape(shape), dtype or DEFAULT)

    return draw


randn, rand = _drawn("normal"), _drawn("uniform")


def randint(low, high=None, size=None, generator=None, dtype=None, device=None, **_):
    Device(device or "cpu")
    if size is None:
        low, high, size = 0, low, high
    words = (generator or default_generator).words(math.prod(size))
    return tensor_of((words % np.uint64(high - low)).astype(np.int64).reshape(tuple(size)) + low, dtype or int64)


def randn_like(like, dtype=None, **_):
    return randn(*like.shape, dtype=dtype or like.dtype)


# Functions of tensors ----------------------------------------------------------------------------------------------


def allclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    return builtins.bool(np.allclose(values_of(a), values_of(b), rtol, atol, equal_nan))


def isclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    return tensor_of(np.isclose(values_of(a), values_of(b), rtol, atol, equal_nan), bool)


def where(condition, a, b):
    dtype = joined(a, b)
    choices = (values_of(tensor_of(plain(x), dtype)) for x in (a, b))
    return tensor_of(np.where(condition.bits, *choices), dtype)


cat = lambda tensors, dim=0: tensors[0]._same(np.concatenate([x.bits for x in tensors], dim))  # noqa: E731
stack = lambda tensors, dim=0: tensors[0]._same(np.stack([x.bits for x in tensors], dim))  # noqa: E731
maximum = lambda a, b: elementwise(np.maximum, a, b)  # noqa: E731
minimum = lambda a, b: elementwise(np.minimum, a, b)  # noqa: E731
matmul = lambda a, b: a @ b  # noqa: E731
is_tensor = lambda x: isinstance(x, Tensor)  # noqa: E731
no_grad = lambda: nullcontext()  # noqa: E731


TOLERANCES = {float64: (1e-7, 1e-7), float32: (1.3e-6, 1e-5), float16: (1e-3, 1e-5), bfloat16: (1.6e-2, 1e-5)}


def assert_close(actual, expected, rtol=None, atol=None, equal_nan=False, check_dtype=True, msg=None, **_):
    """AssertionError unless shapes and types are equal and all numbers close."""
    actual, expected = as_tensor(actual), as_tensor(expected)
    if actual.shape != expected.shape:
        raise AssertionError(f"The shapes differ: {tuple(actual.shape)} and {tuple(expected.shape)}.")
    if check_dtype and actual.dtype is not expected.dtype:
        raise AssertionError(f"The dtypes differ: {actual.dtype} and {expected.dtype}.")
    relative, absolute = max(TOLERANCES.get(x.dtype, (0.0, 0.0)) for x in (actual, expected))
    rtol, atol = relative if rtol is None else rtol, absolute if atol is None else atol
    a, b = (values_of(x).astype(np.float64) for x in (actual, expected))
    close = np.isclose(a, b, rtol, atol, equal_nan)
    if not close.all():
        furthest = np.argmax(np.where(close, -1, np.abs(a - b)))
        worst = tuple(i.item() for i in np.unravel_index(furthest, a.shape))
        there = f"at {worst} {a[worst]} where {b[worst]} is expected"
        raise AssertionError(msg or f"Not close: {(~close).sum()} of {close.size} numbers; {there}.")


# The answer to `import torch` ----------------------------------------------------------------------------------------


class _Torch(ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        method = Tensor.__dict__.get(name)
        if method is not None and callable(method):
            return method  # torch.sum(x) is x.sum()
        raise AttributeError(missing(f"torch.{name}"), name=name, obj=self)


def module():
    """A module that has torch's names of this room, and says of others that the page lacks them."""
    torch = _Torch("torch", "The part of torch that the book uses, on numpy.")
    torch.__dict__.update({name: x for name, x in {**vars(types), **globals()}.items() if _is_torchs(name, x)})
    torch.__spec__, torch.__version__ = ModuleSpec("torch", None), "2 on numpy"
    torch.testing = SimpleNamespace(assert_close=assert_close)
    torch.cuda = SimpleNamespace(is_available=lambda: False, device_count=lambda: 0)
    torch.cuda.__dict__.update(as_of_a_gpu() if CUDA else {})
    torch.inf, torch.nan, torch.pi = math.inf, math.nan, math.pi
    torch.strided = "torch.strided"
    return torch


def _is_torchs(name: str, x) -> builtins.bool:
    """Whether a name of this room is one of torch's: a type, a class, or a function that is defined in this file."""
    home = getattr(x, "__module__", "")
    mine = home == __name__ if isinstance(x, FunctionType) else home.startswith(__name__)
    return mine and not name.startswith("_") and name not in ("module", "answer", "as_of_a_gpu")


def as_of_a_gpu() -> dict:
    """What torch.cuda says where a GPU's tensors are taken as the CPU's: a Hopper that has always finished."""
    return {
        "is_available": lambda: True,
        "synchronize": lambda *_: None,
        "set_device": lambda *_: None,
        "current_stream": lambda *_: SimpleNamespace(cuda_stream=0, synchronize=lambda: None),
        "get_device_capability": lambda *_: (9, 0),
    }


def answer():
    """From here on `import torch` gives that module; does nothing where torch is loaded already."""
    return sys.modules.setdefault("torch", module())

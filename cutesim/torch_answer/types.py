"""Torch's types, shapes and devices, and what is said of a name that is missing."""

from __future__ import annotations

import math

import numpy as np

IN_PAGE = "not in this page: {} (the page answers `import torch` with the part that the book uses); run this cell in the notebook"
IN_SCRIPT = "not answered: {} (torch is not installed, and `import torch` is answered with a part of it); install torch for this"
SAYS = [IN_PAGE]  # the last one counts
CUDA: list = []  # functions that are told where a tensor was asked for on a GPU, which is then taken as the CPU; empty: refused


def missing(what: str) -> str:
    return SAYS[-1].format(what)


def on_gpu(name: str) -> None:
    """A tensor on a GPU is asked for."""
    if not CUDA:
        raise RuntimeError(missing(name))
    CUDA[-1]()


class Dtype:
    """A torch dtype: its name, and the numpy type that holds its numbers (bits, for bfloat16)."""

    def __init__(self, name, storage, is_floating_point=False):
        self.name, self.storage, self.is_floating_point = name, np.dtype(storage), is_floating_point

    itemsize = property(lambda self: self.storage.itemsize)

    def __repr__(self):
        return f"torch.{self.name}"


float64 = double = Dtype("float64", np.float64, True)
float32 = float = Dtype("float32", np.float32, True)
float16 = half = Dtype("float16", np.float16, True)
bfloat16 = Dtype("bfloat16", np.uint16, True)
int64 = long = Dtype("int64", np.int64)
int32 = int = Dtype("int32", np.int32)
int16 = short = Dtype("int16", np.int16)
int8 = Dtype("int8", np.int8)
uint8 = Dtype("uint8", np.uint8)
bool = Dtype("bool", np.bool_)
# bfloat16 has no numpy type of its own.
DTYPES = (float64, float32, float16, int64, int32, int16, int8, uint8, bool)
OF_NUMPY = {dtype.storage: dtype for dtype in DTYPES}
DEFAULT = float32  # of numbers with a point


class Size(tuple):
    """A tensor's shape."""

    def numel(self):
        return math.prod(self)

    def __repr__(self):
        return f"torch.Size({list(self)})"


class Device:
    """Where a tensor is: on the CPU, here."""

    def __init__(self, name="cpu"):
        name = str(name)
        if name.partition(":")[0] != "cpu":
            on_gpu(f"the device {name!r}")
        self.type, self.index = "cpu", None

    def __str__(self):
        return self.type

    def __repr__(self):
        return f"device(type='{self.type}')"

    def __eq__(self, other):
        return str(other) == self.type

    def __hash__(self):
        return hash(self.type)


device = Device

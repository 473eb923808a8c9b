"""Tensors on numpy, and the rules by which their types meet."""

from __future__ import annotations

import builtins
from types import SimpleNamespace

import numpy as np

from ..values.numeric import BFloat16
from . import types
from .printing import numbers
from .types import (
    DEFAULT,
    OF_NUMPY,
    Device,
    Dtype,
    Size,
    bfloat16,
    bool,
    float16,
    float32,
    int64,
    missing,
    on_gpu,
)


class Tensor:
    """Numbers in a numpy array. `bits` is the array itself; `dtype` says how it is read."""

    def __init__(self, bits, dtype):
        self.bits, self.dtype = bits, dtype

    # What it is --------------------------------------------------------------------------------------------------

    device, is_cuda, requires_grad, grad = Device(), False, False, None

    shape = property(lambda self: Size(self.bits.shape))
    ndim = property(lambda self: self.bits.ndim)
    T = property(lambda self: self._same(self.bits.T))
    mT = property(lambda self: self._same(np.swapaxes(self.bits, -1, -2)))
    itemsize = property(lambda self: self.bits.itemsize)
    nbytes = property(lambda self: self.bits.nbytes)

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim=None):
        strides = tuple(step // self.bits.itemsize for step in self.bits.strides)
        return strides if dim is None else strides[dim]

    def untyped_storage(self):
        base = self.bits
        while isinstance(base.base, np.ndarray):
            base = base.base
        start = base.__array_interface__["data"][0]
        return SimpleNamespace(data_ptr=lambda: start, nbytes=lambda: base.nbytes)

    def __len__(self):
        return len(self.bits)

    def __iter__(self):
        return (self._same(row) for row in self.bits)

    def __repr__(self):
        return _text(self)

    def __format__(self, spec):
        return format(self.item(), spec) if self.bits.ndim == 0 else object.__format__(self, spec)

    def __getattr__(self, name):
        raise AttributeError(missing(f"Tensor.{name}"), name=name, obj=self)

    # To Python, numpy and other types ----------------------------------------------------------------------------

    def numpy(self):
        if self.dtype is bfloat16:
            raise TypeError("numpy has no bfloat16: write .float().numpy()")
        return self.bits

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.numpy(), dtype)

    def tolist(self):
        return values_of(self).tolist()

    def item(self):
        if self.bits.size != 1:
            raise RuntimeError(f"a Tensor with {self.bits.size} elements cannot be converted to Scalar")
        return values_of(self).reshape(()).item()

    __int__ = lambda self: builtins.int(self.item())  # noqa: E731
    __float__ = lambda self: builtins.float(self.item())  # noqa: E731
    __bool__ = lambda self: builtins.bool(self.item())  # noqa: E731
    __index__ = lambda self: self.item().__index__()  # noqa: E731

    def to(self, *wanted, dtype=None, device=None, **_):
        """The numbers in another type; a device can only be the CPU."""
        for one in wanted:
            if isinstance(one, Dtype):
                dtype = one
            elif isinstance(one, Tensor):
                dtype = one.dtype
            else:
                Device(one)
        if device is not None:
            Device(device)
        return self if dtype in (None, self.dtype) else tensor_of(values_of(self), dtype)

    type = to

    def cpu(self):
        return self

    detach = cpu

    def cuda(self, *_, **__):
        on_gpu("a GPU")
        return self

    def contiguous(self):
        return self if self.is_contiguous() else self.clone()

    def requires_grad_(self, *_):
        raise NotImplementedError(missing("gradients"))

    # Shapes ------------------------------------------------------------------------------------------------------

    def view(self, *shape):
        if len(shape) == 1 and isinstance(shape[0], Dtype):
            return Tensor(self.bits.view(shape[0].storage), shape[0])
        view = self.bits.view()
        view.shape = as_shape(shape)  # refuses what would need a copy, as torch does
        return self._same(view)

    def expand(self, *shape):
        shape = as_shape(shape)
        kept = (1,) * (len(shape) - self.bits.ndim) + self.bits.shape
        return self._same(np.broadcast_to(self.bits, [old if new == -1 else new for new, old in zip(shape, kept)]))

    def split(self, size, dim=0):
        whole = isinstance(size, builtins.int)
        cuts = range(size, self.bits.shape[dim], size) if whole else np.cumsum(size)[:-1]
        return tuple(self._same(part) for part in np.split(self.bits, list(cuts), dim))

    def chunk(self, chunks, dim=0):
        return self.split(-(-self.bits.shape[dim] // chunks), dim)

    def as_strided(self, size, stride, storage_offset=None):
        if storage_offset:
            raise NotImplementedError(missing("as_strided with a storage_offset"))
        steps = [step * self.bits.itemsize for step in stride]
        return self._same(np.lib.stride_tricks.as_strided(self.bits, size, steps))

    def __getitem__(self, key):
        return self._same(np.asarray(self.bits[_key(key)]))

    def __setitem__(self, key, value):
        self.bits[_key(key)] = bits_of(value, self.dtype)

    # In place ----------------------------------------------------------------------------------------------------

    def fill_(self, value):
        self.bits[...] = bits_of(value, self.dtype)
        return self

    def zero_(self):
        return self.fill_(0)

    copy_ = fill_

    def masked_fill(self, mask, value):
        result = self.clone()
        result.bits[mask.bits] = bits_of(value, self.dtype)
        return result

    # Numbers -----------------------------------------------------------------------------------------------------

    def nonzero(self):
        return tensor_of(np.stack(np.nonzero(values_of(self)), axis=-1), int64)

    def _summed(self, function, dim, dtype=None, **keep):
        """Of whole numbers int64."""
        dtype = dtype or (self.dtype if self.dtype.is_floating_point else int64)
        return tensor_of(function(_wide(self.to(dtype)), dim, **keep), dtype)

    def sum(self, dim=None, keepdim=False, dtype=None):
        return self._summed(np.sum, dim, dtype, keepdims=keepdim)

    def cumsum(self, dim, dtype=None):
        return self._summed(np.cumsum, dim, dtype)

    def prod(self, dim=None, keepdim=False):
        return self._summed(np.prod, dim, keepdims=keepdim)

    def mean(self, dim=None, keepdim=False):
        return tensor_of(np.mean(_wide(self), dim, keepdims=keepdim), self.dtype)

    def var(self, dim=None, unbiased=True, correction=None, keepdim=False):
        ddof = builtins.int(unbiased) if correction is None else correction
        return tensor_of(np.var(_wide(self), dim, ddof=ddof, keepdims=keepdim), self.dtype)

    def std(self, dim=None, unbiased=True, correction=None, keepdim=False):
        return self.var(dim, unbiased, correction, keepdim).sqrt()

    def sort(self, dim=-1):
        order = np.argsort(values_of(self), dim, kind="stable")
        return tensor_of(np.take_along_axis(values_of(self), order, dim), self.dtype), tensor_of(order, int64)

    def logsumexp(self, dim, keepdim=False):
        x = _wide(self)
        most = np.max(x, dim, keepdims=True)
        most = np.where(np.isfinite(most), most, 0)
        with np.errstate(divide="ignore"):
            result = np.log(np.sum(np.exp(x - most), dim, keepdims=True)) + most
        return tensor_of(result if keepdim else result.squeeze(dim), self.dtype)

    def softmax(self, dim):
        x = _wide(self)
        y = np.exp(x - np.max(x, dim, keepdims=True))
        return tensor_of(y / np.sum(y, dim, keepdims=True), self.dtype)

    def log_softmax(self, dim):
        x = _wide(self)
        x = x - np.max(x, dim, keepdims=True)
        return tensor_of(x - np.log(np.sum(np.exp(x), dim, keepdims=True)), self.dtype)

    def clamp(self, min=None, max=None):
        return tensor_of(np.clip(values_of(self), plain(min), plain(max)), self.dtype)

    def equal(self, other):
        return self.shape == other.shape and builtins.bool(np.all(values_of(self) == values_of(other)))

    def _same(self, bits):
        return Tensor(bits, self.dtype)

    __hash__ = object.__hash__


class Extreme(tuple):
    """What max and min along a dimension give: values and where they stand."""

    values = property(lambda self: self[0])
    indices = property(lambda self: self[1])


# Types and numbers -------------------------------------------------------------------------------------------------


def values_of(tensor):
    """The numbers as numpy has them; float32 for bfloat16."""
    return BFloat16.decode(tensor.bits) if tensor.dtype is bfloat16 else tensor.bits


def _text(tensor):
    values = values_of(tensor)
    body = numbers(values, tensor.dtype.is_floating_point, len("tensor("))
    notes = [] if tensor.dtype in (DEFAULT, int64, bool) else [f"dtype={tensor.dtype}"]
    if values.size == 0 and values.ndim != 1:
        notes.insert(0, f"size={tuple(values.shape)}")
    return f"tensor({', '.join([body, *notes])})"


def _wide(tensor):
    """The numbers that sums are taken in: half precision is added up in float32."""
    return tensor.bits.astype(np.float32) if tensor.dtype is float16 else values_of(tensor)


def bits_of(value, dtype):
    """A number, array or tensor as an array that a tensor of `dtype` can hold."""
    values = values_of(value) if isinstance(value, Tensor) else np.asarray(value)
    if dtype is bfloat16:
        return BFloat16.encode(BFloat16.round(values.astype(np.float32)))
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(dtype.storage)


def tensor_of(values, dtype):
    return Tensor(bits_of(values, dtype), dtype)


def plain(x):
    return values_of(x) if isinstance(x, Tensor) else x


def _key(key):
    if isinstance(key, tuple):
        return tuple(map(_key, key))
    return key.bits if isinstance(key, Tensor) else key


def as_shape(sizes):
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        return tuple(sizes[0])
    return tuple(builtins.int(n) for n in sizes)


def kind_of(x):
    """0 for truth values, 1 for integers, 2 for numbers with a point."""
    if isinstance(x, Tensor):
        return 2 if x.dtype.is_floating_point else builtins.int(x.dtype is not bool)
    return 0 if isinstance(x, builtins.bool) else 1 if isinstance(x, builtins.int) else 2


def joined(*operands):
    """The type that operands of several types meet in: torch's rule.

    Of the highest kind among them, tensors with dimensions decide before those without, and both before plain numbers.
    """
    kind, found = max(map(kind_of, operands)), None
    tensors = [x for x in operands if isinstance(x, Tensor)]
    for group in ([x for x in tensors if x.bits.ndim], [x for x in tensors if not x.bits.ndim]):
        top = max(map(kind_of, group), default=-1)
        if top == -1 or (found is not None and top <= kind_of(Tensor(None, found))):
            continue
        found = group[0].dtype
        for x in group[1:]:
            found = _wider(found, x.dtype)
    if found is None or kind > kind_of(Tensor(None, found)):
        return (bool, int64, DEFAULT)[kind]
    return found


def _wider(a, b):
    if a is b:
        return a
    if a.is_floating_point != b.is_floating_point:
        return a if a.is_floating_point else b
    if {a, b} == {float16, bfloat16}:
        return float32
    if bfloat16 in (a, b):
        return b if a is bfloat16 else a
    return OF_NUMPY[np.promote_types(a.storage, b.storage)]


def elementwise(function, *operands, result=None):
    """A numpy function on operands brought to one type, rounded to it once."""
    dtype = joined(*operands)
    with np.errstate(all="ignore"):
        return tensor_of(function(*(values_of(tensor_of(plain(x), dtype)) for x in operands)), result or dtype)


def _divided(a, b):
    dtype = joined(a, b)
    dtype = dtype if dtype.is_floating_point else DEFAULT
    return elementwise(np.divide, *(tensor_of(plain(x), dtype) for x in (a, b)))


# Of the array alone: what a tensor says of it.
_SAYS = {
    "dim": lambda a: a.ndim,
    "numel": lambda a: a.size,
    "element_size": lambda a: a.itemsize,
    "is_contiguous": lambda a: a.flags.c_contiguous,
    "data_ptr": lambda a: a.__array_interface__["data"][0],
}
# The same numbers in other places.
_MOVES = {
    "clone": lambda a: a.copy(),
    "reshape": lambda a, *shape: a.reshape(as_shape(shape)),
    "flatten": lambda a: a.reshape(-1),
    "t": lambda a: a.T,
    "transpose": np.swapaxes,
    "permute": lambda a, *axes: a.transpose(as_shape(axes)),
    "unsqueeze": lambda a, dim: np.expand_dims(a, dim),
    "squeeze": lambda a, dim=None: a if dim is not None and a.shape[dim] != 1 else a.squeeze(dim),
    "flip": lambda a, *dims: np.flip(a, as_shape(dims)).copy(),
    "roll": lambda a, shifts, dims=None: np.roll(a, shifts, dims),
    "repeat": lambda a, *times: np.tile(a, as_shape(times)),
    "repeat_interleave": lambda a, times, dim=None: np.repeat(a, plain(times), dim),
    "gather": lambda a, dim, index: np.take_along_axis(a, index.bits, dim),
}
for _name, _function in (_SAYS | _MOVES).items():

    def _of_array(self, *args, _function=_function, _moves=_name in _MOVES, **kwargs):
        found = _function(self.bits, *args, **kwargs)
        return self._same(found) if _moves else found

    setattr(Tensor, _name, _of_array)
_BOTH_WAYS = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "pow": np.power,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "lshift": np.left_shift,
    "rshift": np.right_shift,
}
_COMPARE = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
for _name, _function in (_BOTH_WAYS | _COMPARE).items():

    def _forward(self, other, _function=_function, _result=bool if _name in _COMPARE else None):
        return elementwise(_function, self, other, result=_result)

    def _backward(self, other, _function=_function):
        return elementwise(_function, other, self)

    def _in_place(self, other, _function=_function):
        return self.fill_(elementwise(_function, self, other))

    setattr(Tensor, f"__{_name}__", _forward)
    if _name in ("add", "sub", "mul", "pow", *_COMPARE):
        setattr(Tensor, _name, _forward)
    if _name in _BOTH_WAYS:
        setattr(Tensor, f"__r{_name}__", _backward)
        setattr(Tensor, f"__i{_name}__", _in_place)
    if _name in ("add", "sub", "mul"):
        setattr(Tensor, f"{_name}_", _in_place)
Tensor.__truediv__ = Tensor.div = lambda self, other: _divided(self, other)
Tensor.__rtruediv__ = lambda self, other: _divided(other, self)
Tensor.__itruediv__ = lambda self, other: self.fill_(_divided(self, other))
Tensor.__neg__ = Tensor.neg = lambda self: tensor_of(-values_of(self), self.dtype)
Tensor.__invert__ = lambda self: self._same(~self.bits)
Tensor.square = lambda self: self * self
Tensor.reciprocal = lambda self: 1 / self
Tensor.rsqrt = lambda self: 1 / self.sqrt()
Tensor.is_floating_point = lambda self: self.dtype.is_floating_point
Tensor.__abs__ = Tensor.abs = lambda self: tensor_of(np.abs(values_of(self)), self.dtype)
Tensor.__matmul__ = lambda self, other: tensor_of(_wide(self) @ _wide(other), self.dtype)
for _name in "exp exp2 log log2 sqrt sin cos tanh floor ceil round sign".split():

    def _unary(self, _name=_name):
        dtype = self.dtype if self.dtype.is_floating_point else DEFAULT
        with np.errstate(all="ignore"):
            return tensor_of(getattr(np, _name)(values_of(self.to(dtype))), dtype)

    setattr(Tensor, _name, _unary)
for _name in ("isnan", "isinf", "isfinite"):

    def _asked(self, _name=_name):
        return tensor_of(getattr(np, _name)(values_of(self)), bool)

    setattr(Tensor, _name, _asked)
for _name in ("max", "min"):

    def _extreme(self, dim=None, keepdim=False, _name=_name):
        if isinstance(dim, Tensor):
            return elementwise(getattr(np, f"{_name}imum"), self, dim)
        found, at = (getattr(self, f"{kind}{_name}")(dim, keepdim) for kind in ("a", "arg"))
        return found if dim is None else Extreme((found, at))

    setattr(Tensor, _name, _extreme)
_ALONG = {"any": bool, "all": bool, "amax": None, "amin": None, "argmax": int64, "argmin": int64}
for _name, _dtype in _ALONG.items():

    def _along(self, dim=None, keepdim=False, _name=_name, _dtype=_dtype):
        return tensor_of(getattr(np, _name)(values_of(self), dim, keepdims=keepdim), _dtype or self.dtype)

    setattr(Tensor, _name, _along)
for _name in "double float half bfloat16 long int short bool".split():
    setattr(Tensor, _name, lambda self, _name=_name: self.to(getattr(types, _name)))

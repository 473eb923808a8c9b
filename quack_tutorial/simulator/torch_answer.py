"""The part of torch that the chapters use, on numpy: what answers `import torch` where torch is not, in a web page or a script.

A tensor shares its bytes with a numpy array. Numbers are torch's: the same dtypes come out of the same operations,
`randn` and `rand` give torch's sequence for a seed (its last bit can differ), and a tensor prints as torch prints it.

Not covered: devices, gradients, modules, views with a step below zero. A name that is missing says so when it is used.
"""

from __future__ import annotations

import builtins
import math
import sys
from contextlib import nullcontext
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import numpy as np

from .numeric import BFloat16

IN_PAGE = "not in this page: {} (the page answers `import torch` with the part that the book uses); run this cell in the notebook"
IN_SCRIPT = "not answered: {} (torch is not installed, and `import torch` is answered with a part of it); install torch for this"
SAYS = [IN_PAGE]  # the last one counts
CUDA: list = []  # functions that are told where a tensor was asked for on a GPU, which is then taken as the CPU; empty: refused


def _missing(what: str) -> str:
    return SAYS[-1].format(what)


def _on_gpu(name: str) -> None:
    """A tensor on a GPU is asked for."""
    if not CUDA:
        raise RuntimeError(_missing(name))
    CUDA[-1]()


class Dtype:
    """A torch dtype: its name, and the numpy type that holds its numbers (bits, for bfloat16)."""

    def __init__(self, name, storage, is_floating_point=False):
        self.name, self.storage, self.is_floating_point = name, np.dtype(storage), is_floating_point

    @property
    def itemsize(self):
        return self.storage.itemsize

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
DTYPES = (float64, float32, float16, int64, int32, int16, int8, uint8, bool)  # bfloat16 has no numpy type of its own
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
            _on_gpu(f"the device {name!r}")
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


class Tensor:
    """Numbers in a numpy array. `bits` is the array itself; `dtype` says how it is read."""

    def __init__(self, bits, dtype):
        self.bits, self.dtype = bits, dtype

    # What it is --------------------------------------------------------------------------------------------------

    device, is_cuda, requires_grad, grad = Device(), False, False, None

    @property
    def shape(self):
        return Size(self.bits.shape)

    @property
    def ndim(self):
        return self.bits.ndim

    @property
    def T(self):
        return self._same(self.bits.T)

    mT = property(lambda self: self._same(np.swapaxes(self.bits, -1, -2)))
    itemsize = property(lambda self: self.bits.itemsize)
    nbytes = property(lambda self: self.bits.nbytes)

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim=None):
        strides = tuple(step // self.bits.itemsize for step in self.bits.strides)
        return strides if dim is None else strides[dim]

    def dim(self):
        return self.bits.ndim

    def numel(self):
        return self.bits.size

    def element_size(self):
        return self.bits.itemsize

    def is_contiguous(self):
        return self.bits.flags.c_contiguous

    def is_floating_point(self):
        return self.dtype.is_floating_point

    def data_ptr(self):
        return self.bits.__array_interface__["data"][0]

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
        raise AttributeError(_missing(f"Tensor.{name}"), name=name, obj=self)

    # To Python, numpy and other types ----------------------------------------------------------------------------

    def numpy(self):
        if self.dtype is bfloat16:
            raise TypeError("numpy has no bfloat16: write .float().numpy()")
        return self.bits

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.numpy(), dtype)

    def tolist(self):
        return _values(self).tolist()

    def item(self):
        if self.bits.size != 1:
            raise RuntimeError(f"a Tensor with {self.bits.size} elements cannot be converted to Scalar")
        return _values(self).reshape(()).item()

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
        return self if dtype in (None, self.dtype) else _as(_values(self), dtype)

    def type(self, dtype):
        return self.to(dtype)

    def cpu(self):
        return self

    detach = cpu

    def cuda(self, *_, **__):
        _on_gpu("a GPU")
        return self

    def contiguous(self):
        return self if self.is_contiguous() else self.clone()

    def clone(self):
        return self._same(self.bits.copy())

    def requires_grad_(self, *_):
        raise NotImplementedError(_missing("gradients"))

    # Shapes ------------------------------------------------------------------------------------------------------

    def view(self, *shape):
        if len(shape) == 1 and isinstance(shape[0], Dtype):
            return Tensor(self.bits.view(shape[0].storage), shape[0])
        view = self.bits.view()
        view.shape = _shape(shape)  # refuses what would need a copy, as torch does
        return self._same(view)

    def reshape(self, *shape):
        return self._same(self.bits.reshape(_shape(shape)))

    def flatten(self):
        return self._same(self.bits.reshape(-1))

    def t(self):
        return self.T

    def transpose(self, a, b):
        return self._same(np.swapaxes(self.bits, a, b))

    def permute(self, *axes):
        return self._same(self.bits.transpose(_shape(axes)))

    def unsqueeze(self, dim):
        return self._same(np.expand_dims(self.bits, dim))

    def squeeze(self, dim=None):
        if dim is not None and self.bits.shape[dim] != 1:
            return self
        return self._same(self.bits.squeeze(dim))

    def expand(self, *shape):
        shape = _shape(shape)
        kept = (1,) * (len(shape) - self.bits.ndim) + self.bits.shape
        return self._same(np.broadcast_to(self.bits, [old if new == -1 else new for new, old in zip(shape, kept)]))

    def flip(self, *dims):
        return self._same(np.flip(self.bits, _shape(dims)).copy())

    def roll(self, shifts, dims=None):
        return self._same(np.roll(self.bits, shifts, dims))

    def repeat(self, *times):
        return self._same(np.tile(self.bits, _shape(times)))

    def repeat_interleave(self, times, dim=None):
        return self._same(np.repeat(self.bits, _plain(times), dim))

    def split(self, size, dim=0):
        cuts = range(size, self.bits.shape[dim], size) if isinstance(size, builtins.int) else np.cumsum(size)[:-1]
        return tuple(self._same(part) for part in np.split(self.bits, list(cuts), dim))

    def chunk(self, chunks, dim=0):
        return self.split(-(-self.bits.shape[dim] // chunks), dim)

    def as_strided(self, size, stride, storage_offset=None):
        if storage_offset:
            raise NotImplementedError(_missing("as_strided with a storage_offset"))
        steps = [step * self.bits.itemsize for step in stride]
        return self._same(np.lib.stride_tricks.as_strided(self.bits, size, steps))

    def __getitem__(self, key):
        return self._same(np.asarray(self.bits[_key(key)]))

    def __setitem__(self, key, value):
        self.bits[_key(key)] = _bits(value, self.dtype)

    # In place ----------------------------------------------------------------------------------------------------

    def fill_(self, value):
        self.bits[...] = _bits(value, self.dtype)
        return self

    def zero_(self):
        return self.fill_(0)

    copy_ = fill_

    def masked_fill(self, mask, value):
        result = self.clone()
        result.bits[mask.bits] = _bits(value, self.dtype)
        return result

    # Numbers -----------------------------------------------------------------------------------------------------

    def nonzero(self):
        return _as(np.stack(np.nonzero(_values(self)), axis=-1), int64)

    def any(self, dim=None, keepdim=False):
        return _as(np.any(_values(self), dim, keepdims=keepdim), bool)

    def all(self, dim=None, keepdim=False):
        return _as(np.all(_values(self), dim, keepdims=keepdim), bool)

    def sum(self, dim=None, keepdim=False, dtype=None):
        dtype = dtype or (self.dtype if self.dtype.is_floating_point else int64)
        return _as(np.sum(_wide(self.to(dtype)), dim, keepdims=keepdim), dtype)

    def cumsum(self, dim, dtype=None):
        dtype = dtype or (self.dtype if self.dtype.is_floating_point else int64)
        return _as(np.cumsum(_wide(self.to(dtype)), dim), dtype)

    def prod(self, dim=None, keepdim=False):
        dtype = self.dtype if self.dtype.is_floating_point else int64
        return _as(np.prod(_wide(self.to(dtype)), dim, keepdims=keepdim), dtype)

    def mean(self, dim=None, keepdim=False):
        return _as(np.mean(_wide(self), dim, keepdims=keepdim), self.dtype)

    def var(self, dim=None, unbiased=True, correction=None, keepdim=False):
        ddof = builtins.int(unbiased) if correction is None else correction
        return _as(np.var(_wide(self), dim, ddof=ddof, keepdims=keepdim), self.dtype)

    def std(self, dim=None, unbiased=True, correction=None, keepdim=False):
        return self.var(dim, unbiased, correction, keepdim).sqrt()

    def amax(self, dim=None, keepdim=False):
        return _as(np.max(_values(self), dim, keepdims=keepdim), self.dtype)

    def amin(self, dim=None, keepdim=False):
        return _as(np.min(_values(self), dim, keepdims=keepdim), self.dtype)

    def max(self, dim=None, keepdim=False):
        return self._extreme(np.max, np.argmax, dim, keepdim)

    def min(self, dim=None, keepdim=False):
        return self._extreme(np.min, np.argmin, dim, keepdim)

    def _extreme(self, values, places, dim, keepdim):
        if isinstance(dim, Tensor):
            return _elementwise(np.maximum if values is np.max else np.minimum, self, dim)
        found = _as(values(_values(self), dim, keepdims=keepdim), self.dtype)
        if dim is None:
            return found
        return Extreme((found, _as(places(_values(self), dim, keepdims=keepdim), int64)))

    def argmax(self, dim=None, keepdim=False):
        return _as(np.argmax(_values(self), dim, keepdims=keepdim), int64)

    def argmin(self, dim=None, keepdim=False):
        return _as(np.argmin(_values(self), dim, keepdims=keepdim), int64)

    def sort(self, dim=-1):
        order = np.argsort(_values(self), dim, kind="stable")
        return _as(np.take_along_axis(_values(self), order, dim), self.dtype), _as(order, int64)

    def logsumexp(self, dim, keepdim=False):
        x = _wide(self)
        most = np.max(x, dim, keepdims=True)
        most = np.where(np.isfinite(most), most, 0)
        with np.errstate(divide="ignore"):
            result = np.log(np.sum(np.exp(x - most), dim, keepdims=True)) + most
        return _as(result if keepdim else result.squeeze(dim), self.dtype)

    def softmax(self, dim):
        x = _wide(self)
        y = np.exp(x - np.max(x, dim, keepdims=True))
        return _as(y / np.sum(y, dim, keepdims=True), self.dtype)

    def log_softmax(self, dim):
        x = _wide(self)
        x = x - np.max(x, dim, keepdims=True)
        return _as(x - np.log(np.sum(np.exp(x), dim, keepdims=True)), self.dtype)

    def gather(self, dim, index):
        return self._same(np.take_along_axis(self.bits, index.bits, dim))

    def clamp(self, min=None, max=None):
        return _as(np.clip(_values(self), _plain(min), _plain(max)), self.dtype)

    def pow(self, exponent):
        return self**exponent

    def square(self):
        return self * self

    def reciprocal(self):
        return 1 / self

    def rsqrt(self):
        return 1 / self.sqrt()

    def isnan(self):
        return _as(np.isnan(_values(self)), bool)

    def isinf(self):
        return _as(np.isinf(_values(self)), bool)

    def isfinite(self):
        return _as(np.isfinite(_values(self)), bool)

    def equal(self, other):
        return equal(self, other)

    def _same(self, bits):
        return Tensor(bits, self.dtype)

    __hash__ = object.__hash__


class Extreme(tuple):
    """What max and min along a dimension give: values and where they stand."""

    values = property(lambda self: self[0])
    indices = property(lambda self: self[1])


# Types and numbers -------------------------------------------------------------------------------------------------


def _values(tensor):
    """The numbers as numpy has them; float32 for bfloat16."""
    return BFloat16.decode(tensor.bits) if tensor.dtype is bfloat16 else tensor.bits


def _wide(tensor):
    """The numbers that sums are taken in: half precision is added up in float32."""
    return tensor.bits.astype(np.float32) if tensor.dtype is float16 else _values(tensor)


def _bits(value, dtype):
    """A number, array or tensor as an array that a tensor of `dtype` can hold."""
    values = _values(value) if isinstance(value, Tensor) else np.asarray(value)
    if dtype is bfloat16:
        return BFloat16.encode(BFloat16.round(values.astype(np.float32)))
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(dtype.storage)


def _as(values, dtype):
    return Tensor(_bits(values, dtype), dtype)


def _plain(x):
    return _values(x) if isinstance(x, Tensor) else x


def _key(key):
    return tuple(map(_key, key)) if isinstance(key, tuple) else key.bits if isinstance(key, Tensor) else key


def _shape(sizes):
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        return tuple(sizes[0])
    return tuple(builtins.int(n) for n in sizes)


def _kind(x):
    """0 for truth values, 1 for integers, 2 for numbers with a point."""
    if isinstance(x, Tensor):
        return 2 if x.dtype.is_floating_point else builtins.int(x.dtype is not bool)
    return 0 if isinstance(x, builtins.bool) else 1 if isinstance(x, builtins.int) else 2


def _joined(*operands):
    """The type that operands of several types meet in: torch's rule.

    Of the highest kind among them, tensors with dimensions decide before those without, and both before plain numbers.
    """
    kind, found = max(map(_kind, operands)), None
    tensors = [x for x in operands if isinstance(x, Tensor)]
    for group in ([x for x in tensors if x.bits.ndim], [x for x in tensors if not x.bits.ndim]):
        top = max(map(_kind, group), default=-1)
        if top == -1 or (found is not None and top <= _kind(Tensor(None, found))):
            continue
        found = group[0].dtype
        for x in group[1:]:
            found = _wider(found, x.dtype)
    if found is None or kind > _kind(Tensor(None, found)):
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


def _elementwise(function, *operands, result=None):
    """A numpy function on operands brought to one type, rounded to it once."""
    dtype = _joined(*operands)
    with np.errstate(all="ignore"):
        return _as(function(*(_values(_as(_plain(x), dtype)) for x in operands)), result or dtype)


def _divided(a, b):
    dtype = _joined(a, b)
    dtype = dtype if dtype.is_floating_point else DEFAULT
    with np.errstate(all="ignore"):
        return _as(_values(_as(_plain(a), dtype)) / _values(_as(_plain(b), dtype)), dtype)


def _operator(function, result=None):
    return (
        lambda self, other: _elementwise(function, self, other, result=result),
        lambda self, other: _elementwise(function, other, self, result=result),
    )


for _name, _function in {
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
}.items():
    _forward, _backward = _operator(_function)
    setattr(Tensor, f"__{_name}__", _forward)
    setattr(Tensor, f"__r{_name}__", _backward)

    def _in_place(self, other, _function=_function):
        return self.fill_(_elementwise(_function, self, other))

    setattr(Tensor, f"__i{_name}__", _in_place)
    if _name in ("add", "sub", "mul"):
        setattr(Tensor, _name, _forward)
        setattr(Tensor, f"{_name}_", _in_place)
Tensor.__truediv__ = Tensor.div = lambda self, other: _divided(self, other)
Tensor.__rtruediv__ = lambda self, other: _divided(other, self)
Tensor.__itruediv__ = lambda self, other: self.fill_(_divided(self, other))
for _name, _function in {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}.items():
    setattr(Tensor, f"__{_name}__", _operator(_function, bool)[0])
    setattr(Tensor, _name, _operator(_function, bool)[0])
Tensor.__neg__ = Tensor.neg = lambda self: _as(-_values(self), self.dtype)
Tensor.__invert__ = lambda self: self._same(~self.bits)
Tensor.__abs__ = Tensor.abs = lambda self: _as(np.abs(_values(self)), self.dtype)
Tensor.__matmul__ = lambda self, other: _as(_wide(self) @ _wide(other), self.dtype)
for _name in ("exp", "exp2", "log", "log2", "sqrt", "sin", "cos", "tanh", "floor", "ceil", "round", "sign"):

    def _unary(self, _name=_name):
        dtype = self.dtype if self.dtype.is_floating_point else DEFAULT
        with np.errstate(all="ignore"):
            return _as(getattr(np, _name)(_values(self.to(dtype))), dtype)

    setattr(Tensor, _name, _unary)
for _name, _dtype in {
    "double": float64,
    "float": float32,
    "half": float16,
    "bfloat16": bfloat16,
    "long": int64,
    "int": int32,
    "short": int16,
    "bool": bool,
}.items():
    setattr(Tensor, _name, lambda self, _dtype=_dtype: self.to(_dtype))


# Tensors to begin with ---------------------------------------------------------------------------------------------


def tensor(data, dtype=None, device=None, **_):
    """A tensor of numbers, or of nested lists of them."""
    Device(device or "cpu")
    if isinstance(data, (list, tuple)):
        data = [row.tolist() if isinstance(row, Tensor) else row for row in data]
    if isinstance(data, Tensor):
        return data.clone() if dtype is None else _as(_values(data), dtype)
    values = np.array(data)
    if dtype is None:
        typed = isinstance(data, (np.ndarray, np.generic))
        dtype = (
            OF_NUMPY[values.dtype] if typed else {"b": bool, "i": int64, "u": int64, "f": DEFAULT}[values.dtype.kind]
        )
    return _as(values, dtype)


def from_numpy(array):
    """A tensor that shares an array's bytes."""
    return Tensor(array, OF_NUMPY[array.dtype])


def as_tensor(data, dtype=None, device=None):
    if isinstance(data, np.ndarray):
        data = from_numpy(data)
    return data.to(dtype or data.dtype) if isinstance(data, Tensor) else tensor(data, dtype, device)


def full(size, fill_value, dtype=None, device=None, **_):
    Device(device or "cpu")
    dtype = dtype or (bool, int64, DEFAULT)[_kind(fill_value)]
    shape = (size,) if isinstance(size, builtins.int) else tuple(size)
    return Tensor(np.full(shape, _bits(fill_value, dtype)), dtype)


def zeros(*size, dtype=DEFAULT, device=None, **_):
    return full(_shape(size), 0, dtype or DEFAULT, device)


def ones(*size, dtype=DEFAULT, device=None, **_):
    return full(_shape(size), 1, dtype or DEFAULT, device)


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
    return _as(np.arange(*bounds, dtype=np.int64 if whole else np.float64), dtype or (int64 if whole else DEFAULT))


def linspace(start, end, steps, dtype=None, device=None, **_):
    """Computed as torch does: from both ends, with a step rounded to the type."""
    Device(device or "cpu")
    dtype = dtype or DEFAULT
    step = _bits((end - start) / max(1, steps - 1), dtype).astype(np.float64)
    i = np.arange(steps)
    return _as(np.where(i < steps // 2, start + step * i, end - step * (steps - 1 - i)), dtype)


def eye(n, m=None, dtype=None, device=None):
    Device(device or "cpu")
    return _as(np.eye(n, m), dtype or DEFAULT)


class Generator:
    """Torch's generator of random numbers on the CPU: the Mersenne Twister."""

    def __init__(self, device="cpu"):
        Device(device)
        self.manual_seed(67280421310721)  # where torch starts that nobody seeded

    def manual_seed(self, seed):
        self.seed = seed
        self._words = None  # made for the first number: loading numpy.random takes a while in a page
        self._second = None  # of a pair of normal numbers
        return self

    def initial_seed(self):
        return self.seed

    def words(self, count):
        """That many whole numbers of 32 bits."""
        if self._words is None:
            self._words = np.random.RandomState(self.seed & 0xFFFFFFFF)._bit_generator
        return self._words.random_raw(count).astype(np.uint64)

    def uniform(self, count):
        """float32 in [0, 1), of 24 random bits each."""
        return ((self.words(count) & 0xFFFFFF).astype(np.float32) * np.float32(2**-24)).astype(np.float32)

    def normal(self, count):
        """float32 from the standard normal distribution; fewer than 16 are drawn another way than more."""
        if count < 16:
            return np.array([self._one_normal() for _ in range(count)], np.float32)
        u = self.uniform(count)
        whole = count // 16 * 16
        result = u.copy()
        result[:whole] = _box_muller(u[:whole])
        if count % 16:  # the last 16 are drawn anew
            result[-16:] = _box_muller(self.uniform(16))
        return result

    def _one_normal(self):
        if self._second is not None:
            value, self._second = self._second, None
            return value
        u1, u2 = (((a << 32 | b) & (1 << 53) - 1) * 2.0**-53 for a, b in self.words(4).reshape(2, 2).tolist())
        radius, angle = math.sqrt(-2.0 * math.log1p(-u2)), 2.0 * math.pi * u1
        self._second = radius * math.sin(angle)
        return radius * math.cos(angle)


def _box_muller(u):
    """Normal numbers from uniform ones: in each 16, number j and number j + 8 make a pair."""
    u1, u2 = (np.float32(1) - u.reshape(-1, 2, 8)[:, 0]), u.reshape(-1, 2, 8)[:, 1]
    radius = np.sqrt(np.float32(-2) * _exactly(np.log, u1))
    angle = np.float32(2 * math.pi) * u2
    return np.stack([radius * _exactly(np.cos, angle), radius * _exactly(np.sin, angle)], axis=1).reshape(-1)


def _exactly(function, x):
    """A function of float32 numbers, rounded once: the same on every processor."""
    return function(x.astype(np.float64)).astype(np.float32)


default_generator = Generator()


def manual_seed(seed):
    return default_generator.manual_seed(seed)


def randn(*size, generator=None, dtype=None, device=None, **_):
    Device(device or "cpu")
    shape = _shape(size)
    return _as((generator or default_generator).normal(math.prod(shape)).reshape(shape), dtype or DEFAULT)


def rand(*size, generator=None, dtype=None, device=None, **_):
    Device(device or "cpu")
    shape = _shape(size)
    return _as((generator or default_generator).uniform(math.prod(shape)).reshape(shape), dtype or DEFAULT)


def randint(low, high=None, size=None, generator=None, dtype=None, device=None, **_):
    Device(device or "cpu")
    if size is None:
        low, high, size = 0, low, high
    words = (generator or default_generator).words(math.prod(size))
    return _as((words % np.uint64(high - low)).astype(np.int64).reshape(tuple(size)) + low, dtype or int64)


def randn_like(like, dtype=None, **_):
    return randn(*like.shape, dtype=dtype or like.dtype)


# Functions of tensors ----------------------------------------------------------------------------------------------


def equal(a, b):
    return a.shape == b.shape and builtins.bool(np.all(_values(a) == _values(b)))


def allclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    return builtins.bool(np.allclose(_values(a), _values(b), rtol, atol, equal_nan))


def isclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    return _as(np.isclose(_values(a), _values(b), rtol, atol, equal_nan), bool)


def where(condition, a, b):
    dtype = _joined(a, b)
    return _as(np.where(condition.bits, _values(_as(_plain(a), dtype)), _values(_as(_plain(b), dtype))), dtype)


def cat(tensors, dim=0):
    return tensors[0]._same(np.concatenate([x.bits for x in tensors], dim))


def stack(tensors, dim=0):
    return tensors[0]._same(np.stack([x.bits for x in tensors], dim))


def maximum(a, b):
    return _elementwise(np.maximum, a, b)


def minimum(a, b):
    return _elementwise(np.minimum, a, b)


def matmul(a, b):
    return a @ b


def is_tensor(x):
    return isinstance(x, Tensor)


def no_grad():
    return nullcontext()


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
    a, b = (_values(x).astype(np.float64) for x in (actual, expected))
    close = np.isclose(a, b, rtol, atol, equal_nan)
    if not close.all():
        worst = tuple(i.item() for i in np.unravel_index(np.argmax(np.where(close, -1, np.abs(a - b))), a.shape))
        raise AssertionError(
            msg
            or f"Not close: {(~close).sum()} of {close.size} numbers; at {worst} {a[worst]} where {b[worst]} is expected."
        )


# How a tensor is printed -------------------------------------------------------------------------------------------

WIDTH, EDGE, MANY = 80, 3, 1000


def _text(tensor):
    values = _values(tensor)
    shown = _edges(values) if values.size > MANY else values
    write = _writer(shown.astype(np.float64) if tensor.dtype.is_floating_point else shown, tensor.dtype)
    body = "[]" if values.size == 0 else _nested(values, write, len("tensor("), values.size > MANY)
    notes = [] if tensor.dtype in (DEFAULT, int64, bool) else [f"dtype={tensor.dtype}"]
    if values.size == 0 and values.ndim != 1:
        notes.insert(0, f"size={tuple(values.shape)}")
    return f"tensor({', '.join([body, *notes])})"


def _edges(values):
    """The numbers that are printed of a large tensor: three from each end of each dimension."""
    for axis, n in enumerate(values.shape):
        if n > 2 * EDGE:
            values = np.take(values, [*range(EDGE), *range(n - EDGE, n)], axis)
    return values


def _writer(values, dtype):
    """A function from a number to its text, all of one width."""
    if not dtype.is_floating_point:
        width = max((len(str(v)) for v in values.reshape(-1).tolist()), default=1)
        return lambda v: str(v).rjust(width)
    counted = values[np.isfinite(values) & (values != 0)].reshape(-1)
    sizes = np.abs(counted)
    most, least = (sizes.max(), sizes.min()) if sizes.size else (1.0, 1.0)
    whole = (np.ceil(sizes) == sizes).all()
    powers = most / least > 1000 or most > 1e8 or (least < 1e-4 and not whole)
    style = "{:.4e}" if powers else "{:.0f}." if whole else "{:.4f}"

    def write(v):
        return style.format(v) if math.isfinite(v) else str(builtins.float(v))

    width = max((len(write(v)) for v in counted.tolist()), default=1)
    return lambda v: write(v).rjust(width)


def _nested(values, write, indent, cut):
    if values.ndim == 0:
        return write(values.item())
    n = len(values)
    rows = [*range(EDGE), None, *range(n - EDGE, n)] if cut and n > 2 * EDGE else range(n)
    if values.ndim > 1:
        between = "," + "\n" * (values.ndim - 1) + " " * (indent + 1)
        return f"[{between.join('...' if i is None else _nested(values[i], write, indent + 1, cut) for i in rows)}]"
    texts = [" ..." if i is None else write(values[i].item()) for i in rows]
    each = max(1, (WIDTH - indent) // (max(map(len, (t for t in texts if t != " ..."))) + 2)) if texts else 1
    lines = [", ".join(texts[i : i + each]) for i in range(0, len(texts), each)]
    return f"[{(',' + chr(10) + ' ' * (indent + 1)).join(lines)}]"


# The answer to `import torch` ----------------------------------------------------------------------------------------


class _Torch(ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        method = Tensor.__dict__.get(name)
        if method is not None and callable(method):
            return method  # torch.sum(x) is x.sum()
        raise AttributeError(_missing(f"torch.{name}"), name=name, obj=self)


def module():
    """A module that has this file's names, and says of others that the page lacks them."""
    torch = _Torch("torch", "The part of torch that the book uses, on numpy.")
    torch.__dict__.update({name: value for name, value in globals().items() if not name.startswith("_")})
    for name in ("builtins", "math", "sys", "np", "module", "answer", "as_of_a_gpu", "BFloat16", "SAYS", "CUDA"):
        torch.__dict__.pop(name, None)
    torch.__spec__, torch.__version__ = ModuleSpec("torch", None), "2 on numpy"
    torch.testing = SimpleNamespace(assert_close=assert_close)
    torch.cuda = SimpleNamespace(is_available=lambda: False, device_count=lambda: 0)
    torch.cuda.__dict__.update(as_of_a_gpu() if CUDA else {})
    torch.inf, torch.nan, torch.pi = math.inf, math.nan, math.pi
    torch.strided = "torch.strided"
    return torch


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

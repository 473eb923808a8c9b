"""The DSL's public names, as the simulator answers them: what `cutlass.…` and `cute.…` mean in simulated source.

Nothing here imports, wraps or replaces the DSL. A name that is not modelled is a `Missing`, which says so when it is used.
"""

from __future__ import annotations

import difflib
import functools
import sys
import types
import warnings

import numpy as np

from quack_tutorial.trace import Space

from . import (
    arch,
    assembly,
    asynchronous,
    cluster,
    copying,
    dialects,
    hopper,
    host,
    mathops,
    numeric,
    pipeline,
    ptx,
    shapes,
    structs,
    swizzle,
)
from . import layout as la
from . import layout_algebra as algebra
from . import tensor as tn
from .context import HERE, KIND, STATE, executing, fail, group, here, kernel_frame, not_simulated
from .control import DynamicRange, and_, constant_number, or_, truth
from .layout import Layout
from .memory import Pointer, pointer_at
from .numeric import Boolean, DType, TensorSSA, Value, scalar
from .shared_memory import SmemAllocator


class Missing:
    """A name that the simulator does not model. It may stand in annotations and be compared with what is modelled, which it is
    not; any other use in simulated code is refused, and outside of it gives another Missing."""

    def __init__(self, path: str, near: str = ""):
        self._path, self._near = path, near

    def _refuse(self, *_, **__):
        if STATE.run is None:
            return Missing(self._path, self._near)
        raise not_simulated(self._path, near=self._near)

    def __call__(self, *_, **__):
        raise not_simulated(self._path, near=self._near)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Missing(f"{self._path}.{name}", self._near)

    def __setattr__(self, name, value):
        if not name.startswith("_"):
            self._refuse()
        object.__setattr__(self, name, value)

    def __mro_entries__(self, _):
        return ()

    def __repr__(self) -> str:
        return self._path

    def __eq__(self, other):
        return isinstance(other, Missing) and other._path == self._path

    def __hash__(self):
        return hash(self._path)

    @property
    def dtype(self):  # what stores, conversions and operators ask for first
        return self._refuse()


_REFUSED = (
    "add radd sub rsub mul rmul matmul rmatmul truediv rtruediv floordiv rfloordiv mod rmod divmod rdivmod pow rpow lshift rlshift "
    "rshift rrshift and rand or ror xor rxor neg pos abs invert lt le gt ge getitem setitem delitem contains iter next len bool "
    "int float index round complex enter exit format"
).split()
for _name in _REFUSED:
    setattr(Missing, f"__{_name}__", Missing._refuse)
# What Python demands of these outside of simulated code is a value of one type.
Missing.__bool__ = lambda self: STATE.run is None or self._refuse()
Missing.__format__ = lambda self, spec: self._path if STATE.run is None else self._refuse()


class Namespace:
    """A module of the DSL as simulated source sees it."""

    def __init__(self, path: str, members: dict):
        self.__dict__.update(members)
        self.__dict__["_path"] = path

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if self is CUTE and name in OLDER:
            return OLDER[name]
        near = difflib.get_close_matches(name, self.__dict__, 1, 0.85)
        return Missing(f"{self._path}.{name}", *near)

    def __repr__(self) -> str:
        return f"<simulated {self._path}>"


class Annotation:
    """A type that stands only in annotations: cute.Tensor, cutlass.Constexpr[int]."""

    def __init__(self, name: str, check=None):
        self._name, self._check = name, check

    __iter__ = None  # Python would count up for ever

    def __getitem__(self, _):
        return self

    def __or__(self, _):
        return self

    __ror__ = __or__

    def matches(self, x) -> bool:
        return self._check is not None and isinstance(x, self._check)

    def __call__(self, *args, **kwargs):
        raise not_simulated(f"{self._name}(...)")

    def __repr__(self) -> str:
        return self._name


class NumericAnnotation(Annotation):
    """cutlass.Float: also what Python's own numbers of that kind are called."""

    def __init__(self, name: str, zero):
        super().__init__(name, Value)
        self.zero = zero


class Tokens:
    """An enumeration."""

    def __init__(self, *names: str):
        for name in names:
            setattr(self, name, Token(name))


class Token:
    """A member of an enumeration of the DSL's: it equals its name."""

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name

    def __eq__(self, other):
        return other == self.name if isinstance(other, str) else isinstance(other, Token) and other.name == self.name

    def __hash__(self):
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


def _decorator(kind: str):
    def decorate(function=None, **_):
        if function is None:
            return decorate

        @functools.wraps(function)
        def refused(*args, **kwargs):
            return host.call(refused, args, kwargs)

        refused.decorated_as = kind
        return refused

    return decorate


# ---- functions of layouts, shapes and tensors -----------------------------------------------------------------------


def size(x, mode=(), **_):
    """Number of elements, of a mode if given."""
    if isinstance(mode, int):
        mode = (mode,)
    if isinstance(x, copying.TiledCopy):
        return x.size
    layout = x.layout if isinstance(x, (tn.Tensor, tn.CoordinateTensor)) else x
    shape = layout.shape if isinstance(layout, (Layout, TensorSSA, swizzle.ComposedLayout)) else layout
    for m in mode or ():
        shape = shape[m] if isinstance(shape, tuple) else shape
    return tn.shown(_product(shape))


def _product(shape):
    if isinstance(shape, tuple):
        result = 1
        for s in shape:
            result = result * _product(s)
        return result
    return shape


def _shape_of(x):
    return x.shape if hasattr(x, "shape") else x


def rank(x, mode=(), **_):
    shape = _shape_of(x)
    for m in (mode,) if isinstance(mode, int) else mode or ():
        shape = shape[m]
    return len(shape) if isinstance(shape, tuple) else 1


def shape(x, mode=(), **_):
    result = _shape_of(x)
    for m in (mode,) if isinstance(mode, int) else mode or ():
        result = result[m]
    return tn.shown(result)


def ceil_div(x, y, **_):
    if isinstance(x, tuple):
        y = y if isinstance(y, tuple) else (y,)
        return tuple(ceil_div(a, b) for a, b in zip(x, y)) + tuple(x[len(y) :])
    if isinstance(x, Value) or isinstance(y, Value):
        return (x + y - 1) // y
    return -(-x // y)


def cosize(x, **_):
    return tn.shown(la.cosize(x.layout if isinstance(x, tn.Tensor) else x))


def size_in_bytes(dtype: DType, layout, **_):
    return la.cosize(tn.as_layout(layout)) * dtype.itemsize


def make_layout(shape, stride=None, **_):
    shape = tn.hidden(shape)
    return la.make_layout(shape) if stride is None else Layout(shape, tn.hidden(stride))


def slice_(x, coord, **_):
    if isinstance(x, (tn.Tensor, tn.CoordinateTensor)):
        return x[coord]
    if isinstance(x, Layout):
        return la.slice_and_offset(tn.plain(coord), x)[0]
    return la.slice_(x, coord)


def crd2idx(coord, layout, **_):
    layout = tn.as_layout(layout)
    result = la.crd2idx(tn.plain(coord), layout.shape, layout.stride)
    return Value(numeric.Int32, result.astype(np.int32)) if isinstance(result, np.ndarray) else tn.shown(result)


def _static(name, function):
    def checked(*args, **kwargs):
        kwargs.pop("loc", None)
        kwargs.pop("ip", None)
        return tn.shown(function(*map(tn.hidden, args), **{k: tn.hidden(v) for k, v in kwargs.items()}))

    checked.__name__ = name
    return checked


def in_jit() -> bool:
    """Whether the line that runs is in a decorated function (a helper without @cute.jit is plain Python)."""
    frame = kernel_frame()
    return frame is None or bool(frame.f_globals.get(KIND))


def const_expr(x):
    """The value, when Python knows it; a dynamic one is refused."""
    if isinstance(x, (Value, TensorSSA)):
        raise fail("language", "const_expr needs a value known while tracing, not one known only when the kernel runs")
    return x


def range_constexpr(*bounds):
    if not in_jit():
        raise fail(
            "language",
            "range_constexpr works in @cute.jit and @cute.kernel functions; decorate this helper, or use range",
        )
    return range(*(constant_number(b, "a range_constexpr bound") for b in bounds))


def printf(*args, end="\n", **_):
    """cute.printf: one line a thread, `{}` or %-style."""
    if not args:
        return
    first, rest = args[0], args[1:]
    if not isinstance(first, str):
        first, rest = " ".join("{}" for _ in args), args
    if STATE.group is None:  # a host function runs once
        row = [a.a.item() if isinstance(a, Value) else a[0][0] if isinstance(a, list) else a for a in _flat_args(rest)]
        STATE.run.printed.append((-1, -1, _formatted(first, row) + end))
        return
    g = group()
    active = g.active()
    columns = [a if isinstance(a, (str, list)) else np.broadcast_to(scalar(a).a, g.shape) for a in _flat_args(rest)]
    for b, t in zip(*np.nonzero(active)):
        row = [c[b, t].item() if isinstance(c, np.ndarray) else c[b][t] if isinstance(c, list) else c for c in columns]
        STATE.run.printed.append((int(g.blocks[b]), int(g.threads[t]), _formatted(first, row) + end))


def print_tensor(tensor, **_):
    """The values of a tensor, one line a thread."""
    printf("{}", tensor)


def _formatted(text: str, row) -> str:
    if "%" in text and "{}" not in text:
        return text % tuple(row)
    return text.format(*(f"{x:f}" if isinstance(x, float) else x for x in row))


def _flat_args(args):
    for a in args:
        if isinstance(a, tuple):
            yield from _flat_args(a)
        elif isinstance(a, Pointer):
            yield a.toint()
        elif isinstance(a, tn.Tensor):
            values = a.load().a
            yield np.broadcast_to(values, (*executing().shape, values.shape[-1])).tolist()
        elif isinstance(a, (Layout, swizzle.ComposedLayout)):
            yield str(a)
        elif isinstance(a, TensorSSA):
            for k in range(a.a.shape[-1]):
                yield Value(a.dtype, a.a[..., k])
        else:
            yield a


def print_once(*args, **kwargs):
    """Python's print runs while the DSL traces: once in every pass of an unrolled loop, however many threads run."""
    run, line, g = STATE.run, here(), STATE.group
    key = ("print", line.file, line.number)
    first = run.line_numbers.setdefault(key, g)  # the group that came here first speaks for all
    if first is not g or (STATE.loops and run.line_numbers.get((*key, "in a loop"))):
        return
    run.line_numbers[(*key, "in a loop")] = STATE.loops > 0
    # In one piece: a notebook may send what stands there at any moment, and a page puts a line's end between two messages.
    sep = " " if kwargs.get("sep") is None else kwargs["sep"]
    print(sep.join(map(str, args)), **kwargs)


def type_of_value(x, *rest):
    """type(x): of a value its DSL type, so that type(x)(0) is a value of the same type."""
    return x.dtype if not rest and isinstance(x, Value) else type(x, *rest)


def recast_ptr(ptr, swizzle_=None, dtype=None, **_):
    """The same address as a pointer to another type."""
    made = ptr if dtype is None else ptr.recast(dtype)
    return made if swizzle_ is None else hopper.by_address(made, swizzle_)


def make_ptr(dtype, value, mem_space=None, *, assumed_align=None, **_):
    """A pointer from an address, which must be that of something the kernel was given or has allocated."""
    return pointer_at(dtype, value, mem_space, assumed_align)


def is_instance(x, kinds) -> bool:
    """isinstance with the DSL's types."""
    for kind in kinds if isinstance(kinds, tuple) else (kinds,):
        if isinstance(kind, Missing) and type(x).__module__.startswith(HERE):
            kind._refuse()
        if isinstance(kind, DType):
            if isinstance(x, Value) and x.dtype is kind:
                return True
        elif isinstance(kind, Annotation):
            if kind.matches(x):
                return True
        elif isinstance(kind, type) and isinstance(x, kind):
            return True
        elif hasattr(kind, "instance_of") and kind.instance_of(x):
            return True
    return False


def _extreme(plain, ordered, nan_of_first: bool, x, y):
    """As the DSL's compiler writes max and min: y where `ordered`, or where one of the two is NaN; else x."""
    if not isinstance(x, (Value, TensorSSA)) and not isinstance(y, (Value, TensorSSA)):
        return plain(x, y)
    dtype = numeric.promote(x, y, "max")
    ax, ay, wrap = numeric.operands(x, y, dtype)
    nan = ax != ax if nan_of_first else ay != ay
    return wrap(dtype, np.where(ordered(ax, ay) | nan, ay, ax))


def maximum(x, y, **_):
    """cutlass.max, and max of two: NaN wins, and of two zeros the second."""
    return _extreme(max, np.less_equal, False, x, y)


def minimum(x, y, **_):
    return _extreme(min, np.greater_equal, False, x, y)


def math_maximum(x, y, propagate_nan=False, **_):
    """cute.math.max: a NaN gives way to a number, except with propagate_nan=True."""
    return _extreme(max, np.less_equal, not propagate_nan, x, y)


def math_minimum(x, y, propagate_nan=False, **_):
    return _extreme(min, np.greater_equal, not propagate_nan, x, y)


def builtin_max(*values, **kwargs):
    return _builtin(max, maximum, values, kwargs)


def builtin_min(*values, **kwargs):
    return _builtin(min, minimum, values, kwargs)


def _builtin(plain, pick, values, kwargs):
    items = values if len(values) > 1 else tuple(values[0])
    if kwargs or not any(isinstance(v, (Value, TensorSSA)) for v in items):
        return plain(items, **kwargs)
    return functools.reduce(pick, items)


def builtin_any(items):
    """any() of a list or tuple, which may hold dynamic conditions; a generator is Python's, as in the DSL."""
    return _combined(any, or_, items)


def builtin_all(items):
    return _combined(all, and_, items)


def _combined(plain, join, items):
    if not isinstance(items, (list, tuple)) or not any(isinstance(v, (Value, TensorSSA)) for v in items):
        return plain(items)
    dynamic = [Value(Boolean, np.array([[bool(v)]])) if truth(v) is None else v for v in items]
    first = Value(Boolean, truth(dynamic[0]))
    return functools.reduce(lambda left, right: join(left, lambda: right), dynamic[1:], first)


def dynamic_expr(x):
    c = truth(x)
    return x if c is not None else Value(Boolean, np.array([[bool(x)]]))


def as_numeric(x):
    return scalar(x)


def assume(x, *_, **__):
    if STATE.run is not None:
        STATE.run.assumes = True
    return x


def ignore(*_, **__):
    return None


def elect_one(**_):
    """In `with cute.arch.elect_one():` alone, which `rewrite` turns into an `if`."""
    raise fail("language", "cute.arch.elect_one() stands after `with`: with cute.arch.elect_one():")


# ---- the namespaces -------------------------------------------------------------------------------------------------

_ON_LAYOUT = "zipped_divide logical_divide tiled_divide flat_divide group_modes coalesce select append prepend composition".split()
_TENSOR = (
    "make_tensor make_identity_tensor make_rmem_tensor make_rmem_tensor_like local_tile domain_offset recast_tensor "
    "full full_like zeros_like ones_like where elem_less any_ all_"
).split()
_LAYOUT = (
    "make_ordered_layout make_identity_layout make_layout_tv raked_product blocked_product logical_product zipped_product "
    "complement right_inverse left_inverse recast_layout product product_each shape_div tile_to_shape is_congruent depth get dice "
    "flatten_to_tuple "
    "max_common_vector max_common_layout"
).split()


MATHEMATICS = (
    "exp exp2 log log2 log10 sqrt rsqrt rcp tanh sin cos tan asin acos atan atan2 erf floor ceil absf isnan fma"
).split()
_SHAPES = (
    shapes.prepend_ones,
    shapes.idx2crd,
    shapes.repeat_like,
    shapes.filter_zeros,
    shapes.local_partition,
    shapes.is_static,
)


def _cute() -> dict:
    layouts = {**vars(la), **vars(algebra)}
    members = {name: tn.on_layout(layouts[name]) for name in _ON_LAYOUT}
    members |= {name: _static(name, layouts[name]) for name in _LAYOUT}
    members |= {t.name: t for t in numeric.TYPES.values()}
    for function in (
        size,
        rank,
        shape,
        ceil_div,
        la.round_up,
        cosize,
        size_in_bytes,
        make_layout,
        slice_,
        crd2idx,
        printf,
        assume,
    ):
        members[function.__name__] = function
    for function in (*_SHAPES, print_tensor, recast_ptr, make_ptr, swizzle.make_swizzle, swizzle.make_composed_layout):
        members[function.__name__] = function
    members["struct"] = structs.struct
    for name in _TENSOR:
        members[name] = getattr(tn, name)
    members["make_fragment_like"] = tn.make_rmem_tensor_like
    for name in "copy autovec_copy basic_copy basic_copy_if make_copy_atom make_tiled_copy make_tiled_copy_tv".split():
        members[name] = getattr(copying, name)
    for name in MATHEMATICS:
        members[name] = getattr(mathops, name)
    members |= {
        "flatten": lambda x, **_: tn.on_layout(la.flatten)(x),
        "jit": _decorator("jit"),
        "kernel": _decorator("kernel"),
        "arch": ARCH,
        "math": MATH,
        "nvgpu": NVGPU,
        "core": Missing("cutlass.cute.core"),
        "Tensor": Annotation("cute.Tensor", (tn.Tensor, tn.CoordinateTensor)),
        "TensorSSA": Annotation("cute.TensorSSA", TensorSSA),
        "Layout": Annotation("cute.Layout", Layout),
        "Pointer": Annotation("cute.Pointer", Pointer),
        "ComposedLayout": Annotation("cute.ComposedLayout", swizzle.ComposedLayout),
        "Swizzle": Annotation("cute.Swizzle", swizzle.Swizzle),
        "TiledCopy": Annotation("cute.TiledCopy", copying.TiledCopy),
        "CopyAtom": Annotation("cute.CopyAtom", copying.CopyAtom),
        "Shape": Annotation("cute.Shape", (tuple, int)),
        "Tile": Annotation("cute.Tile"),
        "Tiler": Annotation("cute.Tiler"),
        "Coord": Annotation("cute.Coord", (tuple, int, Value)),
        "Stride": Annotation("cute.Stride", (tuple, int)),
        "IntTuple": Annotation("cute.IntTuple", (tuple, int)),
        "Numeric": Annotation("cute.Numeric", Value),
        "NumericMeta": Annotation("cute.NumericMeta"),
        "ReductionOp": Tokens("ADD", "MUL", "MIN", "MAX"),
        "AddressSpace": SPACES,
        "CacheEvictionPriority": Tokens("EVICT_NORMAL", "EVICT_FIRST", "EVICT_LAST", "EVICT_UNCHANGED", "NO_ALLOCATE"),
        "max": math_maximum,
        "min": math_minimum,
        "compile": host.compile_,
        "runtime": Namespace("cutlass.cute.runtime", {"from_dlpack": host.from_dlpack}),
    }
    return members


_CLUSTER = (
    "block_idx_in_cluster block_in_cluster_idx block_in_cluster_dim cluster_size cluster_idx map_dsmem_ptr cluster_arrive "
    "cluster_arrive_relaxed cluster_wait mbarrier_init mbarrier_init_fence mbarrier_arrive mbarrier_arrive_and_expect_tx "
    "mbarrier_expect_tx mbarrier_wait mbarrier_try_wait mbarrier_test_wait store_async_dsmem "
    "cp_async_bulk_commit_group cp_async_bulk_wait_group"
).split()


class _Spaces:
    gmem, smem, rmem, generic = Space.GMEM, Space.SMEM, Space.NONE, Space.NONE


SPACES = _Spaces()
ARCH = Namespace(
    "cute.arch",
    {
        n: getattr(arch, n)
        for n in dir(arch)
        if not n.startswith("_") and callable(getattr(arch, n)) and getattr(arch, n).__module__ in (arch.__name__, None)
    }
    | {
        "FULL_MASK": arch.FULL_MASK,
        "WARP_SIZE": arch.WARP_SIZE,
        "cp_async_commit_group": asynchronous.cp_async_commit_group,
        "cp_async_wait_group": asynchronous.cp_async_wait_group,
        "cp_async_mbarrier_arrive_noinc": asynchronous.cp_async_mbarrier_arrive_noinc,
        **{name: getattr(cluster, name) for name in _CLUSTER},
        "inline_ptx": ptx.inline_ptx,
        "elect_one": elect_one,
        "setmaxregister_increase": ignore,
        "setmaxregister_decrease": ignore,
    },
)
ARCH.__dict__["nvvm_wrappers"] = ARCH  # the module that has them
for _own in ("elect", "flush", "shuffle_source"):  # the simulator's, not the DSL's
    ARCH.__dict__.pop(_own, None)
MATH = Namespace(
    "cute.math",
    {n: getattr(mathops, n) for n in MATHEMATICS} | {"max": math_maximum, "min": math_minimum},
)
CACHE_LOAD = Tokens("ALWAYS", "GLOBAL", "STREAMING", "LAST_USE", "NONE")
CACHE_STORE = Tokens("WRITE_BACK", "GLOBAL", "STREAMING", "WRITE_THROUGH", "NONE")
CPASYNC = Namespace(
    "cute.nvgpu.cpasync",
    {name: getattr(copying, name) for name in ("CopyG2SOp", "CopyBulkG2SOp", "CopyBulkS2GOp")}
    | {"LoadCacheMode": CACHE_LOAD},
)
NVGPU = Namespace(
    "cute.nvgpu",
    {
        "CopyUniversalOp": copying.CopyUniversalOp,
        "CopyG2ROp": copying.CopyG2ROp,
        "CopyR2GOp": copying.CopyR2GOp,
        "CopyS2ROp": copying.CopyS2ROp,
        "CopyR2SOp": copying.CopyR2SOp,
        "cpasync": CPASYNC,
        "LoadCacheMode": CACHE_LOAD,
        "StoreCacheMode": CACHE_STORE,
        "L2PrefetchSize": Tokens("NONE", "SIZE_64B", "SIZE_128B", "SIZE_256B"),
        "MemoryOrder": Tokens("WEAK", "RELAXED", "ACQUIRE", "RELEASE", "ACQ_REL", "VOLATILE"),
        "MemoryScope": Tokens("CTA", "CLUSTER", "GPU", "SYS"),
    },
)
OLDER = {"make_fragment": tn.make_rmem_tensor}  # names in cute of releases before 4.8
_T = {"bool": "Boolean", "i1": "Boolean", "i8": "Int8", "i16": "Int16", "i32": "Int32", "i64": "Int64"}
_T |= {"f16": "Float16", "bf16": "BFloat16", "f32": "Float32", "f64": "Float64"}


def _type_maker(name: str):
    return lambda *_, **__: numeric.TYPES[name]


def dsl_user_op(function):
    return function


class ResultTypes:
    """T.i32() and so on: what an asm gives."""

    def __init__(self):
        for short, name in _T.items():
            setattr(self, short, _type_maker(name))

    @staticmethod
    def vector(count: int, dtype: DType):
        return dialects.VectorType(count, dtype)


T = ResultTypes()
LLVM = Namespace(
    "llvm",
    {
        "inline_asm": assembly.inline_asm,
        "extractvalue": assembly.extractvalue,
        "AsmDialect": Tokens("AD_ATT", "AD_Intel"),
        "StructType": Namespace("llvm.StructType", {"get_literal": assembly.literal_struct}),
    },
)
VECTOR = Namespace(
    "cutlass._mlir.dialects.vector", {n: getattr(dialects, n) for n in ("from_elements", "bitcast", "extract")}
)
NVVM = Namespace("cutlass._mlir.dialects.nvvm", {"fmin": dialects.fmin, "fmax": dialects.fmax})
PRIMITIVES = Namespace(
    "cutlass.experimental.primitives",
    {
        "redux_sync": dialects.redux_sync,
        "ReductionKind": Tokens(*"ADD MAX MIN UMAX UMIN AND OR XOR FMAX FMIN".split()),
    },
)
BASE = Namespace(
    "cutlass.base_dsl",
    {
        "BaseDSL": dialects.BaseDSL,
        "enums": Namespace("cutlass.base_dsl.enums", {"Arch": dialects.Arch}),
        "typing": Namespace("cutlass.base_dsl.typing", {"Vector": dialects.Vector}),
    },
)
PIPELINE = Namespace(
    "cutlass.pipeline",
    {
        n: getattr(pipeline, n)
        for n in "PipelineAsync PipelineCpAsync PipelineTmaAsync PipelineState make_pipeline_state CooperativeGroup "
        "NamedBarrier sync".split()
    }
    | {
        "Agent": Tokens("Thread", "ThreadBlock", "ThreadBlockCluster"),
        "PipelineUserType": Tokens("Producer", "Consumer"),
    },
)
CUTE = Namespace("cute", _cute())
CUTLASS = Namespace(
    "cutlass",
    {t.name: t for t in numeric.TYPES.values()}
    | {
        "cute": CUTE,
        "Constexpr": Annotation("cutlass.Constexpr"),
        "Numeric": Annotation("cutlass.Numeric", Value),
        "Float": NumericAnnotation("cutlass.Float", 0.0),
        "const_expr": const_expr,
        "dynamic_expr": dynamic_expr,
        "range": DynamicRange,
        "range_dynamic": DynamicRange,
        "range_constexpr": range_constexpr,
        "as_numeric": as_numeric,
        "max": maximum,
        "min": minimum,
        "memory": Namespace("cutlass.memory", {"SmemAllocator": SmemAllocator}),
        "utils": Namespace("cutlass.utils", {"SmemAllocator": SmemAllocator}),
        "AddressSpace": SPACES,
        "base_dsl": BASE,
        "pipeline": PIPELINE,
        "dsl_user_op": dsl_user_op,
        "experimental": Namespace("cutlass.experimental", {"primitives": PRIMITIVES}),
        "cutlass_dsl": Namespace(
            "cutlass.cutlass_dsl", {"T": T, "dsl_user_op": dsl_user_op, **{t.name: t for t in numeric.TYPES.values()}}
        ),
        "_mlir": Namespace(
            "cutlass._mlir",
            {
                "dialects": Namespace("cutlass._mlir.dialects", {"llvm": LLVM, "vector": VECTOR, "nvvm": NVVM}),
                "extras": Namespace("cutlass._mlir.extras", {"types": T}),
            },
        ),
    },
)
CUTE.__dict__["typing"] = CUTE
hopper.extend(sys.modules[__name__])


class Stream:
    """A CUDA stream: launches run one after another, whichever it is."""

    def __init__(self, *_):
        pass


CUDA = Namespace(
    "cuda",
    {"bindings": Namespace("cuda.bindings", {"driver": Namespace("cuda.bindings.driver", {"CUstream": Stream})})},
)
BUILTINS = {
    "range": DynamicRange,
    "print": print_once,
    "isinstance": is_instance,
    "type": type_of_value,
    "max": builtin_max,
    "min": builtin_min,
    "any": builtin_any,
    "all": builtin_all,
}
PLAIN_BUILTINS = {
    "print": print_once,
    "isinstance": is_instance,
    "type": type_of_value,
}  # of a helper without @cute.jit: its range is Python's


def by_path(path: str):
    """The namespace of a module: 'cutlass.cute.nvgpu' and so on."""
    found = CUDA if path.partition(".")[0] == "cuda" else CUTLASS
    for part in path.split(".")[1:]:
        found = getattr(found, part)
    return found


def answers() -> dict:
    """id -> (object of the DSL's, what the simulator has for it), by the public names of the DSL's modules that are loaded."""
    return _answers(len(sys.modules)) if "cutlass" in sys.modules else {}


@functools.lru_cache(maxsize=1)
def _answers(loaded: int) -> dict:
    found, seen, waiting = {}, set(), [(CUTLASS, sys.modules.get("cutlass"))]
    while waiting:
        mine, theirs = waiting.pop()
        if id(mine) in seen:
            continue
        seen.add(id(mine))
        for name, x in vars(mine).items():
            with warnings.catch_warnings():  # of a name's old place, which nobody has asked for here
                warnings.simplefilter("ignore")
                real = getattr(theirs, name, None)
            if isinstance(x, Namespace) and isinstance(real, types.ModuleType):
                waiting.append((x, real))
            elif callable(real) and not isinstance(x, (Missing, Annotation)) and not isinstance(real, types.MethodType):
                found[id(real)] = real, x
    return found


def by_name(module: str, name: str):
    """The stand-in for a DSL function or class that a module imported by name."""
    if "arch" in module:
        places = (ARCH, CUTE, CUTLASS)
    elif "math" in module:
        places = (MATH, CUTE)
    elif "cpasync" in module:
        places = (CPASYNC, NVGPU)
    elif "dialects" in module and "_cute" not in module:  # the enums that cute re-exports are defined among them
        places = (
            {"vector": VECTOR, "nvvm": NVVM}.get(module.partition("dialects.")[2].lstrip("_").partition("_")[0], LLVM),
        )
    elif "pipeline" in module:
        places = (PIPELINE,)
    elif "experimental" in module:
        places = (PRIMITIVES, *hopper.PLACES)
    else:
        places = (
            CUTLASS,
            CUTE,
            NVGPU,
            CPASYNC,
            ARCH,
            CUTLASS.memory,
            CUTLASS.cutlass_dsl,
            LLVM,
            BASE,
            BASE.enums,
            BASE.typing,
            *hopper.PLACES,
        )
    for place in places:
        if name in place.__dict__:
            return place.__dict__[name]
    return Missing(f"{module}.{name}")

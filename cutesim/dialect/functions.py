"""Functions of cutlass and cute that need no room of their own, and Python's own as kernels call them: of constants, printing,
pointers, types, maxima, vectors."""

from __future__ import annotations

import functools

import numpy as np

from ..context import KIND, STATE, NeedsWarps, executing, group, here, kernel_frame, refused, wrong_kind
from ..layouts import layout as la
from ..layouts.layout import Layout
from ..machine import host
from ..machine.control import and_, or_
from ..machine.loops import ConstexprRange
from ..memory import swizzle
from ..memory import tensor as tn
from ..memory.log import needs_warps
from ..memory.pointers import Pointer, pointer_at
from ..values import numeric
from ..values.numeric import Boolean, DType, Literal, TensorSSA, Value, constant_number, convert, scalar, truth, type_of


def decorator(kind: str):
    def decorate(function=None, **_):
        if function is None:
            return decorate

        @functools.wraps(function)
        def refused(*args, **kwargs):
            function  # noqa: B018  # in the closure, where `proxies.undecorated` finds it
            return host.call(refused, args, kwargs)

        refused.decorated_as = kind
        # what the compiled kernel is called, which changes nothing here
        refused.set_name_prefix = ignore
        return refused

    return decorate


def in_jit() -> bool:
    """Whether the line that runs is in a decorated function (a helper without @cute.jit is plain Python)."""
    frame = kernel_frame()
    return frame is None or bool(frame.f_globals.get(KIND))


def const_expr(x):
    """The value, when Python knows it; a dynamic one is refused."""
    if type(x) is Literal:
        return x.value
    if isinstance(x, (Value, TensorSSA)):
        raise refused("const_expr needs a value known while tracing, not one known only when the kernel runs")
    return x


def range_constexpr(*bounds):
    if not in_jit():
        raise refused(
            "range_constexpr works in @cute.jit and @cute.kernel functions; decorate this helper, or use range"
        )
    return ConstexprRange(*(constant_number(b, "a range_constexpr bound") for b in bounds))


def printf(*args, end="\n", **_):
    """cute.printf: one line a thread, `{}` or %-style."""
    if not args:
        return
    first, rest = args[0], args[1:]
    if not isinstance(first, str):
        first, rest = " ".join("{}" for _ in args), args
    needs_warps()
    g, given = executing(), [*_flat_args(rest)]
    if STATE.group is None:  # a host function runs once
        places = [(0, 0, -1, -1)]
    else:
        places = [(b, t, int(g.blocks[b]), int(g.threads[t])) for b, t in np.argwhere(g.active())]
        given = [a if isinstance(a, (str, list)) else scalar(a) for a in given]
    columns = [np.broadcast_to(a.a, g.shape).tolist() if isinstance(a, Value) else a for a in given]
    for b, t, block, thread in places:
        row = [column[b][t] if isinstance(column, list) else column for column in columns]
        STATE.run.printed.append((block, thread, _formatted(first, row) + end))


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
    needs_warps()
    run, line, g = STATE.run, here(), STATE.group
    key = ("print", line.file, line.number)
    first = run.line_numbers.setdefault(key, g)  # the group that came here first speaks for all
    if first is not g or (STATE.loops and run.line_numbers.get((*key, "in a loop"))):
        return
    run.line_numbers[(*key, "in a loop")] = STATE.loops > 0
    # In one piece: a notebook may send what stands there at any moment, and a page puts a line's end between two messages.
    sep = " " if kwargs.get("sep") is None else kwargs["sep"]
    print(sep.join(map(_printed, args)), **kwargs)


def _printed(x) -> str:
    """The DSL prints `?` for a number; here some of the numbers are to be had."""
    if type(x) is not Value:
        return str(x)
    first, *more = x.a.reshape(-1)[:2]
    return f"{x.dtype}(one a thread: {first}, {more[0]}, …)" if more else f"{x.dtype}({first})"


def recast_ptr(ptr, swizzle_=None, dtype=None, **_):
    """The same address as a pointer to another type."""
    made = ptr if dtype is None else ptr.recast(dtype)
    return made if swizzle_ is None else swizzle.by_address(made, swizzle_)


def make_ptr(dtype, value, mem_space=None, *, assumed_align=None, **_):
    """A pointer from an address, which must be that of something the kernel was given or has allocated."""
    return pointer_at(dtype, value, mem_space, assumed_align)


def _extreme(plain, ordered, nan_of_first: bool, x, y):
    """As the DSL's compiler writes max and min: y where `ordered`, or where one of the two is NaN; else x."""
    if not isinstance(x, (Value, TensorSSA)) and not isinstance(y, (Value, TensorSSA)):
        return plain(x, y)
    dtype = numeric.promote(x, y, "max")
    if numeric.are_known(x, y):
        common = [Literal(dtype, numeric.known(number)).value for number in (x, y)]
        return Literal(dtype, plain(*common))
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
    held = items if isinstance(items, (list, tuple)) else ()
    if not any(isinstance(v, (Value, TensorSSA)) for v in held):
        return plain(items)
    for v in items:
        if type_of(v) is None:
            raise wrong_kind(f"{plain.__name__} of a number and a {type(v).__name__}, which the DSL refuses", v)
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


def setmaxregister(reg_count, **_):
    """Of registers only this is noted: how many a thread of each warp asks for (`scheduler.exit_warp` adds them up)."""
    warp = group()
    if warp.warp < 0:
        raise NeedsWarps
    if numeric.are_known(reg_count):
        asked = warp.launch.registers.setdefault(int(warp.blocks[0]), {})
        asked[warp.warp] = numeric.known(reg_count), here()


def elect_one(**_):
    """In `with cute.arch.elect_one():` alone, which `rewrite` turns into an `if`."""
    raise refused("cute.arch.elect_one() stands after `with`: with cute.arch.elect_one():")


def dsl_user_op(function):
    return function


def full(shape, fill_value, dtype: DType, **_) -> TensorSSA:
    count = la.product(shape)
    a = convert(scalar(fill_value), dtype).a[..., None]
    return TensorSSA(dtype, np.broadcast_to(a, a.shape[:2] + (count,)), shape)


def full_like(x, fill_value, dtype: DType | None = None, **_) -> TensorSSA:
    return full(x.shape, fill_value, dtype or x.element_type)


def zeros_like(x, dtype=None, **_):
    return full_like(x, 0, dtype)


def ones_like(x, dtype=None, **_):
    return full_like(x, 1, dtype)


def where(condition, x, y, **_):
    """Element by element `condition ? x : y` of one type; a number of that type stands for a vector of it."""
    if not isinstance(condition, TensorSSA):
        raise refused("cute.where needs a vector condition; for one number write `x if condition else y`")
    if not isinstance(x, TensorSSA) and not isinstance(y, TensorSSA):
        raise refused("cute.where: at least one of the two choices must be a vector")
    dtype = type_of(x)
    if dtype is None or dtype is not type_of(y):
        raise refused(f"cute.where chooses between values of one type, got {type_of(x)} and {type_of(y)}; convert one")
    spread = lambda v: v if isinstance(v, TensorSSA) else full(condition.shape, v, dtype)  # noqa: E731
    ax, ay, wrap = numeric.operands(spread(x), spread(y), dtype)
    return TensorSSA(dtype, np.where(condition.a, ax, ay), condition.shape)


def any_(x: TensorSSA, **_) -> Value:
    """Whether some value of the vector is not zero."""
    return Value(Boolean, _truths(x, "any_").any(axis=-1))


def all_(x: TensorSSA, **_) -> Value:
    """Whether no value of the vector is zero."""
    return Value(Boolean, _truths(x, "all_").all(axis=-1))


def _truths(x, name: str) -> np.ndarray:
    if not isinstance(x, TensorSSA):
        raise refused(f"cute.{name} takes a vector; combine conditions with `and`, `or`, any([...]) or all([...])")
    return x.a != 0

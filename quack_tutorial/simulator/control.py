"""What rewritten code calls: branches and loops under masks, lazy and/or, calls that may block.

| section    | what it has                                                                                   |
|------------|-----------------------------------------------------------------------------------------------|
| (first)    | names that no path has set, what a dynamic `if` must not do, the limit on steps               |
| calls      | calls of functions that may block, and of those that must not                                 |
| conditions | truth, and/or/not, comparisons and `a if c else b`, of Python values and of one a lane        |
| joins      | one value from those of two arms, and the DSL's rules on their types                          |
| `Branch`   | a dynamic `if`: each arm under its mask, then the joins                                       |
| loops      | `range` and `while`, unrolled or under masks, with the variables that they carry              |

`rewrite` says which calls stand for which statements.
"""

from __future__ import annotations

import functools
import operator
import sys

import numpy as np

from quack_tutorial.trace import Op

from .context import STATE, NotSimulated, SimulationError, fail, group, here, not_simulated
from .memory import Pointer
from .numeric import Boolean, Int32, TensorSSA, Value, convert, select, type_of
from .tensor import Tensor, shown


class Pending:
    """A call that has begun and may block: `steps` is its generator."""

    __slots__ = ("steps",)

    def __init__(self, steps):
        self.steps = steps


class Unbound:
    """Stands for a name that has no value on this path; any use says so."""

    def __init__(self, name: str, why: str = "has no value yet"):
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_why", why)

    def _refuse(self, *_, **__):
        raise fail("language", f"{self._name} {self._why}")

    @property
    def dtype(self):  # what every store, conversion and operator asks for first
        self._refuse()

    def __getattr__(self, attribute):
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        self._refuse()

    __call__ = __getitem__ = __setitem__ = __iter__ = __bool__ = __add__ = __radd__ = __sub__ = __rsub__ = _refuse
    __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __lt__ = __gt__ = __le__ = __ge__ = __eq__ = __ne__ = _refuse
    __neg__ = __mod__ = __rmod__ = __floordiv__ = __rfloordiv__ = __and__ = __or__ = __len__ = __index__ = _refuse
    __hash__ = None


GONE = "is bound first inside a dynamic `if` or loop, so it is gone after it; give it a value before"


def unbound(name: str) -> Unbound:
    return Unbound(name)


def depth() -> int:
    g = STATE.group
    return 0 if g is None else len(g.masks)


def no_return(at_entry: int) -> None:
    if depth() != at_entry:
        refuse_return()


def refuse_return() -> None:
    raise fail(
        "language",
        "return inside an `if` or loop that depends on the data is refused by the DSL; set a variable instead",
    )


def changes(container) -> None:
    """A Python list or dict that belongs to another function is changed: refused where only some lanes would do so."""
    if depth() == 0 and STATE.loops == 0:
        return
    if isinstance(container, (list, dict)) or hasattr(type(container), "is_twin"):
        raise not_simulated("a list, dict or object of another function changed inside a dynamic `if` or loop")


def copies(values: tuple) -> tuple:
    """The values, lists and dicts copied: an arm or a pass changes its own, and the names are joined afterwards."""
    return tuple(_copied(v) for v in values)


def _copied(x):
    if _carries_values(x):
        return x._copied()
    if type(x) is list:
        return [_copied(v) for v in x]
    return {k: _copied(v) for k, v in x.items()} if type(x) is dict else x


def _carries_values(x) -> bool:
    """Whether this is an object whose attributes change in a dynamic `if` or loop as numbers do: of a dataclass, or of a class that
    gives the DSL its values."""
    return getattr(type(x), "_joined", None) is not None and x._carries_values


def refuse_objects(names, values) -> None:
    for name, value in zip(names, values):
        if _carries_values(value):
            if name == "self":
                raise not_simulated(f"attributes of self that a dynamic `if` or loop changes ({value!r})")
            continue
        if hasattr(type(value), "is_twin") or hasattr(type(value), "is_python_object") or isinstance(value, str):
            raise fail(
                "language",
                f"{name} is a Python object that a dynamic `if` or loop changes, or whose method it calls, which the DSL refuses; "
                f"keep the value in a variable or in a register tensor, and call a method as self.{name}.… or before",
            )


def check_budget() -> None:
    run = STATE.run
    run.steps += 1
    if run.steps > run.max_steps:
        raise fail(
            "endless",
            f"stopped after {run.max_steps:,} loop steps in which no warp came to its end: does this loop end? "
            "(a longer run: simulate(..., max_steps=...))",
        )


# ---- calls ----------------------------------------------------------------------------------------------------------


def not_for_the_reader() -> None:
    """What an `except` begins with: the simulator's own errors end a run, whoever wants to catch them."""
    error = sys.exc_info()[1]
    if isinstance(error, (NotSimulated, SimulationError)):
        raise error


def call(function, *args, **kwargs):
    """Call anything from a kernel: a value, or Pending where it may block."""
    start = getattr(type(function), "start_call", None)
    if start is not None:
        return start(function, args, kwargs)
    if function is functools.partial:
        return Partial(args[0], args[1:], kwargs)
    try:
        return function(*args, **kwargs)
    except Exception as error:
        from . import blame  # which imports this module

        told = blame.of_call(error, function, args, kwargs)
        if told is error:
            raise
        raise told from error


def extents(x, name: str):
    """`x.shape` or `x.stride`, with what is known only when the kernel runs as values."""
    return shown(getattr(x, name))


class Partial:
    """functools.partial of a function that is simulated."""

    def __init__(self, function, args, kwargs):
        self.function, self.args, self.kwargs = function, args, kwargs

    def start_call(self, args, kwargs):
        return call(self.function, *self.args, *args, **{**self.kwargs, **kwargs})


def call_now(function, *args, **kwargs):
    """A call inside a lambda or comprehension, where a barrier cannot wait."""
    result = call(function, *args, **kwargs)
    if type(result) is not Pending:
        return result
    try:
        next(result.steps)
    except StopIteration as stop:
        return stop.value
    raise not_simulated("a barrier or wait inside a lambda, and/or or conditional expression")


def collect(iterable, element, keep, one: bool):
    """The list of element(...) for each item of an iterable that `keep` lets pass; items are tuples of arguments unless `one`."""
    result = []
    for item in iterable:
        given = (item,) if one else tuple(item)
        if keep is None or keep(*given):
            result.append((yield from element(*given)))
    return result


def turn():
    """After a store to an element, where orders are chosen store by store; `orders` has its own."""


class Nested:
    """A function defined inside a kernel."""

    def __init__(self, generator_function):
        self.generator_function = generator_function

    def start_call(self, args, kwargs):
        try:
            return Pending(self.generator_function(*args, **kwargs))
        except TypeError as error:  # of the call: the body begins when the generator is asked
            raise fail("language", str(error)) from None


nested = Nested

# ---- conditions -----------------------------------------------------------------------------------------------------


def truth(x, what: str = "the condition"):
    """A dynamic condition as a bool array, or None when `x` is a plain Python value."""
    if isinstance(x, Value):
        return x.a if x.dtype is Boolean else x.a != 0
    if isinstance(x, TensorSSA):
        raise fail("language", f"{what} is a vector of {x.numel} values; reduce it to one, or use cute.where")
    return None


def and_(left, right):
    if truth(left) is None:
        return right() if left else left
    other = right()  # both sides run: a dynamic `and` does not short-circuit
    return Value(Boolean, truth(left) & (truth(other) if truth(other) is not None else np.array([[bool(other)]])))


def or_(left, right):
    if truth(left) is None:
        return left if left else right()
    other = right()
    return Value(Boolean, truth(left) | (truth(other) if truth(other) is not None else np.array([[bool(other)]])))


def not_(x):
    c = truth(x)
    return (not x) if c is None else Value(Boolean, ~c)


_OPERATORS = {
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "In": lambda a, b: _contains(b, a),
    "NotIn": lambda a, b: not _contains(b, a),
}


def _contains(container, x) -> bool:
    held = container if isinstance(container, (tuple, list)) else ()
    if any(isinstance(v, (Value, TensorSSA)) for v in (x, *held)):
        raise not_simulated("`in` with a number that is known only when the kernel runs")
    return x in container


def compare(names, *values):
    result = True
    for name, left, right in zip(names, values, values[1:]):
        one = _OPERATORS[name](left, right)
        result = and_(result, lambda one=one: one)
    return result


def choose(condition, yes, no):
    """`yes() if condition else no()`: lazy, under masks when the condition is dynamic."""
    c = truth(condition)
    if c is None or STATE.group is None:  # in a host function, there is one of everything
        return yes() if (condition if c is None else c.all()) else no()
    g = group()
    active = g.active()
    if not (active & c).any():
        return _dynamic(no())
    if not (active & ~c).any():
        return _dynamic(yes())
    g.push(c)
    first = yes()
    g.pop()
    g.push(~c)
    second = no()
    g.pop()
    return _merge("the conditional expression", c, first, second)


def _dynamic(x):
    """A Python number chosen by a dynamic condition is a dynamic number, whichever way the lanes went."""
    return convert(x, type_of(x)) if isinstance(x, (bool, int, float)) else x


def elect():
    """One lane of each warp, as elect.sync picks: the lowest active one."""
    from .memory import record_event

    g = group()
    active = g.active().reshape(len(g.blocks), -1, 32)
    first = active.argmax(axis=2)
    chosen = (np.arange(32, dtype=np.int64) == first[..., None]) & active
    record_event(Op.ELECT)
    return Value(Boolean, chosen.reshape(g.shape))


# ---- joins ----------------------------------------------------------------------------------------------------------


def _kind(x) -> str:
    if isinstance(x, TensorSSA):
        return f"a vector of {x.numel} {x.dtype}"
    dtype = type_of(x)
    return repr(dtype) if dtype is not None else type(x).__name__


def _same(x, y) -> bool:
    if isinstance(x, (Value, TensorSSA, list, dict)) or isinstance(y, (Value, TensorSSA, list, dict)):
        return x is y and not isinstance(x, (list, dict))
    if x is y:
        return True
    if isinstance(x, tuple) and isinstance(y, tuple):
        return len(x) == len(y) and all(_same(p, q) for p, q in zip(x, y))
    try:
        return type(x) is type(y) and bool(x == y)
    except Exception:
        return False


def _like(found: tuple, values) -> tuple:
    """`values` as a tuple of the same kind: one with named fields keeps its names."""
    return type(found)(*values) if hasattr(found, "_fields") else tuple(values)


def _merge(name: str, condition, x, y):
    """The value after a join: x where `condition`, else y; types must agree as the DSL demands."""
    if _carries_values(x) and type(x) is type(y):
        return x if x is y else x._joined(y, lambda n, p, q: _dynamic(_merge(f"{name}.{n}", condition, p, q)))
    if _same(x, y):
        return x
    if isinstance(x, Unbound) or isinstance(y, Unbound):
        return Unbound(name, GONE)
    if isinstance(x, tuple) and isinstance(y, tuple) and len(x) == len(y):
        return _like(y, (_merge(name, condition, p, q) for p, q in zip(x, y)))
    if isinstance(x, (list, dict)):
        return _each(name, x, y, lambda n, p, q: _dynamic(_merge(n, condition, p, q)))
    check_types(name, x, y)
    return x.either(condition, y) if isinstance(x, (Tensor, Pointer)) else select(condition, x, y)


def _each(name: str, x, y, join):
    """join(name, x's element, y's element) for all elements of two lists, or dicts, of one structure."""
    kind = type(x).__name__
    if type(x) is not type(y):
        raise fail("language", f"{name} is a {kind} on one path of a dynamic `if` or loop and {_kind(y)} on the other")
    here, there = (tuple(c) if isinstance(x, dict) else tuple(range(len(c))) for c in (x, y))
    if here != there:
        raise fail(
            "language",
            f"{name} has {len(y)} element{'s' * (len(y) != 1)} on one path of a dynamic `if` or loop and {len(x)} on the "
            f"other; a {kind} keeps its elements there",
        )
    joined = {k: join(f"{name}[{k!r}]", x[k], y[k]) for k in here}
    return joined if isinstance(x, dict) else list(joined.values())


def check_types(name: str, x, y) -> None:
    if isinstance(x, (Tensor, Pointer)) and type(x) is type(y):
        if x.carried_type != y.carried_type:
            raise fail(
                "language",
                f"{name} changes type in a dynamic `if` or loop: {y.carried_type} and {x.carried_type}; space, layout and "
                "alignment must stay the same",
            )
        return
    tx, ty = type_of(x), type_of(y)
    if tx is None or ty is None:
        raise fail(
            "language",
            f"{name} is {_kind(x)} on one path of a dynamic `if` or loop and {_kind(y)} on the other; "
            "only numbers, vectors and tensors of one type may differ",
        )
    vectors = isinstance(x, TensorSSA), isinstance(y, TensorSSA)
    if tx is not ty or vectors[0] != vectors[1] or (all(vectors) and x.a.shape[-1] != y.a.shape[-1]):
        raise fail(
            "language",
            f"{name} changes type in a dynamic `if` or loop: {_kind(y)} and {_kind(x)}; {_one_type(x, y)}",
        )


def _one_type(x, y) -> str:
    """How two numbers of different types, one of which a name has before a join, come to one type."""
    if isinstance(x, TensorSSA) or isinstance(y, TensorSSA):
        return "give it one type"
    for number, other in ((x, y), (y, x)):
        if not isinstance(number, Value) and (type_of(other).is_float or not type_of(number).is_float):
            return f"Python's {number} counts as {type_of(number)}: write cutlass.{type_of(other)}({number})"
    given, wanted = sorted((type_of(x), type_of(y)), key=lambda dtype: (dtype.is_float, dtype.width))
    return f"give it one type, for example cutlass.{wanted}(...) where it is {given}"


class Branch:
    """One `if`: which arms run, under which masks, and what its names are afterwards."""

    __slots__ = ("condition", "static", "dynamic", "some", "all", "pushed")

    def __init__(self, condition, constant=False):
        self.condition = truth(condition)
        if self.condition is None and not constant and STATE.group is not None:
            self.condition = np.array([[bool(condition)]])  # without const_expr the DSL stages it, known or not
        self.dynamic = self.condition is not None and STATE.group is not None
        self.pushed = False
        if not self.dynamic:  # known while tracing; or in a host function, which runs once
            self.static = bool(condition if self.condition is None else self.condition.all())
            return
        g = group()
        off = g.lanes_off()
        c = self.condition
        if off is None:
            self.some, self.all = bool(c.any()), bool(c.all())
        else:
            self.some, self.all = bool((c & off).any()), not bool((~c & off).any())
        if g.warp >= 0 and self.some and not self.all:
            from .memory import mask_bits, record_event

            active = g.active()[0]
            taken = np.broadcast_to(c, g.shape)[0] & active
            record_event(Op.BRANCH, mask=taken, arg=mask_bits(active & ~taken))

    def carries(self, names, values) -> None:
        if self.dynamic:
            refuse_objects(names, values)

    def then(self) -> bool:
        if not self.dynamic:
            return self.static
        self._enter(self.condition)
        return self.some

    def otherwise(self) -> bool:
        if not self.dynamic:
            return not self.static
        group().pop()
        self._enter(~self.condition)
        return not self.all

    def _enter(self, condition) -> None:
        g = group()
        if self.all or not self.some:  # every lane goes the same way: the mask stays as it is
            g.masks.append(g.mask)
        else:
            g.push(condition)

    def join(self, names, before, then, otherwise):
        if not self.dynamic:
            return otherwise
        group().pop()
        result = []
        for name, b, t, o in zip(names, before, then, otherwise):
            if isinstance(b, Unbound):
                result.append(b if t is b and o is b else Unbound(name, GONE))
                continue
            if self.all:
                result.append(_settle(name, t, b))
            elif not self.some:
                result.append(_settle(name, o, b))
            else:
                result.append(_merge(name, self.condition, t, o))
        return tuple(result)


def _settle(name: str, new, old):
    """A name's value where all lanes took one arm: typed as a join would type it."""
    if isinstance(new, Unbound):
        return new
    if new is old:
        return _dynamic(new)
    if _carries_values(new) and type(new) is type(old):
        return new._joined(old, lambda n, p, q: _dynamic(_settle(f"{name}.{n}", p, q)))
    if type_of(new) is not None and type_of(old) is not None:
        check_types(name, new, old)
        return new if isinstance(new, (Value, TensorSSA)) else convert(new, type_of(new))
    if _same(new, old):
        return new
    if isinstance(new, (list, dict)):
        return _each(name, new, old, lambda n, p, q: _dynamic(_settle(n, p, q)))
    if isinstance(new, tuple) and isinstance(old, tuple) and len(new) == len(old):
        return _like(new, (_settle(name, n, o) for n, o in zip(new, old)))
    check_types(name, new, old)
    return new


branch = Branch

# ---- loops ----------------------------------------------------------------------------------------------------------


class DynamicRange:
    """`range(...)` in a kernel: a loop at run time. Bounds may be dynamic and differ between lanes."""

    def __init__(self, *bounds, unroll=None, unroll_full=False, prefetch_stages=None, **_):
        start, stop, step = 0, None, 1
        if len(bounds) == 1:
            stop = bounds[0]
        elif len(bounds) == 2:
            start, stop = bounds
        else:
            start, stop, step = bounds
        self.start, self.stop, self.step = (self._plain(b) for b in (start, stop, step))

    def __iter__(self):
        """In a comprehension the DSL has Python's own range."""
        return iter(range(self.start, self.stop, self.step))

    @staticmethod
    def _plain(bound):
        if isinstance(bound, Value):
            if not bound.dtype.is_integer:
                raise fail("language", f"a range bound must be an integer, got {bound.dtype}")
            return int(bound.a.reshape(-1)[0]) if bound.a.size == 1 else bound.a.astype(np.int64)
        return operator.index(bound)


def loop(iterable):
    if isinstance(iterable, DynamicRange):
        return _RangeLoop(iterable)
    if isinstance(iterable, (Value, TensorSSA)):
        raise fail("language", "a for loop needs range(...), cutlass.range_constexpr(...) or a Python sequence")
    return _StaticLoop(iterable)


class _StaticLoop:
    """Python's own loop over a sequence known while tracing."""

    def carries(self, names, values) -> None:
        pass

    def __init__(self, iterable):
        self.items = iter(iterable)
        self.depth = depth()

    def __iter__(self):
        return self.items

    def enter(self, names, values):
        check_budget()
        return values

    def leave(self, names, values):
        return values

    finish = leave

    def no_leaving(self, word):
        if depth() != self.depth:
            self.refuse_leaving(word)

    def refuse_leaving(self, word):
        raise fail(
            "language",
            f"{word} inside an `if` without const_expr is refused by the DSL; `if cutlass.const_expr(...)` may leave a loop "
            "that is unrolled",
        )


def _typed(x):
    """A value at a dynamic loop's entry: its Python numbers, also those in lists and dicts, become dynamic."""
    if _carries_values(x):
        return x._joined(x, lambda _, p, q: _typed(p))
    if isinstance(x, list):
        return [_typed(v) for v in x]
    return {k: _typed(v) for k, v in x.items()} if isinstance(x, dict) else _dynamic(x)


class _Carried:
    """Names carried round a dynamic loop: typed at entry, selected where lanes have left."""

    condition = None  # lanes still in the loop, where some have left
    before = ()
    entered = False

    def enter(self, names, values):
        check_budget()
        if not self.entered:
            values = tuple(_typed(v) for v in values)
            self.entered, self.at_entry = True, values
        # A name that the loop binds first is a new one in every turn.
        values = tuple(a if isinstance(a, Unbound) else v for a, v in zip(self.at_entry, values))
        self.before = values
        return copies(values)

    def carries(self, names, values) -> None:
        refuse_objects(names, values)

    def leave(self, names, values):
        result = []
        for name, old, new in zip(names, self.before, values):
            if isinstance(old, Unbound) or new is old:
                result.append(new)
                continue
            if self.condition is None:
                result.append(_settle(name, new, old))
            else:
                result.append(_merge(name, self.condition, new, old))
        if self.condition is not None:
            group().pop()
            self.condition = None
        return tuple(result)

    def finish(self, names, values):
        STATE.loops -= 1
        if not self.entered:
            return values
        return tuple(Unbound(n, GONE) if isinstance(b, Unbound) else v for n, b, v in zip(names, self.at_entry, values))

    def no_leaving(self, word):
        self.refuse_leaving(word)

    def refuse_leaving(self, word):
        raise fail(
            "language",
            f"{word} in a loop that runs on the GPU is refused by the DSL; use range_constexpr, or a condition in `while`",
        )

    def _narrow(self, stay) -> bool:
        """Mask the lanes that leave; False when none stays."""
        g = group()
        active = g.active()
        stay = np.broadcast_to(stay, g.shape)
        if not (active & stay).any():
            return False
        if (active & ~stay).any():
            self.condition = stay
            g.push(stay)
        return True


class _RangeLoop(_Carried):
    def __init__(self, bounds: DynamicRange):
        self.bounds = bounds
        self.index = bounds.start
        STATE.loops += 1

    def __iter__(self):
        return self

    def __next__(self):
        index, stop, step = self.index, self.bounds.stop, self.bounds.step
        if isinstance(step, int) and step == 0:
            raise fail("language", "range() needs a step that is not 0")
        if isinstance(index, int) and isinstance(stop, int) and isinstance(step, int):
            if (index >= stop) if step > 0 else (index <= stop):
                raise StopIteration
            self.index = index + step
            return Value(Int32, np.array([[index]], np.int32))
        stay = np.asarray((index < stop) if np.all(np.asarray(step) > 0) else (index > stop))
        if not self._narrow(stay):
            raise StopIteration
        self.index = index + step
        return Value(Int32, np.atleast_2d(np.asarray(index)).astype(np.int32))


class _WhileLoop(_Carried):
    dynamic = False
    idle = 0  # passes in a row that changed neither a variable nor memory
    writes = -1

    def test(self, condition, constant=False) -> bool:
        c = truth(condition)
        if c is None and (constant or STATE.group is None):
            return bool(condition)
        c = np.array([[bool(condition)]]) if c is None else c
        if not self.dynamic:
            STATE.loops += 1
        self.dynamic = True
        return self._narrow(c)

    def carries(self, names, values) -> None:
        if self.dynamic:
            refuse_objects(names, values)

    def enter(self, names, values):
        self.writes = STATE.run.writes
        if self.dynamic:
            return super().enter(names, values)
        check_budget()
        return values

    def leave(self, names, values):
        if not self.dynamic:
            return values
        result = super().leave(names, values)
        idle = STATE.run.writes == self.writes and all(map(_unchanged, self.before, result))
        self.idle = self.idle + 1 if idle else 0
        return result

    def spins(self) -> bool:
        return self.idle > (1 if STATE.run.order is None else 0)

    def turn(self):
        """What the warp yields: it goes on at once, when the others have had their turns."""
        from .scheduler import Waiting

        return Waiting(lambda: True, "a value that nobody changes", here(), spins=True)

    def finish(self, names, values):
        return super().finish(names, values) if self.dynamic else values

    def no_leaving(self, word):
        if self.dynamic:
            super().no_leaving(word)


def _unchanged(old, new) -> bool:
    if old is new:
        return True
    if _carries_values(old) and type(old) is type(new):
        same = []
        old._joined(new, lambda _, p, q: same.append(_unchanged(p, q)))
        return all(same)
    if isinstance(old, (Value, TensorSSA)) and type(old) is type(new):
        return old.dtype is new.dtype and np.array_equal(old.a, new.a)
    if isinstance(old, (tuple, list)) and type(old) is type(new) and len(old) == len(new):
        return all(map(_unchanged, old, new))
    return isinstance(old, (int, float)) and type(old) is type(new) and old == new


while_ = _WhileLoop


def constant_number(x, what: str) -> int:
    """A Python integer, or a clear refusal of a dynamic one."""
    if isinstance(x, Value):
        raise fail(
            "language", f"{what} must be known while tracing (a Constexpr), not a value known only when the kernel runs"
        )
    return operator.index(x)

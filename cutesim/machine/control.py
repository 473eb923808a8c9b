"""What rewritten code calls: branches and loops under masks, lazy and/or, calls that may block.

| module    | what it has                                                                                    |
|-----------|------------------------------------------------------------------------------------------------|
| here      | calls; conditions, of Python values and of one a lane; `Branch`, each arm under its mask       |
| `loops`   | `range` and `while`, unrolled or under masks, with the variables that they carry               |
| `joins`   | a name's one value from those of two arms, and the DSL's rules on their types                  |

`rewrite` says which calls stand for which statements.
"""

from __future__ import annotations

import functools
import inspect
import operator
import sys
import types

import numpy as np

from cutesim.trace import Op

from ..context import (
    MARK,
    STATE,
    NotSimulated,
    SimulationError,
    all_of,
    any_of,
    fail,
    first_lane,
    group,
    not_simulated,
    refused,
    spread,
    wrong_kind,
)
from ..memory.recording import record_branch, record_event
from ..memory.tensor import shown
from ..values.loaded import Loaded
from ..values.numeric import (
    Boolean,
    Literal,
    TensorSSA,
    Value,
    are_known,
    convert,
    known,
    promote,
    select,
    truth,
    type_of,
)
from .joins import GONE, Unbound, copies, dynamic, entering, merge, refuse_objects, settle, stays_inside, unbound  # noqa: F401
from .loops import depth, loop, while_  # noqa: F401, rewritten source finds here all that it calls


class Pending:
    """A call that has begun and may block: `steps` is its generator."""

    __slots__ = ("steps",)

    def __init__(self, steps):
        self.steps = steps


def no_return(at_entry: int) -> None:
    if depth() != at_entry:
        refuse_return()


def refuse_return() -> None:
    raise refused(
        "return inside an `if` or loop that depends on the data is refused by the DSL; invert the condition and put the work "
        "inside, or set a variable",
    )


def changes(container) -> None:
    """A Python list or dict that belongs to another function is changed: refused where only some lanes would do so."""
    if depth() == 0 and STATE.loops == 0:
        return
    if isinstance(container, (list, dict)) or hasattr(type(container), "is_twin"):
        raise not_simulated("a list, dict or object of another function changed inside a dynamic `if` or loop")


def not_for_the_reader() -> None:
    """What an `except` begins with: the simulator's own errors end a run, whoever wants to catch them."""
    error = sys.exc_info()[1]
    if isinstance(error, (NotSimulated, SimulationError)):
        raise error


INSTEAD: dict = {}  # id of one of Python's own functions: what is called in its place (`language.builtins`)
FOREIGN: set = set()  # modules whose functions run as they are
_PLAIN = (types.FunctionType, types.MethodType)


# Keywords that functions take and that change nothing here, and why; `loc` and `ip` are every function's.
WITHOUT_EFFECT = {
    "fence_proxy": {"space": "a fence is one for all of shared memory"},
    "inline_asm": dict.fromkeys(("has_side_effects", "is_align_stack", "asm_dialect"), "for the compiler's optimiser"),
    "assume": {"divby": "a promise, which addresses are checked for at each access"},
    "cluster_wait": {"aligned": "that all threads of a warp are there is checked anyway"},
    "prefetch": {"cache_level": "caches are not simulated"},
}


@functools.cache
def _taken(function) -> frozenset | None:
    """The keywords that a function with `**_` knows; None of one that takes what it declares."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    if not any(p.kind is p.VAR_KEYWORD and not p.name.strip("_") for p in parameters.values()):
        return None
    return frozenset(parameters) | {"loc", "ip"} | set(WITHOUT_EFFECT.get(name_of(function), ()))


def name_of(function) -> str:
    """A function's name, or that of a callable object's type."""
    return getattr(function, "__name__", type(function).__name__)


def refuse_unknown(function, kwargs) -> None:
    """Refuse a keyword that the simulator would drop: no argument is accepted and ignored, but None, which says nothing."""
    taken = _taken(getattr(function, "__func__", function)) if callable(function) else None
    unknown = [name for name, x in kwargs.items() if x is not None and name not in taken] if taken else ()
    if unknown:
        raise not_simulated(f"the argument {unknown[0]} of {name_of(function)}")


def call(function, *args, **kwargs):
    """Call anything from a kernel: a value, or Pending where it may block."""
    start = getattr(type(function), "start_call", None)
    if start is not None:
        return start(function, args, kwargs)
    if function is functools.partial:
        return Partial(args[0], args[1:], kwargs)
    function = INSTEAD.get(id(function), function)
    known = type(function) not in _PLAIN or function.__module__ in FOREIGN
    if not known and MARK not in function.__globals__:
        # A method of an enum's, say, which has no twin: no function of the reader's runs but simulated.
        simulated = STATE.run.mapper.map(function)
        if simulated is not function:
            return call(simulated, *args, **kwargs)
        FOREIGN.add(function.__module__)
    if kwargs:
        refuse_unknown(function, kwargs)
    try:
        return function(*args, **kwargs)
    except Exception as error:
        told = STATE.run.blame(error, function, args, kwargs)
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

    def __call__(self, *args, **kwargs):
        """Where a library's function calls it, as sorted does its key."""
        return call_now(self, *args, **kwargs)


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
            raise refused(str(error)) from None

    def __call__(self, *args, **kwargs):
        return call_now(self, *args, **kwargs)


nested = Nested


def class_of(x):
    """x.__class__ of what x stands for."""
    return STATE.run.mapper.builtins["type"](x)


def super_of(cls, instance):
    return STATE.run.mapper.builtins["super"](cls, instance)


def _one_of(word: str, left, right):
    """`left and right()`: right() if left is true, else left; of run-time values lane by lane, and in the type that both have in
    common. Only a bool of Python's decides before the right-hand side runs. `or` likewise."""
    if type(left) is bool:
        return left if left is (word == "or") else _number(word, right())
    left, right = _number(word, left), _number(word, right())
    condition = truth(left)
    if not isinstance(left, Value) and not isinstance(right, Value):
        return left if bool(left) is (word == "or") else right
    dtype = promote(left, right, "select")
    if are_known(left, right):
        return Literal(dtype, known(left if bool(known(left)) is (word == "or") else right))
    if condition is None:
        return convert(left if bool(left) is (word == "or") else right, dtype)
    return select(condition if word == "or" else ~condition, left, right)


and_, or_ = functools.partial(_one_of, "and"), functools.partial(_one_of, "or")


def _number(word: str, x):
    """An operand of and/or; of anything but a number the DSL makes no one."""
    if isinstance(x, TensorSSA):
        truth(x)
    if type_of(x) is None:
        said = f"`{word}` takes numbers and conditions, got {type(x).__name__}; ask `x is None`, or write `x if ... else y`"
        raise wrong_kind(said, x)
    return x


def not_(x):
    c = truth(x)
    return (not known(x)) if c is None or type(x) is Literal else Value(Boolean, ~c)


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
    "NotIn": lambda a, b: not_(_contains(b, a)),
}


def _contains(container, x):
    held = container if isinstance(container, (tuple, list)) else ()
    if any(isinstance(v, (Value, TensorSSA)) for v in (x, *held)):
        if type_of(x) is None or any(type_of(v) is None for v in held) or not held:
            raise not_simulated("`in` with a number that is known only when the kernel runs")
        return functools.reduce(lambda one, other: or_(one, lambda: other), [x == v for v in held])
    return x in container


def compare(names, *values):
    result = None
    for name, left, right in zip(names, values, values[1:]):
        if name not in ("In", "NotIn") and (_holds_values(left) or _holds_values(right)):
            raise not_simulated(
                f"a comparison of {type(left).__name__}s that hold numbers known only when the kernel runs"
            )
        one = _OPERATORS[name](left, right)
        result = one if result is None else and_(result, lambda one=one: one)
    return result


def _holds_values(x) -> bool:
    return isinstance(x, (tuple, list)) and any(isinstance(v, (Value, TensorSSA)) or _holds_values(v) for v in x)


def choose(condition, yes, no):
    """`yes() if condition else no()`: lazy, under masks when the condition is dynamic."""
    c = truth(condition)
    if c is None or STATE.group is None:  # in a host function, there is one of everything
        return yes() if (condition if c is None else c.all()) else no()
    g = group()
    active = g.active()
    if not any_of(active & c):
        return dynamic(no())
    if not any_of(active & ~c):
        return dynamic(yes())
    g.push(c)
    first = yes()
    g.pop()
    g.push(~c)
    second = no()
    g.pop()
    return merge("the conditional expression", c, first, second)


def elect():
    """One lane of each warp, by elect.sync of the full mask, which waits for every lane that exists (PTX ISA)."""
    g = group()
    active = g.active().reshape(len(g.blocks), -1, 32)
    exists = True if g.exists is None else np.broadcast_to(g.exists, g.shape).reshape(active.shape)
    missing = exists & ~active & active.any(axis=2)[..., None]
    if missing.any():
        (b, t), facts = first_lane(missing.reshape(g.shape))
        (thread,), count = facts["threads"], int(missing[b, t // 32].sum())
        where = f"lane {thread % 32} of warp {thread // 32} (block {facts['block']})"
        text = (
            f"Divergent elect_one: it waits for all lanes of the warp, and {where} is not here "
            f"({count} lane{'s are' if count > 1 else ' is'} missing); a GPU may wait for ever. Move it out of the `if`, or choose "
            "the lane by its number."
        )
        raise fail("divergent shuffle", text, **facts | {"count": count})
    return lowest_lane()


def lowest_lane():
    """One lane of each warp, as elect.sync picks: the lowest active one."""
    g = group()
    active = g.active().reshape(len(g.blocks), -1, 32)
    first = active.argmax(axis=2)
    chosen = (np.arange(32, dtype=np.int64) == first[..., None]) & active
    record_event(Op.ELECT)
    return Value(Boolean, chosen.reshape(g.shape))


class Branch:
    """One `if`: which arms run, under which masks, and what its names are afterwards."""

    __slots__ = ("condition", "static", "dynamic", "some", "all", "behind")

    def __init__(self, condition, otherwise=False):
        """`otherwise`: whether lanes that do not run the `if` run something else; or a function that gives the lanes that do."""
        self.condition, self.behind = truth(condition), False
        if self.condition is None and STATE.group is not None:
            # without const_expr the DSL stages it, known or not
            self.condition = np.array([[bool(condition)]])
        self.dynamic = self.condition is not None and STATE.group is not None
        if not self.dynamic:  # known while tracing; or in a host function, which runs once
            self.static = bool(condition if self.condition is None else self.condition.all())
            return
        g = group()
        off = g.lanes_off()
        c = self.condition
        if off is None:
            self.some, self.all = any_of(c), all_of(c)
        else:
            self.some, self.all = any_of(c & off), not any_of(~c & off)
        if not self.some or self.all:
            return
        others = otherwise() if callable(otherwise) else otherwise
        runs = truth(others)
        self.behind = bool(others) if runs is None else any_of(runs & ~c & (True if off is None else off))
        if STATE.run.recorder is not None:
            active = g.active()
            taken = spread(c, g.shape) & active
            record_branch(g, taken, active & ~taken)

    def carries(self, names, values) -> None:
        if self.dynamic:
            refuse_objects(names, values)

    def enter(self, values) -> tuple:
        """What the names are when an arm begins."""
        return tuple(map(entering, values)) if self.dynamic else values

    def then(self) -> bool:
        if not self.dynamic:
            return self.static
        self._enter(True)
        group().behind += self.behind
        return self.some

    def otherwise(self) -> bool:
        if not self.dynamic:
            return not self.static
        group().pop()
        group().behind -= self.behind
        self._enter(False)
        return not self.all

    def _enter(self, taken: bool) -> None:
        g, together = group(), self.all or not self.some
        if together and type(self.condition) is not Loaded:  # the mask stays as it is
            g.masks.append(g.mask)
        else:
            g.push(self.condition if taken else ~self.condition)

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
                result.append(settle(name, t, b))
            elif not self.some:
                result.append(settle(name, o, b))
            else:
                result.append(merge(name, self.condition, t, o))
        return tuple(result)


branch = Branch

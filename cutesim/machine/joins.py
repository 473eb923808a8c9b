"""One value of a name from those that two arms of a dynamic `if`, or two turns of a loop, give it.

Its types must agree as the DSL demands. A name that no path has set is an `Unbound`. Lists and dicts are joined element by
element, and objects attribute by attribute.
"""

from __future__ import annotations

import operator
from functools import lru_cache

from ..context import not_simulated, refused
from ..memory.pointers import Pointer
from ..memory.tensor import Tensor
from ..values.numeric import Literal, TensorSSA, Value, convert, select, type_of


class Unbound:
    """Stands for a name that has no value on this path; any use says so."""

    def __init__(self, name: str, why: str = "has no value yet"):
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_why", why)

    def _refuse(self, *_, **__):
        raise refused(f"{self._name} {self._why}")

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


@lru_cache(maxsize=4096)
def unbound(name: str) -> Unbound:
    return Unbound(name)


@lru_cache(maxsize=4096)
def stays_inside(name: str) -> Unbound:
    """A name that `with cute.arch.elect_one():` binds, after it."""
    why = "is assigned inside `with cute.arch.elect_one():`, which hands no value on; use an `if` of one lane"
    return Unbound(name, why)


def copies(values: tuple) -> tuple:
    """The values, lists and dicts copied: an arm or a pass changes its own, and the names are joined afterwards."""
    return tuple(_copied(v) for v in values)


def _copied(x):
    if carries_values(x):
        return x._copied()
    if type(x) is list:
        return [_copied(v) for v in x]
    return {k: _copied(v) for k, v in x.items()} if type(x) is dict else x


def carries_values(x) -> bool:
    """Whether this is an object whose attributes change in a dynamic `if` or loop as numbers do: of a dataclass, or of a class that
    gives the DSL its values."""
    return getattr(type(x), "_joined", None) is not None and x._carries_values


def refuse_objects(names, values) -> None:
    for name, value in zip(names, values):
        if carries_values(value):
            if name == "self":
                raise not_simulated(
                    f"attributes of self that a dynamic `if` or loop changes (of a {type(value).__name__})"
                )
            continue
        kind = type(value)
        if hasattr(kind, "is_twin") or hasattr(kind, "is_python_object") or isinstance(value, str):
            raise refused(
                f"{name} is a Python object that a dynamic `if` or loop changes, or whose method it calls, which the DSL refuses; "
                f"keep the value in a variable or in a register tensor, and call a method as self.{name}.… or before",
            )


def dynamic(x):
    """A Python number chosen by a dynamic condition is a dynamic number, whichever way the lanes went."""
    if type(x) is Literal:
        return Value(x.dtype, x.a)
    return convert(x, type_of(x)) if isinstance(x, (bool, int, float)) else x


def entering(x):
    """A value as a dynamic `if` or loop that changes it begins: its Python numbers, also those in tuples, lists and dicts,
    become dynamic."""
    if type(x) is Value:
        return x
    if carries_values(x):
        return x._joined(x, lambda _, p, q: entering(p))
    if isinstance(x, tuple):
        values = tuple(map(entering, x))
        return x if all(map(operator.is_, x, values)) else _like(x, values)
    if isinstance(x, list):
        return [entering(v) for v in x]
    return {k: entering(v) for k, v in x.items()} if isinstance(x, dict) else dynamic(x)


def _kind(x) -> str:
    if isinstance(x, TensorSSA):
        return f"a vector of {x.numel} {x.dtype}"
    dtype = type_of(x)
    return repr(dtype) if dtype is not None else type(x).__name__


def _same(x, y) -> bool:
    if any(isinstance(v, (Value, TensorSSA, list, dict)) for v in (x, y)):
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


def merge(name: str, condition, x, y):
    """The value after a join: x where `condition`, else y; types must agree as the DSL demands."""
    if carries_values(x) and type(x) is type(y) and x is not y:
        return x._joined(y, lambda n, p, q: dynamic(merge(f"{name}.{n}", condition, p, q)))
    if _same(x, y):
        return x
    if isinstance(x, Unbound) or isinstance(y, Unbound):
        return Unbound(name, GONE)
    if isinstance(x, tuple) and isinstance(y, tuple) and len(x) == len(y):
        return _like(y, (merge(name, condition, p, q) for p, q in zip(x, y)))
    if isinstance(x, (list, dict)):
        return _each(name, x, y, lambda n, p, q: dynamic(merge(n, condition, p, q)))
    check_types(name, x, y)
    return x.either(condition, y) if isinstance(x, (Tensor, Pointer)) else select(condition, x, y)


def _each(name: str, x, y, join):
    """join(name, x's element, y's element) for all elements of two lists, or dicts, of one structure."""
    kind = type(x).__name__
    if type(x) is not type(y):
        raise refused(f"{name} is a {kind} on one path of a dynamic `if` or loop and {_kind(y)} on the other")
    here, there = (tuple(c) if isinstance(x, dict) else tuple(range(len(c))) for c in (x, y))
    if here != there:
        raise refused(
            f"{name} has {len(y)} element{'s' * (len(y) != 1)} on one path of a dynamic `if` or loop and {len(x)} on the "
            f"other; a {kind} keeps its elements there",
        )
    joined = {k: join(f"{name}[{k!r}]", x[k], y[k]) for k in here}
    return joined if isinstance(x, dict) else list(joined.values())


def check_types(name: str, x, y) -> None:
    if isinstance(x, (Tensor, Pointer)) and type(x) is type(y):
        if x.carried_type != y.carried_type:
            raise refused(
                f"{name} changes type in a dynamic `if` or loop: {y.carried_type} and {x.carried_type}; space, layout and "
                "alignment must stay the same",
            )
        return
    tx, ty = type_of(x), type_of(y)
    if tx is None or ty is None:
        raise refused(
            f"{name} is {_kind(x)} on one path of a dynamic `if` or loop and {_kind(y)} on the other; "
            "only numbers, vectors and tensors of one type may differ",
        )
    counts = [v.a.shape[-1] if isinstance(v, TensorSSA) else None for v in (x, y)]
    if tx is not ty or counts[0] != counts[1]:
        raise refused(f"{name} changes type in a dynamic `if` or loop: {_kind(y)} and {_kind(x)}; {_one_type(x, y)}")


def _one_type(x, y) -> str:
    """How two numbers of different types, one of which a name has before a join, come to one type."""
    if isinstance(x, TensorSSA) or isinstance(y, TensorSSA):
        return "give it one type"
    for number, other in ((x, y), (y, x)):
        counts, wanted = type_of(number), type_of(other)
        if not isinstance(number, Value) and (wanted.is_float or not counts.is_float):
            return f"Python's {number} counts as {counts}: write cutlass.{wanted}({number})"
    given, wanted = sorted((type_of(x), type_of(y)), key=lambda dtype: (dtype.is_float, dtype.width))
    return f"give it one type, for example cutlass.{wanted}(...) where it is {given}"


def settle(name: str, new, old):
    """A name's value where all lanes took one arm: typed as a join would type it."""
    if isinstance(new, Unbound):
        return new
    if new is old:
        return dynamic(new)
    if carries_values(new) and type(new) is type(old):
        return new._joined(old, lambda n, p, q: dynamic(settle(f"{name}.{n}", p, q)))
    if type_of(new) is not None and type_of(old) is not None:
        check_types(name, new, old)
        return dynamic(new) if isinstance(new, (Value, TensorSSA)) else convert(new, type_of(new))
    if _same(new, old):
        return new
    if isinstance(new, (list, dict)):
        return _each(name, new, old, lambda n, p, q: dynamic(settle(n, p, q)))
    if isinstance(new, tuple) and isinstance(old, tuple) and len(new) == len(old):
        return _like(new, (settle(name, n, o) for n, o in zip(new, old)))
    check_types(name, new, old)
    return new

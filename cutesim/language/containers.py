"""Python's own objects that hold others: copies of them that hold what the simulator has for each.

`mapped` is the one place that knows them: keys, fields and members are mapped like values. Anything else that holds something
of the DSL's, or of the reader's code, is refused by name when it is used.
"""

from __future__ import annotations

import gc
import itertools
import types

from ..context import not_simulated
from ..values.placeholders import Missing

_ONE_BY_ONE = (list, set, frozenset)
LOOKED_AT = 200  # objects that one is made of, before it counts as a library's own
UNKNOWN = object()


def mapped(x, each, must_be_mapped):
    """x with each(...) of what it holds; `UNKNOWN` where it is none of Python's containers."""
    kind = type(x)
    if kind is tuple:
        return tuple(map(each, x))
    if kind in _ONE_BY_ONE:
        return _whole(x, kind(map(each, x)))
    if isinstance(x, tuple) and hasattr(kind, "_fields"):
        return tuple.__new__(kind, map(each, x))
    if kind is dict:
        return _whole(x, {each(k): each(v) for k, v in x.items()})
    if kind is types.SimpleNamespace:
        return kind(**{k: each(v) for k, v in vars(x).items()})
    if hasattr(kind, "__next__") and kind is not itertools.count:
        return Missing(f"an iterator that is made before the kernel runs ({kind.__name__})")
    article = "an" if kind.__name__[0] in "aeiou" else "a"
    what = f"{article} {kind.__name__} that holds something of the kernel's"
    return Missing(what) if _holds(x, must_be_mapped) else UNKNOWN


def _whole(x, made):
    if len(made) != len(x):
        raise not_simulated(f"a {type(x).__name__} of names that mean the same here")
    return made


def _holds(x, must_be_mapped) -> bool:
    """Whether a library's object holds, at most three steps away, what would have to be mapped."""
    seen, row = {id(x)}, [x]
    for _ in range(3):
        row = [y for one in row for y in gc.get_referents(one) if id(y) not in seen]
        row = [y for y in row if not isinstance(y, (types.ModuleType, types.CodeType))]
        seen.update(map(id, row))
        if len(seen) > LOOKED_AT:
            return False
        if any(map(must_be_mapped, row)):
            return True
        row = [y for y in row if not isinstance(y, (type, types.FunctionType))]
    return False


def enumeration(cls, each):
    """An enum of the reader's, where the simulator has nothing else for a value of its members."""
    values = {name: each(member.value) for name, member in cls.__members__.items()}
    pairs = ((values[name], member.value) for name, member in cls.__members__.items())
    if all(mine is theirs or mine == theirs for mine, theirs in pairs):
        return cls
    return Missing(f"{cls.__name__}, an enum of what the DSL or the kernel has,")

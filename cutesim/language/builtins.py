"""Python's own functions that look into objects, as simulated code calls them: of the reader's objects, not of their twins."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types

from ..context import HERE, STATE, not_simulated
from ..machine import control
from ..values.numeric import DType, Value
from ..values.placeholders import Annotation, Missing
from .proxies import STANDS_FOR, SimClass, Twin, class_attribute, original

_KINDS = {kind: what for kind, (_, what) in STANDS_FOR.items() if kind is not SimClass}


def class_of(x):
    """x.__class__, and type(x): of a value its DSL type, so that type(x)(0) is a value of the same type."""
    if isinstance(x, Value):
        return x.dtype
    if isinstance(x, Twin):
        return STATE.run.mapper.map(type(original(x)))
    if type(x) is SimClass:
        return type(original(x))
    return _KINDS.get(type(x), type(x))


def kind_of(x, *rest):
    if rest:
        raise not_simulated("a class that type(...) makes")
    return class_of(x)


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
        elif isinstance(kind, type):
            of = type(original(x)) if isinstance(x, Twin) else _KINDS.get(type(x), type(x))
            if isinstance(x, kind) or issubclass(of, kind):
                return True
        elif hasattr(kind, "instance_of") and kind.instance_of(x):
            return True
    return False


def is_subclass(cls, kinds) -> bool:
    kinds = kinds if isinstance(kinds, tuple) else (kinds,)
    if not all(isinstance(original(kind), type) for kind in (cls, *kinds)):
        if isinstance(cls, DType) and cls in kinds:
            return True
        raise not_simulated("issubclass of the DSL's types")
    return issubclass(original(cls), tuple(map(original, kinds)))


def has(x, name: str) -> bool:
    """hasattr. Of the DSL's modules nobody knows here which names they have beyond those that are modelled."""
    found = getattr(x, name, None)
    ours = type(x).__module__.startswith(HERE) and type(x) not in _KINDS
    if isinstance(found, Missing) or ours and not hasattr(x, name):
        raise not_simulated(f"hasattr(..., {name!r})")
    return hasattr(x, name)


def get(x, name: str, *default):
    """getattr, likewise."""
    found = getattr(x, name, *default)
    if default and isinstance(found, Missing) and found is not default[0]:
        raise not_simulated(f"getattr(..., {name!r}, ...)")
    return found


class Super:
    """super(): attributes of the classes behind `cls`, for an object or a class."""

    def __init__(self, cls, instance):
        self._parts = original(cls), instance

    def __getattribute__(self, name):
        cls, instance = object.__getattribute__(self, "_parts")
        of_class = type(instance) is SimClass
        mine = original(instance) if of_class else type(original(instance))
        behind = mine.__mro__[mine.__mro__.index(cls) + 1 :]
        return class_attribute(mine, name, instance, STATE.run.mapper, behind, of_class)


def super_of(*given):
    if len(given) != 2:
        raise not_simulated("super() with other than a class and an object")
    if not isinstance(given[1], (Twin, SimClass)):
        raise not_simulated(f"super() of a {type(given[1]).__name__}")
    return Super(*given)


def _replace(x, /, **changes):
    if not isinstance(x, Twin):
        return dataclasses.replace(x, **changes)
    fields = dataclasses.fields(original(x))
    values = {field.name: getattr(x, field.name) for field in fields if field.init}
    return control.call_now(STATE.run.mapper.map(type(original(x))), **(values | changes))


def _refused(name: str):
    def refuse(*args, **kwargs):
        raise not_simulated(name)

    return refuse


def _vars(*given):
    if given and isinstance(given[0], types.SimpleNamespace):
        return vars(*given)
    raise not_simulated("vars()")


# What is called in place of these, by the function that the reader's line names.
_INSTEAD = {
    dataclasses.replace: _replace,
    dataclasses.is_dataclass: lambda x: dataclasses.is_dataclass(original(x)),
    dataclasses.fields: lambda x: dataclasses.fields(original(x)),
    dataclasses.asdict: _refused("dataclasses.asdict"),
    dataclasses.astuple: _refused("dataclasses.astuple"),
    functools.wraps: lambda *_, **__: lambda function: function,
    functools.update_wrapper: lambda function, *_, **__: function,
    inspect.isfunction: lambda x: class_of(x) is types.FunctionType,
    inspect.ismethod: lambda x: class_of(x) is types.MethodType,
    inspect.isclass: lambda x: isinstance(original(x), (type, DType)),
    inspect.signature: _refused("inspect.signature"),
}
control.INSTEAD.update({id(function): ours for function, ours in _INSTEAD.items()})
ANSWERED = {
    "type": kind_of,
    "isinstance": is_instance,
    "hasattr": has,
    "getattr": get,
    "issubclass": is_subclass,
    "super": super_of,
}
_OTHERS = {name: _refused(f"{name}()") for name in ("globals", "locals", "dir", "eval", "exec")}
BUILTINS = ANSWERED | _OTHERS | {"vars": _vars}

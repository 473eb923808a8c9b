"""Simulated twins of the reader's functions, classes and objects.

`Mapper.map` walks from the object that is simulated to what it references: DSL names become the simulator's, the reader's own
functions are rewritten on demand, everything else stays itself. The originals are never changed, so the real DSL and the
simulator can run the same object in one process.
"""

from __future__ import annotations

import builtins
import dataclasses
import enum
import functools
import inspect
import re
import sys
import types

from ..context import HERE, KIND, MARK, OWN, STATE, kernel_frame, not_simulated, refused, without_frames
from ..dialect import names
from ..machine import control
from ..machine.control import Pending, call_now
from ..machine.joins import GONE, Unbound
from ..machine.pipeline import PipelineState
from ..machine.scheduler import KernelCall
from ..memory import structs
from ..values.numeric import TYPES, Boolean, Float32, Literal, Value, convert, type_of
from . import containers
from .rewrite import PENDING, TYPE, rewrite

_NUMBERS = (bool, int, float)
_PLAIN = (type(None), bool, int, float, complex, str, bytes, slice, type(Ellipsis), range, type)


def _is_dsl(module: str | None) -> bool:
    return bool(module) and (module == "cutlass" or module.startswith("cutlass."))


@functools.lru_cache(maxsize=512)
def _is_foreign(module: str | None) -> bool:
    """A library's module: its code runs as it is. The reader's code and that of the packages in `context.OWN` is simulated."""
    if not module:
        return True
    top = module.partition(".")[0]
    if top == "__main__":
        return False
    if top in sys.stdlib_module_names:
        return True
    if module == HERE or module.startswith(HERE + "."):
        return True
    if top in OWN:
        return False
    file = getattr(sys.modules.get(top), "__file__", None) or ""
    if "site-packages" not in file and "dist-packages" not in file:
        return False
    # an installed library's kernels are simulated like the reader's
    return not _uses_the_dsl(sys.modules.get(module))


def _uses_the_dsl(module) -> bool:
    """Whether a module has imported something of the DSL's by name."""
    values = [] if module is None else vars(module).values()
    modules = (value for value in values if isinstance(value, types.ModuleType))
    return any(isinstance(x, names.Namespace) for x in values) or any(_is_dsl(m.__name__) for m in modules)


def undecorated(function):
    """A function without what the DSL's own decorators, or the simulator's in their place, have put around it."""
    while hasattr(function, "__wrapped__"):
        by = getattr(function, "__globals__", {}).get("__name__", "")
        if not _is_dsl(by) and not by.startswith(HERE):
            break
        function = _within(function)
    return function


def _within(decorated):
    """What a decorator was given: functools.wraps, put around its result, says of another function that it is wrapped."""
    held = [cell.cell_contents for cell in decorated.__closure__ or ()]
    held = [x for x in held if isinstance(x, types.FunctionType) and x is not decorated]
    said = decorated.__wrapped__
    return held[0] if len(held) == 1 and said not in held else said


def _must_be_mapped(x) -> bool:
    """Whether an object is the DSL's, or the reader's."""
    if isinstance(x, (types.FunctionType, type)):
        return _is_dsl(x.__module__) or not _is_foreign(x.__module__)
    module = type(x).__module__
    return _is_dsl(module) or isinstance(module, str) and not _is_foreign(module)


class _Mapped(dict):
    """A module's names as the simulator has them."""

    def __init__(self, names: dict, mapper: Mapper):
        self.source, self.mapper = names, mapper

    def __missing__(self, name):
        return self.mapper.map(self.source[name])


class Mapper:
    """Maps objects for one simulate() call; each is mapped once. `builtins`: what Python's own functions are in simulated code."""

    def __init__(self, builtins: dict):
        self.seen: dict = {}
        self.builtins = builtins
        self.answers = names.answers()

    def map(self, x):
        found = self.seen.get(id(x))
        if found is None:
            if isinstance(x, _PLAIN) and not isinstance(x, (type, enum.Enum)):
                return x
            found = self.seen[id(x)] = (self._map(x), x)  # keeps x alive, so its id stays its own
        return found[0]

    def _map(self, x):
        if isinstance(x, types.ModuleType):
            return self._module(x)
        known = self.answers.get(id(x))
        if known is not None and known[0] is x:
            return known[1]
        if isinstance(x, enum.Enum) and _is_dsl(type(x).__module__):
            return getattr(names.by_name(type(x).__module__, type(x).__name__), x.name)
        if isinstance(x, enum.Enum):
            mine = self.map(type(x))
            return x if mine is type(x) else getattr(mine, x.name) if isinstance(mine, type) else mine
        if isinstance(x, functools.partial):
            keywords = {name: self.map(v) for name, v in x.keywords.items()}
            return control.Partial(self.map(x.func), tuple(map(self.map, x.args)), keywords)
        if isinstance(x, types.FunctionType):
            return self._function(x)
        if isinstance(x, types.MethodType):
            return Bound(self.map(x.__func__), self.map(x.__self__))
        if isinstance(x, type):
            return self._class(x)
        if type(x).__module__.startswith(HERE) and not isinstance(x, Twin):
            return x
        if _is_dsl(type(x).__module__):
            return self._dsl_instance(x)
        if isinstance(x, functools._lru_cache_wrapper):
            return self._cached(x)
        if isinstance(x, Twin):
            return x
        if not _is_foreign(type(x).__module__) and not hasattr(type(x), "_fields"):
            return twin_of(x, self)
        made = containers.mapped(x, self.map, _must_be_mapped)
        return x if made is containers.UNKNOWN else made

    def _module(self, module):
        name = module.__name__
        if _is_dsl(name):
            return names.by_path(name)
        return module if _is_foreign(name) else ModuleTwin(module, self)

    def _function(self, function):
        original = undecorated(function)
        if _is_dsl(original.__module__):
            return names.by_name(original.__module__, original.__name__)
        if _is_foreign(original.__module__):
            return function
        if original is not function and hasattr(original, "__wrapped__"):
            return names.Missing(f"a decorator between the DSL's own and {original.__name__}")
        by = original.__globals__.get("__name__")
        if _is_foreign(by):
            return names.Missing(f"a function that {by} makes of {original.__name__}")
        return SimFunction(original, self)

    def _cached(self, function):
        """What lru_cache has made of a function."""
        within = function.__wrapped__
        if _is_foreign(within.__module__):
            return function
        return Cached(self.map(within), within.__name__)

    def _class(self, cls):
        if _is_dsl(cls.__module__):
            return TYPES.get(cls.__name__) or names.by_name(cls.__module__, cls.__name__)
        if _is_foreign(cls.__module__) or issubclass(cls, BaseException) or hasattr(cls, "_fields"):
            return cls
        if issubclass(cls, enum.Enum):
            return containers.enumeration(cls, self.map)
        return SimClass(cls, self)

    def _dsl_instance(self, x):
        if type(x).__name__ == "struct":
            return structs.twin_of(x, lambda module: _Mapped(vars(module), self))
        if type(x).__name__ in TYPES:  # a number that a host function was given
            return TYPES[type(x).__name__](x.value)
        kind = names.by_name(type(x).__module__, type(x).__name__)
        if isinstance(kind, types.FunctionType):  # a copy operation: its class makes an equal one
            return kind()
        fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
        held = [field.name for field in fields]
        # as a NamedBarrier of __init__ has them
        if held and all(hasattr(x, name) for name in held):
            return kind(**{name: self.map(getattr(x, name)) for name in held})
        return names.Missing(f"{type(x).__module__}.{type(x).__name__}")

    def bound(self, function, instance):
        """The method that `function` is of `instance`."""
        return Bound(self.map(function), instance)

    def globals_of(self, function, used, kind: str) -> dict:
        builtin = (names.BUILTINS if kind else names.PLAIN_BUILTINS) | self.builtins
        source, order = function.__globals__, getattr(STATE.run, "order", None)
        table = {MARK: control if order is None else order.control, KIND: kind}
        table |= {PENDING: Pending, TYPE: type, "__builtins__": builtins}
        table["__name__"] = source.get("__name__")
        for name in used:
            if name in source:
                value = source[name]
                of_python = value is getattr(builtins, name, table)
                table[name] = builtin.get(name, value) if of_python else self.map(value)
            elif name in builtin:
                table[name] = builtin[name]
        return table


class SimFunction:
    """A function of the reader's, rewritten when it is first called."""

    def __init__(self, original, mapper: Mapper):
        self.original, self.mapper = original, mapper
        self.name = self.__name__ = original.__name__
        # Softmax.kernel, for a method
        self.full_name = original.__qualname__.rpartition("<locals>.")[2]

    @functools.cached_property
    def rewritten(self):
        return rewrite(self.original)

    @functools.cached_property
    def kind(self) -> str:
        return self.rewritten.kind

    @functools.cached_property
    def _function(self):
        rewritten, original = self.rewritten, self.original
        table = self.mapper.globals_of(original, rewritten.globals_used, rewritten.kind)
        if rewritten.imports:
            table["__builtins__"] = vars(builtins) | {"__import__": self._import}
        exec(rewritten.code, table)
        cells = dict(zip(original.__code__.co_freevars, original.__closure__ or ()))
        free = [self.mapper.map(cells[name].cell_contents) for name in rewritten.free]
        function = table.pop("_factory_")(*free)
        function.__defaults__ = tuple(map(self.mapper.map, original.__defaults__ or ())) or None
        function.__code__ = function.__code__.replace(co_name=self.name)
        function.__kwdefaults__ = {k: self.mapper.map(v) for k, v in (original.__kwdefaults__ or {}).items()} or None
        return function

    def _import(self, name, _globals=None, _locals=None, fromlist=(), level=0):
        """`import` in its body, for modules as it sees them."""
        if level == 0 and _is_dsl(name):
            return names.by_path(name if fromlist else name.partition(".")[0])
        table = self.original.__globals__
        found = vars(builtins)["__import__"](name, table, None, fromlist, level)
        return self.mapper.map(found)

    def generator(self, args, kwargs):
        """The body as a generator; its return value is the call's."""
        if self.kind == "kernel":
            args, kwargs = self.typed(args, kwargs)
        function = self._function
        try:
            return function(*args, **kwargs)
        except TypeError as error:  # of the call: the body begins when the generator is asked
            said = re.sub(r"^\S*_inner_(?=\()", self.name, str(error))
            raise (refused(said) if kernel_frame() else without_frames(TypeError(said))) from None

    @functools.cached_property
    def _parameters(self) -> tuple:
        """(names, the text of each one's annotation, the defaults that cross) of a kernel."""
        known, texts = self.original.__globals__, {}
        for name, text in self.rewritten.parameters:
            constant = "Constexpr" in str(known.get(text.partition("[")[0]))
            texts[name] = "Constexpr" if constant else text
        parameters = inspect.signature(self.original).parameters.values()
        defaults = {p.name: p.default for p in parameters if type(p.default) in (bool, int, float, str)}
        return tuple(texts), texts, defaults

    def typed(self, args, kwargs):
        """Numbers that cross into a kernel become dynamic, unless the parameter is a Constexpr."""
        order, annotations, defaults = self._parameters
        kwargs = {n: d for n, d in defaults.items() if n not in order[: len(args)]} | kwargs

        def crossed(x, name):
            annotation = annotations.get(name, "")
            if "Constexpr" not in annotation and name not in ("self", "cls"):
                self._refuse_object(x, name)
            return cross(x, annotation)

        args = tuple(crossed(a, order[i] if i < len(order) else "") for i, a in enumerate(args))
        return args, {k: crossed(v, k) for k, v in kwargs.items()}

    def _refuse_object(self, x, name: str) -> None:
        """What the DSL does not pass to a kernel: Python's own objects, but for a method's `self`."""
        if isinstance(x, (str, SimFunction)) or isinstance(x, Twin) and not x._carries_values:
            kind = type(original(x) if isinstance(x, Twin) else x).__name__
            what = {"SimFunction": "a function"}.get(kind, f"an object ({kind})")
            raise refused(
                f"{self.name} gets {what} as {name or 'an argument'}, and the DSL refuses that: annotate the parameter as "
                "cutlass.Constexpr, or call a method's first parameter self",
            )

    def start_call(self, args, kwargs):
        if self.kind == "kernel":
            if STATE.group is not None:
                raise refused(
                    f"{self.name} is a kernel; it is launched from a @cute.jit host function, not called in a kernel"
                )
            return KernelCall(self, args, kwargs)
        return Pending(self.generator(args, kwargs))

    def __call__(self, *args, **kwargs):
        """Where a library's function calls it, as sorted does its key."""
        return call_now(self, *args, **kwargs)

    def set_name_prefix(self, *_, **__) -> None:
        """What the compiled kernel is called, which changes nothing here."""

    def __get__(self, instance, owner=None):
        return self if instance is None else Bound(self, instance)

    def __repr__(self) -> str:
        return f"<simulated {self.name}>"


# Annotations whose whole numbers the DSL knows while tracing.
STATIC = re.compile(r"\b(Shape|Tile|Coord|Stride|IntTuple)\b")


def cross(x, annotation: str):
    """A number passed to a kernel, as its parameter types it."""
    if type(x) is Literal and "Constexpr" not in annotation:
        return Value(x.dtype, x.a)
    if "Constexpr" in annotation or type(x) not in (bool, int, float) or STATIC.search(annotation):
        return x
    wanted = TYPES.get(annotation.rpartition(".")[2])
    if wanted is not None:
        return convert(x, wanted)
    dtype = Boolean if type(x) is bool else type_of(x) if type(x) is int else Float32
    return convert(x, dtype)


class Bound:
    """A method with its object."""

    def __init__(self, function, instance):
        self.function, self.instance = function, instance

    set_name_prefix = SimFunction.set_name_prefix
    __call__ = SimFunction.__call__

    def start_call(self, args, kwargs):
        return control.call(self.function, self.instance, *args, **kwargs)

    @property
    def generator(self):
        return lambda args, kwargs: self.function.generator((self.instance, *args), kwargs)


class Cached:
    """What functools.lru_cache makes of a function of the reader's: calls with equal arguments have one result."""

    def __init__(self, function, name: str):
        self._inner, self._name, self._results = function, name, {}

    def start_call(self, args, kwargs):
        try:
            key = args, tuple(kwargs.items()), tuple(map(type, args))
            if key in self._results:
                return self._results[key]
        except TypeError:
            raise not_simulated(f"lru_cache of {self._name} with other arguments than Python's own") from None
        result = self._results[key] = call_now(self._inner, *args, **kwargs)
        return result

    def __call__(self, *args, **kwargs):
        return self.start_call(args, kwargs)


class ModuleTwin:
    """One of the reader's modules; its attributes are mapped when they are used."""

    def __init__(self, module, mapper: Mapper):
        self.__dict__.update(_module=module, _mapper=mapper)

    def __getattr__(self, name):
        return self._mapper.map(getattr(self._module, name))


class Twin:
    """An object of the reader's class: the same attributes, mapped; methods are simulated; writes stay in the twin.

    Names of its own hide those of the class: they begin with an underscore where a reader could have the same.
    """

    is_twin = True

    def __init__(self, original, mapper: Mapper):
        object.__setattr__(self, "_original", original)
        object.__setattr__(self, "_mapper", mapper)
        object.__setattr__(self, "_own", {})

    def __getattr__(self, name):
        mine = object.__getattribute__(self, "__dict__")
        if name in mine["_own"]:
            return mine["_own"][name]
        original, mapper = mine["_original"], mine["_mapper"]
        held = getattr(original, "__dict__", {})
        if name in held:
            x = held[name]
            return x if type(x) in _NUMBERS else mapper.map(x)
        return class_attribute(type(original), name, self, mapper)

    def __setattr__(self, name, value):
        setter = _setter(type(object.__getattribute__(self, "_original")), name)
        if setter is None:
            object.__getattribute__(self, "_own")[name] = value
        else:
            call_now(Bound(object.__getattribute__(self, "_mapper").map(setter), self), value)

    def __delattr__(self, name):
        raise not_simulated(f"del of .{name}")

    def __deepcopy__(self, _):
        raise not_simulated("copy.deepcopy of an object")

    def __reduce_ex__(self, _):
        raise not_simulated("pickle of an object")

    def start_call(self, args, kwargs):
        return control.call(self.__getattr__("__call__"), *args, **kwargs)

    @property
    def _carries_values(self) -> bool:
        """Whether the DSL takes the object apart into the values that it holds, so that a dynamic `if` may change it."""
        cls = type(object.__getattribute__(self, "_original"))
        return dataclasses.is_dataclass(cls) or hasattr(cls, "__extract_mlir_values__")

    def _copied(self) -> Twin:
        other = twin_of(object.__getattribute__(self, "_original"), object.__getattribute__(self, "_mapper"))
        object.__getattribute__(other, "_own").update(object.__getattribute__(self, "_own"))
        return other

    __copy__ = _copied

    def _joined(self, other: Twin, join) -> Twin:
        """An object with join(name, mine, the other's) of each attribute that either has been given."""
        result, mine = self._copied(), object.__getattribute__(self, "_own")
        names = dict.fromkeys((*mine, *object.__getattribute__(other, "_own")))
        if original(self) is not original(other):
            names |= dict.fromkeys(vars(original(self)))
        for name in names:
            gone = Unbound(name, GONE)
            setattr(result, name, join(name, getattr(self, name, gone), getattr(other, name, gone)))
        return result

    def __eq__(self, other):
        mine = object.__getattribute__(self, "_original")
        equal = _defined(type(mine), "__eq__")
        if isinstance(equal, types.FunctionType) and not _is_generated(equal):
            return call_now(Bound(object.__getattribute__(self, "_mapper").map(equal), self), other)
        theirs = object.__getattribute__(other, "_original") if isinstance(other, Twin) else other
        # a dataclass's: of values as they are now
        if isinstance(other, Twin) and isinstance(equal, types.FunctionType):
            names = [field.name for field in dataclasses.fields(mine) if field.compare]
            return type(mine) is type(theirs) and all(getattr(self, name) == getattr(other, name) for name in names)
        return mine == theirs

    def __hash__(self):
        return hash(object.__getattribute__(self, "_original"))

    def __repr__(self) -> str:
        return f"<simulated {type(object.__getattribute__(self, '_original')).__name__}>"


# What Python looks up in an object's class alone, and Twin itself does not have.
OPERATORS = (
    "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or radd rsub rmul rmatmul rtruediv rfloordiv rmod "
    "rpow rlshift rrshift rand rxor ror iadd isub imul itruediv ifloordiv imod iand ior ixor neg pos abs invert lt le gt ge "
    "getitem setitem delitem contains len iter next bool int float index round format repr str call enter exit reversed"
).split()


def _operator(name: str):
    def operate(self, *args):
        return call_now(self.__getattr__(name), *args)

    return operate


@functools.lru_cache(maxsize=512)
def _twin_class(cls) -> type:
    """A class of twins with the operators that `cls` has, and its name, which Python says where an operator is missing."""
    found = {f"__{name}__" for name in OPERATORS} & {name for base in cls.__mro__[:-1] for name in vars(base)}
    members = {"__module__": cls.__module__} | {name: _operator(name) for name in found}
    shows = _defined(cls, "__repr__")
    if dataclasses.is_dataclass(cls) and hasattr(shows, "__wrapped__"):
        members["__repr__"] = _fields_shown  # what dataclasses has made has no source
    return type(cls.__name__, (Twin,), members)


def _fields_shown(twin: Twin) -> str:
    cls = type(object.__getattribute__(twin, "_original"))
    names = (field.name for field in dataclasses.fields(cls) if field.repr)
    return f"{cls.__qualname__}({', '.join(f'{name}={getattr(twin, name)!r}' for name in names)})"


def _defined(cls, name: str):
    """What a class or the first that has it of those behind it has for a name; None for what every object has."""
    return next((vars(base)[name] for base in cls.__mro__[:-1] if name in vars(base)), None)


def _is_generated(function) -> bool:
    """Whether dataclasses has made the function: there is no source of it."""
    return function.__code__.co_filename == "<string>"


@functools.lru_cache(maxsize=2048)
def _setter(cls, name: str):
    """The function that sets an attribute, None for Python's own way; what else there may be is refused."""
    if name == "_own":
        return None
    whole, one = _defined(cls, "__setattr__"), _defined(cls, name)
    if isinstance(whole, types.FunctionType):
        if _is_generated(whole):
            raise refused(f"{cls.__name__} is a frozen dataclass, whose {name} cannot be set; dataclasses.replace")
        raise not_simulated(f"{cls.__name__}.__setattr__")
    if isinstance(one, property):
        if one.fset is None:
            raise refused(f"{cls.__name__}.{name} is a property that cannot be set")
        return one.fset
    if hasattr(type(one), "__set__") and not isinstance(one, types.MemberDescriptorType):
        raise not_simulated(f"{cls.__name__}.{name}, a descriptor,")
    return None


_HOLDERS = (dict, list, set, frozenset, tuple, str, int, float, complex, bytes)


@functools.lru_cache(maxsize=512)
def _no_twin(cls) -> str:
    """What of a class of the reader's has no twin, or nothing."""
    for base in cls.__mro__[1:-1]:
        of_python = _is_foreign(base.__module__) and not _is_dsl(base.__module__)
        if of_python and issubclass(base, _HOLDERS):
            return f"{cls.__name__} (derived from Python's {base.__name__})"
    if isinstance(_defined(cls, "__getattribute__"), types.FunctionType):
        return f"{cls.__name__}.__getattribute__"
    return ""


def twin_of(x, mapper: Mapper):
    if _no_twin(type(x)):
        return names.Missing(_no_twin(type(x)))
    return _twin_class(type(x))(x, mapper)


@functools.lru_cache(maxsize=512)
def _bases(cls) -> tuple:
    """A class and what it is derived from, with the simulator's own in place of the DSL's where it has one."""
    found = []
    for base in cls.__mro__:
        ours = names.by_name(base.__module__, base.__name__) if _is_dsl(base.__module__) else base
        found.append(ours if isinstance(ours, type) else base)
    return tuple(found)


_FUNCTIONS = (types.FunctionType, functools._lru_cache_wrapper, type)


def class_attribute(cls, name: str, instance, mapper: Mapper, behind=None, of_class=False):
    """An attribute that a class gives its objects, or itself: from the first of the classes `behind` it that has it."""
    instance = None if of_class else instance
    for klass in _bases(cls) if behind is None else behind:
        if name not in klass.__dict__:
            continue
        found = klass.__dict__[name]
        if isinstance(found, types.FunctionType) and instance is not None:
            return Bound(mapper.map(found), instance)
        if isinstance(found, staticmethod):
            return mapper.map(found.__func__)
        if isinstance(found, classmethod):
            return Bound(mapper.map(found.__func__), mapper.map(cls))
        if isinstance(found, (property, functools.cached_property)):
            getter = found.fget if isinstance(found, property) else found.func
            if instance is None:
                return found
            return call_now(Bound(mapper.map(getter), instance))
        if isinstance(found, types.MemberDescriptorType) and instance is not None:  # of __slots__
            return mapper.map(found.__get__(object.__getattribute__(instance, "_original")))
        if klass is object or isinstance(found, types.WrapperDescriptorType):
            return _of_object(name, instance)
        if hasattr(type(found), "__get__") and not isinstance(found, _FUNCTIONS):
            raise not_simulated(f"{cls.__name__}.{name}, a {type(found).__name__},")
        mapped = mapper.map(found)
        if isinstance(found, _FUNCTIONS[:2]) and instance is not None:
            return Bound(mapped, instance)
        return mapped
    other = _defined(cls, "__getattr__")
    if isinstance(other, types.FunctionType) and instance is not None and not name.startswith("__"):
        return call_now(Bound(mapper.map(other), instance), name)
    raise AttributeError(f"{cls.__name__} has no attribute {name!r}")


def _of_object(name: str, instance):
    """What every object of Python's has: as Python has it, for a twin too."""
    if name == "__init__":
        return lambda *_, **__: None
    if name in ("__setattr__", "__getattribute__") and instance is not None:
        return {"__setattr__": setattr, "__getattribute__": getattr}[name].__get__(instance)
    raise AttributeError(name)


class SimClass:
    """A class of the reader's: calling it makes a twin of a new object."""

    def __init__(self, cls, mapper: Mapper):
        self._cls, self._mapper = cls, mapper

    def instance_of(self, x) -> bool:
        return isinstance(x, Twin) and isinstance(object.__getattribute__(x, "_original"), self._cls)

    def start_call(self, args, kwargs):
        if _no_twin(self._cls):
            raise not_simulated(_no_twin(self._cls))
        if isinstance(_defined(type(self._cls), "__call__"), types.FunctionType):
            raise not_simulated(f"{self._cls.__name__}, whose metaclass makes its objects,")
        if isinstance(_defined(self._cls, "__new__"), (staticmethod, types.FunctionType)):
            raise not_simulated(f"{self._cls.__name__}.__new__")
        for base in _bases(self._cls)[1:]:
            of_dsl = _is_dsl(base.__module__) or base.__module__.startswith(HERE)
            if of_dsl and base is not PipelineState:
                raise not_simulated(f"{self._cls.__name__}, a class derived from the DSL's {base.__name__},")
        init = next(vars(base)["__init__"] for base in _bases(self._cls) if "__init__" in vars(base))
        # object's, or a dataclass's
        if not isinstance(init, types.FunctionType) or _is_generated(init):
            try:
                return twin_of(self._cls(*args, **kwargs), self._mapper)
            except TypeError as error:
                if error.__traceback__.tb_next is not None:
                    raise
                raise refused(str(error)) from None
        twin = twin_of(self._cls.__new__(self._cls), self._mapper)
        if init.__module__.startswith(HERE):  # of the class that it is derived from
            init(twin, *args, **kwargs)
            return twin
        return Pending(self._construct(twin, self._mapper.map(init), args, kwargs))

    @staticmethod
    def _construct(twin, init, args, kwargs):
        yield from init.generator((twin, *args), kwargs)
        return twin

    __call__ = SimFunction.__call__

    def __repr__(self) -> str:
        return repr(self._cls)

    def __getitem__(self, parameters):
        """A generic class with its parameters."""
        self._cls[parameters]
        return self

    def __getattr__(self, name):
        if name in ("__name__", "__qualname__", "__module__"):
            return getattr(self._cls, name)
        if name.startswith("__") and not isinstance(_defined(self._cls, name), types.FunctionType):
            raise AttributeError(name)
        return class_attribute(self._cls, name, None, self._mapper)


# What stands for the reader's functions and classes: in which attribute it has them, and what Python has there. (A Twin's class has
# the name of the reader's.)
STANDS_FOR = {
    SimFunction: ("original", types.FunctionType),
    control.Nested: ("generator_function", types.FunctionType),
    Bound: ("function", types.MethodType),
    SimClass: ("_cls", type),
    control.Partial: ("function", functools.partial),
    ModuleTwin: ("_module", types.ModuleType),
}


def original(x):
    """What of the reader's an object of the simulator's stands for; any other is itself."""
    if isinstance(x, Twin):
        return object.__getattribute__(x, "_original")
    return original(vars(x)[STANDS_FOR[type(x)][0]]) if type(x) in STANDS_FOR else x

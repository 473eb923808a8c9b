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

from . import control, names, structs
from .context import KIND, MARK, STATE, fail, kernel_frame, not_simulated, without_frames
from .control import Pending, call_now
from .joins import GONE, Unbound
from .numeric import TYPES, Boolean, Float32, Literal, Value, convert, type_of
from .pipeline import PipelineState
from .rewrite import PENDING, TYPE, rewrite
from .scheduler import KernelCall

_HERE = __name__.rpartition(".")[0]
_NUMBERS = (bool, int, float)
_PLAIN = (type(None), bool, int, float, complex, str, bytes, slice, type(Ellipsis), range, type)


def _is_dsl(module: str | None) -> bool:
    return bool(module) and (module == "cutlass" or module.startswith("cutlass."))


@functools.lru_cache(maxsize=512)
def _is_foreign(module: str | None) -> bool:
    """A library's module: its code runs as it is. The reader's and this project's own code is simulated."""
    if not module:
        return True
    top = module.partition(".")[0]
    if top == "__main__":
        return False
    if top in sys.stdlib_module_names:
        return True
    if module == _HERE or module.startswith(_HERE + "."):
        return True
    if top == __name__.partition(".")[0]:
        return False
    file = getattr(sys.modules.get(top), "__file__", None) or ""
    if "site-packages" not in file and "dist-packages" not in file:
        return False
    return not _uses_the_dsl(sys.modules.get(module))  # an installed library's kernels are simulated like the reader's


def _uses_the_dsl(module) -> bool:
    """Whether a module has imported something of the DSL's by name."""
    for value in vars(module).values() if module is not None else ():
        if isinstance(value, names.Namespace) or isinstance(value, types.ModuleType) and _is_dsl(value.__name__):
            return True
    return False


class _Mapped(dict):
    """A module's names as the simulator has them."""

    def __init__(self, names: dict, mapper: Mapper):
        self.source, self.mapper = names, mapper

    def __missing__(self, name):
        return self.mapper.map(self.source[name])


class Mapper:
    """Maps objects for one simulate() call; each is mapped once."""

    def __init__(self):
        self.seen: dict = {}
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
            return x
        if isinstance(x, functools.partial):
            return control.Partial(
                self.map(x.func), tuple(map(self.map, x.args)), {k: self.map(v) for k, v in x.keywords.items()}
            )
        if isinstance(x, types.FunctionType):
            return self._function(x)
        if isinstance(x, types.MethodType):
            return Bound(self.map(x.__func__), self.map(x.__self__))
        if isinstance(x, type):
            return self._class(x)
        if type(x).__module__.startswith(_HERE) and not isinstance(x, Twin):
            return x
        if _is_dsl(type(x).__module__):
            return self._dsl_instance(x)
        if isinstance(x, tuple) and type(x) is tuple:
            return tuple(map(self.map, x))
        if type(x) is list:
            return [self.map(v) for v in x]
        if type(x) is dict:
            return {k: self.map(v) for k, v in x.items()}
        if isinstance(x, Twin) or _is_foreign(type(x).__module__):
            return x
        return twin_of(x, self)

    def _module(self, module):
        name = module.__name__
        if _is_dsl(name):
            return names.by_path(name)
        return module if _is_foreign(name) else ModuleTwin(module, self)

    def _function(self, function):
        original = inspect.unwrap(function)
        if _is_dsl(original.__module__):
            return names.by_name(original.__module__, original.__name__)
        return function if _is_foreign(original.__module__) else SimFunction(original, self)

    def _class(self, cls):
        if _is_dsl(cls.__module__):
            return TYPES.get(cls.__name__) or names.by_name(cls.__module__, cls.__name__)
        if _is_foreign(cls.__module__) or issubclass(cls, (BaseException, enum.Enum)) or hasattr(cls, "_fields"):
            return cls
        return SimClass(cls, self)

    def _dsl_instance(self, x):
        if type(x).__name__ == "struct":
            return structs.twin_of(x, lambda module: _Mapped(vars(module), self))
        if type(x).__name__ in TYPES:  # a number that a host function was given
            return TYPES[type(x).__name__](x.value)
        kind = names.by_name(type(x).__module__, type(x).__name__)
        if isinstance(kind, types.FunctionType):  # a copy operation: its class makes an equal one
            return kind()
        return names.Missing(f"{type(x).__module__}.{type(x).__name__}")

    def globals_of(self, function, used, kind: str) -> dict:
        builtin = names.BUILTINS if kind else names.PLAIN_BUILTINS
        source = function.__globals__
        table = {
            MARK: control if STATE.run is None or STATE.run.order is None else STATE.run.order.control,
            KIND: kind,
            PENDING: Pending,
            TYPE: type,
            "__builtins__": builtins,
            "__name__": source.get("__name__"),
        }
        for name in used:
            if name in source:
                value = source[name]
                table[name] = builtin.get(name, value) if value is getattr(builtins, name, table) else self.map(value)
            elif name in builtin:
                table[name] = builtin[name]
        return table


class SimFunction:
    """A function of the reader's, rewritten when it is first called."""

    def __init__(self, original, mapper: Mapper):
        self.original, self.mapper = original, mapper
        self.name = original.__name__
        self.full_name = original.__qualname__.rpartition("<locals>.")[2]  # Softmax.kernel, for a method

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
            raise (fail("language", said) if kernel_frame() else without_frames(TypeError(said))) from None

    def typed(self, args, kwargs):
        """Numbers that cross into a kernel become dynamic, unless the parameter is a Constexpr."""
        annotations = dict(self.rewritten.parameters)
        order = [name for name, _ in self.rewritten.parameters]
        args = tuple(cross(a, annotations.get(order[i], "") if i < len(order) else "") for i, a in enumerate(args))
        return args, {k: cross(v, annotations.get(k, "")) for k, v in kwargs.items()}

    def start_call(self, args, kwargs):
        if self.kind == "kernel":
            if STATE.group is not None:
                raise fail(
                    "language",
                    f"{self.name} is a kernel; it is launched from a @cute.jit host function, not called in a kernel",
                )
            return KernelCall(self, args, kwargs)
        return Pending(self.generator(args, kwargs))

    def set_name_prefix(self, *_, **__) -> None:
        """What the compiled kernel is called, which changes nothing here."""

    def __get__(self, instance, owner=None):
        return self if instance is None else Bound(self, instance)

    def __repr__(self) -> str:
        return f"<simulated {self.name}>"


def cross(x, annotation: str):
    """A number passed to a kernel, as its parameter types it."""
    if type(x) is Literal and "Constexpr" not in annotation:
        return Value(x.dtype, x.a)
    if "Constexpr" in annotation or type(x) not in (bool, int, float):
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

    def start_call(self, args, kwargs):
        return control.call(self.function, self.instance, *args, **kwargs)

    @property
    def generator(self):
        return lambda args, kwargs: self.function.generator((self.instance, *args), kwargs)


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
        return _class_attribute(type(original), name, self, mapper)

    def __setattr__(self, name, value):
        object.__getattribute__(self, "_own")[name] = value

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

    def _joined(self, other: Twin, join) -> Twin:
        """An object with join(name, mine, the other's) of each attribute that either has been given."""
        result, mine = self._copied(), object.__getattribute__(self, "_own")
        names = dict.fromkeys((*mine, *object.__getattribute__(other, "_own")))
        if object.__getattribute__(self, "_original") is not object.__getattribute__(other, "_original"):
            names |= dict.fromkeys(vars(object.__getattribute__(self, "_original")))
        for name in names:
            gone = Unbound(name, GONE)
            setattr(result, name, join(name, getattr(self, name, gone), getattr(other, name, gone)))
        return result

    def __eq__(self, other):
        other = object.__getattribute__(other, "_original") if isinstance(other, Twin) else other
        return object.__getattribute__(self, "_original") == other

    def __hash__(self):
        return hash(object.__getattribute__(self, "_original"))

    def __repr__(self) -> str:
        return f"<simulated {type(object.__getattribute__(self, '_original')).__name__}>"


# What Python looks up in an object's class alone, and Twin itself does not have.
OPERATORS = (
    "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or radd rsub rmul rmatmul rtruediv rfloordiv rmod "
    "rpow rlshift rrshift rand rxor ror iadd isub imul itruediv ifloordiv imod iand ior ixor neg pos abs invert lt le gt ge "
    "getitem setitem delitem contains len iter next bool int float index round format"
).split()


def _operator(name: str):
    def operate(self, *args):
        return call_now(self.__getattr__(name), *args)

    return operate


@functools.lru_cache(maxsize=512)
def _twin_class(cls) -> type:
    """A class of twins with the operators that `cls` has, and its name, which Python says where an operator is missing."""
    found = {f"__{name}__" for name in OPERATORS} & {name for base in cls.__mro__[:-1] for name in vars(base)}
    return type(cls.__name__, (Twin,), {"__module__": cls.__module__} | {name: _operator(name) for name in found})


def twin_of(x, mapper: Mapper) -> Twin:
    return _twin_class(type(x))(x, mapper)


@functools.lru_cache(maxsize=512)
def _bases(cls) -> tuple:
    """A class and what it is derived from, with the simulator's own in place of the DSL's where it has one."""
    found = []
    for base in cls.__mro__:
        ours = names.by_name(base.__module__, base.__name__) if _is_dsl(base.__module__) else base
        found.append(ours if isinstance(ours, type) else base)
    return tuple(found)


def _class_attribute(cls, name: str, instance, mapper: Mapper):
    for klass in _bases(cls):
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
        return mapper.map(found)
    raise AttributeError(f"{cls.__name__} has no attribute {name!r}")


class SimClass:
    """A class of the reader's: calling it makes a twin of a new object."""

    def __init__(self, cls, mapper: Mapper):
        self._cls, self._mapper = cls, mapper

    def instance_of(self, x) -> bool:
        return isinstance(x, Twin) and isinstance(object.__getattribute__(x, "_original"), self._cls)

    def start_call(self, args, kwargs):
        for base in _bases(self._cls)[1:]:
            if (_is_dsl(base.__module__) or base.__module__.startswith(_HERE)) and base is not PipelineState:
                raise not_simulated(f"{self._cls.__name__}, a class derived from the DSL's {base.__name__},")
        init = next(vars(base)["__init__"] for base in _bases(self._cls) if "__init__" in vars(base))
        if (
            not isinstance(init, types.FunctionType) or init.__code__.co_filename == "<string>"
        ):  # object's, or a dataclass's
            try:
                return twin_of(self._cls(*args, **kwargs), self._mapper)
            except TypeError as error:
                if error.__traceback__.tb_next is not None:
                    raise
                raise fail("language", str(error)) from None
        twin = twin_of(self._cls.__new__(self._cls), self._mapper)
        if init.__module__.startswith(_HERE):  # of the class that it is derived from
            init(twin, *args, **kwargs)
            return twin
        return Pending(self._construct(twin, self._mapper.map(init), args, kwargs))

    @staticmethod
    def _construct(twin, init, args, kwargs):
        yield from init.generator((twin, *args), kwargs)
        return twin

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _class_attribute(self._cls, name, None, self._mapper)

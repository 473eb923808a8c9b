"""What stands for a name of the DSL's: a module, an annotation, a member of an enumeration, or one that is not modelled."""

from __future__ import annotations

import difflib

from ..context import STATE, not_simulated
from .numeric import Value


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
    """A module of the DSL as simulated source sees it; a dict among its members is a module in it."""

    def __init__(self, path: str, members: dict, older: dict | None = None):
        for name, x in members.items():
            self.__dict__[name] = Namespace(f"{path}.{name}", x) if type(x) is dict else x
        self.__dict__.update(_path=path, _older=older or {})  # names of releases before 4.8

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._older:
            return self._older[name]
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

    def __mro_entries__(self, bases):
        """A class that is derived from it is one of the reader's own."""
        return ()

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
        name = other.name if isinstance(other, Token) else other
        return isinstance(name, str) and name == self.name

    def __hash__(self):
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__

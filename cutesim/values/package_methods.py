"""Methods that a package gives the DSL's tensors, as QuACK's `cutlass.cute.tensor._Tensor.to = ...` does.

They are simulated like any function of the reader's, and asked where CuTe DSL 4.8.1 itself would refuse: for a method of another
name, and for an index with `...` or `:`. What they would do to the DSL's own methods is not asked for.
"""

from __future__ import annotations

import inspect
import sys
import types

from ..context import STATE, not_simulated, refused


class Open:
    """A class of tensors that takes methods, by its name in `cutlass.cute.tensor`."""

    def __init__(self, name: str, *kinds: type):
        self._class, self._kinds = name, kinds
        self.__getitem__, self.__setitem__ = _get, _set

    def instance_of(self, x) -> bool:
        return isinstance(x, self._kinds)

    def __call__(self, *_, **__):
        raise not_simulated(f"cute.tensor.{self._class}(...)")

    def __repr__(self) -> str:
        return f"cute.tensor.{self._class}"

    def _added(self, name: str):
        """The function that a package has put there; None for none."""
        # Where the DSL is installed, its own class may have been given the method.
        real = getattr(sys.modules.get("cutlass.cute.tensor"), self._class, None)
        for place in (vars(self), vars(real) if isinstance(real, type) else {}):
            found, origin = place.get(name), ""
            if isinstance(found, types.FunctionType):
                origin = getattr(inspect.unwrap(found), "__module__", "")
            if origin and origin != __name__ and origin.partition(".")[0] != "cutlass":
                return found
        return None

    def method(self, name: str, tensor):
        """A method that a package has given `tensor`, None for none."""
        function = self._added(name)
        if function is None or STATE.run is None or STATE.run.mapper is None:
            return None
        return STATE.run.mapper.bound(function, tensor)


def _get(tensor, coord, **_):
    return tensor[coord]


def _set(tensor, coord, value, **_) -> None:
    tensor[coord] = value


def is_python_s(coord) -> bool:
    """Whether an index says `...` or `:`, which CuTe has no meaning for."""
    kinds = _kinds(coord)
    return type(Ellipsis) in kinds or slice in kinds


def _kinds(coord) -> set:
    return set(map(type, coord)) if type(coord) is tuple else {type(coord)}


def indexed_by_a_package(tensors: Open, tensor, method: str, coord, *value):
    """What a package's own indexing makes of it; where there is none, it is refused with what to write instead."""
    found = tensors.method(method, tensor)
    if found is not None:
        return found(coord, *value)
    if type(Ellipsis) in _kinds(coord):
        raise not_simulated("... in a coordinate, which is not CuTe DSL's own,")
    text = "a CuTe tensor takes no slices: None keeps a whole mode, as in mX[row, None]; cute.local_tile cuts a tile"
    raise refused(text)

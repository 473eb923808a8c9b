"""Numbers beside what rounding has made of them: a run in float64 along the run in the kernel's own types.

An `Exact` array holds what the kernel's types hold, and in `wide` the same numbers computed in float64 from the start. numpy's
functions work on both; branches, comparisons, addresses and bits are those of the rounded numbers, so that both take one path.
What numpy does not tell this class of gives a plain array: from there on the rounded numbers stand for the exact ones.

With `exact` a `Symbolic` they are not floats but what it keeps.

Memory keeps the exact number of an element by its address (`Shadows`). It counts only as long as the bits stored with it lie there,
so whatever else writes the memory is safe.
"""

from __future__ import annotations

import numpy as np

from ..context import STATE
from .symbolic import Symbolic

# What moves numbers without changing them, beside numpy's universal functions.
MOVES = {  # and which of its arguments are numbers
    np.where: (1, 2),
    np.broadcast_to: (0,),
    np.take: (0,),
    np.take_along_axis: (0,),
    np.moveaxis: (0,),
    np.repeat: (0,),
    np.stack: (0,),
    np.concatenate: (0,),
}


class Exact(np.ndarray):
    """An array of rounded numbers, or of their bits, with the exact ones in `wide` (of the same shape) or None.

    An integer that holds the bits of several numbers side by side has the first in `wide`, the next ones in the arrays of `more`.
    """

    wide = None
    more: tuple = ()

    def __getitem__(self, key):
        found = super().__getitem__(key)
        if type(found) is Exact and self.wide is not None:
            found.wide, found.more = self.wide[key], tuple(part[key] for part in self.more)
        return found

    def __setitem__(self, key, new):
        plain(self)[key] = plain(new)
        for own, other in zip(_parts(self), _put(self, new)):
            own[key] = other

    def __array_ufunc__(self, function, method, *inputs, out=None, **options):
        result = getattr(function, method)(*map(plain, inputs), **options)
        if out is not None or not _is_float(result):
            return _into(out, _of_bits(inputs, result))
        options.pop("dtype", None)
        numbers = map(wide, inputs)
        if isinstance(STATE.exact, Symbolic):
            given = [*map(plain, inputs)], [*numbers]
            return exact(result, STATE.exact.apply(function, method, result, *given, options))
        return exact(result, getattr(function, method)(*numbers, **options))

    def __array_function__(self, function, types, args, kwargs):
        if function in (np.copyto, np.put_along_axis):
            function(plain(args[0]), *_each(plain, args[1:]), **_each(plain, kwargs))
            kwargs.pop("casting", None)
            place, given = 1 if function is np.copyto else 2, [*_each(plain, args)]
            for own, other in zip(_parts(args[0]), _put(args[0], args[place])):
                given[0], given[place] = own, other
                function(*given, **_each(plain, kwargs))
            return None
        if function is np.broadcast_arrays:
            return [np.broadcast_to(x, np.broadcast_shapes(*map(np.shape, args))) for x in args]
        result = function(*_each(plain, args), **_each(plain, kwargs))
        if function is np.clip:
            return np.minimum(np.maximum(args[0], args[1]), args[2])
        if function not in MOVES or not isinstance(result, np.ndarray):
            return _untaken(result)
        numbers, kwargs = MOVES[function], _each(plain, kwargs)
        count = max(len(_parts(x)) for k in numbers for x in _flat(args[k]))
        parts = []
        for n in range(count):
            given = (_part(x, n, result) if k in numbers else plain(x) for k, x in enumerate(args))
            parts.append(function(*given, **kwargs))
        return exact(result, *parts) if parts else result

    def reshape(self, *shape, **options):
        return self._both(lambda a: a.reshape(*shape, **options))

    def take(self, *where, **options):
        return self._both(lambda a: a.take(*where, **options))

    def copy(self, *rest):
        return self._both(lambda a: a.copy(*rest))

    def astype(self, dtype, copy=True, **options):
        """Floats of any type, or bits of any, stay the same numbers; an integer made of a float, or a float of one, is another."""
        result = plain(self).astype(dtype, copy=copy, **options)
        if (result.dtype.kind == "f") != (self.dtype.kind == "f"):
            return result
        return exact(result, self.wide, *(self.more if result.itemsize == self.itemsize else ()))

    def view(self, *kind):
        """The bits as another type: the same numbers, in a wider one several side by side, in a narrower one parted."""
        result = plain(self).view(*kind)
        if self.wide is None:
            return result
        if result.shape == self.shape:
            first = _filled(result, self.wide) if result.dtype.kind == "f" else self.wide
            return exact(result, first, *self.more)
        if result.shape[-1] < self.shape[-1]:
            ratio = self.shape[-1] // result.shape[-1]
            return exact(result, *(self.wide[..., k::ratio] for k in range(ratio)))
        ratio = result.shape[-1] // self.shape[-1]
        whole = len(self.more) + 1 == ratio
        parts = [self.wide, *self.more] if whole else [_lost(self.wide)] * ratio
        numbers = np.stack(parts, axis=-1).reshape(result.shape)
        return exact(result, _filled(result, numbers) if result.dtype.kind == "f" else numbers)

    def _both(self, move):
        if self.wide is None:
            return move(plain(self))
        return exact(move(plain(self)), move(self.wide), *map(move, self.more))


def exact(rounded: np.ndarray, numbers, *more) -> np.ndarray:
    """`rounded` with the numbers that it was rounded from; as it is where they are not known."""
    if numbers is None:
        return rounded
    result = np.asarray(rounded).view(Exact)
    whole = lambda part: np.broadcast_to(part, result.shape) if np.shape(part) != result.shape else np.asarray(part)  # noqa: E731
    result.wide, result.more = whole(numbers), tuple(map(whole, more))
    return result


def beside(rounded: np.ndarray, x: Exact) -> np.ndarray:
    """`rounded`, the bits of `x` or what they say, with its numbers."""
    return exact(rounded, x.wide, *x.more)


def unknown():
    """What stands for a number that no store has brought: it is what the bits say."""
    return complex(np.nan, np.nan) if isinstance(STATE.exact, Symbolic) else np.nan


def _lost(numbers):
    """No number, where there was one; in float64 what the bits say stands for it."""
    if not isinstance(STATE.exact, Symbolic):
        return np.full(np.shape(numbers), np.nan)
    return np.where(np.isnan(numbers), unknown(), STATE.exact.lost)


def _parts(x) -> list:
    """The exact numbers of an array, one array for each that an element holds."""
    return [] if getattr(x, "wide", None) is None else [x.wide, *x.more]


def _put(target, new) -> list:
    """What is put beside `new` into each of the parts of `target`."""
    if target.dtype.kind == "f":
        return [numbers_of(new)]
    count, parts = len(_parts(target)), _parts(new)
    return parts if len(parts) == count else [_lost(parts[0]) if parts else unknown()] * count


def _flat(x) -> list:
    return list(x) if type(x) in (tuple, list) else [x]


def _part(x, n: int, result):
    """The n-th part of what a function moves into `result`, of an array or of each in a sequence."""
    if type(x) in (tuple, list):
        return type(x)(_part(one, n, result) for one in x)
    if result.dtype.kind == "f":
        return numbers_of(x)
    parts = _parts(x)
    if n < len(parts):
        return parts[n]
    return _lost(parts[0]) if parts else np.full(np.shape(x), unknown())


def plain(x):
    """The rounded numbers alone."""
    return np.ndarray.view(x, np.ndarray) if isinstance(x, Exact) else x


def wide(x):
    """The exact numbers; of anything else what it is, floats in float64."""
    if isinstance(x, Exact) and x.wide is not None:
        return _filled(plain(x), x.wide) if x.dtype.kind == "f" else x.wide
    x = plain(x)
    if not isinstance(x, (np.ndarray, np.generic)) or x.dtype.kind != "f":
        return x
    return STATE.exact.encode(x) if isinstance(STATE.exact, Symbolic) else x.astype(np.float64)


def numbers_of(x):
    """`wide`, of Python's numbers as well."""
    x = wide(x)
    known = not isinstance(STATE.exact, Symbolic) or np.asarray(x).dtype.kind == "c"
    return x if known else STATE.exact.encode(x)


def _untaken(result):
    """A result of what numpy does not tell of: the rounded numbers, and in a field no number."""
    if not isinstance(STATE.exact, Symbolic) or not _is_float(result):
        return result
    return exact(np.asarray(result), np.full(np.shape(result), STATE.exact.lost))


def _of_bits(inputs, result):
    """An integer computed of a float's bits; in a field, the float that has these bits is no number."""
    held = (x for x in inputs if isinstance(x, Exact) and x.wide is not None)
    of_bits = [x.wide for x in held if x.dtype.kind in "iu"]
    whole = np.asarray(result).dtype.kind in "iu"
    if not isinstance(STATE.exact, Symbolic) or not of_bits or not whole:
        return result
    stored = np.any(np.broadcast_arrays(*(~np.isnan(numbers) for numbers in of_bits)), axis=0)
    if not stored.any():
        return result
    return exact(np.asarray(result), np.where(stored, STATE.exact.lost, unknown()))


def contiguous(x) -> np.ndarray:
    """numpy's ascontiguousarray, with the exact numbers."""
    packed = np.ascontiguousarray(plain(x))
    return beside(packed, x) if isinstance(x, Exact) else packed


def _each(what, x):
    if isinstance(x, dict):
        return {key: _each(what, one) for key, one in x.items()}
    return type(x)(_each(what, one) for one in x) if type(x) in (tuple, list) else what(x)


def _is_float(x) -> bool:
    return isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind == "f"


def _into(out, result):
    if out is None:
        return result
    out[0][...] = result
    return out[0]


class Shadows:
    """The exact numbers of memory: for each flat array one a byte, NaN where none was stored, and the bits stored with them."""

    def __init__(self):
        self.held: dict = {}  # where the array lies -> (the array, numbers, its bytes as they were stored)

    def _of(self, flat: np.ndarray) -> tuple:
        """(numbers, bits as elements) of a flat array, which may be one of several types over the same memory."""
        at = flat.__array_interface__["data"][0]
        if at not in self.held or len(self.held[at][1]) < flat.nbytes:
            self.held[at] = flat, np.full(flat.nbytes, unknown()), np.zeros(flat.nbytes, np.uint8)
        _, numbers, stored = self.held[at]
        return numbers, stored[: flat.nbytes].view(_bits(flat).dtype)

    def load(self, flat: np.ndarray, index: np.ndarray, raw: np.ndarray) -> np.ndarray:
        """`raw`, the elements at `index`, with their exact numbers; NaN where they are not known."""
        numbers, stored = self._of(flat)
        still, at, size = stored[index] == _bits(raw), index * flat.itemsize, flat.itemsize
        steps = (step for step in (2, 4) if step < size and not np.isnan(numbers[at + step]).all())
        step = next(steps, size)
        parts = [np.where(still, numbers[at + k], unknown()) for k in range(0, size, step)]
        return exact(raw, *parts)

    def store(self, flat: np.ndarray, index, raw: np.ndarray) -> None:
        numbers, stored = self._of(flat)
        parts, at = _parts(raw) or [unknown()], index * flat.itemsize
        numbers[at[..., None] + np.arange(flat.itemsize)] = unknown()
        for k, part in enumerate(parts):
            numbers[at + k * (flat.itemsize // len(parts))] = part
        stored[index] = _bits(np.ascontiguousarray(plain(raw), flat.dtype))


def _bits(a: np.ndarray) -> np.ndarray:
    return plain(a).view(f"u{a.itemsize}")


def decoded(dtype, raw: Exact) -> np.ndarray:
    """Memory's bits with their exact numbers as the carrier has them."""
    values = dtype.decode(plain(raw))
    if not dtype.is_float:
        return values if dtype.kind == "b" else beside(values, raw)
    return exact(values, _filled(values, raw.wide))


def _filled(values, numbers):
    """`numbers`, and where memory has had none the values themselves."""
    missing = np.isnan(numbers)
    if not missing.any():
        return numbers
    known = STATE.exact.encode(values, constants=False) if isinstance(STATE.exact, Symbolic) else values
    if not numbers.flags.writeable:
        return np.where(missing, known, numbers)
    np.copyto(numbers, known, where=missing)
    return numbers

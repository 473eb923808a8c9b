"""Numbers beside what rounding has made of them: a run in float64 along the run in the kernel's own types.

An `Exact` array holds what the kernel's types hold, and in `wide` the same numbers computed in float64 from the start. numpy's
functions work on both; branches, comparisons, addresses and bits are those of the rounded numbers, so that both take one path.
What numpy does not tell this class of gives a plain array: from there on the rounded numbers stand for the exact ones.

With `exact` a `Field` they are not floats but its elements.

Memory keeps the exact number of an element by its address (`Shadows`). It counts only as long as the bits stored with it lie there,
so whatever else writes the memory is safe.
"""

from __future__ import annotations

import numpy as np

from ..context import STATE
from .field import UNKNOWN, Field

# What moves numbers without changing them, beside numpy's universal functions.
MOVES = {
    np.where,
    np.broadcast_to,
    np.take,
    np.take_along_axis,
    np.moveaxis,
    np.repeat,
    np.stack,
    np.concatenate,
    np.clip,
}


class Exact(np.ndarray):
    """An array of rounded numbers, or of their bits, with the exact ones in `wide` (of the same shape) or None."""

    wide = None

    def __getitem__(self, key):
        found = super().__getitem__(key)
        if type(found) is Exact and self.wide is not None:
            found.wide = self.wide[key]
        return found

    def __setitem__(self, key, new):
        plain(self)[key] = plain(new)
        if self.wide is not None:
            of_bits = self.dtype.kind in "iu" and getattr(new, "wide", None) is None
            self.wide[key] = unknown() if of_bits else numbers_of(new)

    def __array_ufunc__(self, function, method, *inputs, out=None, **options):
        result = getattr(function, method)(*map(plain, inputs), **options)
        if out is not None or not _is_float(result):
            return _into(out, _of_bits(inputs, result))
        options.pop("dtype", None)
        numbers = map(wide, inputs)
        if isinstance(STATE.exact, Field):
            return exact(result, STATE.exact.apply(function, method, result, [*map(plain, inputs)], [*numbers], options))
        return exact(result, getattr(function, method)(*numbers, **options))

    def __array_function__(self, function, types, args, kwargs):
        if function in (np.copyto, np.put_along_axis):
            function(plain(args[0]), *_each(plain, args[1:]), **_each(plain, kwargs))
            if getattr(args[0], "wide", None) is not None:
                kwargs.pop("casting", None)
                function(args[0].wide, *_each(wide, args[1:]), **_each(wide, kwargs))
            return None
        result = function(*_each(plain, args), **_each(plain, kwargs))
        if function not in MOVES or not isinstance(result, np.ndarray):
            return _untaken(result)
        if isinstance(STATE.exact, Field) and function is np.where:
            return exact(result, np.where(plain(args[0]), *map(numbers_of, args[1:])))
        if isinstance(STATE.exact, Field) and function is np.clip:
            return np.minimum(np.maximum(args[0], args[1]), args[2])
        return exact(result, function(*_each(wide, args), **_each(wide, kwargs)))

    def reshape(self, *shape, **options):
        return self._both(lambda a: a.reshape(*shape, **options))

    def take(self, *where, **options):
        return self._both(lambda a: a.take(*where, **options))

    def copy(self, *rest):
        return self._both(lambda a: a.copy(*rest))

    def astype(self, dtype, copy=True, **options):
        """Floats of any type, or bits of any, stay the same numbers; an integer made of a float, or a float of one, is another."""
        result = plain(self).astype(dtype, copy=copy, **options)
        return exact(result, self.wide) if (result.dtype.kind == "f") == (self.dtype.kind == "f") else result

    def view(self, *kind):
        """The bits as a type of the same width keep the numbers; those of another width are bits alone."""
        result = plain(self).view(*kind)
        if self.wide is None:
            return result
        if result.shape != self.shape:
            stored = isinstance(STATE.exact, Field) and not np.isnan(self.wide).all()
            return exact(result, np.full(result.shape, UNKNOWN)) if stored else result
        return exact(result, _filled(result, self.wide) if result.dtype.kind == "f" else self.wide)

    def _both(self, move):
        return exact(move(plain(self)), None if self.wide is None else move(self.wide))


def numbers_of(x):
    """`wide`, of Python's numbers as well."""
    x = wide(x)
    return STATE.exact.encode(x) if isinstance(STATE.exact, Field) and np.asarray(x).dtype.kind != "c" else x


def unknown():
    """What stands in memory for a number that is not known."""
    return complex(np.nan, np.nan) if isinstance(STATE.exact, Field) else np.nan


def _untaken(result):
    """A result of what numpy does not tell of: the rounded numbers, and in a field no number."""
    taken = not isinstance(STATE.exact, Field) or not _is_float(result)
    return result if taken else exact(np.asarray(result), np.full(np.shape(result), UNKNOWN))


def _of_bits(inputs, result):
    """An integer computed of a float's bits; in a field, the float that has these bits is no number."""
    of_bits = [x.wide for x in inputs if isinstance(x, Exact) and x.wide is not None and x.dtype.kind in "iu"]
    if not isinstance(STATE.exact, Field) or not of_bits or np.asarray(result).dtype.kind not in "iu":
        return result
    stored = np.any(np.broadcast_arrays(*(~np.isnan(numbers) for numbers in of_bits)), axis=0)
    return exact(np.asarray(result), np.where(stored, UNKNOWN, unknown())) if stored.any() else result


def exact(rounded: np.ndarray, numbers) -> np.ndarray:
    """`rounded` with the numbers that it was rounded from; as it is where they are not known."""
    if numbers is None:
        return rounded
    result = np.asarray(rounded).view(Exact)
    result.wide = np.broadcast_to(numbers, result.shape) if np.shape(numbers) != result.shape else np.asarray(numbers)
    return result


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
    return STATE.exact.encode(x) if isinstance(STATE.exact, Field) else x.astype(np.float64)


def contiguous(x) -> np.ndarray:
    """numpy's ascontiguousarray, with the exact numbers."""
    return exact(np.ascontiguousarray(plain(x)), x.wide) if isinstance(x, Exact) else np.ascontiguousarray(x)


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
        return exact(raw, np.where(stored[index] == _bits(raw), numbers[index * flat.itemsize], unknown()))

    def store(self, flat: np.ndarray, index, raw: np.ndarray) -> None:
        numbers, stored = self._of(flat)
        numbers[index * flat.itemsize] = raw.wide if isinstance(raw, Exact) and raw.wide is not None else unknown()
        stored[index] = _bits(np.ascontiguousarray(plain(raw), flat.dtype))

    def move(self, source: np.ndarray, first: int, target: np.ndarray, to: int, count: int) -> None:
        """Elements of one array copied into another."""
        span = np.arange(count, dtype=np.int64)
        self.store(target, to + span, self.load(source, first + span, source[first : first + count]))


def _bits(a: np.ndarray) -> np.ndarray:
    return plain(a).view(f"u{a.itemsize}")


def decoded(dtype, raw: Exact) -> np.ndarray:
    """Memory's bits with their exact numbers as the carrier has them."""
    values = dtype.decode(plain(raw))
    if not dtype.is_float:
        return values if dtype.kind == "b" else exact(values, raw.wide)
    return exact(values, _filled(values, raw.wide))


def _filled(values, numbers):
    """`numbers`, and where memory has had none the values themselves."""
    missing = np.isnan(numbers)
    if not missing.any():
        return numbers
    known = STATE.exact.encode(values, constants=False) if isinstance(STATE.exact, Field) else values
    if not numbers.flags.writeable:
        return np.where(missing, known, numbers)
    np.copyto(numbers, known, where=missing)
    return numbers

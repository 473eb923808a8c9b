"""Numbers beside what rounding has made of them: a run in float64 along the run in the kernel's own types.

An `Exact` array holds what the kernel's types hold, and in `wide` the same numbers computed in float64 from the start. numpy's
functions work on both; branches, comparisons, addresses and bits are those of the rounded numbers, so that both take one path.
What numpy does not tell this class of gives a plain array: from there on the rounded numbers stand for the exact ones.

Memory keeps the exact number of an element by its address (`Shadows`). It counts only as long as the bits stored with it lie there,
so whatever else writes the memory is safe.
"""

from __future__ import annotations

import numpy as np

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
    """An array of rounded numbers, or of their bits, with the exact ones in `wide` (float64, of the same shape) or None."""

    wide = None

    def __getitem__(self, key):
        found = super().__getitem__(key)
        if type(found) is Exact and self.wide is not None:
            found.wide = self.wide[key]
        return found

    def __setitem__(self, key, new):
        plain(self)[key] = plain(new)
        if self.wide is not None:
            self.wide[key] = wide(new)

    def __array_ufunc__(self, function, method, *inputs, out=None, **options):
        result = getattr(function, method)(*map(plain, inputs), **options)
        if out is not None or not _is_float(result):
            return _into(out, result)
        options.pop("dtype", None)
        return exact(result, getattr(function, method)(*map(wide, inputs), **options))

    def __array_function__(self, function, types, args, kwargs):
        if function in (np.copyto, np.put_along_axis):
            function(plain(args[0]), *_each(plain, args[1:]), **_each(plain, kwargs))
            if getattr(args[0], "wide", None) is not None:
                kwargs.pop("casting", None)
                function(args[0].wide, *_each(wide, args[1:]), **_each(wide, kwargs))
            return None
        result = function(*_each(plain, args), **_each(plain, kwargs))
        if function not in MOVES or not isinstance(result, np.ndarray):
            return result
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
        return exact(result, self.wide) if result.shape == self.shape else result

    def _both(self, move):
        return exact(move(plain(self)), None if self.wide is None else move(self.wide))


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
        return x.wide
    x = plain(x)
    return x.astype(np.float64) if isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind == "f" else x


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
            self.held[at] = flat, np.full(flat.nbytes, np.nan), np.zeros(flat.nbytes, np.uint8)
        _, numbers, stored = self.held[at]
        return numbers, stored[: flat.nbytes].view(_bits(flat).dtype)

    def load(self, flat: np.ndarray, index: np.ndarray, raw: np.ndarray) -> np.ndarray:
        """`raw`, the elements at `index`, with their exact numbers; NaN where they are not known."""
        numbers, stored = self._of(flat)
        return exact(raw, np.where(stored[index] == _bits(raw), numbers[index * flat.itemsize], np.nan))

    def store(self, flat: np.ndarray, index, raw: np.ndarray) -> None:
        numbers, stored = self._of(flat)
        numbers[index * flat.itemsize] = raw.wide if isinstance(raw, Exact) and raw.wide is not None else np.nan
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
    return exact(values, np.where(np.isnan(raw.wide), values, raw.wide))

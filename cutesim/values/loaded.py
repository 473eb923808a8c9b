"""Numbers that a load has brought, and all that is computed of them: what waits for that load."""

from __future__ import annotations

import numpy as np


class Loaded(np.ndarray):
    """An array of such numbers, as long as numpy's functions hand it on; what is stored to shared memory is lost from sight."""

    def __array_ufunc__(self, function, method, *inputs, out=None, **options):
        options |= {} if out is None else {"out": tuple(map(_plain, out))}
        result = getattr(function, method)(*map(_plain, inputs), **options)
        return result if out is not None else loaded(result)

    def __array_function__(self, function, types, args, kwargs):
        return loaded(super().__array_function__(function, types, args, kwargs))


def loaded(x):
    """An array, or several, as a load's numbers; anything else is itself."""
    if isinstance(x, (tuple, list)):
        return type(x)(map(loaded, x))
    return x.view(Loaded) if isinstance(x, np.ndarray) else x


def _plain(x):
    return x.view(np.ndarray) if isinstance(x, Loaded) else x

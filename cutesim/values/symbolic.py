"""Numbers beside the rounded ones that are not floats: what `simulate(..., exact=...)` takes in place of True.

A kind keeps for each float a complex number that stands for it: the elements of two fields (`values.field`), or the place of an
expression in a table (`values.trees`). Which of two floats is larger, signs, infinities and integers are the rounded numbers'.
"""

from __future__ import annotations

import numpy as np

CHOOSE = (np.maximum, np.minimum, np.fmax, np.fmin)
WHOLE = (np.floor, np.ceil, np.rint, np.trunc)  # decisions, like comparisons


class Symbolic:
    """What a run keeps beside each float; `lost` stands where that cannot be said."""

    lost = complex(-1, -1)

    def encode(self, x, constants=True) -> np.ndarray:
        """What stands for floats: those of `constants` are written in the source, others come from memory."""
        raise NotImplementedError

    def call(self, function, result, inputs, pairs) -> np.ndarray:
        """What stands for the `result` of a universal function on `inputs`, for which `pairs` stand."""
        raise NotImplementedError

    def apply(self, function, method: str, result, inputs, pairs, options) -> np.ndarray:
        """The same for any of numpy's methods; a sum over an axis is added from its first element to its last."""
        pairs = [pair if pair.dtype.kind == "c" else self.encode(pair) for pair in map(np.asarray, pairs)]
        axis = options.get("axis", 0)
        if method == "reduce" and isinstance(axis, int) and options.keys() <= {"axis", "keepdims"}:
            numbers, pairs = np.moveaxis(inputs[0], axis, 0), np.moveaxis(pairs[0], axis, 0)
            total, sum_ = pairs[0], numbers[0]
            for number, pair in zip(numbers[1:], pairs[1:]):
                sum_, before = function(sum_, number), sum_
                total = self.apply(function, "__call__", sum_, (before, number), (total, pair), {})
            return np.expand_dims(total, axis) if options.get("keepdims") else total
        if method != "__call__":
            return np.full(np.shape(result), self.lost)
        if function in CHOOSE:
            return np.where((result == inputs[0]) | np.isnan(result), *pairs)
        return self.encode(result) if function in WHOLE else self.call(function, result, inputs, pairs)

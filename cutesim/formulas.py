"""`same_formula`: whether two kernels compute the same formula, or only numbers that are close today.

Both run on the same arguments, and beside their floats in two finite fields, where nothing is rounded (`values.field`). An element
that differs there differs by its formula: a term, a sign, a factor, however small it is in floats. Elements that agree there differ
in their bits by rounding alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cutesim.context import here
from cutesim.sums import Answer, results
from cutesim.values.field import FIELDS, Field, same
from cutesim.values.symbolic import Symbolic


@dataclass(frozen=True)
class Comparison(Answer):
    """What became of two kernels on the same arguments."""

    ulps: int = 0  # the largest distance of their results, in units of the last place


class Watched(Symbolic):
    """A field, and in `lost_in` the first function that had numbers in it and gave none, with its place."""

    def __init__(self, field: Field):
        self.encode, self.field, self.lost_in = field.encode, field, ""

    def call(self, function, result, inputs, pairs) -> np.ndarray:
        found = self.field.call(function, result, inputs, pairs)
        if not self.lost_in:
            known = np.all(np.broadcast_arrays(*(pair != self.lost for pair in pairs)), axis=0)
            if (known & (found == self.lost)).any():
                self.lost_in = f"{function.__name__} in {here().where}"
        return found


def same_formula(one, other, *args, **options) -> Comparison:
    """Compare what two kernels leave in the float tensors of `args` (arrays, CPU tensors, numbers), which stay as they are.

    Half of the elements of a field have no square root, so where a kernel takes one, what is unknown in one pair of fields is
    looked at in the next. `options` are `simulate`'s. ValueError where a run has a finding.
    """
    left: dict = {}
    for among in map(Watched, FIELDS):
        (first, floats), (second, others) = (results(kernel, args, among, options) for kernel in (one, other))
        ulps = max((_ulps(floats[name], others[name]) for name in first), default=0)
        for name in first:
            differ, untaken = same(first[name], second[name])
            left[name] = left.get(name, True) & untaken
            if differ.any():
                at = tuple(int(i[0]) for i in np.nonzero(differ))
                place = f"{name}[{', '.join(map(str, at))}]"
                apart = _ulps(floats[name][at], others[name][at])
                count = f"{differ.sum():,} of {differ.size:,} elements"
                said = f"{place} is the first of {count} that differ without rounding; its floats are {apart} ulp apart"
                return Comparison(False, f"not the same formula: {said}", ulps)
        if not any(untaken.any() for untaken in left.values()):
            rest = f"; they differ by rounding, at most {ulps} ulp" if ulps else ", and the same bits"
            return Comparison(True, f"the same formula{rest}", ulps)
    name, untaken = next((name, untaken) for name, untaken in left.items() if untaken.any())
    count = f"{untaken.sum():,} of {untaken.size:,} elements of {name}"
    why = f"; the first function without a result there is {among.lost_in}" if among.lost_in else ""
    return Comparison(None, f"cannot be said: {count} are known in no field{why}", ulps)


def _ulps(a: np.ndarray, b: np.ndarray) -> int:
    """The largest distance in units of the last place of the numbers' type; NaN is next to nothing but NaN."""
    steps = [_ordered(np.asarray(x)) for x in (a, b)]
    return int(np.abs(steps[0] - steps[1]).max(initial=0))


def _ordered(x: np.ndarray) -> np.ndarray:
    """Whole numbers in the order of the floats, one apart where these are neighbours."""
    bits = x.view(f"i{x.itemsize}").astype(np.int64)
    return np.where(bits < 0, np.iinfo(f"i{x.itemsize}").min - bits, bits)

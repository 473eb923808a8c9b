"""How each number of a run was made: a table of expressions, in which each stands once.

A leaf is a number by its bits, whatever memory it came from, so that a row has the same leaves wherever it lies. Two results that
have one place in the table were made of the same bits by the same operations in the same order: they are the same bits themselves,
unless the kernels round at different places in between. What a run cannot follow, as a trick with bits, is a leaf again.
"""

from __future__ import annotations

import numpy as np

from .symbolic import Symbolic

COMMUTE = frozenset(("add", "multiply"))
NEUTRAL = {"add": 0, "subtract": 0, "multiply": 1, "divide": 1}
MOST = 1 << 31  # places, so that two of them are a number of 64 bits


class Trees(Symbolic):
    """The table. `nodes[k]` is a number, or (operation, places of what it was done to)."""

    lost = complex(np.nan, np.nan)

    def __init__(self):
        self.nodes: list = []
        self.places: dict = {}
        self.constants: set = set()  # leaves that the source writes

    def encode(self, x, constants=True) -> np.ndarray:
        x = np.ascontiguousarray(x, np.float64)
        bits, back = np.unique(x.reshape(-1).view(np.int64), return_inverse=True)
        known = len(self.nodes)
        numbers = zip(bits.tolist(), bits.view(np.float64).tolist())
        found = [self._place(("", each), number) for each, number in numbers]
        if constants and len(found) == 1:
            self.constants.update(place for place in found if place >= known)
        return np.array(found, np.complex128)[back].reshape(x.shape)

    def _place(self, key, node) -> int:
        place = self.places.get(key)
        if place is None:
            place = self.places[key] = len(self.nodes)
            self.nodes.append(node)
        return place

    def call(self, function, result, inputs, pairs) -> np.ndarray:
        """Adding 0 and multiplying or dividing by 1 are no operations: they leave the bits as they are."""
        name, shape = function.__name__, np.shape(result)
        if len(pairs) > 2:
            return self.encode(result)
        at = [np.broadcast_to(pair, shape).real.astype(np.int64) for pair in pairs]
        neutral = NEUTRAL.get(name)
        if neutral is None:
            return self._made(name, *at)
        first, second = (np.broadcast_to(x, shape) == neutral for x in inputs)
        if name in COMMUTE:
            made = self._made(name, np.minimum(*at), np.maximum(*at), ~(first | second))
            return np.where(second, at[0], np.where(first, at[1], made))
        return np.where(second, at[0], self._made(name, *at, ~second))

    def _made(self, name: str, one, other=None, where=True) -> np.ndarray:
        """The places of `name` of each of `one` (and `other`), in an array for complex numbers; nothing is made but `where`."""
        both = one if other is None else one * MOST + other
        each, back = np.unique(np.where(where, both, -1).reshape(-1), return_inverse=True)
        found = []
        for key in each.tolist():
            args = (key,) if other is None else divmod(key, MOST)
            found.append(-1 if key < 0 else self._place((name, *args), (name, *args)))
        return np.array(found, np.complex128)[back].reshape(np.shape(both))

"""The random numbers that torch draws on the CPU."""

import math

import numpy as np

from .types import Device


class Generator:
    """Torch's generator of random numbers on the CPU: the Mersenne Twister."""

    def __init__(self, device="cpu"):
        Device(device)
        self.manual_seed(67280421310721)  # where torch starts that nobody seeded

    def manual_seed(self, seed):
        self.seed = seed
        # made for the first number: loading numpy.random takes a while in a page
        self._words = None
        self._second = None  # of a pair of normal numbers
        return self

    def initial_seed(self):
        return self.seed

    def words(self, count):
        """That many whole numbers of 32 bits."""
        if self._words is None:
            self._words = np.random.RandomState(self.seed & 0xFFFFFFFF)._bit_generator
        return self._words.random_raw(count).astype(np.uint64)

    def uniform(self, count):
        """float32 in [0, 1), of 24 random bits each."""
        return ((self.words(count) & 0xFFFFFF).astype(np.float32) * np.float32(2**-24)).astype(np.float32)

    def normal(self, count):
        """float32 from the standard normal distribution; fewer than 16 are drawn another way than more."""
        if count < 16:
            return np.array([self._one_normal() for _ in range(count)], np.float32)
        u = self.uniform(count)
        whole = count // 16 * 16
        result = u.copy()
        result[:whole] = _box_muller(u[:whole])
        if count % 16:  # the last 16 are drawn anew
            result[-16:] = _box_muller(self.uniform(16))
        return result

    def _one_normal(self):
        if self._second is not None:
            value, self._second = self._second, None
            return value
        u1, u2 = (((a << 32 | b) & (1 << 53) - 1) * 2.0**-53 for a, b in self.words(4).reshape(2, 2).tolist())
        radius, angle = math.sqrt(-2.0 * math.log1p(-u2)), 2.0 * math.pi * u1
        self._second = radius * math.sin(angle)
        return radius * math.cos(angle)


def _box_muller(u):
    """Normal numbers from uniform ones: in each 16, number j and number j + 8 make a pair."""
    u1, u2 = (np.float32(1) - u.reshape(-1, 2, 8)[:, 0]), u.reshape(-1, 2, 8)[:, 1]
    radius = np.sqrt(np.float32(-2) * _exactly(np.log, u1))
    angle = np.float32(2 * math.pi) * u2
    return np.stack([radius * _exactly(np.cos, angle), radius * _exactly(np.sin, angle)], axis=1).reshape(-1)


def _exactly(function, x):
    """A function of float32 numbers, rounded once: the same on every processor."""
    return function(x.astype(np.float64)).astype(np.float32)

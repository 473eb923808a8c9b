"""What repeated times say: medians, spread, and how much faster one provider is than another.

Providers take turns, so sample i of one and sample i of another were taken within milliseconds of each other. Their
ratio is free of what drifts slowly (clocks, temperature); the median over i is the ratio reported, and a bootstrap
over i says how sure it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

PASS_RATIO = 0.995  # ours over the best peer, in speed
PASS_HALF_WIDTH = 0.01
RESAMPLES = 4000


def median(samples) -> float:
    """The median, in the unit of `samples`."""
    return float(np.median(np.asarray(samples, dtype=np.float64)))


def interquartile_range(samples) -> float:
    """The 75th minus the 25th percentile, in the unit of `samples`."""
    low, high = np.percentile(np.asarray(samples, dtype=np.float64), [25, 75])
    return float(high - low)


@dataclass(frozen=True)
class Ratio:
    """A speed ratio (above 1: faster), and half the width of its 95 % confidence interval."""

    median: float
    half_width: float


def paired_ratio(times, other_times, seed: int = 0) -> Ratio:
    """How many times faster `times` are than `other_times`, sample by sample; the same seed gives the same answer.

    Both are times of the same rounds, in any one unit. ValueError if they are not equally many, or fewer than 3.
    """
    times = np.asarray(times, dtype=np.float64)
    other_times = np.asarray(other_times, dtype=np.float64)
    if times.shape != other_times.shape or times.ndim != 1 or times.size < 3:
        raise ValueError(f"paired_ratio needs equally many samples, 3 or more: got {times.size} and {other_times.size}")
    ratios = other_times / times
    drawn = np.random.default_rng(seed).integers(0, ratios.size, size=(RESAMPLES, ratios.size))
    low, high = np.percentile(np.median(ratios[drawn], axis=1), [2.5, 97.5])
    return Ratio(float(np.median(ratios)), float(high - low) / 2)


def is_sure(ratio: Ratio) -> bool:
    """Whether the confidence interval is narrow enough for a verdict."""
    return ratio.half_width <= PASS_HALF_WIDTH


def verdict(ratio: Ratio) -> str:
    """ "pass", "slower", or "unsure" when the confidence interval is too wide to say."""
    if not is_sure(ratio):
        return "unsure"
    return "pass" if ratio.median >= PASS_RATIO else "slower"

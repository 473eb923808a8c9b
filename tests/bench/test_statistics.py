"""Medians, spread and paired ratios against answers worked out by hand or from how the samples were made."""

import numpy as np
import pytest

from quack_tutorial.records.statistics import Ratio, interquartile_range, median, paired_ratio, verdict


def test_median_spread_and_speed_ratio_by_hand():
    assert median([4, 1, 3, 2]) == 2.5 and interquartile_range([1, 2, 3, 4, 5]) == 2  # 4 - 2
    # ours takes 10, the other 12: 1.2 times as fast
    assert paired_ratio([10.0] * 7, [12.0] * 7) == Ratio(1.2, 0.0)


def test_drift_that_both_share_cancels():
    drift = np.linspace(1.0, 2.0, 11)  # clocks halve during the run
    ratio = paired_ratio(100 * drift, 101 * drift)
    assert ratio.median == pytest.approx(1.01)
    assert ratio.half_width == pytest.approx(0, abs=1e-12)


def test_noise_widens_the_interval():
    rng = np.random.default_rng(1)
    times = 100 + rng.normal(0, 0.1, (2, 21))
    quiet = paired_ratio(*times)
    assert quiet == paired_ratio(*times)  # whatever is drawn for the interval
    loud = paired_ratio(100 + rng.normal(0, 5, 21), 100 + rng.normal(0, 5, 21))
    assert quiet.half_width < 0.002 < 0.01 < loud.half_width


@pytest.mark.parametrize("others", [[1.0, 2.0], [1.0, 2.0, 3.0, 4.0]])
def test_samples_that_are_not_paired_are_refused(others):
    with pytest.raises(ValueError, match="equally many samples"):
        paired_ratio([1.0, 2.0, 3.0], others)


RATIOS = [(Ratio(0.995, 0.01), "pass"), (Ratio(1.2, 0.0), "pass")]
RATIOS += [(Ratio(0.9949, 0.001), "slower"), (Ratio(1.2, 0.0101), "unsure")]


@pytest.mark.parametrize("ratio, expected", RATIOS)
def test_verdicts_at_their_limits(ratio, expected):
    assert verdict(ratio) == expected

"""LayerNorm as it ships: hard rows on the simulator; `validation rows` tries its spreads."""

import numpy as np

from cutesim.simulation import simulate
from quack_tutorial import reference
from quack_tutorial.kernels.tuned.norm import LayerNorm
from tests.kernels.test_simulated import DslType

EPS = 1e-5


def test_a_row_with_nan_or_infinity_is_nan_and_no_other():
    x = np.random.default_rng(3).standard_normal((4, 100)).astype(np.float32)
    x[1, 7], x[2, 99] = np.nan, np.inf
    out = np.zeros_like(x)
    assert simulate(LayerNorm(DslType("float32"), 100), x, None, None, out, None, None, EPS).ok
    assert np.isnan(out[[1, 2]]).all()
    assert reference.layernorm_error(x[[0, 3]], out[[0, 3]], "float32", eps=EPS) <= 1


def test_a_mean_far_from_0_costs_no_more_than_it_must():
    x = (np.random.default_rng(4).standard_normal((3, 1000)) + 1e4).astype(np.float32)
    out = np.zeros_like(x)
    assert simulate(LayerNorm(DslType("float32"), 1000), x, None, None, out, None, None, EPS).ok
    assert reference.layernorm_error(x, out, "float32", eps=EPS) <= 1

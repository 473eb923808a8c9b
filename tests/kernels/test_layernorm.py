"""LayerNorm as it ships: hard rows on the simulator, and where its sizes come from; `validation rows` tries its spreads."""

import numpy as np

from cutesim.simulation import simulate
from quack_tutorial import card, reference
from quack_tutorial.kernels.tuned.choice import default_config
from quack_tutorial.kernels.tuned.layernorm import LayerNorm
from quack_tutorial.kernels.tuned.layernorm_backward import layernorm_backward
from quack_tutorial.kernels.tuned.tables import FIRST, TABLES
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


def test_where_it_is_not_swept_it_takes_the_spreads_of_rmsnorm(monkeypatch):
    monkeypatch.setenv(card.VARIABLE, FIRST)  # whose sweeps are `TABLES`
    for N in (256, 131072):
        assert default_config("layernorm", 16, N) == default_config("rmsnorm", 16, N)
    # But for long rows that wait in registers, of which db takes as many again: they stay in shared memory, as many as fit there.
    monkeypatch.delitem(TABLES, ("layernorm backward", 32, "aligned"))
    assert default_config("rmsnorm backward", 32, 16384).row_ahead == 1
    assert layernorm_backward(DslType("float32"), 16384).config.stages == 3
    assert layernorm_backward(DslType("float32"), 262144).config.stages == 1


def test_what_was_swept_at_few_sizes_is_taken_near_them(monkeypatch):
    monkeypatch.setenv(card.VARIABLE, FIRST)  # whose sweeps are `TABLES`
    of_sweep = tuple((limit, dict(threads_per_row=n, threads_per_block=n)) for limit, n in ((8192, 96), (32768, 320)))
    monkeypatch.setitem(TABLES, ("layernorm", 16, "aligned"), of_sweep)
    assert default_config("layernorm", 16, 4096).threads_per_row == 96
    assert default_config("layernorm", 16, 2048).threads_per_row == 96
    for N in (1024, 65536):
        assert default_config("layernorm", 16, N) == default_config("rmsnorm", 16, N)
    assert default_config("layernorm", 16, 16384).threads_per_row == 320
    assert default_config("layernorm", 16, 4097, "congruent") == default_config("rmsnorm", 16, 4097, "congruent")

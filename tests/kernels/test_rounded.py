"""A run in float64 beside the kernel's own: whether a wrong number is a wrong formula's, or a right one's rounding."""

import numpy as np
import pytest
from dsl import rounded as k

from cutesim import Array
from cutesim.analysis import rounding
from cutesim.dialect.names import CUTLASS
from cutesim.files import checked_against
from cutesim.simulation import simulate
from quack_tutorial import reference
from quack_tutorial.kernels.tuned.softmax import Softmax

X = np.random.default_rng(0).standard_normal(32).astype(np.float32) + np.float32(1000)


def variance(x):
    return {"out": np.array([x.var()])}


@pytest.mark.parametrize(
    "two_pass, divisor, cause",
    [
        (True, 32.0, ""),
        (False, 32.0, "the formula is right, and rounding on the way loses the rest"),
        (True, 31.0, "the formula is wrong, not the precision"),
    ],
)
def test_a_wrong_formula_is_told_from_rounding(two_pass, divisor, cause):
    kernel = k.variance(two_pass, divisor)
    run, wrong = checked_against(simulate, variance, kernel, (X, np.zeros(1, np.float32)), {})
    assert run.ok and len(wrong) == bool(cause)
    assert not cause or cause in wrong[0] and "In float64 the same steps give" in wrong[0]
    np.testing.assert_allclose(run.exact["out"], X.astype(np.float64).var() * 32 / divisor, rtol=1e-9)


def test_a_number_that_leaves_its_type_is_told():
    x, out = np.linspace(0, 100, 32, dtype=np.float32), np.zeros(32, np.float32)

    def softmax(x):
        return {"out": np.exp(x) / np.exp(x).sum()}

    _, (said,) = checked_against(simulate, softmax, k.plain_softmax, (x, out), {})
    assert said.endswith("the formula is right, and a number on the way does not fit its type")


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("how", ["", "bf16", "registers", "shared", "bits", "atomic"])
def test_an_exact_number_survives_every_way_through_memory(how, check):
    x, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    run = simulate(k.way(how), x, out, exact=True, check=check)
    np.testing.assert_allclose(run.exact["out"], x.astype(np.float64) / 3, rtol=1e-15)
    assert np.abs(out - run.exact["out"]).max() > 1e-8  # and the kernel's own is the rounded one
    assert simulate(k.way(how), x, out, check=check).exact is None


def test_what_is_cut_off_to_a_whole_number_stays_one():
    x, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    run = simulate(k.way("whole"), x, out, exact=True)
    np.testing.assert_array_equal(run.exact["out"], np.arange(32) // 3)


@pytest.mark.parametrize("N", [1000, 16384])
def test_what_ships_is_exact_to_the_last_bits_of_float64(N):
    """Rows in bf16, copied by cp.async, exchanged in shared memory and, of 16,384 columns, between the blocks of a cluster."""
    x = Array.bf16(np.random.default_rng(0).standard_normal((2, N)) * 4)
    out = Array.bf16(np.zeros((2, N)))
    run = simulate(Softmax(CUTLASS.BFloat16, N, promise="aligned"), x, out, exact=True, check=False)
    wanted = reference.softmax(x.numpy().astype(np.float64))
    np.testing.assert_allclose(run.exact["mO"], wanted, rtol=1e-13)
    distance = np.abs(out.numpy() / wanted - 1).max()
    assert 1e-4 < distance < 2**-7  # the first run's results stay


@pytest.mark.parametrize(
    "got, exact, wanted, kind",
    [
        (1.1, 1.1, 1.0, "formula"),
        (1.1, 1.000001, 1.0, "rounding"),
        (1.1, 1.03, 1.0, "both"),
        (1.125, 1.01374, 1.01771, "both"),  # a variance over N - 1 was wanted
        (1e-3, 1e-12, 0.0, "rounding"),
        (np.inf, 1.0, 1.0, "range"),
        (np.nan, np.nan, 1.0, "formula"),
        (np.inf, 2.0, 1.0, "formula"),
        (1.0, 1.0, np.nan, "formula"),
    ],
)
def test_causes(got, exact, wanted, kind):
    assert rounding.cause(got, exact, wanted) == kind

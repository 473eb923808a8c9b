"""The real compiler takes and refuses the same kernels: what the simulator says of the language is checked against it.

Compiling needs no GPU. Left out where the DSL is not installed (it exists for Linux alone).
"""

import numpy as np
import pytest

from tests.simulator.dsl import language as k

pytest.importorskip("cutlass", reason="the CuTe DSL is not installed; it exists for Linux alone")

ACCEPTED = (
    "clamp_at_ten four_ways sum_below_lane lazy_choice guard_by_and "
    "with_helper prints two_kernels with_plain_loop from_below"
).split()
INTEGER = "floor_divide remainder".split()
REFUSED = (
    "type_changes list_by_dynamic_index early_return gone_after_if breaks stores_wide misaligned "
    "with_plain_if with_plain_constexpr"
).split()
# The compiler cannot see these; the simulator must.
ONLY_WHEN_RUN = (
    "barrier_in_half_a_warp barrier_in_half_a_block shuffle_in_half_a_warp too_many_threads too_much_shared_memory endless "
    "past_the_end"
).split()


def compiled(host, dtype=np.float32):
    torch = pytest.importorskip("torch", reason="compiling takes torch tensors")
    from quack_tutorial.compiler import ptx

    tensors = [torch.from_numpy(np.zeros(128, dtype)) for _ in range(2)]
    return ptx(host, *tensors)


@pytest.mark.parametrize("name", ACCEPTED + ONLY_WHEN_RUN)
def test_the_compiler_takes_it(name):
    assert ".entry" in compiled(getattr(k, name))


@pytest.mark.parametrize("name", INTEGER)
def test_the_compiler_takes_integers(name):
    assert ".entry" in compiled(getattr(k, name), np.int32)


@pytest.mark.parametrize("name", REFUSED)
def test_the_compiler_refuses_it(name):
    with pytest.raises(Exception) as raised:  # the DSL has several error classes, none of them documented
        compiled(getattr(k, name))
    assert not isinstance(raised.value, (AssertionError, ImportError))


def test_classes_and_closures_compile():
    assert ".entry" in compiled(k.Scaler(3.0))
    assert ".entry" in compiled(k.closure_over(5.0))

"""The real compiler takes and refuses the same kernels: what the simulator says of the language is checked against it.

Compiling needs no GPU. Left out where the DSL is not installed (it exists for Linux alone).
"""

import numpy as np
import pytest
from dsl import acceptance, bounds
from dsl import language as k
from real_compiler import compiler, refused

pytest.importorskip("cutlass", reason="the CuTe DSL is not installed; it exists for Linux alone")

ACCEPTED = (
    "clamp_at_ten four_ways sum_below_lane lazy_choice guard_by_and "
    "with_helper prints two_kernels with_plain_loop from_below throws_away"
).split()
REFUSED = (
    "type_changes list_by_dynamic_index early_return gone_after_if breaks stores_wide misaligned "
    "with_plain_if with_plain_constexpr"
).split()
# The compiler cannot see these; the simulator must.
ONLY_WHEN_RUN = (
    "barrier_in_half_a_warp barrier_in_half_a_block shuffle_in_half_a_warp too_many_threads too_much_shared_memory endless forever "
    "past_the_end"
).split()


def compiled(host, dtype=np.float32):
    return compiler()[0](host, *np.zeros((2, 128), dtype))


@pytest.mark.parametrize("name", ACCEPTED + ONLY_WHEN_RUN)
def test_the_compiler_takes_it(name):
    assert ".entry" in compiled(getattr(k, name))


@pytest.mark.parametrize("kernel", [k.floor_divide, k.remainder], ids=["floor_divide", "remainder"])
def test_the_compiler_takes_integers(kernel):
    assert ".entry" in compiled(kernel, np.int32)


@pytest.mark.parametrize("name", REFUSED)
def test_the_compiler_refuses_it(name):
    with refused():
        compiled(getattr(k, name))


def test_classes_and_closures_compile():
    assert ".entry" in compiled(k.Scaler(3.0))
    assert ".entry" in compiled(k.closure_over(5.0))


@pytest.mark.parametrize("name", acceptance.ACCEPTED)
def test_the_compiler_takes_what_the_simulator_runs(name):
    assert ".entry" in compiled(getattr(acceptance, name))


@pytest.mark.parametrize("name", [*acceptance.REFUSED, "list_through_helper"])
def test_the_compiler_refuses_what_the_simulator_does(name):
    with refused():
        compiled(getattr(acceptance, name))


@pytest.mark.parametrize("number", acceptance.STORED)
def test_the_compiler_stores_the_same_numbers(number):
    stored = []
    for dtype in acceptance.TYPES:
        try:
            compiled(acceptance.storing(number, dtype))
        except ValueError as error:
            assert "mismatch" in str(error)
        else:
            stored.append(dtype)
    assert set(stored) == set(acceptance.STORED[number].split())


def test_other_arguments_compile():
    ptx, torch = compiler()
    x, out = torch.zeros(64), torch.zeros(512)
    assert ".entry" in ptx(acceptance.cluster16, x, out, 5)
    assert ".entry" in ptx(acceptance.optional, x, x, None)
    assert ".entry" in ptx(acceptance.optional, x, x, x)
    assert ".entry" in ptx(acceptance.int64_index, x.long(), x.long())


@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize(
    "name", "element element_of_slice in_a_loop tiled tiled_from_an_offset asynchronous atomically".split()
)
def test_overrun_rows_compile(name, guarded):
    ptx, torch = compiler()
    x = torch.zeros(4, 60)
    assert ".entry" in ptx(getattr(bounds, name), x, x.clone(), guarded)

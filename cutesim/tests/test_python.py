"""Python's own objects in kernels, and its operators on the DSL's numbers.

What is wanted is what CuTe DSL 4.8.1 compiles the kernels to: the constants that the PTX of some stores, read once more by a test
where the DSL is installed; of `chosen` the selections that its PTX has, of `decorators` its additions, worked out by hand. What has
no twin is refused: test_reports has how.
"""

import functools
import re

import numpy as np
import pytest
from dsl import python as k
from real_compiler import compiled, refused
from running import gives

from cutesim import NotSimulated
from cutesim.dialect.functions import decorator
from cutesim.language.loading import dsl_installed
from cutesim.language.proxies import undecorated
from cutesim.simulation import simulate

T = np.arange(32)
A = np.resize(np.array([0, 5, 12, 0], np.int32), 32)
B = np.resize(np.array([6, 7, 0, 0], np.int32), 32)
F = np.resize(np.array([0, 5, -6.5, 7.5], np.float32), 32)
STORED = {name: ((A, B, F) if name == "constants" else (), eval(wanted)) for name, wanted in k.WANTED.items()}
CHOSEN = np.array(
    """6 5 12 0    0 7 0 0    7 5 12 7    0 9 0 0    9 7 9 9    0 5 12 7.5    2.5 5 -6.5 7.5    0 7 0 0
       7 7 7 7    0 5 12 0   0 1 0 0     0 0 0 1    0 1 1 0    9 5 12 9     0 5 4 0          1 1 1 1""".split(),
    np.float32,
)
each = pytest.mark.parametrize("name", STORED)


@each
def test_what_is_known_while_tracing_is_what_the_compiler_stores(name):
    given, wanted = STORED[name]
    gives(getattr(k, name), *given, wanted=wanted, dtype=np.int32)


@each
def test_the_compiler_stores_these(name):
    given, wanted = STORED[name]
    text = compiled(getattr(k, name), *(x.copy() for x in given), np.zeros(len(wanted), np.int32))
    found = {}
    for at, numbers in re.findall(r"st\.global\S*\s+\[%rd\d+(?:\+(\d+))?\], (.*);", text):
        for i, number in enumerate(re.findall(r"-?\d+", numbers)):
            found[int(at or 0) // 4 + i] = int(number)
    assert [found[i] for i in range(len(wanted))] == wanted


def test_decorators_run():
    wanted = [T + 1, np.where(T > 3, T // 2, T) + 1, T * 2 + 101]
    wanted += [T + 100, T + 101, np.where(T > 3, T * 10, T)]
    gives(k.decorators, wanted=[*wanted, np.where(T > 2, T * 2, T) + 1], dtype=np.int32)


def test_functools_wraps_round_the_simulators_own_decorator():
    def inner():
        pass

    decorated = functools.wraps(k.fresh)(decorator("jit")(inner))
    assert decorated.__wrapped__ is k.fresh and undecorated(decorated) is inner


def test_a_counter_that_moves_on_is_no_unwritten_memory():
    out = np.zeros(1, np.int32)
    run = simulate(k.counts, out)
    assert run.ok and "changes each time that the kernel is traced" in run.observations[0]
    first = out[0] // 100
    assert out[0] == first * 100 + first + 1


def test_a_librarys_object_that_holds_one_of_the_dsls_own_is_refused_by_name():
    if not dsl_installed():
        pytest.skip("CuTe DSL is not installed: there are no objects of its own, and the simulator's need no mapping")
    said = "not simulated: an itemgetter that holds something of the kernel's"
    with pytest.raises(NotSimulated, match=said):
        simulate(k.holder, np.zeros(1, np.int32))


def test_and_and_or_choose_an_operand_lane_by_lane():
    gives(k.chosen, A, B, F, wanted=np.tile(CHOSEN.reshape(16, 4), 8), dtype=np.float32)


# -1.25 * 0.3 * 0.3 + 0.1, rounded at each step, once, and before 0.1 is added
APART, AT_ONCE, BEFORE = np.array([0xBC4CCCD0, 0xBC4CCCCD, 0xBC4CCCC8], np.uint32).view(np.float32)


def test_numbers_of_the_source_are_rounded_where_the_compiler_rounds_them():
    gives(k.rounded, wanted=[APART, APART, AT_ONCE, BEFORE, APART, BEFORE], dtype=np.float32)


def test_a_number_of_the_source_is_one_of_run_time_in_the_arms_that_change_its_variable():
    # -1 is C's remainder, where Python's is 2
    gives(k.carried, A, B, F, wanted=[APART, AT_ONCE, -1, -1, APART, AT_ONCE, 2], dtype=np.float32)


def test_the_compiler_has_it_so_too():
    arguments = A.copy(), B.copy(), F.copy()
    text = compiled(k.carried, *arguments, np.zeros(7, np.float32))
    assert "{0fBC4CCCD0, 0fBC4CCCCD, 0fBF800000, 0fBF800000}" in text  # out[0] to out[3]
    rounded = "{0fBC4CCCD0, 0fBC4CCCD0, 0fBC4CCCCD, 0fBC4CCCC8}"
    assert rounded in compiled(k.rounded, np.zeros(6, np.float32))
    assert compiled(k.chosen, *arguments, np.zeros((16, 32), np.float32)).count("selp") > 10
    assert ".entry" in compiled(k.decorators, np.zeros((7, 32), np.int32))


@pytest.mark.parametrize("name", k.REFUSED)
def test_the_compiler_refuses_it_too(name):
    with refused():
        compiled(getattr(k, name), A.copy(), B.copy(), F.copy(), np.zeros(1, np.int32))

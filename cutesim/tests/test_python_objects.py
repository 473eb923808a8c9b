"""Python's own objects in kernels: containers, enums, decorators and classes of the DSL's objects and of the reader's.

What is wanted is what CuTe DSL 4.8.1 compiles the kernels to: the constants that the PTX of `containers` and `classes` stores, read
once more by a test where the DSL is installed; of `decorators` what its additions come to, worked out by hand.
"""

import functools
import re

import numpy as np
import pytest
from dsl import python_objects as k
from real_compiler import compiled

from cutesim import NotSimulated
from cutesim.dialect.functions import decorator
from cutesim.language.loading import dsl_installed
from cutesim.language.proxies import undecorated
from cutesim.simulation import simulate

STORED = {
    k.containers: [44, 44, 573, 3, 5, 6, 3, 8, 0, 1, 1, 8, 3, 41, 3, 70, 1, 1, 7],
    k.classes: [9, 21, 411, 33, 4, 4, 105, 51, 111, 101, 12, 8, 9, 13, 1, 10, 26, 4, 17],
}
each = pytest.mark.parametrize("kernel", STORED, ids=lambda kernel: kernel.__name__)


@each
@pytest.mark.parametrize("check", [True, False])
def test_objects_are_as_the_compiler_sees_them(kernel, check):
    out = np.full(len(STORED[kernel]), -99, np.int32)
    assert simulate(k.host, kernel, out, check=check).ok
    assert out.tolist() == STORED[kernel]


@each
def test_the_compiler_stores_these(kernel):
    text = compiled(k.host, kernel, np.zeros(len(STORED[kernel]), np.int32))
    found = {}
    for at, numbers in re.findall(r"st\.global\S*\s+\[%rd\d+(?:\+(\d+))?\], (.*);", text):
        for i, number in enumerate(re.findall(r"-?\d+", numbers)):
            found[int(at or 0) // 4 + i] = int(number)
    assert [found[i] for i in range(len(STORED[kernel]))] == STORED[kernel]


def test_decorators_run():
    out = np.full((7, 32), -99, np.int32)
    t = np.arange(32)
    assert simulate(k.host, k.decorators, out).ok
    wanted = [t + 1, np.where(t > 3, t // 2, t) + 1, t * 2 + 101, t + 100, t + 101, np.where(t > 3, t * 10, t)]
    wanted.append(np.where(t > 2, t * 2, t) + 1)
    np.testing.assert_array_equal(out, wanted)


def test_functools_wraps_round_the_simulators_own_decorator():
    def inner():
        pass

    decorated = functools.wraps(k.fresh)(decorator("jit")(inner))
    assert decorated.__wrapped__ is k.fresh and undecorated(decorated) is inner


def test_the_compiler_takes_decorators():
    assert ".entry" in compiled(k.host, k.decorators, np.zeros((7, 32), np.int32))


def test_a_counter_that_moves_on_is_no_unwritten_memory():
    out = np.zeros(1, np.int32)
    run = simulate(k.host, k.counts, out)
    assert run.ok and "changes each time that the kernel is traced" in run.observations[0]
    first = out[0] // 100
    assert out[0] == first * 100 + first + 1


REFUSED = {
    k.decorator_between: "a decorator between the DSL's own and between",
    k.of_dict: r"OfDict \(derived from Python's dict\).get",
    k.iterator: r"an iterator that is made before the kernel runs \(list_iterator\)",
    k.own_setattr: "Watching.__setattr__",
    k.descriptor: "Described.d, a Descriptor,",
    k.metaclass: "Made, whose metaclass makes its objects,",
    k.own_new: "New.__new__",
    k.dictionary: ".__dict__",
    k.variables: r"vars\(\)",
    k.as_a_dict: "dataclasses.asdict",
    k.unknown_name: r"hasattr\(..., 'Float99'\)",
    k.unknown_default: r"getattr\(..., 'Float99', ...\)",
    k.operator_of_a_class: "__eq__ as it is called here: .*",
    k.deep: "copy.deepcopy of an object",
    k.local_names: r"locals\(\)",
}


@pytest.mark.parametrize("kernel", REFUSED, ids=lambda kernel: kernel.__name__)
def test_what_has_no_twin_is_refused_by_name(kernel):
    with pytest.raises(NotSimulated, match=rf"not simulated: {REFUSED[kernel]} \(python_objects.py:\d+\)"):
        simulate(k.host, kernel, np.zeros(1, np.int32))


def test_a_librarys_object_that_holds_one_of_the_dsls_own_is_refused_by_name():
    if not dsl_installed():
        pytest.skip("CuTe DSL is not installed: there are no objects of its own, and the simulator's need no mapping")
    with pytest.raises(NotSimulated, match="not simulated: an itemgetter that holds something of the kernel's"):
        simulate(k.host, k.holder, np.zeros(1, np.int32))

"""Python's own operators on the DSL's numbers: and, or, not, in, comparisons, constants.

What is wanted is what CuTe DSL 4.8.1 compiles the kernels to: of `chosen` the selections that its PTX has, read and worked out by
hand; of `constants` the numbers that its PTX stores, which a test here reads once more where the DSL is installed.
"""

import re

import numpy as np
import pytest
from dsl import python_values as k
from real_compiler import compiled, refused

from cutesim import NotSimulated
from cutesim.simulation import simulate

A = np.resize(np.array([0, 5, 12, 0], np.int32), 32)
B = np.resize(np.array([6, 7, 0, 0], np.int32), 32)
F = np.resize(np.array([0, 5, -6.5, 7.5], np.float32), 32)


def arguments(out):
    return A.copy(), B.copy(), F.copy(), out


CHOSEN = [
    [6, 5, 12, 0],
    [0, 7, 0, 0],
    [7, 5, 12, 7],
    [0, 9, 0, 0],
    [9, 7, 9, 9],
    [0, 5, 12, 7.5],
    [2.5, 5, -6.5, 7.5],
    [0, 7, 0, 0],
    [7, 7, 7, 7],
    [0, 5, 12, 0],
    [0, 1, 0, 0],
    [0, 0, 0, 1],
    [0, 1, 1, 0],
    [9, 5, 12, 9],
    [0, 5, 4, 0],
    [1, 1, 1, 1],
]


@pytest.mark.parametrize("check", [True, False])
def test_and_and_or_choose_an_operand_lane_by_lane(check):
    out = np.full((16, 32), -99, np.float32)
    assert simulate(k.host, k.chosen, *arguments(out), check=check).ok
    np.testing.assert_array_equal(out[:, :4], CHOSEN)


CONSTANTS = [
    2,
    -2,
    2,
    5,
    0,
    65519,
    1,
    2147483647,
    2147483647,
    2147483647,
    0,
    1,
    1073741822,
    1,
    6,
    6,
    3,
    10,
    6,
    10892,
    1,
]


def test_constants_are_folded_as_the_compiler_folds_them():
    out = np.full(21, -99, np.int32)
    assert simulate(k.host, k.constants, *arguments(out)).ok
    assert out.tolist() == CONSTANTS


def test_the_compiler_stores_these_constants():
    stored = re.findall(
        r"st\.global\S*\s+\[%rd\d+(?:\+(\d+))?\], (.*);",
        compiled(k.host, k.constants, *arguments(np.zeros(21, np.int32))),
    )
    found = {}
    for at, numbers in stored:
        for i, number in enumerate(re.findall(r"-?\d+", numbers)):
            found[int(at or 0) // 4 + i] = int(number)
    assert [found[i] for i in range(21)] == CONSTANTS


CARRIED = [0xBC4CCCD0, 0xBC4CCCCD]  # -1.25 * 0.3 * 0.3 + 0.1, rounded at each step and only at the end


def test_a_number_of_the_source_is_one_of_run_time_in_the_arms_that_change_its_variable():
    out = np.full(7, -99, np.float32)
    assert simulate(k.host, k.carried, *arguments(out)).ok
    assert out[[0, 1, 4, 5]].view(np.uint32).tolist() == [*CARRIED, *CARRIED]
    assert out[[2, 3, 6]].tolist() == [-1, -1, 2]  # C's remainder, where Python's is 2


def test_the_compiler_has_it_so_too():
    text = compiled(k.host, k.carried, *arguments(np.zeros(7, np.float32)))
    assert "{0fBC4CCCD0, 0fBC4CCCCD, 0fBF800000, 0fBF800000}" in text  # out[0] to out[3]


def test_the_compiler_chooses_an_operand():
    assert compiled(k.host, k.chosen, *arguments(np.zeros((16, 32), np.float32))).count("selp") > 10


REFUSED = {
    k.negated: "- of a Boolean is refused by the DSL",
    k.negated_constant: "- of a Boolean is refused by the DSL",
    k.any_of_a_text: "any of a number and a str",
    k.or_none: "`or` takes numbers and conditions, got NoneType",
    k.counted: "a range_constexpr bound must be known while tracing",
}


@pytest.mark.parametrize("kernel", REFUSED, ids=lambda kernel: kernel.__name__)
def test_what_the_compiler_refuses(kernel):
    (finding,) = simulate(k.host, kernel, *arguments(np.zeros(1, np.int32))).findings
    assert finding.kind == "language" and REFUSED[kernel] in finding.message


@pytest.mark.parametrize("kernel", REFUSED, ids=lambda kernel: kernel.__name__)
def test_the_compiler_refuses_it_too(kernel):
    with refused():
        compiled(k.host, kernel, *arguments(np.zeros(1, np.int32)))


@pytest.mark.parametrize(
    "kernel, said",
    [
        (
            k.tuples,
            r"a comparison of tuples that hold numbers known only when the kernel runs \(python_values.py:\d+\)",
        ),
        (k.uneven, r"what CuTe DSL makes of this: .* do not run evenly through the extent 4"),
        (k.inverted, r"what CuTe DSL makes of this: integer strides of 0 or more are needed, got 4:-1"),
        (k.too_large, r"Int32\(3000000000.0\), a number that the type does not hold,"),
    ],
    ids=["tuples", "uneven", "inverted", "too_large"],
)
def test_what_it_does_not_know_is_refused_by_name(kernel, said):
    with pytest.raises(NotSimulated, match=said):
        simulate(k.host, kernel, *arguments(np.zeros(1, np.int32)))

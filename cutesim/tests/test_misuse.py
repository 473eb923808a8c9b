"""What a reader is told of a kernel that the DSL would not take, or that the simulator does not have: where, and what to write."""

import numpy as np
import pytest

from cutesim import NotSimulated
from cutesim.language.loading import answer_package
from cutesim.simulation import simulate

answer_package("tests.simulator.dsl")

from dsl import misused

X = np.arange(32, dtype=np.float32)


@pytest.mark.parametrize(
    ("kernel", "kind", "text", "message"),
    [
        ("never_launched", "launch", "copy_kernel(x, out)", "write copy_kernel(...).launch(grid=..., block=...)"),
        (
            "an_argument_short",
            "language",
            "copy_kernel(x).launch(",
            "copy_kernel() missing 1 required positional argument: 'out'",
        ),
        ("numpy_exp", "language", "np.exp(x[tidx])", "numpy.exp takes numbers that Python has now"),
        ("math_exp", "language", "math.exp(x[tidx])", "write cute.math.exp(x)"),
        ("divmod_of_numbers", "language", "divmod(tidx, 3)", "write q = a // b, then a - q * b"),
        (
            "constexpr_comprehension",
            "language",
            "for i in cutlass.range_constexpr(2)]",
            "write range here, which unrolls as well",
        ),
        (
            "constexpr_sequence",
            "language",
            "tuple(cutlass.range_constexpr(2))",
            "works in a `for` statement alone",
        ),
        ("int_of_index", "language", "x[int(tidx)]", "write x.to(cutlass.Int32)"),
        ("item", "language", ".item()", "it is a number already"),
        (
            "forgotten_in_init",
            "language",
            "self.factor",
            "Forgetful has no .factor: is it spelt so, and set in __init__",
        ),
        (
            "width_of_a_shuffle",
            "language",
            "width=16",
            "unexpected keyword argument 'width'; it takes value, offset, mask",
        ),
        ("shuffle_without_offset", "language", "(x[tidx])", "missing 1 required positional argument: 'offset'"),
        ("sliced", "language", "x[0:4]", "a CuTe tensor takes no slices: None keeps a whole mode"),
    ],
)
def test_a_misuse_is_a_finding_at_its_line(kernel, kind, text, message):
    (finding,) = simulate(getattr(misused, kernel), X, X.copy()).findings
    assert finding.kind == kind and message in finding.message
    assert text in finding.lines[0].text and "misused.py:" in finding.message


def test_a_kernel_alone_is_not_simulated():
    (finding,) = simulate(misused.copy_kernel, X, X.copy()).findings
    assert finding.kind == "launch"
    assert finding.message.startswith("copy_kernel is a @cute.kernel: simulate a @cute.jit function that calls")


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("unknown_attribute", "not simulated: .dereferenced of a Pointer"),
        ("pointer_operator", "not simulated: unsupported operand type(s) for @: 'Pointer' and 'int'"),
        ("unknown_argument", "not simulated: barrier as it is called here: barrier() takes 0 positional"),
    ],
)
def test_what_the_simulator_lacks_is_never_a_finding(kernel, message):
    with pytest.raises(NotSimulated, match="misused.py:") as raised:
        simulate(getattr(misused, kernel), X, X.copy())
    assert str(raised.value).startswith(message)
    assert "GPU" not in str(raised.value)  # which is said in a notebook only


def test_arguments_of_the_host_function_are_counted_by_its_own_name():
    with pytest.raises(TypeError, match=r"^never_launched\(\) missing 1 required positional argument: 'out'$"):
        simulate(misused.never_launched, X)


def test_unwritten_registers_name_their_fragment_and_its_read():
    (finding,) = simulate(misused.two_fragments, X, X.copy()).findings
    (read,) = finding.lines
    assert finding.kind == "uninitialised" and "rA.load() + rB.load()" in read.text
    assert "rB (misused.py:" in finding.message and "rA (" not in finding.message
    assert f"is read at {read.where} before all of it is written" in finding.message

"""The suite `operations`: the simulator and a GPU's record keep the specification, and what does not would be seen."""

import functools

import numpy as np
import pytest

from validation import operations

known = functools.cache(operations.cases)


def test_the_published_record_agrees():
    suite = operations.run(False, lambda what: None)
    assert suite.ok, "\n".join(suite.mismatches)
    assert suite.checked > 200_000 and len(suite.rows) > 150
    assert all(row[2] == row[3] == row[4] > 0 for row in suite.rows)


@pytest.mark.parametrize("name, bit", [("Int32 ring", 1), ("Float32 functions", 4), ("Float32 arithmetic", 1)])
def test_one_wrong_number_is_seen(name, bit, monkeypatch):
    """An exact one by its last bit, beside the specification and the GPU's; an approximate one by 4 steps, where 2 are allowed."""
    case = next(case for case in known() if case.name == name)
    out, exact = operations.simulated(case), case.operations[0].bound is None
    at = int(np.argmax((out[0] & 0x7FFFFFFF) > 0x3F800000))
    out[0, at] ^= bit
    monkeypatch.setattr(operations, "cases", lambda sample: [case])
    monkeypatch.setattr(operations, "simulated", lambda case: out)
    suite = operations.run(False, lambda what: None)
    assert len(suite.mismatches) == 1 + exact
    assert suite.rows[0][2] == suite.rows[0][3] + 1 == suite.rows[0][4] + 1


def test_every_kernel_compiles():
    pytest.importorskip("cutlass", reason="the CuTe DSL is not installed")
    pytest.importorskip("torch", reason="compiling takes torch tensors")
    from quack_tutorial import compiler

    refused = []
    for case in known():
        try:
            assert ".entry" in compiler.ptx(case.host, *operations.tensors(case))
        except Exception as error:  # the DSL has several error classes, none of them documented
            refused.append(f"{case.name}: {type(error).__name__}: {str(error)[:200]}")
    assert refused == []

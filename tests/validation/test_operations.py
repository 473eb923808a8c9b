"""The suite `operations`: what its bounds allow, that the simulator and a GPU's record keep the specification, and that what does
not would be seen."""

import base64
import dataclasses
import functools
import json
import math
import zlib

import pytest

from validation import operations
from validation.operations import numbers as operation_numbers

known = functools.cache(operations.cases)


def silent(_):
    pass


@pytest.fixture
def unrecorded(monkeypatch, tmp_path):
    """As if no GPU had been asked yet; gives the path where its record would be."""
    path = tmp_path / operations.RECORD
    monkeypatch.setattr(operations, "record_path", lambda: path)
    return path


# ---- bounds ---------------------------------------------------------------------------------------------------------

TWO_ULP = operation_numbers.ulps(2, "a document")
FLUSHING = operation_numbers.ulps(2, "a document", flushes=True)


@pytest.mark.parametrize(
    "bound, truth, got, right",
    [
        (TWO_ULP, 1.0, 1 + 2 * 2.0**-23, True),
        (TWO_ULP, 1.0, 1 + 3 * 2.0**-23, False),
        (TWO_ULP, 1.0 + 2.0**-24, 1 - 1.9 * 2.0**-23, True),  # counted from the rounded result, here 1
        (TWO_ULP, 1.0 + 2.0**-24, 1 + 3.1 * 2.0**-23, False),
        (TWO_ULP, math.nan, math.nan, True),
        (TWO_ULP, math.nan, 1.0, False),
        (TWO_ULP, 1.0, math.nan, False),
        (TWO_ULP, -math.inf, -math.inf, True),
        (TWO_ULP, 0.0, -0.0, False),
        (TWO_ULP, 2.0**128, math.inf, True),
        (TWO_ULP, 2.0**127, math.inf, False),
        (TWO_ULP, 2.0**-130, 2.0**-130, True),
        (FLUSHING, 2.0**-130, 0.0, True),
        (FLUSHING, -(2.0**-130), 0.0, False),
        (FLUSHING, 2.0**-130, 2.0**-130, False),
        (FLUSHING, 2.0**-120, 0.0, False),
    ],
)
def test_what_a_bound_allows(bound, truth, got, right):
    assert operations.within(bound, 0.0, truth, got) is right


# ---- the suite ------------------------------------------------------------------------------------------------------


def test_every_row_is_in_the_record_s_keys_once():
    keys = [case.key(operation) for case in known() for operation in case.operations]
    assert len(keys) == len(set(keys))
    assert all(len(operation.answers) == case.count for case in known() for operation in case.operations)


@pytest.fixture
def one_case(unrecorded, monkeypatch):
    """A suite of one case, 8 operations on pairs of 32-bit integers; gives the case and the record's path."""
    chosen = next(case for case in known() if case.name == "Int32 ring")
    monkeypatch.setattr(operations, "cases", lambda sample: [chosen])
    return chosen, unrecorded


WRONG_SUM = (
    "Int32 ring, a + b of 0 (0x00000000), 2 (0x00000002): "
    "expected 2 (0x00000002), {} gives 3 (0x00000003) (1 of 349 differ)"
)


def test_one_wrong_bit_is_seen_and_named(one_case, monkeypatch):
    out = operations.simulated(one_case[0])
    out[0, 3] ^= 1
    monkeypatch.setattr(operations, "simulated", lambda case: out)
    suite = operations.run(False, silent)
    assert suite.mismatches == (WRONG_SUM.format("the simulator"),)
    assert suite.rows[0] == ("a + b", "Int32", 349, 348, "not recorded", "exact")


# ---- what a GPU gave ------------------------------------------------------------------------------------------------


def recorded(case, path, change=None, failed=None):
    """Write a record with the specified answers, one of them changed."""
    bits = {case.key(operation): operation.answers.copy() for operation in case.operations}
    if change:
        change(bits)
    where = {"device": "a GPU", "date": "2026-01-01"}
    texts = {key: base64.b85encode(zlib.compress(one.tobytes())).decode() for key, one in bits.items()}
    path.write_text(json.dumps({"schema": operations.SCHEMA, "where": where, "failed": failed or {}, "bits": texts}))


def test_a_gpu_that_differs_is_seen(one_case):
    case, path = one_case

    def change(bits):
        bits[case.key(case.operations[0])][3] = 3

    recorded(case, path, change)
    suite = operations.run(False, silent)
    against = WRONG_SUM.replace(
        "expected 2 (0x00000002), {} gives 3 (0x00000003)", "expected 3 (0x00000003), {} gives 2 (0x00000002)"
    )
    wanted = "against the H200: " + against.format("the simulator")
    assert suite.mismatches == (WRONG_SUM.format("the H200"), wanted)
    assert suite.rows[0][2:5] == (349, 349, 348)


def test_a_record_of_other_inputs_is_not_used(one_case, monkeypatch):
    case, path = one_case
    recorded(case, path, failed={"some kernel": "CudaError: lost"})
    x = case.x.copy()
    x[0, 5] += 1
    monkeypatch.setattr(operations, "simulated", lambda _: operations.poisoned(case))
    monkeypatch.setattr(operations, "cases", lambda sample: [dataclasses.replace(case, x=x)])
    suite = operations.run(False, silent)
    assert all(row[4] == "not recorded" for row in suite.rows)
    assert suite.notes == (
        operations.LEFT_OUT,
        "On the GPU, some kernel failed: CudaError: lost",
        "8 operations are not in operations-h200.json, or with other inputs.",
    )


def test_the_published_record_agrees():
    suite = operations.run(False, silent)
    assert suite.ok, "\n".join(suite.mismatches)
    assert suite.checked > 200_000 and len(suite.rows) > 150
    assert all(row[2] == row[3] == row[4] > 0 for row in suite.rows)


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

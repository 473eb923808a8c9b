"""The record of registers and spills: of the same kernels that were timed."""

import json

import pytest

from quack_tutorial.records import compiled
from quack_tutorial.records.bench import changes_since


# The backward ladder of cross-entropy has two versions, of ten sizes each.
@pytest.mark.parametrize(
    "operation, least", [("softmax", 30), ("rmsnorm", 30), ("cross-entropy", 30), ("cross-entropy backward", 20)]
)
def test_what_was_compiled_is_what_was_timed(root, operation, least):
    file = f"{operation.replace(' ', '-')}-ladder.json"
    bench = json.loads((root / "quack_tutorial/records/h100/bench" / file).read_text())
    ladders, same = compiled.load(), 0
    for cell in bench["cells"]:
        for result in cell["results"]:
            entry = ladders.find(operation, result["provider"], cell["dtype"], cell["N"])
            changed = changes_since(operation, cell["measured"], result["provider"])
            if entry and result.get("ptx_sha256") and not changed:
                found = entry.ptx_sha256
                assert found == result["ptx_sha256"], (result["provider"], cell["dtype"], cell["N"])
                same += 1
    assert same >= least


def test_nsight_compute_counted_the_same_registers():
    from quack_tutorial.records import profile

    ladders = compiled.load()
    for case in profile.load().cases:
        if entry := ladders.find(case.operation, case.provider, case.dtype, case.N):
            assert case.of_main("registers") == entry.registers


def test_what_is_not_recorded_is_none():
    assert compiled.load().find("softmax", "online", "float32", 3) is None
    assert "ptxas" in compiled.load().origin

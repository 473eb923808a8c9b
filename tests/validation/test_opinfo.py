"""The operations on torch's sample inputs, on the simulator: all of them are right or refused for a known reason."""

from collections import Counter

import pytest

torch = pytest.importorskip("torch")

from quack_tutorial import ops
from validation import opinfo

KNOWN = {opinfo.ANOTHER_DIMENSION, opinfo.ANOTHER_TYPE, opinfo.PROBABILITIES, opinfo.ONE_NUMBER}


@pytest.mark.slow
def test_every_sample_is_right_or_asks_for_what_is_not_covered():
    found = opinfo.tried("cpu")
    assert set(found) == {*opinfo.FUNCTIONS, *(f"nn.{name}" for name in opinfo.MODULES)}
    assert not [problem for *_, wrong in found.values() for problem in wrong]
    for name, (count, right, reasons, _) in found.items():
        assert right and right + sum(reasons.values()) == count, name
        assert set(reasons) <= KNOWN


def test_a_wrong_result_a_wrong_gradient_and_a_refusal_are_seen(monkeypatch):
    of_torch, calls = torch.softmax, Counter()

    def wrong_result(x, dim=-1, dtype=None):
        calls["wrong"] += 1
        return ops.softmax(x, -1) * 1.001

    monkeypatch.setattr(opinfo, "OURS", dict.fromkeys(opinfo.FUNCTIONS, wrong_result))
    x = torch.randn(2, 5)
    assert "the result" in opinfo._compare(wrong_result, of_torch, (x, -1), {}, "float32")
    halved = lambda x, dim: x.detach() * 0 + of_torch(x, dim) / 2 + of_torch(x.detach(), dim) / 2  # noqa: E731
    assert "gradient 1" in opinfo._compare(halved, of_torch, (x, -1), {}, "float32")
    assert opinfo._compare(ops.softmax, of_torch, (x, -1), {}, "float32") == ""
    found = opinfo.tried("cpu", ("float32",), every=5)
    assert calls["wrong"] and found["nn.functional.rms_norm"][3]


def test_a_sample_of_the_suite_says_what_it_ran():
    suite = opinfo.run(True, lambda said: None)
    assert suite.ok and suite.checked and "torch" in suite.where

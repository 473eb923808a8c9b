"""The ladders' last rungs, compiled, on a Hopper GPU against float64: rows of odd and even length, nothing left unwritten."""

import pytest

torch = pytest.importorskip("torch")

from bench import correctness, ours
from quack_tutorial import compiler
from quack_tutorial.operations import OPERATIONS
from quack_tutorial.operations.our_launches import FINAL, rows_of

_problem = compiler.dsl_problem() or compiler.gpu_problem()
if _problem:
    pytest.skip(f"needs a Hopper GPU and CuTe DSL: {_problem}", allow_module_level=True)

# From which version on each ladder is tried; "vector atomics" stands between two older ones.
FIRST = {"softmax": "direct", "rmsnorm": "direct", "rmsnorm backward": "bulk"}
FIRST |= {"cross-entropy": "short terms", "cross-entropy backward": "fast exp", "rmsnorm-quantized": "block"}
FIRST |= {"topk": "rounds"}
RUNGS = [("rmsnorm backward", "vector atomics")]
for _operation, _first in FIRST.items():
    _names = [name for name in OPERATIONS[_operation].ladder if name != FINAL]
    RUNGS += [(_operation, name) for name in _names[_names.index(_first) :]]
SIZES = (1, 31, 256, 1001, 4096, 12289, 131072)
# A thread of these adds up 512 numbers of the longest rows one after the other: 1.05 to 1.10 of the bound on an H200.
SHORTER = [("rmsnorm-quantized", "block"), ("rmsnorm-quantized", "vectors")]
REFUSALS = ("bulk copies", "a thread holds up to", "and a block has", "a row has at most")


@pytest.fixture(autouse=True)
def poison(monkeypatch):
    """Whatever a launch allocates holds NaN before it."""

    def poisoned(make):
        def made(*args, **kwargs):
            tensor = make(*args, **kwargs)
            return tensor.fill_(float("nan")) if tensor.is_floating_point() else tensor

        return made

    for name in ("empty", "empty_strided"):
        monkeypatch.setattr(torch, name, poisoned(getattr(torch, name)))


@pytest.mark.parametrize("dtype", ("float32", "bfloat16", "float16"))
@pytest.mark.parametrize("operation, version", RUNGS)
def test_a_rung_is_right_at_any_length(operation, version, dtype):
    checked = 0
    for N in SIZES[:-1] if (operation, version) in SHORTER else SIZES:
        inputs = OPERATIONS[operation].inputs(133, N, dtype)
        try:
            launch = ours.callable_for(operation, version, rows_of(inputs[0]))
        except ValueError as refused:
            assert any(words in str(refused) for words in REFUSALS), refused
            continue
        outputs = launch(*inputs)
        torch.cuda.synchronize()
        error = correctness.error_of(OPERATIONS[operation], inputs, outputs, seed=N)
        assert error <= 1, (N, error)
        checked += 1
    assert checked >= 3

"""The public calls that `bench --public` times, on the CPU: right results, and what results say."""

import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from bench import correctness, public
from quack_tutorial.operations import OPERATIONS, cross_entropy
from quack_tutorial.records import cells
from quack_tutorial.records.cells import PUBLIC, PUBLIC_MEAN, PUBLIC_SERIES
from tests.bench import host_gpu

M, N = 16, 96
CALLS = [(name, series) for series in PUBLIC_SERIES for name in public.operations(series)]


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    monkeypatch.setattr("quack_tutorial.operations.operation.DEVICE", "cpu")
    torch.manual_seed(0)


def error_of(name, series, provider, inputs):
    """The error of a provider's second call, as a worker makes it."""
    with torch.no_grad():
        call = public.calls_of(name, series)[provider](*inputs)
        if hasattr(call, "prepare"):
            call.prepare(*inputs)
        call(*inputs)
        outputs = call(*inputs)
    judged = call.judged(*inputs) if hasattr(call, "judged") else inputs
    return correctness.error_of(OPERATIONS[name], judged, outputs, seed=1)


@pytest.mark.parametrize("dtype", cells.DTYPES)
@pytest.mark.parametrize("name, series", CALLS)
def test_our_calls_are_right_and_torch_s_are_as_right_as_peers_must_be(name, series, dtype):
    inputs = public.inputs_of(name, series)(M, N, dtype)
    assert error_of(name, series, "ours", inputs) <= 1
    slack = {"softmax backward": 2000, "layernorm backward": 100}.get(name, correctness.PEER_SLACK)
    assert error_of(name, series, "eager", inputs) <= slack


def test_a_gradient_of_the_mean_that_is_of_the_sum_would_be_found():
    inputs = public.inputs_of("cross-entropy backward", PUBLIC_MEAN)(M, N, "float32")
    assert error_of("cross-entropy backward", PUBLIC, "ours", inputs) <= 1  # each row's, with 1 / M
    x, target, dloss, lse = inputs
    operation = OPERATIONS["cross-entropy backward"]
    found = correctness.error_of(operation, inputs, cross_entropy.formula_backward(x, target, M * dloss, lse), 1)
    assert found > 100


def test_what_is_timed_has_a_row_in_the_table_and_torch_s_calls_beside_ours():
    for name, series in CALLS:
        assert name in OPERATIONS
        assert {"ours", "eager", "compile", "compile tuned"} <= set(public.calls_of(name, series))
    said = "copy has no series 'public'; there is softmax, softmax backward"
    with pytest.raises(ValueError, match=said):
        public.calls_of("copy", PUBLIC)


def test_a_cell_of_public_calls_from_start_to_end(monkeypatch):
    """The real set-up, checks and bookkeeping, with a clock and a graph that are made up."""
    from bench import measure

    swept = []
    host_gpu.play(monkeypatch, lambda name: 38.0 if isinstance(name, tuple) else 40.0 + len(name))
    monkeypatch.setattr(measure.ours, "shipped", lambda *which: ("a" * 64, "of " + which[0]))
    found = lambda *args: swept.append(args[-1]) or {"copy": None}  # noqa: E731
    monkeypatch.setattr(measure.ceilings, "ceiling_candidates", found)
    monkeypatch.setattr(measure.ceilings, "own_tile", lambda *args: {})
    monkeypatch.setitem(sys.modules, "quack", None)  # as where it is not installed
    for series in PUBLIC_SERIES:
        name = next(iter(public.operations(series)))
        key = cells.CellKey(name, "float32", M, N)
        every = ("ours", "eager", "quack")
        asked = [provider for provider in every if provider in public.calls_of(name, series)]
        with torch.no_grad():
            cell = measure.measure_cell(key, asked, series=series)
        ours = cell.result("ours")
        assert (ours.status, ours.config) == ("ok", f"of {name}") and ours.error <= 1, key
        assert ours.do_bench_us == 50, key
        assert cell.result("eager").status == "ok" and cell.result("eager").ptx_sha256 is None
        found = cell.result("quack").status if "quack" in asked else name
        assert found == "missing" or "quack" not in asked
    assert swept == [False] * len(PUBLIC_SERIES)

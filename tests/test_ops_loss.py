"""The reduction of losses: values against float64, no race, the same bits again; and what mean cross-entropy makes of it."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from cutesim.simulation import simulate
from quack_tutorial import ops, reference
from quack_tutorial.kernels.tuned.sums import IN_FLIGHT, LossReduction, cutlass

TYPES = {"float32": cutlass.Float32, "bfloat16": cutlass.BFloat16, "float16": cutlass.Float16}
IGNORED = -100


def losses_and_targets(M, index=torch.int64, ignored=0.3):
    generator = torch.Generator().manual_seed(M)
    losses = torch.randn(M, generator=generator).abs() * 4
    target = torch.where(torch.rand(M, generator=generator) < ignored, IGNORED, 7).to(index)
    losses[target == IGNORED] = 0.0
    return losses, target


def reduce(losses, target, dtype="float32", mean=True):
    """(loss, scale) of a run in which every access was checked."""
    loss, scale = torch.full((), 77.0, dtype=getattr(torch, dtype)), torch.full((), 77.0)
    kernel = LossReduction(TYPES[dtype], mean)
    run = simulate(kernel, losses, target if mean else None, loss, scale if mean else None, IGNORED)
    assert run.ok, run
    return loss, scale


@pytest.mark.parametrize("M", (1, 2, 31, 33, 1000, 1024, 1025, 8191, 8192, 8193, 30001))
@pytest.mark.parametrize("dtype", TYPES)
def test_the_mean_and_the_sum_are_those_of_float64(dtype, M):
    index = torch.int32 if M % 2 else torch.int64
    losses, target = losses_and_targets(M, index)
    exact, count = losses.double().sum().item(), int((target != IGNORED).sum())
    for mean, wanted in ((True, exact / count if count else np.nan), (False, exact)):
        loss, scale = reduce(losses, target, dtype, mean)
        # The terms have one sign: half an epsilon an addition on the way, at most M / 1024 + 10 of them.
        bound = reference.EPS * (M / 2048 + 8) * abs(np.nan_to_num(wanted))
        if dtype != "float32":
            wanted = float(reference.round_to(wanted, dtype))
            bound += float(reference.ulp(wanted, dtype)) if np.isfinite(wanted) else 0.0
        if np.isfinite(wanted):
            assert abs(loss.double().item() - wanted) <= bound
        else:
            assert loss.isnan() if np.isnan(wanted) else loss.item() == wanted
        if mean:
            assert scale.item() == (np.float32(1) / np.float32(count) if count else np.inf)


def test_nothing_that_counts_is_nan_and_what_is_nan_or_infinite_shows():
    losses, target = losses_and_targets(100, ignored=1.0)
    assert reduce(losses, target)[0].isnan() and reduce(losses, target, mean=False)[0] == 0
    losses, target = losses_and_targets(3000)
    for value in (float("nan"), float("inf")):
        losses[2999], target[2999] = value, 1
        for mean in (True, False):
            found = reduce(losses, target, mean=mean)[0]
            torch.testing.assert_close(found, torch.tensor(value), equal_nan=True)


def test_sums_too_large_for_float16_are_infinite_and_means_of_them_are_not():
    losses, target = torch.full((4096,), 30.0), torch.zeros(4096, dtype=torch.int64)
    assert reduce(losses, target, "float16", mean=False)[0].isinf()
    assert reduce(losses, target, "float16", mean=True)[0] == 30.0


def test_targets_at_any_address():
    losses, target = losses_and_targets(3001, torch.int32)
    for first in (1, 2, 3):
        part = reduce(losses[first:], target[first:])[0]
        wanted = losses[first:].double().sum() / (target[first:] != IGNORED).sum()
        torch.testing.assert_close(part.double(), wanted, rtol=1e-6, atol=0)


def test_the_order_of_the_sum_is_fixed():
    losses, target = losses_and_targets(20000)
    first = reduce(losses, target)[0]
    for seed in (1, 2):
        loss = torch.full((), 77.0)
        kernel = LossReduction(cutlass.Float32)
        simulate(kernel, losses, target, loss, None, IGNORED, check=False, seed=seed)
        assert torch.equal(loss, first)


def test_a_mean_is_one_call_and_its_gradient_another(monkeypatch):
    from importlib import import_module

    module = import_module("quack_tutorial.ops.cross_entropy")
    rows, launched = module.launches, []

    def counted(device, kernel, *specs):
        run = compiled(device, kernel, *specs)
        return lambda *args: (launched.append(type(kernel).__name__), run(*args))

    compiled = rows.runner_for
    monkeypatch.setattr(rows, "runner_for", counted)
    monkeypatch.setattr(module, "_launches", {})
    for name in ("_kernel", "_backward_kernel"):
        monkeypatch.setattr(module, name, getattr(module, name).__wrapped__)
    x, target = torch.zeros(4, 16, dtype=torch.bfloat16), torch.tensor([1, 2, IGNORED, 3])
    ops.cross_entropy(x, target)
    assert launched == ["ReducedCrossEntropy"]
    x.requires_grad_()
    ops.cross_entropy(x, target).backward()
    assert launched[1:] == ["ReducedCrossEntropy", "CrossEntropyBackward"]
    assert (x.grad[2] == 0).all() and (x.grad[0, 0] == torch.tensor(1 / 48).bfloat16())


def test_the_compiled_reduction_has_all_its_loads_on_the_way_before_it_adds():
    from quack_tutorial.compiler import TensorSpec, dsl_problem, ptx

    if dsl_problem():
        pytest.skip("CuTe DSL is not installed: there is no compiler whose loads could be looked at")
    rows, scalar = TensorSpec("float32", ("M",), (1,), 4), TensorSpec("float32", (), (), 4)
    targets = TensorSpec("int64", ("M",), (1,), 8)
    text = ptx(LossReduction(cutlass.Float32), rows, targets, scalar, scalar, 0)
    loop = text[text.index("ld.global") : text.rindex("ld.global")]
    assert text.count("ld.global") == 2 * IN_FLIGHT
    assert "bra" not in loop and "add.f32" not in loop and ".local" not in text

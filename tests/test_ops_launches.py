"""Launches kept for calls like earlier ones: when they may be taken, and when not; on CPU tensors, the simulator."""

from importlib import import_module

import pytest

torch = pytest.importorskip("torch")

from quack_tutorial import ops

F = torch.nn.functional
rows = import_module("quack_tutorial.ops.launches")
NAMES = ("softmax", "norms", "cross_entropy")


def none_at_first(monkeypatch, attribute):
    """The dictionary that each operation has as `attribute`, empty."""
    dictionaries = {name: {} for name in NAMES}
    for name, launches in dictionaries.items():
        monkeypatch.setattr(import_module(f"quack_tutorial.ops.{name}"), attribute, launches)
    return dictionaries


@pytest.fixture(autouse=True)
def kept(monkeypatch):
    """The launches of each operation."""
    return none_at_first(monkeypatch, "_launches")


@pytest.fixture(autouse=True)
def kept_backward(monkeypatch):
    """The launches of each operation's gradient."""
    return none_at_first(monkeypatch, "_backward_launches")


def assert_gradients(ours, theirs, *inputs, gradient=None):
    """That both functions have the same gradients of the inputs, where those lie, for the result's `gradient`."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    found = []
    for function in (ours, theirs):
        out = function(*leaves)
        found.append(torch.autograd.grad(out, leaves, torch.ones_like(out) if gradient is None else gradient))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def assert_all_gradients(x, w, target, gradient=None):
    N = x.shape[-1]
    assert_gradients(ops.softmax, lambda x: torch.softmax(x, -1), x, gradient=gradient)
    assert_gradients(ops.rmsnorm, lambda x, w: F.rms_norm(x, (N,), w), x, w, gradient=gradient)
    if target is not None:
        assert_gradients(lambda x: ops.cross_entropy(x, target), lambda x: F.cross_entropy(x, target), x)


def randn(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def test_any_number_of_rows_shares_one_launch(kept):
    w, r = randn(40), randn(9, 40)
    for M in (3, 0, 9, 1):
        x, target = randn(M, 40), torch.arange(M)
        torch.testing.assert_close(ops.softmax(x), torch.softmax(x, -1))
        torch.testing.assert_close(ops.rmsnorm(x, w), F.rms_norm(x, (40,), w))
        torch.testing.assert_close(ops.rmsnorm(x, residual=r[:M])[1], x + r[:M])
        found = ops.cross_entropy(x, target)
        torch.testing.assert_close(found, F.cross_entropy(x, target), equal_nan=True)
    assert [len(kept[name]) for name in NAMES] == [1, 2, 1]


def test_gradients_of_any_number_of_rows_share_one_launch(kept_backward):
    w = randn(40)
    for M in (3, 9, 1):
        assert_all_gradients(randn(M, 40), w, torch.arange(M))
    assert [len(kept_backward[name]) for name in NAMES] == [1, 1, 1]


@pytest.mark.parametrize("N", (40, 33, 1))
def test_gradients_for_one_row_say_nothing_about_gradients_for_others(N, kept_backward):
    # With one row the stride of the rows of dy does not matter; with more it is what separates them, or 0 for one repeated.
    storage, w = randn(40 * N), randn(N)
    for M in (1, 5, 1, 3):
        for stride in (N + 3, 2 * N, 0, N):
            assert_all_gradients(randn(M, N), w, None, gradient=storage.as_strided((M, N), (stride, 1)))
        assert_all_gradients(randn(M, N), w, None, gradient=randn(N, M).t())
    assert [len(kept_backward[name]) for name in NAMES] == [1, 1, 0]


def test_gradients_of_other_ranks_and_addresses_have_launches_of_their_own(kept_backward):
    w, big = randn(64), randn(6, 80)
    views = (randn(2, 3, 64), randn(3, 2, 64), big[0, :64])
    views += (big[1, 1:65], big[2, 2:66], randn(2, 1, 64))
    for _ in range(2):
        for x in views:
            assert_all_gradients(x, w, None)
            assert_all_gradients(x, big[0, 1:65], None)
            assert_all_gradients(x, w, None, gradient=x.expand(x.shape))
    # y has 4 shapes and starts on a boundary; dy does too, but for big[1, 1:65] and big[2, 2:66].
    assert len(kept_backward["softmax"]) == 6


def test_logits_with_gaps_have_gradients(kept_backward):
    big, target = randn(6, 80), torch.arange(6)
    for x in (big[:, :64], big[:, 1:65], big[:, :1], big[:1, 3:7]):
        leaf = x.detach().requires_grad_()
        (ours,) = torch.autograd.grad(ops.cross_entropy(leaf, target[: len(x)] % x.shape[1]), leaf)
        (theirs,) = torch.autograd.grad(F.cross_entropy(leaf, target[: len(x)] % x.shape[1]), leaf)
        torch.testing.assert_close(ours, theirs)


def test_the_sums_of_gradients_stay_float32_where_new_tensors_are_not():
    x, w = randn(3, 40).requires_grad_(), randn(40).requires_grad_()
    torch.set_default_dtype(torch.float64)
    try:
        ours = torch.autograd.grad(ops.rmsnorm(x, w).sum(), (x, w))
    finally:
        torch.set_default_dtype(torch.float32)
    for one, other in zip(ours, torch.autograd.grad(F.rms_norm(x, (40,), w).sum(), (x, w)), strict=True):
        torch.testing.assert_close(one, other)


def test_the_first_call_may_have_no_rows(kept):
    assert ops.softmax(randn(0, 24)).shape == (0, 24)
    assert ops.cross_entropy(randn(0, 24), torch.arange(0)).isnan()
    x = randn(3, 24)
    torch.testing.assert_close(ops.softmax(x), torch.softmax(x, -1))
    found = ops.cross_entropy(x, torch.arange(3))
    torch.testing.assert_close(found, F.cross_entropy(x, torch.arange(3)))
    assert len(kept["softmax"]) == len(kept["cross_entropy"]) == 1


def test_addresses_strides_and_ranks_have_launches_of_their_own(kept):
    big = randn(6, 80)
    views = (big[:, :64], big[:, 1:65], big[:, 4:68], big[:, :64].contiguous())
    views += (randn(2, 3, 64), randn(3, 2, 64), big[0])
    for _ in range(2):
        for x in views:
            torch.testing.assert_close(ops.softmax(x), torch.softmax(x, -1))
            torch.testing.assert_close(ops.rmsnorm(x), F.rms_norm(x, x.shape[-1:]))
    # big[:, :64] and big[:, 4:68] start on a boundary both.
    assert len(kept["softmax"]) == len(kept["norms"]) == len(views) - 1


def test_one_leading_element_says_nothing_about_others():
    # With one row the stride of the first dimension does not matter; with more it is what separates them.
    storage = randn(4000)
    for M in (1, 3):
        x = storage.as_strided((M, 1, 64), (65, 64, 1))
        torch.testing.assert_close(ops.softmax(x), torch.softmax(x, -1))
        torch.testing.assert_close(ops.rmsnorm(x), F.rms_norm(x, (64,)))


def test_a_vector_of_one_element_may_have_any_stride(monkeypatch):
    # CuTe DSL's kernels are compiled for a stride of 1, which the simulator does not insist on.
    seen, compiled = [], rows.runner_for

    def watched(device, kernel, specs):
        run = compiled(device, kernel, specs)

        def checked(*args):
            vectors = [arg for arg in args if isinstance(arg, torch.Tensor) and arg.dim() == 1]
            seen.extend(vector.stride() for vector in vectors)
            run(*args)

        return checked

    monkeypatch.setattr(rows, "runner_for", watched)
    for name in ("norms", "cross_entropy"):
        module = import_module(f"quack_tutorial.ops.{name}")
        for attribute in ("_kernel", "_backward_kernel", "_fused_kernel"):
            if hasattr(module, attribute):
                monkeypatch.setattr(module, attribute, getattr(module, attribute).__wrapped__)
        for attribute in ("_launches", "_backward_launches", "_fused_launches"):
            monkeypatch.setattr(module, attribute, {}, raising=False)
    norms = import_module("quack_tutorial.ops.norms")
    monkeypatch.setattr(norms, "_column_sum", norms._column_sum.__wrapped__)
    x, w, b = (randn(*shape)[:, 2:3] for shape in ((3, 5), (1, 5), (1, 5)))
    assert_gradients(
        lambda x, w, b: ops.rmsnorm(x, w[0], b[0]) + ops.layernorm(x, w[0], b[0]),
        lambda x, w, b: F.rms_norm(x, (1,), w[0]) + b[0] + F.layer_norm(x, (1,), w[0], b[0]),
        x,
        w,
        b,
    )
    x, target = randn(1, 8), torch.tensor([[3, 4]])[:, 1]
    assert target.is_contiguous() and target.stride() == (2,)
    assert_gradients(lambda x: ops.cross_entropy(x, target), lambda x: F.cross_entropy(x, target), x)
    found = ops.cross_entropy_with_grad(x, target)[0]
    torch.testing.assert_close(found, F.cross_entropy(x, target)[None])
    # 0: the mean's gradient, which is given its stride
    assert len(seen) > 10 and set(seen) == {(1,), (0,)}


@pytest.mark.parametrize("strides", ((1, 100), (8, 3), (0, 0)))
def test_a_tensor_without_elements_may_have_any_strides(strides):
    storage = randn(1000)
    for M in (0, 3, 0):
        x = storage.as_strided((M, 8), strides).detach().requires_grad_()
        for call in (
            ops.softmax,
            ops.rmsnorm,
            ops.layernorm,
            lambda x: ops.rmsnorm(x, residual=x)[0],
            lambda x: ops.cross_entropy(x, torch.arange(len(x)), reduction="sum"),
            lambda x: ops.cross_entropy_with_grad(x.detach(), torch.arange(len(x)))[1].requires_grad_(),
        ):
            if M:
                with pytest.raises(ValueError, match="the last dimension must have stride 1"):
                    call(x)
            else:
                found = call(x)
                found.sum().backward()
                assert found.shape in ((0, 8), ()) and found.sum() == 0


def test_a_number_of_another_type_is_no_call_like_an_earlier_one():
    x, w, target = randn(3, 8), torch.ones(8), torch.arange(3)
    for call in (
        lambda one: ops.rmsnorm(x, w, eps=one),
        lambda one: ops.layernorm(x, w, eps=one),
        lambda one: ops.softmax(x, one),
        lambda one: ops.cross_entropy(x, target, ignore_index=one),
        lambda one: ops.cross_entropy_with_grad(x, target, one),
    ):
        call(1)
        with pytest.raises(TypeError, match="to be (a number|an integer), got True"):
            call(True)
    torch.testing.assert_close(ops.rmsnorm(x, w, eps=1), ops.rmsnorm(x, w, eps=1.0))
    for call in (ops.softmax, lambda x, one: ops.cross_entropy(x, target, ignore_index=one)):
        with pytest.raises(TypeError, match="to be an integer, got 1.0"):
            call(x, 1.0)


def test_launches_are_forgotten_before_they_are_too_many(kept, monkeypatch):
    monkeypatch.setattr(rows, "MOST_KEPT", 4)
    for N in range(1, 11):
        x = randn(2, N)
        torch.testing.assert_close(ops.softmax(x), torch.softmax(x, -1))
        assert 1 <= len(kept["softmax"]) <= 4


def test_what_does_not_fit_together_is_refused_after_calls_like_it():
    x, target = randn(4, 16), torch.arange(4)
    ops.rmsnorm(x, residual=x)
    ops.cross_entropy(x, target)
    for _ in range(2):
        with pytest.raises(ValueError, match="expected a residual like input"):
            ops.rmsnorm(x, residual=x[:3])
        with pytest.raises(ValueError, match=r"got \(4, 16\) and \(3,\)"):
            ops.cross_entropy(x, target[:3])
        with pytest.raises(IndexError, match="target 16 is out of bounds"):
            ops.cross_entropy(x, target + 13)
        with pytest.raises(ValueError, match="at least one class"):
            ops.cross_entropy(x[:, :0], target)
        with pytest.raises(ValueError, match="dim=0"):
            ops.softmax(x, 0)


def test_gradients_are_asked_for_after_calls_like_it():
    x = randn(4, 16)
    plain = ops.softmax(x)
    x.requires_grad_()
    assert not plain.requires_grad and ops.softmax(x).requires_grad
    with torch.no_grad():
        assert not ops.softmax(x).requires_grad
    with torch.inference_mode():
        assert torch.equal(ops.softmax(x), plain)
    weight = torch.nn.Parameter(torch.ones(16))
    assert ops.rmsnorm(plain, weight).requires_grad
    assert ops.cross_entropy(x, torch.arange(4)).requires_grad


class Named(torch.Tensor):
    """A subclass that counts the operations that reach it."""

    seen = 0

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.seen += "quack_tutorial" in str(function)
        return super().__torch_function__(function, types, args, kwargs)


def test_subclasses_see_the_operation():
    x = randn(4, 16)
    ops.softmax(x)
    out = ops.softmax(x.as_subclass(Named))
    assert type(out) is Named and Named.seen == 1

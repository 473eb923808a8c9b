"""Launches kept for calls like earlier ones: when they may be taken, and when not; on CPU tensors, the simulator."""

from importlib import import_module

import pytest

torch = pytest.importorskip("torch")

from quack_tutorial import ops  # noqa: E402

F = torch.nn.functional
rows = import_module("quack_tutorial.ops.rows")
NAMES = ("softmax", "rmsnorm", "cross_entropy")


@pytest.fixture(autouse=True)
def kept(monkeypatch):
    """The launches of each operation, none at first."""
    dictionaries = {name: {} for name in NAMES}
    for name, launches in dictionaries.items():
        monkeypatch.setattr(import_module(f"quack_tutorial.ops.{name}"), "_launches", launches)
    return dictionaries


def randn(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def test_any_number_of_rows_shares_one_launch(kept):
    w, r = randn(40), randn(9, 40)
    for M in (3, 0, 9, 1):
        x, target = randn(M, 40), torch.arange(M)
        torch.testing.assert_close(ops.softmax(x), torch.softmax(x, -1))
        torch.testing.assert_close(ops.rmsnorm(x, w), F.rms_norm(x, (40,), w))
        torch.testing.assert_close(ops.rmsnorm(x, residual=r[:M])[1], x + r[:M])
        torch.testing.assert_close(ops.cross_entropy(x, target), F.cross_entropy(x, target), equal_nan=True)
    assert [len(kept[name]) for name in NAMES] == [1, 2, 1]


def test_the_first_call_may_have_no_rows(kept):
    assert ops.softmax(randn(0, 24)).shape == (0, 24)
    assert ops.cross_entropy(randn(0, 24), torch.arange(0)).isnan()
    x = randn(3, 24)
    torch.testing.assert_close(ops.softmax(x), torch.softmax(x, -1))
    torch.testing.assert_close(ops.cross_entropy(x, torch.arange(3)), F.cross_entropy(x, torch.arange(3)))
    assert len(kept["softmax"]) == len(kept["cross_entropy"]) == 1


def test_addresses_strides_and_ranks_have_launches_of_their_own(kept):
    big = randn(6, 80)
    views = (
        big[:, :64],
        big[:, 1:65],
        big[:, 4:68],
        big[:, :64].contiguous(),
        randn(2, 3, 64),
        randn(3, 2, 64),
        big[0],
    )
    for _ in range(2):
        for x in views:
            torch.testing.assert_close(ops.softmax(x), torch.softmax(x, -1))
            torch.testing.assert_close(ops.rmsnorm(x), F.rms_norm(x, x.shape[-1:]))
    # big[:, :64] and big[:, 4:68] start on a boundary both.
    assert len(kept["softmax"]) == len(kept["rmsnorm"]) == len(views) - 1


def test_one_leading_element_says_nothing_about_others():
    # With one row the stride of the first dimension does not matter; with more it is what separates them.
    storage = randn(4000)
    for M in (1, 3):
        x = storage.as_strided((M, 1, 64), (65, 64, 1))
        torch.testing.assert_close(ops.softmax(x), torch.softmax(x, -1))
        torch.testing.assert_close(ops.rmsnorm(x), F.rms_norm(x, (64,)))


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


def test_autocast_begins_and_ends():
    x, target = randn(4, 16, dtype=torch.bfloat16), torch.arange(4)
    for _ in range(2):
        assert ops.cross_entropy(x, target).dtype == torch.bfloat16
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert ops.cross_entropy(x, target).dtype == torch.float32


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


def test_tracing_records_the_operation():
    x, target = randn(4, 16), torch.arange(4)
    ops.softmax(x), ops.cross_entropy(x, target)
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(lambda x, target: ops.cross_entropy(ops.softmax(x), target))(x, target)
    called = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
    assert [name for name in called if "quack" in name] == [
        "quack_tutorial.softmax.default",
        "quack_tutorial.cross_entropy.default",
    ]


def test_another_current_device_is_changed_for_the_launch_only(monkeypatch):
    # Two GPUs, of which the one that is not current has the tensor: as torch.cuda would have it.
    current, log = [0], []

    class Device:
        def __init__(self, device):
            self.index = device.index

        def __enter__(self):
            self.before, current[0] = current[0], self.index

        def __exit__(self, *_):
            current[0] = self.before

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: current[0], raising=False)
    monkeypatch.setattr(torch.cuda, "device", Device)
    for index in (0, 1):
        rows.guarded(lambda: log.append(current[0]), torch.device("cuda", index))()
    assert log == [0, 1] and current == [0]

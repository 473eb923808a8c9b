"""What answers `import torch` in a web page, against torch itself: numbers, types, texts, and what is refused."""

import math

import numpy as np
import pytest

from cutesim import torch_answer

torch = pytest.importorskip("torch")
ours = torch_answer.module()


def both(make):
    """The same lines with torch and with the answer."""
    return make(torch), make(ours)


def same(theirs, mine):
    assert str(theirs.dtype) == str(mine.dtype)
    assert tuple(theirs.shape) == tuple(mine.shape)
    assert theirs.tolist() == mine.tolist() or np.array_equal(theirs.numpy(), mine.numpy(), equal_nan=True)


MAKERS = {
    "arange": lambda t: t.arange(32.0),
    "arange of whole numbers": lambda t: t.arange(3, 20, 4, dtype=t.int32),
    "linspace of an odd number": lambda t: t.linspace(-1, 1, 7),
    "tensor of numbers": lambda t: t.tensor([[1.5, 2.0], [3.0, -math.inf]]),
    "tensor of whole numbers": lambda t: t.tensor([1, 2, 3]),
    "tensor of conditions": lambda t: t.tensor([True, False]),
    "full": lambda t: t.full((2, 3), -math.inf),
    "full of a whole number": lambda t: t.full((32,), 7),
    "full of a power": lambda t: t.full((4,), (-1.0) ** 3),
    "ones_like": lambda t: t.ones_like(t.zeros(3, dtype=t.int32)),
    "view": lambda t: t.arange(12.0).view(3, 4).T,
    "int32 bits": lambda t: (1 << t.arange(32)).to(t.int32),
    "twice": lambda t: 2 * t.arange(5, dtype=t.int32),
    "whole and point": lambda t: t.arange(3) * 0.5,
    "divided whole": lambda t: t.arange(4) / 3,
    "float32 and a number": lambda t: t.arange(4.0) + 1e-9,
    "float32 and float64": lambda t: t.arange(4.0) + t.arange(4.0).double(),
    "float32 and a float64 without dimensions": lambda t: t.arange(4.0) + t.tensor(1.0, dtype=t.float64),
    "bfloat16 rounding": lambda t: t.tensor([257.0, 1 / 3]).bfloat16().float(),
    "bfloat16 sum": lambda t: (t.tensor([257.0, 1 / 3]).bfloat16() + t.tensor([1.0, 2.0]).bfloat16()).float(),
    "half": lambda t: t.tensor([65504.0, 1e6, 1e-8]).half(),
    "power": lambda t: t.arange(5.0) ** 2,
    "remainder": lambda t: t.arange(-4, 4) % 3,
    "differ": lambda t: (t.arange(6.0) != t.tensor([0.0, 1, 5, 3, 9, 5])).nonzero().flatten(),
    "any along": lambda t: (t.arange(6).view(2, 3) > 3).any(dim=0),
    "sum of whole numbers": lambda t: t.arange(1, 129, dtype=t.int32).sum(),
    "sum along": lambda t: t.arange(12.0).view(3, 4).sum(dim=1),
    "cumsum": lambda t: t.arange(1.0, 33.0).cumsum(0),
    "amax": lambda t: t.arange(12.0).view(3, 4).amax(1).repeat_interleave(2),
    "flip": lambda t: t.arange(5.0).flip(0),
    "max along": lambda t: t.tensor([[1.0, 5.0], [7.0, 2.0]]).max(dim=1).indices,
    "where": lambda t: t.where(t.arange(4) > 1, t.arange(4.0), -1.0),
    "set": lambda t: _set(t),
    "in place": lambda t: _in_place(t),
    "masked": lambda t: t.arange(4.0).masked_fill(t.arange(4) > 2, -math.inf),
    "logsumexp": lambda t: t.full((2, 3), -math.inf).logsumexp(1),
    "log_softmax": lambda t: t.log_softmax(t.zeros(2, 8), -1),
    "log_softmax of large numbers": lambda t: t.log_softmax(t.tensor([[1000.0, 0.0], [-1000.0, 0.0]]).double(), -1),
    "manual seed, few": lambda t: _seeded(t).randn(7),
    "rand": lambda t: _seeded(t).rand(9),
    "randint": lambda t: _seeded(t).randint(100, (9,)),
    "generator, few": lambda t: t.randn(3, generator=t.Generator().manual_seed(4)),
}


def _set(t):
    x = t.zeros(2, 4)
    x[0, :2] = t.tensor([1.0, 2.0])
    x[:, 3] = 7
    return x


def _in_place(t):
    x = t.arange(4.0)
    y = x.view(2, 2)
    y += 1
    x[0] = 9
    return y


def _seeded(t):
    t.manual_seed(5)
    return t


@pytest.mark.parametrize("name", MAKERS)
def test_numbers_and_types_are_torchs(name):
    same(*both(MAKERS[name]))


@pytest.mark.parametrize("shape", [(32,), (3, 500), (6, 77), (20,), (1, 1024)])
def test_randn_is_torchs_but_for_the_last_bits(shape):
    """torch takes logarithm, sine and cosine of float32 itself, differently on each processor."""
    for _ in range(2):
        theirs, mine = both(lambda t: _seeded(t).randn(*shape))
        np.testing.assert_allclose(theirs.numpy(), mine.numpy(), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t.arange(32.0) * 2,
        lambda t: t.arange(3),
        lambda t: t.zeros(3),
        lambda t: t.tensor([1.0, math.nan, -math.inf]),
        lambda t: t.tensor([0.5, math.nan, -math.inf]),
        lambda t: t.tensor([1e-6, 1.0]),
        lambda t: t.tensor([123456.0, 1.0]),
        lambda t: t.tensor([1e9, 1.5]),
        lambda t: t.tensor(2.5),
        lambda t: t.arange(24.0).view(2, 3, 4),
        lambda t: t.linspace(-1, 1, 33),
        lambda t: t.arange(40.0).view(2, 20) / 3,
        lambda t: t.arange(3, dtype=t.int32),
        lambda t: t.arange(3.0).double(),
        lambda t: t.tensor([1.0, 2.5]).bfloat16(),
        lambda t: t.arange(4) > 2,
        lambda t: t.arange(2000.0),
        lambda t: t.arange(4000.0).view(40, 100),
        lambda t: t.empty(0),
        lambda t: t.arange(4.0).view(2, 2)[0, 1],
    ],
)
def test_a_tensor_prints_as_torch_prints_it(make):
    theirs, mine = both(make)
    assert str(mine) == str(theirs)


def test_an_array_of_numpy_shares_its_bytes():
    x = ours.zeros(4)
    x.view(2, 2).T.numpy()[1, 0] = 3
    assert x.tolist() == [0, 3, 0, 0]


def test_close_numbers_pass_and_others_are_named():
    ours.testing.assert_close(ours.tensor([1.0, 2.0]), ours.tensor([1.0, 2.000001]))
    with pytest.raises(AssertionError, match=r"1 of 2 numbers; at \(1,\) 2.0 where 2.09"):
        ours.testing.assert_close(ours.tensor([1.0, 2.0]), ours.tensor([1.0, 2.1]))
    with pytest.raises(AssertionError, match="dtypes differ"):
        ours.testing.assert_close(ours.tensor([1]), ours.tensor([1.0]))


def test_what_is_missing_says_so():
    with pytest.raises(AttributeError, match=r"not in this page: torch.fft .* run this cell in the notebook"):
        _ = ours.fft
    with pytest.raises(AttributeError, match="not in this page: Tensor.backward"):
        ours.zeros(1).backward()
    with pytest.raises(RuntimeError, match="the device 'cuda'"):
        ours.zeros(1, device="cuda")


def test_the_simulator_takes_its_tensors(monkeypatch):
    from cutesim.memory.arguments import as_array

    monkeypatch.setitem(__import__("sys").modules, "torch", ours)
    x = ours.tensor([1.0, 257.0]).bfloat16()
    bits, dtype = as_array(x)
    assert (bits.tolist(), str(dtype)) == ([0x3F80, 0x4380], "BFloat16")
    bits[0] = 0x4000
    assert x.float().tolist() == [2.0, 256.0]
    assert as_array(ours.zeros(3) > 1)[0].dtype == np.uint8

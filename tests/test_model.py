"""The small transformer: its parts against formulas written out, and the same losses whoever computes norms and loss."""

import math

import pytest

torch = pytest.importorskip("torch")

from quack_tutorial import model


def losses_of(operations, data, **config):
    torch.manual_seed(0)
    return model.train(model.Model(model.Config(**config), operations), data)


def test_our_kernels_train_as_torchs_own_do():
    data = model.batches(model.sums(200), B=2, T=8, steps=3)
    stock = losses_of(model.STOCK, data, width=32, layers=1, heads=2, hidden=32)
    ours = losses_of(model.OURS, data, width=32, layers=1, heads=2, hidden=32)
    torch.testing.assert_close(ours, stock, atol=1e-5, rtol=0)
    assert stock[0] == pytest.approx(math.log(256), abs=0.2)  # it knows nothing yet


def test_it_learns():
    data = model.batches(model.sums(1000), B=8, T=32, steps=60)
    losses = losses_of(model.STOCK, data, width=32, layers=1, heads=2, hidden=64)
    assert losses[-5:].mean() < 3.2 < losses[0]


@pytest.mark.parametrize("operations", [model.STOCK, model.OURS])
def test_a_norm_gives_the_sum_and_its_norm(operations):
    x, r, w = torch.randn(4, 32), torch.randn(4, 32), torch.rand(32)
    h = (x + r).double()
    wanted = h / (h.square().mean(-1, keepdim=True) + model.EPS).sqrt() * w
    norm, total = operations.norm(x, r, w)
    torch.testing.assert_close((norm.double(), total), (wanted, x + r), atol=1e-5, rtol=1e-5)
    norm, total = operations.norm(x, None, w)
    assert total is x
    torch.testing.assert_close(norm, torch.nn.functional.rms_norm(x, (32,), w, model.EPS))


def test_rotary_positions_make_products_depend_on_the_distance_alone():
    net = model.Model(model.Config(width=32, heads=2))
    cos, sin = net.positions(torch.zeros(1, 10))
    q, k = torch.randn(16), torch.randn(16)
    turned_q, turned_k = (model.turned(x.expand(10, 16), cos, sin) for x in (q, k))
    products = turned_q @ turned_k.T
    for distance in range(5):
        along = products.diagonal(distance)
        torch.testing.assert_close(along, along[:1].expand_as(along), atol=1e-4, rtol=1e-4)


def test_tokens_of_two_bytes_are_pairs_of_the_text():
    text = b"12+3=15\n"
    one = model.batches(text, B=2, T=4, steps=1)
    two = model.batches(text, B=2, T=2, steps=1, bytes_a_token=2)
    assert one.shape == (1, 2, 5) and two.shape == (1, 2, 3)
    assert all(bytes(row.tolist()) in text for row in one[0])
    assert set(two.flatten().tolist()) <= {text[i] + 256 * text[i + 1] for i in range(0, 8, 2)}


def test_traffic_is_what_each_operation_reads_and_writes():
    x = torch.randn(8, 64).bfloat16().requires_grad_()
    with model.Traffic() as traffic:
        (x.float() * 2.0).T.sum().backward()
    moved = {name: (read, written) for name, read, written in traffic.rows if read + written > 8}
    elements = 8 * 64
    assert moved["mul.Tensor"] == (4 * elements + 0, 4 * elements)
    assert moved["_to_copy"] in ((2 * elements, 4 * elements), (4 * elements, 2 * elements))
    assert not any("t.default" == name or "transpose" in name for name in moved)


def test_a_norm_written_out_moves_as_many_bytes_as_chapter_15_says():
    x, w = torch.randn(256, 1024).bfloat16().requires_grad_(), torch.ones(1024).bfloat16().requires_grad_()
    dy = torch.randn_like(x)
    with model.Traffic() as forward:
        h = x.float()
        y = w * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)
    with model.Traffic() as backward:
        y.backward(dy)
    # The gradient of the mean, one number a row, counts as a matrix.
    assert [round(each.total / x.numel()) for each in (forward, backward)] == [36, 92 + 4]


def test_the_loss_moves_as_many_bytes_as_the_chapter_says():
    logits, target = torch.randn(16, 256).bfloat16(), torch.randint(256, (16,))
    for operations, wanted in ((model.STOCK, 36), (model.STOCK_16, 12), (model.OURS, 6)):
        leaf = logits.clone().requires_grad_()
        with model.Traffic() as traffic:
            operations.loss(leaf, target).backward()
        assert round(traffic.total / logits.numel()) == wanted
        rows = [line.split() for line in traffic.table(logits.numel()).splitlines()[1:]]
        assert sum(int(read) + int(written) for *_, read, written in rows) == wanted

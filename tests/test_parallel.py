"""Cross-entropy over a vocabulary in parts, with 2 processes on the CPU, against float64 on whole rows."""

import pytest

torch = pytest.importorskip("torch")

from quack_tutorial import parallel  # noqa: E402

gloo = torch.distributed.is_available() and torch.distributed.is_gloo_available()


@pytest.mark.skipif(not gloo, reason="this torch has no gloo")
@pytest.mark.parametrize("N", [128, 2048])  # one thread and several warps have a row's part that is all -inf
def test_two_ranks_agree_with_float64_and_with_each_other(N):
    found = parallel.run(2, parallel.check, 12, N)
    for result in found:
        assert result["loss_error"] < 5e-6
        assert result["gradient_error"] < 1e-6
    assert torch.equal(found[0]["loss"], found[1]["loss"])
    assert found[0]["loss"][0] == 0 and (found[0]["loss"][1:] > 0).all()  # row 0 is ignored


@pytest.mark.parametrize("parts", [1, 2, 8])
def test_parts_combine_to_the_whole_rows_sum(parts):
    x = 20 * torch.randn(6, 64)
    x[1, :32] = -torch.inf  # parts without a number
    x[2] = -torch.inf
    x[3, 5] = torch.inf
    x[4, 5] = torch.nan
    of_parts = torch.stack([part.logsumexp(1) for part in x.chunk(parts, dim=1)])
    found, wanted = parallel.combined(of_parts), x.double().logsumexp(1)
    torch.testing.assert_close(found[[0, 1, 2, 5]].double(), wanted[[0, 1, 2, 5]], atol=1e-5, rtol=1e-6)
    assert found[3].isnan() or found[3] == torch.inf
    assert found[4].isnan()

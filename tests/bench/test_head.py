"""`quack-tutorial head`: the ways that run without a GPU, against torch in float64."""

import pytest

torch = pytest.importorskip("torch")

from bench import head


def test_a_record_is_read_as_it_was_written(tmp_path):
    pytest.importorskip("matplotlib")
    from quack_tutorial.figures import training as charts
    from quack_tutorial.records import head as records
    from quack_tutorial.records import save

    assert records.load(tmp_path / "h200.json") is None
    shape = head.measure(6, 4, 40, Once(), "cpu", torch.float32)
    shape["ways"]["QuACK"] = {"status": "failed", "message": "no"}
    device = {"device": "NVIDIA H200", "driver": "0.0"}
    device |= {"date": "2026-01-02 03:04", "versions": {"torch": "0.1"}}
    save(tmp_path / "h200.json", device | {"shapes": [shape]})
    found = records.load(tmp_path / "h200.json")
    assert found.shape(4, 40).failed == {"QuACK": "no"} and found.shape(4, 40).way("ours").ms == 1.0
    assert found.shape(4, 40).way("matrix products").peak_bytes is None
    for wrong in (lambda: found.shape(4, 41), lambda: found.shape(4, 40).way("Liger")):
        with pytest.raises(KeyError, match="there are"):
            wrong()
    chart = charts.head(found, 4, 40)
    assert chart.rows[0] == ("stock", "6 x 4 x 40", "1.00", "0.00")
    assert "torch 0.1" in chart._repr_html_()


class Once:
    """In place of a clock."""

    def peak_bytes(self, call, standing):
        return standing

    def interleaved_ms(self, calls):
        for call in calls.values():
            call()
        return {name: [1.0] for name in calls}


def test_every_way_gives_the_loss_and_both_gradients():
    shape = head.measure(6, 4, 40, Once(), "cpu", torch.float32)
    ours = {"ours", "ours, in pieces", "ours, quarters"}
    assert set(shape["ways"]) == ours | {"stock", "torch, in pieces", "matrix products"}
    for name, way in shape["ways"].items():
        assert way["samples_ms"] == [1.0]
        if name != "matrix products":
            assert way["loss_error"] < 1e-6 and way["gradient_error"] < 1e-6
            assert way["peak_bytes"] == 2 * 4 * (6 * 4 + 40 * 4) + 8 * 6
    assert "matrix products" in head.said(shape)

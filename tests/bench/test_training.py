"""`quack-tutorial model`: what a variant leaves in the record, and what the chapter reads from it."""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from bench import training
from quack_tutorial.records import save
from quack_tutorial.records import training as records

SMALL = training.Sizes(vocabulary=256, width=32, layers=1, heads=2, hidden=32, dtype="float32", B=1, T=8, steps=12)
HEAD = {"device": "NVIDIA H200", "driver": "0.0", "versions": {"torch": "0.0"}}
HEAD |= {"sizes": {**training.asdict(SMALL)}, "date": "2026-01-02 03:04"}


def variant(name, losses=(3.0, 2.0, 1.0, 1.0), step_ms=(90.0, 9.0, 4.0, 6.0)):
    made = {"name": name, "status": "ok", "losses": list(losses), "step_ms": list(step_ms)}
    return made | {"standing_bytes": 10**9, "peak_bytes": 3 * 10**9, "kernels": 700}


def test_a_variant_keeps_a_loss_and_a_time_a_step():
    stock = training.train_variant("stock", SMALL, "cpu")
    ours = training.train_variant("ours", replace(SMALL, steps=2), "cpu")
    assert len(stock["losses"]) == len(stock["step_ms"]) == SMALL.steps
    assert stock["losses"][0] == pytest.approx(ours["losses"][0], abs=1e-4)
    assert all(ms > 0 for ms in stock["step_ms"])


def test_a_llama_loses_the_same_with_our_norms_and_loss_and_its_process_is_told_which_model():
    pytest.importorskip("transformers")
    sizes = replace(SMALL, vocabulary=65536, heads=4, T=16, of="llama")
    stock, ours = (training.train_variant(name, sizes, "cpu") for name in ("stock", "ours"))
    assert stock["losses"] == pytest.approx(ours["losses"], rel=1e-4)
    own = training.train_variant("stock", replace(sizes, of="own"), "cpu")
    assert abs(own["losses"][0] - stock["losses"][0]) > 1e-3  # another model


def test_every_variant_names_operations_that_the_model_has():
    from quack_tutorial import model

    assert all(hasattr(model, which) for which, _ in training.VARIANTS.values())


def test_the_chapter_draws_a_record_as_it_was_written_or_says_that_there_is_none(tmp_path):
    pytest.importorskip("matplotlib")
    from quack_tutorial.figures import training as charts

    path = tmp_path / "h200.json"
    assert records.load(path) is None
    for chart in (charts.losses, charts.costs):
        assert "Not yet measured" in chart(None).html
    failed = {"name": "Liger", "status": "failed", "message": "no such module"}
    save(path, HEAD | {"variants": [variant("stock"), variant("ours", step_ms=(9, 9, 3, 3)), failed]})
    found = records.load(path)
    assert [v.name for v in found.variants] == ["stock", "ours"]
    assert found.failed == {"Liger": "no such module"}
    assert found.variant("stock").ms == 5.0 and found.variant("ours").last_mean == 1.75
    assert "NVIDIA H200" in found.origin and "12 steps" in found.what
    with pytest.raises(KeyError, match="there are stock, ours"):
        found.variant("QuACK")
    assert charts.costs(found).rows[1] == ("ours", "3.00", "3.00", "1.00", "700")
    assert "drift: ours, 3.0 ms. Least" in charts.costs(found)._repr_html_()
    assert charts.losses(found).rows[1] == ("ours", "3.0000", "1.7500", "+0.0000")
    assert "Measured on NVIDIA H200" in charts.losses(found)._repr_html_()

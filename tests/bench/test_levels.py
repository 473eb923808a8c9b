"""`quack-tutorial levels`: what it checks and keeps, what chapter 16 shows of it, and that it stops without a GPU."""

import types

import pytest

torch = pytest.importorskip("torch")

from bench import levels
from quack_tutorial import cli, compiler, machine
from quack_tutorial.records import levels as records
from tests.bench import host_gpu


def softmax(x, out):
    out.copy_(torch.softmax(x.double(), -1))


def half_a_softmax(x, out):
    """Leaves the last rows as they were."""
    out[:-1].copy_(torch.softmax(x[:-1].double(), -1))


@pytest.fixture
def without_a_gpu(monkeypatch):
    """The command on this machine's CPU: kernels are torch's, a graph is a list of calls, times are made up."""
    pytest.importorskip("cutlass", reason="CuTe DSL is not installed")
    from bench import ours  # noqa: F401

    on_cpu, times = torch.randn, ["copy", "warp tile", "template", "overlapping", "what ships"]
    host_gpu.play(monkeypatch, lambda name: times.index(name) + 1.0, l2_bytes=1 << 16)
    monkeypatch.setattr(torch, "randn", lambda *shape, device=None, **rest: on_cpu(*shape, **rest))
    monkeypatch.setattr(machine, "detect", lambda: types.SimpleNamespace(device="cuda", driver="0.1"))
    monkeypatch.setattr(levels, "SIZES", (("float32", 64, 1024), ("bfloat16", 64, 2048)))
    monkeypatch.setattr(compiler, "compile_for", lambda host, *specs: softmax)
    return monkeypatch


def test_a_record_is_made_where_no_folder_was_and_read(without_a_gpu, tmp_path):
    out = tmp_path / "levels" / "h200.json"
    assert records.load(out) is None
    assert cli.main(["levels", "--out", str(out)]) == 0
    found = records.load(out)
    assert [(cell.dtype, cell.M, cell.N) for cell in found.cells] == list(levels.SIZES)
    cell = found.cells[0]
    assert list(cell.us) == ["copy", "warp tile", "template", "overlapping", "what ships"]
    assert cell.bytes_moved == 2 * 64 * 1024 * 4
    assert cell.of_copy("overlapping") == 1 / 4 and cell.gb_s("warp tile") == cell.bytes_moved / 2e3
    assert found.origin.startswith("Measured on NVIDIA H200, driver 0.1, torch ")


def test_a_wrong_kernel_is_not_recorded(without_a_gpu, tmp_path, capsys):
    without_a_gpu.setattr(compiler, "compile_for", lambda host, *specs: half_a_softmax)
    assert cli.main(["levels", "--out", str(tmp_path / "wrong.json")]) == 1
    assert not (tmp_path / "wrong.json").exists()
    assert "inf of the tolerance" in capsys.readouterr().out


def test_the_chart_says_what_the_record_says_or_that_there_is_none():
    pytest.importorskip("matplotlib")
    from quack_tutorial.figures import measuring as charts

    assert "Not yet measured" in charts.levels(None).html
    us = {"copy": 2.0, "template": 4.0, "overlapping": 2.5, "what ships": 2.0}
    kept = {"device": "NVIDIA H200", "driver": "0.1"}
    kept |= {"date": "2026-01-02 03:04", "datasheet_gb_s": 4800}
    kept["versions"] = {"torch": "0.2", "nvidia-cutlass-dsl": "0.3"}
    chart = charts.levels(records.Levels(kept, (records.Cell("float32", 2048, 1024, 2_400_000, us),)))
    assert "Overlap saves the template 1.50 of 4.0 us at 2,048 x 1,024 float32" in chart.summary
    assert chart.rows[0] == ("float32, 2,048 x 1,024", "copy", "2.00", "1,200", "100%", "25%")
    assert chart.rows[2][4] == "80%" and chart._repr_html_().count("<svg") == 2

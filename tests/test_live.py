"""Explorers that run kernels: what a slider's move says, on the simulator and against the records."""

import sys
from dataclasses import replace

import pytest

from quack_tutorial import cost, live
from quack_tutorial.records import memory


def test_a_moved_slider_runs_the_kernel_again(monkeypatch, capsys):
    monkeypatch.delenv("QUACK_TUTORIAL_PROGRESS", raising=False)
    pytest.importorskip("ipywidgets", reason="ipywidgets is not installed, whose sliders are moved")
    panel = live.strides("cpu")
    stride, offset, output = panel.children
    assert (stride.description, offset.description) == ("stride", "offset") and stride.value == 1
    panel.update()
    said = capsys.readouterr().out
    stride.value = 8
    again = capsys.readouterr().out
    assert "4.0 sectors a request" in said and "32.0 sectors a request" in again


@pytest.mark.parametrize("stride, offset, sectors", [(1, 0, 4), (1, 1, 5), (2, 0, 8), (32, 0, 32)])
def test_strides_are_simulated_and_compared_with_the_record(stride, offset, sectors, capsys):
    live.say_stride("cpu", stride, offset)
    said = capsys.readouterr().out
    assert f"{sectors}.0 sectors" in said
    (point,) = [p for p in memory.load().series("stride") if p.name == f"{stride} + {offset}"]
    assert f"{128 / point.ns:,.0f} GB/s" in said


def test_streams_say_what_the_model_and_the_record_say(capsys, monkeypatch):
    model = cost.predict(1, 32768, memory.load()).gb_s
    live.say_stream("cpu", 16, 1, 2048)
    said = capsys.readouterr().out
    assert f"model of an H100: {model:,.0f} GB/s" in said and "32,768 bytes in flight" in said
    recorded = memory.load().point("in flight", "16 x 1 x 2048").gb_s
    assert "recorded on an H100: " in said and f"{recorded:,.0f} GB/s" in said
    slow = replace(memory.load(), rows=tuple(replace(p, ns=20 * p.ns) for p in memory.load().points))
    monkeypatch.setattr(memory, "own", lambda: slow)
    live.say_stream("cpu", 16, 1, 2048)
    own = capsys.readouterr().out
    assert f"model of this machine: {model / 20:,.0f} GB/s" in own
    assert own.splitlines()[2] == said.splitlines()[2]  # the record stays
    live.say_stream("cpu", 16, 8, 2048)
    assert "not recorded" in capsys.readouterr().out


def test_a_version_asks_for_what_it_reads(capsys):
    pytest.importorskip("torch", reason="torch is not installed, whose tensors the kernel gets")
    live.say_version("cpu", "three-pass", "float32", 1024)
    assert "0.625 operations a byte" in (said := capsys.readouterr().out)
    assert "2.00 times the bytes" in said
    live.say_version("cpu", "registers", "bfloat16", 1024)
    assert "1.25 operations a byte" in (said := capsys.readouterr().out)
    assert "1.00 times the bytes" in said


def test_a_build_has_no_sliders_nor_has_who_lacks_ipywidgets(monkeypatch, capsys):
    monkeypatch.setenv("QUACK_TUTORIAL_PROGRESS", "0")
    assert live.strides("cpu") is None and capsys.readouterr().out == ""
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    monkeypatch.delenv("QUACK_TUTORIAL_PROGRESS", raising=False)
    assert live.strides("cpu") is None
    said = capsys.readouterr().out
    assert "pip install ipywidgets" in said and "stride 1, offset 0:" in said

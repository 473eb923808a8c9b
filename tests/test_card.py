"""Which card is selected: the one that the environment names, this machine's, or the book's."""

import json
import types

import pytest

from quack_tutorial import card, cost, hardware, machine, records
from quack_tutorial.records import memory
from tests.nvml import Nvml


@pytest.fixture(autouse=True)
def looked_at_anew(monkeypatch):
    monkeypatch.delenv(card.VARIABLE, raising=False)
    card.here.cache_clear()
    yield
    card.here.cache_clear()


def with_gpu(monkeypatch, name, capability=(9, 0), **numbers):
    monkeypatch.setattr(machine, "find_gpu", lambda: {"gpu": name, "compute_capability": capability})
    monkeypatch.setattr(machine, "gpu_numbers", lambda name: numbers or None)


def test_the_environment_comes_before_the_machine_and_the_machine_before_the_book(monkeypatch):
    with_gpu(monkeypatch, None)
    assert card.here() is None and card.selected().card == card.BOOK
    card.here.cache_clear()
    with_gpu(monkeypatch, "NVIDIA H100 80GB HBM3")
    assert card.selected().card == "h100" and card.nearest_recorded(("h200", "h100")) == "h100"
    monkeypatch.setenv(card.VARIABLE, "h200")
    assert card.selected().card == "h200"
    monkeypatch.setenv(card.VARIABLE, "h300")
    with pytest.raises(KeyError, match="no GPU 'h300'"):
        card.selected()


def test_a_gpu_that_the_table_lacks_is_what_the_driver_says(monkeypatch):
    with_gpu(monkeypatch, "NVIDIA A10G", (8, 6), sms=80, bandwidth_gb_s=600, memory_gb=24)
    found = card.selected()
    got = (found.card, found.sms, found.threads_per_sm, found.capability)
    assert got == ("a10g", 80, 1536, (8, 6))
    assert card.nearest_recorded(("h200", "h100")) == "h100"
    card.here.cache_clear()
    with_gpu(monkeypatch, "NVIDIA Unheard")  # of which the driver says nothing
    assert card.selected().card == card.BOOK


def test_the_driver_is_asked_for_sms_and_bandwidth(monkeypatch):
    numbers = dict(NumGpuCores=6912, MemoryBusWidth=5120, MaxClockInfo=1593, MemoryInfo=80 << 30)
    monkeypatch.setattr(machine, "load_nvml", lambda: Nvml([("NVIDIA A100X", (8, 0))], **numbers))
    wanted = {"sms": 108, "bandwidth_gb_s": 2039, "memory_gb": 86}
    assert machine.gpu_numbers("NVIDIA A100X") == wanted
    assert machine.gpu_numbers("another") is None
    monkeypatch.setattr(machine, "load_nvml", lambda: None)
    assert machine.gpu_numbers("NVIDIA A100X") is None


def test_records_are_those_of_the_card_or_of_the_one_most_like_it(monkeypatch):
    with_gpu(monkeypatch, "NVIDIA B200", (10, 0))
    assert records.folder().name in records.WHOLE
    assert records.folder("h100").name == "h100"
    monkeypatch.setenv(card.VARIABLE, "h100")
    assert records.folder().name == "h100"
    said = "nothing is recorded of a card 'l4'; there are h100, h200"
    with pytest.raises(ValueError, match=said):
        records.folder("l4")
    assert set(records.WHOLE) <= set(records.cards())
    assert all(hardware.gpu(name) for name in records.cards())


def keeps(folder, name, device, gb_s, latency_ns):
    """A file as `quack-tutorial memory --keep` writes it, of a GPU with that read and that latency of HBM."""
    kept = {"device": device, "driver": "580", "date": "2026-11-26 10:00"}
    kept |= {"versions": {}, "sms": 80, "datasheet_gb_s": None}
    kept["points"] = [
        {"series": "in flight", "name": "16 x 4 x 2048", "samples_ns": [1 / gb_s] * 3},
        {"series": "chase", "name": str(1 << 30), "samples_ns": [latency_ns] * 3},
    ]
    place = folder / "quack-tutorial" / f"memory-{name}.json"
    place.parent.mkdir(exist_ok=True)
    place.write_text(json.dumps(kept), "utf-8")


def test_predictions_are_of_this_machine_once_it_was_measured(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with_gpu(monkeypatch, "NVIDIA A10G", (8, 6), sms=80, bandwidth_gb_s=600, memory_gb=24)
    recorded = memory.load().bandwidth_gb_s("HBM")
    assert cost.predict(10**9).gb_s == pytest.approx(recorded)
    keeps(tmp_path, "another", "NVIDIA Another", 100, 500)
    assert cost.predict(10**9).gb_s == pytest.approx(recorded)
    keeps(tmp_path, "a10g", "NVIDIA A10G", 500, 600)
    assert cost.predict(10**9).gb_s == pytest.approx(500)
    assert cost.predict(10**9).time_us == pytest.approx(2000)
    # Little's law with its own SMs and latency: 80 x 1,200 bytes in 600 ns are 160 GB/s; with 500 as the other leg
    assert cost.predict(10**9, 1200).gb_s == pytest.approx((160**-2 + 500**-2) ** -0.5)
    assert str(cost.predict(10**9)).endswith("bound by bandwidth (predicted for this machine)")
    # A prediction beside a recorded time is of the record's card.
    assert cost.predict(10**9, hierarchy=memory.load()).gb_s == pytest.approx(recorded)
    assert str(cost.predict(10**9, hierarchy=memory.load())).endswith("(predicted)")
    monkeypatch.setenv(card.VARIABLE, "h200")
    found = cost.predict(10**9).gb_s
    assert found == pytest.approx(memory.load().bandwidth_gb_s("HBM")) != recorded


def test_the_ruler_is_kept_where_predictions_look_for_it(monkeypatch, tmp_path, capsys):
    from bench import memory as measured

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with_gpu(monkeypatch, "NVIDIA A10G", (8, 6), sms=80, bandwidth_gb_s=600, memory_gb=24)
    asked = []

    def measure(ruler_alone):
        asked.append(ruler_alone)
        points = [{"series": "in flight", "name": "16 x 4 x 2048", "samples_ns": [0.002]}]
        return {"device": "NVIDIA A10G", "versions": {}, "sms": 80}, points

    monkeypatch.setattr(measured, "measure", measure)
    found = types.SimpleNamespace(device="cuda", driver="580", reason="")
    monkeypatch.setattr(machine, "detect", lambda: found)
    assert measured.run(types.SimpleNamespace(keep=True, out=None)) == 0 and asked == [True]
    assert cost.predict(10**6).gb_s == pytest.approx(500) and memory.ruler().device == "NVIDIA A10G"
    assert str(memory.kept_at("a10g")) in capsys.readouterr().out


def test_the_ruler_needs_no_kernel_that_ampere_lacks():
    pytest.importorskip("cutlass", reason="CuTe DSL is not installed")
    from bench import memory as measured
    from quack_tutorial import compiler

    every = measured.compiled_cases()
    mine = [case for case in every if case[0].startswith(measured.RULER_KERNELS)]
    assert len(mine) == 2 + len(measured.WIDTHS) * len(measured.LOADS)
    for name, kernel, specs in (mine[0], mine[1], mine[-1]):
        assert compiler.ptx(kernel, *specs, arch="sm_80"), name

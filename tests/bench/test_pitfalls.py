"""`quack-tutorial pitfalls`: its record as the chapter reads it, what it refuses, and its steps with a GPU that is played."""

import contextlib
import itertools
import sys
import types

import pytest

torch = pytest.importorskip("torch")

from bench import pitfalls
from quack_tutorial import card, timing
from quack_tutorial.records import pitfalls as records
from quack_tutorial.records import save

HEAD = {
    "device": "NVIDIA H200",
    "driver": "0.0",
    "date": "2026-01-02 03:04",
    "versions": {"torch": "0.0"},
    "datasheet_gb_s": 4800,
    "failed": {"stream": "RuntimeError: none left"},
}


def made_up():
    """Points of each series that is drawn; no number here was measured."""
    size = {"M": 4096, "N": 1024, "bytes": 16 << 20}
    yield pitfalls.Point("timer", "events around one launch", {"size": "large", **size}, (8.0, 9.0, 10.0))
    for multiple, kept in ((3, 9.8), (16, 10.0)):
        for state, us in (("as it is", kept), ("kept lines released", 10.0), ("cleared", 10.0)):
            yield pitfalls.Point("hint", "a plain copy", {"multiple": multiple, "L2": state, **size}, (us,) * 3)
    for second in range(3):
        facts = {"seconds": second, "sm_mhz": 1900 - second, "watts": 500 + second}
        yield pitfalls.Point("clock", "softmax of zeros", facts, (10.0 + second,))


@pytest.fixture
def recorded(tmp_path):
    path = tmp_path / "h200.json"
    save(path, {**HEAD, "points": [pitfalls.as_row(point) for point in made_up()]})
    return records.load(path)


def test_a_record_is_read_as_it_was_written(recorded):
    assert len(recorded.points) == 10 and recorded.failed == HEAD["failed"]
    (timer,) = recorded.series("timer", size="large")
    assert timer.us == 9.0 and timer.gb_s == pytest.approx((16 << 20) / 9000)
    assert recorded.us("hint", "a plain copy", multiple=3, L2="as it is") == 9.8
    with pytest.raises(KeyError, match="recorded 6 times"):
        recorded.us("hint", "a plain copy")


def test_the_chapters_figures_say_what_the_record_says_or_that_there_is_none(recorded, tmp_path):
    pytest.importorskip("matplotlib")
    from quack_tutorial.figures import measuring as charts

    assert records.load(tmp_path / "none.json") is None
    for nothing in (
        charts.hints(None),
        charts.clocks(None),
        charts.pitfalls(None, "timer"),
        charts.pitfalls(recorded, "L2"),
    ):
        assert "Not yet measured" in nothing.html
    assert "+2.0 %" in charts.hints(recorded).summary  # 10 / 9.8
    assert charts.hints(recorded).rows == (("a plain copy", "9.80", "10.00", "10.00", "10.00"),)
    assert charts.clocks(recorded).rows == (("softmax of zeros", "10.0", "12.0", "1,900", "1,898", "500", "502"),)
    assert "8.00 to 10.00" in charts.pitfalls(recorded, "timer").html
    for chart in (charts.hints(recorded), charts.clocks(recorded)):
        assert chart._repr_html_().count("<svg") == 2 and "Measured on NVIDIA H200" in chart.origin


def test_the_benchmarks_records_are_drawn_for_the_chapter():
    pytest.importorskip("matplotlib")
    from quack_tutorial.figures import measuring as charts
    from quack_tutorial.records.bench import load_records

    with card.taken_for("h200"):  # the chapter, too, shows this card's
        chart = charts.launch_bound(load_records(), "softmax", "bfloat16", 8192, records.host_us("softmax"))
    between, in_graph, copy = (float(value) for value in chart.rows[0][2:])
    assert chart.rows[0][0] == "256" and between > in_graph > copy > 8.4 / 4.8  # MB over TB/s


def test_host_times_are_those_of_the_record():
    assert 1 < records.host_us("softmax") < 100
    with pytest.raises(KeyError, match="no host time"):
        records.host_us("softmax", provider="nobody")


def test_a_gpus_state_is_what_nvml_says(monkeypatch):
    def asked(answer, status=0):
        def ask(*arguments):
            arguments[-1]._obj.value = answer
            return status

        return ask

    nvml = types.SimpleNamespace(
        nvmlInit_v2=lambda: 0,
        nvmlShutdown=lambda: 0,
        nvmlDeviceGetHandleByIndex_v2=asked(1),
        nvmlDeviceGetClockInfo=asked(1980),
        nvmlDeviceGetPowerUsage=asked(650_500),
        nvmlDeviceGetTemperature=asked(0, status=3),
    )
    monkeypatch.setattr(pitfalls.machine, "load_nvml", lambda: nvml)
    assert pitfalls.gpu_state() == {"sm_mhz": 1980, "watts": 650.5}  # what it does not know is left out
    monkeypatch.setattr(pitfalls.machine, "load_nvml", lambda: None)
    assert pitfalls.gpu_state() == {}


class PlayedEvent:
    """An event of a GPU on which each look at the clock is a millisecond later."""

    ticks = itertools.count()

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = next(self.ticks)

    def elapsed_time(self, later):
        return float(later.at - self.at)


@pytest.fixture
def played(monkeypatch):
    """A GPU without kernels: launches do nothing, graphs only count their replays."""
    replays = []

    def capture(call, inputs, launches, pool=None):
        call(*inputs[0])
        graph = types.SimpleNamespace(replay=lambda: replays.append(launches))
        made = types.SimpleNamespace(graph=graph, launches=launches)
        made.released = lambda: made
        return made

    for name, made in {
        "Event": PlayedEvent,
        "Stream": lambda: None,
        "stream": lambda other: contextlib.nullcontext(),
        "synchronize": lambda: None,
        "graph_pool_handle": lambda: None,
        "empty_cache": lambda: None,
    }.items():
        monkeypatch.setattr(torch.cuda, name, made)
    monkeypatch.setattr(timing, "capture", capture)
    monkeypatch.setattr(timing, "clear_l2", lambda: True)
    monkeypatch.setattr(timing, "interleaved_us", lambda graphs, rounds: {name: [1.0] * rounds for name in graphs})
    driver = types.SimpleNamespace(cuCtxResetPersistingL2Cache=lambda: (0,))
    bindings = types.SimpleNamespace(driver=driver)
    modules = {
        "cuda": types.SimpleNamespace(bindings=bindings),
        "cuda.bindings": bindings,
        "cuda.bindings.driver": driver,
    }
    modules["quack_tutorial.plain_kernels"] = types.SimpleNamespace(plain=lambda *settings: lambda x: x)
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr("quack_tutorial.plain_kernels", modules["quack_tutorial.plain_kernels"], raising=False)
    small = torch.zeros(2, 8, dtype=torch.bfloat16)
    monkeypatch.setattr(pitfalls, "_inputs", lambda M, N, count: [(small,)] * count)
    monkeypatch.setattr(pitfalls, "_slots", lambda M, N, multiple: max(1, multiple))
    monkeypatch.setattr(pitfalls, "_softmax", lambda: lambda x: x)
    for name in ("randn", "zeros"):
        monkeypatch.setattr(torch, name, lambda *shape, device, dtype: small.new_ones(8, 8))
    monkeypatch.setattr(pitfalls, "SECONDS", 0.01)
    monkeypatch.setattr(pitfalls.time, "sleep", lambda seconds: None)
    return replays


@pytest.mark.parametrize(
    ("series", "points", "samples"),
    [("timer", 10, 11), ("L2", 3, 11), ("hint", 18, 11), ("stream", 2, 11), ("itself", 4, 40), ("clock", None, 1)],
)
def test_each_series_gives_its_points(played, series, points, samples):
    found = list(pitfalls.SERIES[series]())
    assert points is None or len(found) == points
    assert {(point.series, len(point.samples_us)) for point in found} == {(series, samples)}
    assert all(us >= 0 for point in found for us in point.samples_us)
    places = [(point.name, *map(str, point.facts.values())) for point in found]
    assert series == "clock" or len(set(places)) == len(places)


def test_what_stands_before_a_sample_of_hints_is_the_kernel_that_asks(played):
    list(pitfalls.hints())
    assert len(played) == 2 * 3 * 3 * pitfalls.ROUNDS * 2  # each sample is a replay of the one, then one of the other

"""One cell from start to end with the GPU's part played by the CPU: who is timed, who is not, and what is recorded.

The stand-ins replace the graph, the clock and the ceiling's kernels; set-up, checking and bookkeeping are the real ones.
"""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from bench import measure
from quack_tutorial import timing
from quack_tutorial.operations.softmax import formula as softmax_torch
from quack_tutorial.records import bench as records
from quack_tutorial.records.cells import BEFORE, CellKey
from tests.bench import host_gpu, synthetic

KEY = CellKey("softmax", "float32", 64, 1000)
TIMES = {"ours": 40.0, "eager": 60.0, "quack": 41.0, "other": 50.0}
MOVED = 2 * 64 * 1000 * 4


def provider(call):
    return lambda *inputs: call


def raising(error):
    def setup(*inputs):
        raise error

    return setup


@pytest.fixture
def cell_of(monkeypatch):
    """A function that measures `KEY` with the given set-up functions, their names being the providers."""
    times = TIMES | {("ceiling", "plain copy"): 38.0, ("ceiling", "torch copy"): 39.0}
    host_gpu.play(monkeypatch, times.get, l2_bytes=100_000)
    monkeypatch.setattr(measure.ours, "shipped", lambda *which: ("a" * 64, f"of {which[1]}"))
    monkeypatch.setattr(measure.ceilings, "ceiling_candidates", lambda *args: {"plain copy": None})
    monkeypatch.setattr(measure.ceilings, "own_tile", lambda *args: {"torch copy": None})

    def measured(crashed=None, alone=False, announce=lambda what: None, **setups):
        monkeypatch.setitem(measure.PROVIDERS, "softmax", setups)
        return measure.measure_cell(KEY, list(setups), crashed=crashed, alone=alone, announce=announce)

    return measured


def test_a_cell_begins_with_what_leaves_the_gpu_to_others(cell_of, monkeypatch):
    order = []
    # which forgets all callbacks
    monkeypatch.setattr(torch._dynamo, "reset", lambda: order.append("reset"))
    monkeypatch.setattr(measure.gpu_lock, "give_while_compiling", lambda turn: order.append(turn))
    cell_of(ours=provider(softmax_torch))
    assert order == ["reset", measure.gpu_lock.own_lock()]


def test_providers_that_are_right_are_timed_and_recorded(cell_of, tmp_path, monkeypatch):
    cell = cell_of(ours=provider(softmax_torch), eager=provider(softmax_torch))
    ours = cell.result("ours")
    assert ours.status == "ok"
    assert ours.gb_s == pytest.approx(MOVED / 40e-6 / 1e9, rel=1e-3)
    assert ours.fraction_of_ceiling == pytest.approx(38 / 40, rel=1e-3)
    assert ours.percent_of_datasheet == pytest.approx(100 * ours.gb_s / 4800, rel=1e-3)
    assert ours.do_bench_us == 50
    assert 0 < ours.error <= 1
    assert (ours.ptx_sha256, ours.config) == ("a" * 64, "of ours")
    assert cell.before == BEFORE
    monkeypatch.setattr(timing, "clear_l2", lambda: False)
    assert cell_of(ours=provider(softmax_torch)).before is None
    assert cell.result("eager").ptx_sha256 is None and cell.result("eager").config is None
    assert cell.ceiling == "plain copy"  # the faster of the two
    assert cell.slots * 64 * 1000 * 4 >= 3 * 100_000 and cell.launches % cell.slots == 0
    records.save(synthetic.record(cell), tmp_path / "r.json")
    assert records.load(tmp_path / "r.json").cells == (cell,)


@pytest.mark.parametrize("spread, timings", [(0.0, 1), (0.2, measure.MOST_TIMINGS)])
def test_a_cell_is_timed_again_while_its_ratio_is_not_sure(cell_of, monkeypatch, spread, timings):
    done = []

    def times(replays, rounds):
        done.append(rounds)
        wide = [1 + spread * (turn % 2) for turn in range(rounds)]
        return {name: [TIMES.get(name, 38.0) * (w if name == "eager" else 1) for w in wide] for name in replays}

    monkeypatch.setattr(timing, "interleaved_us", times)
    cell = cell_of(ours=provider(softmax_torch), eager=provider(softmax_torch))
    assert done == [synthetic.ROUNDS] * timings
    assert {len(result.samples_us) for result in cell.results} == {timings * synthetic.ROUNDS}
    assert len(cell.ceiling_samples_us) == timings * synthetic.ROUNDS


def test_a_provider_that_is_not_ours_comes_later_whatever_was_asked(cell_of):
    told = []
    cell_of(eager=provider(softmax_torch), ours=provider(softmax_torch), announce=told.append)
    assert told == ["inputs", "ceiling", "ours", "eager", "timing", "ours", "eager"]


def test_wrong_missing_unsupported_and_crashed_are_told_apart(cell_of):
    cell = cell_of(
        ours=provider(lambda x: softmax_torch(x) * 1.001),
        eager=provider(softmax_torch),
        quack=raising(ModuleNotFoundError("No module named 'quack'")),
        liger=raising(RuntimeError("Cannot launch Triton kernel since n = 131072 exceeds\nthe maximum")),
        other=provider(softmax_torch),
        crashed={"other": "no answer in 180 s"},
    )
    said = {result.provider: (result.status, result.message) for result in cell.results}
    assert said["ours"][0] == "wrong" and "times the tolerance" in said["ours"][1]
    assert said["eager"] == ("ok", "")
    assert said["quack"] == ("missing", "ModuleNotFoundError: No module named 'quack'")
    wanted = ("unsupported", "RuntimeError: Cannot launch Triton kernel since n = 131072 exceeds")
    assert said["liger"] == wanted
    assert said["other"] == ("crashed", "no answer in 180 s")


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA"), RuntimeError("InductorError: OutOfMemoryError: CUDA")]
)
def test_memory_that_other_workers_have_is_no_provider_s_refusal(cell_of, monkeypatch, error):
    found = cell_of(ours=provider(softmax_torch), quack=raising(error)).result("quack").status
    assert found == "unsupported"
    monkeypatch.setattr(measure.gpu_lock, "is_shared", lambda: True)
    with pytest.raises(type(error), match="CUDA"):
        cell_of(ours=provider(softmax_torch), quack=raising(error))
    alone = cell_of(ours=provider(softmax_torch), quack=raising(error), alone=True)
    assert alone.result("quack").status == "unsupported"


def test_an_output_that_is_not_written_is_wrong(cell_of):
    def half(x):
        y = softmax_torch(x)
        y[32:] = float("nan")
        return y

    assert "unwritten" in cell_of(ours=provider(half)).result("ours").message


def test_launches_that_the_graph_does_not_hold_are_wrong(cell_of, monkeypatch):
    def empty(call, slots, launches, pool=None):
        replay = host_gpu.capture(call, slots, launches)
        replay.graph.outputs = []
        return replay

    monkeypatch.setattr(timing, "capture", empty)
    assert cell_of(ours=provider(softmax_torch)).result("ours").status == "wrong"


def test_a_broken_gpu_ends_the_process_and_is_no_peer_s_refusal(cell_of, monkeypatch):
    def dead():
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    setup = raising(RuntimeError("launch failed"))
    monkeypatch.setattr(torch.cuda, "synchronize", dead)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        cell_of(eager=setup)

"""The arithmetic of the timer, and how its peers are set up; what needs a GPU is measured on one, not here."""

import os
import types

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from bench import (
    ceilings,
    sweep,
    this_gpu,
)
from bench.peers import setups
from quack_tutorial import timing
from quack_tutorial.operations import OPERATIONS
from quack_tutorial.operations.softmax import formula as softmax_torch
from tests.bench import synthetic

L2 = 60 * 2**20


def test_buffers_are_sixteen_times_the_l2_and_a_graph_holds_whole_turns_and_lasts_a_while():
    for input_bytes in (2**10, 2**22, 2**26, 2**33):
        slots = timing.slots_for(input_bytes, L2)
        assert slots * input_bytes >= 16 * L2
        assert slots == 1 or (slots - 1) * input_bytes < 16 * L2
    for moved, slots in ((2**20, 12), (2**25, 3), (2**30, 1), (2**12, 500)):
        launches = timing.launches_for(moved, slots)
        assert launches >= 20 and launches % slots == 0
    assert timing.launches_for(2**30, 1) == 20 and timing.launches_for(2**23, 1) > 300
    for moved, launches in ((2**32, 10), (2**34, 5), (2**37, 5)):
        assert timing.launches_for(moved, 1) == launches
        # no more of them than of other long ones
        assert timing.rounds_for(moved, launches, 11) == timing.MIN_REPLAYS
    assert timing.rounds_for(2**30, 20, 11) == 11
    assert timing.rounds_for(2**33, 20, 11) == timing.MIN_REPLAYS
    with pytest.raises(ValueError, match="at least 7 rounds, got 6"):
        timing.interleaved_us({}, 6)


def test_what_no_graph_can_hold_is_called_over_the_slots():
    seen = []
    replay = timing.one_by_one(lambda x, y: seen.append(x + y), [(1, 0), (2, 0), (3, 0)], 4)
    assert seen == [1] and replay.launches == 4  # once to compile and warm up
    replay.graph.replay()
    assert seen[1:] == [1, 2, 3, 1]


def test_two_settings_of_torch_compile_do_not_share_code():
    first, second = (setups.with_own_code(softmax_torch, name) for name in ("a", "b"))
    assert len({softmax_torch.__code__, first.__code__, second.__code__}) == 3
    x = torch.randn(4, 9)
    assert torch.equal(first(x), softmax_torch(x))
    assert torch.equal(torch.compile(second, backend="eager", fullgraph=True)(x), softmax_torch(x))


def test_compile_tuned_refuses_a_process_without_multi_kernel(monkeypatch):
    from torch._inductor import config

    monkeypatch.setattr(config.triton, "multi_kernel", 0)
    with pytest.raises(RuntimeError, match="TORCHINDUCTOR_MULTI_KERNEL=1"):
        setups.compiled_tuned(softmax_torch)(torch.zeros(1, 1))


def test_ceilings_move_what_the_operation_moves():
    streams = {"1R": 1, "1R1W": 1 + 1, "2R1W": 2 + 1, "2R2W": 2 + 2, "3R1W": 3 + 1}
    assert {operation.pattern: ceilings.streams(operation.pattern) for operation in OPERATIONS.values()} == streams
    assert ceilings._name("1R1W", 2048, 4, "", ".cs") == "copy, 2048 words, 4 warps, stores .cs"


def test_the_reader_s_points_hold_the_ceiling_and_those_that_ran_on_the_reader_s_gpu(monkeypatch):
    found = types.SimpleNamespace(device="cpu", gpu="NVIDIA L4")
    monkeypatch.setattr(this_gpu.machine, "detect", lambda: found)
    assert this_gpu.this_machine("softmax", "float32", [1024]) == []
    with pytest.raises(ValueError, match="operation 'sofmax' is not one of copy, softmax"):
        this_gpu.this_machine("sofmax", "float32", [1024])
    found.device, measured = "cuda", types.SimpleNamespace(cell=synthetic.cell(ours_us=None))
    monkeypatch.setattr(sweep, "measure_cells", lambda *args, **options: [measured])
    points = this_gpu.this_machine("softmax", "float32", [1024])
    assert [point["provider"] for point in points] == ["ceiling", "eager", "quack"]
    assert points[0]["fraction_of_ceiling"] == 1.0
    assert {point["device"] for point in points} == {"NVIDIA L4"}


class Clock:
    """A GPU's clock for `timing`: replays take what they say, and everything that happens is noted in order."""

    def __init__(self, monkeypatch):
        self.now_ms, self.order, self.cleared = 0.0, [], []
        clock = self

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self):
                self.at = clock.now_ms

            def elapsed_time(self, end):
                return end.at - self.at

        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
        monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: None)
        monkeypatch.setattr(timing, "clear_l2", lambda: clock.cleared.append(len(clock.order)))

    def replay(self, name, ms, launches):
        """A graph that takes twice as long after another one, and `ms` after itself, on a clock that slows down by 1 % a round."""
        clock = self

        class Graph:
            def replay(self):
                clock.order.append(name)
                again = clock.order[-2:] == [name, name]
                clock.now_ms += (1 if again else 2) * ms * (1 + 0.01 * ((len(clock.order) - 1) // 6))

        return timing.Replay(Graph(), launches, [], ())


def test_rounds_take_turns_begin_with_another_each_and_give_microseconds_a_launch(monkeypatch):
    clock = Clock(monkeypatch)
    asked = {"a": (2.0, 20), "b": (4.0, 20), "c": (1.0, 10)}
    replays = {name: clock.replay(name, *how) for name, how in asked.items()}
    samples = timing.interleaved_us(replays, 7)
    rounds = ["".join(clock.order[i : i + 6]) for i in range(0, 42, 6)]
    assert rounds == ["aabbcc", "bbaacc", "ccaabb", "aaccbb", "bbccaa", "ccbbaa", "aabbcc"]
    assert clock.cleared == list(range(0, 42, 2))
    assert {len(found) for found in samples.values()} == {7}
    assert samples["a"][0] == pytest.approx(2.0 * 1e3 / 20)
    assert samples["b"][6] == pytest.approx(4.0 * 1.06 * 1e3 / 20)
    # The clock drifts, and the ratio within a round does not.
    every = zip(samples["a"], samples["c"], strict=True)
    assert [c / a for a, c in every] == pytest.approx([1.0] * 7)


def test_a_replay_keeps_the_inputs_that_its_graph_reads():
    released = timing.Replay(None, 20, [(torch.zeros(1),)], (torch.zeros(1),)).released()
    assert len(released.slots) == 1 and released.outputs == ()


def test_a_sweep_is_shared_by_sizes_that_are_alike_and_by_the_workers_of_one_run(monkeypatch):
    monkeypatch.setattr(ceilings, "_swept", {("1R1W", 1000): ["a"], ("1R1W", 1030): ["b"], ("1R", 5000): ["c"]})
    found = [
        ceilings.best_of_sweep(*asked) for asked in (("1R1W", 1010), ("1R1W", 1040), ("1R1W", 1200), ("2R1W", 1000))
    ]
    assert found == [["a"], ["b"], None, None]
    with sweep.one_folder():
        monkeypatch.setattr(ceilings, "_swept", {})
        assert ceilings.best_of_sweep("1R1W", 1000) is None
        ceilings.remember_sweep("1R1W", 1000, ["a", "b"])
        # Another worker, in a process of its own, which is writing a second line.
        monkeypatch.setattr(ceilings, "_swept", {("2R1W", 50): ["own"]})
        with open(os.environ[sweep.SWEEPS], "a") as file:
            file.write('["1R", 3000,')
        assert ceilings.best_of_sweep("1R1W", 1010) == ["a", "b"]
        assert ceilings.best_of_sweep("2R1W", 50) == ["own"]
        assert ceilings.best_of_sweep("1R", 3000) is None
    assert sweep.SWEEPS not in os.environ


def test_what_stands_for_a_sweep_is_among_what_a_sweep_tries():
    tried = {(*shape, *hints) for shape in ceilings.SHAPES for hints in ceilings.HINTS}
    assert set(ceilings.UNSWEPT) < tried

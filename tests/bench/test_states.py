"""Times in three states of L2: what a graph reads of a call is there when the graph is replayed."""

import weakref
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from bench import gpu_lock, public, states
from quack_tutorial import timing
from quack_tutorial.records.cells import CellKey


class Gradient:
    """A call as autograd's: `prepare` makes what it reads."""

    def __init__(self):
        self.prepared = 0

    def prepare(self, x):
        self.prepared += 1

    def __call__(self, x):
        return x


def test_what_prepare_made_is_there_once_when_graphs_are_replayed(monkeypatch):
    made = []

    def setup(*inputs):
        call = Gradient()
        made.append(weakref.ref(call))
        return call

    def capture(call, slots, launches, pool):
        for slot in slots if hasattr(call, "prepare") else ():
            call.prepare(*slot)
        call(*slots[0])
        return SimpleNamespace(released=lambda: launches)

    def timed(replays, rounds):
        assert [call() and call().prepared for call in made] == [2, 2]
        return {name: [2.0 if name[1] else 1.0] for name in replays}

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda: SimpleNamespace(L2_cache_size=1))
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    monkeypatch.setattr(gpu_lock, "own_lock", lambda: SimpleNamespace(give=lambda: None, take=lambda: None))
    monkeypatch.setattr(gpu_lock, "give_while_compiling", lambda lock: None)
    monkeypatch.setattr(public, "inputs_of", lambda *_: lambda M, N, dtype: (torch.ones(M, N),))
    monkeypatch.setattr(states, "_written", lambda torch: lambda matrix: None)
    monkeypatch.setattr(timing, "slots_for", lambda *_: 2)
    monkeypatch.setattr(timing, "capture", capture)
    monkeypatch.setattr(timing, "interleaved_us", timed)
    found = states.measured(CellKey("softmax backward", "float32", 8, 64), {"ours": setup, "eager": setup})
    assert found["rows"] == {"ours": 2.0, "eager": 2.0} and found["write"] == {"ours": 1.0, "eager": 1.0}

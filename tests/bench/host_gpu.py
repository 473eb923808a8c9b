"""A GPU that is played by the CPU: graphs run their calls on the host, times are made up; the rest of a measurement is real."""

import types

import torch

from bench.correctness import as_tuple
from quack_tutorial import timing
from tests.bench import synthetic


class HostGraph:
    """Runs its calls on the host, like a CUDA graph into the memory that it was captured with."""

    def __init__(self, call, slots, launches, outputs):
        self.call, self.slots, self.launches, self.outputs = call, slots, launches, outputs

    def replay(self):
        first = self.launches - len(self.outputs)
        for turn, written in enumerate(self.outputs, first):
            results = as_tuple(self.call(*self.slots[turn % len(self.slots)]))
            for output, result in zip(as_tuple(written), results, strict=True):
                output.copy_(result)


def capture(call, slots, launches, pool=None):
    if hasattr(call, "prepare"):
        for slot in slots:
            call.prepare(*slot)
    outputs = [call(*slots[turn % len(slots)]) for turn in range(launches - len(slots), launches)]
    graph = HostGraph(call, slots, launches, outputs)
    graph.us = getattr(call, "us", None)
    return timing.Replay(graph, launches, slots, tuple(outputs))


def play(monkeypatch, us, l2_bytes=1000) -> None:
    """Put it in the place of torch's GPU; `us(name)` is what a replay of that name takes."""
    card = types.SimpleNamespace(name="NVIDIA H200", L2_cache_size=l2_bytes, multi_processor_count=132)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda *_: card)
    for name in ("graph_pool_handle", "synchronize", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda *_: None)
    monkeypatch.setattr("quack_tutorial.operations.operation.DEVICE", "cpu")
    monkeypatch.setattr(timing, "capture", capture)
    monkeypatch.setattr(timing, "clear_l2", lambda: True)
    monkeypatch.setattr(timing, "do_bench_us", lambda call, inputs: 50.0)

    def interleaved_us(replays, rounds):
        return {name: [us(name) * wobble for wobble in synthetic.WOBBLE[:rounds]] for name in replays}

    monkeypatch.setattr(timing, "interleaved_us", interleaved_us)

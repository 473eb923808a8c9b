"""Times of GPU work that can be compared: CUDA-graph replays over rotating buffers, providers taking turns.

One sample is one replay of a graph of at least 20 launches, or of as many as take 10 ms, divided by their number: no host time,
and the events' resolution spread over many launches. In every round each provider is replayed once, the first one another each
round, forwards and backwards in turn; sample i of two providers can therefore be paired (see `statistics`).

What other kernels left in L2 should make no difference. That takes three things:

- Inputs of `L2_MULTIPLE` x L2 to go round: what a launch leaves is gone before its inputs come again.
- `clear_l2` before each sample: bytes that a kernel asked L2 to keep stay while kernels that ask for nothing go by, the same inputs
  in turn, and these read them.
- A replay before the timed one: what is still to be written when a sample begins is the kernel's own, as if it ran all the time.

Softmax of 32768 x 1024 bfloat16 without the hint took 34.1 us with 3 x L2, 34.6 us with 40 x L2, and 34.7 us with 3 x L2 after
the driver's reset of kept lines; with the hint 33.6 us each time. With 16 x L2 our cross-entropy loss of 32768 x 8192 bfloat16 took
118.7 us after a plain read and 120.0 us after torch's own, which writes, and 118.3 us after both with L2 cleared (H200s).

The second timer, `do_bench_us`, is triton.testing.do_bench: events around single launches, cache overwritten before
each. It includes what the launch costs the GPU's front end and is there to cross-check, not to rank.
"""

from __future__ import annotations

import functools
import math
from collections import deque
from dataclasses import dataclass

import torch

from quack_tutorial.records.cells import L2_MULTIPLE

MIN_LAUNCHES = 20  # but not of what takes long
LEAST_LAUNCHES = 5
MAX_LAUNCHES = 400
MIN_REPLAYS = 7
LONG_REPLAY_US = 10_000  # the samples of replays this long hardly differ: fewer of them say as much
REPLAY_US = 3000  # a replay this long makes the graph's own start vanish
CLEARED = 4  # times L2 that are read to clear it


def as_tuple(outputs) -> tuple:
    """What a provider returns, one tensor or several, as a tuple."""
    outputs = (outputs,) if hasattr(outputs, "isnan") else outputs
    return tuple(one.view(torch.uint8) if one.dtype == torch.float8_e4m3fn else one for one in outputs)


def slots_for(input_bytes: int, l2_bytes: int) -> int:
    """How many inputs of `input_bytes` to go round, so that together they are at least `L2_MULTIPLE` x L2."""
    return max(1, math.ceil(L2_MULTIPLE * l2_bytes / max(input_bytes, 1)))


def launches_for(bytes_moved: int, slots: int, bandwidth_gb_s: float = 4000.0) -> int:
    """How many launches a graph holds: enough for 3 ms at that bandwidth, at least 20 or (5 or more) enough for 10 ms, and whole
    turns of the slots."""
    # A launch in a graph takes 1 to 2 us on its own.
    one_us = bytes_moved / bandwidth_gb_s / 1e3 + 1.5
    fewest = min(MIN_LAUNCHES, max(LEAST_LAUNCHES, math.ceil(LONG_REPLAY_US / one_us)))
    wanted = min(MAX_LAUNCHES, max(fewest, math.ceil(REPLAY_US / one_us)))
    return math.ceil(wanted / slots) * slots


@dataclass(frozen=True)
class Replay:
    """A captured CUDA graph of `launches` calls, and the outputs of its last `len(slots)` calls, one tensor or a tuple.

    The graph knows addresses only: `slots` keeps the inputs that it reads from being freed.
    """

    graph: torch.cuda.CUDAGraph | _Calls
    launches: int
    slots: list[tuple[torch.Tensor, ...]]
    outputs: tuple

    def released(self) -> Replay:
        """The same graph without its outputs, whose memory later captures on the pool may then write over."""
        return Replay(self.graph, self.launches, self.slots, ())


def capture(call, slots, launches: int, pool=None) -> Replay:
    """Warm `call` up and capture `launches` calls of it over `slots`, a list of input tuples.

    Where `call` has a `prepare`, it is called first with each slot, on the stream of the capture: autograd runs a
    backward pass on the stream of its forward pass. Each call's output stays allocated until as many others follow as
    there are slots, so outputs rotate as inputs do.
    `pool` is a memory pool to share with other captures whose replays do not overlap with this one's.
    """
    stream = _capture_stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for slot in slots if hasattr(call, "prepare") else ():
            call.prepare(*slot)
        for turn in range(3):
            call(*slots[turn % len(slots)])
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    kept = deque(maxlen=len(slots))
    with torch.cuda.graph(graph, pool=pool, stream=stream):
        for turn in range(launches):
            kept.append(call(*slots[turn % len(slots)]))
    return Replay(graph, launches, slots, tuple(kept))


def one_by_one(call, slots, launches: int) -> Replay:
    """As `capture`, for a call that no graph can hold, since it launches on CUDA's default stream: the host makes every call.

    What a call costs the host is hidden where the kernel takes longer.
    """
    call(*slots[0])
    return Replay(_Calls(call, slots, launches), launches, slots, ())


@dataclass(frozen=True)
class _Calls:
    """In the place of a graph: `launches` calls over `slots`."""

    call: object
    slots: list
    launches: int

    def replay(self):
        for turn in range(self.launches):
            self.call(*self.slots[turn % len(self.slots)])


@functools.cache
def _capture_stream():
    """The one stream of all captures: torch gives freed memory of a pool again only on the stream that it was for."""
    return torch.cuda.Stream()


def poison_and_replay(replay: Replay) -> None:
    """Fill the kept outputs with NaN, then run the graph once and wait for it."""
    for outputs in replay.outputs:
        for output in as_tuple(outputs):
            output.fill_(float("nan") if output.is_floating_point() else 127)  # of bits of float8
    replay.graph.replay()
    torch.cuda.synchronize()


def interleaved_us(replays: dict[str, Replay], rounds: int = 11) -> dict[str, list[float]]:
    """Microseconds a launch, one sample a round, for every provider; ValueError for fewer than 7 rounds."""
    if rounds < MIN_REPLAYS:
        raise ValueError(f"timing needs at least {MIN_REPLAYS} rounds, got {rounds}")
    return _rounds(replays, rounds)


def rounds_for(bytes_moved: int, launches: int, rounds: int, bandwidth_gb_s: float = 4000.0) -> int:
    """How many of the wanted `rounds` to do with graphs of so many launches: long replays get the least number."""
    return MIN_REPLAYS if launches * bytes_moved / bandwidth_gb_s / 1e3 > LONG_REPLAY_US else rounds


def rough_us(replay: Replay, rounds: int = 3) -> float:
    """Microseconds a launch, the best of a few replays: good enough to choose between variants, not to report."""
    return min(_rounds({"": replay}, rounds)[""])


def _rounds(replays, rounds):
    names = list(replays)
    samples = {name: [] for name in names}
    for turn in range(rounds):
        step = -1 if turn % 2 else 1
        for k in range(len(names)):
            name = names[(turn + step * k) % len(names)]
            clear_l2()
            replays[name].graph.replay()  # also gives the host time to get ahead
            samples[name].append(between_events_us(replays[name].graph.replay) / replays[name].launches)
    return samples


def between_events_us(work) -> float:
    """Microseconds between two events on the current stream, `work()` in between."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e3


def clear_l2() -> bool:
    """Wait for the GPU, have L2 treat kept lines as any others, and read other bytes into it.

    Kept are lines that a kernel asked L2 to keep. False if the driver does not release them, as may be on a part of a shared GPU.
    """
    import cuda.bindings.driver as cuda

    torch.cuda.synchronize()
    (status,) = cuda.cuCtxResetPersistingL2Cache()
    _other_bytes(torch.cuda.current_device()).sum()
    return status == cuda.CUresult.CUDA_SUCCESS


@functools.cache
def _other_bytes(device: int):
    """Zeros that are nobody's input, `CLEARED` x L2 of them."""
    l2_bytes = torch.cuda.get_device_properties(device).L2_cache_size
    return torch.zeros(CLEARED * l2_bytes // 4, device=torch.device("cuda", device))


def do_bench_us(call, inputs) -> float:
    """The median of triton.testing.do_bench for one call, in microseconds."""
    from triton.testing import do_bench

    return do_bench(lambda: call(*inputs), warmup=5, rep=20, return_mode="median") * 1e3

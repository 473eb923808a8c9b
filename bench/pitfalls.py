"""`quack-tutorial pitfalls`: the same kernels timed in ways that mislead, and in ways that do not, kept as a record.

| series   | times softmax                                                                                           |
|----------|---------------------------------------------------------------------------------------------------------|
| timer    | of a large and of a small matrix with the host's clock, with events, and in a CUDA graph                  |
| L2       | of 8 MiB, over one input, and over as many as fill 3 and 16 times L2                                      |
| hint     | right after a kernel that asks L2 to keep what it reads, over the same inputs; with L2 as it is, after the |
|          | driver's reset of kept lines, and cleared                                                                |
| stream   | launched on a stream of its own, by events on the current one, and by the host's clock                    |
| itself   | against itself: all samples of the one before those of the other, and in turns                            |
| clock    | and a matrix product, for seconds on end, with the SM's clock and the power beside each sample            |

Every sample is microseconds a launch. "large" is 32768 x 4096 bfloat16, "small" 128 x 256.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
import time
from dataclasses import dataclass

from bench.asked import command_line, on_a_gpu
from quack_tutorial import machine, records

ROUNDS = 11
SIZES = {"large": (32768, 4096), "small": (128, 256)}
LAUNCHES = 50  # of the timers that do not use a graph
MOST_SLOTS = 64  # of the small matrix, which no cache need be cleared for
SECONDS = 5.0  # that each work of `clock` goes on


@dataclass(frozen=True)
class Point:
    """One way of timing: its series and name, what else is known of it, and its samples in microseconds a launch."""

    series: str
    name: str
    facts: dict
    samples_us: tuple[float, ...]


def _softmax():
    from quack_tutorial.ops import softmax

    return softmax


def _inputs(M, N, count):
    import torch

    return [(torch.randn(M, N, device="cuda", dtype=torch.bfloat16),) for _ in range(count)]


def _slots(M, N, multiple):
    """How many bfloat16 inputs are together `multiple` times as large as L2."""
    import torch

    l2_bytes = torch.cuda.get_device_properties().L2_cache_size
    return max(1, -(-multiple * l2_bytes // (2 * M * N)))


def timers():
    """One kernel, one size after the other, five ways to time it."""
    import torch

    from quack_tutorial import timing

    call = _softmax()
    for size, (M, N) in SIZES.items():
        inputs = _inputs(M, N, min(MOST_SLOTS, _slots(M, N, 16)))
        turns = itertools.cycle(inputs)

        def launch(turns=turns):
            for _ in range(LAUNCHES):
                call(*next(turns))

        def host(wait, launch=launch):
            torch.cuda.synchronize()
            start = time.perf_counter()
            launch()
            if wait:
                torch.cuda.synchronize()
            us = (time.perf_counter() - start) * 1e6 / LAUNCHES
            torch.cuda.synchronize()
            return us

        def events(turns=turns):
            torch.cuda.synchronize()
            return timing.between_events_us(lambda: call(*next(turns)))

        graph = timing.capture(call, inputs, -(-LAUNCHES // len(inputs)) * len(inputs))
        facts = {"size": size, "M": M, "N": N, "bytes": 4 * M * N}
        ways = {
            "host's clock, not waiting": lambda host=host: host(False),
            "host's clock, waiting": lambda host=host: host(True),
            "events around one launch": events,
            "events around many": lambda launch=launch: timing.between_events_us(launch) / LAUNCHES,
        }
        for name, sample in ways.items():
            sample()
            yield Point("timer", name, facts, tuple(sample() for _ in range(ROUNDS)))
        samples = timing.interleaved_us({"": graph}, ROUNDS)[""]
        yield Point("timer", "events around a CUDA graph", facts, tuple(samples))


def l2():
    """8 MiB of input, over one of them and over more than L2 holds."""
    from quack_tutorial import timing

    M, N = 4096, 1024
    for multiple in (0, 3, 16):
        inputs = _inputs(M, N, _slots(M, N, multiple))
        launches = -(-100 // len(inputs)) * len(inputs)
        samples = timing.interleaved_us({"": timing.capture(_softmax(), inputs, launches)}, ROUNDS)[""]
        name = f"{multiple} x L2" if multiple else "one input"
        yield Point("L2", name, {"inputs": len(inputs), "M": M, "N": N, "bytes": 4 * M * N}, tuple(samples))


def hints():
    """What a kernel that asks L2 to keep its rows does to the next one, which reads the same inputs."""
    import cuda.bindings.driver as cuda
    import torch

    from quack_tutorial import plain_kernels, timing

    M, N = 32768, 1024
    copy = plain_kernels.plain("1R1W", 1024, 4, "", "")
    timed = {
        "ours, which asks too": _softmax(),
        "torch's softmax": lambda x: torch.softmax(x, dim=-1),
        "a plain copy": lambda x: copy(x.view(torch.int32).view(-1)),
    }
    for multiple in (3, 16):
        inputs = _inputs(M, N, _slots(M, N, multiple))
        launches = -(-48 // len(inputs)) * len(inputs)
        pool = torch.cuda.graph_pool_handle()
        before = timing.capture(_softmax(), inputs, launches, pool)
        for name, call in timed.items():
            graph = timing.capture(call, inputs, launches, pool)
            between = {
                "as it is": lambda: None,
                "kept lines released": cuda.cuCtxResetPersistingL2Cache,
                "cleared": timing.clear_l2,
            }
            samples = {state: [] for state in between}
            for _, (state, prepare) in itertools.product(range(ROUNDS), between.items()):
                before.graph.replay()
                torch.cuda.synchronize()
                prepare()
                samples[state].append(timing.between_events_us(graph.graph.replay) / launches)
            for state, found in samples.items():
                facts = {"multiple": multiple, "L2": state, "M": M, "N": N, "bytes": 4 * M * N}
                yield Point("hint", name, facts, tuple(found))


def stream():
    """A candidate that works on another stream, as events on the current one see it, and as the host's clock does."""
    import torch

    from quack_tutorial import timing

    (x,) = _inputs(*SIZES["large"], 1)[0]
    call, other = _softmax(), torch.cuda.Stream()

    def elsewhere():
        with torch.cuda.stream(other):
            call(x)

    def host():
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(LAUNCHES):
            elsewhere()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) * 1e6 / LAUNCHES

    def events():
        return timing.between_events_us(lambda: [elsewhere() for _ in range(LAUNCHES)]) / LAUNCHES

    for name, sample in (("events on the current stream", events), ("host's clock, waiting for the GPU", host)):
        sample()
        yield Point("stream", name, {}, tuple(sample() for _ in range(ROUNDS)))


def itself():
    """Two graphs of one kernel: 40 replays of the one and then of the other, and 40 of each in turns."""
    import torch

    from quack_tutorial import timing

    M, N = SIZES["large"]
    inputs = _inputs(M, N, _slots(M, N, 16))
    a, b = (timing.capture(_softmax(), inputs, 24).released() for _ in range(2))
    torch.cuda.synchronize()
    time.sleep(2)  # so that the first ones find a GPU that has been idle
    one_after_the_other = {
        name: [timing.between_events_us(r.graph.replay) / 24 for _ in range(40)] for name, r in (("A", a), ("B", b))
    }
    in_turns = {"A": [], "B": []}
    for turn in range(40):
        for name in ("AB", "BA")[turn % 2]:
            in_turns[name].append(timing.between_events_us({"A": a, "B": b}[name].graph.replay) / 24)
    for order, found in (("one after the other", one_after_the_other), ("in turns", in_turns)):
        for name, samples in found.items():
            yield Point("itself", name, {"order": order}, tuple(samples))


def clocks():
    """Softmax and a matrix product, of random numbers and of zeros, over seconds."""
    import torch

    from quack_tutorial import timing

    M, N = SIZES["large"]
    works = {}
    for what, make in (("random numbers", torch.randn), ("zeros", torch.zeros)):
        x, a = (make(*shape, device="cuda", dtype=torch.bfloat16) for shape in ((M, N), (8192, 8192)))
        works[f"softmax of {what}"] = lambda x=x: _softmax()(x)
        works[f"matrix product of {what}"] = lambda a=a: a @ a
    for name, work in works.items():
        work()
        once_us = min(timing.between_events_us(work) for _ in range(3))
        launches = max(1, int(2e5 / once_us))  # 0.2 s a sample, while the clock is asked for
        torch.cuda.synchronize()
        time.sleep(2)
        begin = time.perf_counter()
        while (at := time.perf_counter() - begin) < SECONDS:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(launches):
                work()
            end.record()
            time.sleep(0.1)  # in the midst of it
            state = gpu_state()
            torch.cuda.synchronize()
            us = start.elapsed_time(end) * 1e3 / launches
            yield Point("clock", name, {"seconds": round(at, 2), **state}, (us,))


def gpu_state() -> dict:
    """The SM's clock in MHz, the power in W and the temperature in degrees C of the first GPU, as NVML has them; or nothing."""
    nvml = machine.load_nvml()
    if nvml is None or nvml.nvmlInit_v2() != 0:
        return {}
    handle, value = ctypes.c_void_p(), ctypes.c_uint()
    nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(0), ctypes.byref(handle))
    questions = {
        "sm_mhz": (nvml.nvmlDeviceGetClockInfo, (ctypes.c_int(1),), 1),  # NVML_CLOCK_SM
        "watts": (nvml.nvmlDeviceGetPowerUsage, (), 1000),
        "celsius": (nvml.nvmlDeviceGetTemperature, (ctypes.c_int(0),), 1),  # NVML_TEMPERATURE_GPU
    }
    found = {}
    for name, (ask, which, unit) in questions.items():
        if ask(handle, *which, ctypes.byref(value)) == 0:
            found[name] = value.value / unit
    nvml.nvmlShutdown()
    return found


SERIES = {"timer": timers, "L2": l2, "hint": hints, "stream": stream, "itself": itself, "clock": clocks}


def measure(names) -> dict:
    """The points of the series named, or why one has none."""
    import torch

    torch.set_grad_enabled(False)
    points, failed = [], {}
    for name in names:
        try:
            points += SERIES[name]()
        except (ImportError, RuntimeError, AttributeError) as error:
            failed[name] = f"{type(error).__name__}: {error}"[:160]
        torch.cuda.empty_cache()
    return {"failed": failed, "points": [as_row(point) for point in points]}


def as_row(point: Point) -> dict:
    """A point as JSON has it, its samples rounded to 5 digits."""
    samples = list(map(records.rounded, point.samples_us))
    return {"series": point.series, "name": point.name, **point.facts, "samples_us": samples}


def add_arguments(parser):
    """Declare what `quack-tutorial pitfalls` takes."""
    parser.add_argument("--out", help="keep the record in this file")
    parser.add_argument(
        "--only", metavar="SERIES", action="append", choices=SERIES, help="one of %(choices)s (may be repeated)"
    )


@on_a_gpu
def run(args, found) -> int:
    """Measure and print; 1 where a series failed, 2 without a GPU."""
    from bench.worker import describe

    head = records.stamped(describe(), found.driver, command_line(args, ["pitfalls"], ["out"]))
    record = head | measure(args.only or SERIES)
    if args.out:
        records.save(args.out, record)
    for point in record["points"]:
        facts = ", ".join(
            f"{key} {value}" for key, value in point.items() if key not in ("series", "name", "samples_us")
        )
        samples = sorted(point["samples_us"])
        print(f"{point['series']:7} {point['name']:34} {samples[len(samples) // 2]:10.2f} us  {facts}")
    for name, why in record["failed"].items():
        print(f"{name}: {why}", file=sys.stderr)
    return 1 if record["failed"] else 0

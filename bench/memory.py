"""`quack-tutorial memory`: latencies and bandwidths of the memory hierarchy on this machine's GPU, kept as a record.

A latency is the time of twice as many steps less the time of so many, over their number: what a launch costs goes out. A
bandwidth is bytes over the time of a launch of a millisecond or so. Each point has `ROUNDS` samples, taken in turns with
those of all other points, so that a change of clocks touches all of them alike.

| series      | point                       | value                                  |
|-------------|-----------------------------|----------------------------------------|
| latency     | what is waited for          | ns a step                              |
| chase       | bytes of the chain          | ns a load, from L1 to HBM              |
| in flight   | width x loads x threads     | GB/s of reads from HBM                 |
| written     | form of the loop, threads   | GB/s of reads from HBM                 |
| cluster     | arrival, blocks, threads    | ns a barrier of the cluster            |
| reread      | the barrier in between      | ns a load of what L1 held              |
| atomic      | words, apart, groups        | ns a request of a warp, of all SMs     |
| stride      | words between lanes, offset | ns a request of a warp, and GB/s used  |
| conflict    | words between lanes         | ns a request of a warp in one SM       |
| beside      | words between lanes         | GB/s of reads from HBM beside them     |
| level       | shared, peer, L2, HBM       | GB/s of all SMs                        |
"""

from __future__ import annotations

import itertools
import statistics
from dataclasses import dataclass

from bench.asked import command_line, on_a_gpu
from quack_tutorial import hardware, records
from quack_tutorial.compiler import TensorSpec
from quack_tutorial.kernels import memory as kernels
from quack_tutorial.records.memory import kept_at

ROUNDS = 9
FOOTPRINTS = tuple(1 << k for k in range(12, 33))  # bytes of a chain: 4 KiB to 4 GiB
STREAM_BYTES = 1 << 31
OF_L2 = 0.4  # what is read from L2: half of it is near an SM, and this fits into either
WIDTHS = (4, 8, 16)
LOADS = (1, 2, 4, 8)
THREADS = (128, 512, 1024, 2048)  # of an SM
STRIDES = (1, 2, 4, 8, 16, 32)
OFFSETS = (0, 1, 4, 8, 16)
CONFLICTS = (1, 2, 3, 4, 8, 16, 32, 33)
BLOCKS = (2, 4, 8)
CLUSTERS = [(release, b, t) for release in (False, True) for b in BLOCKS for t in (32, 128, 256, 512, 1024)]
# (words of a request, how far they are apart, how many sets of words the grid's 1,056 warps share)
ATOMICS = [(words, 1, 1) for words in (1, 2, 4, 8, 16, 32)] + [(words, 8, 1) for words in (2, 4, 8, 16, 32)]
ATOMICS += [(32, 1, 1 << k) for k in range(1, 11)] + [(32, 1, 1056), (32, 8, 1056), (1, 1, 1056)]
BESIDE = (1, 2, 4, 8, 16, 32)
# What `cost` needs, and the kernels for it, which every GPU since Ampere can run.
RULER = {"chase", "in flight", ("latency", "chase shared"), ("level", "L2")}
RULER_KERNELS = ("chase shared", "chase global", "stream ")


@dataclass(frozen=True)
class Point:
    """One thing to time. `run(k)` starts k times the work; `each` is how many units that is: steps, requests or bytes."""

    series: str
    name: str
    facts: dict
    run: object
    each: float
    difference: bool  # whether what a launch costs is taken out
    prepare: object = None  # what brings into the caches what they can hold, before each sample


def vector(n, dtype="float32"):
    """The spec of a vector of n elements, or of as many as there are."""
    return TensorSpec(dtype, (n,), (1,), 16)


def compiled_cases():
    """(name, kernel, specs) of everything that is compiled."""
    one, steps = vector(1, "int32"), 1
    sums = TensorSpec("float32", ("B", "T"), ("T", 1), 4)
    yield "chase global", kernels.PointerChase(0), (vector("N", "int32"), one, steps)
    for space in ("shared", "peer"):
        yield f"chase {space}", kernels.PointerChase(4096, space), (vector("N", "int32"), one, steps)
    for operation in ("shuffle", "multiply-add"):
        yield operation, kernels.Chain(operation), (vector(32), vector(32), steps)
    for width in WIDTHS:
        for loads in LOADS:
            # Blocks of 128 threads: an SM gets as many blocks as its threads are to be.
            yield f"stream {width} x {loads}", kernels.Stream(width, loads, 128), (vector("N"), sums, steps)
    for form in kernels.LoopSum.FORMS:
        yield form, kernels.LoopSum(form), (vector("N"), sums, steps)
    for case in ATOMICS:
        yield f"atomics {case}", kernels.Atomics(*case), (vector("N"), steps)
    for stride in STRIDES:
        yield f"strided {stride} + 0", kernels.Strided(stride), (vector("N"), sums, steps)
    for offset in OFFSETS[1:]:
        yield f"strided 1 + {offset}", kernels.Strided(1, offset), (vector("N"), sums, steps)
    for stride in CONFLICTS:
        yield f"conflict {stride}", kernels.SharedReads(stride), (vector("N"), vector("T"), steps)
    yield "shared stream", kernels.SharedStream(), (vector("N"), sums, steps)
    yield "peer stream", kernels.SharedStream(peer=True), (vector("N"), sums, steps)
    for threads in (32, 256, 1024):
        yield f"barrier {threads}", kernels.Barriers(threads), (one, steps)
    for case in CLUSTERS:
        release, blocks, threads = case
        yield f"cluster {case}", kernels.Barriers(threads, blocks, release), (one, steps)
    for barrier in kernels.Reread.BARRIERS:
        yield f"reread {barrier}", kernels.Reread(barrier), (vector("N", "int32"), one, steps)
    for stride in BESIDE:
        yield f"beside {stride}", kernels.ReadsBeside(stride), (vector("N"), sums)
    yield "ping-pong", kernels.PingPong(), (one, steps)


def points(ruler_alone=False):
    """Every `Point`, or those of `RULER`, the kernels compiled and the tensors made. Needs a GPU."""
    import torch

    from quack_tutorial.compiler import compile_for

    of = {name: (kernel, specs) for name, kernel, specs in compiled_cases()}
    wanted = [name for name in of if not ruler_alone or name.startswith(RULER_KERNELS)]
    run = {name: compile_for(of[name][0], *of[name][1]) for name in wanted}

    def empty(*shape, dtype=torch.float32):
        return torch.empty(*shape, dtype=dtype, device="cuda")

    def point(series, name, kernel, tensors, count, each=None, facts=(), difference=True, prepare=None):
        """A point of so many times `count` turns of a kernel, whose units are `each`, by default the turns."""
        start = lambda k: run[kernel](*tensors, *([k * count] if count else ()))  # noqa: E731
        return Point(series, name, dict(facts), start, each or count, difference, prepare)

    device = torch.cuda.get_device_properties()
    sms, l2_bytes = device.multi_processor_count, int(OF_L2 * device.L2_cache_size)
    number = empty(1, dtype=torch.int32)
    x = torch.randn(STREAM_BYTES // 4, device="cuda")
    steps = 65536
    small = _chain(4096 * 4)
    waits = {f"chase {space}": (small, number) for space in ("shared", "peer")}
    waits |= {operation: (x[:32], empty(32)) for operation in ("shuffle", "multiply-add")}
    waits |= {f"barrier {threads}": (number,) for threads in (32, 256, 1024)} | {"ping-pong": (number,)}
    for name, tensors in waits.items():
        yield point("latency", name, name, tensors, steps)
    for case in CLUSTERS:
        facts = dict(zip(("release", "blocks", "threads"), case))
        name = f"{'release' if facts['release'] else 'relaxed'} {facts['blocks']} x {facts['threads']}"
        yield point("cluster", name, f"cluster {case}", (number,), 8192, facts=facts)
    cycle = _chain(kernels.Reread.LINES * 128)
    for barrier in kernels.Reread.BARRIERS:
        each = 1024 * kernels.Reread.LINES
        yield point("reread", barrier, f"reread {barrier}", (cycle, number), 1024, each)
    for nbytes in FOOTPRINTS:
        chain = _chain(nbytes)

        def once_around(chain=chain, lines=nbytes // 128):
            run["chase global"](chain, number, lines)

        warm = once_around if nbytes <= 64 << 20 else None  # what is longer is never there again
        facts = {"bytes": nbytes}
        yield point("chase", str(nbytes), "chase global", (chain, number), 8192, facts=facts, prepare=warm)

    def stream(series, name, kernel, part, sums, count, facts):
        return point(series, name, kernel, (part, sums), count, part.numel() * 4, facts, difference=False)

    for width, loads, threads in itertools.product(WIDTHS, LOADS, THREADS):
        if threads == max(THREADS) and width * loads > 64:
            continue  # so many threads have 32 registers each
        name = f"stream {width} x {loads}"
        part = x[: len(x) // of[name][0].chunk * of[name][0].chunk]
        facts = {"vector_bytes": width, "loads": loads, "threads_per_sm": threads}
        facts["bytes_in_flight_per_sm"] = width * loads * threads
        sums = empty(sms * threads // 128, 128)
        yield stream("in flight", f"{width} x {loads} x {threads}", name, part, sums, 1, facts)
    for form, threads in itertools.product(kernels.LoopSum.FORMS, THREADS):
        sums = empty(sms * threads // 128, 128)
        part = x[: len(x) // (16 * sums.numel()) * 16 * sums.numel()]
        facts = {"form": form, "threads_per_sm": threads}
        yield stream("written", f"{form}, {threads}", form, part, sums, 1, facts)
    for case in ATOMICS:
        kernel, turns = of[f"atomics {case}"][0], 64
        total, warps = torch.zeros(kernel.size, device="cuda"), kernel.blocks * kernel.threads // 32
        facts = dict(zip(("words", "apart", "groups"), case)) | {"warps": warps}
        name = "{} x {} x {}".format(*case)
        yield point("atomic", name, f"atomics {case}", (total,), turns, turns * warps, facts)
    sums = empty(sms * 8, 256)
    for stride, offset in [(s, 0) for s in STRIDES] + [(1, o) for o in OFFSETS[1:]]:
        each = (len(x) - offset) // (sums.numel() * stride) // 8 * 8
        requests, name = each * sums.numel() // 32, f"{stride} + {offset}"
        facts = {"stride_words": stride, "offset_words": offset, "requests": requests}
        yield point("stride", name, f"strided {name}", (x, sums), each, requests, facts, difference=False)
    for stride in CONFLICTS:
        each, facts = steps * 32 * kernels.SharedReads.in_flight, {"stride_words": stride}
        yield point("conflict", str(stride), f"conflict {stride}", (x, empty(1024)), steps, each, facts)
    sums = empty(sms * 4, kernels.ReadsBeside.threads)
    part = x[: len(x) // kernels.ReadsBeside.chunk * kernels.ReadsBeside.chunk]
    for stride in BESIDE:
        facts = {"stride_words": stride, "reads": kernels.ReadsBeside.reads, "loads": kernels.ReadsBeside.loads}
        yield stream("beside", str(stride), f"beside {stride}", part, sums, 0, facts)
    sums = empty(sms, 1024)
    for name in ("shared stream", "peer stream"):
        yield point("level", name, name, (x, sums), steps, 16 * sums.numel() * steps)
    name = "stream 16 x 4"
    chunk = of[name][0].chunk
    part, sums = x[: l2_bytes // 4 // chunk * chunk], empty(sms * 16, 128)
    yield point("level", "L2", name, (part, sums), 40, part.numel() * 4 * 40)


def _chain(nbytes: int):
    """A cycle through one place of each 128-byte line, in random order; int32 indices of 4 bytes, on the GPU."""
    import torch

    lines = max(2, nbytes // 128)
    order = torch.randperm(lines, device="cuda", dtype=torch.int64)
    chain = torch.zeros(lines * 32, dtype=torch.int32, device="cuda")
    chain[order * 32] = (order.roll(-1) * 32).to(torch.int32)
    return chain


def samples(chosen: list[Point]) -> list[list[float]]:
    """`ROUNDS` samples of each point, in turns: nanoseconds a unit."""
    from quack_tutorial.timing import between_events_us

    def us(point, k):
        return between_events_us(lambda: point.run(k))

    for point in chosen:
        point.run(1)
    found = [[] for _ in chosen]
    for _ in range(ROUNDS):
        for point, taken in zip(chosen, found):
            if point.prepare is not None:
                point.prepare()
            us(point, 1)
            taken.append((us(point, 2) - us(point, 1) if point.difference else us(point, 1)) * 1e3 / point.each)
    return found


def measure(ruler_alone=False) -> tuple[dict, list[dict]]:
    """What a worker says of this machine, and for each point its facts and samples."""
    import torch

    from bench.worker import describe

    chosen = [p for p in points(ruler_alone) if not ruler_alone or p.series in RULER or (p.series, p.name) in RULER]
    found = samples(chosen)
    torch.cuda.synchronize()
    rows = [
        {"series": p.series, "name": p.name, **p.facts, "samples_ns": list(map(records.rounded, taken))}
        for p, taken in zip(chosen, found)
    ]
    return describe(), rows


def add_arguments(parser):
    """Declare what `quack-tutorial memory` takes."""
    parser.add_argument("--out", help="keep the record in this file")
    parser.add_argument(
        "--keep",
        action="store_true",
        help="measure what predictions need, and predict with it from then on",
    )


@on_a_gpu
def run(args, found) -> int:
    """Measure and print; 2 without a GPU."""
    device, taken = measure(args.keep)
    head = records.stamped(device, found.driver, command_line(args, ["memory"], ["keep", "out"]))
    record = head | {"points": taken}
    if args.keep:
        place = kept_at(hardware.card_of(record["device"]))
        records.save(place, record)
        print(f"kept in {place}, which predictions on this machine use")
    if args.out:
        records.save(args.out, record)
    for point in record["points"]:
        ns = statistics.median(point["samples_ns"])
        # A unit of a stream is a byte, of a stride a request of 128 bytes; bytes a nanosecond are GB/s.
        gb_s = {"in flight": 1, "written": 1, "beside": 1, "level": 1, "stride": 128}.get(point["series"])
        value = f"{gb_s / ns:10.1f} GB/s" if gb_s else f"{ns:10.2f} ns"
        print(f"{point['series']:10} {point['name']:20} {value}")
    return 0

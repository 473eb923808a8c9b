"""A cost model of memory-bound kernels: four clocks run at once, and the time follows from two of them.

| clock        | runs for                                                                                          |
|--------------|---------------------------------------------------------------------------------------------------|
| HBM          | the bytes that cross to it and from it, at the best speed of a read, or of a copy                 |
| L2           | all bytes that the SMs ask for or write, at its best speed                                        |
| instructions | what the warps execute, four an SM and clock                                                      |
| waiting      | each pass over the rows: its bytes by Little's law, SMs * bytes in flight on an SM / latency      |

    time = sqrt(waiting ** 2 + busy ** 2),    busy = (HBM ** 6 + L2 ** 6 + instructions ** 6) ** (1 / 6)

`busy` is the longest of the first three, and up to a fifth more where others are nearly as long. Waiting hides behind it where
enough is in flight, and adds to it where both take as long: with 512 threads or more on an SM, `Stream`'s chart has the formula's
bend within 9 %. A launch, 2 us, comes on top. The model takes the bytes in flight as always there, so it promises too much where a
block alone on its SM meets at barriers or stores; it knows nothing of L1, bank conflicts, atomics, spills, uneven requests, slow
pipes or the last wave. How far it is off says `tests/test_cost.py`.

| function        | gives                                                          |
|-----------------|----------------------------------------------------------------|
| `predict`       | time and GB/s of a kernel                                       |
| `little_gb_s`   | the bandwidth that so many bytes in flight allow                |
| `needed_bytes`  | the bytes in flight on an SM that a bandwidth needs             |
| `missed`        | which share of a further pass over the rows L2 does not answer  |
| `blocks_per_sm` | how many blocks an SM holds at once, by threads, registers and shared memory |
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot
from numbers import Integral, Real

from quack_tutorial import hardware
from quack_tutorial.records import folder, memory

REGISTERS_AT_ONCE = 256  # a warp's registers are given out in such units
RESERVED_SMEM_BYTES = 1024  # of each block, by the system
LAUNCH_US = 2
OF_A_READ = (
    0.975  # HBM's speed where as much is written as read, of `Stream`'s best; fitted (the best copies: 0.978 and 0.988)
)
# Of an SM: nine tenths of what four schedulers can start at 1.98 GHz; fitted.
INSTRUCTIONS_A_NS = 0.9 * 4 * 1.98
# The working set, rows read and written, as a share of L2: further reads hit up to the first, and none from the second on; fitted.
ANSWERS, MISSES = 2 / 3, 5 / 4


@dataclass(frozen=True)
class Prediction:
    """What the model says: microseconds, GB/s, what bounds it ("bandwidth", "L2", "instructions" or "latency"), whether it says it
    of this machine, and the microseconds of each clock."""

    time_us: float
    gb_s: float
    bound: str
    here: bool = False
    clocks_us: dict[str, float] | None = None

    def __str__(self) -> str:
        of = " for this machine" if self.here else ""
        return f"{self.time_us:,.1f} us at {self.gb_s:,.0f} GB/s, bound by {self.bound} (predicted{of})"

    __repr__ = __str__


def predict(
    nbytes, bytes_in_flight_per_sm=None, hierarchy=None, *, again=(), written=0, in_work=0, instructions=0
) -> Prediction:
    """The time, without the launch, of a kernel that reads `nbytes` once through HBM with so many bytes in flight on an SM (None:
    enough).

    again: the bytes in flight on an SM in each further pass over the same bytes
    written: bytes, in the last pass
    in_work: bytes that the blocks on all SMs read and have in work at once, without what they write: they decide whether L2
        answers a further pass
    instructions: what all warps execute, a warp's instruction counted once

    It is said of this machine's GPU where `quack-tutorial memory --keep` has measured it, else of the recorded one; beside a
    recorded time `hierarchy` is the record's. ValueError unless all are numbers that are not negative, and some bytes in flight.
    """
    in_flight = 1 if bytes_in_flight_per_sm is None else bytes_in_flight_per_sm
    for given, least in (
        (nbytes, 0),
        (written, 0),
        (in_work, 0),
        (instructions, 0),
        *((one, 1e-9) for one in (in_flight, *again)),
    ):
        if not (isinstance(given, Real) and given >= least):
            raise ValueError(
                f"predict: bytes are numbers that are not negative, and some are in flight, got {nbytes!r:.40} and "
                f"{given!r:.40}"
            )
    own = None if hierarchy else memory.own()
    found = hierarchy or own or memory.load()
    from_hbm, waiting, share = nbytes, 0.0, min(1, written / nbytes) if nbytes else 1
    if bytes_in_flight_per_sm is not None:
        waiting = nbytes / little_gb_s(in_flight, found.latency_ns("HBM"), found.sms)
    for number, at_once in enumerate(again, 1):
        lost = missed(in_work * (1 + share if number == len(again) else 1), found)
        from_hbm += lost * nbytes
        latency = lost * found.latency_ns("HBM") + (1 - lost) * found.latency_ns("L2")
        waiting += nbytes / little_gb_s(at_once, latency, found.sms)
    best = found.bandwidth_gb_s("HBM")
    clocks = {"bandwidth": (from_hbm + written) / best / (1 - share * (1 - OF_A_READ))}
    if again:  # else L2 passes on what HBM gives, and is faster
        clocks["L2"] = (nbytes * (1 + len(again)) + written) / found.bandwidth_gb_s("L2")
    clocks["instructions"] = instructions / INSTRUCTIONS_A_NS / found.sms
    longest = max(clocks.values())
    busy = longest and longest * sum((one / longest) ** 6 for one in clocks.values()) ** (1 / 6)
    ns = hypot(waiting, busy)
    clocks["latency"] = waiting
    gb_s = (nbytes + written) / ns if ns else best
    return Prediction(
        ns / 1e3, gb_s, max(clocks, key=clocks.get), own is not None, {name: one / 1e3 for name, one in clocks.items()}
    )


def missed(in_work_bytes, hierarchy) -> float:
    """Which share of a further pass over rows comes from HBM once more, if so many bytes of rows are in work, read and written.

    A fit. Two thirds are what would be left if half of the lines were cached in both halves of L2; beyond, lines are dropped before
    their second use, the more the fuller it gets.
    """
    l2_bytes = hierarchy.gpu.l2_bytes
    share = in_work_bytes / l2_bytes if l2_bytes else MISSES
    return min(1.0, max(0.0, (share - ANSWERS) / (MISSES - ANSWERS)))


def little_gb_s(bytes_in_flight_per_sm, latency_ns, sms) -> float:
    """Little's law: the GB/s (bytes a nanosecond) of `sms` SMs that each wait `latency_ns` for so many bytes."""
    return sms * bytes_in_flight_per_sm / latency_ns


def needed_bytes(gb_s, latency_ns, sms) -> float:
    """The bytes in flight on each SM without which `gb_s` cannot be reached."""
    return gb_s * latency_ns / sms


def blocks_per_sm(threads, registers=0, smem_bytes=0, gpu=None) -> int:
    """How many blocks an SM holds at once: `threads` a block, `registers` a thread, `smem_bytes` a block; 0 if none fits.
    `gpu` is a card of `hardware`, by default the one whose records are read.

    Rules and limits as in NVIDIA's Hopper tuning guide, section Occupancy: registers are given to warps in units of 256.
    """
    sm = hardware.gpu(gpu or folder().name)
    given = threads, registers, smem_bytes
    if not all(isinstance(number, Integral) for number in given) or smem_bytes < 0:
        raise ValueError(f"threads, registers and bytes are whole numbers that are not negative, got {given}")
    if not 1 <= threads <= 1024:
        raise ValueError(f"a block has 1 to 1024 threads, got {threads}")
    if not 0 <= registers <= sm.registers_per_thread:
        raise ValueError(f"a thread has at most {sm.registers_per_thread} registers, got {registers}")
    warps = -(-threads // 32)
    limits = [sm.blocks_per_sm, sm.threads_per_sm // (warps * 32)]
    if registers:
        of_warp = -(-registers * 32 // REGISTERS_AT_ONCE) * REGISTERS_AT_ONCE
        limits.append(sm.registers_per_sm // of_warp // warps)
    if smem_bytes:
        fits = smem_bytes <= sm.smem_per_block_bytes
        limits.append(sm.smem_per_sm_bytes // (smem_bytes + RESERVED_SMEM_BYTES) if fits else 0)
    return min(limits)

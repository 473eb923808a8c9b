"""A cost model of memory-bound kernels: what the bytes take, and whether enough of them are in flight.

    time  >=  bytes / bandwidth                                  the floor
    bandwidth  <=  SMs * bytes in flight on an SM / latency      Little's law

`predict` takes the lower of what the memory gives and what Little's law allows. It knows nothing of instructions, shared
memory, tails of the grid or writes; where a measurement is far below it, one of these is the reason.

| function        | gives                                                          |
|-----------------|----------------------------------------------------------------|
| `predict`       | time and GB/s of a kernel that moves so many bytes              |
| `little_gb_s`   | the bandwidth that so many bytes in flight allow                |
| `needed_bytes`  | the bytes in flight on an SM that a bandwidth needs             |
| `blocks_per_sm` | how many blocks an SM holds at once, by threads, registers and shared memory |
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real

from quack_tutorial import hardware
from quack_tutorial.records import folder, memory

REGISTERS_AT_ONCE = 256  # a warp's registers are given out in such units
RESERVED_SMEM_BYTES = 1024  # of each block, by the system


@dataclass(frozen=True)
class Prediction:
    """What the model says: microseconds, GB/s, what bounds it, "bandwidth" or "latency", and whether it says it of this machine."""

    time_us: float
    gb_s: float
    bound: str
    here: bool = False

    def __str__(self) -> str:
        of = " for this machine" if self.here else ""
        return f"{self.time_us:,.1f} us at {self.gb_s:,.0f} GB/s, bound by {self.bound} (predicted{of})"

    __repr__ = __str__


def predict(nbytes, bytes_in_flight_per_sm=None, hierarchy=None) -> Prediction:
    """The time that `nbytes` through HBM take, with so many bytes in flight on an SM (None: enough): on this machine's GPU where
    `quack-tutorial memory --keep` has measured it, else on the recorded one. Beside a recorded time `hierarchy` is the record's.
    ValueError unless both are numbers, `nbytes` of at least 0 and bytes in flight above 0.
    """
    in_flight = 1 if bytes_in_flight_per_sm is None else bytes_in_flight_per_sm
    if not (isinstance(nbytes, Real) and isinstance(in_flight, Real) and nbytes >= 0 and in_flight > 0):
        raise ValueError(
            f"predict: bytes are numbers that are not negative, and some are in flight, got {nbytes!r:.40} and "
            f"{in_flight!r:.40} in flight on an SM"
        )
    own = None if hierarchy else memory.own()
    found = hierarchy or own or memory.load()
    gb_s, bound = found.bandwidth_gb_s("HBM"), "bandwidth"
    if bytes_in_flight_per_sm is not None:
        allowed = little_gb_s(bytes_in_flight_per_sm, found.latency_ns("HBM"), found.sms)
        if allowed < gb_s:
            gb_s, bound = allowed, "latency"
    return Prediction(nbytes / gb_s / 1e3, gb_s, bound, own is not None)


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

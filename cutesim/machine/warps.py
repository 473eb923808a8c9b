"""What the lanes of a warp exchange: shuffles, reductions, votes; and which lanes must be there.

Sources: PTX ISA 9.0 (shfl.sync, vote.sync, redux.sync, activemask), CUDA C++ Programming Guide.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from cutesim.trace import Op, ShuffleKind

from ..context import STATE, WARP, fail, group, refused, spread
from ..memory.recording import record_event
from ..values.arithmetic import fmax, int32
from ..values.numeric import Boolean, Float32, Int32, TensorSSA, Value, constant_number, scalar
from .control import call_now

FULL_MASK = 0xFFFFFFFF


def warp_idx(loc=None, ip=None):
    """The warp's number, which the compiled code takes from lane 0 through a shuffle of the whole warp."""
    require_whole_warp("warp_idx()")
    return int32(group().threads[None, :] // WARP)


def make_warp_uniform(value, **_):
    """The first lane's value, for the whole warp (readfirstlane through shfl.idx)."""
    v = scalar(value)
    require_whole_warp("make_warp_uniform()")
    wide = _lanes(v.a)
    return Value(Int32, _flat(np.broadcast_to(wide[..., :1], wide.shape)).astype(np.int32))


def _lanes(a: np.ndarray) -> np.ndarray:
    """(B|1, T|1) spread to (B, warps, 32)."""
    shape = group().shape
    return spread(a, shape).reshape(shape[0], -1, WARP)


def _flat(a: np.ndarray) -> np.ndarray:
    return a.reshape(a.shape[0], -1)


def active_lanes() -> np.ndarray:
    g = group()
    return g.active().reshape(len(g.blocks), -1, WARP)


def mask_of(mask) -> np.ndarray:
    if isinstance(mask, Value):
        mask = int(mask.a.reshape(-1)[0])
    return _bits_of(constant_number(mask, "the shuffle mask") & 0xFFFFFFFF)


@lru_cache(maxsize=256)
def _bits_of(mask: int) -> np.ndarray:
    return (mask >> np.arange(WARP, dtype=np.int64)) & 1 == 1


def by_mask(mask, run, *args):
    """run(mask, ...), once for each mask that lanes here have: each half of a warp may name its own lanes."""
    if not isinstance(mask, Value) or mask.a.size == 1:
        return run(mask, *args)
    g = group()
    wide = np.broadcast_to(mask.a, g.shape)
    kinds = np.unique(wide[g.active()]).tolist()
    result = None
    for kind in kinds:
        chosen = wide == kind
        if len(kinds) > 1:
            g.push(chosen)
        one = run(kind, *args)
        if len(kinds) > 1:
            g.pop()
        result = one if result is None else Value(one.dtype, np.where(chosen, one.a, result.a))
    return result


def require_all(mask, what: str) -> None:
    """Every lane that the mask names must arrive, and no other: a missing one hangs or returns anything, another gets anything."""
    if isinstance(mask, int) and mask & 0xFFFFFFFF == 0xFFFFFFFF and _whole():
        return
    named = mask_of(mask)
    if not named.all():
        _require_named(named, what)
    if _whole():
        return
    _refuse(
        _missing(named),
        f"Divergent {what}: its mask names lane {{lane}} of warp {{warp}} (block {{block}}), which is not here "
        "({missing}). Move it out of the `if`, or name only the lanes that arrive in mask=.",
    )


def _require_named(named: np.ndarray, what: str) -> None:
    """Every lane that is here must be in the mask: without, the result is undefined, of shuffles and votes as of sync_warp
    (NVIDIA's CUDA C++ guidelines for robust and safety-critical programming, rule 2.3)."""
    _refuse(
        _first(active_lanes() & ~named),
        f"Divergent {what}: lane {{lane}} of warp {{warp}} executes it, and its mask does not name that lane: "
        "the result is undefined. Name every lane that comes here in mask=, or let only those come that it names.",
    )


def require_whole_warp(what: str) -> None:
    """All lanes of a warp must be here where the compiled code takes lane 0's value: a missing one hangs the GPU."""
    if _whole():
        return
    _refuse(
        _missing(np.ones(WARP, bool)),
        f"Divergent shuffle: {what} takes its value from lane 0 through a shuffle of the whole warp, and lane {{lane}} of "
        "warp {warp} (block {block}) is not here ({missing}); a GPU may wait for ever. Call it before the `if`, and use its "
        "result there.",
    )


def _refuse(found: tuple | None, text: str) -> None:
    """Raise for the lanes that were found, if there are any; `text` has fields for block, warp, lane and how many are missing."""
    if found:
        block, warp, lane, count = found
        missing = f"{count} lane{'s are' if count > 1 else ' is'} missing"
        said = text.format(block=block, warp=warp, lane=lane, missing=missing)
        raise fail("divergent shuffle", said, block=block, threads=(warp * WARP + lane,), count=count)


def _whole() -> bool:
    """Whether the mask leaves every warp whole: there is none, or it is the same for all threads of a block."""
    mask = group().mask
    return mask is None or mask.shape[1] == 1


def _missing(named: np.ndarray) -> tuple | None:
    """(block, warp, lane, how many) of the first executing warp without some existing lane that is named; None if none is."""
    active = active_lanes()
    return _first(named & lanes_that_exist() & ~active & active.any(axis=2, keepdims=True))


def lanes_that_exist():
    """Those of the last warp may not; of the shape of `active_lanes`."""
    g = group()
    if g.exists is None:
        return True
    return np.broadcast_to(g.exists, g.shape).reshape(len(g.blocks), -1, WARP)


def _first(lanes: np.ndarray) -> tuple | None:
    """(block, warp, lane, how many of that warp) of the first True of (blocks, warps, 32); None if there is none."""
    if not lanes.any():
        return None
    g = group()
    b, w, lane = (int(k[0]) for k in np.nonzero(lanes))
    return int(g.blocks[b]), w if g.warp < 0 else g.warp, lane, int(lanes[b, w].sum())


def shuffle_source(kind: ShuffleKind, offset, clamp_bits: int) -> np.ndarray:
    """The lane each lane reads, by the PTX ISA's shfl pseudo-code; out-of-range lanes read themselves. (…, 32)."""
    lane = np.arange(WARP, dtype=np.int64)
    clamp, segment = clamp_bits & 31, (clamp_bits >> 8) & 31
    max_lane = (lane & segment) | (clamp & ~segment & 31)
    min_lane = lane & segment
    b = np.asarray(offset) & 31
    if kind == ShuffleKind.UP:
        j = lane - b
        valid = j >= max_lane
    elif kind == ShuffleKind.DOWN:
        j = lane + b
        valid = j <= max_lane
    elif kind == ShuffleKind.BFLY:
        j = lane ^ b
        valid = j <= max_lane
    else:
        j = min_lane | (b & ~segment & 31)
        valid = j <= max_lane
    return np.where(valid, j, lane)


_constant_source = lru_cache(maxsize=1024)(shuffle_source)


def shuffle(value, offset, kind: ShuffleKind, mask, clamp):
    return by_mask(mask, _shuffle_of, value, offset, kind, clamp)


def _shuffle_of(mask, value, offset, kind: ShuffleKind, clamp):
    if isinstance(value, TensorSSA):
        raise refused("a shuffle moves one number a lane, not a vector; shuffle its elements one by one")
    value = scalar(value)
    if value.dtype.width not in (8, 16, 32, 64):
        raise refused(f"a shuffle moves 8 to 64 bits, not {value.dtype}")
    require_all(mask, "shuffle")
    clamp = constant_number(clamp, "mask_and_clamp")
    if isinstance(offset, Value):
        offset_a = _lanes(offset.a)
        source = shuffle_source(kind, offset_a, clamp)
        shown_offset = offset_a[..., 0] if group().warp < 0 else int(offset_a.reshape(-1)[0])
    else:
        shown_offset = int(offset)
        source = _constant_source(kind, shown_offset, clamp)
    lanes, on = _lanes(value.a), None
    got = _from_lanes(lanes, source)
    if group().lanes_off() is not None:
        on = active_lanes()
        _require_sources(on, source)
    recorder = STATE.run.recorder
    if recorder is not None:
        read, moved = source, None
        if recorder.record_values:
            moved = got.astype(np.float64)
        if on is not None:
            read = np.where(on, read, -1)
            moved = None if moved is None else np.where(on, moved, np.nan)
        if group().warp >= 0:
            read, moved = read.reshape(-1, WARP)[0], None if moved is None else moved[0, 0]
        facts = {"addresses": read, "values": moved, "arg": int(kind), "arg2": shown_offset}
        record_event(Op.SHUFFLE, nbytes=value.dtype.itemsize, **facts)
    return Value(value.dtype, _flat(got))


def _require_sources(active: np.ndarray, source: np.ndarray) -> None:
    """Every lane that is here must read one that is here."""
    absent = active & ~_from_lanes(active, source)
    if absent.any():
        block, warp, lane, _ = _first(absent)
        reads = int(np.broadcast_to(source, active.shape)[absent][0])
        text = (
            f"Divergent shuffle: lane {lane} of warp {warp} (block {block}) reads lane {reads}, "
            "which is not here; its value is undefined. Move the shuffle out of the `if`."
        )
        raise fail("divergent shuffle", text, block=block)


def _from_lanes(lanes: np.ndarray, source: np.ndarray) -> np.ndarray:
    """What each lane reads: (B, warps, 32) at lanes (32,), the same for all warps, or (B, warps, 32)."""
    if source.ndim == 1:
        return lanes.take(source, axis=2)
    return np.take_along_axis(lanes, np.broadcast_to(source, lanes.shape), axis=2)


def _of_kind(name: str, kind: ShuffleKind, clamp: int):
    def sync(value, offset, mask=FULL_MASK, mask_and_clamp=clamp, loc=None, ip=None):
        return shuffle(value, offset, kind, mask, mask_and_clamp)

    sync.__name__ = sync.__qualname__ = name
    return sync


shuffle_sync = _of_kind("shuffle_sync", ShuffleKind.IDX, 31)
shuffle_sync_up = _of_kind("shuffle_sync_up", ShuffleKind.UP, 0)
shuffle_sync_down = _of_kind("shuffle_sync_down", ShuffleKind.DOWN, 31)
shuffle_sync_bfly = _of_kind("shuffle_sync_bfly", ShuffleKind.BFLY, 31)


def warp_reduction(val, op, *, threads_in_group=32, **_):
    """Butterfly over groups of `threads_in_group` lanes; every lane gets the result."""
    width = constant_number(threads_in_group, "threads_in_group")
    offset = width // 2
    while offset:
        val = call_now(op, val, shuffle_sync_bfly(val, offset))
        offset //= 2
    return val


def warp_reduction_max(val, *, threads_in_group=32, **_):
    def larger(a, b):
        """Of integers as cutlass.max is compiled: b where a <= b or b is NaN, else a. So NaN wins, and of two zeros b."""
        if a.dtype is Float32:
            return fmax(a, b)
        return Value(a.dtype, np.where((a.a <= b.a) | (b.a != b.a), b.a, a.a))

    return warp_reduction(val, larger, threads_in_group=threads_in_group)


def warp_reduction_sum(val, *, threads_in_group=32, **_):
    return warp_reduction(val, lambda a, b: a + b, threads_in_group=threads_in_group)


def warp_redux_sync(value, kind: str, mask_and_clamp=FULL_MASK, **flags):
    """redux.sync over the lanes of the mask (sm_90: 32-bit integers only)."""
    value = scalar(value)
    if value.dtype.is_float:
        raise refused("redux.sync takes 32-bit integers on Hopper; reduce floats by shuffles")
    return by_mask(mask_and_clamp, _redux, value, kind)


def _redux(mask, value: Value, kind: str) -> Value:
    require_all(mask, "redux")
    lanes, named = _lanes(value.a), mask_of(mask) & active_lanes()
    bits = lanes.astype(np.uint32)
    inner = np.where(named, lanes, 0)
    if kind in ("max", "min", "umax", "umin"):
        typed = bits if kind.startswith("u") else lanes.astype(np.int64)
        info = np.iinfo(np.uint32) if kind.startswith("u") else np.iinfo(np.int32)
        big = kind.endswith("max")
        result = (np.max if big else np.min)(np.where(named, typed, info.min if big else info.max), axis=2)
    elif kind == "add":
        result = inner.astype(np.int64).sum(axis=2)
    elif kind in ("and", "or", "xor"):
        identity = 0xFFFFFFFF if kind == "and" else 0
        function = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[kind]
        result = function.reduce(np.where(named, bits, np.uint32(identity)), axis=2)
    else:
        raise refused(f"redux kind {kind!r} is not known")
    wrapped = result.astype(np.int64).astype(np.uint32).astype(value.dtype.carrier)
    record_event(Op.REDUX)
    return Value(value.dtype, _flat(np.broadcast_to(wrapped[..., None], lanes.shape)))


def _vote(name: str, reduce, dtype):
    def sync(pred, mask=FULL_MASK, loc=None, ip=None):
        return by_mask(mask, voted, pred)

    def voted(mask, pred) -> Value:
        require_all(mask, "vote")
        yes = _lanes(scalar(pred).a != 0)
        record_event(Op.VOTE)
        return _all_lanes(reduce(yes, mask_of(mask) & active_lanes()), dtype)

    sync.__name__ = sync.__qualname__ = name
    return sync


def _all_lanes(x, dtype) -> Value:
    return Value(dtype, _flat(np.repeat(x[..., None], WARP, axis=2)))


def _as_bits(lanes: np.ndarray) -> np.ndarray:
    bits = lanes.astype(np.uint64) << np.arange(WARP, dtype=np.uint64)
    return bits.sum(axis=2).astype(np.uint32).view(np.int32)


def _all_alike(yes, on):
    return (yes | ~on).all(axis=2) | ~(yes & on).any(axis=2)


vote_ballot_sync = _vote("vote_ballot_sync", lambda yes, on: _as_bits(yes & on), Int32)
vote_any_sync = _vote("vote_any_sync", lambda yes, on: (yes & on).any(axis=2), Boolean)
vote_all_sync = _vote("vote_all_sync", lambda yes, on: (yes | ~on).all(axis=2), Boolean)
vote_uni_sync = _vote("vote_uni_sync", _all_alike, Boolean)


def activemask(**_) -> Value:
    """The lanes that run here, as bits."""
    return _all_lanes(_as_bits(active_lanes()), Int32)

"""cute.arch: who a thread is, warp-wide exchanges, barriers, atomics, approximate arithmetic.

| section               | what it has                                                                          |
|-----------------------|--------------------------------------------------------------------------------------|
| who a thread is       | indices and sizes of threads, blocks, grid and cluster                               |
| warp-wide exchange    | shuffles, reductions over a warp, votes, `sync_warp`; which lanes must be there      |
| the kernel before     | `griddepcontrol_wait`, and who learns of it at a barrier                             |
| block barriers        | `sync_threads`, named barriers, fences                                               |
| arithmetic            | maxima, minima and approximate functions                                             |
| atomics               | on global and shared memory                                                          |

Sources: PTX ISA 9.0 (shfl.sync, vote.sync, redux.sync, bar, elect.sync, ex2.approx), CUDA C++ Programming Guide.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from quack_tutorial.trace import FenceKind, Op, ShuffleKind, Space

from .context import STATE, WARP, NeedsWarps, fail, group, here, spread
from .control import Pending, call_now, constant_number
from .memory import Pointer, record_event
from .numeric import Boolean, DType, Float32, Int32, TensorSSA, Value, convert, scalar
from .scheduler import Barrier, Waiting

FULL_MASK = 0xFFFFFFFF
WARP_SIZE = 32
# Functions that take here every argument that the DSL's API reference gives them: any other is the caller's mistake.
WHOLE = frozenset(
    "thread_idx block_idx block_dim grid_dim lane_idx warp_idx shuffle_sync shuffle_sync_up shuffle_sync_down "
    "shuffle_sync_bfly vote_ballot_sync vote_any_sync vote_all_sync sync_threads sync_warp".split()
)

# ---- who a thread is ------------------------------------------------------------------------------------------------


def _int32(a) -> Value:
    return Value(Int32, np.atleast_2d(np.asarray(a)).astype(np.int32))


def _split(linear: np.ndarray, dims: tuple) -> tuple:
    x, y, _ = dims
    if dims[1] == dims[2] == 1:
        zero = np.zeros((1, 1), np.int32)
        return _int32(linear), Value(Int32, zero), Value(Int32, zero)
    return _int32(linear % x), _int32(linear // x % y), _int32(linear // (x * y))


def thread_idx(loc=None, ip=None):
    g = group()
    return _split(g.threads[None, :], g.launch.block)


def block_idx(loc=None, ip=None):
    g = group()
    return _split(g.blocks[:, None], g.launch.grid)


def block_dim(loc=None, ip=None):
    return tuple(_int32(d) for d in group().launch.block)


def grid_dim(loc=None, ip=None):
    return tuple(_int32(d) for d in group().launch.grid)


def cluster_dim(loc=None, ip=None):
    """The number of clusters along each dimension of the grid."""
    launch = group().launch
    return tuple(_int32(g // c) for g, c in zip(launch.grid, launch.cluster))


def lane_idx(loc=None, ip=None):
    return _int32(group().threads[None, :] % WARP)


def warp_idx(loc=None, ip=None):
    """The warp's number, which the compiled code takes from lane 0 through a shuffle of the whole warp."""
    _require_whole_warp("warp_idx()")
    return _int32(group().threads[None, :] // WARP)


def make_warp_uniform(value, **_):
    """The first lane's value, for the whole warp (readfirstlane through shfl.idx)."""
    v = scalar(value)
    _require_whole_warp("make_warp_uniform()")
    wide = _lanes(v.a)
    return Value(Int32, _flat(np.broadcast_to(wide[..., :1], wide.shape)).astype(np.int32))


# ---- warp-wide exchange ---------------------------------------------------------------------------------------------


def _lanes(a: np.ndarray) -> np.ndarray:
    """(B|1, T|1) spread to (B, warps, 32)."""
    shape = group().shape
    return spread(a, shape).reshape(shape[0], -1, WARP)


def _flat(a: np.ndarray) -> np.ndarray:
    return a.reshape(a.shape[0], -1)


def _active_lanes() -> np.ndarray:
    g = group()
    return g.active().reshape(len(g.blocks), -1, WARP)


def _mask_of(mask) -> np.ndarray:
    if isinstance(mask, Value):
        mask = int(mask.a.reshape(-1)[0])
    return _bits_of(constant_number(mask, "the shuffle mask") & 0xFFFFFFFF)


@lru_cache(maxsize=256)
def _bits_of(mask: int) -> np.ndarray:
    return (mask >> np.arange(WARP, dtype=np.int64)) & 1 == 1


def _by_mask(mask, run):
    """run(mask), once for each mask that lanes here have: each half of a warp may name its own lanes."""
    if not isinstance(mask, Value) or mask.a.size == 1:
        return run(mask)
    g = group()
    wide = np.broadcast_to(mask.a, g.shape)
    kinds = np.unique(wide[g.active()]).tolist()
    result = None
    for kind in kinds:
        chosen = wide == kind
        if len(kinds) > 1:
            g.push(chosen)
        one = run(kind)
        if len(kinds) > 1:
            g.pop()
        result = one if result is None else Value(one.dtype, np.where(chosen, one.a, result.a))
    return result


def _require_all(mask, what: str) -> None:
    """Every lane that the mask names must arrive, and no other: a missing one hangs or returns anything, another gets anything."""
    if isinstance(mask, int) and mask & 0xFFFFFFFF == 0xFFFFFFFF and _whole():
        return
    named = _mask_of(mask)
    if not named.all():
        _require_named(named, what)
    if _whole():
        return
    found = _missing(named)
    if found:
        block, warp, lane, count = found
        raise fail(
            "divergent shuffle",
            f"Divergent {what}: its mask names lane {lane} of warp {warp} (block {block}), which is not here "
            f"({count} lane{'s are' if count > 1 else ' is'} missing). "
            "Move it out of the `if`, or name only the lanes that arrive in mask=.",
            block=block,
            threads=(warp * WARP + lane,),
            count=count,
        )


def _require_named(named: np.ndarray, what: str) -> None:
    """Every lane that is here must be in the mask: without, the result is undefined, of shuffles and votes as of sync_warp
    (NVIDIA's CUDA C++ guidelines for robust and safety-critical programming, rule 2.3)."""
    found = _first(_active_lanes() & ~named)
    if found:
        block, warp, lane, count = found
        raise fail(
            "divergent shuffle",
            f"Divergent {what}: lane {lane} of warp {warp} executes it, and its mask does not name that lane: "
            "the result is undefined. Name every lane that comes here in mask=, or let only those come that it names.",
            block=block,
            threads=(warp * WARP + lane,),
            count=count,
        )


def _require_whole_warp(what: str) -> None:
    """All lanes of a warp must be here where the compiled code takes lane 0's value: a missing one hangs the GPU."""
    if _whole():
        return
    found = _missing(np.ones(WARP, bool))
    if found:
        block, warp, lane, count = found
        raise fail(
            "divergent shuffle",
            f"Divergent shuffle: {what} takes its value from lane 0 through a shuffle of the whole warp, and lane {lane} of "
            f"warp {warp} (block {block}) is not here ({count} lane{'s are' if count > 1 else ' is'} missing); a GPU may "
            "wait for ever. Call it before the `if`, and use its result there.",
            block=block,
            threads=(warp * WARP + lane,),
            count=count,
        )


def _whole() -> bool:
    """Whether the mask leaves every warp whole: there is none, or it is the same for all threads of a block."""
    mask = group().mask
    return mask is None or mask.shape[1] == 1


def _missing(named: np.ndarray) -> tuple | None:
    """(block, warp, lane, how many) of the first executing warp without some existing lane that is named; None if none is."""
    g = group()
    active = _active_lanes()
    exists = None if g.exists is None else np.broadcast_to(g.exists, g.shape).reshape(active.shape)
    executing = active.any(axis=2)
    wanted = np.broadcast_to(named, active.shape)
    if exists is not None:
        wanted = wanted & exists
    return _first(wanted & ~active & executing[..., None])


def _first(lanes: np.ndarray) -> tuple | None:
    """(block, warp, lane, how many of that warp) of the first True of (blocks, warps, 32); None if there is none."""
    if not lanes.any():
        return None
    g = group()
    b, w, lane = (int(k[0]) for k in np.nonzero(lanes))
    return int(g.blocks[b]), w if g.warp < 0 else g.warp, lane, int(lanes[b, w].sum())


@lru_cache(maxsize=1024)
def _constant_source(kind: ShuffleKind, offset: int, clamp_bits: int) -> np.ndarray:
    return shuffle_source(kind, offset, clamp_bits)


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


def _shuffle(value, offset, kind: ShuffleKind, mask, clamp):
    return _by_mask(mask, lambda one: _shuffle_of(value, offset, kind, one, clamp))


def _shuffle_of(value, offset, kind: ShuffleKind, mask, clamp):
    if isinstance(value, TensorSSA):
        raise fail("language", "a shuffle moves one number a lane, not a vector; shuffle its elements one by one")
    value = scalar(value)
    if value.dtype.width not in (8, 16, 32, 64):
        raise fail("language", f"a shuffle moves 8 to 64 bits, not {value.dtype}")
    _require_all(mask, "shuffle")
    clamp = constant_number(clamp, "mask_and_clamp")
    if isinstance(offset, Value):
        offset_a = _lanes(offset.a)
        source = shuffle_source(kind, offset_a, clamp)
        shown_offset = int(offset_a.reshape(-1)[0])
    else:
        shown_offset = int(offset)
        source = _constant_source(kind, shown_offset, clamp)
    lanes, g = _lanes(value.a), group()
    got = _from_lanes(lanes, source)
    active, every = _active_lanes(), g.lanes_off() is None
    if every and STATE.run.recorder is None:
        return Value(value.dtype, _flat(got))
    from_active = active if every else _from_lanes(active, source)
    source = np.broadcast_to(source, lanes.shape)
    if not every and not (from_active | ~active).all():
        b, w, lane = (int(k[0]) for k in np.nonzero(active & ~from_active))
        warp = w if g.warp < 0 else g.warp
        raise fail(
            "divergent shuffle",
            f"Divergent shuffle: lane {lane} of warp {warp} (block {int(g.blocks[b])}) reads lane {int(source[b, w, lane])}, "
            "which is not here; its value is undefined. Move the shuffle out of the `if`.",
            block=int(g.blocks[b]),
        )
    if STATE.run.recorder is not None:
        on = active[0, 0]
        record_event(
            Op.SHUFFLE,
            nbytes=value.dtype.itemsize,
            addresses=np.where(on, source[0, 0], -1),
            values=np.where(on, got[0, 0].astype(np.float64), np.nan),
            arg=int(kind),
            arg2=shown_offset,
        )
    return Value(value.dtype, _flat(got))


def _from_lanes(lanes: np.ndarray, source: np.ndarray) -> np.ndarray:
    """What each lane reads: (B, warps, 32) at lanes (32,), the same for all warps, or (B, warps, 32)."""
    if source.ndim == 1:
        return np.take(lanes, source, axis=2)
    return np.take_along_axis(lanes, np.broadcast_to(source, lanes.shape), axis=2)


def shuffle_sync(value, offset, mask=FULL_MASK, mask_and_clamp=31, loc=None, ip=None):
    return _shuffle(value, offset, ShuffleKind.IDX, mask, mask_and_clamp)


def shuffle_sync_up(value, offset, mask=FULL_MASK, mask_and_clamp=0, loc=None, ip=None):
    return _shuffle(value, offset, ShuffleKind.UP, mask, mask_and_clamp)


def shuffle_sync_down(value, offset, mask=FULL_MASK, mask_and_clamp=31, loc=None, ip=None):
    return _shuffle(value, offset, ShuffleKind.DOWN, mask, mask_and_clamp)


def shuffle_sync_bfly(value, offset, mask=FULL_MASK, mask_and_clamp=31, loc=None, ip=None):
    return _shuffle(value, offset, ShuffleKind.BFLY, mask, mask_and_clamp)


def warp_reduction(val, op, *, threads_in_group=32, **_):
    """Butterfly over groups of `threads_in_group` lanes; every lane gets the result."""
    width = constant_number(threads_in_group, "threads_in_group")
    offset = width // 2
    while offset:
        val = call_now(op, val, shuffle_sync_bfly(val, offset))
        offset //= 2
    return val


def warp_reduction_max(val, *, threads_in_group=32, **_):
    return warp_reduction(
        val, lambda a, b: fmax(a, b) if a.dtype is Float32 else _larger(a, b), threads_in_group=threads_in_group
    )


def warp_reduction_sum(val, *, threads_in_group=32, **_):
    return warp_reduction(val, lambda a, b: a + b, threads_in_group=threads_in_group)


def _larger(a: Value, b: Value) -> Value:
    """As cutlass.max is compiled: b where a <= b or b is NaN, else a. So NaN wins, and of two zeros b."""
    return Value(a.dtype, np.where((a.a <= b.a) | (b.a != b.a), b.a, a.a))


def warp_redux_sync(value, kind: str, mask_and_clamp=FULL_MASK, **flags):
    """redux.sync over the lanes of the mask (sm_90: 32-bit integers only)."""
    value = scalar(value)
    if value.dtype.is_float:
        raise fail("language", "redux.sync takes 32-bit integers on Hopper; reduce floats by shuffles")
    return _by_mask(mask_and_clamp, lambda mask: _redux(value, kind, mask))


def _redux(value: Value, kind: str, mask_and_clamp) -> Value:
    _require_all(mask_and_clamp, "redux")
    lanes, named = _lanes(value.a), _mask_of(mask_and_clamp) & _active_lanes()
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
        raise fail("language", f"redux kind {kind!r} is not known")
    wrapped = result.astype(np.int64).astype(np.uint32).astype(value.dtype.carrier)
    record_event(Op.REDUX)
    return Value(value.dtype, _flat(np.broadcast_to(wrapped[..., None], lanes.shape)))


def _vote(pred, mask, reduce):
    _require_all(mask, "vote")
    a = scalar(pred)
    yes = _lanes(a.a != 0)
    record_event(Op.VOTE)
    return reduce(yes, _mask_of(mask) & _active_lanes())


def _all_lanes(x, dtype) -> Value:
    return Value(dtype, _flat(np.repeat(x[..., None], WARP, axis=2)))


def vote_ballot_sync(pred, mask=FULL_MASK, loc=None, ip=None):
    bits = lambda yes, on: ((yes & on).astype(np.uint64) << np.arange(WARP, dtype=np.uint64)).sum(axis=2)  # noqa: E731
    return _by_mask(mask, lambda one: _all_lanes(_vote(pred, one, bits).astype(np.uint32).view(np.int32), Int32))


def vote_any_sync(pred, mask=FULL_MASK, loc=None, ip=None):
    some = lambda yes, on: (yes & on).any(axis=2)  # noqa: E731
    return _by_mask(mask, lambda one: _all_lanes(_vote(pred, one, some), Boolean))


def vote_all_sync(pred, mask=FULL_MASK, loc=None, ip=None):
    every = lambda yes, on: (yes | ~on).all(axis=2)  # noqa: E731
    return _by_mask(mask, lambda one: _all_lanes(_vote(pred, one, every), Boolean))


def vote_uni_sync(pred, mask=FULL_MASK, loc=None, ip=None):
    uniform = lambda yes, on: (yes | ~on).all(axis=2) | ~(yes & on).any(axis=2)  # noqa: E731
    return _by_mask(mask, lambda one: _all_lanes(_vote(pred, one, uniform), Boolean))


def sync_warp(mask=FULL_MASK, loc=None, ip=None):
    _by_mask(mask, _sync_lanes)


def _sync_lanes(mask) -> Value:
    _require_all(mask, "sync_warp")
    _one_waited_for_all(WARP, _mask_of(mask))
    record_event(Op.SYNC_WARP)
    return Value(Boolean, np.array([[True]]))


# ---- the kernel before ----------------------------------------------------------------------------------------------


def griddepcontrol_wait(loc=None, ip=None):
    """Until the kernels before this one on the stream have ended: here they always have, see `memory.check`.

    What they wrote is then visible to the whole grid (PTX ISA, griddepcontrol): others of the block may use it too once a
    barrier has told them.
    """
    g = group()
    if g.early is not None:
        g.early &= ~g.active()
    g.launch.waited.update(g.blocks[g.active().any(axis=1)].tolist())
    record_event(Op.FENCE, arg=int(FenceKind.GPU))  # what they wrote is seen after it


def griddepcontrol_launch_dependents(loc=None, ip=None):
    """Let the next kernel on the stream start, once all blocks have said so or ended: here it runs later still. What matters is
    whether the threads that say so first have waited, see `scheduler.LaunchState.waits_first`."""
    g = group()
    early = g.active() if g.early is None else g.active() & g.early
    for block, says, too_early in zip(g.blocks.tolist(), g.active().any(axis=1), early.any(axis=1)):
        if says:
            g.launch.signalled.setdefault(block, g.early is not None and not too_early)


def _one_waited_for_all(threads: int, named=True) -> None:
    """After a barrier of so many neighbouring lanes, or of those named among them: where one of them has waited for the kernels
    before, all of them have."""
    g = group()
    if g.early is not None:
        met = g.active().reshape(len(g.blocks), -1, threads) & named
        early = g.early.reshape(met.shape)
        early &= ~(met & (met & ~early).any(axis=2, keepdims=True))


# ---- block barriers -------------------------------------------------------------------------------------------------


def _whole_warps(what: str, advice="Move it out of the `if`, so that every thread of the block passes it.") -> None:
    """A block barrier must be reached by whole warps."""
    g = group()
    if g.mask is None:
        return
    active = _active_lanes()
    exists = (
        np.ones(active.shape, bool) if g.exists is None else np.broadcast_to(g.exists, g.shape).reshape(active.shape)
    )
    some = active.any(axis=2)
    torn = some & (active != exists).any(axis=2)
    if torn.any():
        b, w = (int(k[0]) for k in np.nonzero(torn))
        warp = w if g.warp < 0 else g.warp
        lanes = int(active[b, w].sum())
        raise fail(
            "divergent barrier",
            f"Divergent {what}: only {lanes} of the {int(exists[b, w].sum())} threads of warp {warp} (block {int(g.blocks[b])}) "
            f"reach it. {advice}",
            block=int(g.blocks[b]),
            count=lanes,
        )
    if g.warp < 0 and not (some | ~exists.any(axis=2)).all():
        raise NeedsWarps


def barrier(*, barrier_id=None, number_of_threads=None, loc=None, ip=None):
    """bar.sync: the warp waits until the block's warps (or `number_of_threads`) have arrived."""
    g = group()
    identifier = _barrier_id(barrier_id)
    count = None if number_of_threads is None else constant_number(number_of_threads, "number_of_threads")
    if count is not None and (count <= 0 or count % WARP):
        raise fail("language", f"number_of_threads={count} must be a multiple of {WARP}")
    _whole_warps("barrier", *_named_advice(identifier, count))
    if g.warp < 0:
        if count is not None and count != g.shape[1]:
            raise NeedsWarps
        _one_waited_for_all(g.shape[1])
        return None
    return Pending(_wait_at_barrier(g, identifier, count))


def _named_advice(identifier: int, count) -> tuple:
    """What is said where only a part of a warp comes to a barrier that counts some of the block's threads."""
    if count is None or count == group().launch.threads:
        return ()
    return (f"Barrier {identifier} counts {count} threads, warp by warp: let whole warps come to it.",)


def sync_threads(loc=None, ip=None):
    return barrier()


def _barrier_id(barrier_id) -> int:
    if isinstance(barrier_id, Value):
        flat = barrier_id.a.reshape(-1)
        if (flat != flat[0]).any():
            raise (
                NeedsWarps
                if group().warp < 0
                else fail("language", "a barrier's number must be the same for the whole warp")
            )
        barrier_id = int(flat[0])
    identifier = 0 if barrier_id is None else int(barrier_id)
    if not 0 <= identifier < 16:
        raise fail("language", f"barrier {identifier} does not exist: a block has barriers 0 to 15")
    return identifier


def _arrive(g, identifier: int, count):
    launch, block = g.launch, int(g.blocks[0])
    bar = launch.barriers.setdefault((block, identifier), Barrier())
    wanted = (-(-launch.threads // WARP)) if count is None else count // WARP
    if bar.arrived and bar.wanted != wanted:
        raise fail(
            "barrier count",
            f"{_barrier_name(identifier)} counts two ways: warp {g.warp} of block {block} comes with {wanted * WARP} threads, and "
            f"{bar.first.where} came with {bar.wanted * WARP} before. All who wait or arrive at a barrier must give one count.",
            lines=(here(), bar.first),
            block=block,
        )
    if not bar.arrived:
        bar.wanted, bar.first = wanted, here()
    bar.arrived += 1
    if g.early is not None and (g.active() & ~g.early).any():
        bar.waited.add(bar.generation)
    generation = bar.generation
    if bar.arrived >= wanted:
        bar.generation += 1
        bar.arrived = 0
    return bar, generation


def _barrier_name(identifier: int) -> str:
    return "The block barrier" if identifier == 0 else f"Barrier {identifier}"


def _awaited(identifier: int, bar: Barrier) -> str:
    """What is said of a barrier at which warps wait for ever."""
    if identifier == 0:
        return "the block barrier"
    return f"barrier {identifier}, which counts {bar.wanted * WARP} threads: {bar.arrived * WARP} have come"


def _wait_at_barrier(g, identifier: int, count):
    line = here()
    if STATE.run.recorder is not None:
        bar = g.launch.barriers.setdefault((int(g.blocks[0]), identifier), Barrier())
        record_event(Op.BARRIER, arg=identifier, arg2=bar.generation)
    bar, generation = _arrive(g, identifier, count)
    while bar.generation == generation:
        yield Waiting(
            lambda: bar.generation != generation,
            lambda: _awaited(identifier, bar),
            line,
        )
    if g.early is not None and generation in bar.waited:
        g.early &= ~g.active()
    record_event(Op.BARRIER_RESUME, arg=identifier, arg2=generation)


def barrier_arrive(*, barrier_id=None, number_of_threads=None, aligned=True, loc=None, ip=None):
    """bar.arrive: count this warp in without waiting."""
    g = group()
    if number_of_threads is None:
        raise fail("language", "barrier_arrive needs number_of_threads")
    identifier, count = _barrier_id(barrier_id), constant_number(number_of_threads, "number_of_threads")
    _whole_warps("barrier_arrive")
    if g.warp < 0:
        raise NeedsWarps
    bar = g.launch.barriers.setdefault((int(g.blocks[0]), identifier), Barrier())
    record_event(Op.BARRIER_ARRIVE, arg=identifier, arg2=bar.generation)
    _arrive(g, identifier, count)


def _fence(kind: FenceKind):
    def fence(*_, **__):
        record_event(Op.FENCE, arg=int(kind))

    return fence


fence_acq_rel_cta = _fence(FenceKind.CTA)
fence_acq_rel_cluster = _fence(FenceKind.CLUSTER)
fence_acq_rel_gpu = _fence(FenceKind.GPU)
fence_acq_rel_sys = _fence(FenceKind.SYS)
fence_view_async_shared = _fence(FenceKind.PROXY_ASYNC_SHARED)


def fence_proxy(kind="async", *_, **__) -> None:
    """fence.proxy: what threads did before is seen by bulk copies after it, in the memory that `kind` names or in all."""
    if "async" not in str(kind):
        return
    kinds = {"shared": FenceKind.PROXY_ASYNC_SHARED, "global": FenceKind.PROXY_ASYNC_GLOBAL}
    record_event(Op.FENCE, arg=int(next((k for word, k in kinds.items() if word in str(kind)), FenceKind.PROXY_ASYNC)))


# ---- arithmetic -----------------------------------------------------------------------------------------------------


def _f32(x) -> np.ndarray:
    return convert(x, Float32).a


def _signed_zero(result, a, b, larger: bool):
    """max(+0, -0) is +0 and min is -0 (PTX ISA, max and min)."""
    both = (a == 0) & (b == 0)
    if not both.any():
        return result
    zero = a + b if larger else -((-a) + (-b))
    return np.where(both, zero, result)


def fmax(a, b, *, abs=False, nan=False, ftz=False, **_) -> Value:
    """The larger number; NaN only where both are NaN (where either is, with nan=True).

    `abs` compares magnitudes and gives the product's sign (.xorsign.abs), `ftz` flushes subnormal numbers.
    """
    return _pick(np.maximum if nan else np.fmax, True, a, b, abs, ftz)


def fmin(a, b, *, abs=False, nan=False, ftz=False, **_) -> Value:
    return _pick(np.minimum if nan else np.fmin, False, a, b, abs, ftz)


def _pick(pick, largest: bool, a, b, magnitudes: bool, ftz: bool) -> Value:
    x, y = _f32(a), _f32(b)
    x, y = (flush(x), flush(y)) if ftz else (x, y)
    if magnitudes:
        negative = np.signbit(x) ^ np.signbit(y)
        x, y = np.abs(x), np.abs(y)
        result = pick(x, y)
        return Value(Float32, np.where(negative, -result, result))
    return Value(Float32, _signed_zero(pick(x, y), x, y, largest))


def flush(a: np.ndarray) -> np.ndarray:
    """Subnormal float32 numbers become zero of the same sign (.ftz)."""
    tiny = np.abs(a) < np.float32(1.17549435e-38)
    return np.where(tiny, np.copysign(np.float32(0), a), a) if tiny.any() else a


def exp2(a, **_) -> Value:
    """ex2.approx.ftz (documented error: 2 ulp)."""
    return Value(Float32, flush(np.exp2(flush(_f32(a)))))


def exp(a, **_) -> Value:
    return Value(Float32, flush(np.exp2(flush(_f32(a) * np.float32(1.4426950408889634)))))


def rcp_approx(a, **_) -> Value:
    """rcp.approx.ftz (documented error: 1 ulp)."""
    return Value(Float32, flush(np.float32(1) / flush(_f32(a))))


def clz(a, **_) -> Value:
    """The number of zeros above the highest bit that is 1."""
    value = scalar(a)
    bits = value.a.view(f"u{value.dtype.itemsize}").astype(np.uint64)
    width = value.dtype.width
    used = sum((bits >> np.uint64(i) != 0).astype(np.int32) for i in range(width))
    return Value(Int32, (width - used).astype(np.int32))


def activemask(**_) -> Value:
    """The lanes that run here, as bits."""
    bits = (_active_lanes().astype(np.uint64) << np.arange(WARP, dtype=np.uint64)).sum(axis=2)
    return _all_lanes(bits.astype(np.uint32).view(np.int32), Int32)


def popc(a, **_) -> Value:
    """The number of bits that are 1, in the type of `a`."""
    value = scalar(a)
    bits = value.a.view(f"u{value.dtype.itemsize}").astype(np.uint64)
    ones = sum((bits >> np.uint64(i)) & np.uint64(1) for i in range(value.dtype.width))
    return Value(value.dtype, ones.astype(value.dtype.carrier))


# ---- atomics --------------------------------------------------------------------------------------------------------


def _atomic(name: str):
    def atomic(ptr: Pointer, val, *, sem=None, **_):
        return _run_atomic(name, ptr, val if isinstance(val, TensorSSA) else scalar(val), sem)

    atomic.__name__ = f"atomic_{name}"
    return atomic


_COMBINE = {
    "add": lambda old, new: old + new,
    "max": np.maximum,
    "min": np.minimum,
    "and": lambda old, new: old & new,
    "or": lambda old, new: old | new,
    "xor": lambda old, new: old ^ new,
    "exch": lambda old, new: new,
}


# What the analysis takes an atomic to do beside its own: acquire, release.
_SEMANTICS = {"acquire": 1, "release": 2, "acq_rel": 3}


def atomic_cas(ptr: Pointer, *, cmp, val, sem=None, **_) -> Value:
    """`val` where the element is `cmp`; what it was before."""
    return _run_atomic("cas", ptr, scalar(val), sem, convert(cmp, ptr.dtype).a)


def _run_atomic(name: str, ptr: Pointer, val: Value | TensorSSA, sem=None, wanted=None) -> Value | TensorSSA:
    """One atomic a lane; of a vector one instruction, whose elements are updated one by one (PTX ISA, atom)."""
    from . import memory as m

    g = group()
    dtype: DType = ptr.dtype
    vector, width = isinstance(val, TensorSSA), 1
    if vector:
        width = val.numel
        if (name, dtype, ptr.memory.space) != ("add", Float32, Space.GMEM) or width not in (2, 4):
            raise fail(
                "language",
                f"atomic_{name} of {width} x {dtype} at once: of vectors the simulator has atomic_add of 2 or 4 float32 in "
                f"global memory (atom.global.add.v4.f32)",
            )
    if dtype.is_float and name not in ("add", "exch", "cas"):
        raise fail(
            "language", f"atomic_{name} takes integers, not {dtype}; of floats there are atomic_add and atomic_exch"
        )
    # PTX ISA, atom: float32 sums in global memory flush subnormal numbers, in shared memory they do not.
    settled = (
        flush if dtype is Float32 and name == "add" and ptr.memory.space is Space.GMEM else lambda numbers: numbers
    )
    zero = np.zeros(1, np.int64)
    flat, index = m._flat_index(ptr, zero)
    lanes = m._lanes(None, 1)
    place = None if vector or ptr.view is None else m.Place(ptr.view[1].base)
    m.check(ptr, zero, width, lanes, Op.ATOMIC, place)
    word = str(sem).rpartition(".")[2].lower()  # a string, or a member of an enumeration
    m.record(ptr, zero, width, lanes, Op.ATOMIC, flat, index, arg=_SEMANTICS.get(word, 0))
    writes, changed = STATE.run.writes, False
    if ptr.memory.space is Space.GMEM:
        STATE.run.before_write(ptr.memory)
    index = np.broadcast_to(index[..., 0], g.shape)
    shape = (*g.shape, width)
    amount = np.broadcast_to(val.to(dtype).a if vector else convert(val, dtype).a[..., None], shape)
    active = np.broadcast_to(g.active()[..., None], shape)
    old = np.zeros(shape, dtype.carrier)
    combine = _COMBINE.get(name)
    wanted = None if wanted is None else np.broadcast_to(wanted, g.shape)
    shadows = STATE.run.shadows if STATE.exact and dtype.is_float else None
    for b, t, k in zip(*np.nonzero(active)):  # lane order: one legal order
        at = index[b, t] + k
        raw, one = flat[at : at + 1], amount[b, t, k : k + 1]
        held = dtype.decode(raw if shadows is None else shadows.load(flat, np.array([at]), raw))
        before = held[0]
        old[b, t, k] = before
        terms = settled(held), settled(one)
        if wanted is not None:
            after = terms[1] if before == wanted[b, t] else terms[0]
        else:
            after = settled(dtype.round(combine(terms[0], terms[1])))
        changed = changed or after[0] != before
        raw = dtype.encode(after)
        if shadows is not None:
            shadows.store(flat, np.array([at]), raw)
        flat[at] = raw[0]
    STATE.run.writes = writes + bool(changed)  # one that changes nothing, as in a spin on a flag, is none
    if STATE.run.order is not None:
        STATE.run.order.atomics.append((name, changed))
    return TensorSSA(dtype, old, (width,)) if vector else Value(dtype, old[..., 0])


atomic_add, atomic_max, atomic_min = _atomic("add"), _atomic("max"), _atomic("min")
atomic_and, atomic_or, atomic_xor, atomic_exch = _atomic("and"), _atomic("or"), _atomic("xor"), _atomic("exch")

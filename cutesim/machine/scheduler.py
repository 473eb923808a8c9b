"""Runs a launch: batches of whole blocks in lockstep (fast), or warp by warp under a chosen order (checked).

| mode    | a group is          | barriers                     | records |
|---------|---------------------|------------------------------|---------|
| fast    | a batch of blocks   | nothing to do: all in step   | nothing |
| in step | a batch of blocks   | nothing to do: all in step   | a log   |
| checked | one warp            | the warp waits, others run   | a trace |

A checked run first lets the warps of each launch run in step, which takes a fraction of the time, and plays their logs, warp by
warp, as the schedule has it: accesses that something orders give the same numbers in every order. Where anything is found, or a
launch needs warps, what they did is taken back, and each warp runs the kernel itself.

In the checked mode `RunState.order`, where there is one, says after each step that others can see who goes next (`orders`).
A fast launch whose warps must run apart (a barrier that some warps skip, named barriers) starts again warp by warp.
Not covered: time. Blocks run one cluster after another, which is one legal order.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
import random
from dataclasses import dataclass, field

import numpy as np

from cutesim.trace import Launch, Op, TraceRecorder

from ..context import STATE, WARP, Group, NeedsWarps, fail, here, not_simulated
from ..memory.log import Log
from ..values.exact import Shadows
from ..values.numeric import Value, constant_number

# bytes a block may use on Hopper (227 KiB); CUDA C++ Programming Guide, table of compute capabilities
SMEM_LIMIT = 232_448
THREAD_LIMIT = 1024
# By x, y and z; CUDA C++ Programming Guide, technical specifications of every compute capability
BLOCK_LIMITS, GRID_LIMITS = (1024, 1024, 64), (2**31 - 1, 65535, 65535)
# Of an H100 SXM or H200; of a multiprocessor, and reserved for each block (CUDA C++ Programming Guide, compute capability 9.0)
MULTIPROCESSORS, BLOCKS_AT_ONCE, SMEM_OF_A_MULTIPROCESSOR, SMEM_RESERVED = 132, 32, 233_472, 1024
REGISTERS = 65536  # of a multiprocessor, since Ampere
CLUSTER_LIMIT = 16
STEPS_IN_STEP = 20_000  # of loops: a longer launch runs warp by warp, so that an endless one is not waited for twice
FAST_LANES = 16384  # of a batch: fewer cost more Python an element, more gain little


@dataclass
class RunState:
    """One simulate() call: its options, what it records, its memories."""

    recorder: TraceRecorder | None
    schedule: str = "forward"
    seed: int = 0
    max_steps: int = 2_000_000
    blocks: range | None = None  # those that run; None: all
    fill: int = 0  # which poison uninitialised memory holds
    likely: int | None = None  # a number that it holds instead of poison, as a new GPU's zeros
    steps: int = 0  # loop steps since a warp or a batch of blocks last came to its end
    most_steps: int = 0  # that any has needed
    began: float = 0.0  # what this process had used when they had been some; 0 = not asked yet
    line_numbers: dict = field(default_factory=dict)
    snapshots: dict = field(default_factory=dict)
    snapshotting: bool = False
    printed: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    kernel_calls: list = field(default_factory=list)
    # the launches that may run as the next one starts; None = not known
    may_still_run: list | None = None
    arguments: list = field(default_factory=list)  # memory.GlobalMemory of each tensor
    smem_bytes: int = 0
    # Line of a fragment -> Line of the first read of what no store has reached, if looked for
    unwritten: dict | None = None
    # the Line of the only fragment that holds other poison than with the fill before
    poisoned: object = None
    # whether loads are marked that wait for what others bring
    follows: bool = False
    # whether the arguments are in a GPU's memory, which the host cannot touch
    on_device: bool = False
    assumes: bool = False  # whether a kernel has promised something with cute.assume
    # the exact numbers of memory, where they are asked for
    shadows: Shadows = field(default_factory=Shadows)
    writes: int = 0  # stores to memory so far: a loop that makes none and changes no variable waits for someone else's
    made: int = 0  # register arrays so far
    changes: int = 0  # stores to registers so far
    # whether a warp has gone by an mbarrier's answer that a phase is complete
    believed: bool = False
    # (block, warp, mbarrier, phase) of each answer of no, in a run that gives one to each first question
    doubted: set | None = None
    in_step: bool = False  # whether warps may run in step where a trace is recorded
    went_in_step: bool = False  # whether some have
    # memory -> what it held before warps in step wrote to it
    changed: dict = field(default_factory=dict)
    # where the instruction stands that a warp in step has done, while its log is played
    played: tuple | None = None
    order: object = None  # orders.Order: who chooses each step, None = `schedule`
    mapper: object = None  # twins.Mapper: the reader's functions and objects as they run here
    blame: object = None  # blame.of_call: whose the error of a call is

    @functools.cached_property
    def host_thread(self) -> Group:
        one = np.zeros(1, np.int64)
        return Group(LaunchState((1, 1, 1), (1, 1, 1), (1, 1, 1), 1, 1), one, one, None, -1, one)

    def poison(self, dtype, places, changed=True):
        """What uninitialised registers and shared memory hold: one number, or one for each of `places()`, which are numbers.

        It differs between two fills in a row whatever becomes of it. Of floats NaN, which every sum keeps, and then numbers that
        are far too large at even places and far too small at odd ones, for maxima, minima and comparisons, which pass over a NaN.
        Of integers one far too large (which `if i < n` keeps from being an index), then one far too small, with no bit in common;
        of bytes, which are often read as something else, such that numbers made of them are far apart, too.
        """
        if self.likely is not None:
            return self.likely
        other = (self.fill if changed else self.fill - 1) % 2
        if dtype.is_float:
            far = 2.0 ** {8: 8, 16: 15 if dtype.storage.kind == "f" else 100}.get(dtype.width, 100)
            return np.where(places() % 2 == 0, far, -far) if other else np.nan
        if dtype.kind == "b":
            return bool(other)
        if (dtype.kind, dtype.width) == ("u", 8):
            return (0x7A, 0xFB)[other]
        limits = np.iinfo(dtype.storage)
        return (limits.min if other else limits.max) ^ 5

    def came_to_an_end(self) -> None:
        """A warp or a batch of blocks has."""
        self.most_steps, self.steps, self.began = max(self.most_steps, self.steps), 0, 0.0

    def before_write(self, memory) -> None:
        self.writes += 1
        if self.snapshotting and memory not in self.snapshots and hasattr(memory, "address"):
            self.snapshots[memory] = memory.array.copy()


OF_A_BATCH = "row_blocks shared views poisoned barriers cluster_barriers mbarriers in_flight".split()


@dataclass
class LaunchState:
    """A launch in progress: geometry, and the shared memory of the blocks that run together."""

    grid: tuple
    block: tuple
    cluster: tuple
    blocks: int
    threads: int
    smem_stride: int = SMEM_LIMIT
    row_blocks: np.ndarray | None = None  # the block whose shared memory each row is
    shared: np.ndarray | None = None  # (blocks that run together, smem_stride) bytes
    views: dict = field(default_factory=dict)
    # start -> SharedAllocation, same in every block
    allocations: dict = field(default_factory=dict)
    poisoned: set = field(default_factory=set)  # (row, start) filled in this batch
    barriers: dict = field(default_factory=dict)  # (block, id) -> Barrier
    live_warps: dict = field(default_factory=dict)  # block -> warps that have not exited
    # block -> {warp: (registers a thread that it asked for last, where)}
    registers: dict = field(default_factory=dict)
    cluster_barriers: dict = field(default_factory=dict)  # first row of the cluster -> Barrier
    mbarriers: dict = field(default_factory=dict)  # (row, byte offset) -> mbarriers.MBarrier
    # asynchronous transfers that have not landed, oldest first
    in_flight: list = field(default_factory=list)
    late: list = field(default_factory=list)  # bulk stores that end with the launch
    smem_used: int = 0
    dynamic_smem: int = 0  # bytes that launch(smem=...) asks for
    cooperative: bool = False  # all blocks run at the same time
    use_pdl: bool = False  # may start before the kernel ahead of it on the stream has ended
    name: str = ""
    # launches that may still run as this one starts; None = not known
    ahead: list | None = field(default_factory=list)
    # blocks of which a thread has waited for the kernels before
    waited: set = field(default_factory=set)
    # block -> whether the first that let the next kernel start had waited
    signalled: dict = field(default_factory=dict)
    # id -> (memory, whether it was written) of global memory
    touched: dict = field(default_factory=dict)

    @property
    def waits_first(self) -> bool:
        """Whether the kernels before this one have ended once the next may start, which is when every block has let it, or ended:
        that of one block that had waited by then says so (PTX ISA, griddepcontrol)."""
        return any(self.signalled.get(block, True) for block in self.waited) or any(self.signalled.values())

    def touch(self, memory, op: Op) -> None:
        """Note that this launch reads or writes `memory`."""
        if op is not Op.LOAD or id(memory) not in self.touched:
            self.touched[id(memory)] = memory, op is not Op.LOAD

    def disturbed_by(self, memory, op: Op):
        """The launch ahead that writes `memory`, or uses it where `op` writes; None where there is none."""
        for launch in reversed(self.ahead):
            for other, written in launch.touched.values():
                meets = written or op is not Op.LOAD
                if meets and np.may_share_memory(other.array, memory.array):
                    return launch
        return None

    cluster_size = property(lambda self: math.prod(self.cluster))

    @property
    def at_once(self) -> int:
        """Blocks that an H100 or H200 holds at a time, at most: registers may allow fewer."""
        by_memory = SMEM_OF_A_MULTIPROCESSOR // (max(self.smem_used, self.dynamic_smem) + SMEM_RESERVED)
        return MULTIPROCESSORS * min(by_memory, 2 * THREAD_LIMIT // (-(-self.threads // WARP) * WARP), BLOCKS_AT_ONCE)

    def settle_cluster_barrier(self, group: Group, ended=False) -> None:
        """A warp has come to the cluster barrier, or ended; it waits for those that have not (PTX ISA, barrier.cluster, exit)."""
        first = int(group.rows[0]) // self.cluster_size * self.cluster_size
        barrier = self.cluster_barriers.get(first)
        if barrier is None:
            return
        if ended and group.cluster_generation == barrier.generation:
            barrier.arrived -= 1
        blocks = self.row_blocks[first : first + self.cluster_size].tolist()
        live = sum(map(self.live_warps.get, blocks))
        if 0 < live == barrier.arrived:
            barrier.generation += 1
            barrier.arrived = 0

    def block_order(self) -> np.ndarray:
        """Linear indices of the blocks that run, cluster by cluster and by rank within each; a cluster runs as a whole."""
        (gx, gy, gz), (cx, cy, cz) = self.grid, self.cluster
        linear = np.arange(gx * gy * gz, dtype=np.int64).reshape(gz // cz, cz, gy // cy, cy, gx // cx, cx)
        clusters = linear.transpose(0, 2, 4, 1, 3, 5).reshape(-1, self.cluster_size)
        some = STATE.run.blocks or range(self.blocks)
        return clusters[some.start // self.cluster_size : -(-some.stop // self.cluster_size)].ravel()

    def shared_flat(self, dtype) -> np.ndarray:
        view = self.views.get(dtype)
        if view is None:
            view = self.views[dtype] = self.shared.reshape(-1).view(dtype.storage)
        return view

    def open_batch(self, blocks: np.ndarray) -> None:
        count = len(blocks)
        self.row_blocks = blocks
        self.cluster_barriers, self.mbarriers, self.in_flight = {}, {}, []
        if self.shared is None or len(self.shared) < count:
            self.shared = np.empty((count, self.smem_stride), np.uint8)
            self.views = {}
        self.poisoned = set()
        self.barriers = {}

    def put_aside(self) -> dict:
        """What belongs to the blocks that run now, for `take_up`; the next blocks get memory of their own."""
        aside = {name: getattr(self, name) for name in OF_A_BATCH}
        self.shared, self.views = None, {}
        return aside

    def take_up(self, aside: dict) -> None:
        vars(self).update(aside)


def three(dims, what: str) -> tuple:
    dims = dims if isinstance(dims, (tuple, list)) else (dims,)
    single = (int(d.a.item()) if isinstance(d, Value) and d.a.size == 1 else d for d in dims)
    dims = tuple(constant_number(d, what) for d in single)
    if len(dims) > 3 or any(d < 0 for d in dims):
        raise fail("launch", f"{what}={dims} must be up to three numbers, none negative")
    return dims + (1,) * (3 - len(dims))


# Options of a launch that change nothing here.
WITHOUT_EFFECT = frozenset("min_blocks_per_mp max_number_threads preferred_smem_carveout loc ip".split())


class KernelCall:
    """`kernel(args)`: what `.launch(grid=…, block=…)` starts."""

    def __init__(self, function, args, kwargs):
        self.function, self.args, self.kwargs = function, args, kwargs
        self.line, self.launched = here(), False
        STATE.run.kernel_calls.append(self)

    def launch(self, grid=1, block=1, cluster=1, smem=None, stream=None, use_pdl=False, **unknown):
        self.launched = True
        cooperative = bool(unknown.pop("cooperative", False))
        for name in set(unknown) - WITHOUT_EFFECT:
            raise not_simulated(f"launch({name}=...)")
        grid, block = three(grid, "grid"), three(block, "block")
        cluster = three(1 if cluster is None else cluster, "cluster")
        threads, blocks, per_cluster = map(math.prod, (block, grid, cluster))
        if not 1 <= threads <= THREAD_LIMIT:
            raise fail("launch", f"block={block} has {threads} threads; a block has 1 to {THREAD_LIMIT}")
        if not 1 <= per_cluster <= CLUSTER_LIMIT:
            raise fail("launch", f"cluster={cluster} has {per_cluster} blocks; a cluster has 1 to {CLUSTER_LIMIT}")
        limited = ("block", block, BLOCK_LIMITS, "threads"), ("grid", grid, GRID_LIMITS, "blocks")
        for what, dims, limits, holds in limited:
            for axis, number, most in zip("xyz", dims, limits):
                if number > most:
                    text = f"{what}={dims} has {number:,} {holds} along {axis}, and a {what} has at most {most:,} there"
                    raise fail("launch", text)
        if any(g % c for g, c in zip(grid, cluster)):
            raise fail("launch", f"grid={grid} is not a multiple of cluster={cluster}")
        if blocks < 1:
            raise fail("launch", f"grid={grid} has no blocks; skip the launch when there is nothing to do")
        if smem is not None and isinstance(smem, int) and smem > SMEM_LIMIT:
            raise fail("launch", f"smem={smem:,} bytes; a Hopper block has at most {SMEM_LIMIT:,}")
        run, name = STATE.run, self.function.name
        state = LaunchState(grid, block, cluster, blocks, threads, cooperative=cooperative, name=name)
        state.use_pdl, state.dynamic_smem = bool(use_pdl), smem if isinstance(smem, int) else 0
        state.ahead = run.may_still_run if state.use_pdl else []
        run_launch(self, state)
        # Launched with use_pdl, it may itself have started before those ahead of it ended; unless it waits before the next starts.
        ahead = [] if state.waits_first else state.ahead
        run.may_still_run = None if ahead is None else [*ahead, state]


def run_launch(kernel: KernelCall, launch: LaunchState) -> None:
    run = STATE.run
    outer = STATE.group
    last = len(launch.block_order())
    try:
        if run.recorder is not None:
            geometry = kernel.function.full_name, launch.grid, launch.block, launch.cluster
            run.recorder.launches.append(Launch(*geometry, int(launch.smem_used)))
            _run_warps(_in_step(kernel, launch, last) or kernel, launch, last)
            run.recorder.launches[-1] = Launch(*geometry, launch.smem_used)
            return
        if not _ran_together(kernel, launch, last, NeedsWarps):
            _run_warps(kernel, launch, last)
    finally:
        STATE.group = outer
        run.smem_bytes = max(run.smem_bytes, launch.smem_used)


def _ran_together(kernel: KernelCall, launch: LaunchState, last: int, errors) -> bool:
    """Run a launch in batches of blocks; False where one of the errors has ended that, and all that it wrote is taken back."""
    run = STATE.run
    run.snapshotting, run.snapshots, printed = True, {}, len(run.printed)
    before, loops = {name: copy.copy(value) for name, value in vars(launch).items()}, STATE.loops
    try:
        _run_fast(kernel, launch, last)
    except errors:
        take_back(run.snapshots)
        del run.printed[printed:]
        vars(launch).update(before)
        STATE.loops, run.steps, run.began = loops, 0, 0.0
        return False
    finally:
        if run.recorder is not None:
            run.changed = run.snapshots | run.changed
        run.snapshotting, run.snapshots = False, {}
    return True


def take_back(snapshots: dict) -> None:
    # Of two views of one storage, the first saw it unwritten.
    for memory, array in reversed(snapshots.items()):
        memory.array[...] = array


def _in_step(kernel: KernelCall, launch: LaunchState, last: int) -> Log | None:
    """The log of a launch whose warps have run in step; None where they must run apart, and none of them has."""
    run = STATE.run
    if not run.in_step or launch.use_pdl:
        return None
    outer, notes = (run.recorder, run.line_numbers, run.max_steps), len(run.notes)
    log = run.recorder = Log(kernel.function, run.recorder.record_values)
    run.line_numbers, run.max_steps = {}, min(run.max_steps, STEPS_IN_STEP)
    try:
        if _ran_together(kernel, launch, last, Exception):
            run.went_in_step = True
            return log
    finally:
        run.recorder, run.line_numbers, run.max_steps = outer
    del run.notes[notes:]
    return None


def _thread_range(launch: LaunchState):
    padded = -(-launch.threads // WARP) * WARP
    threads = np.arange(padded, dtype=np.int64)
    exists = None if padded == launch.threads else (threads < launch.threads)[None, :]
    return threads, exists


def _run_fast(kernel: KernelCall, launch: LaunchState, last: int) -> None:
    per_cluster = launch.cluster_size
    threads, exists = _thread_range(launch)
    batch = max(1, FAST_LANES // len(threads) // per_cluster) * per_cluster
    order = launch.block_order()
    for first in range(0, last, batch):
        blocks = order[first : first + batch]
        launch.open_batch(blocks)
        if STATE.run.recorder is not None:
            STATE.run.recorder.open_batch(blocks, len(threads) // WARP)
        STATE.group = Group(launch, blocks, threads, exists, -1, np.arange(len(blocks), dtype=np.int64))
        for _ in kernel.function.generator(kernel.args, kernel.kwargs):
            raise NeedsWarps
        STATE.run.came_to_an_end()


def _run_warps(kernel: KernelCall, launch: LaunchState, last: int) -> None:
    run = STATE.run
    per_cluster = launch.cluster_size
    order = launch.block_order()
    if run.order is not None:
        run.order.run(kernel, launch, order)
        for move in launch.late:
            move.write()
        return
    clusters = list(range(0, last, per_cluster))
    rng = random.Random(run.seed)
    if run.schedule == "reverse":
        clusters.reverse()
    elif run.schedule == "seeded":
        rng.shuffle(clusters)
    spinning = []  # (what belongs to them, their steps) of clusters that wait for another one
    for first in clusters:
        blocks = order[first : first + per_cluster]
        launch.open_batch(blocks)
        steps = _run_cluster(kernel, launch, blocks, rng)
        waiting = next(steps, None)
        if spinning:
            aside = launch.put_aside()
            spinning = _turns(launch, spinning)[0]
            launch.take_up(aside)
        if waiting is not None:
            _says_who_waits(kernel, launch, waiting)
            spinning.append((launch.put_aside(), steps))
            if run.schedule == "forward" and first + per_cluster < last:  # as a GPU starts them
                spinning = _until_left(launch, spinning, launch.at_once // per_cluster - 1)
    _until_left(launch, spinning, 0)
    for move in launch.late:
        move.write()


def _until_left(launch: LaunchState, spinning: list, most: int) -> list:
    """Let clusters that wait for others go on until `most` are left; a deadlock where none can."""
    run = STATE.run
    while len(spinning) > most:
        before = run.writes, len(spinning)
        spinning, warps, progress = _turns(launch, spinning)
        if len(spinning) > most and not progress and before == (run.writes, len(spinning)):
            STATE.group = warps[0].group
            deadlock(launch, warps, full=most > 0)
    return spinning


def _turns(launch: LaunchState, spinning: list) -> tuple:
    """Let each of the clusters go on: (those that still wait, their warps, whether any warp came further)."""
    left, warps, progress = [], [], False
    for aside, steps in spinning:
        launch.take_up(aside)
        waiting = next(steps, None)
        if waiting is not None:
            progress = progress or waiting[0]
            warps += waiting[1]
            left.append((launch.put_aside(), steps))
    return left, warps, progress


def _says_who_waits(kernel: KernelCall, launch: LaunchState, waiting) -> None:
    """That a block waits for one that has not started: what a GPU need not do at the same time unless it is asked to."""
    warp = next(warp for warp in waiting[1] if warp.waiting.spins)
    if launch.cooperative or launch.blocks == launch.cluster_size:
        return
    text = (
        f"{warp.waiting.line.where}: block {int(warp.group.blocks[0])} of {kernel.function.full_name} waits for a block that may "
        "start after it; that all blocks run at the same time is promised by launch(..., cooperative=True) alone."
    )
    if not STATE.run.notes:
        STATE.run.notes.append(text)


class Warp:
    """A warp's generator and what it waits for."""

    __slots__ = ("group", "steps", "waiting", "loops")

    def __init__(self, group, steps):
        self.group, self.steps, self.waiting, self.loops = group, steps, None, 0


def warps_of(kernel: KernelCall | Log, launch: LaunchState, blocks) -> list:
    """The warps of these blocks, none of which has begun."""
    threads, exists = _thread_range(launch)
    warps = []
    for row, block in enumerate(map(int, blocks)):
        count = len(threads) // WARP
        launch.live_warps[block] = count
        for w in range(count):
            lanes = slice(w * WARP, (w + 1) * WARP)
            there = None if exists is None or exists[0, lanes].all() else exists[:, lanes]
            group = Group(launch, np.array([block]), threads[lanes], there, w, np.array([row]))
            if isinstance(kernel, Log):
                steps = kernel.steps(group)
            else:
                steps = kernel.function.generator(kernel.args, kernel.kwargs)
            warps.append(Warp(group, steps))
    return warps


def _run_cluster(kernel: KernelCall, launch: LaunchState, blocks, rng):
    """Run one cluster's warps to their ends.

    Yields (whether a warp came further since the last time, the warps) where all wait, and some for another block.
    """
    run, warps = STATE.run, warps_of(kernel, launch, blocks)
    if run.schedule == "reverse":
        warps.reverse()
    further, loops = False, STATE.loops
    while warps:
        if run.schedule == "seeded":
            rng.shuffle(warps)
        progress = False
        for warp in list(warps):
            if warp.waiting is not None and not warp.waiting.ready():
                continue
            spun = warp.waiting is not None and warp.waiting.spins
            STATE.group, STATE.loops = warp.group, warp.loops
            try:
                warp.waiting = next(warp.steps)
                warp.loops = STATE.loops
                progress = progress or not (spun and warp.waiting.spins)
            except StopIteration:
                progress = True
                exit_warp(launch, warp)
                warps.remove(warp)
                run.came_to_an_end()
            finally:
                STATE.loops = loops
        further = further or progress
        if not progress:
            if not launch.in_flight and any(warp.waiting.spins for warp in warps):
                yield further, list(warps)
                further = False
                continue
            if not launch.in_flight:
                patient = [warp for warp in warps if warp.waiting.gives_up]
                if not patient:
                    deadlock(launch, warps)
                for warp in patient:
                    warp.waiting = None
            # Asynchronous effects come as late as is legal: only now, when every warp waits for something, and one at a time
            # until one of them completes what a warp may wait for.
            while launch.in_flight:
                at = rng.randrange(len(launch.in_flight)) if run.schedule == "seeded" else 0
                if launch.in_flight.pop(at).land():
                    break
    for transfer in launch.in_flight:
        transfer.orphaned()


def exit_warp(launch: LaunchState, warp: Warp) -> None:
    """The warp has come to its end."""
    block = int(warp.group.blocks[0])
    launch.live_warps[block] -= 1
    launch.settle_cluster_barrier(warp.group, ended=True)
    # A bulk store that was waited for only until it had read its source: the launch's end waits for the rest.
    launch.late += [move for moves in warp.group.bulk_groups for move in moves if move.data is not None]
    for transfer in warp.group.open_group + [c for group in warp.group.pending for c in group]:
        transfer.orphaned()
    if launch.live_warps[block] == 0:
        for transfer in launch.in_flight:
            transfer.check_target_alive(launch, block)
        _count_registers(block, launch.registers.get(block, {}), -(-launch.threads // WARP))
    recorder = STATE.run.recorder
    if recorder is not None and recorder.rows:
        line = recorder.rows[-1][4]
        recorder.event(block, warp.group.warp, line, Op.EXIT, 0xFFFFFFFF)


def _count_registers(block: int, by_warp: dict, warps: int) -> None:
    """PTX ISA, setmaxnreg: it is one instruction of a whole warpgroup, and undefined where a warp of it does not take part; a block
    whose warps have asked for more than a multiprocessor has waits for ever."""
    asked = by_warp.values()
    for warp, (_, line) in by_warp.items():
        first = warp - warp % 4
        missing = [other for other in range(first, min(warps, first + 4)) if other not in by_warp]
        if missing:
            text = (
                f"Warp {warp} of block {block} changes its registers, and warp {missing[0]} of the same warpgroup does not: what "
                "then happens is undefined. Let all four warps reach setmaxregister."
            )
            raise fail("language", text, lines=(line,), block=block)
    total = WARP * sum(registers for registers, _ in asked)
    if total > REGISTERS:
        text = (
            f"Deadlock: the warps of block {block} ask for {total:,} registers, and a multiprocessor has {REGISTERS:,}, so that an "
            "increase waits for ever. Ask for fewer, or let other warps give more back (setmaxregister_decrease)."
        )
        raise fail("deadlock", text, lines=tuple(dict.fromkeys(line for _, line in asked)), block=block)


def deadlock(launch: LaunchState, warps: list, full=False) -> None:
    """Raise what is to be said of warps that wait for ever; `full` where their blocks leave no room for others to start."""
    for warp in warps:
        if warp.waiting.mismatch is not None and warp.waiting.mismatch():
            STATE.group = warp.group
            text, lines = warp.waiting.mismatch()
            raise fail("mbarrier byte mismatch", text, lines=lines, block=int(warp.group.blocks[0]))
    by_place = {}
    for warp in warps:
        w = warp.waiting
        if warp.group.behind:
            text = (
                "a wait while lanes of its warp have yet to run the other branch of an `if`: they come after it here, "
                "and on a GPU may come first and end the wait"
            )
            raise not_simulated(text, w.line)
        what = w.what if isinstance(w.what, str) else w.what()
        by_place.setdefault((w.line.where, what), []).append(warp)
    parts = []
    for (where, what), stuck in sorted(by_place.items()):
        threads = sum(int(w.group.active().sum()) for w in stuck)
        names = sorted({(int(w.group.blocks[0]), w.group.warp) for w in stuck})
        blocks = sorted({b for b, _ in names})
        numbers = {w for _, w in names}
        which = f"block {blocks[0]}, warp{'s' * (len(numbers) > 1)} {ranges(numbers)}"
        which = which if len(blocks) == 1 else f"blocks {ranges(blocks)}"
        parts.append(f"{threads} threads wait at {where} for {what} ({which})")
    block = int(warps[0].group.blocks[0])
    lines = tuple(dict.fromkeys(w.waiting.line for w in warps))
    facts = {"lines": lines, "block": block, "count": len(warps)}
    gone = launch.live_warps.get(block, 0) < -(-launch.threads // WARP)
    if gone and all("the block barrier" in part for part in parts):
        text = (
            f"Divergent barrier: {'; '.join(parts)}, and the block's other warps have ended without reaching it. A GPU "
            "then lets the waiting warps go with nothing ordered; make every warp pass the barrier."
        )
        raise fail("divergent barrier", text, **facts) from None
    text = f"Deadlock: {'; '.join(parts)}."
    if full:
        held = f"An H100 holds {launch.at_once} of the {launch.blocks:,} blocks at a time"
        text += f" {held}, and no other can start."
    raise fail("deadlock", text, **facts) from None


def ranges(numbers) -> str:
    """`0-3, 7` of numbers in any order."""
    runs = itertools.groupby(enumerate(sorted(set(numbers))), lambda at: at[1] - at[0])
    whole = [[number for _, number in run] for _, run in runs]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in whole)

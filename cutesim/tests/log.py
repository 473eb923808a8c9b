"""Traces built by hand, event by event, as the simulator's checked mode would record them."""

import numpy as np

from cutesim.trace import SMEM_BLOCK_BITS, FenceKind, Launch, Line, Op, ShuffleKind, Space, TensorInfo, TraceRecorder

ALL = range(32)
GMEM = 1 << 32  # where the global tensor `x` begins


def lanes_mask(lanes) -> int:
    return sum(1 << int(lane) for lane in lanes)


def span(start, stride=4, lanes=ALL):
    """Addresses start, start + stride, … for these lanes in turn."""
    row = np.full(32, -1, np.int64)
    row[list(lanes)] = start + stride * np.arange(len(lanes), dtype=np.int64)
    return row


def at(**lanes):
    """Addresses by lane: at(l0=16, l3=20)."""
    row = np.full(32, -1, np.int64)
    for lane, address in lanes.items():
        row[int(lane[1:])] = address
    return row


class Log:
    """A recorder with one launch open; every call is on a line of k.py, and `block` and `warp` are 0 unless said."""

    def __init__(self, grid=1, cluster=1, threads=64, values=False):
        self.recorder = TraceRecorder(record_values=values)
        self.geometry = (grid, threads, cluster)
        self.launch()
        for name, space, base, nbytes in (("buffer", Space.SMEM, 0, 1 << 16), ("x", Space.GMEM, GMEM, 1 << 20)):
            self.recorder.tensor(TensorInfo(name, int(space), "float32", 4, (nbytes // 4,), (1,), base, nbytes))

    def launch(self):
        grid, threads, cluster = self.geometry
        self.recorder.launches.append(Launch("kernel", (grid, 1, 1), (threads, 1, 1), (cluster, 1, 1), 0))
        self.generations = {}

    def event(self, line, op, lanes=ALL, *, block=0, warp=0, **facts):
        row = self.recorder.line(Line("k.py", line, f"line {line}", "kernel"))
        return self.recorder.event(block, warp, row, op, lanes_mask(lanes), **facts)

    # ---- memory; shared addresses are offsets in the block `owner` (default: the issuing block) ----

    def access(self, line, op, addresses, nbytes=4, *, space=Space.SMEM, block=0, owner=None, **place):
        row = np.array(addresses)
        tensor = int(space == Space.GMEM)
        if space != Space.GMEM:
            owner = block if owner is None else owner
            space = Space.SMEM if owner == block else Space.DSMEM
            row = np.where(row >= 0, row | owner << SMEM_BLOCK_BITS, -1)
        else:
            row = np.where(row >= 0, row + GMEM, -1)
        lanes = np.nonzero(row >= 0)[0]
        facts = dict(space=space, tensor=tensor, nbytes=nbytes, addresses=row)
        return self.event(line, op, lanes, block=block, **facts, **place)

    def load(self, line, addresses, nbytes=4, **place):
        return self.access(line, Op.LOAD, addresses, nbytes, **place)

    def store(self, line, addresses, nbytes=4, **place):
        return self.access(line, Op.STORE, addresses, nbytes, **place)

    def atomic(self, line, addresses, nbytes=4, **place):
        """`arg` is 1 for an acquire, 2 for a release, 3 for both."""
        return self.access(line, Op.ATOMIC, addresses, nbytes, **place)

    # ---- synchronisation ----

    def barrier(self, line, warps=(0, 1), *, block=0, barrier_id=0, arrive_only=()):
        """A whole generation of a block barrier: all arrive, then those that wait go on."""
        key = ("barrier", block, barrier_id)
        generation = self.generations.get(key, 0)
        self.generations[key] = generation + 1
        facts = dict(block=block, arg=barrier_id, arg2=generation)
        for warp in (*warps, *arrive_only):
            self.event(line, Op.BARRIER_ARRIVE if warp in arrive_only else Op.BARRIER, warp=warp, **facts)
        for warp in warps:
            self.event(line, Op.BARRIER_RESUME, warp=warp, **facts)

    def sync_warp(self, line, lanes=ALL, **place):
        self.event(line, Op.SYNC_WARP, lanes, **place)

    def shuffle(self, line, offset, kind=ShuffleKind.BFLY, source=None, nbytes=4, **place):
        lane = np.arange(32)
        source = lane ^ offset if source is None else np.asarray(source)
        self.event(line, Op.SHUFFLE, arg=int(kind), arg2=offset, nbytes=nbytes, addresses=source, **place)

    def cluster_barrier(self, line, blocks=(0, 1), warps=(0, 1), relaxed=()):
        """A whole generation of the cluster barrier; `relaxed` blocks arrive relaxed."""
        generation = self.generations.get("cluster", 0)
        self.generations["cluster"] = generation + 1
        places = [(block, warp) for block in blocks for warp in warps]
        for block, warp in places:
            facts = dict(block=block, warp=warp, arg2=generation)
            self.event(line, Op.CLUSTER_ARRIVE, arg=int(block in relaxed), **facts)
        for block, warp in places:
            self.event(line, Op.CLUSTER_RESUME, block=block, warp=warp, arg2=generation)

    def fence_init(self, line, lanes=ALL, **place):
        self.event(line, Op.FENCE, lanes, arg=int(FenceKind.MBARRIER_INIT), **place)

    def fence(self, line, kind=FenceKind.GPU, lanes=ALL, **place):
        self.event(line, Op.FENCE, lanes, arg=int(kind), **place)

    def mbarrier(self, line, op, lanes=(0,), *, block=0, owner=None, offset=1024, arg=0, phase=0, **place):
        owner = block if owner is None else owner
        row = np.full(32, -1, np.int64)
        row[list(lanes)] = offset | owner << SMEM_BLOCK_BITS
        space = Space.SMEM if owner == block else Space.DSMEM
        facts = dict(space=space, nbytes=8, addresses=row, arg=arg, arg2=phase)
        return self.event(line, op, lanes, block=block, **facts, **place)

    def init(self, line, **place):
        return self.mbarrier(line, Op.MBARRIER_INIT, arg=1, **place)

    def arrive(self, line, phase=0, **place):
        return self.mbarrier(line, Op.MBARRIER_ARRIVE, phase=phase, **place)

    def wait(self, line, phase=0, lanes=ALL, **place):
        self.mbarrier(line, Op.MBARRIER_WAIT, lanes, arg=phase % 2, **place)
        self.mbarrier(line, Op.MBARRIER_RESUME, lanes, arg=phase % 2, phase=phase, **place)

    # ---- asynchronous ----

    def cp_async(self, line, addresses, sources, nbytes=4, *, block=0, **place):
        row, source = np.array(addresses), np.array(sources)
        lanes = np.nonzero(row >= 0)[0]
        facts = dict(space=Space.SMEM, tensor=0, nbytes=nbytes, block=block)
        facts["addresses"] = np.where(row >= 0, row | block << SMEM_BLOCK_BITS, -1)
        facts["sources"] = np.where(source >= 0, np.asarray(source, np.int64) + GMEM, -1)
        return self.event(line, Op.ASYNC_COPY, lanes, **facts, **place)

    def commit(self, line, lanes=ALL, *, bulk=False, **place):
        self.event(line, Op.COMMIT_GROUP, lanes, arg=int(bulk), **place)

    def wait_group(self, line, n=0, lanes=ALL, *, bulk=False, read=False, **place):
        self.event(line, Op.WAIT_GROUP, lanes, arg=n, arg2=2 if read else int(bulk), **place)

    def st_async(self, line, addresses, *, owner, mbarrier=1024, nbytes=4, block=0, **place):
        """Returns the step, for `done`."""
        row = np.array(addresses)
        lanes = np.nonzero(row >= 0)[0]
        base = owner << SMEM_BLOCK_BITS
        facts = dict(space=Space.DSMEM, tensor=0, nbytes=nbytes, block=block)
        facts["addresses"] = np.where(row >= 0, row | base, -1)
        facts["sources"] = np.where(row >= 0, mbarrier | base, -1)
        return self.event(line, Op.STORE_ASYNC, lanes, **facts, **place)

    def bulk(self, line, shared, source, nbytes, *, store=False, mbarrier=None, block=0, lane=0, **place):
        """A bulk load (shared <- global) counted by an mbarrier, or a bulk store of a bulk group."""
        base = block << SMEM_BLOCK_BITS
        inner, outer = span(shared | base, 0, [lane]), span(source + GMEM, 0, [lane])
        facts = dict(space=Space.GMEM, tensor=1, addresses=outer, sources=inner, arg2=-1)
        if not store:
            arg2 = mbarrier | base
            facts = dict(space=Space.SMEM, tensor=0, addresses=inner, sources=outer, arg2=arg2)
        return self.event(line, Op.BULK_COPY, [lane], block=block, arg=nbytes, **facts, **place)

    def done(self, line, step, phase=0, *, owner=0, mbarrier=1024, block=0, **place):
        """A transfer of the event `step` landed; one call for each lane of it."""
        row = span(mbarrier | owner << SMEM_BLOCK_BITS, 0, [0])
        facts = dict(space=Space.DSMEM, addresses=row, arg=step, arg2=phase)
        self.event(line, Op.ASYNC_DONE, [0], block=block, **facts, **place)

    def exit(self, line, block=0, warps=(0, 1)):
        for warp in warps:
            self.event(line, Op.EXIT, block=block, warp=warp)

    def trace(self):
        return self.recorder.finish()

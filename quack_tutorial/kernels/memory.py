"""The memory hierarchy, measured: one small kernel for each question of chapter 1. `bench/memory.py` times them on a GPU.

| kernel           | the question                                                                              |
|------------------|-------------------------------------------------------------------------------------------|
| `PointerChase`   | how long one load takes: of global memory (L1, L2 or HBM), of shared memory, of a peer's  |
| `Chain`          | how long one shuffle, or one multiply-add, takes                                          |
| `Stream`         | how fast all SMs read, by the width of a load and the bytes that each thread has in flight |
| `LoopSum`        | how many of those bytes are in flight, by how the loop around the loads is written        |
| `Atomics`        | what a warp's atomic additions cost, by the words of a request and of all requests        |
| `Strided`        | what a warp's request costs when its lanes are apart, or start off a sector's boundary    |
| `SharedReads`    | what a bank conflict costs                                                                |
| `ReadsBeside`    | whether a bank conflict costs anything while the SM waits for HBM                         |
| `SharedStream`   | how fast an SM reads its own shared memory, or that of another block of its cluster       |
| `Barriers`       | how long the threads of a block, or of a cluster, wait for each other                     |
| `Reread`         | whether what L1 held is still there behind a barrier                                      |
| `PingPong`       | how long 4 bytes take to the shared memory of another block, and back                     |

Loads that nobody needs are left out by the compiler, so each kernel writes a sum, or where its chain ended.

Not covered: writes (`copy` has them), texture and constant memory, TMA.
"""

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute


class PointerChase:
    """One thread follows a chain of indices: the address of each load is what the load before it brought.

    mNext (n,) int32 holds, for each place, the next one; mO (1,) int32 gets where the chain is after `steps` loads.
    `space`: "global"; "shared", where the chain is copied to shared memory first; or "peer", to that of another block.
    """

    def __init__(self, n, space="global", threads=128):
        if space not in ("global", "shared", "peer"):
            raise ValueError(f"PointerChase: space is global, shared or peer, not {space!r}")
        self.n, self.space, self.threads = n, space, threads

    @cute.jit
    def __call__(self, mNext: cute.Tensor, mO: cute.Tensor, steps: cutlass.Int32, stream: cuda.CUstream):
        blocks = 2 if self.space == "peer" else 1
        self.kernel(mNext, mO, steps).launch(
            grid=[blocks, 1, 1], block=[self.threads, 1, 1], cluster=[blocks, 1, 1], stream=stream
        )

    @cute.kernel
    def kernel(self, mNext: cute.Tensor, mO: cute.Tensor, steps: cutlass.Int32):
        tidx, _, _ = cute.arch.thread_idx()
        bidx, _, _ = cute.arch.block_idx()
        if cutlass.const_expr(self.space != "global"):
            sNext = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Int32, cute.make_layout(self.n), 16)
            for i in range(tidx, self.n, self.threads):
                sNext[i] = mNext[i]
            cute.arch.barrier()
        if cutlass.const_expr(self.space == "peer"):
            cute.arch.cluster_arrive()
            cute.arch.cluster_wait()
        if tidx == 0 and bidx == 0:
            at = cutlass.Int32(0)
            if cutlass.const_expr(self.space == "global"):
                for _ in range(steps):
                    at = mNext[at]
            elif cutlass.const_expr(self.space == "shared"):
                for _ in range(steps):
                    at = sNext[at]
            else:
                there = cute.arch.map_dsmem_ptr(sNext.iterator, 1)
                rAt = cute.make_rmem_tensor(1, cutlass.Int32)
                for _ in range(steps):
                    # A copy in the widest vectors that the layouts and the known alignment allow: here one word.
                    cute.autovec_copy(cute.make_tensor(there + at, cute.make_layout(1)), rAt)
                    at = rAt[0]
            mO[0] = at
        if cutlass.const_expr(self.space == "peer"):
            # A block's shared memory is gone when it exits: the peer stays until the chain has ended.
            cute.arch.cluster_arrive()
            cute.arch.cluster_wait()


class Chain:
    """One warp takes `steps` operations, each on what the one before gave: "shuffle" or "multiply-add".

    mX and mO are (32,) float32, a number a lane.
    """

    def __init__(self, operation):
        if operation not in ("shuffle", "multiply-add"):
            raise ValueError(f"Chain: the operation is shuffle or multiply-add, not {operation!r}")
        self.operation = operation

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, steps: cutlass.Int32, stream: cuda.CUstream):
        self.kernel(mX, mO, steps).launch(grid=[1, 1, 1], block=[32, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor, steps: cutlass.Int32):
        lane = cute.arch.lane_idx()
        value = mX[lane]
        factor = mX[0]
        for _ in range(steps):
            if cutlass.const_expr(self.operation == "shuffle"):
                value = cute.arch.shuffle_sync_bfly(value, offset=1)
            else:
                value = value * factor + factor
        mO[lane] = value


class Stream:
    """All blocks read mX (n,) float32 `turns` times, and add it up.

    By the source a thread has `in_flight` loads of `vector_bytes` at once; of 8 with 16 bytes the compiler issues 4 first. mO
    (blocks, threads) float32 gets each thread's sum. n is a multiple of `chunk`. In each turn a block reads the pieces that another
    had before, so that what an SM has in its L1 is not what it reads next.
    """

    shift = 61

    def __init__(self, vector_bytes=16, in_flight=4, threads=256):
        self.vector_size, self.in_flight, self.threads = vector_bytes // 4, in_flight, threads
        self.chunk = self.vector_size * in_flight * threads

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, turns: cutlass.Int32, stream: cuda.CUstream):
        self.kernel(mX, mO, turns).launch(grid=[mO.shape[0], 1, 1], block=[self.threads, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor, turns: cutlass.Int32):
        tidx, _, _ = cute.arch.thread_idx()
        bidx, _, _ = cute.arch.block_idx()
        blocks, _, _ = cute.arch.grid_dim()
        chunks = cutlass.Int32(mX.shape[0] // self.chunk)
        vector = cute.make_layout(self.vector_size)
        rX = cute.make_rmem_tensor(cute.make_layout((self.vector_size, self.in_flight)), cutlass.Float32)
        total = cutlass.Float32(0.0)
        for turn in range(turns):
            for chunk in range((bidx + turn * self.shift) % blocks, chunks, blocks):
                # read `chunk` elements
                for i in cutlass.range_constexpr(self.in_flight):
                    at = cutlass.Int64(chunk) * self.chunk + (i * self.threads + tidx) * self.vector_size
                    # The address is a multiple already; `align` promises it, and `autovec_copy` makes one load.
                    gX = cute.make_tensor((mX.iterator + at).align(4 * self.vector_size), vector)
                    cute.autovec_copy(gX, rX[None, i])
                total += rX.load().reduce(cute.ReductionOp.ADD, cutlass.Float32(0.0), 0)
        mO[bidx, tidx] = total


class LoopSum:
    """All blocks read mX (n,) float32 `turns` times, 16 bytes a load, and add it up; the loop is written in one of `FORMS`.

    mO (blocks, threads) float32 gets each thread's sum. n is a multiple of 16 * blocks * threads.
    """

    FORMS = "a plain loop", "unroll=4", "four a turn"

    def __init__(self, form, threads=128):
        self.form, self.threads = form, threads

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, turns: cutlass.Int32, stream: cuda.CUstream):
        self.kernel(mX, mO, turns).launch(grid=[mO.shape[0], 1, 1], block=[self.threads, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor, turns: cutlass.Int32):
        tidx, _, _ = cute.arch.thread_idx()
        bidx, _, _ = cute.arch.block_idx()
        blocks, _, _ = cute.arch.grid_dim()
        start, step, vectors = bidx * self.threads + tidx, blocks * self.threads, mX.shape[0] // 4
        total = cutlass.Float32(0.0)
        for _ in range(turns):
            # read n elements
            if cutlass.const_expr(self.form == "a plain loop"):
                for i in range(start, vectors, step):
                    total += sum_of_vector(mX, i)
            elif cutlass.const_expr(self.form == "unroll=4"):
                for i in cutlass.range(start, vectors, step, unroll=4):
                    total += sum_of_vector(mX, i)
            else:
                for i in range(start, vectors, 4 * step):
                    for k in cutlass.range_constexpr(4):
                        total += sum_of_vector(mX, i + k * step)
        mO[bidx, tidx] = total


@cute.jit
def sum_of_vector(mX: cute.Tensor, i):
    """The sum of the i-th four elements of mX, which one load of 16 bytes brings."""
    # `align` promises what holds already, so that `autovec_copy` makes one load.
    gX = cute.make_tensor((mX.iterator + 4 * cutlass.Int64(i)).align(16), cute.make_layout(4))
    rX = cute.make_rmem_tensor(cute.make_layout(4), cutlass.Float32)
    cute.autovec_copy(gX, rX)
    return rX.load().reduce(cute.ReductionOp.ADD, cutlass.Float32(0.0), 0)


class Atomics:
    """Each lane adds 1 to a word of mO (n,) float32 `turns` times.

    A warp's request goes to `words` words (a power of two, 32 at most), which lie `apart` words from each other. The warps of the
    grid share `groups` such sets of words; None: each warp has a set of its own.
    """

    def __init__(self, words=32, apart=1, groups=None, blocks=132, threads=256):
        self.words, self.apart, self.blocks, self.threads = words, apart, blocks, threads
        self.groups = groups or blocks * threads // 32

    @property
    def size(self):
        """How long mO is."""
        return self.groups * self.words * self.apart

    @cute.jit
    def __call__(self, mO: cute.Tensor, turns: cutlass.Int32, stream: cuda.CUstream):
        self.kernel(mO, turns).launch(grid=[self.blocks, 1, 1], block=[self.threads, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mO: cute.Tensor, turns: cutlass.Int32):
        tidx, _, _ = cute.arch.thread_idx()
        bidx, _, _ = cute.arch.block_idx()
        warp, lane = bidx * (self.threads // 32) + tidx // 32, tidx % 32
        word = (warp % self.groups * self.words + lane % self.words) * self.apart
        for _ in range(turns):
            # read and write a word a lane
            cute.arch.atomic_add(mO.iterator + word, cutlass.Float32(1.0))


class Strided:
    """Lanes read words `stride` apart, from word `offset` on, 8 requests a warp or more in flight; mO (blocks, threads) gets sums.

    mX (n,) float32; `requests` of each warp in all, a multiple of 8. Two requests of the grid never share a word. With a `run`, so
    many lanes read neighbouring words, and `stride` is from run to run; a lane takes the place of lane xor `swap`.
    """

    in_flight = 8

    def __init__(self, stride=1, offset=0, threads=256, run=1, swap=0):
        self.stride, self.offset, self.threads, self.run, self.swap = stride, offset, threads, run, swap

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, requests: cutlass.Int32, stream: cuda.CUstream):
        self.kernel(mX, mO, requests).launch(grid=[mO.shape[0], 1, 1], block=[self.threads, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor, requests: cutlass.Int32):
        tidx, _, _ = cute.arch.thread_idx()
        bidx, _, _ = cute.arch.block_idx()
        blocks, _, _ = cute.arch.grid_dim()
        rX = cute.make_rmem_tensor(self.in_flight, cutlass.Float32)
        total = cutlass.Float32(0.0)
        for first in range(0, requests, self.in_flight):
            # read `in_flight` elements a thread
            for i in cutlass.range_constexpr(self.in_flight):
                place = (cutlass.Int64(first + i) * blocks + bidx) * self.threads + tidx
                if cutlass.const_expr(self.run > 1):
                    place = place ^ self.swap
                    rX[i] = mX[place // self.run * self.stride + place % self.run + self.offset]
                else:
                    rX[i] = mX[place * self.stride + self.offset]
            total += rX.load().reduce(cute.ReductionOp.ADD, cutlass.Float32(0.0), 0)
        mO[bidx, tidx] = total


class SharedReads:
    """One block of 1024 threads: in each of `steps`, a warp makes 16 requests whose lanes read words `stride` apart.

    mX is (8192,) float32, what shared memory holds; mO (1024,) float32 gets each thread's sum.
    """

    threads, words, in_flight = 1024, 8192, 16

    def __init__(self, stride):
        self.stride = stride

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, steps: cutlass.Int32, stream: cuda.CUstream):
        self.kernel(mX, mO, steps).launch(grid=[1, 1, 1], block=[self.threads, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor, steps: cutlass.Int32):
        tidx, _, _ = cute.arch.thread_idx()
        sX = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(self.words), 16)
        for i in range(tidx, self.words, self.threads):
            sX[i] = mX[i]
        cute.arch.barrier()
        rX = cute.make_rmem_tensor(self.in_flight, cutlass.Float32)
        total = cutlass.Float32(0.0)
        for step in range(steps):
            first = cute.arch.lane_idx() * self.stride + step % 4096
            for i in cutlass.range_constexpr(self.in_flight):
                rX[i] = sX[first + 32 * i]
            total += rX.load().reduce(cute.ReductionOp.ADD, cutlass.Float32(0.0), 0)
        mO[tidx] = total


class ReadsBeside:
    """All blocks read mX (n,) float32 once, 4 loads of 16 bytes a thread at once, and 8 words of shared memory for them.

    The lanes' words lie `stride` apart. mO (blocks, threads) float32 gets each thread's sum. n is a multiple of `chunk`.
    """

    threads, words, loads, reads = 256, 2048, 4, 8
    chunk = 4 * loads * threads

    def __init__(self, stride):
        self.stride = stride

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream):
        self.kernel(mX, mO).launch(grid=[mO.shape[0], 1, 1], block=[self.threads, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        bidx, _, _ = cute.arch.block_idx()
        blocks, _, _ = cute.arch.grid_dim()
        sX = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(self.words), 16)
        for i in range(tidx, self.words, self.threads):
            sX[i] = mX[i]
        cute.arch.barrier()
        rX = cute.make_rmem_tensor(cute.make_layout((4, self.loads)), cutlass.Float32)
        rS = cute.make_rmem_tensor(self.reads, cutlass.Float32)
        total = cutlass.Float32(0.0)
        for chunk in range(bidx, mX.shape[0] // self.chunk, blocks):
            # read `chunk` elements
            for i in cutlass.range_constexpr(self.loads):
                at = cutlass.Int64(chunk) * self.chunk + (i * self.threads + tidx) * 4
                cute.autovec_copy(cute.make_tensor((mX.iterator + at).align(16), cute.make_layout(4)), rX[None, i])
            first = cute.arch.lane_idx() * self.stride + chunk % 512
            for i in cutlass.range_constexpr(self.reads):
                rS[i] = sX[first + 32 * i]
            total += rX.load().reduce(cute.ReductionOp.ADD, cutlass.Float32(0.0), 0)
            total += rS.load().reduce(cute.ReductionOp.ADD, cutlass.Float32(0.0), 0)
        mO[bidx, tidx] = total


class SharedStream:
    """Each block reads `steps` vectors of 16 bytes a thread: from its own shared memory, or from a `peer` of its cluster of 2.

    mX is (8192,) float32, what shared memory holds; mO (blocks, threads) float32 gets each thread's sum.
    """

    words = 8192

    def __init__(self, peer=False, threads=1024, in_flight=4):
        self.peer, self.threads, self.in_flight = peer, threads, in_flight

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, steps: cutlass.Int32, stream: cuda.CUstream):
        self.kernel(mX, mO, steps).launch(
            grid=[mO.shape[0], 1, 1], block=[self.threads, 1, 1], cluster=[2 if self.peer else 1, 1, 1], stream=stream
        )

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor, steps: cutlass.Int32):
        tidx, _, _ = cute.arch.thread_idx()
        bidx, _, _ = cute.arch.block_idx()
        sX = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(self.words), 16)
        for i in range(tidx, self.words, self.threads):
            sX[i] = mX[i]
        cute.arch.barrier()
        source = sX.iterator
        if cutlass.const_expr(self.peer):
            cute.arch.cluster_arrive()
            cute.arch.cluster_wait()
            source = cute.arch.map_dsmem_ptr(sX.iterator, bidx % 2 ^ 1)
        rX = cute.make_rmem_tensor(cute.make_layout((4, self.in_flight)), cutlass.Float32)
        total = cutlass.Float32(0.0)
        for step in range(0, steps, self.in_flight):
            for i in cutlass.range_constexpr(self.in_flight):
                at = (tidx + step + i) * 4 % self.words
                cute.autovec_copy(cute.make_tensor((source + at).align(16), cute.make_layout(4)), rX[None, i])
            total += rX.load().reduce(cute.ReductionOp.ADD, cutlass.Float32(0.0), 0)
        mO[bidx, tidx] = total
        if cutlass.const_expr(self.peer):
            cute.arch.cluster_arrive()
            cute.arch.cluster_wait()


class Barriers:
    """`steps` barriers of one block of `threads`, or of a cluster of `blocks` blocks; mO (1,) int32 gets the number.

    A cluster's arrival is a `release`, which publishes what the thread wrote, or relaxed.
    """

    def __init__(self, threads=256, blocks=1, release=False):
        self.threads, self.blocks, self.release = threads, blocks, release

    @cute.jit
    def __call__(self, mO: cute.Tensor, steps: cutlass.Int32, stream: cuda.CUstream):
        self.kernel(mO, steps).launch(
            grid=[self.blocks, 1, 1], block=[self.threads, 1, 1], cluster=[self.blocks, 1, 1], stream=stream
        )

    @cute.kernel
    def kernel(self, mO: cute.Tensor, steps: cutlass.Int32):
        tidx, _, _ = cute.arch.thread_idx()
        bidx, _, _ = cute.arch.block_idx()
        passed = cutlass.Int32(0)
        for _ in range(steps):
            if cutlass.const_expr(self.blocks == 1):
                cute.arch.barrier()
            elif cutlass.const_expr(self.release):
                cute.arch.cluster_arrive()
                cute.arch.cluster_wait()
            else:
                cute.arch.cluster_arrive_relaxed()
                cute.arch.cluster_wait()
            passed += 1
        if tidx == 0 and bidx == 0:
            mO[0] = passed


class Reread:
    """Two blocks of one warp, a cluster, follow the same `LINES` places round and round, and meet at a `barrier` after each round.

    mNext (n,) int32 is a cycle through the places from 0 on; mO (1,) int32 gets where it is after `steps` rounds. `barrier`: one of
    `BARRIERS`.
    """

    LINES = 64
    BARRIERS = "none", "a block's", "a cluster's"

    def __init__(self, barrier):
        self.barrier = barrier

    @cute.jit
    def __call__(self, mNext: cute.Tensor, mO: cute.Tensor, steps: cutlass.Int32, stream: cuda.CUstream):
        self.kernel(mNext, mO, steps).launch(grid=[2, 1, 1], block=[32, 1, 1], cluster=[2, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mNext: cute.Tensor, mO: cute.Tensor, steps: cutlass.Int32):
        tidx, _, _ = cute.arch.thread_idx()
        bidx, _, _ = cute.arch.block_idx()
        at = cutlass.Int32(0)
        for _ in range(steps):
            for _ in range(self.LINES):
                at = mNext[at]
            if cutlass.const_expr(self.barrier == "a block's"):
                cute.arch.barrier()
            elif cutlass.const_expr(self.barrier == "a cluster's"):
                cute.arch.cluster_arrive_relaxed()
                cute.arch.cluster_wait()
        if tidx == 0 and bidx == 0:
            mO[0] = at


class PingPong:
    """Two blocks of one warp: 4 bytes go to the other's shared memory with st.async, and come back; `steps` round trips.

    mO (1,) int32 gets the number that went to and fro, one more each time it is sent.
    """

    @cute.jit
    def __call__(self, mO: cute.Tensor, steps: cutlass.Int32, stream: cuda.CUstream):
        self.kernel(mO, steps).launch(grid=[2, 1, 1], block=[32, 1, 1], cluster=[2, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mO: cute.Tensor, steps: cutlass.Int32):
        lane = cute.arch.lane_idx()
        rank = cute.arch.block_idx_in_cluster()
        smem = cutlass.memory.SmemAllocator()
        ball = smem.allocate_tensor(cutlass.Int32, cute.make_layout(1), 16)
        mbar = smem.allocate_array(cutlass.Int64, 1, byte_alignment=8)
        if lane == 0:
            ball[0] = cutlass.Int32(0)
            cute.arch.mbarrier_init(mbar, 1)
            cute.arch.mbarrier_init_fence()
        # Nobody sends before the other's mbarrier is there.
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()
        for step in range(steps):
            if lane == 0:
                cute.arch.mbarrier_arrive_and_expect_tx(mbar, 4)  # of the next ball to come
                if rank == 0:
                    cute.arch.store_async_dsmem(ball.iterator, ball[0] + 1, mbar, 1)
            cute.arch.mbarrier_wait(mbar, step % 2)
            if lane == 0 and rank == 1:
                cute.arch.store_async_dsmem(ball.iterator, ball[0] + 1, mbar, 0)
        if lane == 0 and rank == 0:
            mO[0] = ball[0]
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()

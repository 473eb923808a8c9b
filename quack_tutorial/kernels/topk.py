"""The k largest numbers of each row of an (M, N) tensor, largest first, and their columns: a ladder of versions.

| version         | the change                                                              | instructions grow with            |
|-----------------|-------------------------------------------------------------------------|-----------------------------------|
| `TopKRounds`    | k times the largest of what is left: chapter 4's butterfly, of maxima   | k N                               |
| `TopKMerge`     | one butterfly, whose operator merges two sorted lists of k              | N log^2 k, and k log k a step     |
| `TopKThreshold` | the k-th largest of groups' maxima says what cannot be among them       | N, and k log^2 k for what is left |
| `tuned.topk`    | either of the last two, the `lanes` of a row by a rule; softmax         | ships                             |

A number and its column are compared as one integer, its key (`key_of`): no two are equal, and of equal numbers the one with the
lower column has the larger key. NaN is larger than any number, as in torch.topk, and -0 equals 0. Nothing is lost to the column, so
values and columns are exact; a value is read again at its column, so -0 stays -0.

`lanes` neighbouring lanes of a warp share a row and hold all of it, 16 bytes an instruction where rows start at multiples of 16
bytes, else an element. What is found lies spread over them: lane l has the ranks from l `each` on.

Not covered: k above 128, rows of more than 4,096 elements; the smallest numbers (negate the row).
"""

import math
import operator

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.hardware import MOST_TOP, MOST_TOP_COLUMNS, usual_top
from quack_tutorial.kernels.arithmetic import as_float32
from quack_tutorial.kernels.config import power_of_2
from quack_tutorial.kernels.copy import widest_vector
from quack_tutorial.kernels.layout import (
    VECTOR_BYTES,
    aligned,
    promise_for,
    row_tiler,
    tiled_copy_rows,
)
from quack_tutorial.kernels.reduce import exp, warp_reduce

COLUMN_BITS = 12  # of a key; the bits above them are the number's
LAST = (1 << COLUMN_BITS) - 1  # what a column is subtracted from


class TopKRounds:
    """Each round finds the largest key of the row and takes it out; its lane knows by comparing."""

    def __init__(self, dtype, N, k=None, promise=None, lanes=32, softmax=False, threads_per_block=128):
        self.dtype, self.N, self.k, self.softmax = dtype, N, k or usual_top(N), softmax
        if not (1 <= N <= MOST_TOP_COLUMNS and 1 <= self.k <= min(N, MOST_TOP)):
            raise ValueError(
                f"a row has at most {MOST_TOP_COLUMNS} elements, and k is 1 to {MOST_TOP}, or N: got N = {N}, k = {self.k}"
            )
        self.key_type = cutlass.Int64 if dtype.width == 32 else cutlass.Int32
        self.lowest = -(1 << (self.key_type.width - 1))  # lower than any key
        is_aligned = (promise or promise_for(dtype, N)) == "aligned"
        self.vector_size = widest_vector(dtype, N, VECTOR_BYTES) if is_aligned else 1
        self.lanes, self.threads_per_block, self.rows_per_block = lanes, threads_per_block, threads_per_block // lanes
        self.tiler = row_tiler(N, self.vector_size, lanes)
        self.held = self.tiler[1] // lanes  # elements of a lane
        self.each = max(1, power_of_2(self.k) // lanes)  # results of a lane

    @cute.jit
    def __call__(self, mX: cute.Tensor, mV: cute.Tensor, mI: cute.Tensor, stream: cuda.CUstream):
        blocks = cute.ceil_div(mX.shape[0], self.rows_per_block)
        self.kernel(mX, mV, mI).launch(grid=[blocks, 1, 1], block=[self.threads_per_block, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mV: cute.Tensor, mI: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        lane, wanted = tidx % self.lanes, block * self.rows_per_block + tidx // self.lanes
        # Surplus threads load the last row and skip the store; 64 bits, since row * N may pass 2^31.
        row = cutlass.Int64(cutlass.min(wanted, mX.shape[0] - 1))
        # read MN elements
        rX = self.load(mX, row, lane)
        keys = self.best(rX, mX, row, lane)
        # write M k elements and M k columns
        self.write(keys, mX, mV, mI, row, lane, wanted < mX.shape[0])

    @cute.jit
    def load(self, mX, row, lane):
        """This lane's elements of the row, in float32; -inf behind its end, which loses to the row's own for its column."""
        bits = self.vector_size * self.dtype.width
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, self.lanes, 1, self.vector_size).get_slice(lane)
        tXgX = thr_copy.partition_S(cute.local_tile(cute.domain_offset((row, 0), mX), self.tiler, (0, 0)))
        rX, rF = cute.make_rmem_tensor(self.held, self.dtype), cute.make_rmem_tensor(self.held, cutlass.Float32)
        tXrX = cute.make_tensor(rX.iterator, cute.make_layout(tXgX.shape))
        if cutlass.const_expr(self.tiler[1] == self.N):
            cute.copy(atom, tXgX, tXrX)
        else:
            rX.fill(-math.inf)
            tXpX = cute.make_rmem_tensor((1, cute.size(tXgX, mode=[2])), cutlass.Boolean)
            for i in cutlass.range_constexpr(cute.size(tXpX)):
                tXpX[0, i] = self.column(i * self.vector_size, lane) < self.N
            cute.copy(atom, tXgX, tXrX, pred=tXpX)
        rF.store(as_float32(rX))
        return rF

    def column(self, j, lane):
        """The column of a lane's element j."""
        return lane * self.vector_size + (j // self.vector_size * self.lanes * self.vector_size + j % self.vector_size)

    def keys_of(self, rX, lane):
        """The keys of all that a lane has of a row."""
        return [key_of(rX[j], self.column(j, lane), self.key_type) for j in range(self.held)]

    @cute.jit
    def best(self, rX, mX, row, lane):
        """The `each` keys of this lane's ranks."""
        rK = cute.make_rmem_tensor(self.held, self.key_type)
        found = cute.make_rmem_tensor(self.each, self.key_type)
        found.fill(self.lowest)
        for j, key in enumerate(self.keys_of(rX, lane)):
            rK[j] = key
        for rank in range(self.k):
            largest = rK[0]
            for j in cutlass.range_constexpr(1, self.held):
                largest = cutlass.max(largest, rK[j])
            largest = warp_reduce(largest, cutlass.max, self.lanes)
            for j in cutlass.range_constexpr(self.held):
                rK[j] = chosen(rK[j] == largest, self.key_type(self.lowest), rK[j])
            for i in cutlass.range_constexpr(self.each):
                found[i] = chosen(rank == lane * self.each + i, largest, found[i])
        return [found[i] for i in range(self.each)]

    @cute.jit
    def write(self, keys, mX, mV, mI, row, lane, exists):
        """Write this lane's results, with `softmax` the softmax of the row's k values in place of them."""
        rV, rI = cute.make_rmem_tensor(self.each, self.dtype), cute.make_rmem_tensor(self.each, cutlass.Int64)
        for i in cutlass.range_constexpr(self.each):
            # Ranks from k on may have no column.
            rI[i] = cutlass.Int64(cutlass.min(column_of(keys[i]), self.N - 1))
            rV[i] = mX[row, rI[i]]
        if cutlass.const_expr(self.softmax):
            self.divide(rV, lane)
        if cutlass.const_expr(self.k % self.each == 0):
            if exists and lane * self.each < self.k:
                for mO, rO in ((mV, rV), (mI, rI)):
                    gO = cute.local_tile(cute.domain_offset((row, 0), mO), (1, self.each), (0, lane))[0, None]
                    cute.autovec_copy(rO, aligned(gO, min(VECTOR_BYTES, self.each * rO.element_type.width // 8)))
        else:
            for i in cutlass.range_constexpr(self.each):
                if exists and lane * self.each + i < self.k:
                    mV[row, lane * self.each + i], mI[row, lane * self.each + i] = rV[i], rI[i]

    @cute.jit
    def divide(self, rV, lane):
        """Put the softmax of the row's k values, in float32 and rounded once, in their place."""
        rF = cute.make_rmem_tensor(self.each, cutlass.Float32)
        rF.store(rV.load().to(cutlass.Float32))
        largest = of_lane(rF[0], 0, lane)
        terms = []
        for i in cutlass.range_constexpr(self.each):
            rF[i] = chosen(lane * self.each + i < self.k, exp(rF[i] - largest), cutlass.Float32(0.0))
            terms.append(rF[i])
        total = warp_reduce(tree_sum(terms), operator.add, self.lanes)
        rV.store((rF.load() * (1.0 / total)).to(self.dtype))


class TopKMerge(TopKRounds):
    """As `TopKRounds`, but a lane sorts what it has and keeps the best k; then log2(lanes) steps of a butterfly merge lists."""

    @cute.jit
    def best(self, rX, mX, row, lane):
        """The `each` keys of this lane's ranks, of the list that all lanes have in the end."""
        size, keys = power_of_2(self.k), self.keys_of(rX, lane)
        keys += [self.key_type(self.lowest)] * (-len(keys) % size)
        best = sort(keys[:size])
        for first in cutlass.range_constexpr(size, len(keys), size):
            best = merge(best, sort(keys[first : first + size]))
        for step in cutlass.range_constexpr(self.lanes.bit_length() - 1):
            best = merge(best, [cute.arch.shuffle_sync_bfly(key, offset=1 << step) for key in best])
        mine = best[: self.each]
        for rank in cutlass.range_constexpr(self.each, size):
            mine[rank % self.each] = chosen(lane == rank // self.each, best[rank], mine[rank % self.each])
        return mine


class TopKThreshold(TopKRounds):
    """As `TopKMerge`, but only what is no less than the k-th largest of the maxima of groups is sorted: at least k numbers, of a
    random row 1.1 to 1.4 k. They are brought together in shared memory, where there is room for 2 k, and sorted by all lanes.

    Where there are more (many equal numbers, or large ones side by side), bisection between keys finds one that k to 2 k are no
    less than: right for every row, only slower.
    """

    def __init__(self, *args, **given):
        super().__init__(*args, **given)
        self.groups = self.room = max(1, 2 * power_of_2(self.k) // self.lanes)  # of a lane
        self.each = self.room

    @cute.jit
    def best(self, rX, mX, row, lane):
        """The keys of this lane's ranks."""
        tidx, _, _ = cute.arch.thread_idx()
        if cutlass.const_expr(self.held <= self.room):
            keys = self.keys_of(rX, lane)
            return sort_lanes(keys + [self.key_type(self.lowest)] * (self.room - self.held), self.lanes, lane)
        shape = (self.rows_per_block, self.room * self.lanes)
        slots = cute.make_ordered_layout(shape, order=(1, 0))
        sFound = cutlass.memory.SmemAllocator().allocate_tensor(self.key_type, slots, byte_alignment=16)
        sFound = sFound[tidx // self.lanes, None]
        least = self.least(rX, lane)
        count = cutlass.Int32(0)
        for j in cutlass.range_constexpr(self.held):
            if not (rX[j] < least):  # NaN is no less than any
                count += 1
        place, total = self.places(count, lane)
        if cute.arch.vote_all_sync(total <= cute.size(sFound)):
            for j in cutlass.range_constexpr(self.held):
                if not (rX[j] < least):
                    sFound[place] = packed(rX[j], self.column(j, lane), self.key_type)
                    place += 1
        else:
            total = self.bisect(mX, row, lane, key_of(least, LAST, self.key_type), total, sFound)
        cute.arch.sync_warp()  # all of the row's are there
        keys = []
        for i in cutlass.range_constexpr(self.room):
            number = i * self.lanes + lane
            keys.append(
                chosen(number < total, key_of(*unpacked(sFound[number], self.key_type)), self.key_type(self.lowest))
            )
        return sort_lanes(keys, self.lanes, lane)

    def least(self, rX, lane):
        """The k-th largest of the maxima of the row's groups, of which each has one such number: k of the row are no less."""
        size, maxima = -(-self.held // self.groups), []
        for first in range(0, self.groups * size, size):
            largest = cutlass.Float32(-math.inf)
            for j in range(first, min(first + size, self.held)):
                largest = cute.arch.fmax(largest, rX[j])  # without NaN
            maxima.append(ordered(largest.bitcast(cutlass.Int32)))
        kth = of_lane(
            sort_lanes(maxima, self.lanes, lane)[(self.k - 1) % self.groups], (self.k - 1) // self.groups, lane
        )
        return ordered(kth).bitcast(cutlass.Float32)

    @cute.jit
    def places(self, count, lane):
        """(where this lane's first candidate goes, the row's number of them), if it has `count`."""
        before = count
        for step in cutlass.range_constexpr(self.lanes.bit_length() - 1):
            other = cute.arch.shuffle_sync_up(before, offset=1 << step, mask_and_clamp=0)
            before = chosen(lane >= (1 << step), before + other, before)
        return before - count, of_lane(before, self.lanes - 1, lane)

    @cute.jit
    def bisect(self, mX, row, lane, low, total, sFound):
        """Put k or more of the row that nothing else is larger than into `sFound`, which has room for them; their number. `total`
        keys, too many, are `low` or more. Keys differ, so of those from some key on there are exactly k."""
        high = low
        # read MN elements again, from L1 or L2, here and in each turn of the loop
        for column in range(lane, self.N, self.lanes):
            high = cutlass.max(high, self.key_at(mX, row, column))
        high = warp_reduce(high, cutlass.max, self.lanes)  # no other is as large
        while cute.arch.vote_any_sync(total > cute.size(sFound)):
            middle = (low & high) + ((low ^ high) >> 1)
            count = cutlass.Int32(0)
            for column in range(lane, self.N, self.lanes):
                count += cutlass.Int32(self.key_at(mX, row, column) >= middle)
            count = warp_reduce(count, operator.add, self.lanes)
            if count >= self.k:
                low, total = middle, count
            else:
                high = middle
        count = cutlass.Int32(0)
        for column in range(lane, self.N, self.lanes):
            count += cutlass.Int32(self.key_at(mX, row, column) >= low)
        place, total = self.places(count, lane)
        for column in range(lane, self.N, self.lanes):
            if self.key_at(mX, row, column) >= low:
                sFound[place] = packed(mX[row, column].to(cutlass.Float32), column, self.key_type)
                place += 1
        return total

    def key_at(self, mX, row, column):
        """The key of a number in global memory."""
        return key_of(mX[row, column].to(cutlass.Float32), column, self.key_type)


# Keys ----------------------------------------------------------------------------------------------------------------


def ordered(bits):
    """The bits of a float32 as an integer that is larger where the number is, and such an integer as bits again."""
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


def key_of(x, column, key_type):
    """The key of a number, given in float32: its bits so that they are ordered, then LAST - column.

    A number of 16 bits has nothing in the last 13 bits of its float32, so 32 bits hold its key; a float32's takes 44.
    """
    number = ordered(chosen(x == x, (x + 0.0).bitcast(cutlass.Int32), cutlass.Int32(0x7FFFFFFF)))  # -0 + 0 is 0
    if key_type is cutlass.Int32:
        return (number & ~LAST) | (LAST - column)
    return (cutlass.Int64(number) << COLUMN_BITS) | cutlass.Int64(LAST - column)


def column_of(key):
    """The column that a key was made with."""
    return LAST - cutlass.Int32(key & LAST)


def packed(x, column, key_type):
    """A number, given in float32, and its column in one word, quicker to make than a key."""
    bits = x.bitcast(cutlass.Int32)
    if key_type is cutlass.Int32:
        return (bits & ~LAST) | column
    return (cutlass.Int64(bits) << 32) | cutlass.Int64(column)


def unpacked(word, key_type):
    """(number, column, type of the key)."""
    bits = word & ~LAST if key_type is cutlass.Int32 else cutlass.Int32(word >> 32)
    return bits.bitcast(cutlass.Float32), cutlass.Int32(word & LAST), key_type


# Sorting -------------------------------------------------------------------------------------------------------------


def sort(keys):
    """A list of keys, a power of 2 of them, sorted in this lane's registers, the largest first: Batcher's odd-even merges.

    8 keys take 19 comparisons, 64 take 543; `sort_bitonic` in their place would make it 24 and 672.
    """
    size = 1
    while size < len(keys):  # lists of `size` are sorted; two become one
        stride = size
        while stride:
            start = stride % size
            for i in range(start, len(keys) - stride):
                if (i - start) // stride % 2 == 0 and i // (2 * size) == (i + stride) // (2 * size):
                    put_in_order(keys, i, i + stride)
            stride //= 2
        size *= 2
    return keys


def merge(best, others):
    """The k largest of two sorted lists of k, sorted: k comparisons leave them, rising and falling, and k/2 log2(k) sort them."""
    return sort_bitonic([cutlass.max(a, b) for a, b in zip(best, reversed(others))])


def sort_bitonic(keys):
    """Keys that rise and then fall, or the other way round, sorted, the largest first."""
    stride = len(keys) // 2
    while stride:
        for i in range(len(keys)):
            if not i & stride:
                put_in_order(keys, i, i | stride)
        stride //= 2
    return keys


def put_in_order(keys, i, j):
    """Swap keys i and j if the second is larger."""
    keys[i], keys[j] = cutlass.max(keys[i], keys[j]), cutlass.min(keys[i], keys[j])


def sort_lanes(keys, lanes, lane):
    """The keys of `lanes` lanes sorted over all of them, the largest first: lane l has the ranks from l len(keys) on."""
    keys, width = sort(keys), 2
    while width <= lanes:
        # As in `merge`: the lane that mirrors this one, its keys backwards.
        keys = kept(list(reversed(keys)), keys, width - 1, lane & (width // 2) == 0)
        stride = width // 4
        while stride:
            keys = kept(keys, keys, stride, lane & stride == 0)
            stride //= 2
        keys, width = sort_bitonic(keys), 2 * width
    return keys


def kept(sent, keys, offset, keeps_larger):
    """Of each key and the one that the lane `offset` away sends, the larger or the smaller."""
    others = [cute.arch.shuffle_sync_bfly(key, offset=offset) for key in sent]
    return [chosen((other > key) == keeps_larger, other, key) for other, key in zip(others, keys)]


def of_lane(value, number, lane):
    """`value` as the row's lane of that number has it."""
    return cute.arch.shuffle_sync(value, cute.arch.lane_idx() - lane + number)


def tree_sum(terms):
    """The sum of a list, a power of 2 long, as a tree: it rounds less than one that goes from left to right."""
    while len(terms) > 1:
        terms = [a + b for a, b in zip(terms[::2], terms[1::2])]
    return terms[0]


@cute.jit
def chosen(condition, value, other):
    """`value` where the condition holds, else `other`."""
    result = other
    if condition:
        result = value
    return result


LADDER = {"rounds": TopKRounds, "merge": TopKMerge, "threshold": TopKThreshold}

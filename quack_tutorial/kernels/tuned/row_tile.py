"""Rows over threads: what all row-wise kernels do to get a row into registers and back, for any N and any address.

`threads_per_row` threads of a block (of each block of a cluster) share a row and keep their part of it in registers:

    | head | vector vector vector ... vector | rest |        a row of N elements
      ^      ^ 16-byte boundary                ^
      single elements                          single elements

How much is known about addresses decides the width of the accesses:

| promise     | what it says                                                          | accesses                           |
|-------------|-----------------------------------------------------------------------|------------------------------------|
| "aligned"   | every row of every tensor starts at a multiple of 16 bytes            | vectors, single elements at the end |
| "congruent" | in each row all tensors are equally many elements from such multiples | vectors, single elements at both ends |
| "any"       | nothing                                                               | single elements                    |

Rows of an odd length that follow each other without gaps are congruent: each starts somewhere else, in x as in out.

The single elements are registers behind the vectors, so that a kernel computes with all of them at once.

Most vectors are known to be in the row when the kernel is compiled; only the others ask, each load with a predicate of its own.
Where a block has more places than rows are left, threads without a row load the last one and write nothing.

Memory moves in sectors of 32 bytes, four to a line, and a warp's 512 bytes are 16 sectors only if they start where one does.
So the pieces of a row are whole lines, and where threads are many enough to have a single element each, the head ends at a line.
"""

import math
from typing import Any, NamedTuple

import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.layout import (
    LINE_BYTES,
    VECTOR_BYTES,
    aligned,
    elements_to_boundary,
    tile_at,
    tiled_copy_rows,
)
from quack_tutorial.kernels.tuned.cache_hints import EVICT_LAST, PAST_L1, load_vector, store_vector
from quack_tutorial.kernels.tuned.config import MAX_N, vector_elements

PROMISES = ("aligned", "congruent", "any")


class Place(NamedTuple):
    """Where a thread is: in which row, and where in it.

    | field           | what it says                                                             |
    |-----------------|--------------------------------------------------------------------------|
    | `row`           | the row's number in the tensor                                           |
    | `exists`        | whether there is such a row                                              |
    | `piece`         | which piece of the row this block has, or is at                          |
    | `thread_in_row` | the thread's number among those of the block that share the row          |
    | `head`          | how many single elements come before the row's first vector              |
    | `body`          | how many elements of the row are in vectors                              |
    """

    row: Any
    exists: Any
    piece: Any
    thread_in_row: Any
    head: Any
    body: Any


class RowTile:
    """The part of a row that one thread holds: `values` elements, in `vectors` vectors and `singles` single elements.

    A row is cut into `pieces`, one for each block of a cluster that holds it; or, with `vectors` given, into as many as it
    takes with so many vectors a thread, which a kernel goes through one after the other, or in blocks that do not know of each
    other. `promise` is one of the table above. `hint` is what the caches are asked of what is loaded, see `cache_hints`, if
    the configuration does not say `PAST_L1`. `several` says that the kernel can do `rows_each` > 1.

    `sums_columns` is for a kernel whose blocks go through rows and add up their columns. A row that does not exist is then
    `fill`. The head ends at a multiple of 16 bytes, not of a line: more rows start equally far from one. And a store has a
    predicate and no branch around it, since the sums take most registers.
    """

    def __init__(self, dtype, N, promise, config, vectors=None, hint=EVICT_LAST, sums_columns=False, several=False):
        if not 1 <= N <= MAX_N:
            raise ValueError(f"a row is kept in the registers of at most 16 blocks: N must be 1 to {MAX_N}, got {N}")
        if promise not in PROMISES:
            raise ValueError(f'promise must be "aligned", "congruent" or "any", got {promise!r}')
        self.N, self.promise, self.config, self.sums_columns = N, promise, config, sums_columns
        self.hint = PAST_L1 if config.past_l1 else hint
        self.threads_per_row = config.threads_per_row
        self.rows_per_block = config.threads_per_block // config.threads_per_row
        self.rows_each = config.rows_each
        if self.rows_each > 1 and not several:
            raise ValueError(f"{config}: in this kernel a thread has a part of one row, so rows_each must be 1")
        # Then a block may have places without a row.
        self.several_rows = self.rows_per_block * self.rows_each > 1 or config.blocks_together > 1
        self.vector_size = vector_elements(dtype.width, N, promise)
        in_row, threads = N // self.vector_size, self.threads_per_row  # vectors of a row
        self.pieces = math.ceil(in_row / (threads * vectors)) if vectors else config.blocks_per_row
        in_piece = threads * vectors if vectors else math.ceil(in_row / self.pieces)
        line_vectors = LINE_BYTES // VECTOR_BYTES if self.vector_size > 1 else 1
        # Bulk copies want equal pieces; with `vectors` the size is given.
        if self.pieces > 1 and not (vectors or config.stages or config.row_ahead):
            in_piece = math.ceil(in_piece / line_vectors) * line_vectors
        self.width = in_piece * self.vector_size  # columns of a piece; the last may have fewer
        self.vectors = math.ceil(in_piece / threads)
        # Elements of a row outside its whole vectors, at most: before the boundary and behind the last vector.
        singles, self.boundary = N % self.vector_size, VECTOR_BYTES
        self.has_head = promise == "congruent" and self.vector_size > 1
        if self.has_head:
            line = line_vectors * self.vector_size  # elements of a line
            if not sums_columns and N >= 2 * line and threads >= line + self.vector_size:
                self.boundary = LINE_BYTES
            singles = self.most_before() + self.vector_size - 1
        self.singles = math.ceil(singles / self.threads_per_row)
        self.values = self.vectors * self.vector_size + self.singles
        in_any = (N - self.most_before()) // self.vector_size  # vectors that every row has, wherever it starts
        # How many of them are in the last piece.
        self.in_last = in_last = in_any - (self.pieces - 1) * in_piece
        # How many of its vectors every thread has there, and so in any piece.
        self.certain = self.vectors if in_last == in_piece == threads * self.vectors else max(0, in_last) // threads
        self.certain_next = max(0, in_last - 1) // threads  # as `certain`, of vectors that begin one later
        # How many pieces before the last one every row has whole.
        self.whole_pieces = min(self.pieces - 1, in_any // in_piece)

    def most_before(self):
        """The most single elements that a row can have before its first vector."""
        return self.boundary // VECTOR_BYTES * self.vector_size - 1 if self.promise == "congruent" else 0

    def blocks(self, M):
        """How many blocks M rows take, if a block has all pieces of its rows: whole clusters of them."""
        together = max(1, self.config.blocks_together)
        return cute.ceil_div(M, self.rows_per_block * self.rows_each * together) * together

    def grid(self, M):
        """The grid of a kernel with one block for every piece of `rows_per_block` rows, or of `rows_each` times as many.

        x counts rows and y pieces, so that a block knows both without a division. So a cluster lies along y, and not along x as
        in the ladders.
        """
        return [self.blocks(M), self.pieces, 1]

    def places(self, mX, block):
        """Where this thread is in each of its `rows_each` rows, see `place`; `rows_per_block` rows apart."""
        first = block * (self.rows_per_block * self.rows_each)
        return [self.place(mX, first + k * self.rows_per_block if k else first) for k in range(self.rows_each)]

    def place(self, mX, tile_row, stride=1, piece=None):
        """Where this thread is, a `Place`.

        Rows of a block are `stride` apart, the first is `tile_row`; the piece is the block's y index, its rank in the cluster,
        unless given.
        """
        tidx, _, _ = cute.arch.thread_idx()
        row, thread_in_row = tile_row + tidx // self.threads_per_row * stride, tidx % self.threads_per_row
        if piece is None:
            piece = cute.arch.block_idx()[1] if self.pieces > 1 else 0
        head, body = 0, self.N - self.N % self.vector_size
        if self.has_head:
            loaded = row if self.sums_columns else cutlass.min(row, mX.shape[0] - 1)
            head = elements_to_boundary(tile_at(mX, (1, self.N), loaded)[0, None], self.boundary)
            body = (self.N - head) // self.vector_size * self.vector_size
        return Place(row, row < mX.shape[0], piece, thread_in_row, head, body)

    @cute.jit
    def load(
        self,
        mX: cute.Tensor,
        place,
        fill: cutlass.Constexpr = 0.0,
        wide: cutlass.Constexpr = True,
        hinted: cutlass.Constexpr = True,
        certain: cutlass.Constexpr = None,
        singles: cutlass.Constexpr = True,
    ):
        """This thread's part of its row, as a register tensor of `values` elements; `fill` where there is none.

        `wide` says that the rows of mX keep the promise; without it they are read one element at a time. `hinted`
        says that the caches may be asked what the tile asks of what vectors bring. `certain`: how many first vectors of each
        thread are known to be in the row, where the caller knows better than the tile. Without `singles` the single elements are
        `fill` too.
        """
        sure = self.certain if certain is None else certain
        asks = self.sums_columns and self.several_rows  # whether there is such a row
        rX = cute.make_rmem_tensor(self.values, mX.element_type)
        for k in cutlass.range_constexpr(0 if asks else sure * self.vector_size, self.values):
            rX[k] = mX.element_type(fill)
        if cutlass.const_expr(self.several_rows and not self.sums_columns):
            place = place._replace(row=cutlass.min(place.row, mX.shape[0] - 1), exists=True)
        if cutlass.const_expr(singles):
            self.load_singles(rX, mX, place)
        atom, tXgX = self.vectors_of(mX, place, wide)
        hint = self.hint if hinted and in_words(tXgX) else None
        self.copy_vectors(atom, tXgX, self.as_vectors(rX, tXgX), place, sure, asks, hint)
        return rX

    @cute.jit
    def load_singles(self, rX: cute.Tensor, mX: cute.Tensor, place):
        """Read this thread's single elements of its row into the last values of `rX`."""
        gX = tile_at(mX, (1, self.N), place.row)
        for k in cutlass.range_constexpr(self.singles):
            col = self.single_column(k, place)
            if place.exists and place.piece == 0 and col < self.N:
                rX[self.vectors * self.vector_size + k] = gX[0, col]

    def load_weight(self, mW, place, M):
        """This thread's part of a vector (N,) that goes with every row, such as a weight; as `load`. Its address is a multiple
        of 16 bytes."""
        every_row = rows_of(mW, M)
        if self.shifts(mW):
            return self.load_shifted(every_row, place)
        # A row that starts elsewhere shifts the weight.
        return self.load(every_row, place, wide=self.promise == "aligned", hinted=False)

    def shifts(self, mW):
        """Whether a weight is loaded in vectors though it starts elsewhere than rows: float32 is quicker without."""
        return self.has_head and mW.element_type.width == 16

    @cute.jit
    def load_shifted(self, mW: cute.Tensor, place):
        """`load` of a 16-bit tensor whose rows are aligned, where those of the others are not: a vector of the row lies in two
        neighbouring vectors of this tensor."""
        size = self.vector_size
        shift, half_size = place.head % size, size // 2  # words of two elements
        rW = cute.make_rmem_tensor(self.values, mW.element_type)
        rW.fill(0.0)
        self.load_singles(rW, mW, place)
        both = cute.make_rmem_tensor((2 * size, self.vectors), mW.element_type)
        both.fill(0.0)
        for k in cutlass.range_constexpr(2):
            start = place.head - shift + k * size
            # The last of the second ones may not be whole.
            end, certain = (place.body, self.certain) if k == 0 else (self.N // size * size - start, self.certain_next)
            at = place._replace(exists=True, head=start, body=end)
            atom, tXgW = self.vectors_of(mW, at, True)
            layout = cute.make_layout(tXgW.shape, stride=((1, 0), 0, 2 * size))
            target = cute.make_tensor(both.iterator + k * size, layout)
            self.copy_vectors(atom, tXgW, target, at, certain, False, None)
        words = cute.recast_tensor(both, cutlass.Int32)
        gW = tile_at(mW, (1, self.N), place.row)
        for i in cutlass.range_constexpr(self.certain_next, self.vectors if self.N % size else 0):
            vector = i * self.threads_per_row + place.thread_in_row
            col = place.head - shift + place.piece * self.width + (vector + 1) * size
            if col == self.N // size * size:
                tail = cute.make_rmem_tensor(size, mW.element_type)
                tail.fill(0.0)
                for k in cutlass.range_constexpr(self.N % size):
                    tail[k] = gW[0, col + k]
                tail = cute.recast_tensor(tail, cutlass.Int32)
                for k in cutlass.range_constexpr(half_size):
                    words[half_size + k, i] = tail[k]
        shift_elements(words, shift)
        for i in cutlass.range_constexpr(self.vectors):
            for k in cutlass.range_constexpr(size):
                rW[i * size + k] = both[k, i]
        return rW

    @cute.jit
    def store(self, rX: cute.Tensor, mX: cute.Tensor, place, wide: cutlass.Constexpr = True):
        """Write this thread's part of its row from a register tensor of `values` elements; `wide` as in `load`."""
        gX = tile_at(mX, (1, self.N), place.row)
        atom, tXgX = self.vectors_of(mX, place, wide)
        asks = self.several_rows
        self.copy_vectors(atom, self.as_vectors(rX, tXgX), tXgX, place, self.certain, asks, None)
        self.store_singles(rX, gX, place)

    @cute.jit
    def store_singles(self, rX: cute.Tensor, gX: cute.Tensor, place):
        """Write this thread's single elements of its row `gX`, (1, N), from the last values of `rX`."""
        for k in cutlass.range_constexpr(self.singles):
            col = self.single_column(k, place)
            if place.exists and place.piece == 0 and col < self.N:
                gX[0, col] = rX[self.vectors * self.vector_size + k]

    @cute.jit
    def single_column(self, k, place):
        """The column of this thread's k-th single element; threads take those before the vectors first, then those after."""
        number = k * self.threads_per_row + place.thread_in_row
        col = number
        if number >= place.head:
            col = number + place.body
        return col

    def part(self, rX, i):
        """The registers of vector i; of the single elements if i is the number of vectors."""
        first, size = i * self.vector_size, self.singles if i == self.vectors else self.vector_size
        return cute.make_tensor(rX.iterator + first, cute.make_layout(size))

    @cute.jit
    def load_part(self, rX: cute.Tensor, mX: cute.Tensor, i: cutlass.Constexpr, place):
        """`load` of one part alone, see `part`, into the registers of all; those of what is not in the row stay as they are."""
        if cutlass.const_expr(i == self.vectors):
            self.load_singles(rX, mX, place)
        else:
            atom, tXgX = self.vectors_of(mX, place, True)
            self.copy_vector(
                i, atom, tXgX, self.as_vectors(rX, tXgX), place, self.certain, self.several_rows, self.hint
            )

    @cute.jit
    def store_part(self, rX: cute.Tensor, mX: cute.Tensor, i: cutlass.Constexpr, place):
        """`store` of one part alone, see `part`, from the registers of all."""
        if cutlass.const_expr(i == self.vectors):
            self.store_singles(rX, tile_at(mX, (1, self.N), place.row), place)
        else:
            atom, tXgX = self.vectors_of(mX, place, True)
            self.copy_vector(i, atom, self.as_vectors(rX, tXgX), tXgX, place, self.certain, self.several_rows, None)

    @cute.jit
    def copy_vectors(
        self,
        atom,
        source: cute.Tensor,
        target: cute.Tensor,
        place,
        certain: cutlass.Constexpr,
        asks: cutlass.Constexpr,
        hint: cutlass.Constexpr,
    ):
        """Copy this thread's vectors that are in the row, the first `certain` without looking; none if the row does not exist,
        where `asks` says to look. `hint` is for what is read, or None."""
        if cutlass.const_expr(certain == self.vectors and hint is None):
            if cutlass.const_expr(not asks):
                cute.copy(atom, source, target)
            elif place.exists:
                cute.copy(atom, source, target)
        else:
            # Those with a branch come first: the compiler may wait there for whatever was loaded before it.
            for i in cutlass.range_constexpr(self.vectors - 1, -1, -1):
                self.copy_vector(i, atom, source, target, place, certain, asks, hint)

    @cute.jit
    def copy_vector(
        self,
        i: cutlass.Constexpr,
        atom,
        source: cute.Tensor,
        target: cute.Tensor,
        place,
        certain: cutlass.Constexpr,
        asks: cutlass.Constexpr,
        hint: cutlass.Constexpr,
    ):
        """Copy this thread's vector i if it is in the row; as `copy_vectors`."""
        vector, copied = source[None, None, i], target[None, None, i]
        if cutlass.const_expr(i < certain and not asks):
            if cutlass.const_expr(hint is not None):
                load_vector(vector, copied, hint)
            else:
                cute.copy(atom, vector, copied)
        elif cutlass.const_expr(in_words(source)):
            load_vector(vector, copied, hint, self.inside(i, place, i < certain, asks))
        elif cutlass.const_expr(self.sums_columns and in_words(target)):
            store_vector(vector, copied, self.inside(i, place, i < certain, asks))
        elif self.inside(i, place, i < certain, asks):
            cute.copy(atom, vector, copied)

    def inside(self, i, place, certain, asks):
        """Whether this thread's vector i is in the row, a Boolean."""
        if certain:
            return place.exists
        limit = place.body - place.piece * self.width
        if self.pieces > 1 and self.width // self.vector_size != self.threads_per_row * self.vectors:
            limit = cutlass.min(limit, self.width)
        inside = (i * self.threads_per_row + place.thread_in_row) * self.vector_size < limit
        return place.exists & inside if asks else inside

    @cute.jit
    def clear_outside(self, rX: cute.Tensor, place):
        """Set the values of this thread that its row does not have to 0, whatever was made of what `load` fills them with."""
        for i in cutlass.range_constexpr(self.certain, self.vectors):
            inside = self.inside(i, place, False, False)
            for k in cutlass.range_constexpr(i * self.vector_size, (i + 1) * self.vector_size):
                kept = rX.element_type(0.0)
                if inside:
                    kept = rX[k]
                rX[k] = kept
        for k in cutlass.range_constexpr(self.singles):
            col, kept = self.single_column(k, place), rX.element_type(0.0)
            if place.piece == 0 and col < self.N:
                kept = rX[self.vectors * self.vector_size + k]
            rX[self.vectors * self.vector_size + k] = kept

    @staticmethod
    def is_first(place):
        """Whether this thread is the first of its row, and there is such a row: it writes what a row has one number of."""
        return place.exists & (place.thread_in_row == 0) & (place.piece == 0)

    @cute.jit
    def holds(self, col, place):
        """Whether this thread has the element of column `col`, which may be any number."""
        k, vectors, threads = col - place.head, self.width // self.vector_size, self.threads_per_row
        vector = k // self.vector_size - place.piece * vectors
        held = (
            k >= 0 and k < place.body and vector >= 0 and vector < vectors and vector % threads == place.thread_in_row
        )
        if cutlass.const_expr(self.singles > 0):
            if k < 0:
                held = place.piece == 0 and col >= 0 and col % threads == place.thread_in_row
            if k >= place.body:
                held = place.piece == 0 and col < self.N and (col - place.body) % threads == place.thread_in_row
        return place.exists and held

    def is_at(self, k, col, place):
        """Whether this thread's value k is the one in column `col`, a Boolean; of values that the row does not have, anything."""
        single = k - self.vectors * self.vector_size
        if single >= 0:
            return self.single_column(single, place) == col
        vector = k // self.vector_size * self.threads_per_row
        # The same number for every k but for a constant.
        return (
            col - place.head - place.piece * self.width - place.thread_in_row * self.vector_size
            == vector * self.vector_size + k % self.vector_size
        )

    def vectors_of(self, mX, place, wide):
        """The copy atom for `mX`, and this thread's vectors in it: ((elements of an atom, atoms), 1, vectors)."""
        dtype = mX.element_type
        bits = dtype.width
        if wide and self.vector_size > 1:
            bits = min(self.vector_size * dtype.width, VECTOR_BYTES * 8)
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, self.threads_per_row, 1, self.vector_size).get_slice(place.thread_in_row)
        mX = cute.domain_offset((cutlass.Int64(place.row), place.head + place.piece * self.width), mX)
        columns = self.threads_per_row * self.vectors * self.vector_size
        tXgX = thr_copy.partition_S(cute.local_tile(mX, (1, columns), (0, 0)))
        return atom, (aligned(tXgX, bits // 8) if bits > dtype.width else tXgX)

    def as_vectors(self, rX, tXgX):
        """The registers of the vectors, in the shape of `tXgX`."""
        return cute.make_tensor(rX.iterator, cute.make_layout(tXgX.shape))


def rows_of(mW, M):
    """A vector (N,) as M rows, all of them the same."""
    return cute.make_tensor(mW.iterator, cute.make_layout((M, mW.shape[0]), stride=(0, 1)))


@cute.jit
def shift_elements(words: cute.Tensor, shift):
    """Move 16-bit elements to the front by `shift` (less than half of them), in each column of words of two.

    With masks, since of an `if` around so many moves the compiler makes a branch.
    """
    count, columns = words.shape
    for i in cutlass.range_constexpr(columns):
        for bit in cutlass.range_constexpr((count // 2).bit_length() - 1):
            step = count // 4 >> bit
            mask = -(shift // (2 * step) % 2)
            for k in cutlass.range_constexpr(count - step):
                words[k, i] = words[k, i] ^ (words[k, i] ^ words[k + step, i]) & mask
        for k in cutlass.range_constexpr(count // 2):
            pair = words[k + 1, i].to(cutlass.Int64) << 32 | words[k, i].to(cutlass.Int64) & 0xFFFFFFFF
            words[k, i] = (pair >> shift % 2 * 16).to(cutlass.Int32)


def in_words(tensor):
    """Whether a copy of vectors from `tensor` can be one of 32-bit words: in global memory, 8 or 16 bytes an instruction."""
    nbytes = cute.size(tensor, mode=[0, 0]) * tensor.element_type.width // 8
    return cutlass.const_expr(nbytes >= 8 and tensor.memspace == cute.AddressSpace.gmem)

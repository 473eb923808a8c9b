"""Rows over threads: how every kernel that ships gets a row into registers and back, for any N and any address.

Chapter 3 takes one row apart like this (`CopyUnaligned`), and chapter 7 meets it as the rung of any address. `threads_per_row`
threads of a block (of each block of a cluster) share a row and keep their part of it in registers:

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

What is new beside chapter 3:

- The single elements are registers behind the vectors, so that a kernel computes with all of them at once.
- Most vectors are known to be in the row when the kernel is compiled; only the others are checked, each by a predicate of its own.
- Where a block has more places than rows are left, surplus threads load the last row and skip the store.
- Memory moves in sectors of 32 bytes, four to a line, and a warp's 512 bytes are 16 sectors only if they start where one does. So
  the pieces of a row are whole lines, and where threads are many enough to have a single element each, the head ends at a line.

For example, 32 threads share congruent rows of 1001 bfloat16 numbers. A row has a head of 0 to 7 elements, then 124 or 125 vectors
of 8, then the rest. A thread has registers for 4 vectors and 1 single element. Its first 3 vectors are in every row; the fourth is
checked.
"""

import math
import operator
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
from quack_tutorial.kernels.reduce import thread_reduce, warp_reduce
from quack_tutorial.kernels.tuned.cache_hints import load_vector, store_vector
from quack_tutorial.kernels.tuned.config import MAX_N, vector_elements

PROMISES = ("aligned", "congruent", "any")


class Place(NamedTuple):
    """Where a thread is: in which row, and where in it."""

    row: Any  # the row's number in the tensor
    exists: Any  # whether there is such a row
    piece: Any  # which piece of the row this block has, or is at
    thread_in_row: Any  # the thread's number among those of the block that share the row
    head: Any  # how many single elements come before the row's first vector
    body: Any  # how many elements of the row are in vectors


class RowTile:
    """The part of a row that one thread holds: `values` elements, in `vectors` vectors and `singles` single elements.

    A row is cut into `pieces` of `width` columns, one for each block of a cluster that holds it; or, with `vectors` given, into as
    many as it takes with so many vectors a thread, which a kernel goes through one after the other, or in blocks that do not know
    of each other. `promise` is one of the table above. `hinted` says that L2 is asked to keep what is loaded, see
    `cache_hints`; `allows_rows_each` that the kernel can do `rows_each` > 1.

    `sums_columns` is for a kernel whose blocks go through rows and add up their columns (`norm_backward`). A row that does not
    exist is then `fill`. The head ends at a multiple of 16 bytes, not of a line: more rows start equally far from one. And a store
    has a predicate and no branch around it, since the sums take most registers.
    """

    def __init__(
        self, dtype, N, promise, config, vectors=None, hinted=True, sums_columns=False, allows_rows_each=False
    ):
        if not 1 <= N <= MAX_N:
            raise ValueError(f"a row is kept in the registers of at most 16 blocks: N must be 1 to {MAX_N}, got {N}")
        if promise not in PROMISES:
            raise ValueError(f'promise must be "aligned", "congruent" or "any", got {promise!r}')
        if config.rows_each > 1 and not allows_rows_each:
            raise ValueError(f"{config}: in this kernel a thread has a part of one row, so rows_each must be 1")
        if config.rows_each > 1 and promise != "aligned":
            raise ValueError(
                f"{config}: rows that start anywhere each want the weights elsewhere, so rows_each must be 1"
            )
        self.N, self.promise, self.config = N, promise, config
        self.hinted, self.sums_columns = hinted, sums_columns
        self.threads_per_row, self.rows_each = config.threads_per_row, config.rows_each
        self.rows_per_block = config.threads_per_block // config.threads_per_row
        # Whether a block may have places for more rows than are left.
        self.several_rows = self.rows_per_block * self.rows_each > 1 or config.blocks_together > 1
        self.vector_size = vector_elements(dtype.width, N, promise)
        self.has_head = promise == "congruent" and self.vector_size > 1
        self.cut_into_pieces(vectors)
        self.count_singles()
        self.count_certain()
        self.elements_held = self.vectors * self.vector_size + self.singles

    def cut_into_pieces(self, vectors):
        """Set `pieces`, `width` (the last may have fewer columns) and `vectors`."""
        in_row, threads = self.N // self.vector_size, self.threads_per_row
        self.pieces = math.ceil(in_row / (threads * vectors)) if vectors else self.config.blocks_per_row
        in_piece = threads * vectors if vectors else math.ceil(in_row / self.pieces)
        # Bulk copies want equal pieces; with `vectors` the size is given.
        if self.pieces > 1 and not (vectors or self.config.stages):
            in_piece = math.ceil(in_piece / self.line_vectors()) * self.line_vectors()
        self.width = in_piece * self.vector_size
        self.vectors = math.ceil(in_piece / threads)

    def line_vectors(self):
        """How many vectors a line has."""
        return LINE_BYTES // VECTOR_BYTES if self.vector_size > 1 else 1

    def count_singles(self):
        """Set `boundary`, of which many bytes the head ends at a multiple, and `singles`, a thread's at most."""
        singles, self.boundary = self.N % self.vector_size, VECTOR_BYTES
        if self.has_head:
            line = self.line_vectors() * self.vector_size  # elements of a line
            if not self.sums_columns and self.N >= 2 * line and self.threads_per_row >= line + self.vector_size:
                self.boundary = LINE_BYTES
            singles = self.most_before() + self.vector_size - 1
        self.singles = math.ceil(singles / self.threads_per_row)

    def count_certain(self):
        """Set what is known to be in every row, wherever it starts.

        Of a thread's vectors in any piece it is the first `certain`, of vectors that begin one later the first `certain_next`; of
        the row's pieces it is the first `whole_pieces`, and `in_last` vectors of the last piece.
        """
        in_any, in_piece = (self.N - self.most_before()) // self.vector_size, self.width // self.vector_size
        self.in_last = in_any - (self.pieces - 1) * in_piece
        full = self.in_last == in_piece == self.threads_per_row * self.vectors
        self.certain = self.vectors if full else max(0, self.in_last) // self.threads_per_row
        self.certain_next = max(0, self.in_last - 1) // self.threads_per_row
        self.whole_pieces = min(self.pieces - 1, in_any // in_piece)

    def most_before(self):
        """The most single elements that a row can have before its first vector."""
        return self.boundary // VECTOR_BYTES * self.vector_size - 1 if self.promise == "congruent" else 0

    def blocks(self, M):
        """How many blocks lie along x of a grid for M rows, where y counts pieces: whole clusters of `blocks_together`."""
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

        | without   | what changes                                                                                          |
        |-----------|-------------------------------------------------------------------------------------------------------|
        | `wide`    | the rows of mX need not keep the promise: they are read one element at a time                         |
        | `hinted`  | the caches are asked nothing                                                                          |
        | `singles` | the single elements are `fill`, too                                                                   |

        `certain`: how many first vectors of each thread are in the row, where the caller knows better than the tile.
        """
        sure = self.certain if certain is None else certain
        checks_row = self.sums_columns and self.several_rows
        rX = cute.make_rmem_tensor(self.elements_held, mX.element_type)
        for k in cutlass.range_constexpr(0 if checks_row else sure * self.vector_size, self.elements_held):
            rX[k] = mX.element_type(fill)
        if cutlass.const_expr(self.several_rows and not self.sums_columns):
            place = place._replace(row=cutlass.min(place.row, mX.shape[0] - 1), exists=True)
        if cutlass.const_expr(singles):
            self.load_singles(rX, mX, place)
        atom, tXgX = self.vectors_of(mX, place, wide)
        self.copy_vectors(
            atom, tXgX, self.as_vectors(rX, tXgX), place, sure, checks_row, self.hinted and hinted and in_words(tXgX)
        )
        return rX

    @cute.jit
    def load_singles(self, rX: cute.Tensor, mX: cute.Tensor, place):
        """Read this thread's single elements of its row into the last values of `rX`."""
        gX = tile_at(mX, (1, self.N), place.row)
        for k in cutlass.range_constexpr(self.singles):
            col = self.single_column(k, place)
            if place.exists and place.piece == 0 and col < self.N:
                rX[self.vectors * self.vector_size + k] = gX[0, col]

    @cute.jit
    def store(self, rX: cute.Tensor, mX: cute.Tensor, place, wide: cutlass.Constexpr = True):
        """Write this thread's part of its row from a register tensor of `values` elements; `wide` as in `load`."""
        gX = tile_at(mX, (1, self.N), place.row)
        atom, tXgX = self.vectors_of(mX, place, wide)
        self.copy_vectors(atom, self.as_vectors(rX, tXgX), tXgX, place, self.certain, self.several_rows)
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

    @cute.jit
    def copy_vectors(
        self,
        atom,
        source: cute.Tensor,
        target: cute.Tensor,
        place,
        certain: cutlass.Constexpr,
        checks_row: cutlass.Constexpr,
        hinted: cutlass.Constexpr = False,
    ):
        """Copy this thread's vectors that are in the row, the first `certain` unchecked.

        With `checks_row` nothing is copied if there is no such row. `hinted` says that L2 is asked to keep what is read.
        """
        if cutlass.const_expr(certain == self.vectors and not hinted):
            if cutlass.const_expr(not checks_row):
                cute.copy(atom, source, target)
            elif place.exists:
                cute.copy(atom, source, target)
        else:
            # Those with a branch come first: the compiler may wait there for whatever was loaded before it.
            for i in cutlass.range_constexpr(self.vectors - 1, -1, -1):
                self.copy_vector(i, atom, source, target, place, certain, checks_row, hinted)

    @cute.jit
    def copy_vector(
        self,
        i: cutlass.Constexpr,
        atom,
        source: cute.Tensor,
        target: cute.Tensor,
        place,
        certain: cutlass.Constexpr,
        checks_row: cutlass.Constexpr,
        hinted: cutlass.Constexpr = False,
    ):
        """Copy this thread's vector i if it is in the row; as `copy_vectors`."""
        vector, copied = source[None, None, i], target[None, None, i]
        if cutlass.const_expr(i < certain and not checks_row):
            if cutlass.const_expr(hinted):
                load_vector(vector, copied, hinted)
            else:
                cute.copy(atom, vector, copied)
        elif cutlass.const_expr(in_words(source)):
            load_vector(vector, copied, hinted, self.inside(i, place, i < certain, checks_row))
        elif cutlass.const_expr(self.sums_columns and in_words(target)):
            store_vector(vector, copied, self.inside(i, place, i < certain, checks_row))
        elif self.inside(i, place, i < certain, checks_row):
            cute.copy(atom, vector, copied)

    def inside(self, i, place, certain, checks_row):
        """Whether this thread's vector i is in the row, a Boolean."""
        if certain:
            return place.exists
        limit = place.body - place.piece * self.width
        if self.pieces > 1 and self.width // self.vector_size != self.threads_per_row * self.vectors:
            limit = cutlass.min(limit, self.width)
        inside = (i * self.threads_per_row + place.thread_in_row) * self.vector_size < limit
        return place.exists & inside if checks_row else inside

    def warp_sum(self, values):
        """The sum of `values`, what each thread has of its row, over the row's lanes in this warp."""
        total = thread_reduce(values, cute.ReductionOp.ADD, cutlass.Float32(0.0))
        return warp_reduce(total, operator.add, min(self.threads_per_row, 32))

    def warp_max(self, values):
        """The maximum of them."""
        largest = thread_reduce(values, cute.ReductionOp.MAX, -cutlass.Float32.inf)
        return warp_reduce(largest, cute.arch.fmax, min(self.threads_per_row, 32))

    @staticmethod
    def is_first(place):
        """Whether this thread is the first of its row, and there is such a row: it writes what a row has one number of."""
        return place.exists & (place.thread_in_row == 0) & (place.piece == 0)

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


def in_words(tensor):
    """Whether a copy of vectors from `tensor` can be one of 32-bit words: in global memory, 8 or 16 bytes an instruction."""
    nbytes = cute.size(tensor, mode=[0, 0]) * tensor.element_type.width // 8
    return cutlass.const_expr(nbytes >= 8 and tensor.memspace == cute.AddressSpace.gmem)

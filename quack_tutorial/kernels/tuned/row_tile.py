"""Rows over threads: how every kernel that ships gets a row into registers and back, for any N and any address.

`threads_per_row` threads of a block (of each block of a cluster) share a row and keep their part of it in registers, as in chapter
3's `CopyUnaligned`:

    | head | vector vector vector ... vector | rest |        a row of N elements
      ^      ^ 16-byte boundary                ^
      single elements                          single elements

| promise     | what it says of addresses                                             | accesses                           |
|-------------|-----------------------------------------------------------------------|------------------------------------|
| "aligned"   | every row of every tensor starts at a multiple of 16 bytes            | vectors, single elements at the end |
| "congruent" | in each row all tensors are equally many elements from such multiples | vectors, single elements at both ends |
| "any"       | nothing                                                               | single elements                    |

Rows of an odd length that follow each other without gaps are congruent: each starts somewhere else, in x as in out.

The single elements are registers behind the vectors. Most vectors are known to be in the row when the kernel is compiled; only the
others are checked, each by a predicate of its own. Where a block has more places than rows are left, surplus threads load the last
row and skip the store. For example, 32 threads share congruent rows of 1001 bfloat16 numbers: a head of 0 to 7 elements, 124 or
125 vectors of 8, the rest. A thread has registers for 4 vectors and 1 single element; its first 3 vectors are in every row.

Memory moves in sectors of 32 bytes, four to a line, and a warp's 512 bytes are 16 sectors only if they start where one does. So
the pieces of a row are whole lines, and where threads are many enough to have a single element each, the head ends at a line."""

import math
import operator
from copy import copy
from typing import Any, NamedTuple

import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.cache_hints import load_vector, store_vector
from quack_tutorial.kernels.config import HOPPER, MAX_N, VECTOR_BYTES, vector_elements
from quack_tutorial.kernels.layout import LINE_BYTES, aligned, elements_to_boundary, tile_at, tiled_copy_rows
from quack_tutorial.kernels.reduce import thread_reduce, warp_reduce
from quack_tutorial.kernels.tuned.rule import sizes

PROMISES = ("aligned", "congruent", "any")


class Place(NamedTuple):
    """Where a thread is: in which row, and where in it. A branch in a kernel that names a place makes variables of all its
    fields, constants too: where one is wanted as a constant afterwards, take the field first, `row = place.row`."""

    row: Any  # the row's number in the tensor
    exists: Any  # whether there is such a row
    piece: Any  # which piece of the row this block has, or is at; before the first, its rank in the cluster
    thread_in_row: Any  # the thread's number among those of the block that share the row
    head: Any  # how many single elements come before the row's first vector
    body: Any  # how many elements of the row are in vectors


class RowTile:
    """The part of a row that one thread holds: `elements_held`, in `vectors` vectors and `singles` single elements.

    A row is cut into `pieces` of `width` columns, the last of which may have fewer: one for each block of a cluster; or, where the
    configuration has `vectors_at_once`, as many as it takes with so many vectors a thread, which a kernel goes through one after
    the other, the blocks of a cluster in turns, or in blocks that do not know of each other. `promise` is one of the table above.

    What is known of every row, wherever it starts: of a thread's vectors in any piece the first `certain` are in it, and of vectors
    that begin one later the first `certain_next`; of its pieces the first `whole_pieces`, and `in_last` vectors of the last."""

    hinted = True  # L2 is asked to keep what is loaded, see `cache_hints`
    wide = True  # rows keep the promise; else they are read and written one element at a time
    sums_columns = False  # of a kernel whose blocks go through rows, see `norm_backward.ColumnTile`
    columns_together = 1  # how many neighbouring columns are not parted among the blocks of a cluster

    def __init__(self, dtype, N, promise, config):
        if not 1 <= N <= MAX_N:
            raise ValueError(f"a row has at most 16 blocks: N must be 1 to {MAX_N}, got {N}")
        if promise not in PROMISES:
            raise ValueError(f'promise must be "aligned", "congruent" or "any", got {promise!r}')
        self.N, self.promise, self.config = N, promise, config
        self.threads_per_row = threads = config.threads_per_row
        self.rows_each, self.rows_per_block = config.rows_each, config.threads_per_block // threads
        # Whether a block may have places for more rows than are left.
        self.several_rows = self.rows_per_block * self.rows_each > 1 or config.blocks_together > 1
        self.vector_size = size = vector_elements(dtype.width, N, promise)
        self.has_head = promise == "congruent" and size > 1
        # Pieces, in vectors; those of blocks are multiples of a line, except equal ones that bulk copies bring.
        in_row, in_line = N // size, LINE_BYTES // VECTOR_BYTES if size > 1 else 1
        in_piece = threads * config.vectors_at_once
        self.pieces = math.ceil(in_row / in_piece) if in_piece else config.blocks_per_row
        if not in_piece:
            copied = config.stages and (in_row % self.pieces == 0 or self.sums_columns)
            unit = 1 if self.pieces == 1 or copied else max(in_line, self.columns_together // size)
            in_piece = math.ceil(math.ceil(in_row / self.pieces) / unit) * unit
        self.width, self.vectors = in_piece * size, math.ceil(in_piece / threads)
        # Single elements: the head ends at a multiple of `boundary` bytes.
        line = in_line * size
        at_line = self.has_head and not self.sums_columns and N >= 2 * line and threads >= line + size
        self.boundary = LINE_BYTES if at_line else VECTOR_BYTES
        singles = self.most_before() + size - 1 if self.has_head else N % size
        self.singles = math.ceil(singles / threads)
        self.elements_held = self.vectors * size + self.singles
        # What is in every row.
        in_any = (N - self.most_before()) // size
        self.in_last = in_any - (self.pieces - 1) * in_piece
        full = self.in_last == in_piece == threads * self.vectors
        self.certain = self.vectors if full else max(0, self.in_last) // threads
        self.certain_next = max(0, self.in_last - 1) // threads
        self.whole_pieces = min(self.pieces - 1, in_any // in_piece)

    def most_before(self):
        """The most single elements that a row can have before its first vector."""
        return self.boundary // VECTOR_BYTES * self.vector_size - 1 if self.has_head else 0

    def beside(self, wide):
        """The tile for a tensor that goes with the rows, weights or sums, whose own rows keep the promise if it is `wide`."""
        tile = copy(self)
        tile.wide, tile.hinted = wide, False
        return tile

    def blocks(self, M):
        """How many blocks lie along x of a grid for M rows, where y counts pieces: whole clusters of `blocks_together`."""
        together = max(1, self.config.blocks_together)
        return cute.ceil_div(M, self.rows_per_block * self.rows_each * together) * together

    def places(self, mX, block):
        """Where this thread is in each of its `rows_each` rows, see `place`; `rows_per_block` rows apart."""
        first = block * (self.rows_per_block * self.rows_each)
        return [self.place(mX, first + k * self.rows_per_block if k else first) for k in range(self.rows_each)]

    def place(self, mX, tile_row, stride=1, piece=None):
        """Where this thread is, a `Place`: rows of a block are `stride` apart, the first is `tile_row`; the piece is the block's y
        index, its rank in the cluster, unless given."""
        tidx, _, _ = cute.arch.thread_idx()
        row, thread_in_row = tile_row + tidx // self.threads_per_row * stride, tidx % self.threads_per_row
        if piece is None:
            piece = cute.arch.block_idx()[1] if self.pieces > 1 else 0
        head, body = 0, self.N - self.N % self.vector_size
        if self.has_head:
            loaded = row if self.sums_columns else existing(row, mX)
            head = elements_to_boundary(tile_at(mX, (1, self.N), loaded)[0, None], self.boundary)
            body = (self.N - head) // self.vector_size * self.vector_size
        return Place(row, row < mX.shape[0], piece, thread_in_row, head, body)

    @staticmethod
    def is_first(place):
        """Whether this thread is the first of its row, and there is such a row: it writes what a row has one number of."""
        return place.exists & (place.thread_in_row == 0) & (place.piece == 0)

    @cute.jit
    def load(self, mX: cute.Tensor, place, fill: cutlass.Constexpr = 0.0, certain: cutlass.Constexpr = None):
        """This thread's part of its row, as a register tensor of `elements_held` values; `fill` where there is none. `certain`:
        how many first vectors of each thread are in the row, where the caller knows better than the tile."""
        certain = self.certain if certain is None else certain
        checks_row = self.several_rows and self.sums_columns
        rX = cute.make_rmem_tensor(self.elements_held, mX.element_type)
        for k in cutlass.range_constexpr(0 if checks_row else certain * self.vector_size, self.elements_held):
            rX[k] = mX.element_type(fill)
        if cutlass.const_expr(self.several_rows and not self.sums_columns):
            place = place._replace(row=existing(place.row, mX), exists=True)
        self.copy_singles(rX, mX, place)
        atom, tXgX, tXrX = self.vectors_of(mX, rX, place)
        self.copy_vectors(atom, tXgX, tXrX, place, certain, checks_row)
        return rX

    @cute.jit
    def store(self, rX: cute.Tensor, mX: cute.Tensor, place):
        """Write this thread's part of its row from a register tensor of `elements_held` values."""
        atom, tXgX, tXrX = self.vectors_of(mX, rX, place)
        self.copy_vectors(atom, tXrX, tXgX, place, self.certain, self.several_rows)
        self.copy_singles(rX, mX, place, stores=True)

    @cute.jit
    def copy_singles(self, rX: cute.Tensor, mX: cute.Tensor, place, stores: cutlass.Constexpr = False):
        """Read this thread's single elements of its row into the last values of `rX`, or write them from there."""
        gX = tile_at(mX, (1, self.N), place.row)
        for k in cutlass.range_constexpr(self.singles):
            col, last = self.single_column(k, place), self.vectors * self.vector_size + k
            if place.exists and place.piece == 0 and col < self.N:
                if cutlass.const_expr(stores):
                    gX[0, col] = rX[last]
                else:
                    rX[last] = gX[0, col]

    @cute.jit
    def single_column(self, k, place):
        """The column of this thread's k-th single element; threads take those before the vectors first, then those after."""
        number = k * self.threads_per_row + place.thread_in_row
        col = number
        if number >= place.head:
            col = number + place.body
        return col

    def vectors_of(self, mX, rX, place):
        """The copy atom for `mX`, and this thread's vectors in it and in rX, ((elements of an atom, atoms), 1, vectors)."""
        dtype = mX.element_type
        bits = dtype.width
        if self.wide and self.vector_size > 1:
            bits = min(self.vector_size * dtype.width, VECTOR_BYTES * 8)
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, self.threads_per_row, 1, self.vector_size).get_slice(place.thread_in_row)
        mX = cute.domain_offset((cutlass.Int64(place.row), place.head + place.piece * self.width), mX)
        columns = self.threads_per_row * self.vectors * self.vector_size
        tXgX = thr_copy.partition_S(cute.local_tile(mX, (1, columns), (0, 0)))
        tXgX = aligned(tXgX, bits // 8) if bits > dtype.width else tXgX
        return atom, tXgX, cute.make_tensor(rX.iterator, cute.make_layout(tXgX.shape))

    @cute.jit
    def copy_vectors(self, atom, source, target, place, certain: cutlass.Constexpr, checks_row: cutlass.Constexpr):
        """Copy this thread's vectors that are in the row, the first `certain` unchecked; with `checks_row` only if it exists."""
        if cutlass.const_expr(certain == self.vectors and not (self.hinted and in_words(source))):
            if cutlass.const_expr(not checks_row):
                cute.copy(atom, source, target)
            elif place.exists:
                cute.copy(atom, source, target)
        else:
            # Those with a branch, as stores have, come first: the compiler may wait there for whatever was loaded before it.
            for i in cutlass.range_constexpr(self.vectors - 1, -1, -1):
                vector, copied = source[None, None, i], target[None, None, i]
                self.copy_vector(atom, vector, copied, self.inside(i, place, i < certain, checks_row))

    @cute.jit
    def copy_vector(self, atom, source: cute.Tensor, target: cute.Tensor, inside):
        """Copy a vector if it is `inside` the row, a Boolean; None where it is known to be."""
        if cutlass.const_expr(in_words(source) and (self.hinted or inside is not None)):
            load_vector(source, target, self.hinted, inside)
        elif cutlass.const_expr(inside is None):
            cute.copy(atom, source, target)
        elif cutlass.const_expr(self.sums_columns and in_words(target)):
            store_vector(source, target, inside)
        elif inside:
            cute.copy(atom, source, target)

    def inside(self, i, place, certain=False, checks_row=False):
        """Whether this thread's vector i is in the row, with `checks_row` in a row that exists: a Boolean; None if `certain`."""
        if certain:
            return place.exists if checks_row else None
        limit = place.body - place.piece * self.width
        if self.pieces > 1 and self.width // self.vector_size != self.threads_per_row * self.vectors:
            limit = cutlass.min(limit, self.width)
        inside = (i * self.threads_per_row + place.thread_in_row) * self.vector_size < limit
        return place.exists & inside if checks_row else inside

    def warp_sum(self, values):
        """The sum of `values`, what each thread has of its row, over the row's lanes in this warp."""
        total = thread_reduce(values, cute.ReductionOp.ADD, cutlass.Float32(0.0))
        return warp_reduce(total, operator.add, min(self.threads_per_row, 32))


def existing(row, mX):
    """`row`, or the last row where there is no such row: what is loaded without a branch must be somewhere. A load behind a branch
    is moved down to where its value is needed, and then memory is waited for twice."""
    return cutlass.min(row, mX.shape[0] - 1)


def keep_loads_above():
    """The compiler would move a load down to where its value is needed, behind a row that is waited for. It moves none across a
    barrier, and one of a warp that is together anyway costs next to nothing."""
    cute.arch.sync_warp()


def in_words(tensor):
    """Whether a copy of vectors from `tensor` can be one of 32-bit words: in global memory, 8 or 16 bytes an instruction."""
    nbytes = cute.size(tensor, mode=[0, 0]) * tensor.element_type.width // 8
    return cutlass.const_expr(nbytes >= 8 and tensor.memspace == cute.AddressSpace.gmem)


class RowKernel:
    """What kernels on rows of N elements of `dtype` share: `config`, by default the sizes of the rule for a `card`, and the tile.
    `promise` is what the caller knows of addresses, see above."""

    operation = ""  # under which the rule knows it
    tile_type = RowTile
    allows_rows_each = False  # whether a thread may have parts of several rows

    def __init__(self, dtype, N, promise="aligned", *, card=HOPPER, config=None):
        self.dtype, self.N, self.promise = dtype, N, promise
        self.config = config = config or sizes(self.operation, dtype.width, N, promise, card)
        if config.rows_each > 1 and not self.allows_rows_each:
            config.refuse("in this kernel a thread has a part of one row, so rows_each must be 1")
        if config.rows_each > 1 and promise != "aligned":
            config.refuse("rows that start anywhere each want the weights elsewhere, so rows_each must be 1")
        self.tile = self.tile_type(dtype, N, promise, config)

    def over(self, M):
        """The launch for M rows: a block, or a cluster, for as many as it has at once. x counts rows and y pieces, so that a block
        knows both without a division: a cluster lies along y, and not along x as in the ladders."""
        return self.launched([self.tile.blocks(M), self.config.blocks_per_row, 1])

    def launched(self, grid):
        """What a launch of that grid is told."""
        return dict(grid=grid, block=[self.config.threads_per_block, 1, 1], cluster=self.config.cluster)

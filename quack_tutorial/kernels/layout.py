"""Who holds which element: the thread-value layouts and the views that the row-wise kernels share.

A row-wise kernel cuts its (M, N) tensor into tiles of whole rows, one tile a block. `threads_per_row` neighbouring
threads share a row. Each takes a vector of `vector_size` elements, the next thread takes the next vector, and when all
have one they start again further along the row:

    threads_per_row = 4, vector_size = 2     columns   0 1   2 3   4 5   6 7 |  8 9  10 11  12 13  14 15
                                             thread     0     1     2     3  |   0     1      2      3

Chapter 2 explains such thread-value layouts; chapter 3 uses `tile_at` and `tiled_copy_rows`, chapter 7 `threads_for` and
`row_tiler`.

The lanes that share a row touch one contiguous run of memory (coalesced), and each of them moves 16 bytes in one
instruction (vectorised). These are two properties, not one: see `copy.py` for kernels that have one without the other.
With fewer than 32 threads a row, a warp touches one such run in each of its rows.

Not covered: swizzled shared memory (row-wise kernels read shared memory the way they write it, without conflicts).
"""

import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.config import VECTOR_BYTES, Config, clusters_for, divides, power_of_2

LINE_BYTES = 128  # what a cache line holds, in four sectors of 32 bytes
SHARED_BYTES = 227 * 1024  # the shared memory that one block may have
MOST_THREADS = 1024  # in a block
MOST_ELEMENTS = 128  # of a row that a thread may get; in a block of 1024 threads it has 64 registers, and spills


def threads_for(columns, elements=32):
    """How many threads share `columns` elements so that each has about `elements` of them: a power of 2, 8 to 1024."""
    return min(MOST_THREADS, max(8, power_of_2(-(-columns // elements))))


def promise_for(dtype, N):
    """What is known of rows of `N` elements that follow each other without gaps; `tuned/row_tile.py` explains the words."""
    return "congruent" if N * dtype.width // 8 % VECTOR_BYTES else "aligned"


def of_rungs(dtype, N, block_bytes, thread_bytes):
    """The sizes of a ladder's rungs, as a `Config`, for its last ones, whose kernel ships with those of `tuned/rule.py`.

    A row longer than `block_bytes` belongs to a cluster. It waits in shared memory, `thread_bytes` of it for a thread, where
    bulk copies can cut it; other rows are in registers, about 32 elements a thread.
    """
    blocks = clusters_for(N * dtype.width // 8, block_bytes)
    columns = -(-N // blocks)
    if blocks > 1 and promise_for(dtype, N) == "aligned" and divides(blocks, dtype.width, N):
        threads = max(32, threads_for(columns, elements=thread_bytes * 8 // dtype.width))
        return Config(threads, threads, blocks, stages=1)
    threads = max(128, threads_for(columns)) if blocks > 1 else threads_for(columns)
    return Config(threads, max(128, threads), blocks)


def row_tiler(columns, vector_size, threads_per_row, rows=1):
    """The tile (rows, columns) in which each thread has whole vectors, enough of them for `columns` elements a row.

    Raises ValueError where a thread would have to hold more than `MOST_ELEMENTS`.
    """
    vectors = -(-columns // (vector_size * threads_per_row))
    if vectors * vector_size > MOST_ELEMENTS:
        raise ValueError(
            f"{columns} elements on {threads_per_row} threads are {vectors * vector_size} each, and a thread holds up to "
            f"{MOST_ELEMENTS}: use more threads, or a version that shares a row among the blocks of a cluster"
        )
    return rows, vectors * vector_size * threads_per_row


def tiled_copy_rows(atom, threads_per_row, rows_per_block, vector_size):
    """The TiledCopy in which `threads_per_row` threads share each of `rows_per_block` rows, `vector_size` elements each."""
    # Thread layout: consecutive threads along the row (order (1, 0): mode 1 is fastest).
    thread_layout = cute.make_ordered_layout((rows_per_block, threads_per_row), order=(1, 0))
    value_layout = cute.make_layout((1, vector_size))
    return cute.make_tiled_copy_tv(atom, thread_layout, value_layout)


def tile_at(mX, tiler, row_block, column_block=0):
    """The tile of shape `tiler` (rows, columns) at a block's place; the row's address is computed in 64 bits.

    A block index has 32 bits, and row * stride overflows them in a tensor of more than 2^31 elements.
    """
    # The view whose (0, 0) is the tile's first row.
    mX = cute.domain_offset((cutlass.Int64(row_block) * tiler[0], 0), mX)
    return cute.local_tile(mX, tiler, (0, column_block))


def elements_to_boundary(tensor, nbytes):
    """How many elements lie between the start of `tensor` and the next address that is a multiple of `nbytes`."""
    skipped_bytes = tensor.iterator.align(nbytes).toint() - tensor.iterator.toint()
    return cutlass.Int32(skipped_bytes) // (tensor.element_type.width // 8)


def aligned(tensor, nbytes=VECTOR_BYTES):
    """The same tensor, whose address the caller knows to be a multiple of `nbytes`, as one that vector copies accept."""
    return cute.make_tensor(tensor.iterator.align(nbytes), tensor.layout)


def as_rows(tensor, columns, rows=1):
    """A vector of `columns` elements as (rows, columns), the same in every row, that a TiledCopy of rows can partition."""
    return cute.make_tensor(tensor.iterator, cute.make_layout((rows, columns), stride=(0, 1)))

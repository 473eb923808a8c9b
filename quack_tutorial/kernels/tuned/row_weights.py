"""Weights and biases: vectors (N,) that go with every row, so that a thread wants the columns that it has of its row.

Aligned rows and a weight have the same vectors. Where rows start anywhere, a row's vectors begin `head` elements along, and the
weight's do not:

    row                  x0 x1 x2 | x3 x4 x5 x6 | x7 ...       head = 3: a boundary of 16 bytes before x3
    weight            w0 w1 w2 w3 | w4 w5 w6 w7 | w8 ...       and before w0, w4, w8

The weights of a vector of the row lie in two neighbouring vectors of the weight. For 16-bit weights both are loaded and shifted
into place; float32 weights, of which a vector has few, are loaded one element at a time.
"""

import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.layout import tile_at


def weights_before_row(tile, tensors, place, M):
    """This thread's part of each of `tensors`, (N,) or None, that is to be on its way before the row has arrived.

    They come from L2. Those that are shifted are waited for, so they come after the row: None here.
    """
    return [None if mW is None or shifts(tile, mW) else load_weight(tile, mW, place, M) for mW in tensors]


def weights_after_row(tile, tensors, place, M, before):
    """All of them, from those that came `before` the row."""
    pairs = zip(tensors, before, strict=True)
    return [tXrW if mW is None or not shifts(tile, mW) else load_weight(tile, mW, place, M) for mW, tXrW in pairs]


def load_weight(tile, mW, place, M):
    """This thread's part of a vector (N,) in registers, as `RowTile.load`. Its address is a multiple of 16 bytes."""
    every_row = rows_of(mW, M)
    if shifts(tile, mW):
        return load_shifted(tile, every_row, place)
    return tile.load(every_row, place, wide=tile.promise == "aligned", hinted=False)


def rows_of(mW, M):
    """A vector (N,) as M rows, all of them the same."""
    return cute.make_tensor(mW.iterator, cute.make_layout((M, mW.shape[0]), stride=(0, 1)))


def shifts(tile, mW):
    """Whether a weight is loaded in vectors though it starts elsewhere than rows: float32 is quicker without."""
    return tile.has_head and mW.element_type.width == 16


@cute.jit
def load_shifted(tile: cutlass.Constexpr, mW: cute.Tensor, place):
    """`load_weight` of a 16-bit tensor whose rows are aligned, where those of the others are not."""
    size = tile.vector_size
    shift, half_size = place.head % size, size // 2  # words of two elements
    rW = cute.make_rmem_tensor(tile.elements_held, mW.element_type)
    rW.fill(0.0)
    tile.load_singles(rW, mW, place)
    both = cute.make_rmem_tensor((2 * size, tile.vectors), mW.element_type)
    both.fill(0.0)
    for k in cutlass.range_constexpr(2):  # the first of the two vectors, and the second
        start = place.head - shift + k * size
        # Of a row's last vector the second one may not be whole: the loop below loads it element by element.
        end, certain = (place.body, tile.certain) if k == 0 else (tile.N // size * size - start, tile.certain_next)
        at = place._replace(exists=True, head=start, body=end)
        atom, tXgW = tile.vectors_of(mW, at, True)
        layout = cute.make_layout(tXgW.shape, stride=((1, 0), 0, 2 * size))
        target = cute.make_tensor(both.iterator + k * size, layout)
        tile.copy_vectors(atom, tXgW, target, at, certain, False)
    words = cute.recast_tensor(both, cutlass.Int32)
    gW = tile_at(mW, (1, tile.N), place.row)
    for i in cutlass.range_constexpr(tile.certain_next, tile.vectors if tile.N % size else 0):
        vector = i * tile.threads_per_row + place.thread_in_row
        col = place.head - shift + place.piece * tile.width + (vector + 1) * size
        if col == tile.N // size * size:
            tail = cute.make_rmem_tensor(size, mW.element_type)
            tail.fill(0.0)
            for k in cutlass.range_constexpr(tile.N % size):
                tail[k] = gW[0, col + k]
            tail = cute.recast_tensor(tail, cutlass.Int32)
            for k in cutlass.range_constexpr(half_size):
                words[half_size + k, i] = tail[k]
    shift_elements(words, shift)
    for i in cutlass.range_constexpr(tile.vectors):
        for k in cutlass.range_constexpr(size):
            rW[i * size + k] = both[k, i]
    return rW


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

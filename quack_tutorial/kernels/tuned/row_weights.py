"""Weights and biases: vectors (N,) that go with every row, so that a thread wants the columns that it has of its row.

Aligned rows and a weight have the same vectors. Where rows start anywhere, a row's vectors begin `head` elements along, and the
weight's do not:

    row                  x0 x1 x2 | x3 x4 x5 x6 | x7 ...       head = 3: a boundary of 16 bytes before x3
    weight            w0 w1 w2 w3 | w4 w5 w6 w7 | w8 ...       and before w0, w4, w8

The weights of a vector of the row lie in two neighbouring vectors of the weight. For 16-bit weights both are loaded and shifted
into place; float32 weights, of which a vector has few, are quicker loaded one element at a time.
"""

import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.layout import as_rows


class RowWeights:
    """How the threads of a tile load vectors (N,) that begin at multiples of 16 bytes; None of one that is None."""

    def __init__(self, tile):
        self.tile, self.as_promised = tile.beside(wide=True), tile.beside(wide=tile.promise == "aligned")

    def shifts(self, mW):
        """Whether a vector is loaded in vectors though it starts elsewhere than rows."""
        return mW is not None and self.tile.has_head and mW.element_type.width == 16

    def before_row(self, tensors, place, M):
        """This thread's part of each of `tensors`, on its way from L2 before the row has arrived; those that are shifted would be
        waited for, so they come after the row: None here."""
        return [None if self.shifts(mW) else self.load(mW, place, M) for mW in tensors]

    def after_row(self, tensors, place, M, before):
        """All of them, from those that came `before` the row."""
        pairs = zip(tensors, before, strict=True)
        return [self.load(mW, place, M) if self.shifts(mW) else tXrW for mW, tXrW in pairs]

    def load(self, mW, place, M):
        """This thread's part of one of them, for M rows, as `RowTile.load`."""
        if mW is None:
            return None
        every_row = as_rows(mW, mW.shape[0], M)
        return self.load_shifted(every_row, place) if self.shifts(mW) else self.as_promised.load(every_row, place)

    @cute.jit
    def load_shifted(self, mW: cute.Tensor, place):
        """`load` of a 16-bit tensor whose rows are aligned, where those of the others are not."""
        tile = self.tile
        size = tile.vector_size
        shift, half_size = place.head % size, size // 2  # words of two elements
        rW = cute.make_rmem_tensor(tile.elements_held, mW.element_type)
        rW.fill(0.0)
        tile.copy_singles(rW, mW, place)
        both = cute.make_rmem_tensor((2 * size, tile.vectors), mW.element_type)
        both.fill(0.0)
        for k in cutlass.range_constexpr(2):  # the first of the two vectors, and the second
            start = place.head - shift + k * size
            # Of a row's last vector the second one may not be whole: the loop below loads it element by element.
            end, certain = (place.body, tile.certain) if k == 0 else (tile.N // size * size - start, tile.certain_next)
            at = place._replace(exists=True, head=start, body=end)
            atom, tXgW, _ = tile.vectors_of(mW, both, at)
            layout = cute.make_layout(tXgW.shape, stride=((1, 0), 0, 2 * size))
            tile.copy_vectors(
                atom, tXgW, cute.make_tensor(both.iterator + k * size, layout), at, certain, checks_row=False
            )
        words = cute.recast_tensor(both, cutlass.Int32)
        for i in cutlass.range_constexpr(tile.certain_next, tile.vectors if tile.N % size else 0):
            vector = i * tile.threads_per_row + place.thread_in_row
            col = place.head - shift + place.piece * tile.width + (vector + 1) * size
            if col == tile.N // size * size:
                tail = cute.make_rmem_tensor(size, mW.element_type)
                tail.fill(0.0)
                for k in cutlass.range_constexpr(tile.N % size):
                    tail[k] = mW[place.row, col + k]
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

"""Which sizes a kernel takes for rows of a length: a rule, the same for every length, type and operation but for the exceptions
that `SPREADS` names. It follows from what a Hopper SM has:

| an SM has                        | so                                                                                        |
|----------------------------------|-------------------------------------------------------------------------------------------|
| 2048 threads, 32 blocks at most  | a block has 128 threads or about so many at least: short rows share one                   |
| 20 to 40 KB to keep on their way | where a block has its rows whole, a thread has 3 or 4 vectors of 16 bytes of each         |
| 65,536 registers                 | 16 or 24 KB of a row are a block's, so that several fit; longer ones have a cluster       |
| 227 KB of shared memory          | rows that would take too many registers wait there, 16 to 40 KB in a block                |

What the rule loses to the best of the sweeps that were recorded on an H100 and an H200: `tests/kernels/test_rule.py`.
"""

import math
from dataclasses import replace
from typing import NamedTuple

from quack_tutorial.kernels.config import CLUSTERS, HOPPER, VECTOR_BYTES, Config, clusters_for, divides, power_of_2

KB = 1024
NEVER = 1024 * KB  # no row is longer
# Of a row of x, and of dy, in each stage of a norm's gradient, in 16 bits and in float32: rows that start at a vector, and others,
# whose ends are stored element by element.
GRADIENT_BYTES, ODD_GRADIENT_BYTES = (26 * KB, 32 * KB), (26 * KB, 37 * KB // 2)
BESIDE_STAGES = 11 * KB  # of shared memory: sums and mbarriers
# A block whose warps are no multiple of an SM's 4 schedulers costs as if it had so many threads more, which fits 16-bit rows of
# 20,000 to 110,000 columns in clusters on an H200 best.
UNEVEN_WARPS = 13
# At most, by sweeps: smaller blocks fill an SM's registers better, and the compiler gave their threads fewer.
SHORTER_PIECE_BYTES, FULL_PIECE_BYTES = 32 * KB, 16 * KB
LONGEST_LOSS_BYTES = 512 * KB  # of a row that one block goes through
# That a cluster of different rows moves. A GPU starts clusters, even of one block, at another pace than blocks: an H200 starts one
# in the time of 12 KB.
LEAST_CLUSTER_BYTES = 15 * KB


class Spread(NamedTuple):
    """What a forward kernel, or a gradient that needs its row once, asks for; pairs are of 16 bits and of float32."""

    # Vectors of a thread, of one tensor: the first of these that leaves the fewest places of aligned rows empty.
    held: tuple = ((4,), (4,))
    block_bytes: tuple = (24 * KB, 24 * KB)  # of a row, in a block's registers
    shared_from: tuple = (NEVER, NEVER)  # bytes of a row that waits in shared memory
    piece_bytes: int = 40 * KB  # of a row, in a block's shared memory
    piece_threads: int = 320  # at most, of a block that has a piece of a row
    # Vectors of a thread there, of one tensor: of a row in one piece or in pieces that differ, and in equal ones.
    piece_held: tuple = (8, 8)
    rows_each: int = 1  # of a thread, where a warp has a row: for weights that it loads once
    together: int = 0  # blocks of different rows that start as a cluster, be it of one, where that moves enough
    least: tuple = (8, 8)  # threads of a row
    last_shorter: tuple = (False, False)  # whether the last of the pieces there may be
    unit: int = 1  # vectors that equal pieces are multiples of: with 2 each begins where a sector does
    # Whether a row only waits there if its threads, of 4 blocks at most, have equally many vectors of it: a few lengths.
    full: bool = False


SMALL = (16 * KB, 16 * KB)
SPREADS = {
    "softmax": Spread(held=((3,), (4,)), shared_from=(128 * KB, NEVER), unit=2),
    "softmax backward": Spread(held=((3,), (2,)), block_bytes=SMALL, shared_from=(128 * KB, NEVER), together=2, unit=2),
    # In the norms' gradients, too, the last piece may be shorter. Softmax and the fused loss read their pieces as rows of
    # their own.
    "rmsnorm": Spread(block_bytes=SMALL, shared_from=(32 * KB, 256 * KB), together=1, last_shorter=(True, True)),
    "rmsnorm residual": Spread(block_bytes=SMALL),
    # y is in registers, in float32, until its maximum is known, x before it in shared memory where that is quicker. A block of
    # 128 columns is 16 or 32 neighbouring threads'.
    "rmsnorm-quantized": Spread(block_bytes=(24 * KB, 32 * KB), shared_from=(8 * KB, NEVER), full=True),
    "rmsnorm-quantized residual": Spread(),
    "rmsnorm-quantized blocks": Spread(least=(16, 32)),
    "rmsnorm-quantized blocks residual": Spread(least=(16, 32)),
    # Its row is needed three times.
    "layernorm": Spread(
        held=((3, 4), (4,)),
        block_bytes=SMALL,
        shared_from=(12 * KB, 16 * KB),
        piece_bytes=32 * KB,
        piece_threads=128,
        piece_held=(8, 18),
        rows_each=2,
        together=1,
        last_shorter=(True, False),
    ),
    "cross-entropy fused": Spread(held=((6,), (4,)), shared_from=(64 * KB, NEVER), together=2),
}


def sizes(operation, width, N, promise="aligned", card=HOPPER):
    """The `Config` for rows of `N` elements of `width` bits on a `card`, as `hardware` has them; operations are named as in the
    benchmark: "softmax", ..."""
    row = Row(N * width // 8, width, N, promise, card.capability >= CLUSTERS, card.smem_per_block_bytes)
    if operation == "cross-entropy":
        return loss(row)
    if operation == "cross-entropy backward":
        threads = threads_for(row.vectors / math.ceil(row.vectors / 256) / 2)  # 128 or fewer, with 2 vectors each
        return Config(threads, block_of(threads), vectors_at_once=2)
    if operation.endswith("norm backward"):
        return norm_backward(row, sums=2 if operation == "layernorm backward" else 1)
    return row_at_once(row, SPREADS[operation])


class Row(NamedTuple):
    """What the rule knows of a row, and of the card."""

    bytes: int
    width: int  # bits of an element
    N: int
    promise: str
    has_clusters: bool  # and bulk copies, on the card
    smem_bytes: int  # of a block

    @property
    def vectors(self):
        """How many vectors of 16 bytes it is long."""
        return max(1, self.bytes // VECTOR_BYTES)

    def blocks(self, most):
        """How many blocks it has if each has `most` bytes of its vectors."""
        return clusters_for(self.vectors * VECTOR_BYTES, most)

    def can_be_copied(self, equal=1):
        """Whether bulk copies can bring it to blocks, whole, and in so many `equal` pieces."""
        return self.has_clusters and self.promise == "aligned" and divides(equal, self.width, self.N)

    def stages(self, vectors, threads):
        """How many stages of a gradient have a place in a block, whose threads read so many vectors of x, and of dy, as a whole."""
        in_stage = 2 * threads * math.ceil(vectors / threads) * VECTOR_BYTES
        return (self.smem_bytes - BESIDE_STAGES) // in_stage


def row_at_once(row, spread):
    """For kernels whose blocks, or clusters, have all of their rows at once."""
    k = int(row.width == 32)
    blocks = row.blocks(spread.block_bytes[k])
    # As far as 1024 threads have registers for it.
    if not row.has_clusters and row.bytes <= (128 * KB, 192 * KB)[k]:
        blocks = 1
    if row.bytes > spread.shared_from[k] and (config := in_shared(row, spread)):
        return config
    if blocks > 1:
        # 4 to 8 vectors of a thread, in float32 to 16, and 256 threads rather than more, so that several blocks fit.
        threads = filled(row.vectors / blocks, range(4, (9, 17)[k]), 256, UNEVEN_WARPS)[0]
        return Config(threads, threads, blocks)
    held = spread.held[k] if row.promise == "aligned" else spread.held[k][:1]
    found = [min(1024, max(spread.least[k], threads_for(row.vectors / vectors))) for vectors in held]
    threads = min(found, key=lambda threads: threads * math.ceil(row.vectors / threads))
    each = spread.rows_each if threads <= 32 and row.promise == "aligned" else 1
    config = Config(threads, block_of(threads), rows_each=each)
    moved = spread.together * config.rows_per_block * row.bytes * 2  # read and written
    together = spread.together if row.has_clusters and moved >= LEAST_CLUSTER_BYTES else 0
    return replace(config, blocks_together=together)


def in_shared(row, spread):
    """The `Config` of a row that waits in shared memory, a piece of it in each block; None if it cannot wait there."""
    k = int(row.width == 32)
    pieces = row.blocks(spread.piece_bytes)
    if spread.full and pieces > 1:
        pieces = row.blocks(FULL_PIECE_BYTES)
    shorter = spread.last_shorter[k] and not row.can_be_copied(pieces)  # the last piece is
    if shorter:
        pieces = row.blocks(min(spread.piece_bytes, SHORTER_PIECE_BYTES))
    parts = pieces > 1 and not shorter
    if not row.can_be_copied(pieces * spread.unit if parts else 1):
        return None
    vectors = row.vectors / pieces
    threads = threads_for(vectors / spread.piece_held[parts])
    if threads > spread.piece_threads:  # so many that fewer blocks would fit
        threads = min(256, spread.piece_threads)
    # More vectors of a thread take too many registers.
    threads = max(32, threads, threads_for(vectors / (18, 32)[k]))
    if spread.full and (pieces > 4 or vectors % threads):
        return None
    return Config(threads, threads, pieces, stages=1, blocks_together=int(pieces == 1 and spread.together > 0))


def norm_backward(row, sums):
    """For the gradients of the norms, whose blocks go through rows that have so many `sums` each."""
    congruent, k = row.promise == "congruent", int(row.width == 32)
    if row.bytes <= KB if row.promise == "aligned" else row.N <= (512 if congruent else 1024):
        threads = min(32, threads_for(row.vectors / 3)) if congruent else threads_for(row.vectors / 4)
        if not congruent:
            threads = max(min(32, threads_for(row.vectors)), threads)
        large = congruent and threads == 32 or row.promise == "aligned"
        return Config(threads, block_of(threads, 256 if large else 128))
    if congruent and row.has_clusters:
        return odd_norm_backward(row)
    blocks, most = row.blocks(GRADIENT_BYTES[k]), 768
    if row.promise == "any":  # single elements: 16 a thread
        blocks = clusters_for(row.N, 12288)
    if not row.has_clusters and row.bytes <= (64 * KB, 128 * KB)[k]:
        blocks, most = 1, 1024
    vectors, stages = row.vectors / blocks, 3
    held = 2 if blocks > 1 or row.promise != "aligned" else 1
    if row.promise == "any":
        held = 16 * row.vectors / row.N
    elif blocks == 1 and vectors > 512:  # one each would leave an SM a single block
        held, stages = (2, 2) if sums == 1 and vectors <= 1024 else (4, 3)
    elif vectors / held > 768:
        held = 4
    threads = min(most, max(32 if blocks > 1 else 8, threads_for(vectors / held)))
    stages = row.can_be_copied() and min(stages, row.stages(vectors, threads))
    return Config(threads, threads, blocks, int(stages))


def odd_norm_backward(row):
    """The same for rows that start anywhere: every vector of a thread takes registers for the two that it is cut from."""
    k = int(row.width == 32)
    blocks = row.blocks(ODD_GRADIENT_BYTES[k])
    vectors = row.vectors / blocks
    held, stages = 3, 3 - k
    if vectors <= 1040 and (blocks == 1 or k == 0):
        held = 1 if blocks == 1 and k == 0 and vectors < 352 else 2
    elif blocks == 16 and vectors * VECTOR_BYTES > (26, 14)[k] * KB:
        stages = 3
    if held == 3 and (vectors / held >= 512 or blocks == 16 and k == 0):  # more threads have too few registers
        held = 4
    vectors += held % 2  # a row reaches into one more, for which 2 and 4 of a thread leave room
    threads = min(768, max(32, threads_for(vectors / held)))
    stages = min(stages, row.stages(vectors, threads))
    return Config(threads, threads, blocks, stages if stages > 1 else 0)


def loss(row):
    """For the loss, whose rows go past in as few pieces as 512 threads need with 8 vectors each, of 16-bit elements with 6. Two
    blocks take the pieces of the longest rows in turns: no slower, and quicker where there are fewer rows than SMs."""
    most = 8 if row.width == 32 else 6
    blocks = min(2, row.blocks(LONGEST_LOSS_BYTES)) if row.has_clusters else 1
    pieces = blocks * math.ceil(row.vectors / (512 * most * blocks))
    threads, at_once = filled(row.vectors / pieces, range(4, most + 1), 512)
    return Config(threads, block_of(threads), blocks, vectors_at_once=at_once)


def filled(vectors, of_each, most, more=0):
    """(threads, vectors of each) for a piece of a row, so that few of their places stay empty: with no more than `most` threads if
    any fit, and as if there were so many `more` where warps are no multiple of 4."""
    found = [(threads_for(vectors / each), each) for each in of_each]
    return min(found, key=lambda one: (one[0] > most, (one[0] + more * (one[0] % 128 > 0)) * one[1], one[1]))


def threads_for(count):
    """At least `count` threads, as rows have them: 8, 16, 32, or a multiple of 32."""
    count = math.ceil(count)
    return max(8, power_of_2(count)) if count <= 32 else -(-count // 32) * 32


def block_of(threads, least=128):
    """A block's threads where `threads` have a row: `least`, about, or one row."""
    return threads * max(1, least // threads)

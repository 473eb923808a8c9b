"""What a sweep tries: the configurations worth timing for one operation, element width and length of rows.

For whoever runs `quack-tutorial tune`, not needed to read a kernel. `candidates` is the whole of it; the other
functions are its parts. `choice` asks it too, whether a size that was the fastest for one length is worth trying for
another.
"""

import math
from dataclasses import replace

from quack_tutorial.kernels.tuned.config import (
    MOST_NEXT_ELEMENTS,
    SM_REGISTERS,
    SPREAD_AS,
    STREAMING,
    VECTOR_BITS,
    Config,
    divides,
    elements_held,
    registers_of_block,
    vector_elements,
)

THREADS = (4, 8, 16, 32, 64, 96, 128, 160, 192, 256, 320, 384, 480, 512, 608, 640, 768, 1024)
# Registers of row elements a thread holds at most, as vectors of 16 bytes: of one tensor, by element bits.
MOST_VECTORS = {32: 12, 16: 8}
BESIDE_OTHERS = 0.75  # of them, in operations that hold weights or a second tensor too
MOST_OF_SEVERAL_ROWS = 128  # elements of several rows that a thread has a part of
MOST_BESIDE = 24  # registers of a thread that hold no elements
MOST_HELD_ANYWHERE = 64  # elements of a thread of RMSNorm's backward whose rows start anywhere and are copied
MIN_BLOCK_BYTES, MAX_BLOCK_BYTES = 12 * 1024, 128 * 1024  # of a row, in each block of a cluster
# Rows can come through shared memory: of so many tensors, in one of these numbers of stages.
PIPELINED = {
    "rmsnorm": (1, (1,)),
    "rmsnorm backward": (2, (2, 3, 4, 6)),
    "softmax": (1, (1,)),
    "softmax backward": (2, (1,)),
    "cross-entropy fused": (1, (1,)),
}
READ_AGAIN = ("softmax", "cross-entropy fused", "layernorm")  # from shared memory: a thread need not keep it
MOST_AGAIN = 32  # vectors of a row that a thread reads there
MOST_BYTES_TOGETHER = 16 * 1024  # of a row, whose blocks are launched in several ways
# As long as a row and read or written by its block. RMSNorm's backward is not here: its blocks go through rows.
TENSORS = {
    "rmsnorm": 2,
    "softmax": 2,
    "softmax backward": 3,
    "cross-entropy": 1,
    "cross-entropy backward": 2,
    "cross-entropy fused": 2,
}
LEAST_CLUSTER_BYTES = 15 * 1024  # that a cluster reads and writes, see `starts_in_time`


def candidates(operation, width, N, promise="aligned"):
    """The configurations worth trying for rows of `N` elements of `width` bits; a list of `Config`."""
    again, operation = operation in READ_AGAIN, SPREAD_AS.get(operation, operation)
    vectors = max(1, N // vector_elements(width, N, promise))
    if operation in STREAMING:
        found = launched_otherwise(streaming_candidates(vectors, operation), operation, N * width // 8)
        if operation == "cross-entropy":
            found += [replace(config, past_l1=1) for config in found]
        return found
    most = MOST_VECTORS[width] * (1 if operation in ("softmax", "cross-entropy fused") else BESIDE_OTHERS)
    if promise == "any" or N < VECTOR_BITS // width:
        most *= VECTOR_BITS // width
    found = []
    for blocks in (1, 2, 4, 8, 16):
        block_bytes = N * width // 8 // blocks
        if blocks > 1 and not MIN_BLOCK_BYTES <= block_bytes <= MAX_BLOCK_BYTES:
            continue
        for threads in THREADS:
            held = math.ceil(vectors / (threads * blocks))
            if held > most or vectors < 0.8 * held * threads * blocks:  # at least 0.8 of the threads' vectors are there
                continue
            sizes = {threads} if threads >= 256 or blocks > 1 else {max(threads, 64), 128, 256, 512}
            found += [Config(threads, block, blocks) for block in sorted(sizes) if block % threads == 0]
    if operation == "rmsnorm backward":
        found += [replace(c, row_ahead=1) for c in found if elements_held(c, N) <= MOST_NEXT_ELEMENTS]
    if operation == "rmsnorm" and promise == "aligned":
        found += [more for c in found for more in with_more_rows(c, N)]
    if operation in PIPELINED and (promise == "aligned" or (operation, promise) == ("rmsnorm backward", "congruent")):
        found += pipelined_candidates(operation, width, N, promise, again)
    if operation == "rmsnorm backward" and promise == "aligned":
        found += several_pipelined_candidates(width, N)
    return launched_otherwise(found or [Config(32, 32)], operation, N * width // 8)


def launched_otherwise(found, operation, row_bytes):
    """Each of `found` with every number of blocks together that is worth trying for such rows."""
    return [
        replace(config, blocks_together=together)
        for config in found
        for together in together_tried(operation, config, row_bytes)
        if starts_in_time(operation, replace(config, blocks_together=together), row_bytes)
    ]


def together_tried(operation, config, row_bytes):
    """The values of `blocks_together` worth trying, the usual one first.

    A GPU starts clusters of one block at a pace that is too slow for rows that go past, whose blocks are small and many. Long
    rows are tried with the usual one alone: at 4096 columns the best of each were within 3 %, at 256 within 9 %.
    """
    if config.blocks_per_row > 1:
        return (0,)
    usual, other = (0, 1) if operation in STREAMING else (1, 0)
    if row_bytes > MOST_BYTES_TOGETHER:
        return (usual,)
    # A pair may have a block without a row: not where a block goes through rows, or lets one be copied before it looks.
    alone = operation == "rmsnorm backward" or config.stages
    return (usual, other) if alone else (usual, other, 2)


def starts_in_time(operation, config, row_bytes):
    """Whether a launch keeps up with the memory: blocks on their own do, and clusters of blocks of different rows that move enough.

    In the recorded sweeps of aligned rows an H200 started at most 400 such clusters in a microsecond, whether of one block or of
    two, so one in 2.5 ns, in which 4.8 TB/s are 12 KB. Where a cluster moved less than 13 KB, blocks on their own were faster in
    98 of 100 pairs of configurations, and with less than 5 KB they took half the time.
    """
    enough = not config.blocks_together or operation not in TENSORS
    return enough or cluster_bytes(operation, config, row_bytes) >= LEAST_CLUSTER_BYTES


def cluster_bytes(operation, config, row_bytes):
    """What the blocks of different rows that are launched together read and write, but for what they read once for all rows."""
    of_row = row_bytes * config.rows_each
    if operation == "cross-entropy backward":  # a row has as many blocks as it takes
        of_row /= math.ceil(row_bytes / (config.threads_per_row * config.vectors_at_once * VECTOR_BITS // 8))
    return of_row * (config.threads_per_block // config.threads_per_row) * config.blocks_together * TENSORS[operation]


def with_more_rows(config, N):
    """The configuration with 2, 4 and 8 rows a thread, which share the weights that it loads, where they fit into registers."""
    if config.threads_per_row > 32 or config.blocks_per_row > 1:
        return []
    return [
        replace(config, rows_each=each) for each in (2, 4, 8) if elements_held(config, N) * each <= MOST_OF_SEVERAL_ROWS
    ]


def pipelined_candidates(operation, width, N, promise, again):
    """Candidates whose rows come through shared memory, from where they may be read `again`, in at most as many stages as an SM has
    room for."""
    tensors, stages_tried = PIPELINED[operation]
    found = []
    for blocks in (1, 2, 4, 8, 16):
        stage_bytes = N * width // 8 // blocks * tensors
        if stage_bytes < 2048 or (blocks > 1 and stage_bytes <= 16384):  # small copies: not tried
            continue
        if promise == "aligned" and not divides(Config(32, 32, blocks), width, N):
            continue
        for threads in (64, 128, 192, 256, 320, 384, 512, 640, 768, 1024):
            vectors = N * width // VECTOR_BITS / blocks / threads
            # Where 64 threads, or those of RMSNorm's backward in many blocks, hold more than 32 elements of two tensors each, the
            # gradients with bias do not fit beside.
            few = threads <= 64 or (operation == "rmsnorm backward" and blocks >= 8)
            most = width / 2 if tensors == 1 else width / 4 if few else 8
            if not 0.5 < vectors <= (MOST_AGAIN if again else most):
                continue
            if operation == "rmsnorm backward" and not sums_fit(Config(threads, threads, blocks), N, promise):
                continue
            for stages in stages_tried:
                # What is read again takes few registers, so that several blocks share an SM, if they fit into its memory.
                if stages * stage_bytes <= (110 if again else 220) * 1024:
                    found.append(Config(threads, threads, blocks, stages))
            one = Config(threads, threads, blocks, row_ahead=1)
            if operation == "rmsnorm backward" and promise == "aligned" and leaves_for_registers(one, N, stage_bytes):
                found.append(one)
    return found


def sums_fit(config, N, promise="aligned"):
    """Whether a thread of RMSNorm's backward has registers for its part of a row and for the sums of dw and db. Rows that start
    anywhere take more: with 64 elements a thread those with a bias and a gradient of h spill 120 bytes a thread."""
    held = elements_held(config, N)
    if promise != "aligned" and held > MOST_HELD_ANYWHERE:
        return False
    return 3 * held + MOST_BESIDE <= SM_REGISTERS // config.threads_per_block


def several_pipelined_candidates(width, N):
    """Candidates for RMSNorm's backward whose blocks have several rows in each of their stages: fewer parts of dw to add up, and
    rows of one warp wait for nobody."""
    found = []
    for threads in (8, 16, 32, 64, 128, 256):
        vectors = N * width / VECTOR_BITS / threads
        if N % (VECTOR_BITS // width) or vectors < 0.8 * math.ceil(vectors):
            continue
        for rows in (2, 4, 8, 16, 32):
            if not 128 <= threads * rows <= 512:
                continue
            spread, row_bytes = Config(threads, threads * rows), 2 * N * width // 8
            if elements_held(spread, N) <= 32 and registers_of_block(spread, N) <= SM_REGISTERS:
                found += [replace(spread, stages=s) for s in (2, 3, 4) if s * rows * row_bytes <= 200 * 1024]
    return found


def leaves_for_registers(config, N, stage_bytes):
    """Whether RMSNorm's backward can have a row of x and dy in registers, beside the sums of dw, and float32 weights and the next
    row in shared memory."""
    held = elements_held(config, N)
    return (
        held > MOST_NEXT_ELEMENTS and sums_fit(config, N) and stage_bytes + 4 * N // config.blocks_per_row <= 220 * 1024
    )


def streaming_candidates(vectors, operation):
    """Candidates where a row goes past in a loop, or in blocks of their own: any number of threads will do."""
    found = []
    for threads in (8, 16, 32, 64, 128, 256, 512, 1024):
        for at_once in (1, 2, 4, 8):
            pieces = vectors / (threads * at_once)
            if pieces < 0.6 and (threads, at_once) != (8, 1):  # much of what threads could load is not there
                continue
            if operation == "cross-entropy" and pieces > 32:  # a loop of few turns
                continue
            # Rows longer than a block: in blocks of at least 4 KB.
            if operation == "cross-entropy backward" and pieces > 1.5 and threads * at_once < 256:
                continue
            found.append(Config(threads, max(threads, 128), vectors_at_once=at_once))
            if threads < 128 and at_once > 1:
                found.append(Config(threads, 256, vectors_at_once=at_once))
    return sorted(set(found), key=lambda c: (c.threads_per_row, c.threads_per_block, c.vectors_at_once))

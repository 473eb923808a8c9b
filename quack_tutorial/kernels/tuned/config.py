"""How the row-wise kernels spread rows over threads: what a sweep tries, and what was the fastest.

| function         | gives                                                                                        |
|------------------|----------------------------------------------------------------------------------------------|
| `candidates`     | the configurations that `quack-tutorial tune` tries for one operation, element width and N   |
| `fields`         | a configuration as the numbers that sweeps and records hold; `of_fields` is the way back     |
| `default_config` | the one that a kernel takes when it is given none: read from `tables`, made from the sweeps |

Operations are named as in the benchmark: "softmax", "softmax backward", "rmsnorm", and so on.
"""

import math
from dataclasses import astuple, dataclass, replace

from quack_tutorial import card
from quack_tutorial.kernels.tuned.tables import FIRST, OTHERS, TABLES

CLUSTERS = (9, 0)  # the compute capability from which a GPU has them
MAX_N = 262144  # the longest row: what the registers of 16 blocks hold
VECTOR_BITS = 128  # the widest load or store of one thread on Hopper
SM_REGISTERS = 65536  # of an SM, on Hopper
# A configuration's numbers in sweeps and records: `ahead` is whichever of three fields a kernel has, see `of_fields`.
NUMBERS = "threads_per_row", "threads_per_block", "blocks_per_row", "ahead", "rows_each", "blocks_together", "past_l1"
SM_BLOCKS = 32  # that an SM runs at once, on Hopper


@dataclass(frozen=True)
class Config:
    """How a kernel spreads rows over threads.

    `threads_per_row` are threads of one block: a power of 2 up to 32, or a multiple of 32 up to 1024. Several blocks a row
    form a cluster, which only works where a block has no other row.

    | field             | of kernels whose blocks                 | says                                                       |
    |-------------------|-----------------------------------------|------------------------------------------------------------|
    | `stages`          | have their rows at once                 | 1: the block's row comes through shared memory; 0: it does not |
    | `stages`          | go through rows (backward of the norms) | how many turns' rows have a place in shared memory         |
    | `row_ahead`       | go through rows, without stages         | 1: the next row is on its way while one is worked on       |
    | `vectors_at_once` | stream rows (`STREAMING`)               | vectors that a thread loads before it uses the first       |

    A row ahead is in registers; where these cannot hold two rows, `with_room` gives it a stage.
    `rows_each`, of RMSNorm and LayerNorm where no two warps share a row, is how many rows a thread has a part of: it loads the
    weights once.
    `blocks_together`, where no blocks share a sum, is how many are launched as a cluster, 0 for none. Sometimes that is quicker
    (RMSNorm of 8192 rows of 1024 bfloat16 on an H200: 7.6 %), sometimes far slower; STANDING.md has what was measured.
    `past_l1` is 1 where L1 is asked not to have what is loaded, 0 where the kernel asks L2 for something, see `cache_hints`.
    """

    threads_per_row: int
    threads_per_block: int
    blocks_per_row: int = 1
    stages: int = 0
    rows_each: int = 1
    blocks_together: int = 0
    past_l1: int = 0
    vectors_at_once: int = 0
    row_ahead: int = 0

    def __post_init__(self):
        row, block = self.threads_per_row, self.threads_per_block
        if row < 1 or (row & (row - 1) if row <= 32 else row % 32):
            raise ValueError(f"{self}: threads_per_row must be a power of 2 up to 32, or a multiple of 32")
        if not 32 <= block <= 1024 or block % 32 or block % row:
            raise ValueError(f"{self}: threads_per_block must be a multiple of 32 and of threads_per_row, 32 to 1024")
        if self.blocks_per_row not in (1, 2, 4, 8, 16) or (self.blocks_per_row > 1 and row != block):
            raise ValueError(f"{self}: blocks_per_row must be 1, 2, 4, 8 or 16, and 1 where a block has several rows")
        if self.rows_each < 1 or (self.rows_each > 1 and (row > 32 or self.blocks_per_row > 1)):
            raise ValueError(f"{self}: rows_each must be 1, or more where one warp has a row")
        if self.blocks_together not in (0, 1, 2, 4, 8, 16) or (self.blocks_together and self.blocks_per_row > 1):
            raise ValueError(
                f"{self}: blocks_together must be 0, 1, 2, 4, 8 or 16, and 0 where several blocks have a row"
            )
        if self.past_l1 not in (0, 1) or self.row_ahead not in (0, 1):
            raise ValueError(f"{self}: past_l1 and row_ahead must be 0 or 1")
        if sum(map(bool, (self.stages, self.vectors_at_once, self.row_ahead))) > 1:
            raise ValueError(f"{self}: of stages, vectors_at_once and row_ahead a kernel has one")

    @property
    def cluster(self):
        """What a launch says of clusters: the blocks that share a row, or those of different rows; None for blocks on their own."""
        if self.blocks_per_row > 1:
            return [1, self.blocks_per_row, 1]
        return [self.blocks_together, 1, 1] if self.blocks_together else None


# Registers of row elements a thread holds at most, as vectors of 16 bytes: of one tensor, by element bits.
MOST_VECTORS = {32: 12, 16: 8}
BESIDE_OTHERS = 0.75  # of them, in operations that hold weights or a second tensor too
MOST_OF_SEVERAL_ROWS = 128  # elements of several rows that a thread has a part of
MOST_LIGHT_ELEMENTS = 8  # of a thread of RMSNorm's backward whose registers keep no block from an SM
MOST_NEXT_ELEMENTS = 16  # of a row that a thread holds while it works on another one
MOST_BYTES_AHEAD = 8192  # of rows whose 1 / rms RMSNorm's backward fetches a turn ahead
MOST_BESIDE = 24  # registers of a thread that hold no elements
MOST_HELD_ANYWHERE = 64  # elements of a thread of RMSNorm's backward whose rows start anywhere and are copied
MIN_BLOCK_BYTES, MAX_BLOCK_BYTES = 12 * 1024, 128 * 1024  # of a row, in each block of a cluster
STREAMING = ("cross-entropy", "cross-entropy backward")
# Rows can come through shared memory: of so many tensors, in one of these numbers of stages.
PIPELINED = {
    "rmsnorm": (1, (1,)),
    "rmsnorm backward": (2, (2, 3, 4, 6)),
    "softmax": (1, (1,)),
    "softmax backward": (2, (1,)),
    "cross-entropy fused": (1, (1,)),
}
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
NEAR = 2  # where few lengths were swept, one is trusted for rows of 1 / NEAR of it to (congruent ones) NEAR times it
READ_AGAIN = ("softmax", "cross-entropy fused", "layernorm")  # from shared memory: a thread need not keep it
MOST_AGAIN = 32  # vectors of a row that a thread reads there
# Operations that read and write as others do: a sweep tries the same, and until there is one what was the fastest of those ships.
SPREAD_AS = {
    "layernorm": "rmsnorm",
    "layernorm backward": "rmsnorm backward",
    "rmsnorm residual": "rmsnorm",
    "rmsnorm residual backward": "rmsnorm backward",
}
THREADS = (4, 8, 16, 32, 64, 96, 128, 160, 192, 256, 320, 384, 480, 512, 608, 640, 768, 1024)


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
        found += pipelined_candidates(operation, N, width, promise, again)
    if operation == "rmsnorm backward" and promise == "aligned":
        found += several_pipelined_candidates(N, width)
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


def fields(config):
    """The `NUMBERS` of `config`, without defaults behind the fourth."""
    numbers, defaults = ([*astuple(c)[: len(NUMBERS)]] for c in (config, Config(32, 32)))
    numbers[3] = config.stages or config.vectors_at_once or config.row_ahead
    last = max((k for k in range(4, len(NUMBERS)) if numbers[k] != defaults[k]), default=3)
    return tuple(numbers[: last + 1])


def of_fields(operation, numbers):
    """The configuration of `operation` that such `numbers` stand for: the fourth are vectors of kernels that stream rows, 1 of
    kernels whose blocks go through rows a row ahead, and otherwise stages."""
    named = dict(zip(NUMBERS, numbers))
    ahead = named.pop("ahead", 0)
    if operation in STREAMING:
        return Config(**named, vectors_at_once=ahead)
    if SPREAD_AS.get(operation, operation) == "rmsnorm backward" and ahead == 1:
        return Config(**named, row_ahead=1)
    return Config(**named, stages=ahead)


def label(numbers):
    """A configuration's numbers in a few characters: "32/128/1/0"."""
    return "/".join(map(str, numbers))


def elements_held(config, N):
    """How many elements of a row of N a thread has, about."""
    return math.ceil(N / (config.threads_per_row * config.blocks_per_row))


def pipelined_candidates(operation, N, width, promise, again):
    """Candidates whose rows come through shared memory, from where they may be read `again`, in at most as many stages as an SM has
    room for."""
    tensors, stages_tried = PIPELINED[operation]
    found = []
    for blocks in (1, 2, 4, 8, 16):
        stage_bytes = N * width // 8 // blocks * tensors
        if stage_bytes < 2048 or (blocks > 1 and stage_bytes <= 16384):  # small copies: not tried
            continue
        if promise == "aligned" and not divides(Config(32, 32, blocks), N, width):
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


def registers_of_block(config, N):
    """How many registers a block of RMSNorm's backward takes, about: 109 to 128 a thread with 16 elements, 158 to 167 with 24."""
    return (4 * elements_held(config, N) + 60) * config.threads_per_block


def most_blocks(config, N, stages):
    """How many blocks of RMSNorm's backward an SM should have at most: what it has registers for, about, where that matters.

    It does not where one row at a time comes through shared memory, in `stages`, whose room decides. Without stages it does not
    where threads hold little; nor where rows have several blocks, of which more than fit were faster or even.
    """
    if stages:
        by_registers = config.threads_per_block > config.threads_per_row
    else:
        by_registers = config.blocks_per_row == 1 and elements_held(config, N) > MOST_LIGHT_ELEMENTS
    if not by_registers:
        return SM_BLOCKS
    return max(1, SM_REGISTERS // registers_of_block(config, N))


def several_pipelined_candidates(N, width):
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


def with_room(config, width, N, promise):
    """The configuration of a kernel whose blocks go through rows, with a stage for the row ahead where registers cannot hold two
    rows and a bulk copy can bring it."""
    long = elements_held(config, N) > MOST_NEXT_ELEMENTS and config.threads_per_row == config.threads_per_block
    if config.row_ahead and long and promise == "aligned" and divides(config, N, width):
        return replace(config, row_ahead=0, stages=1)
    return config


def kept_in_shared_memory(config, width, N, promise):
    """A configuration of RMSNorm's backward for LayerNorm's, which has few registers for a row beside the sums of dw and db: where
    more than `MOST_LIGHT_ELEMENTS` of a row would be there, as many stages in shared memory as fit, at most three."""
    if not config.row_ahead or promise != "aligned" or not divides(config, N, width):
        return config
    if elements_held(config, N) <= MOST_LIGHT_ELEMENTS or config.threads_per_row < config.threads_per_block:
        return config
    vectors = math.ceil(N * width // VECTOR_BITS / (config.threads_per_row * config.blocks_per_row))
    stage_bytes = 2 * vectors * config.threads_per_row * VECTOR_BITS // 8
    stages = min(3, 220 * 1024 // stage_bytes)
    return replace(config, row_ahead=0, stages=stages) if stages > 1 else config


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


def vector_elements(width, N, promise):
    """Elements of the vectors of a row: 16 bytes, or 1 where nothing is promised or the row is shorter."""
    return 1 if promise == "any" or N < VECTOR_BITS // width else VECTOR_BITS // width


def default_config(operation, width, N, promise="aligned"):
    """The shipped configuration for rows of `N` elements of `width` bits: the table's where it has one that fits. It may be of
    longer rows, of congruent ones also of shorter; blocks that move less go on their own where clusters would start too late."""
    alike, config = SPREAD_AS.get(operation, operation), None
    if alike == operation or lines_of(operation, width, promise):
        config = of_table(operation, width, N, promise)
    if config is None and alike != operation:
        config = of_table(alike, width, N, promise)
        if config and operation == "layernorm backward":
            config = kept_in_shared_memory(config, width, N, promise)
    config = config or first_guess(operation, N, vector_elements(width, N, promise))
    if not has_clusters():
        return in_one_block(config, operation, width, N, promise)
    return config if starts_in_time(alike, config, N * width // 8) else replace(config, blocks_together=0)


def has_clusters():
    """Whether the card that is meant has clusters, bulk copies and kernels that start before the one ahead of them has ended."""
    return card.meant().capability >= CLUSTERS


def in_one_block(config, operation, width, N, promise):
    """The configuration for a GPU that has neither clusters nor bulk copies: of those that use neither, the one that has about four
    vectors of a row in a thread; `config` itself, which such a GPU refuses, for rows that no block has registers for."""

    def is_alone(c):
        return c.blocks_per_row == 1 and not with_room(c, width, N, promise).stages

    if is_alone(config):
        return replace(config, blocks_together=0)
    alone = [replace(c, blocks_together=0) for c in candidates(operation, width, N, promise) if is_alone(c)]
    vectors = max(1, N // vector_elements(width, N, promise))
    return min(alone, key=lambda c: abs(vectors / c.threads_per_row - 4), default=config)


def of_table(operation, width, N, promise):
    """The table's configuration; None where it has none that fits."""
    row_bytes = N * width // 8
    for measured in (promise, "aligned") if promise != "any" else ():
        for limit, named in nearest_first(lines_of(operation, width, measured), row_bytes, measured):
            config = Config(**named)
            if row_bytes > limit and (
                row_bytes > NEAR * limit or config not in candidates(operation, width, N, promise)
            ):
                continue
            # Few lengths were swept of congruent rows and of LayerNorm's.
            few = measured == "congruent" or operation in SPREAD_AS
            # Of few, one of a near length; of many, but of other rows, not what leaves a thread without a register to spare.
            near = limit <= NEAR * row_bytes if few else config.threads_per_block < 1024
            # Whether bulk copies can bring such rows to shared memory.
            arrives = measured == promise and (promise == "congruent" or divides(config, N, width))
            # Whether they can, or need not.
            fits = not config.stages or arrives
            if fits and (near or (measured == promise == "aligned" and not few)):
                # Each row that starts anywhere wants the weights elsewhere.
                return config if measured == promise else replace(config, rows_each=1)
            break  # the other lines are of lengths further away
    return None


def lines_of(operation, width, promise):
    """The lines of the table for the card that is meant, or for the swept one most like it (see `card`); none if there are none."""
    key = operation, width, promise
    return OTHERS.get(card.like((FIRST, *OTHERS)), {}).get(key) or TABLES.get(key, ())


def nearest_first(lines, row_bytes, measured):
    """A table's lines as rows of so many bytes try them: those of longer rows; for congruent rows, of which few lengths were swept,
    all lines from the nearest length on."""
    if measured == "congruent":
        return sorted(lines, key=lambda line: max(line[0], row_bytes) / min(line[0], row_bytes))
    return [line for line in lines if row_bytes <= line[0]]


def divides(config, N, width):
    """Whether aligned rows can come through shared memory: every piece starts and ends where a bulk copy may."""
    return N % (config.blocks_per_row * VECTOR_BITS // width) == 0


def first_guess(operation, N, vector_size):
    """A configuration where nothing was measured: four vectors a thread, more threads and then more blocks for more."""
    vectors = max(1, N // vector_size)
    if operation in STREAMING:
        threads = min(256, max(8, 1 << (vectors // 4).bit_length()))
        return Config(threads, max(threads, 128), vectors_at_once=4)
    blocks = next(b for b in (1, 2, 4, 8, 16) if vectors <= 4096 * b or b == 16)
    threads = next(t for t in (8, 16, 32, 64, 128, 256, 512, 1024) if vectors <= 4 * t * blocks or t == 1024)
    return Config(threads, threads, blocks) if blocks > 1 else Config(threads, max(threads, 128), blocks_together=1)

"""How a kernel spreads rows over threads: the fields of a `Config`, and what they ask of an SM.

Chapters 7 to 9 find these sizes one after the other; here they have names. A kernel that is given none takes those of
`choice`, and a sweep tries those of `candidates`. Operations are named as in the benchmark: "softmax", "softmax
backward", "rmsnorm", and so on.

| function    | gives                                                                                   |
|-------------|-----------------------------------------------------------------------------------------|
| `fields`    | a configuration as the numbers that sweeps and records hold; `of_fields` is the way back |
| `divides`   | whether bulk copies can cut a row into its pieces                                       |
| `with_room` | the configuration of a gradient whose next row needs a stage                            |
"""

import math
from dataclasses import astuple, dataclass, replace

from quack_tutorial import card

CLUSTERS = (9, 0)  # the compute capability from which a GPU has them
MAX_N = 262144  # the longest row that we take, of 16 blocks or fewer
VECTOR_BYTES = 16  # the widest load or store of one thread on Hopper: 128 bits
VECTOR_BITS = 8 * VECTOR_BYTES
SM_REGISTERS = 65536  # of an SM, on Hopper
SM_BLOCKS = 32  # that an SM runs at once, on Hopper
# A configuration's numbers in sweeps and records: `ahead` is whichever of three fields a kernel has, see `of_fields`.
NUMBERS = "threads_per_row", "threads_per_block", "blocks_per_row", "ahead", "rows_each", "blocks_together", "past_l1"
STREAMING = ("cross-entropy", "cross-entropy backward")  # whose rows go past, and are kept nowhere
# Operations that read and write as others do: a sweep tries the same, and until there is one what was the fastest of those ships.
SPREAD_AS = {
    "layernorm": "rmsnorm",
    "layernorm backward": "rmsnorm backward",
    "rmsnorm residual": "rmsnorm",
    "rmsnorm residual backward": "rmsnorm backward",
}
# Of kernels whose blocks go through rows, the gradients of the norms:
MOST_LIGHT_ELEMENTS = 8  # of a thread whose registers keep no block from an SM
MOST_NEXT_ELEMENTS = 16  # of a row that a thread holds while it works on another one
MOST_BYTES_AHEAD = 8192  # of rows whose 1 / rms is fetched a turn ahead


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
    (RMSNorm of 8192 rows of 1024 bfloat16 on an H200: 7.6 %), sometimes far slower; `bench/STANDING.md` has what was measured.
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


def vector_elements(width, N, promise):
    """Elements of the vectors of a row: 16 bytes, or 1 where nothing is promised or the row is shorter."""
    return 1 if promise == "any" or N < VECTOR_BITS // width else VECTOR_BITS // width


def elements_held(config, N):
    """How many elements of a row of N a thread has, about."""
    return math.ceil(N / (config.threads_per_row * config.blocks_per_row))


def divides(config, width, N):
    """Whether aligned rows can come through shared memory: every piece starts and ends where a bulk copy may."""
    return N % (config.blocks_per_row * VECTOR_BITS // width) == 0


def has_clusters():
    """Whether the card that is selected has clusters, bulk copies and kernels that start before the one ahead of them has ended."""
    return card.selected().capability >= CLUSTERS


def with_room(config, width, N, promise):
    """The configuration of a kernel whose blocks go through rows, with a stage for the row ahead where registers cannot hold two
    rows and a bulk copy can bring it."""
    long = elements_held(config, N) > MOST_NEXT_ELEMENTS and config.threads_per_row == config.threads_per_block
    if config.row_ahead and long and promise == "aligned" and divides(config, width, N):
        return replace(config, row_ahead=0, stages=1)
    return config


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

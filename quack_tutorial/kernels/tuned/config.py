"""How a kernel spreads rows over threads: the fields of a `Config`. Chapters 7 to 9 find these sizes one after the other; here they
have names. A kernel that is given none takes those of `rule`."""

import math
from dataclasses import dataclass

from quack_tutorial import card

CLUSTERS = (9, 0)  # the compute capability from which a GPU has them
MAX_N = 262144  # the longest row that we take, of 16 blocks or fewer
VECTOR_BYTES = 16  # the widest load or store of one thread on Hopper: 128 bits


@dataclass(frozen=True)
class Config:
    """How a kernel spreads rows over threads.

    `threads_per_row` are threads of one block: a power of 2 up to 32, or a multiple of 32 up to 1024. Several blocks a row
    form a cluster, which only works where a block has no other row.

    | field             | says                                                                                       |
    |-------------------|--------------------------------------------------------------------------------------------|
    | `stages`          | how many turns' rows have a place in shared memory; 0: rows come straight to registers     |
    | `rows_each`       | of the norms, rows of one warp or less: of how many rows a thread has a part               |
    | `blocks_together` | where no blocks share a row: how many are launched as a cluster, 0 for none                |
    | `vectors_at_once` | where rows go past: the vectors that a thread loads before it uses the first               |
    """

    threads_per_row: int
    threads_per_block: int
    blocks_per_row: int = 1
    stages: int = 0
    rows_each: int = 1
    blocks_together: int = 0
    vectors_at_once: int = 0

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
        if self.stages and self.vectors_at_once:
            raise ValueError(f"{self}: of stages and vectors_at_once a kernel has one")

    @property
    def rows_per_block(self):
        """How many rows a block has at once."""
        return self.threads_per_block // self.threads_per_row * self.rows_each

    @property
    def cluster(self):
        """What a launch says of clusters: the blocks that share a row, or those of different rows; None for blocks on their own."""
        if self.blocks_per_row > 1:
            return [1, self.blocks_per_row, 1]
        return [self.blocks_together, 1, 1] if self.blocks_together else None

    @property
    def label(self):
        """The numbers in a few characters, as records and charts have them: threads a row, threads a block, blocks a row, what is
        ahead (stages or vectors), and as far as they are not the default rows a thread and blocks together: "32/128/1/0/2/1"."""
        last = [self.rows_each, self.blocks_together]
        last = last if self.blocks_together else last[:1] if self.rows_each > 1 else []
        ahead = self.stages or self.vectors_at_once
        return "/".join(map(str, (self.threads_per_row, self.threads_per_block, self.blocks_per_row, ahead, *last)))


def vector_elements(width, N, promise):
    """Elements of the vectors of a row: 16 bytes, or 1 where nothing is promised or the row is shorter."""
    return 1 if promise == "any" or N < 8 * VECTOR_BYTES // width else 8 * VECTOR_BYTES // width


def elements_held(config, N):
    """How many elements of a row of N a thread has, about."""
    return math.ceil(N / (config.threads_per_row * config.blocks_per_row))


def divides(blocks, width, N):
    """Whether aligned rows of `blocks` blocks can come through shared memory: every piece starts and ends where a bulk copy may."""
    return N % (blocks * 8 * VECTOR_BYTES // width) == 0


def has_clusters():
    """Whether the card that is selected has clusters, bulk copies and kernels that start before the one ahead of them has ended."""
    return card.selected().capability >= CLUSTERS

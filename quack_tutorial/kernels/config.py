"""How a kernel spreads rows over threads: the fields of a `Config`. Chapters 7 to 9 find these sizes one after the other; here they
have names. The last rungs of the ladders have those of `layout.of_rungs`, what ships those of `tuned.rule`."""

from dataclasses import dataclass

from quack_tutorial import hardware

HOPPER, CLUSTERS = hardware.gpu("h100"), hardware.CLUSTERS
MAX_N = 262144  # the longest row that we take, of 16 blocks or fewer
CLUSTER_SIZES = (1, 2, 4, 8, 16)  # blocks of a cluster
WARPS = tuple(range(32, 1025, 32))  # threads of a block: whole warps
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
        row, block, blocks, together = (
            self.threads_per_row,
            self.threads_per_block,
            self.blocks_per_row,
            self.blocks_together,
        )
        if row not in (1, 2, 4, 8, 16, *WARPS):
            self.refuse("threads_per_row must be a power of 2 up to 32, or a multiple of 32")
        if block not in WARPS or block % row:
            self.refuse("threads_per_block must be a multiple of 32 and of threads_per_row, 32 to 1024")
        if blocks not in CLUSTER_SIZES or (blocks > 1 and row != block):
            self.refuse("blocks_per_row must be 1, 2, 4, 8 or 16, and 1 where a block has several rows")
        if self.rows_each < 1 or (self.rows_each > 1 and (row > 32 or blocks > 1)):
            self.refuse("rows_each must be 1, or more where one warp has a row")
        if together not in (0, *CLUSTER_SIZES) or (together and blocks > 1):
            self.refuse("blocks_together must be 0, 1, 2, 4, 8 or 16, and 0 where several blocks have a row")
        if self.stages and self.vectors_at_once:
            self.refuse("of stages and vectors_at_once a kernel has one")

    def refuse(self, why):
        """Raise a ValueError that names the numbers."""
        raise ValueError(f"{self}: {why}")

    @property
    def rows_per_block(self):
        """How many rows a block has at once."""
        return self.threads_per_block // self.threads_per_row * self.rows_each

    @property
    def cluster(self):
        """What a launch says of clusters: the blocks that share a row, or those of different rows; None for blocks on their
        own."""
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


def clusters_for(row_bytes, limit):
    """How many blocks share a row, a power of 2 up to 16, if each takes up to `limit` bytes of it."""
    return min(CLUSTER_SIZES[-1], power_of_2(-(-row_bytes // limit)))


def power_of_2(count):
    """The least power of 2 that is no less than `count`."""
    return 1 << (count - 1).bit_length()


def divides(blocks, width, N):
    """Whether aligned rows of `blocks` blocks can come through shared memory: every piece starts and ends where a bulk copy
    may."""
    return N % (blocks * 8 * VECTOR_BYTES // width) == 0


def vector_elements(width, N, promise):
    """Elements of the vectors of a row: 16 bytes, or 1 where nothing is promised or the row is shorter."""
    whole = 8 * VECTOR_BYTES // width
    return 1 if promise == "any" or N < whole else whole

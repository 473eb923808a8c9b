"""Which configuration a kernel takes when it is given none: what was the fastest in the sweeps (`tables`), as far as it fits.

| where                                                 | it is                                                     |
|-------------------------------------------------------|-----------------------------------------------------------|
| the table has rows like these                         | that of the nearest length, see `of_table`                |
| it has not, but of an operation that reads and writes alike (`SPREAD_AS`) | that one's                            |
| bulk copies cannot bring such rows, or the nearest length does not fit otherwise | that of another near length, see `near` |
| there is none                                         | `first_guess`: four vectors a thread                      |
| the GPU has no clusters and no bulk copies            | one that needs neither, see `in_one_block`                |
"""

import math
from dataclasses import replace
from itertools import product

from quack_tutorial import card
from quack_tutorial.kernels.tuned.candidates import candidates, starts_in_time, sums_fit
from quack_tutorial.kernels.tuned.config import (
    MOST_LIGHT_ELEMENTS,
    MOST_NEXT_ELEMENTS,
    SPREAD_AS,
    STREAMING,
    VECTOR_BITS,
    Config,
    divides,
    elements_held,
    has_clusters,
    vector_elements,
    with_room,
)
from quack_tutorial.kernels.tuned.tables import FIRST, OTHERS, TABLES

NEAR = 2  # where few lengths were swept, one is trusted for rows of 1 / NEAR of it to (congruent ones) NEAR times it


def default_config(operation, width, N, promise="aligned"):
    """The shipped configuration for rows of `N` elements of `width` bits: the table's where it has one that fits. It may be of
    longer rows, of congruent ones also of shorter; blocks that move less go on their own where clusters would start too late."""
    config = of_tables(operation, width, N, promise) or of_tables(operation, width, N, promise, others=True)
    config = config or first_guess(operation, N, vector_elements(width, N, promise))
    if not has_clusters():
        return in_one_block(config, operation, width, N, promise)
    alike = SPREAD_AS.get(operation, operation)
    return config if starts_in_time(alike, config, N * width // 8) else replace(config, blocks_together=0)


def of_tables(operation, width, N, promise, others=False):
    """The configuration of the operation's own table, or else of that of the operation that is spread alike; see `of_table`."""
    alike, config = SPREAD_AS.get(operation, operation), None
    if alike == operation or lines_of(operation, width, promise):
        config = of_table(operation, width, N, promise, others)
    if config is None and alike != operation:
        config = of_table(alike, width, N, promise, others)
        if config and operation == "layernorm backward":
            config = kept_in_shared_memory(config, width, N, promise)
    return config


def of_table(operation, width, N, promise, others=False):
    """The table's configuration, of rows with the same promise or else of aligned ones; None where it has none that fits. Only the
    nearest line is asked, or with `others` all that are near."""
    for measured in (promise, "aligned") if promise != "any" else ():
        for limit, config in (near if others else nearest)(operation, width, N, promise, measured):
            if is_trusted(operation, width, N, promise, measured, limit, config):
                # Each row that starts anywhere wants the weights elsewhere.
                return config if measured == promise else replace(config, rows_each=1)
    return None


def nearest(operation, width, N, promise, measured):
    """(row bytes up to, configuration) of the nearest line of the table that may do for such rows, in a list; [] if none may."""
    row_bytes = N * width // 8
    for limit, named in nearest_first(lines_of(operation, width, measured), row_bytes, measured):
        config = Config(**named)
        # One of shorter rows only if they are not much shorter, and if a sweep of these would try it.
        if row_bytes <= limit or (row_bytes <= NEAR * limit and config in candidates(operation, width, N, promise)):
            return [(limit, config)]
    return []


def near(operation, width, N, promise, measured):
    """(row bytes up to, configuration) of those lines of near lengths that a sweep of such rows would try, the nearest first."""
    row_bytes, tried = N * width // 8, candidates(operation, width, N, promise)
    lines = [(limit, Config(**named)) for limit, named in lines_of(operation, width, measured)]
    found = {
        max(limit, row_bytes) / min(limit, row_bytes): (limit, config) for limit, config in lines if config in tried
    }
    return [line for ratio, line in sorted(found.items()) if ratio <= NEAR]


def is_trusted(operation, width, N, promise, measured, limit, config):
    """Whether what was the fastest for rows of up to `limit` bytes will do for these."""
    # Bulk copies must be able to bring such rows to shared memory, if that is where they come.
    if config.stages and not (measured == promise and (promise == "congruent" or divides(config, width, N))):
        return False
    # Few lengths were swept of congruent rows and of LayerNorm's: of these, one of a near length.
    if measured == "congruent" or operation in SPREAD_AS:
        return limit <= NEAR * N * width // 8
    # Of many, any; for other rows than were swept not what leaves a thread without a register to spare.
    return measured == promise or config.threads_per_block < 1024


def lines_of(operation, width, promise):
    """The lines of the table for the selected card, or for the swept one most like it (see `card`); none if there are none."""
    key = operation, width, promise
    return OTHERS.get(card.nearest_recorded((FIRST, *OTHERS)), {}).get(key) or TABLES.get(key, ())


def nearest_first(lines, row_bytes, measured):
    """A table's lines as rows of so many bytes try them: those of longer rows; for congruent rows, of which few lengths were swept,
    all lines from the nearest length on."""
    if measured == "congruent":
        return sorted(lines, key=lambda line: max(line[0], row_bytes) / min(line[0], row_bytes))
    return [line for line in lines if row_bytes <= line[0]]


def first_guess(operation, N, vector_size):
    """A configuration where nothing was measured: four vectors a thread, more threads and then more blocks for more. A thread of a
    norm's gradient has less of a row, and registers for it and for the sums of dw and db."""
    vectors = max(1, N // vector_size)
    if operation in STREAMING:
        threads = min(256, max(8, 1 << (vectors // 4).bit_length()))
        return Config(threads, max(threads, 128), vectors_at_once=4)
    if SPREAD_AS.get(operation, operation) == "rmsnorm backward":
        for blocks, threads in product((1, 2, 4, 8, 16), (8, 16, 32, 64, 128, 256, 512, 1024)):
            held = math.ceil(vectors / (threads * blocks)) * vector_size
            if held <= MOST_NEXT_ELEMENTS and (blocks == 1 or threads >= 256):
                config = Config(threads, max(threads, 128), blocks, blocks_together=int(blocks == 1))
                if sums_fit(config, held * threads * blocks):
                    return config
    blocks = next(b for b in (1, 2, 4, 8, 16) if vectors <= 4096 * b or b == 16)
    threads = next(t for t in (8, 16, 32, 64, 128, 256, 512, 1024) if vectors <= 4 * t * blocks or t == 1024)
    return Config(threads, threads, blocks) if blocks > 1 else Config(threads, max(threads, 128), blocks_together=1)


def in_one_block(config, operation, width, N, promise):
    """The configuration for a GPU that has neither clusters nor bulk copies: of the `candidates` that use neither, the one that has
    about four vectors of a row in a thread, or else the first guess; `config` itself, which such a GPU refuses, for rows that no
    block has registers for."""

    def is_alone(c):
        return c.blocks_per_row == 1 and not with_room(c, width, N, promise).stages

    if is_alone(config):
        return replace(config, blocks_together=0)
    alone = [replace(c, blocks_together=0) for c in candidates(operation, width, N, promise) if is_alone(c)]
    vector_size = vector_elements(width, N, promise)
    guess = first_guess(operation, N, vector_size)
    if not alone and is_alone(guess):  # lengths of which every candidate would leave threads without a vector
        return replace(guess, blocks_together=0)
    vectors = max(1, N // vector_size)
    return min(alone, key=lambda c: abs(vectors / c.threads_per_row - 4), default=config)


def kept_in_shared_memory(config, width, N, promise):
    """A configuration of RMSNorm's backward for LayerNorm's, which has few registers for a row beside the sums of dw and db: where
    more than `MOST_LIGHT_ELEMENTS` of a row would be there, as many stages in shared memory as fit, at most three."""
    if not config.row_ahead or promise != "aligned" or not divides(config, width, N):
        return config
    if elements_held(config, N) <= MOST_LIGHT_ELEMENTS or config.threads_per_row < config.threads_per_block:
        return config
    vectors = math.ceil(N * width // VECTOR_BITS / (config.threads_per_row * config.blocks_per_row))
    stage_bytes = 2 * vectors * config.threads_per_row * VECTOR_BITS // 8
    stages = min(3, 220 * 1024 // stage_bytes)
    return replace(config, row_ahead=0, stages=stages) if stages > 1 else config

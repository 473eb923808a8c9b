"""Sizes by a rule, for the ladders' last rungs: what ships has a table of them (`tables.py`)."""

from quack_tutorial.kernels.layout import promise_for, threads_for
from quack_tutorial.kernels.tuned.config import Config, divides


def rung_config(dtype, N, block_bytes, thread_bytes):
    """The sizes of the rungs before, as a `Config`.

    A row longer than `block_bytes` belongs to a cluster. It waits in shared memory, `thread_bytes` of it for a thread, where
    bulk copies can cut it; other rows are in registers, about 32 elements a thread.
    """
    blocks = min(16, 1 << (-(-N * dtype.width // 8 // block_bytes) - 1).bit_length())
    columns = -(-N // blocks)
    if blocks > 1:
        threads = max(32, threads_for(columns, elements=thread_bytes * 8 // dtype.width))
        shared = Config(threads, threads, blocks, stages=1)
        if promise_for(dtype, N) == "aligned" and divides(blocks, dtype.width, N):
            return shared
    threads = max(128, threads_for(columns)) if blocks > 1 else threads_for(columns)
    return Config(threads, max(128, threads), blocks)

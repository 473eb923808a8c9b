"""The reads and writes of one of our kernels without its arithmetic: a ceiling with the kernel's own spread of rows.

The plain kernels of `plain_kernels` see words in a row and know nothing of an operation. Where a kernel of ours was above all of
them, its spread of rows over threads might be what moves memory faster; this one has that spread and nothing else to do. Of the
cells measured with it, it was the quickest plain kernel in a few.
"""

from quack_tutorial.operations import OPERATIONS
from quack_tutorial.operations.our_launches import Rows, like, rows_of

# operation -> matrices that are read, of the operations that have such a tile
READS = {name: reads for name, operation in OPERATIONS.items() if (reads := operation.ours.tile_reads)}


def name_of(config) -> str:
    """What a record calls it: the threads of a row and of a block, and the blocks of a row."""
    launched = f", {config.blocks_together} together" if config.blocks_together else ""
    return f"own tile, {config.threads_per_row} of {config.threads_per_block} threads, {config.blocks_per_row} blocks{launched}"


def made(operation: str, r: Rows):
    """(the kernel, its specs) for rows like `r`."""
    from quack_tutorial.kernels.copy import TileCopy

    kernel = TileCopy(operation, r.element, r.N, r.promise, READS[operation])
    return kernel, (r.matrix("x"), r.matrix("y") if kernel.reads == 2 else None, r.matrix("out"))


def setup(operation: str, x):
    """(name, callable on the operation's inputs) for inputs like the first, `x`; compiles."""
    from quack_tutorial import compiler

    kernel, specs = made(operation, rows_of(x))
    run = compiler.compile_for(kernel, *specs)

    def call(*inputs):
        out = like(inputs[0])
        run(inputs[0], inputs[1] if kernel.reads == 2 else None, out)
        return out

    return name_of(kernel.config), call

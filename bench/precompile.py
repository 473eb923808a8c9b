"""Compile kernels for a Hopper GPU on a machine without one, so that the GPU need not wait for them.

    export QUACK_TUTORIAL_CACHE=kernels QUACK_TUTORIAL_CACHE_PLACE=h200
    python -m bench.precompile rmsnorm softmax [--ladder] [--dtype bfloat16]

Copy the folder to the GPU's machine and set both variables there: `bench` and `ops` then load what it holds. There
itself, the first is enough. The place is any word; it stands for what a kept kernel otherwise depends on (the processor, the exact
Python), so use one for machines with the same kind of processor, minor version of Python and CuTe DSL. It compiles what ships,
for all of the benchmark's rows, with the tiles of the ceilings. `memory` are the kernels of that command.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from bench import ours, plain_tile
from quack_tutorial import compiler, kernel_cache
from quack_tutorial.operations import OPERATIONS, named, slug
from quack_tutorial.records.cells import expected_cells, requested_dtypes

MEMORY = "memory"


def jobs(args) -> list[tuple]:
    """(operation, provider, dtype, N) of each program; ("memory", name) of those of `memory`."""
    dtypes, found = requested_dtypes(args.dtype), []
    if MEMORY in args.operations:
        from bench import memory  # imports CuTe DSL

        found = [(MEMORY, name) for name, _, _ in memory.compiled_cases()]
    for operation in map(named, (word for word in args.operations if word != MEMORY)):
        providers = tuple(OPERATIONS[operation].ladder) if args.ladder else ("ours",)
        cells = dict.fromkeys((key.dtype, key.N) for key in expected_cells(operation, args.ladder))
        found += [(operation, provider, *one) for one in cells if one[0] in dtypes for provider in providers]
    return found


def start(folder: str) -> None:
    """In each process, before CuTe DSL is imported, which is when it looks: a place of its own for what the DSL writes."""
    os.environ[compiler.DUMP_FOLDER] = tempfile.mkdtemp(dir=folder)


def compile_one(job: tuple) -> str:
    """Compile one program; what went wrong, or nothing."""
    if job[0] == MEMORY:
        from bench import memory

        for name, kernel, args in memory.compiled_cases():
            if name == job[1]:
                compiler.precompile(kernel, *args)
        return ""
    operation, provider, dtype, N = job
    try:
        rows = ours.contiguous_rows(dtype, N)
        for kernel, args in ours.kernels(operation, provider, rows):
            compiler.precompile(kernel, *args)
        if provider == "ours" and operation in plain_tile.READS:
            kernel, specs = plain_tile.made(operation, rows)
            compiler.precompile(kernel, *specs)
    except Exception as error:  # the rest is compiled all the same
        return f"{operation} {dtype} {N} {provider}: {type(error).__name__}: {error}"
    return ""


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operations", nargs="+", help=", ".join([MEMORY, *map(slug, OPERATIONS)]))
    parser.add_argument("--ladder", action="store_true", help="the versions of the lesson")
    parser.add_argument("--dtype", help="types, separated by commas (default: all)")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="how many at once (default: one a core)")
    args = parser.parse_args(argv)
    problem = compiler.dsl_problem() if kernel_cache.folder() else f"set {kernel_cache.VARIABLE} first"
    if problem:
        print(f"precompile: {problem}", file=sys.stderr)
        return 1
    try:
        if args.processes < 1:
            raise ValueError(f"--processes takes 1 or more, got {args.processes}")
        todo = jobs(args)
    except ValueError as error:
        print(f"precompile: {error}", file=sys.stderr)
        return 1
    began, problems = time.monotonic(), []
    with (
        tempfile.TemporaryDirectory(prefix="precompile-") as folder,
        ProcessPoolExecutor(args.processes, get_context("spawn"), start, (folder,)) as pool,
    ):
        for done, problem in enumerate(pool.map(compile_one, todo), 1):
            problems += [problem] if problem else []
            if done % 50 == 0 or done == len(todo):
                print(f"{done} of {len(todo)} programs, {time.monotonic() - began:.0f} s", flush=True)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

"""`quack-tutorial states`: calls at sizes that no sweep had, beside their peers', in three states of L2; kept as a record.

What the states are: `quack_tutorial.records.states`. Types, lengths and rows are drawn from a seed. Workers take turns on the GPU
(see `gpu_lock`), and every call is timed in `TAKES` turns, others' between them: the least median counts, since what disturbs one
turn does not disturb the next.
"""

from __future__ import annotations

import random
import sys
import time

from bench.asked import command_line, on_a_gpu
from bench.sweep import Worker, measure_cells
from quack_tutorial import records
from quack_tutorial.hardware import ITEM_BYTES
from quack_tutorial.records.cells import CellKey, bytes_moved
from quack_tutorial.records.statistics import median

OPERATIONS = ("softmax", "softmax backward", "rmsnorm", "rmsnorm backward")
OPERATIONS += ("rmsnorm residual", "rmsnorm residual backward", "layernorm")
OPERATIONS += ("cross-entropy", "cross-entropy backward", "cross-entropy fused")
PROVIDERS = ("ours", "eager", "compile", "quack", "liger")
MODELS = (2560, 2880, 3584, 5120, 6144, 6656, 7168, 12288, 14336)
MODELS += (18432, 20480, 32000, 50304, 128256, 151936, 163840)
WRITTEN_BYTES, TERMS = 256 << 20, 64  # of the write, and of the product that makes 16-bit logits
LEAST_BYTES, MOST_BYTES = 32 << 20, 640 << 20  # of a matrix
TAKES, ROUNDS = 2, 7
OPTIONS = ("seed", "cells", "workers", "limit-s", "out")


def drawn(seed: int, count: int) -> list[CellKey]:
    """`count` cells: operations in turn; lengths of models, multiples of 64 and of 8, odd ones, and every third a power of 2."""
    draw, keys = random.Random(seed), []
    for turn in range(count):
        operation = OPERATIONS[turn % len(OPERATIONS)]
        dtype = draw.choice(("float32", "float16", "bfloat16"))
        longest = 1 << draw.randint(10, 17)
        between = draw.randint(longest // 2, longest)
        N = draw.choice((draw.choice(MODELS), between // 64 * 64, between // 8 * 8, between | 1))
        if draw.random() < 1 / 3:
            N = 1 << draw.randint(9, 17)
        elements = 2 ** draw.uniform(
            *(((bytes_ // ITEM_BYTES[dtype]).bit_length() - 1) for bytes_ in (LEAST_BYTES, MOST_BYTES))
        )
        keys.append(CellKey(operation, dtype, max(8, round(elements / N) // 8 * 8), N))
    return draw.sample(keys, count)


def measured(key: CellKey, setups: dict) -> dict:
    """{state: {name: microseconds a call}} of one cell, in this process, of setup functions as `bench.peers` has them."""
    import torch

    from bench import gpu_lock, public
    from quack_tutorial import timing

    lock = gpu_lock.own_lock()
    torch._dynamo.reset()
    gpu_lock.give_while_compiling(lock)
    made = public.inputs_of(key.operation, "public")
    first = made(key.M, key.N, key.dtype)
    count = timing.slots_for(sum(t.nbytes for t in first), torch.cuda.get_device_properties().L2_cache_size)
    slots = [first, *(made(key.M, key.N, key.dtype) for _ in range(count - 1))]
    launches, pool = timing.launches_for(bytes_moved(key), count), torch.cuda.graph_pool_handle()
    before = {"rows": None, "write": _written(torch), "producer": _producer(torch, key, first)}
    replays = {
        (state, None): timing.capture(_both(work), slots, launches, pool).released()
        for state, work in before.items()
        if work
    }
    kept = []  # calls: their graphs read what `prepare` made
    for name, setup in setups.items():
        try:
            call, found = setup(*first), {}
            for state, work in before.items():
                both = _both(work, call, prepares=not found)
                found[state, name] = timing.capture(both, slots, launches, pool).released()
            kept.append(call)
        except Exception as error:
            # Whatever a peer raises, the others go on if the GPU still answers.
            torch.cuda.synchronize()
            print(f"{key}: {name}: {type(error).__name__}: {error}"[:200], file=sys.stderr)
        else:
            replays |= found
    least = {}
    for take in range(TAKES):
        if take:  # let others have a turn
            lock.give()
            time.sleep(0.1)
            lock.take()
        for at, samples in timing.interleaved_us(replays, ROUNDS).items():
            least[at] = min(median(samples), least.get(at, float("inf")))
    return {
        state: {
            name: records.rounded(us - least.get((state, None), 0), 4)
            for (at, name), us in least.items()
            if at == state and name
        }
        for state in before
    }


def _written(torch):
    block = torch.empty(WRITTEN_BYTES // 4, device="cuda")
    return lambda matrix: block.fill_(0.5)


def _producer(torch, key, first):
    """What writes the call's own matrix: a product for 16-bit logits, else a copy."""
    if key.operation.startswith("cross-entropy") and key.dtype != "float32":
        left, right = (
            torch.randn(*shape, device="cuda", dtype=first[0].dtype) for shape in ((key.M, TERMS), (TERMS, key.N))
        )
        return lambda matrix: torch.mm(left, right, out=matrix)
    kept = first[0].clone()
    return lambda matrix: matrix.copy_(kept)


def _both(work, call=None, prepares=False):
    """The two, one after the other, as one call that can be captured; it `prepares` what `call` must have, or finds that done."""

    def both(*inputs):
        if work:
            work(inputs[0].data)  # autograd does not see it
        return call(*inputs) if call else inputs[0].new_empty(0)

    if prepares and hasattr(call, "prepare"):
        both.prepare = call.prepare
    return both


def serve() -> int:
    """What each worker process runs."""
    from bench import ours, worker
    from bench.peers import CALLS
    from bench.peers import PROVIDERS as KERNELS

    def measure(request, announce):
        key = CellKey(**request["cell"])
        there = CALLS.get(key.operation) or KERNELS[key.operation]
        us = measured(key, {name: there[name] for name in request["providers"] if name in there})
        return {**request["cell"], "config": ours.config_label(key.operation, "ours", key.dtype, key.N), "us": us}

    return worker.serve(measure, worker.IMPORTED)


def add_arguments(parser):
    """Declare what `quack-tutorial states` takes."""
    parser.add_argument(
        "--seed",
        type=int,
        default=int(records.today().replace("-", "")),
        help="what cells are drawn from (default: the day)",
    )
    parser.add_argument("--cells", type=int, default=224, help="how many (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=12, help="processes that share the GPU (default: %(default)s)")
    parser.add_argument("--limit-s", type=float, metavar="S", help="stop between cells after about S seconds")
    parser.add_argument("--out", metavar="FILE", help="keep the record in this file")


@on_a_gpu
def run(args, found) -> int:
    """Measure, and print each cell that is behind its best peer; 2 without a GPU."""
    from quack_tutorial.records.states import Cell

    rows, machines = [], []

    def start(**more):
        worker = Worker([sys.executable, "-m", "bench.states"], **more)
        machines.append(worker.machine)
        return worker

    keys, line = drawn(args.seed, args.cells), command_line(args, ["states"], OPTIONS)
    try:
        for one in measure_cells(keys, PROVIDERS, limit_s=args.limit_s, start=start, workers=args.workers, made=dict):
            if one.cell is None:
                print(f"{one.key}: {one.message}", file=sys.stderr)
                continue
            rows.append(one.cell)
            cell = Cell(**one.cell)
            behind = {state: round(cell.over_best_peer(state), 3) for state in cell.us}
            if min(behind.values()) < 0.995:
                print(f"{cell.operation} {cell.dtype} {cell.M} x {cell.N} {cell.config}: {behind}", flush=True)
            if args.out:
                head = records.stamped(machines[0], found.driver, line)
                records.save(args.out, head | {"seed": args.seed, "takes": TAKES, "cells": rows})
    except RuntimeError as error:  # no worker starts
        print(f"states: {error}", file=sys.stderr)
        return 1
    print(f"{len(rows)} cells")
    return 0


if __name__ == "__main__":
    sys.exit(serve())

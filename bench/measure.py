"""One cell, start to end: set every provider up, check its output, then time all that are right in turn.

Runs in the worker process. A provider that refuses, is wrong or is not installed gets its status and takes no part in
the timing; one that breaks the CUDA context ends the process, and `sweep` measures the cell again without it.
"""

from __future__ import annotations

import datetime
import gc
import os
import re
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch._dynamo

from bench import ceilings, correctness, gpu_lock, ours, public
from bench.peers import PROVIDERS
from bench.sweep import is_out_of_memory
from quack_tutorial import hardware, timing
from quack_tutorial.operations import OPERATIONS, is_own
from quack_tutorial.records import rounded
from quack_tutorial.records.bench import Cell, Result, ok_result
from quack_tutorial.records.cells import BEFORE, PUBLIC_SERIES, CellKey, bytes_moved
from quack_tutorial.records.statistics import is_sure, median, paired_ratio

MOST_TIMINGS = 4  # of a cell whose ratio to the best peer is not sure after the first


def measure_cell(
    key: CellKey,
    providers,
    rounds=11,
    do_bench=True,
    crashed=None,
    alone=False,
    announce=lambda what: None,
    series="peers",
) -> Cell:
    """Measure one cell with `providers` in one process; `crashed` maps providers to leave out to the reason why. `alone` says that
    no other worker of this GPU has memory now.

    `announce` is told what is about to happen, so that the parent knows whom a crash belongs to.
    """
    torch._dynamo.reset()  # its caches of other shapes would make it compile for dynamic ones, or give up
    gpu_lock.give_while_compiling(gpu_lock.own_lock())
    calls, crashed = series in PUBLIC_SERIES, crashed or {}
    operation = OPERATIONS[key.operation]
    setups = public.calls_of(key.operation, series) if calls else {**PROVIDERS[key.operation], **operation.ladder}
    made = public.inputs_of(key.operation, series)
    device = torch.cuda.get_device_properties()
    seed = int.from_bytes(os.urandom(4), "little")
    torch.manual_seed(seed)
    pool = torch.cuda.graph_pool_handle()
    moved = bytes_moved(key)

    announce("inputs")
    first = made(key.M, key.N, key.dtype)
    slots = timing.slots_for(sum(t.numel() * t.element_size() for t in first), device.L2_cache_size)
    inputs = [first, *(made(key.M, key.N, key.dtype) for _ in range(slots - 1))]
    launches = timing.launches_for(moved, slots)
    announce("ceiling")
    plain = ceilings.ceiling_candidates(operation.ceiling or operation.pattern, moved, slots, pool, not calls)
    plain |= ceilings.own_tile(operation.name, inputs, launches, pool)

    own = {name for name in providers if is_own(key.operation, name)}
    # Ours first: QuACK changes classes of CuTe DSL when it is imported. (With QuACK 0.6.5 our PTX stays the same.)
    providers = sorted(providers, key=lambda name: name not in own)
    refused, ready = {}, {}
    for name in providers:
        announce(name)
        if name in crashed:
            refused[name] = Result(name, "crashed", crashed[name])
            continue
        try:
            contender = _prepare(operation, setups[name], inputs, launches, pool, seed)
        except ImportError as error:
            refused[name] = Result(name, "missing", first_line(error))
            continue
        except Exception as error:
            # A peer may raise anything; what matters is that the GPU still answers.
            torch.cuda.synchronize()  # raises, and so ends this process, if it does not
            if gpu_lock.is_shared() and not alone and is_out_of_memory(first_line(error)):
                raise  # the other workers have the memory: alone this provider may run
            refused[name] = Result(name, "unsupported", first_line(error))
            continue
        problem = correctness.judgement(contender.error, name in own, key.operation)
        if problem:
            refused[name] = Result(name, "wrong", problem)
        else:
            ready[name] = contender

    announce("timing")
    replays = {("ceiling", name): replay for name, replay in plain.items()}
    replays |= {name: contender.replay for name, contender in ready.items()}
    cleared = timing.clear_l2()  # what it can do here, it can do before each sample
    samples = _samples(replays, timing.rounds_for(moved, launches, rounds), own)
    best = min(plain, key=lambda name: median(samples["ceiling", name]))
    ceiling_samples = tuple(rounded(sample) for sample in samples["ceiling", best])
    ceiling_gb_s = moved / median(ceiling_samples) / 1e3
    sheet = hardware.find(device.name)
    results = []
    for name in providers:
        if name in refused:
            results.append(refused[name])
            continue
        announce(name)
        ptx_sha256, config = ours.shipped(key.operation, name, key.dtype, key.N) if name in own else (None, None)
        results.append(
            ok_result(
                name,
                samples[name],
                moved,
                ceiling_gb_s,
                sheet.bandwidth_gb_s if sheet else None,
                do_bench_us=rounded(timing.do_bench_us(ready[name].call, first)) if do_bench else None,
                error=rounded(ready[name].error, 3),
                ptx_sha256=ptx_sha256,
                config=config,
            )
        )
    # Or empty_cache could give nothing back.
    inputs = first = plain = ready = contender = replays = None
    gc.collect()
    torch.cuda.empty_cache()
    return Cell(
        dtype=key.dtype,
        M=key.M,
        N=key.N,
        bytes_moved=moved,
        measured=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        launches=launches,
        slots=slots,
        ceiling=best,
        ceiling_gb_s=rounded(ceiling_gb_s),
        ceiling_samples_us=ceiling_samples,
        results=tuple(results),
        before=BEFORE if cleared else None,
    )


@dataclass(frozen=True)
class _Contender:
    """A provider that runs: its callable, its graph, and the error of what the graph computes."""

    call: Callable
    replay: timing.Replay
    error: float


def _prepare(operation, setup, inputs, launches, pool, seed):
    """Set up, capture and check one provider; whatever it raises goes through."""
    call = setup(*inputs[0])
    replay = timing.capture(call, inputs, launches, pool)
    last = inputs[(launches - 1) % len(inputs)]  # what the last launch read
    if hasattr(call, "judged"):
        last = call.judged(*last)
    if hasattr(call, "fresh"):
        error = correctness.error_of(operation, last, call.fresh(*last), seed)
    else:
        timing.poison_and_replay(replay)
        error = correctness.error_of(operation, last, replay.outputs[-1], seed)
        earlier = (output for outputs in replay.outputs[:-1] for output in correctness.as_tuple(outputs))
        if any(correctness.has_nan(output) for output in earlier):
            error = float("inf")
    return _Contender(call, replay.released(), error)


def _samples(replays, rounds, own):
    """Times of so many rounds, and of as many again, up to `MOST_TIMINGS`, until it is sure how ours compare with the best peer."""
    samples = timing.interleaved_us(replays, rounds)
    for _ in range(MOST_TIMINGS - 1):
        if _are_sure(samples, own):
            break
        samples = {name: [*samples[name], *more] for name, more in timing.interleaved_us(replays, rounds).items()}
    return samples


def _are_sure(samples, own):
    """Whether each of ours has a ratio to the best peer that is known well enough, if there is a peer."""
    # A tuple is of the ceiling.
    peers = [name for name in samples if name not in own and not isinstance(name, tuple)]
    best = min(peers, key=lambda name: median(samples[name]), default=None)
    return best is None or all(is_sure(paired_ratio(samples[name], samples[best])) for name in own & samples.keys())


def first_line(error: Exception, length: int = 160) -> str:
    """The first line of an exception with its type; folders are cut from paths, since they say nothing to a reader."""
    lines = str(error).strip().splitlines()
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    text = re.sub(r"(?:/[\w.+-]+)+/", ".../", text)
    return text if len(text) <= length else text[: length - 3] + "..."

"""Compile what cells need before they are measured, in many processes at once; what is compiled is kept on disk.

Measuring must be alone on a GPU, compiling need not be. With `bench --prepare K`, K processes a GPU first set every provider
of every cell up and call it once. torch.compile, triton, QuACK and this package keep what they compiled; the worker that
measures then finds it there. Nothing that is chosen by timing is kept, see `peers`.

| not prepared           | because                                                        |
|------------------------|----------------------------------------------------------------|
| eager, cudnn           | nothing of it is kept on disk                                  |
| quack tuned            | its compilation starts processes of its own                    |

The module is also the process that compiles: the requests and answers of `worker`, with {"cell": ..., "provider": ...} and
{"problem": ...}.
"""

from __future__ import annotations

import functools
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from quack_tutorial.bench import sweep
from quack_tutorial.bench.operations import DEVICE, OPERATIONS, CellKey, bytes_moved, is_own

NOT_KEPT = ("eager", "cudnn", "quack tuned")
FOR_ANY_ROWS = ("ours", "quack", "liger")  # besides the versions of a ladder: not compiled for a number of rows
FEW_ROWS = 1024  # which take no memory worth waiting for
start_worker = functools.partial(sweep.Worker, [sys.executable, "-m", "quack_tutorial.bench.prepare"])
ATTEMPTS, WAIT_S = 60, 1.0  # when others have the GPU's memory
MEMORY = 3  # what is reserved for a provider, in times of what the operation reads and writes


@dataclass(frozen=True)
class Job:
    """One provider of one cell."""

    key: CellKey
    provider: str

    def __str__(self):
        return f"{self.key}: {self.provider}"


def jobs_of(keys, providers: Callable[[CellKey], list]) -> list[Job]:
    """What is to be compiled for `keys`; once for all numbers of rows where these do not matter."""
    found, seen = [], set()
    for key in keys:
        for name in providers(key):
            any_rows = name in FOR_ANY_ROWS or is_own(key.operation, name)
            compiled = (key.operation, key.dtype, key.N, name, None if any_rows else key.M)
            if name not in NOT_KEPT and compiled not in seen:
                seen.add(compiled)
                found.append(Job(replace(key, M=min(key.M, FEW_ROWS)) if any_rows else key, name))
    # One of ours first: without what it imports there is nothing to prepare for. Then what takes longest, so that the end does
    # not wait for one of them; large and small inputs mixed, so that the processes do not wait for each other's memory.
    random.Random(0).shuffle(found)
    first = next((job for job in found if is_own(job.key.operation, job.provider)), None)
    return sorted(found, key=lambda job: (job != first, not job.provider.endswith("tuned")))


def prepare(
    jobs, processes: int, gpus: int | None, limit_s=None, on_step=lambda job, what: None, start=start_worker
) -> str:
    """Do `jobs` with so many processes a GPU, and return a sentence on what came of them. A job that fails is no error: the
    provider will say so when it is measured. But RuntimeError where what our own kernels import is not there."""
    count, began, done, problems = gpus or 1, time.monotonic(), 0, []

    def start_on(gpu):
        return start(gpu=gpu % count) if gpus else start()

    def request(job, crashed):
        return {"cell": asdict(job.key), "provider": job.provider}

    for found in sweep.attend(jobs, request, lambda data, gpu: data, limit_s, on_step, start_on, processes * count):
        done += 1
        problem = found.message or found.cell["problem"]
        own = is_own(found.key.key.operation, found.key.provider)
        if own and problem.startswith(("ImportError", "ModuleNotFoundError")):
            raise RuntimeError(f"what our own kernels need is not here ({problem})")
        problems += [f"{found.key}: {problem}"] if problem else []
    said = f"{done} of {len(jobs)} programs prepared in {time.monotonic() - began:.0f} s"
    return f"{said}; {len(problems)} refused, the first: {problems[0]}" if problems else f"{said}."


def main() -> int:
    """Serve requests to compile until stdin ends."""
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # there are processes enough
    from quack_tutorial.bench.worker import serve

    return serve(compile_one)


def compile_one(request: dict, announce) -> dict:
    """Set up one provider of one cell and call it; what it raises is its problem."""
    import torch
    import torch._dynamo

    from quack_tutorial.bench.measure import first_line

    key, name = CellKey(**request["cell"]), request["provider"]
    announce(name)
    torch._dynamo.reset()
    for _ in range(ATTEMPTS):
        try:
            _reserve(MEMORY * bytes_moved(key))
            _call_once(key, name)
            return {"problem": ""}
        except Exception as error:  # a provider may raise anything; what matters is that the GPU still answers
            problem = first_line(error)
            if "OutOfMemoryError" not in problem:  # inductor has its own error around torch's
                torch.cuda.synchronize()
                return {"problem": problem}
        torch.cuda.empty_cache()
        time.sleep(WAIT_S)
    return {"problem": problem}


def _reserve(nbytes: int) -> None:
    """Have so much of the GPU's memory, or torch's OutOfMemoryError: torch keeps what was freed for what comes next. Without it
    many processes would each have a part of what they need, and wait for the rest."""
    import torch

    torch.empty(nbytes, dtype=torch.uint8, device=DEVICE)


def _call_once(key: CellKey, name: str) -> None:
    import torch

    from quack_tutorial.bench import plain_tile

    operation = OPERATIONS[key.operation]
    own = is_own(key.operation, name)
    inputs = operation.inputs(key.M, key.N, key.dtype)
    call = {**operation.providers, **operation.ladder}[name](*inputs)
    if hasattr(call, "prepare"):
        call.prepare(*inputs)
    call(*inputs)
    torch.cuda.synchronize()
    if own:
        operation.ptx(name, key.dtype, key.N)  # a record holds its hash
    if name == "ours" and key.operation in plain_tile.READS:
        plain_tile.setup(key.operation, inputs[0])
    del inputs, call
    torch.cuda.empty_cache()


if __name__ == "__main__":
    sys.exit(main())

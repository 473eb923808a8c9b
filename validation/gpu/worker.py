"""What suites run on the GPU in processes of their own: `python -m validation.gpu.worker JOB WORDS...`, a JOB of `JOBS`."""

from __future__ import annotations

import dataclasses
import json
import sys
from functools import partial
from pathlib import Path

from validation.workers import ALL_CORRECT, ALL_DONE, LAUNCHED


def compare(which, numbers):
    """Suite `device`: compare the kernels with these numbers, first:end:step, on both sides; one line of JSON each."""
    from validation import workers
    from validation.gpu import device

    wanted = device.jobs(which == "sample")
    workers.work(workers.numbers(numbers), lambda number: dataclasses.asdict(device.compared(wanted[number])))


def bug(name):
    """Suite `sanitizer`: run the corpus's case of this name with its bug, or all of them without; out starts unwritten."""
    import torch

    from quack_tutorial import compiler
    from validation.corpus import CASES

    for case in CASES:
        if name in (ALL_CORRECT, case.name):
            x, y, out = (torch.from_numpy(array).cuda() for array in case.arrays())
            out = out if case.adds else torch.empty(out.shape, dtype=out.dtype, device="cuda")
            print(LAUNCHED, case.name, flush=True)
            compiler.launch(case.host, x, y, out, name != ALL_CORRECT)
            torch.cuda.synchronize()


def calls(name, tool, device="cuda"):
    """Suite `shipped`: make the named call at each of its cases for that tool, and wait for each before the next."""
    import torch

    from quack_tutorial import ops
    from validation.gpu.shipped import CALLS, cases

    def filled(*shape, dtype):
        return torch.randn(*shape, device=device).to(dtype)

    for dtype, M, N in cases(name, tool):
        rows = partial(filled, M, N, dtype=getattr(torch, dtype))
        print(LAUNCHED, f"{dtype} {M} x {N}", flush=True)
        CALLS[name].run(ops, rows().requires_grad_(), rows, lambda of, N=N: filled(N, dtype=of))
        if device == "cuda":
            torch.cuda.synchronize()
    print(ALL_DONE, flush=True)


def profiled(path):
    """Suite `counters`: launch each case that the JSON list in the file names, in its order, once; the profiler sees the launch
    alone. What could not be launched is named, with the reason, in refused.json beside the file."""
    import torch

    from quack_tutorial import compiler
    from validation.gpu import counters, device

    by_name, refused = {case.name: case for case in counters.cases()}, {}
    profiler = torch.cuda.cudart()
    for name in json.loads(Path(path).read_text()):
        case = by_name[name]
        try:
            arguments = device.on_gpu(case.arguments())
            run = compiler.compile_for(case.host, *arguments)
            torch.cuda.synchronize()
        except Exception as error:  # whatever the compiler raises: it is one case's, and is said of that case
            refused[name] = f"{type(error).__name__}: {error}"[:500]
            continue
        profiler.cudaProfilerStart()
        run(*arguments)
        torch.cuda.synchronize()
        profiler.cudaProfilerStop()
    Path(path).with_name("refused.json").write_text(json.dumps(refused))


JOBS = {job.__name__: job for job in (compare, bug, calls, profiled)}

if __name__ == "__main__":
    JOBS[sys.argv[1]](*sys.argv[2:])

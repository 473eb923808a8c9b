"""Several workers on one GPU: one at a time has it, and leaves it to the others while torch compiles.

Most of a cell's time goes into compiling, which needs no GPU; measuring must be alone on it. With `bench --workers K` each GPU
has K workers and a file, which `LOCK` names in their environment. Who holds the file's lock may use the GPU:

| a worker                                            | holds the lock |
|-----------------------------------------------------|----------------|
| measures a cell                                     | yes            |
| in it, from the start to the end of a compilation   | no             |
| in that, puts a kernel on the GPU or times one      | yes            |
| in either, has Triton or CuTe DSL compile a kernel  | no             |
| waits for the next cell                             | no             |

So what chooses by timing does so alone, most of it when its kernels are first called: then each that is tried is compiled first,
which takes longer than to time it. Without `LOCK` all of this does nothing.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable

LOCK = "QUACK_TUTORIAL_BENCH_LOCK"


class GpuLock:
    """A worker's hold on its GPU: `with lock:` has it, `give` and `take` leave it to others in between."""

    def __init__(self, path: str | None, finish: Callable = lambda: None):
        """`path` is the file to lock, None if nobody else uses the GPU; `finish` waits for what this process gave it to do."""
        self.file, self.finish = open(path, "w") if path else None, finish
        self.held, self.tell = False, lambda waiting: None

    def take(self) -> None:
        """Wait for the GPU; `tell` is told when waiting begins and ends."""
        if self.file and not self.held:
            self._wait()
        self.held = True

    def _wait(self):
        import fcntl

        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.tell(True)
            fcntl.flock(self.file, fcntl.LOCK_EX)
            self.tell(False)

    def give(self) -> None:
        """Leave the GPU to others, once what it was given to do is done."""
        if self.file and self.held:
            import fcntl

            self.finish()
            fcntl.flock(self.file, fcntl.LOCK_UN)
        self.held = False

    def __enter__(self) -> GpuLock:
        self.take()
        return self

    def __exit__(self, *problem) -> None:
        self.give()


@functools.cache
def own_lock() -> GpuLock:
    """This process's lock."""
    import torch

    return GpuLock(os.environ.get(LOCK), torch.cuda.synchronize)


def is_shared() -> bool:
    """Whether other workers use this worker's GPU."""
    return own_lock().file is not None


def give_while_compiling(lock: GpuLock) -> None:
    """Have torch.compile, Triton and CuTe DSL leave the GPU to others while they compile; to be called again after
    `torch._dynamo.reset`."""
    if lock.file is None:
        return
    from torch._dynamo.callback import CallbackTrigger, callback_handler
    from torch._inductor.codegen.triton import TritonScheduling
    from torch._inductor.runtime import benchmarking, triton_heuristics

    kinds = (CallbackTrigger.DYNAMO, CallbackTrigger.LAZY_BACKWARD)  # others choose by timing
    callback_handler.register_start_callback(lambda about: lock.give() if about.callback_trigger in kinds else None)
    callback_handler.register_end_callback(lambda about: lock.take() if about.callback_trigger in kinds else None)
    uses_the_gpu = (
        (triton_heuristics.CachingAutotuner, "_make_launchers"),
        (TritonScheduling, "benchmark_codegened_module"),  # what a fusion is worth
        (type(benchmarking.benchmarker), "benchmark_gpu"),
    )
    for owner, name in uses_the_gpu:
        _replace(owner, name, lock, held=True)
    if cute := sys.modules.get("cutlass.cute"):  # a worker has imported it by now, where it is
        _replace(type(cute.compile), "_compile", lock, held=False)
    try:
        import triton
    except ImportError:  # torch of a machine without a GPU
        return
    for owner in (triton, triton.compiler):  # torch asks the one, kernels that are called the other
        _replace(owner, "compile", lock, held=False)


def _replace(owner, name, lock, held):
    """Put in the place of a function, once, the same with the GPU for itself, or else left to others.

    Afterwards the GPU belongs to whom it did before. Where nothing had to change, nothing is changed back: another thread may have
    taken the GPU meanwhile.
    """
    function = getattr(owner, name)
    if hasattr(function, "_quack_tutorial_lock"):
        return

    @functools.wraps(function)
    def call(*args, **more):
        if lock.held == held:
            return function(*args, **more)
        change, back = (lock.take, lock.give) if held else (lock.give, lock.take)
        change()
        try:
            return function(*args, **more)
        finally:
            back()

    call._quack_tutorial_lock = lock
    setattr(owner, name, call)

"""The process that measures: reads one request a line on stdin, answers in JSON lines on what was stdout.

| request                                                     | answers                                              |
|-------------------------------------------------------------|------------------------------------------------------|
| (start)                                                     | {"machine": {...}}                                   |
| {"cell": {...}, "providers": [...], "rounds": ..., ...}     | {"doing": provider} ..., then {"cell": {...}}        |

"doing" is also "waiting", while another worker has the GPU (see `gpu_lock`).

It is started with TORCHINDUCTOR_MULTI_KERNEL=1 (see `bench.peers.setups`). What the providers print goes to stderr.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import platform
import sys
from dataclasses import asdict

from bench.sweep import STARTING, WAITING

# Imported before the first turn: that takes seconds and needs no GPU. QuACK comes when it is set up, see `measure`.
IMPORTED = ("bench.measure", "cutlass.cute", "torch._inductor.compile_fx", "liger_kernel.ops")


def main() -> int:
    """Serve requests for cells until stdin ends."""

    def measure(request, announce):
        from bench.measure import measure_cell
        from quack_tutorial.records.cells import CellKey

        key = CellKey(**request.pop("cell"))
        return asdict(measure_cell(key, announce=announce, **request))

    return serve(measure, IMPORTED)


def serve(measure, imported=()) -> int:
    """Answer each request on stdin with what `measure(request, announce)` returns, a dictionary, until stdin ends.

    The modules `imported` are imported first, those that there are.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    doing = [STARTING]

    def answer(**message):
        answers.write(json.dumps(message) + "\n")

    def announce(what):
        doing[:] = [what]
        answer(doing=what)

    import torch

    from bench import gpu_lock

    for name in imported:
        with contextlib.suppress(Exception):  # who needs it will raise it again
            importlib.import_module(name)
    torch.set_grad_enabled(False)
    lock = gpu_lock.own_lock()
    lock.tell = lambda waiting: answer(doing=WAITING if waiting else doing[0])
    with lock:
        machine = describe()
    answer(machine=machine)
    for line in sys.stdin:
        doing[:] = [STARTING]
        with lock:
            cell = measure(json.loads(line), announce)
        answer(cell=cell)
    return 0


def describe() -> dict:
    """The device and the versions, in the fields of `records.Record`."""
    import torch

    from bench.peers.setups import PACKAGES
    from quack_tutorial import __version__
    from quack_tutorial.compiler import installed_version

    device = torch.cuda.get_device_properties()
    versions = {"quack-tutorial": __version__, "python": platform.python_version(), "cuda": torch.version.cuda}
    for package in sorted({package for packages in PACKAGES.values() for package in packages}):
        if version := installed_version(package):
            versions[package] = version
    versions["torch"] = torch.__version__
    if "nvidia-cudnn-frontend" in versions:
        versions["cudnn"] = str(torch.backends.cudnn.version())
    return {
        "device": device.name,
        "l2_bytes": device.L2_cache_size,
        "sms": device.multi_processor_count,
        "versions": versions,
    }


if __name__ == "__main__":
    sys.exit(main())

"""The same kernels on the GPU, through CuTe DSL, and on the simulator, on the same inputs and over poisoned outputs.

| kernels                         | what both must give                                                                |
|---------------------------------|------------------------------------------------------------------------------------|
| `language_kernels`              | numpy's answer, bit for bit                                                         |
| `trials` that only move bytes | the float64 answer, bit for bit                                                     |
| the other `trials`            | the float64 answer within the tolerance of `reference`, hence each other within two |

An error is given as a fraction of the tolerance: right if at most 1.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from cutesim.simulation import simulate
from quack_tutorial import compiler
from quack_tutorial.records import suite as report
from validation import language_kernels, workers

KERNEL_S = 60  # both sides of one kernel, with compiling


def where() -> dict:
    """The device and the versions that a record depends on."""
    found = report.here()
    try:
        import torch
    except ImportError:
        return found
    if torch.cuda.is_available():
        found |= {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda}
        found |= {"dsl": compiler.DSL_VERSION}
    return found


def on_gpu(arguments) -> list:
    """The arguments with arrays and CPU tensors copied to the GPU; views keep their distance from a 512-byte boundary."""
    return [_to_gpu(argument) for argument in arguments]


def _to_gpu(argument):
    import torch

    tensor = torch.from_numpy(argument) if isinstance(argument, np.ndarray) else argument
    if not isinstance(tensor, torch.Tensor):
        return argument
    # The whole storage goes, so that what lies around a view is there, too.
    storage = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage()).cuda()
    return storage.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def back(argument):
    """The same argument on the CPU."""
    return argument.cpu() if hasattr(argument, "is_cuda") else argument


@dataclass(frozen=True)
class Result:
    """One kernel on one input: bits that differ between GPU and simulator, the errors of both (None where exact)."""

    family: str
    name: str
    elements: int
    different: int
    errors: tuple | None  # (GPU, simulator), fractions of the tolerance
    problems: tuple = ()

    @property
    def ok(self) -> bool:
        return not self.problems


SIDES = ("the GPU", "the simulator")


def on_the_gpu(host, arguments) -> list:
    """The arguments as the GPU leaves them, on the CPU again."""
    import torch

    given = on_gpu(arguments)
    compiler.launch(host, *given)
    torch.cuda.synchronize()
    return [back(argument) for argument in given]


def simulated(host, arguments) -> list:
    """The arguments as the simulator leaves them; raises SimulationError at a wrong access."""
    simulate(host, *arguments, check=False)
    return list(arguments)


def compared(trial) -> Result:
    """One trial on both sides."""
    sides = [run(trial.host, trial.arguments()) for run in (on_the_gpu, simulated)]
    different = elements = 0
    for position in trial.outputs:
        bits = [as_bits(arguments[position]) for arguments in sides]
        different += int((bits[0] != bits[1]).sum())
        elements += bits[0].size
    problems, errors = [], None
    if trial.error is None:
        for side, arguments in zip(SIDES, sides):
            result, right = (as_bits(part) for part in trial.exact(arguments))
            wrong = int((result != right).sum())
            if wrong:
                problems.append(f"{trial.name}: {wrong} elements from {side} are not the right bits")
    else:
        errors = tuple(trial.error(arguments) for arguments in sides)
        for side, error in zip(SIDES, errors):
            if not error <= 1.0:
                problems.append(f"{trial.name}: {side} is off by {error:.3g} times the tolerance")
    return Result(trial.family, trial.name, elements, different, errors, tuple(problems))


def as_bits(tensor) -> np.ndarray:
    """The bits of a tensor or an array, as integers."""
    import torch

    tensor = torch.as_tensor(tensor)
    return tensor.contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]).numpy()


def jobs(sample: bool) -> list:
    """Every kernel, in the order of the table."""
    from validation import trials

    return [*language_kernels.KERNELS, *trials.trials(sample)]


def run(sample: bool, progress) -> report.Suite:
    """Every kernel on both sides. Compiling takes most of the time, on one core: several processes share the kernels."""
    wanted = jobs(sample)
    processes = 1 if sample else max(1, min(12, (os.cpu_count() or 2) - 2))
    command = [sys.executable, "-m", "validation.gpu.worker", "compare", "sample" if sample else "all"]
    results = {}

    def share(first):
        for number, line in workers.results(command, range(first, len(wanted), processes), KERNEL_S):
            results[number] = _result(wanted[number], line)
            progress(f"{len(results)} of {len(wanted)}")

    with ThreadPoolExecutor(processes) as pool:
        try:
            list(pool.map(share, range(processes)))
        except workers.NoWorker as error:
            return suite([], (f"nothing was compared: {error}",))
    return suite([results[number] for number in range(len(wanted))])


def _result(trial, line) -> Result:
    """What a worker said of a kernel; one that cannot be launched is a mismatch."""
    if "failed" in line:
        return Result(trial.family, trial.name, 0, 0, None, (f"{trial.name}: {line['failed']}",))
    errors = line["errors"] and tuple(line["errors"])
    return Result(trial.family, trial.name, line["elements"], line["different"], errors, tuple(line["problems"]))


def suite(results: list, mismatches: tuple = ()) -> report.Suite:
    """The table: a row a kernel; `mismatches` beside those of the kernels."""
    families = {}
    for result in results:
        families.setdefault(result.family, []).append(result)
    return report.Suite(
        name="device",
        title="Kernels on the GPU and on the simulator",
        columns=("kernel", "inputs", "agree", "elements", "same bits", "GPU's error", "simulator's error"),
        rows=tuple(_row(family, group) for family, group in families.items()),
        mismatches=mismatches + tuple(problem for result in results for problem in result.problems),
        notes=(
            "An error is the largest, as a fraction of what is tolerated against float64; exact means bit for bit.",
        ),
        checked=len(results),
        where=where(),
    )


def _row(family, group) -> tuple:
    elements, different = sum(r.elements for r in group), sum(r.different for r in group)
    errors = [r.errors for r in group if r.errors is not None]
    shown = [f"{max(side):.2f}" for side in zip(*errors)] if errors else ["exact", "exact"]
    same = f"{100 * (elements - different) / elements:.1f} %" if elements else "none"
    return (family, len(group), sum(r.ok for r in group), elements, same, *shown)

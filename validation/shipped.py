"""The kernels that ship, as torch users call them, watched by compute-sanitizer's four tools, which must report nothing.

| call                      | what runs                                                                              |
|---------------------------|----------------------------------------------------------------------------------------|
| `softmax`                 | forward; forward and backward                                                          |
| `rmsnorm`                 | with a weight: forward; forward and backward                                           |
| `rmsnorm with all`        | with weight, bias and residual, whose sum has a gradient too: forward and backward     |
| `layernorm`               | alone; with a weight and a bias: forward and backward                                  |
| `cross_entropy`           | a loss a row; their mean and its gradient                                              |
| `cross_entropy_with_grad` | losses and gradient at once                                                            |

Each call goes through the lengths at which the rule changes what it gives, and some others, in float32 and bfloat16. The
rows are contiguous, so those of odd lengths start anywhere; there are enough of them that a block which goes through rows
takes several turns. Every tensor is an allocation of its own, so that the first byte past one is found. Each tool watches a call
in a process of its own, `python -m validation.shipped CALL TOOL`, which is ended after `TIMEOUT_S`.

Under synccheck of compute-sanitizer 2025.3.1 a grid of clusters of 16 blocks ends with an illegal access if a block as much as
waits for an mbarrier of its own; with clusters of 8, or one cluster, it does not. So it sees one row of those that 16 blocks share.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from quack_tutorial import compiler
from quack_tutorial.kernels.layout import VECTOR_BYTES
from quack_tutorial.kernels.tuned.rule import sizes
from quack_tutorial.records import suite as report
from validation.rows import LENGTHS

TIMEOUT_S = 400
TOOLS = {
    "memcheck": ("--report-api-errors", "no"),
    "racecheck": (),
    "synccheck": (),
    "initcheck": ("--initcheck-address-space", "all"),
}
SHORT = (1, 3, 31, 64, 320, 1001, 12289)
BITS = {"float32": 32, "bfloat16": 16}
MATRIX_BYTES, LEAST_ROWS, MOST_ROWS = 16 << 20, 16, 4096
PORTABLE_BLOCKS = 8  # of a cluster


@dataclass(frozen=True)
class Call:
    """One row of the table: the operations whose tables have its lines, and `run(ops, x, rows, columns)`, which launches; `rows()`
    makes more tensors like x, which has a gradient, `columns(dtype)` vectors of its width."""

    operations: tuple[str, ...]
    run: Callable


def _softmax(ops, x, rows, columns):
    ops.softmax(x.detach())
    ops.softmax(x).backward(rows())


def _rmsnorm(ops, x, rows, columns):
    w = columns(x.dtype).requires_grad_()
    ops.rmsnorm(x.detach(), w.detach())
    ops.rmsnorm(x, w).backward(rows())


def _rmsnorm_with_all(ops, x, rows, columns):
    import torch

    w, b, r = columns(torch.float32), columns(x.dtype), rows()
    out = ops.rmsnorm(x, *(tensor.requires_grad_() for tensor in (w, b, r)))
    torch.autograd.backward(out, (rows(), rows()))


def _layernorm(ops, x, rows, columns):
    ops.layernorm(x.detach())
    w, b = (columns(x.dtype).requires_grad_() for _ in range(2))
    ops.layernorm(x, w, b).backward(rows())


def _targets(x):
    import torch

    return torch.arange(x.shape[0], device=x.device) % x.shape[1]


def _cross_entropy(ops, x, rows, columns):
    target = _targets(x)
    ops.cross_entropy(x.detach(), target, reduction="none")
    ops.cross_entropy(x, target).backward()


def _cross_entropy_with_grad(ops, x, rows, columns):
    ops.cross_entropy_with_grad(x, _targets(x))


CALLS = {
    "softmax": Call(("softmax", "softmax backward"), _softmax),
    "rmsnorm": Call(("rmsnorm", "rmsnorm backward"), _rmsnorm),
    "rmsnorm with all": Call(("rmsnorm", "rmsnorm backward"), _rmsnorm_with_all),
    "layernorm": Call(("layernorm", "layernorm backward"), _layernorm),
    "cross_entropy": Call(("cross-entropy", "cross-entropy backward"), _cross_entropy),
    "cross_entropy_with_grad": Call(("cross-entropy fused",), _cross_entropy_with_grad),
}


def cases(name: str, tool: str = "memcheck") -> list[tuple[str, int, int]]:
    """(dtype, M, N) that a call is watched at by a tool."""
    found, operations = [], CALLS[name].operations
    for dtype, bits in BITS.items():
        for N in sorted({row_bytes * 8 // bits for row_bytes in LENGTHS} | set(SHORT)):
            rows = "aligned" if N * bits % (8 * VECTOR_BYTES) == 0 else "congruent"
            blocks = max(sizes(operation, bits, N, rows).blocks_per_row for operation in operations)
            M = min(MOST_ROWS, max(LEAST_ROWS, MATRIX_BYTES * 8 // (N * bits)))
            found.append((dtype, 1 if tool == "synccheck" and blocks > PORTABLE_BLOCKS else M, N))
    return found


def where() -> dict:
    """The versions that a record depends on, with the device where there is one."""
    found = report.here()
    try:
        import torch
    except ImportError:
        return found
    if torch.cuda.is_available():
        found |= {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda}
        found |= {"dsl": compiler.DSL_VERSION}
    return found


# ---- in the process that is watched -----------------------------------------------------------------------------------

LAUNCHED, ALL_DONE = "now launching", "all calls returned"


def call(name, tool, device="cuda"):
    """Make the named call at each of its cases for that tool, and wait for each before the next."""
    import torch

    from quack_tutorial import ops

    def filled(*shape, dtype):
        return torch.randn(*shape, device=device).to(dtype)

    for dtype, M, N in cases(name, tool):
        rows = partial(filled, M, N, dtype=getattr(torch, dtype))
        print(LAUNCHED, f"{dtype} {M} x {N}", flush=True)
        CALLS[name].run(ops, rows().requires_grad_(), rows, lambda of, N=N: filled(N, dtype=of))
        if device == "cuda":
            torch.cuda.synchronize()
    print(ALL_DONE, flush=True)


# ---- what compute-sanitizer says --------------------------------------------------------------------------------------

BANNER = "========= "
SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)")
NOT_A_REPORT = (
    "COMPUTE-SANITIZER",
    "Saved host backtrace",
    "ERROR SUMMARY",
    "RACECHECK SUMMARY",
    "LEAK SUMMARY",
    "and ",
)
PLACE = re.compile(r"\s+at \S+\+0x[0-9a-fA-F]+(?: in \S+)?")


def what_is_wrong(text: str) -> str:
    """The first report with the case that was launched last before it, or that the process ended before its last case; else ""."""
    lines = text.splitlines()
    reports = [k for k, line in enumerate(lines) if _begins_a_report(line)]
    if reports:
        first, *rest = (line.removeprefix(BANNER).strip() for line in lines[reports[0] :])
        said = " ".join([first, *(line for line in rest[:1] if line.startswith("and "))])  # of a race the other access
        said = PLACE.sub("", re.sub(r"^(?:ERROR|Error|WARN|Warning): | \[\d+ hazards?\]", "", said))
        lines = lines[: reports[0]]
    else:
        found = SUMMARY.search(text)
        if found and found.group(1) == "0" and ALL_DONE in lines:
            return ""
        said = (
            "ended early" if found and found.group(1) == "0" else "errors without a report" if found else "no summary"
        )
    before = [line.removeprefix(LAUNCHED).strip() for line in lines if line.startswith(LAUNCHED)]
    return f"{said.strip().rstrip('.:')} ({before[-1] if before else 'before the first launch'})"


def _begins_a_report(line: str) -> bool:
    """Whether a line is the first of a report: with the banner, not indented, and not about the run as a whole."""
    said = line.removeprefix(BANNER)
    return (
        said != line and bool(said) and not said[0].isspace() and said[0] != "=" and not said.startswith(NOT_A_REPORT)
    )


def asked(tools, progress) -> tuple[dict, str]:
    """({(call, tool): (what it reports, "" for nothing, of how many cases)}, "") or ({}, why compute-sanitizer cannot be asked)."""
    sanitizer, found = shutil.which("compute-sanitizer"), {}
    problem = compiler.dsl_problem() or compiler.gpu_problem() if sanitizer else "it is not on the PATH"
    if problem:
        return {}, f"compute-sanitizer was not asked: {problem}"

    def output(job):
        name, tool = job
        watched = [sys.executable, "-m", "validation.shipped", name, tool]
        text = _output([sanitizer, "--tool", tool, *TOOLS[tool], "--print-limit", "5", *watched])
        if "nrecogni" in text and "initcheck-address-space" in text:  # before CUDA 13 it knows global memory only
            text = _output([sanitizer, "--tool", tool, "--print-limit", "5", *watched])
        return text

    jobs = [(name, tool) for name in CALLS for tool in tools]
    # Importing and compiling take most of a job's time, on one core.
    with ThreadPoolExecutor(max(1, min(14, (os.cpu_count() or 2) - 2))) as pool:
        for (name, tool), text in zip(jobs, pool.map(output, jobs)):
            progress(f"compute-sanitizer --tool {tool}: {name}")
            found[name, tool] = what_is_wrong(text), sum(line.startswith(LAUNCHED) for line in text.splitlines())
    return found, ""


def _output(command) -> str:
    """What a command and its children say; they are ended after `TIMEOUT_S`."""
    # Each tensor an allocation of its own, or memcheck would see one large one.
    environment = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
        start_new_session=True,
    )
    try:
        return process.communicate(timeout=TIMEOUT_S)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return f"{process.communicate()[0]}\n{BANNER}Did not end in {TIMEOUT_S} s\n"


# ---- the suite ------------------------------------------------------------------------------------------------------


def run(sample: bool, progress) -> report.Suite:
    """Every call under every tool; a sample asks memcheck alone."""
    tools = list(TOOLS)[:1] if sample else list(TOOLS)
    said, problem = asked(tools, progress)
    mismatches = [problem] if problem else []
    mismatches += [f"{name}, {tool}: {wrong}" for (name, tool), (wrong, _) in said.items() if wrong]
    rows = []
    for name in CALLS:
        wrongs = (said.get((name, tool), ("not asked",))[0] for tool in TOOLS)
        rows.append((name, len(cases(name)), *(wrong or "nothing" for wrong in wrongs)))
    return report.Suite(
        name="shipped",
        title="The kernels that ship under compute-sanitizer",
        columns=("call", "types and lengths", *TOOLS),
        rows=tuple(rows),
        mismatches=tuple(mismatches),
        notes=(f"synccheck saw one row of those that more than {PORTABLE_BLOCKS} blocks share, the others many",),
        checked=sum(launched for _, launched in said.values()),
        where=where() if said else None,
    )


if __name__ == "__main__":
    call(*sys.argv[1:])

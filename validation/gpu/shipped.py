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
takes several turns. Every tensor is an allocation of its own, so that the first byte past one is found.

Under synccheck of compute-sanitizer 2025.3.1 a grid of clusters of 16 blocks ends with an illegal access if a block as much as
waits for an mbarrier of its own; with clusters of 8, or one cluster, it does not. So it sees one row of those that 16 blocks share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from quack_tutorial.kernels.layout import VECTOR_BYTES
from quack_tutorial.kernels.tuned.rule import sizes
from quack_tutorial.records import suite as report
from validation.gpu.sanitizer import TOOLS, first_report, said_by, watched
from validation.rows import LENGTHS
from validation.workers import ALL_DONE, LAUNCHED

TIMEOUT_S = 400
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


# ---- the suite ------------------------------------------------------------------------------------------------------


def run(sample: bool, progress) -> report.Suite:
    """Every call under every tool; a sample asks memcheck alone."""
    from validation.gpu.device import where

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


def asked(tools, progress) -> tuple[dict, str]:
    """({(call, tool): (what it reports, "" for nothing, of how many cases)}, "") or ({}, why compute-sanitizer cannot be asked)."""
    jobs = [(name, tool) for name in CALLS for tool in tools]
    said, problem = watched("calls", jobs, lambda name: TIMEOUT_S, progress)
    launches = lambda text: sum(line.startswith(LAUNCHED) for line in text.splitlines())  # noqa: E731
    return {job: (what_is_wrong(text), launches(text)) for job, text in said.items()}, problem


def what_is_wrong(text: str) -> str:
    """The first report with the case that was launched last before it, or that the worker ended before its last case; else ""."""
    first, lines = said_by(text), text.splitlines()
    if not first and ALL_DONE in lines:
        return ""
    until = first_report(lines) if first else len(lines)
    before = [line.removeprefix(LAUNCHED).strip() for line in lines[:until] if line.startswith(LAUNCHED)]
    return f"{first or 'ended early'} ({before[-1] if before else 'before the first launch'})"

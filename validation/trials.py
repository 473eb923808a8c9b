"""The package's kernels on inputs that a GPU and the simulator can both be given, with the error of each output.

| kernels                                | outputs                       | right if                                   |
|----------------------------------------|-------------------------------|--------------------------------------------|
| the copies                             | out                           | bit for bit the input                      |
| softmax in three versions, its backward | out; dx                       | within `reference`'s tolerance of float64 |
| RMSNorm, its backward in two launches  | out, residual out, rstd; dx, parts of dw and db; dw | the same               |
| LayerNorm, its backward               | out, mean, rstd; dx, parts of dw and db | the same                         |
| cross-entropy, its backward, both fused | loss, lse; dx; loss, dx       | the same                                   |

Inputs are CPU torch tensors, rows one after another, so that rows of an odd length start anywhere. Outputs are poisoned.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from quack_tutorial import reference
from quack_tutorial.kernels import copy
from quack_tutorial.kernels import softmax as lessons
from quack_tutorial.kernels.tuned import cross_entropy, layernorm, norm_backward, rmsnorm, softmax
from quack_tutorial.kernels.tuned.layernorm_backward import layernorm_backward
from quack_tutorial.kernels.tuned.rmsnorm_backward import rmsnorm_backward
from validation.staged_copy import StagedCopy

POISON = 77.0
EPS = 1e-6
IGNORED = -100
DTYPES = ("float32", "bfloat16", "float16")
ELEMENT = {"float32": "Float32", "bfloat16": "BFloat16", "float16": "Float16"}
SIZES = (31, 257, 1000, 4096)
LONG_ROW = 65536  # of a cluster
ROWS = 5


@dataclass(frozen=True)
class Trial:
    """One host function on one input.

    `arguments()` gives fresh arguments; `outputs` are the positions of those that are written; `error(arguments)` gives
    the largest error of them all as a fraction of the tolerance, and is None where every bit is known: `exact(arguments)`
    gives (result, what it must be).
    """

    family: str
    name: str
    host: object
    arguments: object
    outputs: tuple
    error: object = None
    exact: object = None


def trials(sample: bool = False) -> list:
    """Every kernel, type and size; a few of them as a sample."""
    sizes = [(dtype, N) for dtype in DTYPES for N in SIZES]
    found = [trial for dtype, N in sizes for make in MAKERS for trial in make(dtype, N)]
    found += [trial for dtype in DTYPES[:2] for make in ROW_MAKERS for trial in make(dtype, LONG_ROW)]
    return found[::20] if sample else found


def element(dtype):
    """The type in CuTe DSL."""
    return getattr(softmax.cutlass, ELEMENT[dtype])


def promise(dtype, N) -> str:
    """What rows of N, one after another, allow to promise."""
    return "aligned" if N * getattr(torch, dtype).itemsize % 16 == 0 else "congruent"


def numbers(name, dtype, *shape, spread=1.0):
    """Normally distributed numbers that depend on the name and shape alone."""
    seed = sum(ord(c) * (i + 1) for i, c in enumerate(name)) + sum(shape)
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return (x * spread).to(getattr(torch, dtype))


def poisoned(dtype, *shape):
    return torch.full(shape, POISON, dtype=getattr(torch, dtype))


def f64(tensor):
    return tensor.double().numpy()


def rows_for(N) -> int:
    return ROWS if N < LONG_ROW else 2


def copies(dtype, N):
    made = element(dtype)
    versions = {"elements": copy.CopyVectors(made, N, 0), "vectors": copy.CopyVectors(made, N)}
    versions |= {name: make(made, N) for name, make in copy.LADDER.items() if make is not copy.CopyVectors}
    if N * getattr(torch, dtype).itemsize % 4 == 0:
        versions["cp.async"] = StagedCopy(made, N)
    for version, host in versions.items():
        yield Trial(
            f"copy, {version}",
            f"copy, {version}, {dtype}, {ROWS} x {N}",
            host,
            lambda: (numbers("copy", dtype, ROWS, N), poisoned(dtype, ROWS, N)),
            (1,),
            exact=lambda arguments: (arguments[1], arguments[0]),
        )


def ladder(dtype, N):
    for version, host in {"three-pass": lessons.SoftmaxThreePass(), "online": lessons.SoftmaxOnline()}.items():
        yield _softmax(f"softmax, {version}", host, dtype, N)


def softmaxes(dtype, N):
    yield _softmax("softmax", softmax.Softmax(element(dtype), N, promise=promise(dtype, N)), dtype, N)
    M = rows_for(N)

    def arguments():
        y = torch.softmax(numbers("y", "float32", M, N, spread=2.0), -1).to(getattr(torch, dtype))
        return y, numbers("dy", dtype, M, N), poisoned(dtype, M, N)

    yield Trial(
        "softmax backward",
        f"softmax backward, {dtype}, {M} x {N}",
        softmax.SoftmaxBackward(element(dtype), N, promise=promise(dtype, N)),
        arguments,
        (2,),
        lambda arguments: reference.softmax_backward_error(*map(f64, arguments), dtype),
    )


def _softmax(family, host, dtype, N):
    M = rows_for(N)
    return Trial(
        family,
        f"{family}, {dtype}, {M} x {N}",
        host,
        lambda: (numbers("softmax", dtype, M, N, spread=4.0), poisoned(dtype, M, N)),
        (1,),
        lambda arguments: reference.softmax_error(*map(f64, arguments), dtype),
    )


def rmsnorms(dtype, N):
    M, rows = rows_for(N), promise(dtype, N)
    made, w32 = element(dtype), element("float32")

    yield Trial(
        "rmsnorm",
        f"rmsnorm, {dtype}, {M} x {N}",
        rmsnorm.RMSNorm(made, N, rows, weight=w32, rstd=True),
        lambda: (
            numbers("x", dtype, M, N),
            numbers("w", "float32", N),
            None,
            None,
            poisoned(dtype, M, N),
            None,
            poisoned("float32", M),
            EPS,
        ),
        (4, 6),
        lambda a: max(
            reference.rmsnorm_error(f64(a[0]), f64(a[4]), dtype, weight=f64(a[1]), eps=EPS),
            reference.rmsnorm_rstd_error(f64(a[0]), f64(a[6]), eps=EPS),
        ),
    )
    yield Trial(
        "rmsnorm with bias and residual",
        f"rmsnorm with bias and residual, {dtype}, {M} x {N}",
        rmsnorm.RMSNorm(made, N, rows, weight=w32, bias=w32, residual=made, residual_out=w32),
        lambda: (
            numbers("x", dtype, M, N),
            numbers("w", "float32", N),
            numbers("b", "float32", N),
            numbers("r", dtype, M, N),
            poisoned(dtype, M, N),
            poisoned("float32", M, N),
            None,
            EPS,
        ),
        (4, 5),
        lambda a: reference.rmsnorm_error(
            f64(a[0]), f64(a[4]), dtype, weight=f64(a[1]), bias=f64(a[2]), residual=f64(a[3]), eps=EPS
        ),
    )

    def backward_arguments():
        x = numbers("x", dtype, M, N)
        rstd = torch.rsqrt(x.double().square().mean(-1) + EPS).float()
        return (
            x,
            numbers("w", "float32", N),
            numbers("dy", dtype, M, N),
            None,
            rstd,
            poisoned(dtype, M, N),
            poisoned("float32", 8, N),  # a multiple of 8, so that rows that start anywhere keep their columns
            None,
        )

    def backward_error(a):
        x, w, dy, rstd, dx = (f64(a[i]) for i in (0, 1, 2, 4, 5))
        of_dx = reference.rmsnorm_dx_error(x, dy, dx, dtype, weight=w, rstd=rstd)
        return max(of_dx, reference.rmsnorm_dw_error(x, dy, f64(a[6].double().sum(0)), "float32", rstd=rstd))

    yield Trial(
        "rmsnorm backward",
        f"rmsnorm backward, {dtype}, {M} x {N}",
        rmsnorm_backward(made, N, rows, weight=w32),
        backward_arguments,
        (5, 6),
        backward_error,
    )


def layernorms(dtype, N):
    M, rows, made = rows_for(N), promise(dtype, N), element(dtype)

    yield Trial(
        "layernorm",
        f"layernorm, {dtype}, {M} x {N}",
        layernorm.LayerNorm(made, N, rows, weight=made, bias=made, stats=True),
        lambda: (
            numbers("x", dtype, M, N) + 1,
            numbers("w", dtype, N),
            numbers("b", dtype, N),
            poisoned(dtype, M, N),
            poisoned("float32", M),
            poisoned("float32", M),
            EPS,
        ),
        (3, 4, 5),
        lambda a: max(
            reference.layernorm_error(f64(a[0]), f64(a[3]), dtype, f64(a[1]), f64(a[2]), EPS),
            reference.layernorm_stats_error(f64(a[0]), f64(a[4]), f64(a[5]), EPS),
        ),
    )

    def backward_arguments():
        x = numbers("x", dtype, M, N) + 1
        variance, mean = torch.var_mean(x.double(), -1, correction=0)
        rstd = torch.rsqrt(variance + EPS).float()
        w, dy, dx = numbers("w", dtype, N), numbers("dy", dtype, M, N), poisoned(dtype, M, N)
        return x, w, dy, mean.float(), rstd, dx, poisoned("float32", 8, N), poisoned("float32", 8, N)

    def backward_error(a):
        x, w, dy, mean, rstd, dx = map(f64, a[:6])
        return max(
            reference.layernorm_dx_error(x, dy, dx, dtype, w, mean, rstd),
            reference.layernorm_dw_error(x, dy, f64(a[6].double().sum(0)), "float32", mean, rstd),
            reference.rmsnorm_db_error(dy, f64(a[7].double().sum(0)), "float32"),
        )

    yield Trial(
        "layernorm backward",
        f"layernorm backward, {dtype}, {M} x {N}",
        layernorm_backward(made, N, rows, weight=made),
        backward_arguments,
        (5, 6, 7),
        backward_error,
    )


def column_sums(dtype, N):
    if dtype == "float32":
        yield Trial(
            "sum of the parts of dw",
            f"sum of the parts of dw, 8 x {N}",
            norm_backward.ColumnSum(N, element(dtype)),
            lambda: (numbers("parts", "float32", 8, N), poisoned("float32", N)),
            (1,),
            # The gradient of a bias is just that: a sum of columns.
            lambda arguments: reference.rmsnorm_db_error(*map(f64, arguments), dtype),
        )


def cross_entropies(dtype, N):
    M, rows, made = rows_for(N), promise(dtype, N), element(dtype)

    def logits_and_targets():
        target = torch.randint(N, (M,), generator=torch.Generator().manual_seed(N))
        target[1] = IGNORED
        return numbers("logits", dtype, M, N, spread=3.0), target

    def loss_error(a):
        return reference.cross_entropy_error(f64(a[0]), a[1].numpy(), f64(a[2]), "float32", IGNORED)

    yield Trial(
        "cross-entropy",
        f"cross-entropy, {dtype}, {M} x {N}",
        cross_entropy.CrossEntropy(made, N, rows, lse=True),
        lambda: (*logits_and_targets(), poisoned("float32", M), poisoned("float32", M), IGNORED),
        (2, 3),
        lambda a: max(loss_error(a), reference.logsumexp_error(f64(a[0]), f64(a[3]))),
    )

    def backward_arguments():
        x, target = logits_and_targets()
        return (
            x,
            target,
            numbers("dloss", "float32", M),
            torch.logsumexp(x.double(), -1).float(),
            poisoned(dtype, M, N),
            None,
            IGNORED,
        )

    yield Trial(
        "cross-entropy backward",
        f"cross-entropy backward, {dtype}, {M} x {N}",
        cross_entropy.CrossEntropyBackward(made, N, rows),
        backward_arguments,
        (4,),
        lambda a: reference.cross_entropy_backward_error(
            f64(a[0]), a[1].numpy(), f64(a[2]), f64(a[4]), dtype, f64(a[3]), IGNORED
        ),
    )
    yield Trial(
        "cross-entropy with its gradient",
        f"cross-entropy with its gradient, {dtype}, {M} x {N}",
        cross_entropy.CrossEntropyFused(made, N, rows),
        lambda: (*logits_and_targets(), poisoned("float32", M), None, poisoned(dtype, M, N), IGNORED),
        (2, 4),
        lambda a: max(
            loss_error(a),
            reference.cross_entropy_backward_error(
                f64(a[0]), a[1].numpy(), 1.0, f64(a[4]), dtype, ignore_index=IGNORED
            ),
        ),
    )


ROW_MAKERS = (softmaxes, rmsnorms, layernorms, cross_entropies)
MAKERS = (copies, ladder, column_sums, *ROW_MAKERS)

"""The package's kernels on inputs that a GPU and the simulator can both be given, with the error of each output.

| kernels                          | right if                                              |
|----------------------------------|-------------------------------------------------------|
| the copies                       | every bit of the output is the input's                |
| the first versions of softmax    | within `reference`'s tolerance of float64             |
| those that ship, and column sums | the same, for each output (`quack_tutorial.operations`) |

Inputs are CPU torch tensors, rows one after another, so that rows of an odd length start anywhere. Outputs are poisoned.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from quack_tutorial import card, reference
from quack_tutorial.kernels import copy
from quack_tutorial.kernels import softmax as lessons
from quack_tutorial.shipped import KERNELS, TARGETS, column_sum, element, type_of
from validation import outputs
from validation.outputs import Case

POISON = 77.0
IGNORED = -100
DTYPES = ("float32", "bfloat16", "float16")
SIZES = (31, 257, 1000)
ROWS = 5
# The operations' plainer calls: what they are called here, which tensors are absent, which have a type of their own.
WITHOUT = {
    "rmsnorm": (" alone", ("b", "residual"), (("w", "float32"),)),
    "rmsnorm backward": (" alone", ("dh", "db"), (("w", "float32"),)),
}


def trials() -> list:
    """Every kernel, type and size."""
    sizes = [(dtype, N) for dtype in DTYPES for N in SIZES]
    return [trial for dtype, N in sizes for make in MAKERS for trial in make(dtype, N)]


def promise(dtype, N) -> str:
    """What rows of N, one after another, allow to promise."""
    return "aligned" if N * getattr(torch, dtype).itemsize % 16 == 0 else "congruent"


def numbers(name, dtype, *shape, spread=1.0):
    """Normally distributed numbers that depend on the name and shape alone."""
    seed = sum(ord(c) * (i + 1) for i, c in enumerate(name)) + sum(shape)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return (x * spread).to(getattr(torch, dtype))


def poisoned(dtype, *shape):
    return torch.full(shape, POISON, dtype=getattr(torch, dtype))


def f64(tensor):
    return tensor.double().numpy()


def copies(dtype, N):
    made = element(dtype)
    versions = {"elements": copy.CopyVectors(made, N, 0), "vectors": copy.CopyVectors(made, N)}
    versions |= {name: make(made, N) for name, make in copy.LADDER.items() if make is not copy.CopyVectors}
    given = lambda: (numbers("copy", dtype, ROWS, N), poisoned(dtype, ROWS, N))  # noqa: E731
    error = lambda arguments: 0.0 if arguments[1].equal(arguments[0]) else float("inf")  # noqa: E731
    for version, host in versions.items():
        yield Case(f"copy, {version}, {dtype}, {ROWS} x {N}", host, given, error)


def ladder(dtype, N):
    given = lambda: (numbers("softmax", dtype, ROWS, N, spread=4.0), poisoned(dtype, ROWS, N))  # noqa: E731
    error = lambda arguments: reference.softmax_error(*map(f64, arguments), dtype)  # noqa: E731
    for version, host in {"three-pass": lessons.SoftmaxThreePass(), "online": lessons.SoftmaxOnline()}.items():
        yield Case(f"softmax, {version}, {dtype}, {ROWS} x {N}", host, given, error)


def shipped(dtype, N):
    """The kernels that ship: each with every tensor that it can be given, and those of `WITHOUT` as well."""
    for kernel in KERNELS.values():
        yield trial_of(kernel, dtype, N)
        if kernel.name in WITHOUT:
            yield trial_of(kernel, dtype, N, *WITHOUT[kernel.name])


def trial_of(kernel, dtype, N, said="", absent=(), types=()):
    """A kernel that ships as a trial; `types` are those of tensors that have not the row's."""
    draw = Draw(dtype, absent, dict(types))
    return Case(
        f"{kernel.name}{said}, {dtype}, {ROWS} x {N}",
        kernel.host(kernel.arguments(ROWS, N, draw), promise(dtype, N), card=card.selected()),
        lambda: kernel.positional(kernel.arguments(ROWS, N, draw)),
        lambda found: outputs.error(kernel, dict(zip(kernel.parameters, found, strict=True))),
    )


@dataclass(frozen=True)
class Draw:
    """CPU torch tensors as a kernel's arguments, see `Kernel.arguments`; the numbers depend on names and shapes alone."""

    dtype: str
    absent: tuple
    types: dict

    def has(self, group) -> bool:
        return group[0] not in self.absent

    def parts(self) -> int:
        return 8  # so that rows that start anywhere keep their columns

    def normal(self, name, shape):
        return f64(numbers(name, "float32", *shape))

    def targets(self, M, N):
        target = torch.randint(N, (M,), generator=torch.Generator().manual_seed(N))
        target[1] = IGNORED
        return target

    def place(self, name, kind, values, shape):
        if kind == TARGETS:
            return values
        dtype = self.types.get(name) or type_of(kind, self.dtype)
        return poisoned(dtype, *shape) if values is None else torch.tensor(values).to(getattr(torch, dtype))


def column_sums(dtype, N):
    if dtype == "float32":
        yield Case(
            f"sum of the parts of dw, 8 x {N}",
            column_sum(N, dtype, card.selected())[0],
            lambda: (numbers("parts", "float32", 8, N), poisoned("float32", N)),
            # The gradient of a bias is just that: a sum of columns.
            lambda arguments: reference.rmsnorm_db_error(*map(f64, arguments), dtype),
        )


MAKERS = (copies, ladder, column_sums, shipped)

"""Every version of every ladder gives the same results: float64's, within what `reference` tolerates, and is clean."""

from importlib import import_module

import numpy as np
import pytest

from cutesim.simulation import simulate
from quack_tutorial import reference
from quack_tutorial.kernels import rmsnorm, softmax
from quack_tutorial.operations import OPERATIONS
from quack_tutorial.shipped import TARGETS, type_of
from tests.kernels.test_simulated import DslType, make, poisoned

SIZES = ((1, 1), (3, 2), (5, 31), (2, 64), (2, 257), (3, 1000), (2, 4096))
SMS = 2  # of the GPU that persistent kernels are set up for
# One thread has a whole row: RMSNorm's rounds after each of N additions, for short rows within the tolerance of a tree; softmax's
# only goes round the same loop more often.
LONGEST = {rmsnorm.RMSNormThread: 33, softmax.SoftmaxThread: 1000}


class Draw:
    """Arguments of a version, see `Kernel.arguments`: all that it takes, numbers of its type."""

    def __init__(self, host, M, dtype, rng):
        self.host, self.M, self.dtype, self.rng = host, M, dtype, rng

    def has(self, group):
        return True

    def parts(self):
        # Of kernels that ship a multiple of 8, so that a block's rows start alike.
        most = 8 if hasattr(self.host, "most_parts") else SMS
        return self.host.parts_of(self.M, most) if hasattr(self.host, "parts_of") else 1

    def normal(self, name, shape):
        return self.rng.standard_normal(shape)

    def targets(self, M, N):
        return self.rng.integers(0, N, M)

    def place(self, name, kind, values, shape):
        dtype = type_of(kind, self.dtype)
        if name == "dw" and not self.host.leaves_parts:
            values = np.zeros(shape)
        if kind == TARGETS:
            return values
        return poisoned(shape, dtype) if values is None else make(values, dtype)[0]


def tables(operation):
    """The versions of an operation's ladder as the lesson has them."""
    family, _, backward = operation.partition(" ")
    module = import_module(f"quack_tutorial.kernels.{family.replace('-', '_')}")
    return getattr(module, "BACKWARD_LADDER" if backward else "LADDER", {})


def check(operation, version, host, M, N, dtype, rng):
    """(the run, the largest error over what is tolerated) of a version's host object."""
    ours, draw = OPERATIONS[operation].ladder[version], Draw(host, M, dtype, rng)
    kernel = ours.kernel
    every = kernel.arguments(M, N, draw).items()
    given = {name: array for name, array in every if name in ours.arguments}
    by_name = dict(zip(kernel.parameters, kernel.positional(given)))
    run = simulate(host, *(by_name[name] for name in ours.arguments))
    return run, kernel.error(given)


TAUGHT = [name for name, operation in OPERATIONS.items() if operation.ladder]
VERSIONS = [(name, version) for name in TAUGHT for version in tables(name)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("ladder, version", VERSIONS)
def test_a_version_is_right_and_clean(ladder, version, dtype):
    table, rng = tables(ladder), np.random.default_rng(1)
    checked = 0
    for M, N in SIZES:
        try:
            kernel = table[version](DslType(dtype), N)
        except ValueError as refused:
            halves = dtype != "float32"
            odd = "cp.async moves 4, 8 or 16 bytes" in str(refused) and halves and N % 2
            whole = N % (8 if halves else 4) == 0
            short = "bulk copies cannot move them" in str(refused) and N < 64
            assert odd or (not whole and (short or "bulk copies move whole vectors" in str(refused)))
            continue
        if N > LONGEST.get(type(kernel), N):
            continue
        run, error = check(ladder, version, kernel, M, N, dtype, rng)
        assert run.ok, run
        assert error <= 1, (M, N)
        checked += 1
    assert checked >= 3


def from_cluster_on(module):
    versions = list(module.LADDER)
    return versions[versions.index("cluster") :]


EVEN = (("float32", 4096, 4096), ("bfloat16", 3072, 1024))
RAGGED = (("bfloat16", 3000, 1024), ("float32", 1004, 512))


@pytest.mark.parametrize("module, version", [(m, v) for m in (softmax, rmsnorm) for v in from_cluster_on(m)])
def test_from_cluster_on_the_blocks_share_a_row(module, version):
    for dtype, N, block_bytes in EVEN + (RAGGED if version == "cluster" else ()):
        shares_a_row(module, version, dtype, N, block_bytes)


def shares_a_row(module, version, dtype, N, block_bytes):
    kernel = module.LADDER[version](DslType(dtype), N, block_bytes=block_bytes)
    assert getattr(kernel, "config", kernel).blocks_per_row in (4, 8)
    run, error = check(module.__name__.rpartition(".")[2], version, kernel, 2, N, dtype, np.random.default_rng(2))
    assert run.ok, run
    assert error <= 1


@pytest.mark.parametrize("version", softmax.LADDER)
def test_hard_rows_of_softmax_are_what_torch_makes_of_them(version):
    N, inf = 257 if version == "thread" else 2048, np.inf
    x = np.zeros((5, N), np.float32)
    x[0] = -inf
    x[1, : N // 2] = -inf  # whole warps, and a whole block of a cluster
    x[2, 5], x[3, 7] = np.nan, inf
    x[4] = np.linspace(-1e30, 1e30, N)
    out = np.full_like(x, np.nan)
    options = {"block_bytes": 4096} if version in from_cluster_on(softmax) else {}
    assert simulate(softmax.LADDER[version](DslType("float32"), N, **options), x, out).ok
    assert np.isnan(out[[0, 2, 3]]).all()
    assert reference.softmax_error(x[[1, 4]], out[[1, 4]], "float32") <= 1


def test_the_benchmark_names_the_versions_there_are():
    for name, operation in OPERATIONS.items():
        found = list(operation.ladder)
        assert found == ([*tables(name), "what ships"] if operation.ladder else []), name

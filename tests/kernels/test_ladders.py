"""Every version of every ladder gives the same results: float64's, within what `reference` tolerates, and is clean."""

import numpy as np
import pytest

from quack_tutorial import reference
from quack_tutorial.kernels import copy, cross_entropy, layernorm, rmsnorm, softmax
from quack_tutorial.simulation import simulate
from tests.simulator.test_kernels import DslType, make, numbers, poisoned

SIZES = ((1, 1), (3, 2), (5, 31), (2, 64), (2, 257), (3, 1000), (2, 4096))
EPS = 1e-6
SMS = 2  # of the GPU that persistent kernels are set up for
# One thread adds up a whole row, and float32 rounds after each of N additions: for short rows within the tolerance of a tree.
LONGEST = {rmsnorm.RMSNormThread: 33}


def check_softmax(kernel, M, N, dtype, rng):
    x, exact = make(rng.standard_normal((M, N)) * 4, dtype)
    out = poisoned((M, N), dtype)
    return simulate(kernel, x, out), lambda: [reference.softmax_error(exact, numbers(out), dtype)]


def check_rmsnorm(kernel, M, N, dtype, rng):
    (x, exact), (w, weight) = make(rng.standard_normal((M, N)) * 4, dtype), make(rng.standard_normal(N), dtype)
    out = poisoned((M, N), dtype)
    run = simulate(kernel, x, w, out, EPS)
    return run, lambda: [reference.rmsnorm_error(exact, numbers(out), dtype, weight, eps=EPS)]


def check_rmsnorm_backward(kernel, M, N, dtype, rng):
    (x, exact), (dy, gradient) = (make(rng.standard_normal((M, N)), dtype) for _ in range(2))
    w, rstd = rng.standard_normal(N).astype(np.float32), reference.rmsnorm_rstd(exact, eps=EPS).astype(np.float32)
    most = (
        8 if hasattr(kernel, "most_parts") else SMS
    )  # of kernels that ship a multiple of 8, so that a block's rows start alike
    dx, parts = poisoned((M, N), dtype), np.full((kernel.parts_of(M, most), N), np.nan, np.float32)
    if not kernel.finishes_dw:
        parts[...] = 0
    run = simulate(kernel, x, w, dy, rstd, dx, parts)
    return run, lambda: [
        reference.rmsnorm_dx_error(exact, gradient, numbers(dx), dtype, w, rstd=rstd),
        reference.rmsnorm_dw_error(exact, gradient, parts.astype(np.float64).sum(axis=0), "float32", rstd=rstd),
    ]


def check_layernorm(kernel, M, N, dtype, rng):
    # A mean far from 0, as large as the spread: a column that is not there must not count as one at a distance of it.
    x, exact = make(rng.standard_normal((M, N)) * 4 + 5, dtype)
    (w, weight), (b, bias) = (make(rng.standard_normal(N), dtype) for _ in range(2))
    out = poisoned((M, N), dtype)
    run = simulate(kernel, x, w, b, out, EPS)
    return run, lambda: [reference.layernorm_error(exact, numbers(out), dtype, weight, bias, EPS)]


def check_cross_entropy(kernel, M, N, dtype, rng):
    x, exact = make(rng.standard_normal((M, N)) * 4, dtype)
    target, loss = rng.integers(0, N, M), np.full(M, np.nan, np.float32)
    return simulate(kernel, x, target, loss), lambda: [reference.cross_entropy_error(exact, target, loss)]


def check_cross_entropy_backward(kernel, M, N, dtype, rng):
    x, exact = make(rng.standard_normal((M, N)) * 4, dtype)
    target, dloss = rng.integers(0, N, M), rng.random(M).astype(np.float32)
    lse, dx = reference.logsumexp(exact).astype(np.float32), poisoned((M, N), dtype)
    run = simulate(kernel, x, target, dloss, lse, dx)
    return run, lambda: [reference.cross_entropy_backward_error(exact, target, dloss, numbers(dx), dtype, lse)]


LADDERS = {
    "softmax": (softmax.LADDER, check_softmax),
    "rmsnorm": (rmsnorm.LADDER, check_rmsnorm),
    "rmsnorm backward": (rmsnorm.BACKWARD_LADDER, check_rmsnorm_backward),
    "layernorm": (layernorm.LADDER, check_layernorm),
    "cross-entropy": (cross_entropy.LADDER, check_cross_entropy),
    "cross-entropy backward": (cross_entropy.BACKWARD_LADDER, check_cross_entropy_backward),
}
VERSIONS = [(name, version) for name, (table, _) in LADDERS.items() for version in table]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("ladder, version", VERSIONS)
def test_a_version_is_right_and_clean(ladder, version, dtype):
    table, check = LADDERS[ladder]
    rng = np.random.default_rng(1)
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
        run, errors = check(kernel, M, N, dtype, rng)
        assert run.ok, run
        assert max(errors()) <= 1, (M, N, errors())
        checked += 1
    assert checked >= 3


@pytest.mark.parametrize("module", [softmax, rmsnorm])
@pytest.mark.parametrize(
    "dtype, N, block_bytes", [("float32", 4096, 4096), ("bfloat16", 3000, 1024), ("float32", 1004, 512)]
)
def test_the_blocks_of_a_cluster_share_a_row(module, dtype, N, block_bytes):
    kernel = module.LADDER["cluster"](DslType(dtype), N, block_bytes=block_bytes)
    assert kernel.blocks_per_row in (4, 8)
    run, errors = LADDERS[module.__name__.rpartition(".")[2]][1](kernel, 2, N, dtype, np.random.default_rng(2))
    assert run.ok, run
    assert max(errors()) <= 1


AFTER_CLUSTER = [
    (module, version)
    for module in (softmax, rmsnorm)
    for version in list(module.LADDER)[list(module.LADDER).index("cluster") + 1 :]
]


@pytest.mark.parametrize("module, version", AFTER_CLUSTER)
@pytest.mark.parametrize("dtype, N, block_bytes", [("float32", 4096, 4096), ("bfloat16", 3072, 1024)])
def test_and_so_they_do_after_it(module, version, dtype, N, block_bytes):
    kernel = module.LADDER[version](DslType(dtype), N, block_bytes=block_bytes)
    assert getattr(kernel, "config", kernel).blocks_per_row in (4, 8)
    run, errors = LADDERS[module.__name__.rpartition(".")[2]][1](kernel, 2, N, dtype, np.random.default_rng(2))
    assert run.ok, run
    assert max(errors()) <= 1


@pytest.mark.parametrize("version", softmax.LADDER)
def test_hard_rows_of_softmax_are_what_torch_makes_of_them(version):
    N, inf = 2048, np.inf
    x = np.zeros((5, N), np.float32)
    x[0] = -inf
    x[1, : N // 2] = -inf  # whole warps, and a whole block of a cluster
    x[2, 5], x[3, 7] = np.nan, inf
    x[4] = np.linspace(-1e30, 1e30, N)
    out = np.full_like(x, np.nan)
    versions = list(softmax.LADDER)
    options = {"block_bytes": 4096} if version in versions[versions.index("cluster") :] else {}
    assert simulate(softmax.LADDER[version](DslType("float32"), N, **options), x, out).ok
    assert np.isnan(out[[0, 2, 3]]).all()
    assert reference.softmax_error(x[[1, 4]], out[[1, 4]], "float32") <= 1


def test_rows_that_do_not_fit_are_refused_in_a_sentence():
    float32 = DslType("float32")
    with pytest.raises(ValueError, match="262144 elements on 1024 threads are 256 each, and a thread holds up to 128"):
        softmax.SoftmaxRegisters(float32, 262144)
    with pytest.raises(
        ValueError, match="a tile of 1 x 65536 elements is 262144 bytes, and a block has 232448 of shared"
    ):
        rmsnorm.RMSNormAsync(float32, 65536)
    assert softmax.SoftmaxCluster(float32, 262144).blocks_per_row == 16


def test_the_benchmark_names_the_versions_there_are():
    from quack_tutorial.operations import OPERATIONS

    modules = {
        module.__name__.rpartition(".")[2]: module for module in (copy, softmax, rmsnorm, layernorm, cross_entropy)
    }
    for name, operation in OPERATIONS.items():
        family, _, backward = name.partition(" ")
        there = getattr(modules[family.replace("-", "_")], "BACKWARD_LADDER" if backward else "LADDER", {})
        assert list(operation.ladder) == ([*there, "what ships"] if operation.ladder else []), name

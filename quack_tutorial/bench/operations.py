"""The table of operations that are measured. A new one is a new row: everything else reads this table.

| column     | what it says                                                                          |
|------------|---------------------------------------------------------------------------------------|
| pattern    | the reads and writes that its ceiling has: 1R, 1R1W or 2R1W                           |
| bytes      | what must be moved, however it is done; scratch traffic earns nothing                 |
| inputs     | fresh random inputs on the GPU; the first is (M, N)                                   |
| error      | the largest error over what is tolerated, against float64, on sampled rows and columns |
| providers  | setup functions, see `peers` and `ours`                                               |
| ladder     | the versions of the lesson, in the order they are taught                              |
| ptx        | the PTX of our kernels, by provider, dtype and N                                      |

| operation              | inputs                        | outputs  | bytes moved, besides what N or M alone decides    |
|------------------------|-------------------------------|----------|---------------------------------------------------|
| copy                   | x                             | y        | 2 MN elements                                     |
| softmax                | x                             | y        | 2 MN elements                                     |
| softmax backward       | y, dy                         | dx       | 3 MN elements                                     |
| rmsnorm                | x, w (of x's type)            | y        | 2 MN elements                                     |
| rmsnorm backward       | x, w (float32), dy, rstd      | dx, dw   | 3 MN elements                                     |
| layernorm              | x, w, b (of x's type)         | y        | 2 MN elements                                     |
| layernorm backward     | x, w, dy, mean, rstd          | dx, dw, db | 3 MN elements                                   |
| cross-entropy          | x, target (int64)             | loss     | MN elements, targets and losses: 12 bytes a row   |
| cross-entropy backward | x, target, dloss, lse         | dx       | 2 MN elements                                     |
| cross-entropy fused    | x, target                     | loss, dx | 2 MN elements, targets and losses: 12 bytes a row |

On the command line and in file names "-" stands for the blank. RMSNorm's weights are of x's type
forward, as in torch.nn.RMSNorm, and float32 backward, where their gradient is added up; LayerNorm's are of x's type in both, as
torch's own wants them, and QuACK's is given them in float32.

Cells: M rows is 32768 up to N = 32768, 16384 up to 131072 and 8192 beyond; and 8192 for every N.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

from quack_tutorial.bench import formulas, ours, peers
from quack_tutorial.bench.ours import ITEM_BYTES

DTYPES = ("float32", "bfloat16", "float16")
POWERS = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144)
LADDER_SIZES = (1024, 4096, 8192, 16384, 32768, 131072)
# One above a power of 2, round decimal sizes, and the vocabularies of GPT-2, Llama 3 and Qwen 2.5.
ODD_SIZES = (257, 1000, 3000, 5120, 12289, 50257, 128256, 151936)
VOCABULARIES_TOO = (32000,)  # Llama 2's, of cross-entropy alone
# What a sweep has besides: shorter rows, as of a head of attention; half as long again as a power of 2, and others of many models.
SWEPT_TOO = (64, 128, 384, 768, 1280, 1536, 3072, 3584, 6144, 7168, 12288, 24576, 49152, 98304, 196608)
DEVICE = "cuda"  # where inputs are made
L2_MULTIPLE = 16  # what launches go round is so many times as large as L2, or more, see `timing`
BEFORE = "L2 cleared, one replay"  # what precedes each sample, see `timing`


@dataclass(frozen=True, order=True)
class CellKey:
    """Which cell of the grid: what is computed, on what type, of M rows and N columns."""

    operation: str
    dtype: str
    M: int
    N: int

    def __str__(self):
        return f"{self.operation} {self.dtype} {self.M} x {self.N}"


@dataclass(frozen=True)
class Operation:
    """One row of the table; see the module's docstring for the columns."""

    name: str
    pattern: str
    bytes: Callable[[int, int, int], int]  # M, N, bytes an element
    inputs: Callable[[int, int, str], tuple]  # M, N, dtype
    error: Callable[[tuple, tuple, object, object], float]  # inputs, outputs, row numbers, column numbers
    ptx: Callable[[str, str, int], list[str]]  # provider, dtype, N
    providers: dict[str, Callable]
    ladder: dict[str, Callable] = field(default_factory=dict)
    row_bytes: int = 0  # bytes a row of the inputs that have one number a row


# Inputs --------------------------------------------------------------------------------------------------------------


def _randn(M, N, dtype):
    import torch

    return torch.randn(M, N, device=DEVICE, dtype=getattr(torch, dtype))


def _softmax_inputs(M, N, dtype):
    return (_randn(M, N, dtype),)


def _softmax_backward_inputs(M, N, dtype):
    x = _randn(M, N, dtype)
    y = formulas.softmax(x)
    y.logits = x  # for those who must run the forward pass first
    return y, _randn(M, N, dtype)


def _rmsnorm_inputs(M, N, dtype):
    return _randn(M, N, dtype), _randn(1, N, dtype)[0]


def _rmsnorm_backward_inputs(M, N, dtype):
    import torch

    x, w = _randn(M, N, dtype), _randn(1, N, "float32")[0]
    rstd = torch.cat([torch.rsqrt(part.float().square().mean(-1) + formulas.EPS) for part in x.split(2048)])
    return x, w, _randn(M, N, dtype), rstd


def _layernorm_inputs(M, N, dtype):
    return _randn(M, N, dtype), *_randn(2, N, dtype).unbind()


def _layernorm_backward_inputs(M, N, dtype):
    import torch

    x, w = _randn(M, N, dtype), _randn(1, N, dtype)[0]
    found = [torch.var_mean(part.float(), -1, correction=0) for part in x.split(2048)]
    rstd = torch.cat([torch.rsqrt(variance + formulas.EPS) for variance, _ in found])
    return x, w, _randn(M, N, dtype), torch.cat([mean for _, mean in found]), rstd


def _cross_entropy_inputs(M, N, dtype):
    import torch

    return _randn(M, N, dtype), torch.randint(N, (M,), device=DEVICE)


def _cross_entropy_backward_inputs(M, N, dtype):
    import torch

    x, target = _cross_entropy_inputs(M, N, dtype)
    # Numbers that every type holds exactly: torch wants the gradient in the type of its loss.
    dloss = (torch.rand(M, device=DEVICE) + 0.5).bfloat16().float()
    lse = torch.cat([torch.logsumexp(part.float(), -1) for part in x.split(2048)])
    return x, target, dloss, lse


# Errors --------------------------------------------------------------------------------------------------------------


def _copy_error(inputs, outputs, rows, columns):
    x, y = _at(rows, *inputs, *outputs)
    return 0.0 if (x == y).all() else float("inf")


def _softmax_error(inputs, outputs, rows, columns):
    from quack_tutorial import reference

    x, y = _at(rows, *inputs, *outputs)
    return reference.softmax_error(x, y, _dtype(outputs[0]))


def _softmax_backward_error(inputs, outputs, rows, columns):
    from quack_tutorial import reference

    return reference.softmax_backward_error(*_at(rows, *inputs, *outputs), _dtype(outputs[0]))


def _rmsnorm_error(inputs, outputs, rows, columns):
    from quack_tutorial import reference

    x, y = _at(rows, inputs[0], outputs[0])
    return reference.rmsnorm_error(x, y, _dtype(outputs[0]), weight=_numpy(inputs[1]), eps=formulas.EPS)


def _rmsnorm_backward_error(inputs, outputs, rows, columns):
    from quack_tutorial import reference

    x, w, dy, rstd = inputs
    dx, dw = outputs
    X, DY, DX, RSTD = _at(rows, x, dy, dx, rstd)
    error = reference.rmsnorm_dx_error(X, DY, DX, _dtype(dx), weight=_numpy(w), rstd=RSTD)
    X, DY = (_numpy(tensor[:, _index(columns, tensor)]) for tensor in (x, dy))  # all rows of some columns
    (DW,) = _at(columns, dw)
    return max(error, reference.rmsnorm_dw_error(X, DY, DW, _dtype(dw), rstd=_numpy(rstd)))


def _layernorm_error(inputs, outputs, rows, columns):
    from quack_tutorial import reference

    x, y = _at(rows, inputs[0], outputs[0])
    return reference.layernorm_error(x, y, _dtype(outputs[0]), *map(_numpy, inputs[1:]), eps=formulas.EPS)


def _layernorm_backward_error(inputs, outputs, rows, columns):
    from quack_tutorial import reference

    x, w, dy, *stats = inputs
    dx, dw, db = outputs
    X, DY, DX, *STATS = _at(rows, x, dy, dx, *stats)
    error = reference.layernorm_dx_error(X, DY, DX, _dtype(dx), _numpy(w), *STATS)
    X, DY = (_numpy(tensor[:, _index(columns, tensor)]) for tensor in (x, dy))  # all rows of some columns
    DW, DB = _at(columns, dw, db)
    of_dw = reference.layernorm_dw_error(X, DY, DW, _dtype(dw), *map(_numpy, stats))
    return max(error, of_dw, reference.rmsnorm_db_error(DY, DB, _dtype(db)))


def _cross_entropy_error(inputs, outputs, rows, columns):
    from quack_tutorial import reference

    x, target, loss = _at(rows, *inputs, outputs[0])
    return reference.cross_entropy_error(x, target, loss, _dtype(outputs[0]), formulas.IGNORE_INDEX)


def _cross_entropy_backward_error(inputs, outputs, rows, columns):
    from quack_tutorial import reference

    x, target, dloss, lse, dx = _at(rows, *inputs, *outputs)
    return reference.cross_entropy_backward_error(x, target, dloss, dx, _dtype(outputs[0]), lse)


def _cross_entropy_fused_error(inputs, outputs, rows, columns):
    from quack_tutorial import reference

    x, target, dx = _at(rows, *inputs, outputs[1])
    of_dx = reference.cross_entropy_backward_error(x, target, 1.0, dx, _dtype(outputs[1]))
    return max(of_dx, _cross_entropy_error(inputs, outputs, rows, columns))


def _at(rows, *tensors):
    """Those rows of torch tensors as numpy arrays."""
    return tuple(_numpy(tensor.index_select(0, _index(rows, tensor))) for tensor in tensors)


def _index(numbers, tensor):
    import torch

    return torch.as_tensor(numbers, device=tensor.device)


def _numpy(tensor):
    return (tensor.double() if tensor.is_floating_point() else tensor).cpu().numpy()


def _dtype(tensor):
    return str(tensor.dtype).removeprefix("torch.")


# The table -----------------------------------------------------------------------------------------------------------


def _torch(forward, backward=None, arrange=None, eager=None):
    """torch's providers of an operation: eager and compiled; backward: what autograd runs, and the formula compiled."""
    if backward is None:
        return {
            "eager": peers.eager(eager or forward),
            "compile": peers.compiled(forward),
            "compile tuned": peers.compiled_tuned(forward),
        }
    return {
        "eager": peers.autograd_backward(eager or forward, arrange),
        "compile": peers.compiled(backward),
        "compile tuned": peers.compiled_tuned(backward),
        "compile autograd": peers.autograd_backward(forward, arrange, peers.compile_default),
        "compile autograd tuned": peers.autograd_backward(forward, arrange, peers.compile_tuned),
    }


def _operation(name, pattern, bytes, inputs, error, providers, row_bytes=0):
    """A row, with ours, its ladder and its PTX; `providers` are the peers."""
    return Operation(
        name=name,
        pattern=pattern,
        bytes=bytes,
        inputs=inputs,
        error=error,
        ptx=functools.partial(ours.ptx, name),
        providers={"ours": ours.setup(name), **providers},
        ladder={version: ours.setup(name, version) for version in ours.versions(name)},
        row_bytes=row_bytes,
    )


_TABLE = (
    _operation(
        "copy",
        "1R1W",
        lambda M, N, item: 2 * M * N * item,
        _softmax_inputs,
        _copy_error,
        providers={"eager": peers.eager(formulas.copy)},
    ),
    _operation(
        "softmax",
        "1R1W",
        lambda M, N, item: 2 * M * N * item,
        _softmax_inputs,
        _softmax_error,
        providers={
            **_torch(formulas.softmax),
            "quack": peers.quack_softmax,
            "liger": peers.liger_softmax,
        },
    ),
    _operation(
        "softmax backward",
        "2R1W",
        lambda M, N, item: 3 * M * N * item,
        _softmax_backward_inputs,
        _softmax_backward_error,
        providers={
            **_torch(formulas.softmax, formulas.softmax_backward, lambda y, dy: ((y.logits,), 1, dy)),
            "quack": peers.quack_softmax_backward,
            "liger": peers.liger_softmax_backward,
        },
    ),
    _operation(
        "rmsnorm",
        "1R1W",
        lambda M, N, item: 2 * M * N * item,
        _rmsnorm_inputs,
        _rmsnorm_error,
        providers={
            **_torch(formulas.rmsnorm, eager=formulas.rmsnorm_of_torch),
            "quack": peers.quack_rmsnorm,
            "quack tuned": peers.quack_rmsnorm_tuned,
            "liger": peers.liger_rmsnorm,
            "cudnn": peers.cudnn_rmsnorm,
        },
    ),
    _operation(
        "rmsnorm backward",
        "2R1W",
        lambda M, N, item: 3 * M * N * item,
        _rmsnorm_backward_inputs,
        _rmsnorm_backward_error,
        row_bytes=4,
        providers={
            **_torch(
                formulas.rmsnorm,
                formulas.rmsnorm_backward,
                lambda x, w, dy, rstd: ((x, w), 2, dy),
                eager=formulas.rmsnorm_of_torch,
            ),
            "quack": peers.quack_rmsnorm_backward,
            "quack tuned": peers.quack_rmsnorm_backward_tuned,
            "liger": peers.liger_rmsnorm_backward,
        },
    ),
    _operation(
        "layernorm",
        "1R1W",
        lambda M, N, item: 2 * M * N * item,
        _layernorm_inputs,
        _layernorm_error,
        providers={
            **_torch(formulas.layernorm, eager=formulas.layernorm_of_torch),
            "quack": peers.quack_layernorm,
            "liger": peers.liger_layernorm,
            "cudnn": peers.cudnn_layernorm,
        },
    ),
    _operation(
        "layernorm backward",
        "2R1W",
        lambda M, N, item: 3 * M * N * item,
        _layernorm_backward_inputs,
        _layernorm_backward_error,
        row_bytes=8,
        providers={
            **_torch(
                formulas.layernorm,
                formulas.layernorm_backward,
                lambda x, w, dy, mean, rstd: ((x, w, w), 3, dy),
                eager=formulas.layernorm_of_torch,
            ),
            "liger": peers.liger_layernorm_backward,
        },
    ),
    _operation(
        "cross-entropy",
        "1R",
        lambda M, N, item: M * N * item + 12 * M,
        _cross_entropy_inputs,
        _cross_entropy_error,
        row_bytes=8,
        providers={
            **_torch(formulas.cross_entropy),
            "quack": peers.quack_cross_entropy,
            "liger": peers.liger_cross_entropy,
        },
    ),
    _operation(
        "cross-entropy backward",
        "1R1W",
        lambda M, N, item: 2 * M * N * item,
        _cross_entropy_backward_inputs,
        _cross_entropy_backward_error,
        row_bytes=16,
        providers={
            **_torch(
                formulas.cross_entropy,
                formulas.cross_entropy_backward,
                lambda x, target, dloss, lse: ((x, target), 1, dloss),
            ),
            "quack": peers.quack_cross_entropy_backward,
        },
    ),
    _operation(
        "cross-entropy fused",
        "1R1W",
        lambda M, N, item: 2 * M * N * item + 12 * M,
        _cross_entropy_inputs,
        _cross_entropy_fused_error,
        row_bytes=8,
        providers={
            "eager": peers.autograd_fused(formulas.cross_entropy),
            "compile": peers.compiled(formulas.cross_entropy_fused),
            "compile tuned": peers.compiled_tuned(formulas.cross_entropy_fused),
            "compile autograd": peers.autograd_fused(formulas.cross_entropy, peers.compile_default),
            "compile autograd tuned": peers.autograd_fused(formulas.cross_entropy, peers.compile_tuned),
            "quack": peers.quack_cross_entropy_fused,
            "liger": peers.liger_cross_entropy_fused,
        },
    ),
)

OPERATIONS = {operation.name: operation for operation in _TABLE}


def slug(operation: str) -> str:
    """An operation's name for command lines and file names: "rmsnorm backward" -> "rmsnorm-backward"."""
    return operation.replace(" ", "-")


def named(word: str) -> str:
    """The operation that a command line means, by its name or its slug; ValueError names those there are."""
    found = {alias: name for name in OPERATIONS for alias in (name, slug(name))}
    if word not in found:
        raise ValueError(f"operation {word!r} is not one of {', '.join(map(slug, OPERATIONS))}")
    return found[word]


def is_own(operation: str, provider: str) -> bool:
    """Whether a provider is a kernel of this package: ours, or a version of the ladder."""
    return provider == "ours" or provider in OPERATIONS[operation].ladder


def words(text: str | None) -> tuple[str, ...]:
    """The words of a list separated by commas; none for None."""
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def requested_dtypes(text: str | None, default=DTYPES) -> tuple[str, ...]:
    """The types in a list separated by commas, or `default`; ValueError names those there are."""
    found = words(text) or tuple(default)
    unknown = [dtype for dtype in found if dtype not in DTYPES]
    if unknown:
        raise ValueError(f"dtype {unknown[0]!r} is not one of {', '.join(DTYPES)}")
    return found


def default_rows(N: int) -> int:
    """The number of rows that goes with N columns, so that a tensor is 32 MiB to 8 GiB of float32."""
    if N <= 32768:
        return 32768
    return 16384 if N <= 131072 else 8192


def expected_cells(operation: str, ladder: bool = False) -> tuple[CellKey, ...]:
    """Every cell that a full record holds; for the ladder two types and `LADDER_SIZES`."""
    if ladder:
        return tuple(CellKey(operation, t, default_rows(N), N) for t in ("float32", "bfloat16") for N in LADDER_SIZES)
    sizes = POWERS + ODD_SIZES + (VOCABULARIES_TOO if operation.startswith("cross-entropy") else ())
    return tuple(
        CellKey(operation, dtype, M, N)
        for dtype in DTYPES
        for N in sorted(sizes)
        for M in sorted({default_rows(N), 8192}, reverse=True)
    )


def bytes_read(key: CellKey) -> int:
    """The bytes of the cell's inputs, but for a vector (N,) such as a weight."""
    operation = OPERATIONS[key.operation]
    return int(operation.pattern[0]) * key.M * key.N * ITEM_BYTES[key.dtype] + operation.row_bytes * key.M


def bytes_moved(key: CellKey) -> int:
    """The bytes that the cell's operation must move."""
    return OPERATIONS[key.operation].bytes(key.M, key.N, ITEM_BYTES[key.dtype])

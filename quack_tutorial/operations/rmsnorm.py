"""RMSNorm of each row.

| operation                 | inputs                       | outputs | bytes moved, besides what N or M alone decides |
|---------------------------|------------------------------|---------|------------------------------------------------|
| rmsnorm                   | x, w (of x's type)           | y       | 2 MN elements                                  |
| rmsnorm backward          | x, w (float32), dy, rstd     | dx, dw  | 3 MN elements                                  |
| rmsnorm residual          | x, w (of x's type), residual | y, h    | 4 MN elements                                  |
| rmsnorm residual backward | h, w (float32), dy, dh, rstd | dx, dw  | 4 MN elements                                  |

With a residual, y is of h = x + residual, which the next layer takes as its residual; dx is the gradient of both.

The weight is of x's type forward, as in torch.nn.RMSNorm, and float32 backward, where its gradient is added up.
"""

from __future__ import annotations

import functools

from quack_tutorial import reference
from quack_tutorial.operations.kernel import (
    COLUMNS,
    MATRIX,
    PARTS,
    ROWS,
    Kernel,
    element,
)
from quack_tutorial.operations.operation import EPS, Operation, error_of, randn
from quack_tutorial.operations.our_launches import ladder, shipped
from quack_tutorial.operations.peers import (
    autograd_backward,
    calls_of,
    cudnn_norm,
    eager,
    function_of,
    of_liger,
    of_torch,
)

# The kernels -----------------------------------------------------------------------------------------------------------


def _rmsnorm(r, config, given):
    from quack_tutorial.kernels.tuned.rmsnorm import RMSNorm

    return RMSNorm(r.element, r.N, r.promise, element(given.get("residual")), config)


def _rmsnorm_backward(r, config, given):
    from quack_tutorial.kernels.tuned.choice import default_config
    from quack_tutorial.kernels.tuned.rmsnorm_backward import rmsnorm_backward

    if "dh" in given and "db" not in given:  # with both, some sizes of that table leave too few registers
        config = config or default_config("rmsnorm residual backward", r.element.width, r.N, r.promise)
    return rmsnorm_backward(r.element, r.N, r.promise, element(given.get("w")), config)


RMSNORM = Kernel(
    "rmsnorm",
    _rmsnorm,
    {"x": MATRIX, "w": COLUMNS, "b": COLUMNS, "residual": MATRIX, "out": MATRIX, "h": MATRIX, "rstd": ROWS, "eps": EPS},
    {
        "out": lambda g, dtype: reference.rmsnorm_error(g.x, g.out, dtype, g.w, g.b, g.residual, g.eps),
        "h": lambda g, dtype: reference.sum_error(g.x, g.residual, g.h, dtype),
        "rstd": lambda g, dtype: reference.rmsnorm_rstd_error(g.x, g.rstd, g.residual, g.eps),
    },
    optional=(("w",), ("b",), ("residual", "h"), ("rstd",)),
)
# Where x had a residual, x is h here, and dh the gradient that reaches it by other ways.
RMSNORM_BACKWARD = Kernel(
    "rmsnorm backward",
    _rmsnorm_backward,
    {"x": MATRIX, "w": COLUMNS, "dy": MATRIX, "dh": MATRIX, "rstd": ROWS, "dx": MATRIX, "dw": PARTS, "db": PARTS},
    {
        "dx": lambda g, dtype: reference.rmsnorm_dx_error(g.x, g.dy, g.dx, dtype, g.w, g.dh, g.rstd),
        "dw": lambda g, dtype: reference.rmsnorm_dw_error(g.x, g.dy, g.dw, dtype, g.rstd),
        "db": lambda g, dtype: reference.rmsnorm_db_error(g.dy, g.db, dtype),
    },
    optional=(("w",), ("dh",), ("dw",), ("db",)),
    inputs={"rstd": lambda normal, g: reference.rmsnorm_rstd(g.x, eps=EPS)},
)
KERNELS = (RMSNORM, RMSNORM_BACKWARD)

# Forward -------------------------------------------------------------------------------------------------------------


def formula(x, w):
    """RMSNorm of each row in float32, rounded once."""
    import torch

    h = x.float()
    return (h * torch.rsqrt(h.square().mean(-1, keepdim=True) + EPS) * w).to(x.dtype)


def formula_of_torch(x, w):
    """torch's own RMSNorm."""
    import torch

    return torch.nn.functional.rms_norm(x, (x.shape[-1],), w, EPS).to(x.dtype)


def _inputs(M, N, dtype):
    return randn(M, N, dtype), randn(1, N, dtype)[0]


def _quack(x, w):
    """Set up quack.rmsnorm's forward."""
    from quack.rmsnorm import rmsnorm_fwd

    return lambda x, w: rmsnorm_fwd(x, w, eps=EPS)[0]


def _quack_tuned(x, w):
    """Set up QuACK's autotuned RMSNorm; the first call tunes, which takes a while."""
    import torch
    from quack.rmsnorm import rmsnorm_fwd_tuned

    def call(x, w):
        out = torch.empty_like(x)
        rmsnorm_fwd_tuned(x, w, out, eps=EPS)
        return out

    call(x, w)
    return call


def _liger(x, w):
    """Set up Liger's RMSNorm with float32 arithmetic ("gemma")."""
    from liger_kernel.ops import LigerRMSNormFunction

    return lambda x, w: LigerRMSNormFunction.apply(x, w, EPS, 0.0, "gemma", False)


# Backward ------------------------------------------------------------------------------------------------------------


def formula_backward(x, w, dy, rstd):
    """The gradients of RMSNorm's input and weight."""
    h, dy32 = x.float() * rstd[:, None], dy.float()
    wdy = w * dy32
    dx = rstd[:, None] * (wdy - h * (h * wdy).mean(-1, keepdim=True))
    return dx.to(x.dtype), (dy32 * h).sum(0).to(w.dtype)


def _inputs_backward(M, N, dtype):
    import torch

    x, w = randn(M, N, dtype), randn(1, N, "float32")[0]
    rstd = torch.cat([torch.rsqrt(part.float().square().mean(-1) + EPS) for part in x.split(2048)])
    return x, w, randn(M, N, dtype), rstd


def _gradients(x, w, dy, rstd):
    return (x, w), 2, dy


def _quack_backward(x, w, dy, rstd):
    """Set up what quack.rmsnorm's backward calls."""
    from quack.rmsnorm import rmsnorm_bwd

    return lambda x, w, dy, rstd: rmsnorm_bwd(x, w, dy, rstd)[:2]


def _quack_backward_tuned(x, w, dy, rstd):
    """Set up QuACK's autotuned RMSNorm backward, with the sum that its untuned one takes of the parts of dw."""
    import torch
    from quack.rmsnorm import rmsnorm_bwd_tuned
    from quack.rmsnorm_config import get_sm_count

    parts = get_sm_count(x.shape[1], x.device)

    def call(x, w, dy, rstd):
        dx = torch.empty_like(x)
        dw_parts = torch.empty(parts, x.shape[1], dtype=torch.float32, device=x.device)
        rmsnorm_bwd_tuned(x, w, dy, rstd, dx, dw_parts, has_dw_partial=True)
        return dx, dw_parts.sum(dim=0).to(w.dtype)

    call(x, w, dy, rstd)
    return call


def _liger_backward(x, w, dy, rstd):
    """Set up what Liger's RMSNorm calls backward, in float32 arithmetic and not over dy."""
    from liger_kernel.ops import rms_norm as liger
    from liger_kernel.ops.utils import calculate_settings

    block, warps = calculate_settings(x.shape[1])
    gemma = liger._str_to_casting_mode["gemma"]
    return lambda x, w, dy, rstd: liger.rms_norm_backward(dy, x, w, rstd, 0.0, gemma, block, warps, False, None)


# With a residual -----------------------------------------------------------------------------------------------------


def formula_residual(x, w, residual):
    """RMSNorm of each row of x + residual in float32, and that sum, both rounded once."""
    h = x.float() + residual.float()
    return formula(h, w).to(x.dtype), h.to(x.dtype)


def formula_of_torch_residual(x, w, residual):
    """torch's own RMSNorm of the sum."""
    h = x + residual
    return formula_of_torch(h, w), h


def _inputs_residual(M, N, dtype):
    return *_inputs(M, N, dtype), randn(M, N, dtype)


def _quack_residual(x, w, residual):
    """Set up quack.rmsnorm's forward with a residual."""
    from quack.rmsnorm import rmsnorm_fwd

    return lambda x, w, residual: rmsnorm_fwd(x, w, residual=residual, eps=EPS)[:2]


def _of_liger_residual(*more, **options):
    call = of_liger("fused_add_rms_norm", EPS, *more, **options)
    return lambda x, w, residual: call(x, residual, w)


def formula_residual_backward(h, w, dy, dh, rstd):
    """The gradients of x, or of the residual, and of the weight."""
    dx, dw = formula_backward(h.float(), w, dy, rstd)
    return (dx + dh.float()).to(h.dtype), dw


def _inputs_residual_backward(M, N, dtype):
    h, w, dy, rstd = _inputs_backward(M, N, dtype)
    return h, w, dy, randn(M, N, dtype), rstd


def _gradients_residual(h, w, dy, dh, rstd):
    import torch

    return (h, w, torch.zeros_like(h)), 2, (dy, dh)


def _quack_residual_backward(h, w, dy, dh, rstd):
    """Set up what quack.rmsnorm's backward calls where there was a residual."""
    from quack.rmsnorm import rmsnorm_bwd

    return lambda h, w, dy, dh, rstd: rmsnorm_bwd(h, w, dy, rstd, dresidual_out=dh, has_residual=True)[:2]


# The table -----------------------------------------------------------------------------------------------------------

_OURS = shipped(RMSNORM, "x w", "out", tile_reads=1)
_OURS_BACKWARD = shipped(RMSNORM_BACKWARD, "x w dy rstd", "dx dw", w="float32")
_RUNGS = (
    "thread",
    "block",
    "vectors",
    "registers",
    "rows",
    "async",
    "cluster",
    "direct",
    "hint",
    "read twice",
    "any address",
    "weights once",
)
_RUNGS_BACKWARD = ("atomics", "vector atomics", "parts", "pipelined", "bulk", "cluster")
_ARITHMETIC = ("square", "sum", "product", "product with the weight")
_ARITHMETIC_BACKWARD = (
    "x times 1/rms",
    "dy times the weight",
    "their product",
    "its sum",
    "x times the mean",
    "subtraction",
    "product with 1/rms",
    "product for dw",
    "sum of dw",
)
_CALLS = {
    "ours": function_of("quack_tutorial.ops", "rmsnorm", eps=EPS),
    "quack": function_of("quack", "rmsnorm", eps=EPS),
    "liger": function_of("liger_kernel.ops", "LigerRMSNormFunction.apply", EPS, 0.0, "gemma", False),
}
OPERATIONS = (
    Operation(
        "rmsnorm",
        pattern="1R1W",
        formula=formula,
        inputs=_inputs,
        error=error_of(RMSNORM, "x w", "out"),
        providers={
            "ours": _OURS,
            **of_torch(formula, eagerly=formula_of_torch),
            "quack": _quack,
            "quack tuned": _quack_tuned,
            "liger": _liger,
            "liger cute": eager(of_liger("rms_norm", EPS)),
            "cudnn": functools.partial(cudnn_norm, "rmsnorm"),
        },
        ladder=ladder("rmsnorm", "LADDER", _RUNGS, "x w out eps", _OURS),
        calls=calls_of(formula, _CALLS, formula_of_torch),
        arithmetic=_ARITHMETIC,
    ),
    Operation(
        "rmsnorm backward",
        pattern="2R1W",
        formula=formula_backward,
        inputs=_inputs_backward,
        error=error_of(RMSNORM_BACKWARD, "x w dy rstd", "dx dw"),
        providers={
            "ours": _OURS_BACKWARD,
            **of_torch(formula, formula_backward, _gradients, formula_of_torch),
            "quack": _quack_backward,
            "quack tuned": _quack_backward_tuned,
            "liger": _liger_backward,
            "liger cute": autograd_backward(of_liger("rms_norm", EPS), _gradients),
        },
        ladder=ladder(
            "rmsnorm",
            "BACKWARD_LADDER",
            _RUNGS_BACKWARD,
            "x w dy rstd dx dw",
            _OURS_BACKWARD,
            w="float32",
        ),
        row_bytes=4,
        calls=calls_of(formula, _CALLS, formula_of_torch, _gradients),
        arithmetic=_ARITHMETIC_BACKWARD,
    ),
    Operation(
        "rmsnorm residual",
        pattern="2R2W",
        formula=formula_residual,
        inputs=_inputs_residual,
        error=error_of(RMSNORM, "x w residual", "out h"),
        providers={
            "ours": shipped(RMSNORM, "x w residual", "out h"),
            **of_torch(formula_residual, eagerly=formula_of_torch_residual),
            "quack": _quack_residual,
            "liger": eager(_of_liger_residual(0.0, "gemma", dsl="triton")),
            "liger cute": eager(_of_liger_residual()),
        },
        arithmetic=("addition of the residual", *_ARITHMETIC),
    ),
    Operation(
        "rmsnorm residual backward",
        pattern="3R1W",
        formula=formula_residual_backward,
        inputs=_inputs_residual_backward,
        error=error_of(RMSNORM_BACKWARD, "x w dy dh rstd", "dx dw"),
        providers={
            "ours": shipped(RMSNORM_BACKWARD, "x w dy dh rstd", "dx dw", w="float32"),
            **of_torch(formula_residual, formula_residual_backward, _gradients_residual, formula_of_torch_residual),
            "quack": _quack_residual_backward,
            "liger": autograd_backward(_of_liger_residual(0.0, "gemma", dsl="triton"), _gradients_residual),
            "liger cute": autograd_backward(_of_liger_residual(), _gradients_residual),
        },
        row_bytes=4,
        arithmetic=(*_ARITHMETIC_BACKWARD, "addition of dh"),
    ),
)

"""Peers of RMSNorm in float8: torch's, eager and compiled."""

from bench.peers.setups import calls_of, of_torch
from quack_tutorial.operations.rmsnorm_quantized import formula, formula_residual
from quack_tutorial.shipped import EPS


def _ours(*_):
    from quack_tutorial.ops import rmsnorm_quantized

    return lambda x, w, residual=None: rmsnorm_quantized(x, w, residual=residual, eps=EPS)


PROVIDERS = {"rmsnorm-quantized": of_torch(formula), "rmsnorm-quantized residual": of_torch(formula_residual)}
CALLS = {
    "rmsnorm-quantized": calls_of(formula, {"ours": _ours}),
    "rmsnorm-quantized residual": calls_of(formula_residual, {"ours": _ours}),
}

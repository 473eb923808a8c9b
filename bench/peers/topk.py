"""Peers of top-k: torch's, eager and compiled, and QuACK's, whose indices are int32."""

from bench.peers.setups import calls_of, of_torch
from quack_tutorial.hardware import MOST_TOP, usual_top
from quack_tutorial.operations.topk import formula, formula_128


def _quack(k_of):
    """Makes quack.topk with the k for a row."""

    def setup(*_):
        from quack.topk import topk

        return lambda x: topk(x, k_of(x.shape[1]))

    return setup


def _ours(k_of):
    def setup(*_):
        from quack_tutorial.ops import topk

        return lambda x: topk(x, k_of(x.shape[1]))

    return setup


_BOTH = {"topk": (formula, usual_top), "topk 128": (formula_128, lambda N: min(MOST_TOP, N))}
PROVIDERS = {name: {**of_torch(formula), "quack": _quack(k_of)} for name, (formula, k_of) in _BOTH.items()}
CALLS = {
    name: calls_of(formula, {"ours": _ours(k_of), "quack": _quack(k_of)}) for name, (formula, k_of) in _BOTH.items()
}

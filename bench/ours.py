"""Our kernels by the names of an operation and a provider ("ours" or a version of its ladder), and their PTX."""

from __future__ import annotations

import functools
import hashlib

from quack_tutorial import card
from quack_tutorial.operations import OPERATIONS
from quack_tutorial.operations.our_launches import Ours, Rows, contiguous_rows


def row_of(operation: str, provider: str) -> Ours:
    """Our kernels, or those of a version of the ladder."""
    return OPERATIONS[operation].ours if provider == "ours" else OPERATIONS[operation].ladder[provider]


def kernels(operation: str, provider: str, r: Rows, config=None) -> list:
    """What is launched: (host object, specs and scalars) for each launch."""
    return row_of(operation, provider).kernels(r, config)


def callable_for(operation: str, provider: str, r: Rows, config=None):
    """The operation as a callable on CUDA tensors that allocates its outputs."""
    return row_of(operation, provider).callable_for(r, config)


def ptx(operation: str, provider: str, dtype: str, N: int) -> list[str]:
    """The PTX of each kernel that is launched for contiguous rows of N; needs no GPU."""
    from quack_tutorial import compiler

    return [compiler.ptx(kernel, *args) for kernel, args in kernels(operation, provider, contiguous_rows(dtype, N))]


def config_label(operation: str, provider: str, dtype: str, N: int) -> str | None:
    """The configuration of the kernel for contiguous rows of N, see `Config.label`; None of a version that has none."""
    config = getattr(kernels(operation, provider, contiguous_rows(dtype, N))[0][0], "config", None)
    return None if config is None else config.label


def shipped(operation: str, provider: str, dtype: str, N: int, on: str | None = None) -> tuple[str, str | None]:
    """(hash of the PTX, configuration) of what ships for contiguous rows of N on a card, by default the one that is selected, as a
    record holds them.

    The configuration too, because how blocks are launched is not in the PTX.
    """
    with card.taken_for(on or card.selected().card):
        config = config_label(operation, provider, dtype, N)
        return _hash(operation, provider, dtype, N, config), config


@functools.cache
def _hash(operation, provider, dtype, N, config):
    """Of the PTX; the `config` of the card that is selected is all that it depends on besides."""
    return ptx_sha256(ptx(operation, provider, dtype, N))


def ptx_sha256(texts: list[str]) -> str:
    """The hash that a record holds of the PTX of one or several kernels."""
    from quack_tutorial import compiler

    hashes = [compiler.ptx_hash(text) for text in texts]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("\n".join(hashes).encode()).hexdigest()

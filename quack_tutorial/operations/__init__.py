"""The operations: a module a family, with all that is of its operations alone. Everything else reads these tables.

| in a module, forward and backward                                                | put together with |
|----------------------------------------------------------------------------------|-------------------|
| `OPERATIONS`: torch's formula, inputs, bytes, arithmetic; error on sampled rows  | `operation`       |
| ... our kernels and their ladder, set up to be timed                             | `our_launches`    |

On the command line and in file names "-" stands for the blank.
"""

from __future__ import annotations

from quack_tutorial.operations import copy, cross_entropy, layernorm, rmsnorm, rmsnorm_quantized, softmax, topk

FAMILIES = (copy, softmax, rmsnorm, layernorm, cross_entropy, rmsnorm_quantized, topk)
OPERATIONS = {operation.name: operation for family in FAMILIES for operation in family.OPERATIONS}


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

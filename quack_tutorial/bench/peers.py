"""How the other implementations are set up, each as its authors would have it.

| provider      | what it is                                                                                        |
|---------------|---------------------------------------------------------------------------------------------------|
| eager         | torch as it comes                                                                                 |
| compile       | torch.compile, dynamic=False                                                                      |
| compile tuned | the same with mode max-autotune-no-cudagraphs in a process with TORCHINDUCTOR_MULTI_KERNEL=1        |
| quack         | QuACK's own entry point                                                                           |
| liger         | Liger's autograd function, forward only                                                           |

Inductor reads TORCHINDUCTOR_MULTI_KERNEL when it is imported. The process that measures a cell is started with it set,
so "compile tuned" is what the advice asks for; "compile" is compiled in the same process with that one setting put back
(options={"triton.multi_kernel": 0}, everything else at its default). That way all providers of a cell share a process.

QuACK has no tuned entry point for softmax (for RMSNorm it has). A setup function takes the inputs of a cell and returns
a callable on such inputs that gives the output.
"""

from __future__ import annotations

import types

MULTI_KERNEL = "TORCHINDUCTOR_MULTI_KERNEL"


def eager(function):
    """Set up `function` as it is."""
    return lambda *inputs: function


def compiled(function):
    """Set up torch.compile with its defaults and fixed shapes."""

    def setup(*inputs):
        import torch

        own = with_own_code(function, "compile_default")
        return torch.compile(own, dynamic=False, options={"triton.multi_kernel": 0})

    return setup


def compiled_tuned(function):
    """Set up torch.compile with more autotuning; RuntimeError in a process without TORCHINDUCTOR_MULTI_KERNEL=1."""

    def setup(*inputs):
        import torch
        from torch._inductor import config

        if not config.triton.multi_kernel:
            raise RuntimeError(f"compile tuned needs a process started with {MULTI_KERNEL}=1")
        own = with_own_code(function, "compile_tuned")
        return torch.compile(own, dynamic=False, mode="max-autotune-no-cudagraphs")

    return setup


def with_own_code(function, name):
    """A copy of `function` with its own code object: torch.compile caches by code, and two settings must not mix."""
    code = function.__code__.replace(co_name=name)
    return types.FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)


def quack_softmax(x):
    """Set up quack.softmax's forward."""
    from quack.softmax import softmax_fwd

    return softmax_fwd


def liger_softmax(x):
    """Set up Liger's softmax."""
    from liger_kernel.ops import LigerSoftmaxFunction

    return LigerSoftmaxFunction.apply


# provider -> the distributions whose versions a record names
PACKAGES = {
    "ours": ("nvidia-cutlass-dsl",),
    "eager": ("torch",),
    "compile": ("torch", "triton"),
    "compile tuned": ("torch", "triton"),
    "quack": ("quack-kernels", "nvidia-cutlass-dsl"),
    "liger": ("liger-kernel", "triton"),
}

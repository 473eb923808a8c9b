"""What a torch user calls: the operations on torch tensors, on the GPU's kernels or on the simulator.

| function                  | computes                                              | gradients of              |
|---------------------------|-------------------------------------------------------|---------------------------|
| `softmax`                 | softmax over the last dimension                       | input                     |
| `rmsnorm`                 | RMSNorm over the last dimension, a residual added first | input, weight, bias, residual |
| `rmsnorm_quantized`       | the same in float8, with a scale a row or a block of 128 columns |                |
| `layernorm`               | LayerNorm over the last dimension                     | input, weight, bias       |
| `topk`                    | the k largest of the last dimension and their indices, or softmax of them | input |
| `cross_entropy`           | cross-entropy of rows of logits with class indices    | input                     |
| `cross_entropy_with_grad` | the losses and the gradient of their sum, in one pass |                           |
| `linear_cross_entropy`    | the same of rows of input @ linear_weight.T, some rows at a time | input, linear_weight |
| `RMSNorm`, `LayerNorm`, `CrossEntropyLoss` | the same as modules, in place of torch.nn's |                  |

The last line's classes are in `modules`, the norms in `norms`, `rmsnorm_quantized` in `quantized`, `topk` in `largest`, the
others in the module of their name. Arguments are torch's, but for normalized_shape: a row is the last dimension. What another
order or shape would mean is said in the error, with the call to write.

CUDA tensors run on kernels that are compiled once for a type and a row length and serve every number of rows; CPU tensors
run on the simulator, the same kernels. Arguments are checked before anything runs; nothing is copied, converted or
computed another way behind the caller's back, but for gradients, which autograd may hand over in any layout.

A row's result does not depend on the batch: alone, among others or elsewhere among them it has the same bits, if rows are a
multiple of 16 bytes long and start at one. Other rows have the same bits where they and their results start as far from a line of
128 bytes, in tensors whose rows are as far apart. So it is with the gradient of the input. Sums over rows are added up in an order
that is always the same: of the losses the number of rows decides it, of a norm's weight and bias also the card's SMs. No two runs
of one call differ.

Each operation is registered with `torch.library` (quack_tutorial::softmax and so on, see `registered`): fake and meta tensors,
`torch.compile(fullgraph=True)` and `torch.export` need no kernel. A call that needs no gradient and is not being traced goes past
torch's dispatcher, which would cost as much as the launch, and past the checks if there was a call like it before (see
`launches`). Threads may call together; on the simulator they take turns.

Gradients are those of reverse mode: backward, `torch.autograd.grad`, and `grad`, `vjp` and `jacrev` of `torch.func`. `vmap`, along
any dimension, and batched gradients call the operation once for each element of the batch. Refused, with a sentence that names the
torch function to call: forward mode (`jvp`, `jacfwd`, dual tensors) and gradients of gradients (`hessian`, `hvp`, whatever
differentiates the result of `create_graph=True`).

Under `torch.autocast`, softmax (on a GPU) and cross_entropy compute and return float32, as torch's do; rmsnorm and layernorm
keep the type of their input.

Not covered: dropout, class probabilities as targets; `torch.func` inside compiled code; `torch.jit.script`; sparse, mkldnn and
nested tensors; LayerNorm of rows whose sum, and norms of rows whose squares, pass float32's 3.4e38 (the formula in float32 is what
comes out).
"""

from quack_tutorial.ops.cross_entropy import cross_entropy, cross_entropy_with_grad
from quack_tutorial.ops.linear_cross_entropy import linear_cross_entropy
from quack_tutorial.ops.norms import layernorm, rmsnorm
from quack_tutorial.ops.softmax import softmax

__all__ = ["CrossEntropyLoss", "LayerNorm", "RMSNorm", "cross_entropy", "cross_entropy_with_grad"]
__all__ += ["layernorm", "linear_cross_entropy", "rmsnorm", "rmsnorm_quantized", "softmax", "topk"]

_MODULES = ("CrossEntropyLoss", "LayerNorm", "RMSNorm")


def __getattr__(name):
    """A class of `modules`, the call in float8, or top-k, which are loaded when the first of them is used."""
    if name == "rmsnorm_quantized":
        from quack_tutorial.ops import quantized as module
    elif name == "topk":
        from quack_tutorial.ops import largest as module
    elif name in _MODULES:
        from quack_tutorial.ops import modules as module
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(module, name)


def __dir__():
    """All names, those of classes too that are not loaded yet: the reference lists them."""
    return sorted({*globals(), *__all__})

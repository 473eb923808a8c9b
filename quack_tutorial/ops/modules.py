"""The norms and the loss as modules: torch's own, with its arguments and state, whose forward calls ours.

A norm over several last dimensions flattens them into one.
"""

import torch

from quack_tutorial.ops import launches
from quack_tutorial.ops.cross_entropy import cross_entropy
from quack_tutorial.ops.norms import layernorm, rmsnorm
from quack_tutorial.ops.registered import unscripted


@unscripted
class RMSNorm(torch.nn.RMSNorm):
    """torch.nn.RMSNorm, computed by `rmsnorm`; called with a residual, it returns (result, input + residual).

    `weight_offset` is added to the weight, which then starts as 1 - weight_offset.
    """

    def __init__(
        self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None, *, weight_offset=0.0
    ):
        weight_offset = launches.check_number("RMSNorm", "weight_offset", weight_offset)
        if weight_offset and not elementwise_affine:
            raise ValueError(f"RMSNorm: weight_offset={weight_offset} is added to the weight, and there is none")
        self.weight_offset = weight_offset
        super().__init__(normalized_shape, eps, elementwise_affine, device, dtype)

    def reset_parameters(self):
        if self.elementwise_affine:
            torch.nn.init.constant_(self.weight, 1 - self.weight_offset)

    def forward(self, input, residual=None):
        rows, *others = _rows_of(self, input, residual)
        found = rmsnorm(rows, _vector(self.weight), residual=others[0], eps=self.eps, weight_offset=self.weight_offset)
        return found.view(input.shape) if residual is None else tuple(one.view(input.shape) for one in found)

    def extra_repr(self):
        return super().extra_repr() + (f", weight_offset={self.weight_offset}" if self.weight_offset else "")


@unscripted
class LayerNorm(torch.nn.LayerNorm):
    """torch.nn.LayerNorm, computed by `layernorm`; several normalized dimensions are taken as one row."""

    def forward(self, input):
        (rows,) = _rows_of(self, input)
        return layernorm(rows, _vector(self.weight), _vector(self.bias), self.eps).view(input.shape)


@unscripted
class CrossEntropyLoss(torch.nn.CrossEntropyLoss):
    """torch.nn.CrossEntropyLoss, of logits (M, N) and class indices (M,); `dtype` is the loss's, as in `cross_entropy`."""

    def __init__(self, *args, dtype=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.dtype = dtype

    def forward(self, input, target):
        return cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
            dtype=self.dtype,
        )


def _rows_of(norm, *tensors):
    """The tensors (None among them) with the dimensions that the module normalises as one."""
    shape = tuple(norm.normalized_shape)
    for tensor in tensors:
        if tensor is not None and tuple(tensor.shape[-len(shape) :]) != shape:
            raise ValueError(
                f"{type(norm).__name__}: expected input whose last dimensions are {shape}, got {tuple(tensor.shape)}"
            )
    return [tensor if tensor is None or len(shape) == 1 else tensor.flatten(-len(shape)) for tensor in tensors]


def _vector(parameter):
    return parameter if parameter is None or parameter.dim() == 1 else parameter.flatten()

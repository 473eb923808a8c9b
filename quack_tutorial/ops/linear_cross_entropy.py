"""The loss of a linear layer whose logits never lie in memory as a whole, and its gradients.

Some rows at a time: torch's matrix product makes their logits, `cross_entropy_with_grad` turns these into their gradient, where
they lie, and two more matrix products take it on to the layer's input and weight. So the gradients are known when the loss is; the
backward pass multiplies them by the loss's.
"""

import torch

from quack_tutorial.ops import launches
from quack_tutorial.ops.cross_entropy import _check as _check_losses
from quack_tutorial.ops.cross_entropy import _check_options, _forward, _with_grad
from quack_tutorial.ops.registered import register, unscripted

TORCHS = "torch.nn.functional.linear_cross_entropy"


@unscripted
def linear_cross_entropy(input, linear_weight, target, *, ignore_index=-100, reduction="mean", batch_chunk_size=None):
    """The mean or the sum of the cross-entropies of the rows of input @ linear_weight.T, a float32 number.

    `input` is (M, K), `linear_weight` (N, K), both of one type, `target` (M,) as for `cross_entropy`, and so are `ignore_index` and
    `reduction`, "mean" or "sum". At most `batch_chunk_size` rows of logits exist at a time, a quarter of all if it is None;
    they are rounded to input's type. Needs two matrices like these for the gradients, from the forward pass on. The gradient of
    linear_weight is added up over the chunks in its own type.

    In float16 the gradients are rounded before a loss scale multiplies them, which keeps no small one from vanishing.

    The first backward pass uses the gradients up; a second one (retain_graph=True) raises RuntimeError. Under torch.autocast input
    and linear_weight have its type.
    """
    input, linear_weight = _checked(input, linear_weight, target, ignore_index, reduction, batch_chunk_size)
    ignore_index = int(ignore_index)
    wanted = torch.is_grad_enabled()
    loss, *_ = _linear_cross_entropy(
        input,
        linear_weight,
        target,
        ignore_index,
        reduction == "mean",
        int(batch_chunk_size or _a_quarter(input.shape[0])),
        wanted and input.requires_grad,
        wanted and linear_weight.requires_grad,
    )
    return loss


def _checked(input, linear_weight, target, ignore_index, reduction, rows):
    """(input, linear_weight) in the type in which they are multiplied; raises what is wrong with the arguments."""
    op = "linear_cross_entropy"
    if linear_weight is None:
        raise TypeError(f"{op}: expected linear_weight to be a tensor, got None")
    launches.check_tensors(op, input=input, linear_weight=linear_weight, target=target)
    if input.dim() != 2 or linear_weight.dim() != 2 or input.shape[1] != linear_weight.shape[1]:
        raise ValueError(
            f"{op}: expected input of shape (M, K) and linear_weight of shape (N, K), got {tuple(input.shape)} and "
            f"{tuple(linear_weight.shape)}{_flattened(op, input, linear_weight)}"
        )
    if input.shape[1] == 0:
        raise ValueError(f"{op}: expected at least one feature, got input of shape {tuple(input.shape)}")
    kind = "cuda" if input.is_cuda else "cpu"
    if torch.is_autocast_enabled(kind):
        input, linear_weight = (x.to(torch.get_autocast_dtype(kind)) for x in (input, linear_weight))
    if input.dtype != linear_weight.dtype:
        raise TypeError(
            f"{op}: expected input and linear_weight of one type, got {input.dtype} and {linear_weight.dtype}"
        )
    launches.check_same(op, input=input, linear_weight=linear_weight, target=target)
    _check_losses(
        op, input.new_empty((input.shape[0], linear_weight.shape[0]), device="meta"), target.to("meta"), ignore_index
    )
    if reduction not in ("mean", "sum"):
        _check_options(op, None, (), ignore_index, reduction)
        raise ValueError(f"{op}: reduction is 'mean' or 'sum', got {reduction!r}; call {TORCHS} there")
    if rows is not None and (launches.check_number(op, "batch_chunk_size", rows, kind=int) < 1):
        raise ValueError(f"{op}: expected batch_chunk_size to be 1 or more, got {rows}")
    return input, linear_weight


def _flattened(op, input, linear_weight):
    """How an input of more dimensions is written as a matrix."""
    if input.dim() > 2 and linear_weight.dim() == 2:
        return f"; write {op}(input.flatten(0, -2), linear_weight, target.flatten())"
    return ""


def _a_quarter(M):
    """A quarter of the rows, in whole tiles of a matrix product."""
    return max(1, -(-M // 512) * 128)


def _fake(input, linear_weight, target, ignore_index, mean, rows, of_input, of_weight):
    given = (input, of_input), (linear_weight, of_weight)
    gradients = (torch.empty_like(x) if of else x.new_empty(0) for x, of in given)
    number = input.new_empty((), dtype=torch.float32)
    return number, *gradients, torch.empty_like(number)


def _keep(ctx, inputs, output):
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*output[1:])
    ctx.of = inputs[6:]
    ctx.save_for_backward(*inputs[:2], *output[1:])


def _gradient(ctx, dloss, *_):
    """The gradients of (input, linear_weight); the rest has none."""
    others = (None,) * 6
    if dloss is None:
        return None, None, *others
    if ctx.of is None:
        raise RuntimeError(
            "linear_cross_entropy: the first backward pass has used the gradients up, so that they need no more memory; "
            f"call it again, or {TORCHS}"
        )
    if any(needed and not there for needed, there in zip(ctx.needs_input_grad, ctx.of)):
        raise RuntimeError("linear_cross_entropy: called without the gradient that is asked for now")
    input, linear_weight, dinput, dweight, scale = ctx.saved_tensors
    if launches.is_plain(dloss):
        of, ctx.of = ctx.of, None
        found = (_scaled(d, dloss * scale, out=d) for d in (dinput, dweight))
    else:
        of = ctx.of
        found = _linear_cross_entropy_backward(input, linear_weight, dinput, dweight, dloss * scale)
    return *(gradient if there else None for gradient, there in zip(found, of)), *others


@register("linear_cross_entropy", _fake, TORCHS, _keep, _gradient)
def _linear_cross_entropy(
    input: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    ignore_index: int,
    mean: bool,
    rows: int,
    of_input: bool,
    of_weight: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(loss, gradients of input and weight if asked for, what is still to be multiplied with them)."""
    loss, dinput, dweight, scale = _fake(input, linear_weight, target, ignore_index, mean, rows, of_input, of_weight)
    loss.zero_()
    M = input.shape[0]
    # Within the products: a sum over many rows may pass float16's largest number.
    alpha = 1 / max(M, 1) if mean else 1.0
    with torch.autocast("cuda" if input.is_cuda else "cpu", enabled=False):
        for first in range(0, M, rows):
            x, t = input[first : first + rows], target[first : first + rows]
            logits = gradient = None  # the last piece, which would lie beside the next
            logits = x @ linear_weight.T
            if not (of_input or of_weight):
                loss += _forward(logits, t, ignore_index, "sum", input.dtype != torch.float32, 0)[0]
                continue
            losses, gradient = _with_grad(logits, t, ignore_index, in_place=True)
            loss += losses.sum()
            if of_input:
                part = dinput[first : first + rows]
                torch.addmm(part, gradient, linear_weight, beta=0, alpha=alpha, out=part)
            if of_weight:
                dweight.addmm_(gradient.T, x, beta=min(first, 1), alpha=alpha)
    if M == 0:
        dweight.zero_()
    counted = (target != ignore_index).sum() if mean else 1
    scale.fill_(1.0)
    if mean:
        loss /= counted
        scale.copy_(M / counted.clamp(min=1))
    return loss, dinput, dweight, scale


def _fake_backward(input, linear_weight, dinput, dweight, factor):
    return torch.empty_like(dinput), torch.empty_like(dweight)


@register("linear_cross_entropy_backward", _fake_backward, TORCHS)
def _linear_cross_entropy_backward(
    input: torch.Tensor, linear_weight: torch.Tensor, dinput: torch.Tensor, dweight: torch.Tensor, factor: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients times the loss's; `input` and `linear_weight` are what a gradient of these would depend on."""
    return _scaled(dinput, factor), _scaled(dweight, factor)


def _scaled(gradient, factor, out=None):
    """`gradient` times a float32 number, into `out` if given; in float16 by two, since a loss scale may pass its largest."""
    if gradient.dtype == torch.float16:
        first = factor.clamp(1.0, 2.0**15)
        gradient, factor = torch.mul(gradient, first.to(gradient.dtype), out=out), factor / first
    return torch.mul(gradient, factor.to(gradient.dtype), out=out)

"""Cross-entropy on torch tensors, and its gradient."""

from functools import cache

import torch

from quack_tutorial.ops import rows

REDUCTIONS = ("mean", "sum", "none")


def cross_entropy(input, target, ignore_index=-100, reduction="mean", return_lse=False):
    """Cross-entropy of the rows of `input`, (M, N) logits, with `target`, (M,) class indices: as torch's.

    `target` is int64 or int32. A row whose target is `ignore_index` has loss 0 and gradient 0; "mean" divides by the number
    of the others (NaN if there is none). The loss has input's type; it is computed in float32. With `return_lse`, returns
    (loss, lse), lse the (M,) float32 logarithms of the sums of exponentials, without gradient. A target that is no column
    raises IndexError on the CPU; on a GPU, where finding out would mean waiting, its row becomes NaN.
    """
    input, target = _checked("cross_entropy", input, target)
    if reduction not in REDUCTIONS:
        raise ValueError(
            f"cross_entropy: {reduction!r} is not a valid value for reduction, one of {', '.join(REDUCTIONS)}"
        )
    if rows.plain_call(input):
        loss, lse, _ = _forward(input, target, ignore_index, return_lse, False)
    else:
        loss, lse = _cross_entropy(input, target, ignore_index)
    if reduction == "sum":
        loss = loss.sum()
    elif reduction == "mean":
        loss = loss.sum() / (target != ignore_index).sum()
    loss = loss.to(input.dtype)
    return (loss, lse.detach()) if return_lse else loss


def cross_entropy_with_grad(input, target, ignore_index=-100):
    """(losses, gradient of their sum): (M,) float32 and (M, N) of input's type, in one read and one write of the logits.

    For a training step that knows its loss's weight beforehand; arguments as for `cross_entropy`. autograd does not see it.
    """
    input, target = _checked("cross_entropy_with_grad", input, target)
    loss, _, dx = _forward(input.detach(), target, ignore_index, False, True)
    return loss, dx


def _checked(op, input, target):
    rows.dtype_name(op, "input", input)
    if input.dim() != 2 or target.dim() != 1 or target.shape[0] != input.shape[0]:
        raise ValueError(
            f"{op}: expected input of shape (M, N) and target of shape (M,), got {tuple(input.shape)} and "
            f"{tuple(target.shape)}; flatten leading dimensions first"
        )
    if target.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"{op}: expected target of int64 or int32, got {target.dtype}")
    rows.check_same(op, input=input, target=target)
    return rows.autocast_to_float32(input), target


def _forward(input, target, ignore_index, with_lse, with_grad):
    """(losses, lse or None, gradient of the sum of losses or None)."""
    M, N = input.shape
    loss = torch.empty(M, dtype=torch.float32, device=input.device)
    lse = torch.empty_like(loss) if with_lse else None
    dx = torch.empty_like(input, memory_format=torch.contiguous_format) if with_grad else None
    if M == 0:
        return loss, lse, dx
    if N == 0:
        raise ValueError("cross_entropy: expected at least one class, got input of shape " + str(tuple(input.shape)))
    _check_range(target, N, ignore_index)
    x, target = rows.as_rows("cross_entropy", input), target.contiguous()
    promise = rows.promise(x, dx) if with_grad else rows.promise(x)
    run = _kernel(input.device.type, rows.DTYPE_NAMES[input.dtype], _index(target), N, promise, with_lse, with_grad)
    outputs = (loss, lse, dx) if with_grad else (loss, lse)
    rows.on_device(input, run, x, target, *outputs, ignore_index)
    return loss, lse, dx


def _backward(input, target, dloss, lse, ignore_index):
    dx = torch.empty_like(input, memory_format=torch.contiguous_format)
    if dx.numel() == 0:
        return dx
    x, target = rows.as_rows("cross_entropy", input), target.contiguous()
    promise = rows.promise(x, dx)
    run = _backward_kernel(input.device.type, rows.DTYPE_NAMES[input.dtype], _index(target), x.shape[1], promise)
    rows.on_device(input, run, x, target, dloss.float(), lse, dx, ignore_index)
    return dx


def _index(target):
    return "int64" if target.dtype == torch.int64 else "int32"


def _check_range(target, N, ignore_index):
    """IndexError for a CPU target that is no column."""
    if target.device.type == "cpu":
        wrong = target[(target != ignore_index) & ((target < 0) | (target >= N))]
        if wrong.numel():
            raise IndexError(f"cross_entropy: target {int(wrong[0])} is out of bounds, there are {N} classes")


@cache
def _kernel(device, dtype, index, N, promise, with_lse, with_grad):
    from quack_tutorial.kernels.cross_entropy import CrossEntropy, CrossEntropyFused

    own, f32 = rows.dsl_type(dtype), rows.of_rows("float32")
    x, dx = (rows.matrix_spec(dtype, N, promise, name) for name in ("x", "dx"))
    outputs = (f32, f32 if with_lse else None)
    if with_grad:
        kernel = CrossEntropyFused(own, N, promise, lse=with_lse)
        return rows.compiled(device, kernel, x, rows.of_rows(index), *outputs, dx, 0)
    kernel = CrossEntropy(own, N, promise, target=index, lse=with_lse)
    return rows.compiled(device, kernel, x, rows.of_rows(index), *outputs, 0)


@cache
def _backward_kernel(device, dtype, index, N, promise):
    from quack_tutorial.kernels.cross_entropy import CrossEntropyBackward

    x, dx = (rows.matrix_spec(dtype, N, promise, name) for name in ("x", "dx"))
    vectors = (rows.of_rows(index), rows.of_rows("float32", "dloss_stride"), rows.of_rows("float32"))
    return rows.compiled(device, CrossEntropyBackward(rows.dsl_type(dtype), N, promise), x, *vectors, dx, 0)


@torch.library.custom_op("quack_tutorial::cross_entropy", mutates_args=())
def _cross_entropy(input: torch.Tensor, target: torch.Tensor, ignore_index: int) -> tuple[torch.Tensor, torch.Tensor]:
    return _forward(input, target, ignore_index, True, False)[:2]


@torch.library.custom_op("quack_tutorial::cross_entropy_backward", mutates_args=())
def _cross_entropy_backward(
    input: torch.Tensor, target: torch.Tensor, dloss: torch.Tensor, lse: torch.Tensor, ignore_index: int
) -> torch.Tensor:
    return _backward(input, target, dloss, lse, ignore_index)


@_cross_entropy.register_fake
def _(input, target, ignore_index):
    row = input.new_empty((input.shape[0],), dtype=torch.float32)
    return row, torch.empty_like(row)


@_cross_entropy_backward.register_fake
def _(input, target, dloss, lse, ignore_index):
    return torch.empty_like(input, memory_format=torch.contiguous_format)


def _keep(ctx, inputs, output):
    input, target, ctx.ignore_index = inputs
    ctx.save_for_backward(input, target, output[1])
    ctx.mark_non_differentiable(output[1])


def _gradient(ctx, dloss, _):
    input, target, lse = ctx.saved_tensors
    return _cross_entropy_backward(input, target, dloss, lse, ctx.ignore_index), None, None


_cross_entropy.register_autograd(_gradient, setup_context=_keep)

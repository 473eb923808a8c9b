"""Cross-entropy on torch tensors, and its gradient."""

import math
from functools import cache
from numbers import Integral

import torch
from torch._C import _are_functorch_transforms_active
from torch.compiler import is_compiling

from quack_tutorial.compiler import TensorSpec
from quack_tutorial.ops import launches
from quack_tutorial.ops.registered import register, unscripted
from quack_tutorial.shipped import CROSS_ENTROPY, CROSS_ENTROPY_BACKWARD, CROSS_ENTROPY_FUSED, element

TORCHS = "torch.nn.functional.cross_entropy"
REDUCTIONS = ("mean", "sum", "none")


@unscripted
def cross_entropy(
    input,
    target,
    weight=None,
    *torchs,
    ignore_index=-100,
    reduction="mean",
    label_smoothing=0.0,
    dtype=None,
    return_lse=False,
):
    """Cross-entropy of the rows of `input`, (M, N) logits, with `target`, (M,) class indices: as torch's.

    `target` is int64 or int32, or uint8, which is converted. A row whose target is `ignore_index` has loss 0 and gradient 0; "mean"
    divides by the number of the others (NaN if there is none), or the sum of their classes' weights, if `weight`, (N,), is given.
    The loss is computed in float32 and has `dtype`: input's type, or torch.float32. With `return_lse`, returns (loss, lse), lse the
    (M,) float32 logarithms of the sums of exponentials of all rows, whose gradient takes a pass of its own over the logits; it is
    NaN for a row that holds +inf, as the loss is, where torch.logsumexp gives +inf. A target that is no column raises IndexError on
    the CPU; on a GPU, where finding out would mean waiting, its row becomes NaN.

    Far from zero losses and gradients are as accurate as near it; but a float32 loss of 16-bit logits is off by up to 2^-24 of the
    largest logit. Class weights cost a few operations on M numbers. Label smoothing reads the logits once more, in its gradient as
    well; together with class weights it takes a copy of the logits in float64.
    """
    if torchs or ignore_index.__class__ is not int or reduction.__class__ is not str:
        ignore_index = _check_options("cross_entropy", weight, torchs, ignore_index, reduction)
    route = launches.route(input, target) if target is not None else "dispatcher"
    if route == "dispatcher" or weight is not None or label_smoothing or dtype is not None:
        _check("cross_entropy", input, target, ignore_index, reduction, weight, label_smoothing)
        _check_dtype(input, dtype)
        input = launches.autocast_to_float32(input)
        if weight is not None or label_smoothing:
            return _of_classes(input, target, weight, ignore_index, reduction, label_smoothing, dtype, return_lse)
    else:
        input = launches.autocast_to_float32(input)
    wide = _is_wide(input, dtype)
    if route == "launch":
        loss, lse, _ = _forward(input, target, ignore_index, reduction, wide, int(return_lse))
        return (loss, lse) if return_lse else loss
    if route == "autograd":
        loss, lse = _CrossEntropy.apply(input, target, ignore_index, reduction, wide)
    else:
        loss, lse, _ = _cross_entropy(input, target, ignore_index, reduction, wide)
    return (loss, _log_sum_exp(input, lse)) if return_lse else loss


def _check_dtype(input, dtype):
    """TypeError for a loss of another type than the logits', which torch.autocast may change, or float32."""
    computed = launches.autocast_to_float32(input[:0]).dtype
    if dtype not in (None, computed, torch.float32):
        types = " or ".join(str(one) for one in dict.fromkeys((computed, torch.float32)))
        where = " under torch.autocast" if computed is not input.dtype else ""
        raise TypeError(f"cross_entropy: expected dtype to be {types} for {input.dtype} logits{where}, got {dtype}")


def _is_wide(input, dtype):
    """Whether the loss is float32 though input is not."""
    return dtype is torch.float32 and input.dtype is not torch.float32


def _as_index(target):
    """`target` as a kernel reads it: of 32 or 64 bits, and of stride 1, which torch does not insist on where there is one row."""
    if target.dtype is torch.uint8:
        target = target.long()
    if target.stride(0) != 1:
        launches.check_tensors("cross_entropy", target=target)  # sparse ones have a stride of 0
        target = target.clone(memory_format=torch.contiguous_format)
    return target


def _of_classes(input, target, weight, ignore_index, reduction, smoothing, dtype, return_lse):
    """The loss with weights of classes or label smoothing, from the losses without: lse - x[target], in float32.

    A row's loss is (1 - s) w[t] (lse - x[t]) + s / N sum(w (lse - x)), which is a (lse - x[t]) + s / N (W x[t] - sum(w x)) with
    W = sum(w) and a = (1 - s) w[t] + s W / N. The second term is linear in x, and the first is known without cancellation. Where
    x[t] is -inf their sum is NaN, and the loss is inf.
    """
    out = torch.float32 if _is_wide(input, dtype) else input.dtype
    target = _as_index(target)
    N, counts = input.shape[1], target != ignore_index
    # What is no column has a loss that is NaN.
    column = torch.where(counts, target, 0).long().clamp(0, N - 1)
    losses, lse = cross_entropy(
        input, target, ignore_index=ignore_index, reduction="none", dtype=torch.float32, return_lse=True
    )
    of_row = counts.float() if weight is None else torch.where(counts, weight.float()[column], 0.0)
    if weight is not None:
        mean = weight.double().mean()  # W / N
        losses = losses * ((1 - smoothing) * of_row + smoothing * mean.float() if smoothing else of_row)
    if smoothing:
        x = input.gather(1, column[:, None])[:, 0].double()
        if weight is None:
            above = x - input.mean(1, dtype=torch.float64)
        else:
            above = mean * x - input.double() @ weight.double() / N
        infinite, losses = torch.isposinf(losses), losses + smoothing * above.float()
        with torch.no_grad():  # the gradient is that of the sum, for these rows too
            losses.masked_fill_(infinite, math.inf)
    losses = torch.where(counts, losses, 0.0)
    if reduction != "none":
        losses = losses.sum() / (of_row.sum() if reduction == "mean" else 1)
    return (losses.to(out), lse) if return_lse else losses.to(out)


@unscripted
def cross_entropy_with_grad(input, target, ignore_index=-100):
    """(losses, gradient of their sum): (M,) float32 and (M, N) of input's type, in one read and one write of the logits.

    For a training step that knows its loss's weight beforehand; arguments as for `cross_entropy`. Neither result has a gradient of
    its own: differentiating one raises RuntimeError. In compiled code both are constants.
    """
    if ignore_index.__class__ is not int:
        ignore_index = _check_options("cross_entropy_with_grad", None, (), ignore_index)
    route = launches.route(input, target) if target is not None else "dispatcher"
    if route == "launch":
        return _with_grad(launches.autocast_to_float32(input), target, ignore_index)
    _check("cross_entropy_with_grad", input, target, ignore_index)
    input = launches.autocast_to_float32(input)
    # A compiler would differentiate at once.
    if is_compiling() and not _are_functorch_transforms_active():
        input = input.detach()
    return _cross_entropy_with_grad(input, target, ignore_index)


def _check_options(op, weight, torchs, ignore_index, reduction="none"):
    """ignore_index, an int; TypeError or ValueError for what no launch can be kept under, and for torch's old order."""
    if torchs:
        old = dict(zip(("size_average", "ignore_index", "reduce", "reduction", "label_smoothing"), torchs))
        size_average, reduce = (old.pop(name, None) for name in ("size_average", "reduce"))
        if size_average is not None or reduce is not None:  # in torch they override reduction
            old["reduction"] = "none" if reduce is False else "sum" if size_average is False else "mean"
        given = [] if weight is None else ["weight"]
        given += [f"{name}={value!r}" for name, value in old.items()]
        raise TypeError(
            f"{op}: what follows the weight is given by its name; write {op}(input, target, {', '.join(given)})"
        )
    if reduction not in REDUCTIONS:
        raise ValueError(f"{op}: {reduction!r} is not a valid value for reduction, one of {', '.join(REDUCTIONS)}")
    found = launches.check_number(op, "ignore_index", ignore_index, kind=Integral)
    if not -(2**63) <= found < 2**63:
        raise ValueError(f"{op}: expected ignore_index to fit int64, got {found}")
    return found


def _check(op, input, target, ignore_index, reduction="none", weight=None, smoothing=0.0):
    named = {int: "ignore_index", str: "reduction"}.get(type(weight))
    launches.check_tensors(op, input=input, target=target)
    launches.check_tensors(op, named and f"; write {op}(input, target, {named}={weight!r})" or "", weight=weight)
    if target.is_floating_point() and not input.is_floating_point():
        raise TypeError(f"{op}: expected logits and then class indices; write {op}(target, input)")
    launches.dtype_name(op, "input", input)
    if target.is_floating_point() and target.shape == input.shape:
        raise TypeError(
            f"{op}: class probabilities as targets are not covered; write torch.nn.functional.cross_entropy(input, target)"
        )
    if input.dim() != 2 or target.dim() != 1 or target.shape[0] != input.shape[0]:
        raise ValueError(
            f"{op}: expected input of shape (M, N) and target of shape (M,), got {tuple(input.shape)} and "
            f"{tuple(target.shape)}{_as_matrix(op, input, target)}"
        )
    if target.dtype not in (torch.int64, torch.int32, torch.uint8):
        raise TypeError(f"{op}: expected target of int64, int32 or uint8, got {target.dtype}")
    _check_options(op, weight, (), ignore_index, reduction)
    launches.check_same(op, input=input, target=target, weight=weight)
    if input.shape[1] == 0:
        raise ValueError(f"{op}: expected at least one class, got input of shape {tuple(input.shape)}")
    if weight is not None and (weight.shape != (input.shape[1],) or not weight.is_floating_point()):
        raise ValueError(
            f"{op}: expected weight of shape ({input.shape[1]},), a float for each class, got {tuple(weight.shape)} of "
            f"{str(weight.dtype).removeprefix('torch.')}"
        )
    if not 0 <= launches.check_number(op, "label_smoothing", smoothing) <= 1:
        raise ValueError(f"{op}: expected label_smoothing between 0 and 1, got {smoothing}")


def _as_matrix(op, input, target):
    """How logits of another shape are written as a matrix, where the target's shape says which dimension holds the classes."""
    shape = input.shape
    if input.dim() == 1 and target.dim() == 0:
        return f"; write {op}(input[None], target[None])"
    if input.dim() > 2 and target.shape == (shape[0], *shape[2:]):
        return f"; write {op}(input.movedim(1, -1).reshape(-1, {shape[1]}), target.flatten())"
    if input.dim() > 2 and target.shape == shape[:-1]:
        return f"; write {op}(input.flatten(0, -2), target.flatten())"
    return ""


_launches = {}
_backward_launches = {}
_fused_launches = {}


def _forward(input, target, ignore_index, reduction, wide, lse_rank):
    """(loss, lse or None, 1 / number of rows that count or None).

    `wide` losses are float32, whatever input is. The last two results are what a gradient takes. lse has `lse_rank` dimensions:
    none if it is 0, (M,), or for a gradient (2, M), with what its rounding to float32 left off.
    """
    fits = input.dim() == 2 and target.dim() == 1 and target.size(0) == input.size(0)
    flags = ignore_index, reduction, wide, lse_rank
    key = flags, launches.launch_key(input), target.dtype, target.device, fits
    launch = _launches.get(key)
    if launch is None:
        launch = launches.keep(_launches, key, _prepare(input, target, *flags))
    return launch(input, target)


def _prepare(input, target, ignore_index, reduction, wide, lse_rank):
    """The launch for tensors like these."""
    _check("cross_entropy", input, target, ignore_index, reduction)
    launches.check_rows("cross_entropy", input, TORCHS)
    x, dtype = launches.as_rows("cross_entropy", input), launches.DTYPE_NAMES[input.dtype]
    mean = reduction == "mean"
    with_scale = mean and lse_rank == 2
    kept = None if reduction == "none" else (mean, with_scale)
    out = "float32" if wide else dtype
    kernel = _kernel(x.device.type, dtype, out, _index(target), x.shape[1], launches.promise(x), lse_rank, kept)
    run, is_matrix, of_bytes = _checked_on_cpu(kernel, x), x is input, target.dtype is torch.uint8
    # Losses that are added up stay float32.
    loss_dtype = torch.float32 if wide or reduction != "none" else input.dtype
    # empty_like is quicker than new_empty.
    number = input.new_empty((), dtype=torch.float32 if wide else input.dtype)

    def launch(input, target):
        if of_bytes or target.stride(0) != 1:
            target = _as_index(target)
        losses = torch.empty_like(target, dtype=loss_dtype)
        lse = torch.empty_like(target, dtype=torch.float32) if lse_rank == 1 else None
        if lse_rank == 2:
            lse = torch.empty((2, len(target)), dtype=torch.float32, device=target.device)
        loss, scale, out = losses, None, ()
        if reduction != "none":
            loss = torch.empty_like(number)
            scale = torch.empty_like(number, dtype=torch.float32) if with_scale else None
            out = loss, scale
        if input.shape[0]:
            run(
                input if is_matrix else launches.as_rows("cross_entropy", input),
                target,
                losses,
                lse,
                *out,
                ignore_index,
            )
        elif out:
            loss.fill_(math.nan if mean else 0.0)
        return loss, lse, scale

    return launch


def _backward(input, target, dloss, lse, ignore_index, scale=None):
    key = launches.launch_key(input), target.dtype, dloss.dtype, lse.dim(), scale is None
    launch = _backward_launches.get(key)
    if launch is None:
        if dloss.dtype not in launches.DTYPE_NAMES:
            return _backward(input, target, dloss.float(), lse, ignore_index, scale)
        launch = launches.keep(_backward_launches, key, _prepare_backward(input, target, dloss, lse, scale))
    return launch(input, target, dloss, lse, ignore_index, scale)


def _prepare_backward(input, target, dloss, lse, scale):
    """The launch for tensors like these; how far apart the elements of dloss are makes no difference."""
    x, empty_like = launches.as_rows("cross_entropy", input), launches.contiguous_like(input)
    names = launches.DTYPE_NAMES[x.dtype], _index(target), launches.DTYPE_NAMES[dloss.dtype]
    promise = launches.promise(x, launches.one_row(x))
    kernel = _backward_kernel(x.device.type, *names, x.shape[1], promise, lse.dim(), scale is not None)
    run, is_matrix = launches.guarded(kernel, x.device), x is input
    of_bytes = target.dtype is torch.uint8

    def launch(input, target, dloss, lse, ignore_index, scale):
        dx = empty_like(input)
        if input.shape[0]:
            x = input if is_matrix else launches.as_rows("cross_entropy", input)
            if of_bytes or target.stride(0) != 1:
                target = _as_index(target)
            run(x, target, dloss, lse, dx, scale, ignore_index)
        return dx

    return launch


def _with_grad(input, target, ignore_index, in_place=False):
    """(losses, gradient of their sum), the latter where input was if that may be."""
    fits = input.dim() == 2 and target.dim() == 1 and target.size(0) == input.size(0)
    key = ignore_index, launches.launch_key(input), target.dtype, target.device, fits
    launch = _fused_launches.get(key) or launches.keep(
        _fused_launches, key, _prepare_fused(input, target, ignore_index)
    )
    return launch(input, target, in_place)


def _prepare_fused(input, target, ignore_index):
    """The launch for tensors like these."""
    _check("cross_entropy_with_grad", input, target, ignore_index)
    launches.check_rows("cross_entropy_with_grad", input, TORCHS)
    x = launches.as_rows("cross_entropy_with_grad", input)
    empty_like = launches.contiguous_like(input)
    promise = launches.promise(x, launches.one_row(x))
    kernel, at_once = _fused_kernel(x.device.type, launches.DTYPE_NAMES[x.dtype], _index(target), x.shape[1], promise)
    run, is_matrix, of_bytes = _checked_on_cpu(kernel, x), x is input, target.dtype is torch.uint8

    def launch(input, target, in_place=False):
        if of_bytes or target.stride(0) != 1:
            target = _as_index(target)
        losses = torch.empty_like(target, dtype=torch.float32)
        dx = input if in_place and at_once and len(input) % at_once == 0 else empty_like(input)
        if input.shape[0]:
            x = input if is_matrix else launches.as_rows("cross_entropy_with_grad", input)
            run(x, target, losses, None, dx, ignore_index)
        return losses, dx

    return launch


class _CrossEntropy(torch.autograd.Function):
    """What autograd sees of a call past the dispatcher."""

    @staticmethod
    def forward(ctx, input, target, ignore_index, reduction, wide):
        loss, lse, scale = _forward(input, target, ignore_index, reduction, wide, 2)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(lse)
        ctx.ignore_index, ctx.reduction = ignore_index, reduction
        ctx.save_for_backward(input, target, lse, scale)
        return loss, lse

    @staticmethod
    def backward(ctx, dloss, _):
        return _gradient_with(_backward if launches.is_plain(dloss) else _cross_entropy_backward, ctx, dloss)


def _gradient_with(backward, ctx, dloss):
    """The gradients of (input, target, ignore_index, reduction, wide), from what `ctx` holds."""
    if dloss is None:  # nothing that is differentiated depends on the loss
        return None, None, None, None, None
    input, target, lse, scale = ctx.saved_tensors
    if ctx.reduction != "none":
        dloss = dloss.expand(target.shape)  # one number for all rows, and it stays on the device
    factor = scale if ctx.reduction == "mean" else None
    return backward(input, target, dloss, lse, ctx.ignore_index, factor), None, None, None, None


def _index(target):
    return "int32" if target.dtype == torch.int32 else "int64"


def _checked_on_cpu(run, x):
    """`run`, on tensors like x: on the CPU with an IndexError for a target that is no column."""
    if x.device.type != "cpu":
        return launches.guarded(run, x.device)

    def checked(x, target, *rest):
        N, ignore_index = x.shape[1], rest[-1]
        wrong = target[(target != ignore_index) & ((target < 0) | (target >= N))]
        if wrong.numel():
            raise IndexError(f"cross_entropy: target {int(wrong[0])} is out of bounds, there are {N} classes")
        run(x, target, *rest)

    return checked


@cache
def _kernel(device, dtype, out, index, N, promise, lse_rank, reduced=None):
    """The losses of rows; where `reduced` is (mean, with_scale), their mean or sum as well."""
    given = dict(target=index, loss="float32" if reduced else out, lse=_lse_spec(lse_rank))
    kernel, specs = CROSS_ENTROPY.made_for(launches.rows(device, dtype, N, promise), **given)
    if not reduced:
        return launches.runner_for(device, kernel, specs)
    from quack_tutorial.kernels.tuned.sums import LossReduction, ReducedCrossEntropy

    mean, with_scale = reduced
    # The whole element's alignment: with less, a float32 number was stored in two halves, and one of them was lost.
    numbers = TensorSpec(out, (), (), element(out).width // 8), TensorSpec("float32", (), (), 4) if with_scale else None
    both = ReducedCrossEntropy(kernel, LossReduction(element(out), mean))
    return launches.runner_for(device, both, (*specs[:-1], *numbers, specs[-1]))


@cache
def _fused_kernel(device, dtype, index, N, promise):
    """(the launch, of how many rows' multiples the gradients may lie where the rows did; 0: of none)."""
    kernel, specs = CROSS_ENTROPY_FUSED.made_for(launches.rows(device, dtype, N, promise), target=index)
    # Warps meet after all have read the target's logit, lanes do not. Threads beyond the last row read that row, at any time.
    at_once = max(1, kernel.config.blocks_together) if kernel.config.threads_per_row > 32 else 0
    return launches.runner_for(device, kernel, specs), at_once


def _lse_spec(rank):
    return (None, "float32", TensorSpec("float32", (2, "M"), ("lse_stride", 1), 4))[rank]


@cache
def _backward_kernel(device, dtype, index, dloss, N, promise, lse_rank, scaled):
    given = dict(target=index, dloss=dloss, lse=_lse_spec(lse_rank), scale=scaled and "float32")
    return launches.runner_for(
        device, *CROSS_ENTROPY_BACKWARD.made_for(launches.rows(device, dtype, N, promise), **given)
    )


@register(
    "cross_entropy_backward",
    lambda input, *_: torch.empty_like(input, memory_format=torch.contiguous_format),
    TORCHS,
)
def _cross_entropy_backward(
    input: torch.Tensor,
    target: torch.Tensor,
    dloss: torch.Tensor,
    lse: torch.Tensor,
    ignore_index: int,
    scale: torch.Tensor | None = None,
) -> torch.Tensor:
    return _backward(input, target, dloss, lse, ignore_index, scale)


def _fake(input, target, ignore_index, reduction, wide=False):
    launches.check_rows("cross_entropy", input, TORCHS)
    dtype = torch.float32 if wide else input.dtype
    loss = input.new_empty((input.shape[0],) if reduction == "none" else (), dtype=dtype)
    lse = input.new_empty((2, input.shape[0]), dtype=torch.float32)
    return loss, lse, lse.new_empty(() if reduction == "mean" else (0,))


def _keep(ctx, inputs, output):
    input, target, ctx.ignore_index, ctx.reduction, *_ = inputs
    ctx.mark_non_differentiable(*output[1:])
    ctx.save_for_backward(input, target, *output[1:])


def _gradient(ctx, dloss, *_):
    return _gradient_with(_cross_entropy_backward, ctx, dloss)


@register("cross_entropy", _fake, TORCHS, _keep, _gradient)
def _cross_entropy(
    input: torch.Tensor, target: torch.Tensor, ignore_index: int, reduction: str, wide: bool = False
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    loss, lse, scale = _forward(input, target, ignore_index, reduction, wide, 2)
    return loss, lse, lse.new_empty(0) if scale is None else scale


def _keep_lse(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _gradient_of_lse(ctx, dlse):
    """softmax times dlse: the gradient of losses of column 0, whose own elements are written again without the loss's -1."""
    input, lse = ctx.saved_tensors
    column = torch.zeros(input.shape[0], dtype=torch.int64, device=input.device)
    dx = _cross_entropy_backward(input, column, dlse, lse, -1)
    first = (input[:, 0].float() - lse[0] - lse[1]).exp() * dlse
    return torch.select_scatter(dx, first.to(dx.dtype), 1, 0), None


@register(
    "cross_entropy_lse",
    lambda input, lse: lse.new_empty(lse.shape[1:]),
    "torch.logsumexp",
    _keep_lse,
    _gradient_of_lse,
)
def _log_sum_exp(input: torch.Tensor, lse: torch.Tensor) -> torch.Tensor:
    """What a (2, M) lse of input's rows is in float32."""
    return lse[0].clone()


def _fake_with_grad(input, target, ignore_index):
    launches.check_rows("cross_entropy_with_grad", input, TORCHS)
    dx = torch.empty_like(input, memory_format=torch.contiguous_format)
    return input.new_empty(target.shape, dtype=torch.float32), dx


@register("cross_entropy_with_grad", _fake_with_grad, "quack_tutorial.ops.cross_entropy")
def _cross_entropy_with_grad(
    input: torch.Tensor, target: torch.Tensor, ignore_index: int
) -> tuple[torch.Tensor, torch.Tensor]:
    return _with_grad(input, target, ignore_index)

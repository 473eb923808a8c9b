"""What the operations share: tensors as rows, what is known about their addresses, and the kernel's launch.

A call like an earlier one costs one look-up in a dictionary beside the launch. An operation checks its arguments, chooses
the kernel and has it compiled in its `_prepare`, its gradient in its `_prepare_backward`. Each gives a launch: a function that
allocates the outputs and runs the kernel, for these arguments and all like them. It is kept under a key of everything that was
looked at (see `launch_key`). How many rows a matrix has is not part of that, so batches of all sizes share a launch; tensors of
other ranks have one for each shape. At MOST_KEPT launches a module forgets them all and begins again.
"""

from __future__ import annotations

from functools import cache, partial
from numbers import Integral, Real
from types import SimpleNamespace

import torch
from torch._C import _are_functorch_transforms_active, _is_tracing, _len_torch_dispatch_stack
from torch.autograd import forward_ad
from torch.compiler import is_compiling

from quack_tutorial import hardware, shipped
from quack_tutorial.compiler import MAX_ALIGNMENT, compile_for

MOST_KEPT = 1024  # launches of one operation; each takes about a kilobyte
# Not their subclasses, which have ideas of their own about operations.
PLAIN = {torch.Tensor, torch.nn.Parameter}
DTYPE_NAMES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}


def dtype_name(op, name, tensor):
    """ "float32" and so on; TypeError for a type that the kernels do not have."""
    found = DTYPE_NAMES.get(tensor.dtype)
    if found is None:
        raise TypeError(f"{op}: expected {name} of float32, float16 or bfloat16, got {tensor.dtype}")
    return found


REQUIRED = ("input", "target")


def check_tensors(op, advice="", **tensors):
    """TypeError unless all of them are dense torch tensors, or None where they may be; `advice` ends the sentence."""
    for name, tensor in tensors.items():
        if tensor is None and name not in REQUIRED:
            continue
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{op}: expected {name} to be a tensor, got {tensor!r:.60}{advice}")
        if tensor.is_nested:
            raise TypeError(
                f"{op}: expected {name} to be a dense tensor, got a nested one; call it for each of {name}.unbind()"
            )
        if tensor.layout is not torch.strided:
            layout = str(tensor.layout).removeprefix("torch.")
            raise TypeError(f"{op}: expected {name} to be a dense tensor, got layout {layout}; write {name}.to_dense()")


def check_number(op, name, number, advice="", kind=Real):
    """The number, a float or of another kind; TypeError for anything else."""
    if isinstance(number, bool) or not isinstance(number, kind):
        what = "a number" if kind is Real else "an integer"
        raise TypeError(f"{op}: expected {name} to be {what}, got {number!r:.60}{advice}")
    return float(number) if kind is Real else int(number)


def check_last(op, dim, input):
    """ValueError unless `dim` is the last dimension."""
    last = max(input.dim(), 1) - 1
    if dim not in (-1, last):
        said = f"{op}: only the last dimension is supported (dim=-1 or {last}), got dim={dim}"
        if isinstance(dim, Integral) and -last <= dim + 1 <= last:
            said += f"; write ops.{op}(input.movedim({dim}, -1).contiguous()).movedim(-1, {dim})"
        raise ValueError(said)


def check_rows(op, input, torchs):
    """ValueError unless a kernel can take input's rows; what `torchs` names takes longer ones."""
    from quack_tutorial.kernels.config import MAX_N

    if columns(input) > MAX_N:
        raise ValueError(
            f"{op}: a row has at most {MAX_N} elements, got input of shape {tuple(input.shape)}; call {torchs} there"
        )
    as_rows(op, input)


def check_same(op, **tensors):
    """RuntimeError unless all tensors (None left out) are on one device."""
    devices = {name: tensor.device for name, tensor in tensors.items() if tensor is not None}
    if len(set(devices.values())) > 1:
        where = ", ".join(f"{name} on {device}" for name, device in devices.items())
        raise RuntimeError(f"{op}: expected all tensors to be on the same device, got {where}")


def as_rows(op, input):
    """`input` as an (M, N) view with contiguous rows; ValueError where only a copy could be."""
    try:
        x = input if input.dim() == 2 else input.view(-1, input.shape[-1] if input.dim() else 1)
    except (RuntimeError, ValueError) as error:
        raise ValueError(
            f"{op}: the leading dimensions are not rows one stride apart (shape {tuple(input.shape)}, strides "
            f"{input.stride()}); call .contiguous() first"
        ) from error
    if x.stride(1) == 1:
        return x
    # Torch gives a dimension of one element, or none, any stride.
    if x.shape[1] == 1 or not x.numel():
        return x.as_strided(x.shape, (x.stride(0), 1))
    raise ValueError(
        f"{op}: the last dimension must have stride 1, got strides {input.stride()}; call .contiguous() first"
    )


def columns(input):
    """The length of a row."""
    return input.shape[-1] if input.dim() else 1


def one_row(x):
    """A row of x's type as a new tensor has it: what `promise` needs to know of an output that is not there yet."""
    return x.new_empty(1, x.shape[1])


def contiguous_like(input):
    """torch.empty_like for tensors like `input`, with a contiguous result; quicker where it would be so anyway."""
    if input.dim() == 2 and input.stride() == (input.shape[1], 1):
        return torch.empty_like
    return partial(torch.empty_like, memory_format=torch.contiguous_format)


def is_packed(tensor):
    """Whether `tensor` and all like it (see `launch_key`) are contiguous; a matrix of one row may only happen to be so. None is."""
    if tensor is None:
        return True
    if tensor.dim() == 2:
        return tensor.stride() == (max(tensor.shape[1], 1), 1)
    return tensor.is_contiguous() and tensor.stride()[-1:] in ((), (1,))


def packed(tensor):
    """`tensor` if it is packed, else one that is, with its elements."""
    if is_packed(tensor):
        return tensor
    # What torch calls contiguous may have any stride in a dimension of one element: 0 if it was expanded.
    return tensor.contiguous().as_strided(tensor.shape, torch.empty(tensor.shape, device="meta").stride())


def promise(*matrices):
    """What is known about the addresses of all rows: "aligned", "congruent" or "any" (see `kernels.tuned.row_tile`)."""
    starts, steps, aligned = set(), set(), True
    for x in matrices:
        size = x.element_size()
        start, step = x.data_ptr(), x.stride(0) * size
        if (start | step) % MAX_ALIGNMENT:
            aligned = False
        elements = MAX_ALIGNMENT // size
        starts.add(start // size % elements)
        steps.add(step // size % elements)
    if aligned:
        return "aligned"
    same_size = len({x.element_size() for x in matrices}) == 1
    return "congruent" if same_size and len(starts) == len(steps) == 1 else "any"


def runner_for(device, kernel, specs):
    """`kernel` as a callable on tensors of `device` in the order of `specs`: "cuda", "cpu", or "meta", which have no elements."""
    if device == "cpu":
        from cutesim.simulation import simulate

        return lambda *args: simulate(kernel, *args, check=False)
    if device == "meta":
        return lambda *args: None
    return compile_for(kernel, *specs)


@cache
def card_of(device):
    """The GPU whose sizes kernels for tensors of `device` have: torch's current one; elsewhere the one that is selected."""
    if device != "cuda":
        from quack_tutorial import card

        return card.selected()
    capability = torch.cuda.get_device_capability()
    return SimpleNamespace(capability=capability, **hardware.sm_of(capability))


def rows(device, dtype, N, promise):
    """What a kernel for tensors of `device` is compiled for."""
    return shipped.Rows(dtype, N, promise, card_of(device))


def guarded(run, device):
    """`run`, with the current CUDA device being `device` while it runs, if it could be another one."""
    if device.type != "cuda" or torch.cuda.device_count() == 1:
        return run

    # torch.cuda.current_device also asks whether CUDA has been started, which a tensor on it has done.
    current_device, index = torch._C._cuda_getDevice, device.index

    def on_device(*args):
        if current_device() == index:
            run(*args)
        else:
            with torch.cuda.device(device):
                run(*args)

    return on_device


def route(*tensors):
    """Where a call goes: to the "dispatcher" if it is traced or transformed, or a tensor is of a subclass, or its elements are
    not what its memory holds; else to "autograd" if a gradient is wanted, else to the "launch"."""
    if is_compiling() or _len_torch_dispatch_stack() or _are_functorch_transforms_active() or _is_tracing():
        return "dispatcher"
    if forward_ad._current_level >= 0:  # a dual tensor has a tangent, which the dispatcher refuses
        return "dispatcher"
    found = "launch" if tensors[0] is not None else "dispatcher"  # which refuses it with a sentence
    for tensor in tensors:
        if tensor is not None:
            if type(tensor) not in PLAIN or tensor.is_neg() or tensor._is_zerotensor():
                return "dispatcher"
            if tensor.requires_grad and torch.is_grad_enabled():
                found = "autograd"
    return found


def launch_key(tensor):
    """All that a launch depends on in a tensor, or None; of a matrix, not how many rows it has."""
    if tensor is None:
        return None
    try:
        shape = tensor.shape
        columns = shape[-1] if len(shape) == 2 else shape
        return tensor.dtype, columns, tensor.stride(), tensor.device, tensor.data_ptr() % MAX_ALIGNMENT
    except (
        RuntimeError
    ):  # sparse, mkldnn and nested tensors have no strides or no address; `check_tensors` refuses them
        return tensor.layout, tensor.is_nested


def keep(launches, key, launch):
    """`launch`, kept for calls with the same key."""
    if len(launches) >= MOST_KEPT:
        launches.clear()
    launches[key] = launch
    return launch


def is_plain(*gradients):
    """Whether the gradient of these gradients is a launch: nobody traces, batches or differentiates what comes of them."""
    if torch.is_grad_enabled() or route(*gradients) != "launch":
        return False
    try:
        return all(gradient is None or gradient.data_ptr() is not None for gradient in gradients)
    except RuntimeError:  # is_grads_batched brings tensors without memory of their own
        return False


def autocast_to_float32(input, on=("cuda", "cpu")):
    """`input`, in float32 where torch.autocast would have it so for this operation on these kinds of devices."""
    if input.dtype is torch.bfloat16 or input.dtype is torch.float16:
        kind = "cuda" if input.is_cuda else "cpu"
        if torch.is_autocast_enabled(kind) and kind in on:
            return input.float()
    return input

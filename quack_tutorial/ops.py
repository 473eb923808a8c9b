"""What a torch user calls: the operations on torch tensors, on the GPU's kernels or on the simulator.

| function  | computes                        | CUDA tensors                         | CPU tensors                |
|-----------|---------------------------------|--------------------------------------|----------------------------|
| `softmax` | softmax over the last dimension | compiled once for a dtype and length | the same kernel, simulated |

Arguments are checked before anything runs; nothing is copied, converted or computed another way behind the caller's
back. One compiled kernel serves every number of rows.

Not covered: gradients, torch.compile.
"""

from functools import cache

import torch

from quack_tutorial.compiler import DTYPES, MAX_ALIGNMENT, TensorSpec, compile_for

_DTYPE_NAMES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}


def softmax(input, dim=-1):
    """Softmax of `input` over its last dimension, as torch.softmax(input, dim=-1); the result is contiguous.

    `input` is float32, float16 or bfloat16 of any shape, with at most 16384 elements in its last dimension, which must
    have stride 1; rows may be any stride apart and start at any address. Raises TypeError, ValueError or RuntimeError
    before anything is launched.
    """
    dtype = _DTYPE_NAMES.get(input.dtype)
    if dtype is None:
        raise TypeError(f"softmax: expected float32, float16 or bfloat16, got {input.dtype}")
    last = max(input.dim(), 1) - 1
    if dim not in (-1, last):
        raise ValueError(f"softmax: only the last dimension is supported (dim=-1 or {last}), got dim={dim}")
    if input.requires_grad and torch.is_grad_enabled():
        raise RuntimeError("softmax: no gradients yet; call it under torch.no_grad() or on input.detach()")
    output = torch.empty_like(input, memory_format=torch.contiguous_format)
    if output.numel() == 0:
        return output
    x = _rows(input, "softmax")
    out = output if x is input else output.view(x.shape)
    run = _softmax_on(input.device.type, dtype, x.shape[1], _row_alignment(x, out))
    if input.is_cuda and input.device.index != torch.cuda.current_device():
        with torch.cuda.device(input.device):
            run(x, out)
    else:
        run(x, out)
    return output


@cache
def _softmax_on(device, dtype, N, rows):
    """The softmax kernel for rows of N elements as a callable (x, out) on CUDA or CPU tensors."""
    from quack_tutorial.kernels import softmax as kernels

    kernel = kernels.Softmax(getattr(kernels.cutlass, DTYPES[dtype]), N, rows)
    if device == "cpu":
        from quack_tutorial.simulator import simulate

        return lambda x, out: simulate(kernel, x, out, check=False)
    align = MAX_ALIGNMENT if rows == "aligned" else kernel.dtype.width // 8
    x, out = (TensorSpec(dtype, ("M", N), (name, 1), align) for name in ("x_stride", "out_stride"))
    return compile_for(kernel, x, out)


def _rows(input, op):
    """`input` as an (M, N) view with contiguous rows; ValueError where only a copy could be."""
    try:
        x = input if input.dim() == 2 else input.view(-1, input.shape[-1] if input.dim() else 1)
    except RuntimeError as error:
        raise ValueError(
            f"{op}: the leading dimensions are not rows one stride apart (shape {tuple(input.shape)}, strides "
            f"{input.stride()}); call .contiguous() first"
        ) from error
    if x.stride(1) == 1:
        return x
    if x.shape[1] == 1:  # torch gives a dimension of one element any stride
        return x.as_strided(x.shape, (x.stride(0), 1))
    raise ValueError(
        f"{op}: the last dimension must have stride 1, got strides {input.stride()}; call .contiguous() first"
    )


def _row_alignment(x, out):
    """What is known about the addresses of rows of x and out: "aligned", "congruent" or "any" (see kernels.Softmax)."""
    size = x.element_size()
    x_start, x_step = x.data_ptr(), x.stride(0) * size
    out_start, out_step = out.data_ptr(), out.stride(0) * size
    if (x_start | x_step | out_start | out_step) % MAX_ALIGNMENT == 0:
        return "aligned"
    if (x_start - out_start) % MAX_ALIGNMENT == 0 and (x_step - out_step) % MAX_ALIGNMENT == 0:
        return "congruent"
    return "any"

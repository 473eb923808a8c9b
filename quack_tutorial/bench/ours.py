"""How this package's own kernels are set up for the benchmark, and the PTX of what is timed."""

from __future__ import annotations


def softmax(x):
    """Set up the softmax of `quack_tutorial.ops`."""
    from quack_tutorial import ops

    return ops.softmax


def softmax_ptx(provider: str, dtype: str, N: int) -> str:
    """The PTX that "ours" (ops.softmax) or a version of the ladder runs for contiguous rows of N; needs no GPU."""
    from quack_tutorial import compiler

    kernel, x, out = softmax_kernel("one read (final)" if provider == "ours" else provider, dtype, N)
    return compiler.ptx(kernel, x, out)


def softmax_version(version: str):
    """Set up one version of the lesson's ladder: "three-pass", "online" or "one read (final)"."""

    def setup(x):
        import torch

        from quack_tutorial import compiler

        run = compiler.compile_for(*softmax_kernel(version, str(x.dtype).removeprefix("torch."), x.shape[1]))

        def call(x):
            out = torch.empty_like(x)
            run(x, out)
            return out

        return call

    return setup


def softmax_kernel(version: str, dtype: str, N: int):
    """The host object of a version and the specs of its x and out, contiguous tensors of any number of rows."""
    from quack_tutorial.compiler import DTYPES, MAX_ALIGNMENT, TensorSpec
    from quack_tutorial.kernels import softmax as kernels

    element = getattr(kernels.cutlass, DTYPES[dtype])
    aligned = N * element.width // 8 % MAX_ALIGNMENT == 0
    align = MAX_ALIGNMENT if aligned else element.width // 8
    kernel = {
        "three-pass": kernels.SoftmaxThreePass,
        "online": kernels.SoftmaxOnline,
        "one read (final)": lambda: kernels.Softmax(element, N, "aligned" if aligned else "congruent"),
    }[version]()
    return kernel, *(TensorSpec(dtype, ("M", N), (stride, 1), align) for stride in ("x_stride", "out_stride"))

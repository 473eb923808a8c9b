"""Host functions for kernels of published packages that take pointers, or that have none of their own."""

import cutlass.cute as cute


class ByPointers:
    """Calls a host function that takes pointers with those of tensors; `known` is compiled in."""

    def __init__(self, host, **known):
        self.host, self.known = host, known

    @cute.jit
    def __call__(self, *args):
        self.host(*[x.iterator if isinstance(x, cute.Tensor) else x for x in args], **self.known)


class Launched:
    """Launches a kernel; `known`, its first arguments, are compiled in."""

    def __init__(self, kernel, grid, block, *known):
        self.kernel, self.grid, self.block, self.known = kernel, grid, block, known

    @cute.jit
    def __call__(self, *args):
        self.kernel(*self.known, *args).launch(grid=self.grid, block=self.block)

"""128-bit copies of addresses that the compiler knows, or does not know, to be multiples of 16 bytes."""

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32


class Wide:
    """Copies four numbers from a place in x that `how` says."""

    def __init__(self, how):
        self.how = how

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor, n: Int32):
        self.kernel(x, out, n).launch(grid=[1, 1, 1], block=[8, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor, n: Int32):
        t, _, _ = cute.arch.thread_idx()
        r = cute.make_rmem_tensor((4,), Float32)
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), Float32, num_bits_per_copy=128)
        pairs = cute.make_tensor(x.iterator, cute.make_layout((8, 8, 32), stride=(256, 2, 1)))
        if cutlass.const_expr(self.how == "tile"):
            cute.copy(atom, cute.local_tile(x, (4,), (t,)), r)
        if cutlass.const_expr(self.how == "pointer + n"):
            cute.copy(atom, cute.make_tensor(x.iterator + n, cute.make_layout(4)), r)
        if cutlass.const_expr(self.how == "pointer + 4 * n"):
            cute.copy(atom, cute.make_tensor(x.iterator + 4 * n, cute.make_layout(4)), r)
        if cutlass.const_expr(self.how == "pointer + assumed n"):
            cute.copy(atom, cute.make_tensor(x.iterator + cute.assume(n, divby=4), cute.make_layout(4)), r)
        if cutlass.const_expr(self.how == "offset n"):
            cute.copy(atom, cute.local_tile(cute.domain_offset((n,), x), (4,), (t,)), r)
        if cutlass.const_expr(self.how == "offset 4"):
            cute.copy(atom, cute.local_tile(cute.domain_offset((4,), x), (4,), (t,)), r)
        if cutlass.const_expr(self.how == "row n, constant 2"):
            cute.copy(atom, cute.local_tile(pairs[n, 2, None], (4,), (t,)), r)
        if cutlass.const_expr(self.how == "row n, n"):
            cute.copy(atom, cute.local_tile(pairs[n, n, None], (4,), (t,)), r)
        if cutlass.const_expr(self.how == "autovec, offset n"):
            cute.autovec_copy(cute.local_tile(cute.domain_offset((n,), x), (4,), (t,)), r)
        out[t] = r[0]
